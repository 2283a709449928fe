//! Reductions along rows: each element is read once, in 16-byte vectors along contiguous rows, and
//! by neighbouring lanes across contiguous columns.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
const WARPS: u32 = THREADS / 32;
/// Lanes of a row of [`Share::Lanes`].
const LANES: u32 = 8;

static_layout! {
    /// A state for each thread: (lane, warp).
    States = layout!((32, WARPS as i64));
}

/// The threads that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Share {
    /// Eight lanes of a warp: short rows.
    Lanes,
    /// The lanes of a warp.
    Warp,
    /// All of a block.
    Block,
    /// A lane of each warp of a block: rows whose elements are contiguous across rows.
    Lane,
}

impl Share {
    /// Rows of a block.
    pub const fn rows(self) -> u32 {
        match self {
            Self::Lanes => THREADS / LANES,
            Self::Warp => WARPS,
            Self::Block => 1,
            Self::Lane => 32,
        }
    }
}

/// The rows of a launch, in groups. A block of the grid's `y` has a slice of each of its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, KernelParam)]
#[repr(C)]
pub struct Rows {
    /// Rows of a group.
    pub rows: u32,
    /// Groups of rows.
    pub groups: u32,
    /// Elements of a row.
    pub columns: u32,
    /// Elements of a slice.
    pub slice: u32,
    /// The threads of a row: a [`Share`].
    pub share: u32,
    /// Whether `x` holds states instead of elements.
    pub from_states: bool,
    /// Whether states are written instead of results.
    pub to_states: bool,
    /// Distances of the elements of `x`.
    pub stride: RowStride,
    /// The distance of two groups in `x`.
    pub group: i64,
    /// The distances of the results of two groups, and of two rows.
    pub result: RowStride,
    /// The distances of the indices of elements.
    pub index: RowStride,
    /// The distance of the indices of two groups.
    pub index_group: i64,
}

/// The rule of a result.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Rule {
    /// A factor of each element: -1 for the minimum.
    pub sign: f32,
    /// A factor of the result.
    pub scale: f32,
}

/// A reduction with the result of a whole row.
pub trait Reduce: Reduction {
    /// Writes result `index` of `y`, rounded to `T`.
    ///
    /// # Safety
    /// `y` holds that result, and no other thread accesses it.
    unsafe fn write<T: Element>(state: Self::State, rule: Rule, y: GlobalMut<T>, index: i64)
    where
        f32: Convert<T>;
}

macro_rules! value {
    ($($reduction:ident: |$state:ident, $rule:ident| $value:expr;)+) => { $(
        impl Reduce for $reduction {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn write<T: Element>($state: Self::State, $rule: Rule, y: GlobalMut<T>, index: i64)
            where
                f32: Convert<T>,
            {
                // SAFETY: `y` holds the result, which is this thread's.
                unsafe { y.write(index, f32::convert($value)) }
            }
        }
    )+ };
}
value! {
    Sum: |state, rule| state * rule.scale;
    SquareSum: |state, rule| math::sqrt(state) * rule.scale;
    Max: |state, rule| state * rule.sign;
    LogSumExp: |state, _rule| LogSumExp::base(state.0) + math::log2(state.1) * core::f32::consts::LN_2;
    Variance: |state, rule| state[2] * rule.scale;
}

impl Reduce for ArgMax {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn write<T: Element>(state: (f32, u32), _: Rule, y: GlobalMut<T>, index: i64)
    where
        f32: Convert<T>,
    {
        // SAFETY: `y` holds the result, an i64, which is this thread's.
        unsafe { y.cast::<i64>().write(index, i64::from(state.1)) }
    }
}

/// Reduces each row of `x`: to its result in `y`, or to a state for each slice in `states`. Grid:
/// `(ceil(rows / Share::rows), slices, groups)`.
///
/// # Safety
/// `x` holds the rows, elements or states; `y` holds a result for each row, i64 for [`ArgMax`], or
/// `states` holds a state for each row and slice. What is written is disjoint from `x`. With more
/// than one slice states are written.
#[kernel(
    threads = THREADS,
    shared = (scratch: SharedArray<<R as Reduction>::State, States>),
    instances = reduce<f32 | f16 | bf16, Sum | SquareSum | Max | LogSumExp | Variance | ArgMax>,
    table = ReduceKernels
)]
pub unsafe fn reduce<T: Element + Convert<f32>, R: Reduce>(
    x: Global<T>,
    y: GlobalMut<T>,
    states: GlobalMut<u8>,
    shape: Rows,
    rule: Rule,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let (block, thread) = (block_idx(), thread_idx().x);
    let (lane, warp) = (thread % 32, thread / 32);
    let by_lane = shape.share == Share::Lane as u32;
    let by_block = shape.share == Share::Block as u32;
    let by_lanes = shape.share == Share::Lanes as u32;
    let (row, part, parts) = if by_lane {
        (block.x * 32 + lane, warp, WARPS)
    } else if by_block {
        (block.x, thread, THREADS)
    } else if by_lanes {
        (block.x * (THREADS / LANES) + thread / LANES, thread % LANES, LANES)
    } else {
        (block.x * WARPS + warp, lane, 32)
    };
    let from = block.y * shape.slice;
    let to = if row < shape.rows { shape.columns.min(from + shape.slice) } else { from };
    let place = |stride: RowStride, group: i64| i64::from(row) * stride.row + i64::from(block.z) * group;
    let (first, step) = (place(shape.index, shape.index_group) as u32, shape.index.element as u32);
    let part = RowPart { from, to, part, parts };
    let mut state = R::NONE;
    if shape.from_states {
        let x = x.cast::<R::State>().offset(place(shape.stride, shape.group));
        let read = |at: u32| x.read(i64::from(at.min(to - 1)) * shape.stride.element);
        part.strided(read, |other, _| state = R::combine(state, other));
    } else {
        let x = x.offset(place(shape.stride, shape.group));
        part.for_each(x, shape.stride.element, |values, at| {
            let mut signed = [0.0; 16];
            for (signed, value) in signed.iter_mut().zip(values) {
                *signed = value * rule.sign;
            }
            let of = R::of(&signed[..values.len()], |i| first + (at + i) * step);
            state = R::combine(state, of);
        });
    }
    if by_lanes {
        state = lanes_reduce::<{ LANES - 1 }, _>(state, R::combine);
    } else if !by_lane {
        state = warp_reduce(state, R::combine);
    }
    if by_lane || by_block {
        let mut scratch = scratch;
        scratch.set((lane, warp), state);
        sync_threads();
        if warp > 0 {
            return;
        }
        for other in 1..WARPS {
            state = R::combine(state, scratch.get((lane, other)));
        }
    }
    if row < shape.rows && (by_lane || part.part == 0) {
        if shape.to_states {
            let row = i64::from(block.z) * i64::from(shape.rows) + i64::from(row);
            let at = row * i64::from(grid_dim().y) + i64::from(block.y);
            states.cast::<R::State>().write(at, state);
        } else {
            let at = i64::from(block.z) * shape.result.row + i64::from(row) * shape.result.element;
            R::write(state, rule, y, at);
        }
    }
}
