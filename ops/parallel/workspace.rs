//! Workspaces: memory of a rank that the others write to, mapped on their devices.

use crate::arrivals::FLAG_BYTES;
use crate::exchange::{Exchange, error};
use crate::group::{Group, Member, State};
use crate::kernel::{Awaited, MOST_RANKS};
use moye_runtime::{Arch, Buffer, Device, Global, Result, Shared};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::ops::Range;
use std::sync::OnceLock;

/// Bytes of flags before the data of a workspace.
const FLAGS: usize = 4096;
/// The index of a simulator in a rank's message.
const SIMULATOR: u32 = u32::MAX;

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

    /// The flags of all ranks in the workspace of rank `at`, for a kernel that waits for a call's.
    pub fn awaited(&self, at: usize, ranks: usize, epoch: u32) -> Awaited {
        let flags = Global::from_address(self.flag(at, 0));
        Awaited { flags, epoch, ranks: ranks as u32, rank: at as u32 }
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

/// A rank's description of its device and workspace, for the other ranks.
struct Said {
    /// Identifiers of the process and of the host.
    process: u64,
    host: u64,
    address: u64,
    /// The index of a GPU in the process, or [`SIMULATOR`].
    index: u32,
    arch: [u16; 2],
    /// Zeros for a simulator.
    uuid: [u8; 16],
    /// Empty if the memory cannot be shared with other processes.
    handle: Vec<u8>,
}

impl Said {
    fn of(device: &Device, memory: &Buffer<u8>, is_shared: bool) -> Result<Self> {
        static PROCESS: OnceLock<u64> = OnceLock::new();
        let mut hasher = DefaultHasher::new();
        std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default().hash(&mut hasher);
        let (major, minor) = device.arch().capability();
        Ok(Self {
            process: *PROCESS.get_or_init(|| RandomState::new().build_hasher().finish()),
            host: hasher.finish(),
            address: memory.address(),
            index: device.index().unwrap_or(SIMULATOR),
            arch: [major as u16, minor as u16],
            uuid: device.uuid()?.unwrap_or_default(),
            handle: match is_shared {
                true => memory.share().map_or_else(|_| Vec::new(), |handle| handle.to_vec()),
                false => Vec::new(),
            },
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = [self.process, self.host, self.address].map(u64::to_le_bytes).concat();
        bytes.extend(self.index.to_le_bytes());
        bytes.extend(self.arch.map(u16::to_le_bytes).concat());
        bytes.extend(self.uuid);
        bytes.extend(&self.handle);
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.split_at_checked(24)?;
        let word = |at: usize| Some(u64::from_le_bytes(words.get(8 * at..8 * at + 8)?.try_into().ok()?));
        let (device, rest) = rest.split_at_checked(8)?;
        let (uuid, handle) = rest.split_at_checked(16)?;
        Some(Self {
            process: word(0)?,
            host: word(1)?,
            address: word(2)?,
            index: u32::from_le_bytes(device[..4].try_into().ok()?),
            arch: [[device[4], device[5]], [device[6], device[7]]].map(u16::from_le_bytes),
            uuid: uuid.try_into().ok()?,
            handle: handle.to_vec(),
        })
    }
}

/// A rank with a GPU and one with a simulator, as an error's text.
fn mixture(all: &[Said]) -> Option<String> {
    let is_simulator = |said: &Said| said.index == SIMULATOR;
    let first = |simulator: bool| all.iter().position(|said| is_simulator(said) == simulator);
    if let (Some(gpu), Some(simulator)) = (first(false), first(true)) {
        return Some(format!(
            "rank {gpu} has a GPU, and rank {simulator} a simulator: give all ranks GPUs, or all simulators"
        ));
    }
    None
}

/// The first two ranks on one GPU, as an error's text.
fn shared_gpu(all: &[Said]) -> Option<String> {
    let same = |&(one, other): &(usize, usize)| all[one].uuid == all[other].uuid && all[one].uuid != [0; 16];
    let mut pairs = (1..all.len()).flat_map(|other| (0..other).map(move |one| (one, other)));
    pairs.find(same).map(|(one, other)| {
        let hex = |range: Range<usize>| {
            all[one].uuid[range].iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        };
        format!(
            "ranks {one} and {other} have the same GPU (GPU {} of rank {one}, GPU {} of rank {other}, \
             GPU-{}-{}-{}-{}-{}); each rank has a device, such as that of its number on the host",
            all[one].index,
            all[other].index,
            hex(0..4),
            hex(4..6),
            hex(6..8),
            hex(8..10),
            hex(10..16)
        )
    })
}

impl Group {
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
    pub(crate) fn release(&self, state: &mut State, why: &str) -> Result<()> {
        self.settle(state)?;
        self.agree(why)?;
        // All ranks unmap a workspace before its rank frees it.
        state.windows.iter_mut().for_each(|window| window.shared.clear());
        self.agree("has unmapped the workspaces")?;
        state.windows.clear();
        Ok(())
    }

    /// Allocates workspaces, and maps those of all ranks. Returns the reason if that is impossible.
    pub(crate) fn map(&self, state: &mut State, bytes: usize) -> Result<Option<String>> {
        let half = bytes.next_multiple_of(1 << 12);
        let is_shared = |member: &Member| self.members.len() < self.world && member.device.is_gpu();
        let (mut own, mut messages) = (Vec::new(), Vec::new());
        for member in &self.members {
            let memory = member.device.alloc_zeroed::<u8>(FLAGS + 2 * half)?;
            messages.push(Said::of(&member.device, &memory, is_shared(member))?.to_bytes());
            own.push(memory);
        }
        self.cleared()?;
        let mut all = Vec::new();
        for (rank, message) in self.exchange.all(messages)?.iter().enumerate() {
            all.push(Said::from_bytes(message).ok_or_else(|| {
                error(format!(
                    "rank {rank} sent no handle of its workspace: all ranks need the same version of this program"
                ))
            })?);
        }
        // `Group::local` compares its devices.
        let shared = || if let Exchange::Own = self.exchange { None } else { shared_gpu(&all) };
        if let Some(refusal) = mixture(&all).or_else(shared) {
            return Err(error(refusal));
        }
        let (mut windows, mut apart) = (Vec::new(), None);
        for (memory, member) in own.into_iter().zip(&self.members) {
            let (mut peers, mut shared) = (Vec::new(), Vec::new());
            for (rank, said) in all.iter().enumerate() {
                let reached = self.reach(member, rank, &all)?;
                if reached.is_none() && apart.is_none() {
                    let is_near = said.host == all[member.rank].host;
                    let on = if is_near { "" } else { ", which is on another host" };
                    apart = Some(format!(
                        "{:?} of rank {} does not reach that of rank {rank}{on}",
                        member.device, member.rank
                    ));
                }
                let (address, mapping) = reached.unwrap_or_default();
                peers.push(address);
                shared.extend(mapping);
            }
            windows.push(Window { peers, shared, _memory: memory });
        }
        // All ranks reach the same answer.
        let said = apart.unwrap_or_default().into_bytes();
        let answers = self.exchange.all(vec![said; self.members.len()])?;
        state.archs = all.iter().map(|said| Arch::new(said.arch[0].into(), said.arch[1].into())).collect();
        state.windows = windows;
        state.half = half;
        // The flags of the new workspaces are 0, so counting restarts.
        state.epoch = 0;
        let apart = answers.into_iter().find(|said| !said.is_empty());
        Ok(apart.map(|said| String::from_utf8_lossy(&said).into_owned()))
    }

    /// Waits until new workspaces are cleared: before it other ranks must not write there. The
    /// driver clears memory after the device's earlier work, and does not wait for either.
    fn cleared(&self) -> Result<()> {
        for member in self.members.iter().filter(|member| member.device.is_gpu()) {
            // The stream's work comes after that of the driver's default stream.
            member.side.record()?;
            if !self.ends(&[&member.side])? {
                return Err(error(format!(
                    "the earlier work of rank {}'s device did not end within {} s: a workspace is cleared after it",
                    member.rank,
                    self.timeout.as_secs_f64()
                )));
            }
        }
        Ok(())
    }

    /// The address of a rank's workspace on the device of a member, and the mapping of memory of
    /// another process; `None` if the device cannot access it.
    fn reach(&self, member: &Member, rank: usize, all: &[Said]) -> Result<Option<(u64, Option<Shared>)>> {
        let (own, said) = (&all[member.rank], &all[rank]);
        if rank == member.rank {
            return Ok(Some((said.address, None)));
        }
        if said.process == own.process {
            let peer = match self.members.iter().find(|other| other.rank == rank) {
                Some(other) => Some(other.device.clone()),
                None if member.device.is_gpu() => Some(Device::gpu(said.index)?),
                None => None,
            };
            // Simulators of other threads share their memory, or the copy reports that they do not.
            let is_reached = peer.map_or(Ok(true), |peer| member.device.enable_peer(&peer))?;
            return Ok(is_reached.then_some((said.address, None)));
        }
        // Whatever the driver's reason is, the product with collectives needs no mapping.
        let handle = said.handle[..].try_into().ok().filter(|_| said.host == own.host);
        let opened = handle.and_then(|handle| member.device.open_shared(handle).ok().flatten());
        Ok(opened.map(|opened| (opened.address(), Some(opened))))
    }
}
