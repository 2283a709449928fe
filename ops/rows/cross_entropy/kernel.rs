//! Cross-entropy of logits: each row is read once, into registers, and its gradient is written
//! once; or it is read once by threads that keep only a maximum and a sum.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::thread;
use core::f32::consts::{LN_2, LOG2_E};
use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// The strides of the arrays.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Strides {
    /// Strides of the logits.
    pub x: RowStride,
    /// Strides of the gradient.
    pub dx: RowStride,
    /// Stride between targets.
    pub targets: i64,
    /// Stride between gradients of losses.
    pub dloss: i64,
    /// Stride between losses.
    pub loss: i64,
    /// Stride between logarithms.
    pub lse: i64,
}

/// The target of a row, `at` elements after the first: of 64 bits if they are `wide`, else of 32.
///
/// # Safety
/// The target is readable.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn target_of(targets: Global<i32>, at: i64, wide: bool) -> i64 {
    // SAFETY: the target is readable.
    unsafe { if wide { targets.cast::<i64>().read(at) } else { i64::from(targets.read(at)) } }
}

/// A row of `n` logits: its greatest, the sum of `e^(x - max)`, the sum of all, and the target's.
struct Logits {
    max: f32,
    sum: f32,
    all: f32,
    target: f32,
    n: u32,
}

impl Logits {
    /// The loss, and the logarithm of the sum of exponentials.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn loss(&self, smoothing: f32) -> [f32; 2] {
        let Self { max, sum, all, target, n } = *self;
        let logarithm = math::fast::log2(sum) * LN_2;
        let smoothed = if smoothing == 0.0 { 0.0 } else { smoothing * (all / n as f32 - max) };
        [logarithm - (1.0 - smoothing) * (target - max) - smoothed, max + logarithm]
    }
}

/// The loss of each row of logits, `lse(x) - (1 - smoothing) x[target] - smoothing mean(x)`, the
/// logarithm of the sum of exponentials `lse(x)`, and the loss's gradient times `scale`, and times
/// the row's `dloss` unless its address is 0; a block for each `C::ROWS` rows, or a cluster for
/// each row; shapes that are `AHEAD` step over the rows.
/// A row whose target is `ignore` has loss and gradient 0; a target outside `0..n` yields NaN. The
/// address of a result that is not wanted is 0.
///
/// # Safety
/// `x` and `dx`, the same or disjoint, hold `m` rows of `n` elements, aligned to `C::ALIGN` bytes;
/// `n` is at most `C::COLUMNS`, times the blocks of a cluster. `targets`, `dloss`, `loss` and `lse`
/// hold `m` elements: targets of 64 bits if they are `wide`, else of 32. All have the strides `ld`.
#[kernel(
    threads = C::BLOCK,
    // 64 registers a thread; rows that start anywhere may have more.
    min_blocks = if C::ALIGN > 1 { 1024 / C::BLOCK } else { 1 },
    shared = (scratch: SharedArray<f32, RowScratch>, stage: RowStage<T, C>),
    instances = cross_entropy<
        f32 | f16 | bf16,
        Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp | AnyBlock512
            | Chunked | AnyChunked
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster512
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster1024
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] AnyCluster
    >,
    table = CrossEntropyKernels
)]
pub unsafe fn cross_entropy<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    targets: Global<i32>,
    dloss: Global<f32>,
    loss: GlobalMut<f32>,
    lse: GlobalMut<f32>,
    dx: GlobalMut<T>,
    m: u32,
    n: u32,
    ld: Strides,
    wide: bool,
    ignore: i64,
    smoothing: f32,
    scale: f32,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    stage.start(&load.partition_s(team.rows(x, (m, n), ld.x)));
    loop {
        let load = RowCopy::<T, C>::get_slice(thread::<C>());
        let tXgX = load.partition_s(team.rows(x, (m, n), ld.x)); // (CPY, CPY_M, CPY_N)
        // In flight while the target and then its logit are read.
        let mut tXrX = stage.take(&team, &tXgX); // (CPY, CPY_M, CPY_N)
        stage.start(&load.partition_s(team.rows_at(x, (m, n), ld.x, team.next_tile())));
        let row = team.row();
        let at = i64::from(row) * ld.targets;
        let target = match row < m {
            true => target_of(targets, at, wide),
            false => ignore,
        };
        let is_known = target >= 0 && target < i64::from(n);
        let holder = team.holder::<T>(target as u32).filter(|_| row < m && is_known);
        // The block that has the target's column reads its logit, before the column is written.
        let at_target = match holder {
            Some(_) => x.read(i64::from(row) * ld.x.row + target * ld.x.element).convert(),
            None => 0.0,
        };
        let scale = match row < m && dloss.address() != 0 {
            true => scale * dloss.read(i64::from(row) * ld.dloss),
            false => scale,
        };

        // Elements out of bounds are 0 here.
        let all = match smoothing {
            0.0 => 0.0,
            _ => team.reduce_in_block(tXrX.reduce_rows(f32::add), f32::add)[0],
        };
        team.fill_outside(&mut tXrX, &tXgX, f32::NEG_INFINITY);
        // Per block: the values of a cluster's blocks are exchanged together.
        let of_block = team.reduce_in_block(tXrX.reduce_rows(f32::max), f32::max)[0];
        let base = if of_block == f32::NEG_INFINITY { 0.0 } else { of_block };
        tXrX.apply(|x| math::fast::exp2((x - base) * LOG2_E));
        let sum = team.reduce_in_block(tXrX.reduce_rows(f32::add), f32::add)[0];
        let relative = |max: f32, all: f32| match max {
            f32::NEG_INFINITY => 0.0,
            _ => math::fast::exp2((max - all) * LOG2_E),
        };
        let [max, sum, all, logit] = team.combine_blocks([of_block, sum, all, at_target], |a, b| {
            let max = a[0].max(b[0]);
            [max, a[1] * relative(a[0], max) + b[1] * relative(b[0], max), a[2] + b[2], a[3] + b[3]]
        });
        let logit = if is_known { logit } else { f32::NAN };
        let is_ignored = target == ignore;
        if let Some(row) = team.leader()
            && row < m
        {
            let row = i64::from(row);
            let [value, logarithm] = Logits { max, sum, all, target: logit, n }.loss(smoothing);
            loss.write(row * ld.loss, if is_ignored { 0.0 } else { value });
            if lse.address() != 0 {
                lse.write(row * ld.lse, logarithm);
            }
        }
        if dx.address() != 0 {
            let inverse = relative(of_block, max) * math::fast::rcp(sum);
            // Without a known target all elements are NaN.
            let every = if is_known { smoothing / n as f32 } else { f32::NAN };
            let (factor, less) = (scale * inverse, scale * every);
            tXrX.apply(|x| x.fma(factor, -less));
            if is_ignored {
                // Also where logits are infinite or NaN.
                tXrX.apply(|_| 0.0);
            }
            // Other lanes have read this thread's element as their target's logit.
            sync_warp(u32::MAX);
            let gD = team.rows(dx, (m, n), ld.dx); // (BLK_M, BLK_N)
            team.store(&tXrX, &load.partition_d(gD));
            if holder == Some(thread_idx().x % C::THREADS) && !is_ignored && team.writes() {
                // Written after its vector, by the same thread: comparing every column takes
                // longer.
                let p = math::fast::exp2((at_target - base) * LOG2_E) * inverse;
                let of_target = scale * (p - every - (1.0 - smoothing));
                dx.write(i64::from(row) * ld.dx.row + target * ld.dx.element, of_target.convert());
            }
        }
        if !team.step(m) {
            return;
        }
    }
}

/// Threads of a block of [`losses`].
pub const THREADS: u32 = 256;

static_layout! {
    /// An element for each warp.
    Warps = layout!((THREADS as i64 / 32));
}

/// The losses of [`cross_entropy`] without the gradient, of rows with contiguous elements. Threads
/// keep no elements, so rows have any length. Grid: a block for each row.
///
/// # Safety
/// `x` holds `n` elements, at least one, for each row, with any alignment. `targets`, `loss` and,
/// unless its address is 0, `lse` hold an element for each row: targets of 64 bits if they are
/// `wide`, else of 32. All have the strides `ld`, of which those of the gradients are not used.
#[kernel(
    threads = THREADS,
    shared = (states: SharedArray<(f32, f32), Warps>, sums: SharedArray<f32, Warps>),
    instances = losses<f32 | f16 | bf16>,
    table = LossKernels
)]
pub unsafe fn losses<T: Element + Convert<f32>>(
    x: Global<T>,
    targets: Global<i32>,
    loss: GlobalMut<f32>,
    lse: GlobalMut<f32>,
    n: u32,
    ld: Strides,
    wide: bool,
    ignore: i64,
    smoothing: f32,
) {
    overlap_launches();
    let (row, thread) = (i64::from(block_idx().x), thread_idx().x);
    let x = x.offset(row * ld.x.row);
    let target = target_of(targets, row * ld.targets, wide);
    let is_known = target >= 0 && target < i64::from(n);
    // In flight while the row is read.
    let logit = if is_known { x.read(target).convert() } else { f32::NAN };
    let (mut state, mut all) = (LogSumExp::NONE, 0.0);
    RowPart { from: 0, to: n, part: thread, parts: THREADS }.for_each(x, 1, |values, at| {
        state = LogSumExp::with(state, values, at);
        if smoothing != 0.0 {
            all += Sum::of(values, |i| i);
        }
    });
    let (max, sum) = block_reduce(state, states, LogSumExp::combine);
    if smoothing != 0.0 {
        all = block_reduce(all, sums, Sum::combine);
    }
    if thread == 0 {
        // As from differences to an infinite maximum.
        let sum = if max == f32::INFINITY { f32::NAN } else { sum };
        let [value, logarithm] = Logits { max, sum, all, target: logit, n }.loss(smoothing);
        loss.write(row * ld.loss, if target == ignore { 0.0 } else { value });
        if lse.address() != 0 {
            lse.write(row * ld.lse, logarithm);
        }
    }
}
