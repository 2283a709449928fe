//! Warp-wide operations: lanes meet, and one of them computes the results.

use super::context::BlockContext;
use super::{WARP_SIZE, context::current};
use crate::fault::{FaultKind, WaitPlace};
use std::any::TypeId;
use std::cell::UnsafeCell;
use std::panic::Location;
use std::ptr;

/// The treatment of lanes in the mask that have exited or that a partial warp lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitedLanes {
    /// The operation proceeds without them, as in `shfl.sync`, `vote.sync` and `bar.warp.sync`.
    Ignored,
    /// The operation requires them: a fault, as in `ldmatrix` and `mma.sync`.
    Fault,
}

/// An operation at which some lanes have arrived. Pointers are to the stacks of these lanes, which
/// are suspended.
pub(crate) struct Pending {
    operation: &'static str,
    mask: u32,
    types: (TypeId, TypeId),
    exited: ExitedLanes,
    arrived: u32,
    /// By lane: a `Meeting<I, O>` of these types.
    meetings: [*const (); WARP_SIZE as usize],
    location: &'static Location<'static>,
}

/// The only warp-wide operation that orders memory.
pub(crate) const WARP_BARRIER: &str = "bar.warp.sync";

/// A lane's part in an operation, on its stack.
struct Meeting<I, O> {
    input: I,
    output: UnsafeCell<Option<O>>,
}

impl Pending {
    /// Whether it is this operation. Names are nearly always the same literal, whose bytes need not
    /// be compared.
    #[inline]
    fn is(&self, operation: &'static str, mask: u32, types: (TypeId, TypeId)) -> bool {
        let named = ptr::eq(self.operation, operation) || self.operation == operation;
        named && self.mask == mask && self.types == types
    }

    /// The lanes of the mask that have not arrived and still may.
    fn missing(&self, exited_lanes: u32) -> u32 {
        self.mask & !self.arrived & !exited_lanes
    }
}

impl BlockContext {
    fn warp_and_lane(&self) -> (usize, u32) {
        let running = self.running.get();
        ((running / WARP_SIZE) as usize, running % WARP_SIZE)
    }

    fn linear(warp: usize, lane: u32) -> u32 {
        warp as u32 * WARP_SIZE + lane
    }

    /// Faults unless the running lane may join the operation: the lane must be in its mask, no lane
    /// that the operation needs may have exited, and no lane may wait in another operation that
    /// needs this one.
    fn check_joining(
        &self,
        operation: &'static str,
        mask: u32,
        types: (TypeId, TypeId),
        exited: ExitedLanes,
        location: &'static Location<'static>,
    ) {
        let (warp, lane) = self.warp_and_lane();
        if mask & (1 << lane) == 0 {
            self.raise(location, FaultKind::WarpSelfNotInMask { operation, mask, lane });
        }
        let missing = mask & self.exited_lanes[warp].get();
        if exited == ExitedLanes::Fault && missing != 0 {
            self.raise(location, FaultKind::WarpLaneExited { operation, mask, missing });
        }
        let pending = self.pending[warp].borrow();
        let same = |p: &&Pending| p.is(operation, mask, types);
        let conflict = |p: &&Pending| !same(p) && p.mask & (1 << lane) != 0 && p.arrived & mask != 0;
        let Some(other) = pending.iter().find(conflict) else { return };
        let other_lane = (other.arrived & mask).trailing_zeros();
        let waits = self.threads[Self::linear(warp, other_lane) as usize].wait.get();
        let kind = FaultKind::WarpMismatch {
            operation,
            mask,
            other_lane,
            other_operation: other.operation,
            other_mask: other.mask,
            other_location: waits.map_or(other.location, |wait| wait.location),
        };
        drop(pending);
        self.raise(location, kind)
    }

    /// The running lane's part in a warp-wide operation; see [`warp_collective`].
    pub(crate) fn collective<I: Copy + 'static, O: Copy + 'static>(
        &self,
        operation: &'static str,
        mask: u32,
        exited: ExitedLanes,
        input: I,
        compute: impl FnOnce(&[Option<I>; 32]) -> [O; 32],
        location: &'static Location<'static>,
    ) -> O {
        let (warp, lane) = self.warp_and_lane();
        if std::thread::panicking() {
            let mut alone = [None; 32];
            alone[lane as usize] = Some(input);
            return compute(&alone)[lane as usize];
        }
        let types = (TypeId::of::<I>(), TypeId::of::<O>());
        self.check_joining(operation, mask, types, exited, location);

        let meeting = Meeting { input, output: UnsafeCell::new(None::<O>) };
        let complete = {
            let mut pending = self.pending[warp].borrow_mut();
            let same = |p: &Pending| p.is(operation, mask, types);
            let at = pending.iter().position(same).unwrap_or_else(|| {
                let meetings = [ptr::null(); WARP_SIZE as usize];
                pending.push(Pending { operation, mask, types, exited, arrived: 0, meetings, location });
                pending.len() - 1
            });
            let joined = &mut pending[at];
            joined.arrived |= 1 << lane;
            joined.meetings[lane as usize] = ptr::from_ref(&meeting).cast();
            joined.missing(self.exited_lanes[warp].get()) == 0
        };
        if !complete {
            self.wait(WaitPlace::Warp { operation, mask }, location);
        }
        // SAFETY: lanes write outputs only while they run, and this one runs now.
        if let Some(output) = unsafe { *meeting.output.get() } {
            return output;
        }
        // All lanes are here and none has computed yet: this lane is the last to arrive, or a lane
        // that the others waited for has exited.
        self.complete::<I, O>(warp, lane, compute, location);
        // SAFETY: only the running lane writes outputs, and this one runs.
        unsafe { *meeting.output.get() }
            .expect("completing an operation writes the output of every lane in it")
    }

    /// Computes the operation of `lane`, stores the results, and wakes the other lanes.
    fn complete<I: Copy, O: Copy>(
        &self,
        warp: usize,
        lane: u32,
        compute: impl FnOnce(&[Option<I>; 32]) -> [O; 32],
        location: &'static Location<'static>,
    ) {
        let done = {
            let mut pending = self.pending[warp].borrow_mut();
            let at = pending.iter().position(|p| p.arrived & (1 << lane) != 0);
            pending.swap_remove(at.expect("a lane that joined an operation is in it until it completes"))
        };
        let lanes = (0..WARP_SIZE).filter(|lane| done.arrived & (1 << lane) != 0);
        self.meet(lanes.map(|lane| Self::linear(warp, lane)));
        // All other operations synchronise lanes, but do not order memory.
        if done.operation == WARP_BARRIER {
            self.meet_as_warp(warp as u32, done.arrived);
        }
        let meeting = |lane: usize| {
            // SAFETY: the operation was found by the types `I` and `O`, so each lane stored this
            // type. Each lane is suspended within `collective`, where its meeting lives, or is the
            // running one.
            (done.arrived & (1 << lane) != 0)
                .then(|| unsafe { &*done.meetings[lane].cast::<Meeting<I, O>>() })
        };
        let inputs = std::array::from_fn(|lane| meeting(lane).map(|m| m.input));
        let outputs = compute(&inputs);
        self.profile_collective(done.operation, done.arrived, location);
        for (other, output) in outputs.into_iter().enumerate() {
            let Some(meeting) = meeting(other) else { continue };
            // SAFETY: no other reference to the output exists while this lane runs.
            unsafe { *meeting.output.get() = Some(output) };
            if other as u32 != lane {
                self.set_ready(Self::linear(warp, other as u32));
            }
        }
        self.note_rendezvous(location);
    }

    /// Records that the running lane has exited: operations that waited for it proceed without it,
    /// or fault.
    pub(crate) fn lane_exited(&self) {
        let (warp, lane) = self.warp_and_lane();
        let exited_lanes = self.exited_lanes[warp].get() | 1 << lane;
        self.exited_lanes[warp].set(exited_lanes);
        for pending in self.pending[warp].borrow().iter() {
            let waiting = Self::linear(warp, pending.arrived.trailing_zeros());
            if pending.mask & (1 << lane) == 0 {
                continue;
            }
            if pending.exited == ExitedLanes::Fault {
                let thread = &self.threads[waiting as usize];
                let &Pending { operation, mask, .. } = pending;
                self.record(super::context::RawFault {
                    thread: thread.index,
                    location: thread.wait.get().map(|wait| wait.location),
                    kind: FaultKind::WarpLaneExited { operation, mask, missing: mask & exited_lanes },
                });
                return;
            }
            if pending.missing(exited_lanes) == 0 {
                self.set_ready(waiting);
            }
        }
    }

    /// For a thread that waits in a warp-wide operation: the lanes that have not arrived.
    pub(crate) fn lanes_missing(&self, linear: u32) -> u32 {
        let (warp, lane) = ((linear / WARP_SIZE) as usize, linear % WARP_SIZE);
        let pending = self.pending[warp].borrow();
        let joined = pending.iter().find(|p| p.arrived & (1 << lane) != 0);
        joined.map_or(0, |p| p.missing(self.exited_lanes[warp].get()))
    }
}

/// The primitive of every warp-wide operation: the lanes of `mask` meet, and each receives its
/// result.
///
/// Every lane of the mask calls it with the same `operation`, `mask` and types; a lane waits until
/// the last has arrived. Then one of them runs `compute` with the inputs of all (`None` for a lane
/// that is not in the mask or has exited) and stores the outputs of all; outputs of absent lanes
/// are dropped. `compute` runs as code of that lane, so it should only compute: accesses to memory
/// belong before or after the operation, where a fault names the right lane and line.
///
/// ```
/// use moye_sim::intrinsics::{ExitedLanes, warp_collective};
/// use moye_sim::{GlobalMemory, Launch};
///
/// // Lane i gets the sum of the inputs of lanes 0 to i.
/// fn scan(value: u32) -> u32 {
///     warp_collective("scan", u32::MAX, ExitedLanes::Fault, value, |inputs| {
///         let mut sum = 0;
///         inputs.map(|input| {
///             sum += input.unwrap_or(0);
///             sum
///         })
///     })
/// }
/// Launch::new("scan", 1, 32, &GlobalMemory::new())
///     .run(&|| assert_eq!(scan(2), 2 * (moye_sim::intrinsics::lane_id() + 1)))?;
/// # Ok::<(), moye_sim::LaunchError>(())
/// ```
#[track_caller]
pub fn warp_collective<I: Copy + 'static, O: Copy + 'static>(
    operation: &'static str,
    mask: u32,
    exited: ExitedLanes,
    input: I,
    compute: impl FnOnce(&[Option<I>; 32]) -> [O; 32],
) -> O {
    current().collective(operation, mask, exited, input, compute, Location::caller())
}
