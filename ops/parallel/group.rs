//! Groups of ranks: the memory that they share, their flags, and the wait for all.

use crate::arrivals::FLAG_BYTES;
use crate::exchange::{Exchange, error};
use crate::kernel::MOST_RANKS;
use crate::nccl::Communicators;
use crate::rendezvous::Rendezvous;
use crate::round::Kind;
use moye_runtime::{Buffer, Device, Event, Result, Shared, Stream};
use std::collections::HashSet;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// The default timeout for another rank.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of flags before the data of a workspace.
const FLAGS: usize = 4096;
/// Bytes of a rank's message about its workspace without the handle.
const MESSAGE: usize = 28;
/// The number of a simulator in that message, in place of a GPU's.
const SIMULATOR: u32 = u32::MAX;

/// Ranks that multiply together, each with a GPU: all GPUs of one process, or one GPU of each of
/// several processes on a host.
///
/// Ranks write to each other's *workspace* and raise each other's *flags*. A workspace has two
/// halves, which alternate between calls. Flags count calls and are never reset: a rank raises the
/// flag of a call after all its work of earlier calls, and waits for the flags of all others. So a
/// half is written only after all ranks have read what the call before the previous one left in it.
/// A rank that gives up waiting breaks this order, and first writes a word to all workspaces by
/// which the others know.
pub struct Group {
    pub(crate) world: usize,
    pub(crate) members: Vec<Member>,
    pub(crate) exchange: Exchange,
    pub(crate) timeout: Duration,
    state: Mutex<State>,
    pub(crate) communicators: OnceLock<Communicators>,
    /// Why ranks have no access to each other's memory.
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
    half: usize,
    /// For each member the stream of its last call, kept alive so that no other one gets its
    /// handle, and the call's end.
    pub last: Vec<Option<(Stream, Event)>>,
    /// Why the group is unusable.
    pub failed: Option<String>,
    /// Kinds of calls that all ranks have made.
    pub known: HashSet<Kind>,
}

/// A member's workspace, and the addresses of all workspaces on its device.
pub(crate) struct Window {
    /// By rank.
    peers: Vec<u64>,
    /// Keeps the workspaces of other processes mapped.
    shared: Vec<Shared>,
    /// Keeps its memory allocated.
    _memory: Buffer<u8>,
}

impl Window {
    /// The address of the flag that rank `from` raises in the workspace of rank `at`.
    pub fn flag(&self, at: usize, from: usize) -> u64 {
        self.peers[at] + from as u64 * u64::from(FLAG_BYTES)
    }

    /// The address of the word in rank `at`'s workspace in which a rank that gave up waiting writes
    /// one more than its number.
    pub fn failed(&self, at: usize) -> u64 {
        self.flag(at, MOST_RANKS)
    }

    /// Whether the workspace of rank `at` is mapped.
    pub fn reaches(&self, at: usize) -> bool {
        self.peers[at] != 0
    }

    /// The address of rank `at`'s data for a call.
    pub fn data(&self, at: usize, epoch: u32, half: usize) -> u64 {
        self.peers[at] + (FLAGS + half * (epoch % 2) as usize) as u64
    }
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
        Self::new(devices.iter().cloned().enumerate().collect(), devices.len(), Exchange::Own, TIMEOUT)
    }

    /// One rank with its device; the other processes or threads do the same. Returns when all have
    /// arrived. Threads with simulators use those of one [`Device::sim_peers`].
    ///
    /// # Errors
    /// A rank that does not arrive within `timeout`, which later calls use too; more than 8 ranks;
    /// or an error of the driver.
    pub fn join(device: &Device, rendezvous: Rendezvous, timeout: Duration) -> Result<Self> {
        let (rank, world) = (rendezvous.rank, rendezvous.world);
        let exchange = rendezvous.meet(timeout)?;
        Self::new(vec![(rank, device.clone())], world, exchange, timeout)
    }

    fn new(
        devices: Vec<(usize, Device)>,
        world: usize,
        exchange: Exchange,
        timeout: Duration,
    ) -> Result<Self> {
        if !(1..=MOST_RANKS).contains(&world) {
            return Err(error(format!("{world} ranks; a group has 1 to {MOST_RANKS}")));
        }
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
    /// first rank that comes. A process whose connection with rank 0 is dead waits a second more.
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
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match &state.failed {
            None => Ok(state),
            Some(failed) => Err(error(format!("the group has failed, make a new one: {failed}"))),
        }
    }

    /// Bytes of half a workspace: at least `bytes`, equal on all ranks.
    pub(crate) fn reserve(&self, state: &mut State, bytes: usize) -> Result<usize> {
        if bytes > state.half {
            self.release(state, &format!("needs a workspace of {bytes} bytes"))?;
            if let Some(reason) = self.map(state, bytes)?
                && self.apart.is_none()
            {
                return Err(error(format!("a workspace of {bytes} bytes cannot be shared: {reason}")));
            }
        }
        Ok(state.half)
    }

    /// Frees the workspaces; all ranks do so together, when no rank uses any of them. `why` is for
    /// the message of a rank that makes another call.
    fn release(&self, state: &mut State, why: &str) -> Result<()> {
        self.settle(state)?;
        self.agree(why)?;
        // All ranks unmap a workspace before its rank frees it.
        state.windows.iter_mut().for_each(|window| window.shared.clear());
        self.agree("has unmapped the workspaces")?;
        state.windows.clear();
        Ok(())
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

    /// Allocates workspaces, and maps those of all ranks. Returns the reason if that is impossible.
    fn map(&self, state: &mut State, bytes: usize) -> Result<Option<String>> {
        let half = bytes.next_multiple_of(1 << 12);
        let here = here();
        let (mut own, mut messages) = (Vec::new(), Vec::new());
        for member in &self.members {
            let memory = member.device.alloc_zeroed::<u8>(FLAGS + 2 * half)?;
            // An empty handle if the memory cannot be shared.
            let handle = match self.members.len() == self.world || !member.device.is_gpu() {
                true => Vec::new(),
                false => memory.share().map_or_else(|_| Vec::new(), |handle| handle.to_vec()),
            };
            let mut message = here.0.to_le_bytes().to_vec();
            message.extend(here.1.to_le_bytes());
            message.extend(memory.address().to_le_bytes());
            message.extend(member.device.index().unwrap_or(SIMULATOR).to_le_bytes());
            message.extend(handle);
            messages.push(message);
            own.push(memory);
        }
        let all = self.exchange.all(messages)?;
        if let Some(short) = all.iter().position(|message| message.len() < MESSAGE) {
            return Err(error(format!(
                "rank {short} says nothing of its workspace: all ranks need the same version of this program"
            )));
        }
        let mut windows = Vec::new();
        let mut apart = None;
        for (memory, member) in own.into_iter().zip(&self.members) {
            let (mut peers, mut shared) = (Vec::new(), Vec::new());
            for (rank, message) in all.iter().enumerate() {
                let of = |at: usize, bytes: usize| &message[at..at + bytes];
                let (same, near) = (of(0, 8) == here.0.to_le_bytes(), of(8, 8) == here.1.to_le_bytes());
                let address = u64::from_le_bytes(of(16, 8).try_into().expect("8 bytes"));
                let number = u32::from_le_bytes(of(24, 4).try_into().expect("4 bytes"));
                if member.device.is_gpu() == (number == SIMULATOR) {
                    return Err(error(format!(
                        "{:?} of rank {} beside {} of rank {rank}: give all ranks GPUs, or all simulators",
                        member.device,
                        member.rank,
                        if number == SIMULATOR { "a simulator" } else { "a GPU" }
                    )));
                }
                if same && rank != member.rank && member.device.index() == Some(number) {
                    return Err(error(format!(
                        "{:?} is that of rank {} and of rank {rank}; each rank has a device",
                        member.device, member.rank
                    )));
                }
                let reached = if rank == member.rank {
                    Some(address)
                } else if same {
                    let peer = match self.members.iter().find(|other| other.rank == rank) {
                        Some(other) => Some(other.device.clone()),
                        None if member.device.is_gpu() => Some(Device::gpu(number)?),
                        None => None,
                    };
                    // Simulators of other threads share their memory, or the copy reports that they
                    // do not.
                    let reached = peer.map_or(Ok(true), |peer| member.device.enable_peer(&peer))?;
                    reached.then_some(address)
                } else {
                    // Whatever the driver's reason is, the product with collectives needs no
                    // mapping.
                    let handle = message[MESSAGE..].try_into().ok().filter(|_| near);
                    let opened = handle.map(|handle| member.device.open_shared(handle));
                    opened.and_then(|opened| opened.ok().flatten()).map(|opened| {
                        let address = opened.address();
                        shared.push(opened);
                        address
                    })
                };
                if reached.is_none() && apart.is_none() {
                    let on = if near { "" } else { ", which is on another host" };
                    apart = Some(format!(
                        "{:?} of rank {} does not reach that of rank {rank}{on}",
                        member.device, member.rank
                    ));
                }
                peers.push(reached.unwrap_or(0));
            }
            windows.push(Window { peers, shared, _memory: memory });
        }
        // All ranks reach the same answer.
        let said = apart.clone().unwrap_or_default().into_bytes();
        let all = self.exchange.all(vec![said; self.members.len()])?;
        let apart = all.into_iter().find(|said| !said.is_empty());
        state.windows = windows;
        state.half = half;
        // The flags of the new workspaces are 0, so counting restarts.
        state.epoch = 0;
        Ok(apart.map(|said| String::from_utf8_lossy(&said).into_owned()))
    }
}

/// Identifiers of this process and this host that differ from all others.
fn here() -> (u64, u64) {
    static PROCESS: OnceLock<u64> = OnceLock::new();
    let mut hasher = DefaultHasher::new();
    std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
    (*PROCESS.get_or_init(|| RandomState::new().build_hasher().finish()), hasher.finish())
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
