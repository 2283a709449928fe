//! Collectives of buffers: by NCCL on GPUs, by copies of the host on simulators, and by one kernel
//! over the peers' memory for sums of few elements.

use crate::exchange::error;
use crate::group::Group;
use crate::kernel::{Awaited, MOST_RANKS};
use crate::launch::{launch_push, launch_sum, load_sum};
use crate::round::{Kind, Round};
use crate::transport::add;
use moye_device::number::Scalar;
use moye_runtime::operation::{Array, Dtype};
use moye_runtime::{BufferSlice, BufferSliceMut, Device, Error, Result, Stream};

const NAME: &str = "collective";
/// The maximum number of bytes that a rank sends for which a sum of f16 or bf16 is one kernel over
/// copied data, without NCCL.
pub const ONE_SHOT: usize = 8 << 20;
/// The maximum number of bytes of a sum that a kernel pushes; the copy engine pushes more.
const PUSHED: usize = 256 << 10;
/// NCCL's constant for a one-byte type.
const BYTES: i32 = 1;

/// An element type that collectives sum: f16, bf16, f32 and f64.
pub trait Summand: moye_runtime::Element + Scalar {
    #[doc(hidden)]
    const NCCL: i32;
    /// The functions that sum parts with one kernel.
    #[doc(hidden)]
    const SUM: Option<SumOf>;
}

/// The functions of a sum by one kernel.
#[doc(hidden)]
pub struct SumOf {
    /// Loads the kernels.
    load: fn(&Device) -> Result<()>,
    /// Sums the elements at addresses into an array.
    ///
    /// # Safety
    /// As for `launch_sum`.
    sum: unsafe fn(&Stream, &[u64], Awaited, &Array) -> Result<()>,
}

macro_rules! summands {
    ($($t:ty: $number:literal $sum:expr;)*) => { $(
        impl Summand for $t {
            const NCCL: i32 = $number;
            const SUM: Option<SumOf> = $sum;
        }
    )* };
}
summands! {
    half::f16: 6 Some(SumOf { load: load_sum::<Self>, sum: launch_sum::<Self> });
    f32: 7 None;
    f64: 8 None;
    half::bf16: 9 Some(SumOf { load: load_sum::<Self>, sum: launch_sum::<Self> });
}

/// The elements that a rank sends and receives in a collective, and the stream of its device.
pub struct Transfer<'a, T: moye_runtime::Element> {
    /// A stream of the rank's device.
    pub stream: &'a Stream,
    /// The elements that it sends.
    pub from: BufferSlice<'a, T>,
    /// The elements that it receives: other memory, or `from` itself for an all-reduce.
    pub to: BufferSliceMut<'a, T>,
}

/// A member's part of a collective, by addresses; they may be equal if NCCL works in place.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    pub stream: &'a Stream,
    pub from: u64,
    pub to: u64,
}

/// A collective.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Collective {
    AllReduce,
    /// To one rank.
    Reduce(usize),
    ReduceScatter,
    AllGather,
    /// From one rank.
    Broadcast(usize),
}

/// A collective that is issued.
pub(crate) struct Issue<'a> {
    pub collective: Collective,
    /// The number of elements that a rank sends; for [`Collective::ReduceScatter`], that it
    /// receives.
    pub count: usize,
    /// The part of each member.
    pub parts: Vec<Part<'a>>,
}

/// Collectives of a group's ranks. GPUs use NCCL, which the group opens when it first needs it; on
/// simulators the host copies. Sums of f16 or bf16 need no NCCL if the ranks have peer access and
/// send at most 8 MiB: a kernel, or a copy of more than 256 KiB, pushes the parts, and a kernel
/// sums them in rank order.
///
/// All ranks make the same calls in the same order, with buffers that start at multiples of 16
/// bytes. Calls return while the ranks work; wait with [`Group::wait`].
///
/// ```
/// use moye::Device;
/// use moye_parallel::{Group, Transfer};
///
/// let devices = Device::sim_peers(2);
/// let group = Group::local(&devices)?;
/// let from = [devices[0].upload(&[1.0f32, 2.0])?, devices[1].upload(&[10.0f32, 20.0])?];
/// let mut to = [devices[0].alloc_uninit::<f32>(2)?, devices[1].alloc_uninit::<f32>(2)?];
/// let streams = [devices[0].new_stream()?, devices[1].new_stream()?];
/// let mut calls: Vec<_> = streams
///     .iter()
///     .zip(&from)
///     .zip(&mut to)
///     .map(|((stream, from), to)| Transfer { stream, from: from.as_slice(), to: to.as_slice_mut() })
///     .collect();
/// // SAFETY: no other stream uses the buffers.
/// unsafe { group.collectives().all_reduce(&mut calls)? };
/// group.wait(&[&streams[0], &streams[1]])?;
/// assert_eq!(to[0].download()?, [11.0, 22.0]);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Collectives<'g>(&'g Group);

impl Group {
    /// The collectives of the group's ranks.
    pub fn collectives(&self) -> Collectives<'_> {
        Collectives(self)
    }
}

impl Collectives<'_> {
    /// Every rank receives the sum of what all ranks send.
    ///
    /// # Errors
    /// The number of transfers is not that of this caller's ranks, or they differ in length, or
    /// belong to other devices; at the first call of a kind, a rank makes another call; NCCL is
    /// missing; the errors of launches.
    ///
    /// # Safety
    /// Until the work is complete, no other stream writes what ranks send, or uses what they
    /// receive.
    pub unsafe fn all_reduce<T: Summand>(&self, calls: &mut [Transfer<'_, T>]) -> Result<()> {
        let (count, parts) = self.parts(calls, Sides { gives: 1, receives: 1 })?;
        let (group, bytes) = (self.0, count * size_of::<T>());
        // The kernel exists for this architecture, and all ranks choose it or none.
        let have = group.state()?.archs.iter().all(|&arch| arch == moye_runtime::Arch::new(9, 0));
        if let (Some(SumOf { load, sum }), true) = (
            T::SUM,
            group.apart.is_none()
                && count > 0
                && bytes * (group.world - 1) <= ONE_SHOT
                && count.is_multiple_of(8)
                && have,
        ) {
            let array = |address| Array {
                dtype: Dtype::of::<T>().expect("f16 or bf16"),
                shape: vec![1, count],
                strides: vec![count as i64, 1],
                address,
            };
            let kind = Kind { name: "sum", element: <T as moye_runtime::Element>::NAME, numbers: [count, 0] };
            if !group.state()?.known.contains(&kind) {
                // Before a stream waits, because the driver may not load a kernel during the wait.
                let loaded = group.members.iter().try_for_each(|member| load(&member.device));
                group.checked(loaded)?;
            }
            return group.round(&streams(&parts), kind, Some(group.world * bytes), |round| {
                // SAFETY: the caller guarantees the transfers; workspaces have a slot for each
                // rank.
                unsafe { self.push(round, &parts, bytes)? };
                round.meet()?;
                for (at, part) in parts.iter().enumerate() {
                    let (window, rank) = (&round.state.windows[at], group.members[at].rank);
                    let slot =
                        |from: usize| window.data(rank, round.epoch, round.half) + (from * bytes) as u64;
                    let all = (0..group.world).map(|from| if from == rank { part.from } else { slot(from) });
                    let awaited = window.awaited(rank, group.world, round.epoch);
                    // SAFETY: the parts are complete when their flags are raised.
                    unsafe { sum(part.stream, &all.collect::<Vec<_>>(), awaited, &array(part.to))? };
                }
                Ok(())
            });
        }
        // SAFETY: the caller guarantees the transfers.
        unsafe { self.issue_sum::<T>(Collective::AllReduce, count, parts) }
    }

    /// Pushes what the members send into the others' workspaces, and raises their flags.
    ///
    /// # Safety
    /// The parts have the bytes, and workspaces have a slot for each rank.
    unsafe fn push(&self, round: &Round<'_>, parts: &[Part<'_>], bytes: usize) -> Result<()> {
        for (at, part) in parts.iter().enumerate() {
            let (window, rank, world) = (&round.state.windows[at], self.0.members[at].rank, self.0.world);
            let slot = |to: usize| window.data(to, round.epoch, round.half) + (rank * bytes) as u64;
            let others = || (1..world).map(|distance| (rank + distance) % world);
            // SAFETY: each part has the bytes, and each workspace a slot for each rank.
            unsafe {
                if bytes <= PUSHED && world > 1 {
                    let mut slots = [0; MOST_RANKS];
                    others().for_each(|to| slots[to] = slot(to));
                    launch_push(part.stream, part.from, slots, bytes)?;
                }
                for to in others() {
                    if bytes > PUSHED {
                        part.stream.copy(slot(to), part.from, bytes)?;
                    }
                    part.stream.raise(window.flag(to, rank), round.epoch)?;
                }
            }
        }
        Ok(())
    }

    /// Rank `r` receives part `r` of the sum of what all ranks send; there are as many parts as
    /// ranks.
    ///
    /// # Errors
    /// Same as [`all_reduce`](Self::all_reduce).
    ///
    /// # Safety
    /// Same contract as [`all_reduce`](Self::all_reduce).
    pub unsafe fn reduce_scatter<T: Summand>(&self, calls: &mut [Transfer<'_, T>]) -> Result<()> {
        let (count, parts) = self.parts(calls, Sides { gives: self.0.world, receives: 1 })?;
        // SAFETY: the caller guarantees the transfers.
        unsafe { self.issue_sum::<T>(Collective::ReduceScatter, count, parts) }
    }

    /// Every rank receives what all ranks send, in rank order.
    ///
    /// # Errors
    /// Same as [`all_reduce`](Self::all_reduce).
    ///
    /// # Safety
    /// Same contract as [`all_reduce`](Self::all_reduce).
    pub unsafe fn all_gather<T: moye_runtime::Element>(&self, calls: &mut [Transfer<'_, T>]) -> Result<()> {
        let (count, parts) = self.parts(calls, Sides { gives: 1, receives: self.0.world })?;
        // SAFETY: the caller guarantees the transfers.
        unsafe {
            self.issue::<u8>(Collective::AllGather, count * size_of::<T>(), parts, None, BYTES, T::NAME)
        }
    }

    /// Every rank receives what rank `root` sends.
    ///
    /// # Errors
    /// Same as [`all_reduce`](Self::all_reduce); also if there is no rank `root`.
    ///
    /// # Safety
    /// Same contract as [`all_reduce`](Self::all_reduce).
    pub unsafe fn broadcast<T: moye_runtime::Element>(
        &self,
        root: usize,
        calls: &mut [Transfer<'_, T>],
    ) -> Result<()> {
        if root >= self.0.world {
            let refused = Err(error(format!("a broadcast from rank {root} of {}", self.0.world)));
            return self.0.checked(refused);
        }
        let (count, parts) = self.parts(calls, Sides { gives: 1, receives: 1 })?;
        // SAFETY: the caller guarantees the transfers.
        unsafe {
            self.issue::<u8>(Collective::Broadcast(root), count * size_of::<T>(), parts, None, BYTES, T::NAME)
        }
    }

    /// # Safety
    /// The parts are the caller's transfers.
    unsafe fn issue_sum<T: Summand>(
        &self,
        collective: Collective,
        count: usize,
        parts: Vec<Part<'_>>,
    ) -> Result<()> {
        let element = <T as moye_runtime::Element>::NAME;
        // SAFETY: the caller guarantees the transfers.
        unsafe { self.issue::<T>(collective, count, parts, Some(add::<T>), T::NCCL, element) }
    }

    /// # Safety
    /// The parts are the caller's transfers.
    unsafe fn issue<T: moye_runtime::Element>(
        &self,
        collective: Collective,
        count: usize,
        parts: Vec<Part<'_>>,
        sum: Option<fn(&mut [u8], &[u8])>,
        data: i32,
        element: &'static str,
    ) -> Result<()> {
        let (name, root) = match collective {
            Collective::AllReduce => ("all-reduce", 0),
            Collective::Reduce(root) => ("reduce", root),
            Collective::ReduceScatter => ("reduce-scatter", 0),
            Collective::AllGather => ("all-gather", 0),
            Collective::Broadcast(root) => ("broadcast", root),
        };
        let streams = streams(&parts);
        let calls = [Issue { collective, count, parts }];
        let kind = Kind { name, element, numbers: [count, root] };
        self.0.round(&streams, kind, None, |_| {
            // SAFETY: the caller guarantees the transfers.
            if count == 0 { Ok(()) } else { unsafe { self.0.issue::<T>(&calls, sum, data) } }
        })
    }

    /// The parts of the members, and the elements that the sides are multiples of.
    fn parts<'c, T: moye_runtime::Element>(
        &self,
        calls: &'c mut [Transfer<'_, T>],
        sides: Sides,
    ) -> Result<(usize, Vec<Part<'c>>)> {
        self.0.checked(self.parts_of(calls, sides))
    }

    fn parts_of<'c, T: moye_runtime::Element>(
        &self,
        calls: &'c mut [Transfer<'_, T>],
        Sides { gives, receives }: Sides,
    ) -> Result<(usize, Vec<Part<'c>>)> {
        let members = &self.0.members;
        if calls.len() != members.len() {
            let detail = format!("{} transfers, and this caller has {} ranks", calls.len(), members.len());
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        let count = calls[0].from.len() / gives;
        let mut parts = Vec::new();
        for (call, member) in calls.iter_mut().zip(members) {
            for (argument, device) in
                [call.stream.device(), call.from.device(), call.to.device()].iter().enumerate()
            {
                if **device != member.device {
                    return Err(error(format!(
                        "argument {argument} of rank {} is on {device:?}, and the rank's is {:?}",
                        member.rank, member.device
                    )));
                }
            }
            let (from, to) = (call.from.len(), call.to.len());
            if from != count * gives || to != count * receives {
                let detail = format!(
                    "rank {} gives {from} elements and receives {to}, and it must be {} and {}",
                    member.rank,
                    count * gives,
                    count * receives
                );
                return Err(Error::ShapeMismatch { operation: NAME, detail });
            }
            let (from, to) = (call.from.address(), call.to.address());
            if count > 0 && !(from | to).is_multiple_of(16) {
                return Err(error(format!(
                    "buffers at {from:#x} and {to:#x} must begin at multiples of 16 bytes"
                )));
            }
            parts.push(Part { stream: call.stream, from, to });
        }
        Ok((count, parts))
    }
}

/// The number of parts of a collective that a rank sends and receives.
#[derive(Clone, Copy)]
struct Sides {
    gives: usize,
    receives: usize,
}

/// The streams of parts.
fn streams<'a>(parts: &[Part<'a>]) -> Vec<&'a Stream> {
    parts.iter().map(|part| part.stream).collect()
}
