//! The groups of `wgmma`: results not yet in the accumulators, and shared memory that the
//! instructions still read.

use super::clock::Clock;
use super::context::BlockContext;
use super::reads::Issued;
use super::shared::{PIECE, SHARED_BASE};
use super::{ExitedLanes, WARP_SIZE};
use crate::fault::{Access, FaultKind};
use crate::wgmma::{MatrixDescriptor, WarpInput, Wgmma, WgmmaA};
use std::panic::Location;

const LANES: usize = WARP_SIZE as usize;
/// Warps that execute an instruction together.
pub(crate) const WARPGROUP: u32 = 4;

/// The prefix of the marks in accumulators: a NaN of f32, and two of f16, that no instruction
/// produces.
const MARK: u32 = 0x7FA0_0000;
/// The number of marks.
const MARKS: u32 = 1 << 20;

/// Results that a warp has not received.
struct Kept {
    /// The mark of the first register; those of the others follow.
    mark: u32,
    /// The lanes' registers, lane by lane.
    words: Vec<u32>,
    /// The index of the instruction's group.
    group: u64,
    /// The lanes that have received their results.
    taken: u32,
}

/// A lane's operands, on its stack: it is suspended while another lane computes.
#[derive(Clone, Copy)]
struct Operands {
    /// The accumulators, which stay where they are.
    registers: *const [u32],
    a: WgmmaA,
    b: u64,
    adds: bool,
}

/// A warp's matrix instructions.
#[derive(Default)]
pub(crate) struct WgmmaQueue {
    /// Whether a fence followed the last time the thread could change the registers.
    fenced: bool,
    marks: u32,
    kept: Vec<Kept>,
    /// Committed groups, and completed groups.
    committed: u64,
    complete: u64,
}

impl WgmmaQueue {
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The pending results of the marks in these registers.
    fn find(&self, registers: &[u32]) -> Option<usize> {
        let mark = *registers.first()?;
        let at = self.kept.iter().position(|kept| kept.mark == mark)?;
        let marked = registers.iter().zip(mark..).all(|(register, mark)| *register == mark);
        marked.then_some(at)
    }

    /// A mark for the results of this many registers.
    fn next_mark(&mut self, registers: usize) -> u32 {
        let registers = registers as u32;
        if self.marks + registers > MARKS {
            self.marks = 0;
        }
        let mark = MARK + self.marks;
        self.marks += registers;
        mark
    }
}

/// One lane's registers out of all lanes' of a warp.
fn lane_of(words: &[u32], lane: usize) -> &[u32] {
    let count = words.len() / LANES;
    &words[lane * count..][..count]
}

impl BlockContext {
    fn warp(&self) -> usize {
        (self.running.get() / WARP_SIZE) as usize
    }

    /// The clock of a warp's reads of shared memory.
    fn warpgroup(&self, warp: usize) -> Clock {
        Clock::Warpgroup { rank: self.rank, number: warp as u32 / WARPGROUP }
    }

    /// Once all lanes of the running warp have arrived, one acts for all.
    fn together<T: Copy + 'static>(
        &self,
        operation: &'static str,
        location: &'static Location<'static>,
        act: impl FnOnce() -> T,
    ) -> T {
        self.collective(operation, u32::MAX, ExitedLanes::Fault, (), |_| [act(); LANES], location)
    }

    /// Orders registers before the following instructions: `wgmma.fence`.
    pub(crate) fn wgmma_fence(&self, location: &'static Location<'static>) {
        self.together("wgmma.fence", location, || self.wgmma[self.warp()].borrow_mut().fenced = true);
    }

    /// The running lane's part in an instruction; `registers` are its accumulators.
    pub(crate) fn wgmma(
        &self,
        instruction: &Wgmma,
        registers: &mut [u32],
        a: WgmmaA,
        b: u64,
        adds: bool,
        location: &'static Location<'static>,
    ) {
        if std::thread::panicking() {
            return;
        }
        let input = Operands { registers: std::ptr::from_mut(registers), a, b, adds };
        let operation = instruction.operation;
        let mask = u32::MAX;
        let mark = self.collective(
            operation,
            mask,
            ExitedLanes::Fault,
            std::ptr::from_ref(&input),
            |lanes| {
                let lanes = lanes.each_ref().map(|lane| {
                    // SAFETY: the operands of a lane suspended in this function, or of the running
                    // lane.
                    unsafe { &*lane.expect("all lanes of the mask are there") }
                });
                // SAFETY: registers of suspended lanes, or of the running lane, which does not use
                // its own reference meanwhile.
                let registers = lanes.map(|lane| unsafe { &*lane.registers });
                let uniform =
                    |pick: fn(&WgmmaA) -> Option<u64>| lanes.iter().all(|lane| pick(&lane.a) == pick(&a));
                if lanes.iter().any(|lane| lane.b != b || lane.adds != adds)
                    || !uniform(|a| if let WgmmaA::Shared(descriptor) = a { Some(*descriptor) } else { None })
                {
                    let reason = "the lanes of a warp give different descriptors or scales".to_owned();
                    self.raise(location, FaultKind::InvalidOperand { operation, reason });
                }
                let a = lanes.map(|lane| lane.a);
                match self.wgmma_of_warp(instruction, &registers, &a, b, adds, location) {
                    Ok(mark) => [mark; LANES],
                    Err(kind) => self.raise(location, kind),
                }
            },
            location,
        );
        for (register, mark) in registers.iter_mut().zip(mark..) {
            *register = mark;
        }
    }

    /// Computes the running warp's instruction, stores its results until the wait, and returns
    /// their mark.
    fn wgmma_of_warp(
        &self,
        instruction: &Wgmma,
        registers: &[&[u32]; LANES],
        a: &[WgmmaA; LANES],
        b: u64,
        adds: bool,
        location: &'static Location<'static>,
    ) -> Result<u32, FaultKind> {
        let operation = instruction.operation;
        let invalid = |reason: String| FaultKind::InvalidOperand { operation, reason };
        let warp = self.warp();
        let warps = self.count() / WARP_SIZE;
        if warp as u32 / WARPGROUP * WARPGROUP + WARPGROUP > warps {
            return Err(invalid(format!(
                "warp {warp} of a block of {} threads is in no whole warpgroup of 128",
                self.count()
            )));
        }
        for descriptor in a
            .iter()
            .take(1)
            .filter_map(|a| if let WgmmaA::Shared(d) = a { Some(*d) } else { None })
            .chain([b])
        {
            let descriptor = MatrixDescriptor::of(descriptor);
            if descriptor.base_offset != 0 {
                return Err(invalid(format!(
                    "the simulator does not support the base offset of {descriptor:?}"
                )));
            }
        }
        let queue = &self.wgmma[warp];
        let kept = queue.borrow().find(registers[0]);
        if registers.iter().any(|registers| queue.borrow().find(registers) != kept) {
            return Err(invalid(
                "some lanes accumulate into the results of an earlier instruction, and others do not".into(),
            ));
        }
        let from_registers = (kept.is_none() && adds) || matches!(a[0], WgmmaA::Registers(_));
        if !queue.borrow().fenced && (from_registers || queue.borrow().committed == 0) {
            return Err(invalid(
                "there was no wgmma.fence after the warp could change its registers\ncall `wgmma_fence` before the first `wgmma` of a group".into(),
            ));
        }
        let before = kept.map(|at| queue.borrow_mut().kept.remove(at).words);
        let of_lane = |lane: usize| match &before {
            Some(words) => lane_of(words, lane),
            None => registers[lane],
        };
        let before = adds.then(|| std::array::from_fn(of_lane));
        let input = WarpInput { warp: warp % WARPGROUP as usize, a, b, d: before };
        let mut pieces = instruction.pieces(&input);
        let reader = self.async_reader(u32::MAX);
        let fault = |&address: &u32| {
            let offset = address.wrapping_sub(SHARED_BASE) as usize;
            if offset >= self.shared.bytes()
                || offset + PIECE > self.shared.bytes()
                || !self.shared.is_written(offset, PIECE)
            {
                return Some(self.shared_fault_kind(Access::WgmmaOperand, address, PIECE));
            }
            let access = Access::WgmmaOperand;
            self.not_awaited(access, offset, PIECE)
                .or_else(|| self.check_shared(reader.as_ref(), access, offset, PIECE))
                .or_else(|| self.unfenced(access, offset))
        };
        if pieces.iter().any(|address| fault(address).is_some()) {
            // The fault at the lowest address.
            pieces.sort_unstable();
            return Err(pieces.iter().find_map(fault).expect("one of them has a fault"));
        }
        let words = instruction.compute(&input, |address| {
            // The pieces were checked.
            u128::from_le_bytes(self.shared.peek((address - SHARED_BASE) as usize))
        });
        let mut queue = queue.borrow_mut();
        let group = queue.committed;
        let pieces = pieces.into_iter().map(|address| (address - SHARED_BASE) as usize / PIECE);
        let issued = Issued { operation, location };
        self.begin_reads(self.warpgroup(warp), group as u32 + 1, issued, pieces);
        let mark = queue.next_mark(instruction.words());
        queue.kept.push(Kept { mark, words, group, taken: 0 });
        Ok(mark)
    }

    /// Commits the instructions since the last commit as a group: `wgmma.commit_group`.
    pub(crate) fn wgmma_commit(&self, location: &'static Location<'static>) {
        self.together("wgmma.commit_group", location, || {
            self.wgmma[self.warp()].borrow_mut().committed += 1;
        });
    }

    /// Waits for all groups except the `pending` youngest: `wgmma.wait_group`.
    pub(crate) fn wgmma_wait(&self, pending: usize, location: &'static Location<'static>) {
        let warp = self.warp();
        let complete = self.together("wgmma.wait_group", location, || {
            let mut queue = self.wgmma[warp].borrow_mut();
            queue.complete = queue.complete.max(queue.committed.saturating_sub(pending as u64));
            queue.fenced = false;
            queue.complete
        });
        // The four warps execute an instruction together, so it does not complete before the last
        // warp has issued it.
        let first = warp / WARPGROUP as usize * WARPGROUP as usize;
        let warps = first..(first + WARPGROUP as usize).min(self.wgmma.len());
        let issued = || warps.clone().all(|warp| self.wgmma[warp].borrow().committed >= complete);
        self.wait_until("the wgmma of the other warps of its warpgroup", issued, location);
        // A group belongs to the whole warpgroup: none of its warps still reads.
        let known = &mut self.thread().known.borrow_mut();
        self.cluster().end_steps(self.warpgroup(warp), complete as u32, known);
    }

    /// Writes completed results into the accumulators that hold their marks. Marks of groups not
    /// yet waited for remain.
    pub(crate) fn wgmma_take(&self, registers: &mut [u32]) {
        let lane = (self.running.get() % WARP_SIZE) as usize;
        let mut queue = self.wgmma[self.warp()].borrow_mut();
        let Some(at) = queue.find(registers) else { return };
        let complete = queue.complete;
        let kept = &mut queue.kept[at];
        if kept.group >= complete {
            return;
        }
        registers.copy_from_slice(lane_of(&kept.words, lane));
        kept.taken |= 1 << lane;
        if kept.taken == u32::MAX {
            queue.kept.remove(at);
        }
    }
}
