//! Groups of ranks: their devices, and the state of their calls.

use crate::exchange::{Exchange, error};
use crate::kernel::MOST_RANKS;
use crate::nccl::Communicators;
use crate::rendezvous::Rendezvous;
use crate::round::Kind;
use crate::workspace::Window;
use moye_runtime::{Arch, Device, Error, Event, Result, Stream};
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The default timeout for another rank.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Ranks that multiply together, each with a GPU: all GPUs of one process, or one GPU of each of
/// several processes on a host.
///
/// Ranks write to each other's *workspace* and raise each other's *flags*. A workspace has two
/// halves, which alternate between calls. Flags count calls and are never reset: a rank raises the
/// flag of a call after all its work of earlier calls, and waits for the flags of all others. So a
/// half is written only after all ranks have read what the call before the previous one left in it.
/// A rank that gives up waiting breaks this order; it first writes a word to all workspaces, which
/// tells the others.
pub struct Group {
    pub(crate) world: usize,
    pub(crate) members: Vec<Member>,
    pub(crate) exchange: Exchange,
    pub(crate) timeout: Duration,
    state: Mutex<State>,
    pub(crate) communicators: OnceLock<Communicators>,
    /// Why ranks cannot access each other's memory, if they cannot.
    pub(crate) apart: Option<String>,
}

/// A rank of this caller.
pub(crate) struct Member {
    pub rank: usize,
    pub device: Device,
    /// The stream of its copies to other ranks.
    pub side: Stream,
}

/// The state that changes from call to call.
#[derive(Default)]
pub(crate) struct State {
    /// The number of the last call.
    pub epoch: u32,
    /// The number of products built.
    pub built: u32,
    /// The workspace of each member.
    pub windows: Vec<Window>,
    /// Bytes of half a workspace.
    pub half: usize,
    /// The architecture of each rank's device.
    pub archs: Vec<Arch>,
    /// For each member the stream of its last call, kept alive so that no other one gets its
    /// handle, and the call's end.
    pub last: Vec<Option<(Stream, Event)>>,
    /// Why the group is unusable, if it is.
    pub failed: Option<String>,
    /// Kinds of calls that all ranks have made.
    pub known: HashSet<Kind>,
}

impl Group {
    /// A group of this process's devices, by rank; one thread issues the work of all of them.
    ///
    /// ```
    /// use moye::Device;
    /// let group = moye_parallel::Group::local(&Device::sim_peers(2))?;
    /// assert_eq!((group.world(), group.ranks().collect::<Vec<_>>()), (2, vec![0, 1]));
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// No devices, more than 8, or one twice; or an error of the driver.
    pub fn local(devices: &[Device]) -> Result<Self> {
        if let Some(twice) = (1..devices.len()).find(|&at| devices[..at].contains(&devices[at])) {
            return Err(error(format!("{:?} is given twice; each rank has a device", devices[twice])));
        }
        let world = devices.len();
        check_world(world)?;
        Self::new(devices.iter().cloned().enumerate().collect(), world, Exchange::Own, TIMEOUT)
    }

    /// A group whose ranks share a device, for tests on a machine with one GPU. Kernels that fill
    /// the GPU while they wait would block each other.
    #[doc(hidden)]
    pub fn on_one_device(device: &Device, world: usize) -> Result<Self> {
        check_world(world)?;
        Self::new((0..world).map(|rank| (rank, device.clone())).collect(), world, Exchange::Own, TIMEOUT)
    }

    /// One rank with its device; the other processes or threads do the same. Returns when all have
    /// arrived. Threads with simulators use those of one [`Device::sim_peers`].
    ///
    /// # Errors
    /// On all ranks: a rank that does not arrive within `timeout`, which later calls use too; two
    /// ranks on one GPU; GPUs beside simulators. More than 8 ranks; an address without a port; or
    /// an error of the driver.
    pub fn join(device: &Device, rendezvous: Rendezvous, timeout: Duration) -> Result<Self> {
        let (rank, world) = (rendezvous.rank, rendezvous.world);
        check_world(world)?;
        let exchange = rendezvous.meet(timeout)?;
        Self::new(vec![(rank, device.clone())], world, exchange, timeout)
    }

    fn new(
        devices: Vec<(usize, Device)>,
        world: usize,
        exchange: Exchange,
        timeout: Duration,
    ) -> Result<Self> {
        let member =
            |(rank, device): (usize, Device)| Ok(Member { rank, side: device.new_stream()?, device });
        let members = devices.into_iter().map(member).collect::<Result<Vec<_>>>()?;
        let mut group = Self {
            world,
            members,
            exchange,
            timeout,
            state: Mutex::default(),
            apart: None,
            communicators: OnceLock::new(),
        };
        // A first workspace shows whether the ranks have access to each other's memory.
        let mut state = State::default();
        match group.map(&mut state, 256) {
            Ok(apart) => group.apart = apart,
            Err(reason) => {
                state.failed = Some(reason.to_string());
                group.state = Mutex::new(state);
                return Err(reason);
            }
        }
        state.last = group.members.iter().map(|_| None).collect();
        group.state = Mutex::new(state);
        Ok(group)
    }

    /// Sets the timeout for ranks of other threads and processes, the same on all ranks; the
    /// default is 60 s. It counts from the call that waits, for messages between hosts from the
    /// first rank that arrives. A process whose connection with rank 0 is dead waits a second more.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self.exchange.set_timeout(timeout);
        self
    }

    /// Acts as if ranks had no access to each other's memory, for tests and comparisons. All ranks
    /// must call it.
    #[doc(hidden)]
    #[must_use]
    pub fn without_peers(mut self) -> Self {
        self.apart = Some("as a test asks".to_owned());
        self
    }

    /// The number of ranks.
    pub fn world(&self) -> usize {
        self.world
    }

    /// The ranks of this caller.
    pub fn ranks(&self) -> impl Iterator<Item = usize> + '_ {
        self.members.iter().map(|member| member.rank)
    }

    /// Whether the ranks have access to each other's memory; if not, the reason.
    pub fn explain(&self) -> String {
        match &self.apart {
            None => format!("{} ranks with access to each other's memory", self.world),
            Some(reason) => format!(
                "{} ranks without access to each other's memory ({reason}), by NCCL beside plain products",
                self.world
            ),
        }
    }

    pub(crate) fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.any_state();
        match &state.failed {
            None => Ok(state),
            Some(failed) => Err(failed_before(failed)),
        }
    }

    /// The state, also of a group that has failed.
    pub(crate) fn any_state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Meets the other ranks; an error that names both if one of them does something else.
    pub(crate) fn agree(&self, own: &str) -> Result<()> {
        let all = self.exchange.all(vec![own.into(); self.members.len()])?;
        match all.iter().position(|said| said != own.as_bytes()) {
            None => Ok(()),
            Some(other) => Err(error(format!(
                "rank {} {own}, and rank {other} {}; all ranks make the same calls in the same order",
                self.members[0].rank,
                String::from_utf8_lossy(&all[other])
            ))),
        }
    }
}

/// The error of a call of a group that has failed before.
pub(crate) fn failed_before(reason: &str) -> Error {
    error(format!("the group has failed, make a new one: {reason}"))
}

/// Checks the number of ranks.
fn check_world(world: usize) -> Result<()> {
    match world {
        1..=MOST_RANKS => Ok(()),
        _ => Err(error(format!("{world} ranks; a group has 1 to {MOST_RANKS}"))),
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let mut state = std::mem::take(self.state.get_mut().unwrap_or_else(PoisonError::into_inner));
        let is_over = state.failed.is_none() && self.release(&mut state, "ends its group").is_ok();
        match self.communicators.get() {
            Some(communicators) if is_over => communicators.destroy(self.timeout),
            Some(communicators) => communicators.abort(self.timeout),
            None => {}
        }
        if !is_over {
            // Others may still write there, so the memory stays allocated until the process ends.
            std::mem::forget(state.windows);
        }
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Group(ranks {:?} of {})", self.ranks().collect::<Vec<_>>(), self.world)
    }
}
