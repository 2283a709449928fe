//! Reductions along rows: each element is read once, in 16-byte vectors along contiguous rows or
//! across them, or by neighbouring lanes across rows that are not aligned.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;
const WARPS: u32 = THREADS / 32;
/// Lanes of a row of [`Share::Lanes`]: four vectors of each are in flight for 256 bytes.
const LANES: u32 = 4;

static_layout! {
    /// A state for each row and warp: 32 lanes with a row each, or with 8.
    States = layout!((256, WARPS as i64));
}

/// The threads that share a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Share {
    /// Four lanes of a warp: short rows.
    Lanes,
    /// The lanes of a warp.
    Warp,
    /// All threads of a block.
    Block,
    /// A lane of each warp of a block: rows whose elements are contiguous across rows.
    Lane,
    /// [`Lane`](Self::Lane), but each lane reduces the rows that share a vector of 16 bytes.
    Vectors,
}

impl Share {
    /// Rows of a block; a vector of 16 bytes has `vector` elements.
    pub const fn rows(self, vector: u32) -> u32 {
        match self {
            Self::Lanes => THREADS / LANES,
            Self::Warp => WARPS,
            Self::Block => 1,
            Self::Lane => 32,
            Self::Vectors => 32 * vector,
        }
    }
}

/// The rows of a launch, in groups. Along the grid's `y`, blocks reduce the slices of their rows.
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
    /// Strides of the elements of `x`.
    pub stride: RowStride,
    /// Stride between groups in `x`.
    pub group: i64,
    /// Strides of the results between groups and between rows.
    pub result: RowStride,
    /// Strides of the indices of elements.
    pub index: RowStride,
    /// Stride of the indices between groups.
    pub index_group: i64,
}

/// The access pattern of a kernel: vectors across rows take more registers.
pub trait Way {
    /// Whether the threads' share is [`Share::Vectors`].
    const BY_VECTORS: bool;
}

/// Any share but [`Share::Vectors`].
pub struct Along;

/// [`Share::Vectors`].
pub struct Across;

impl Way for Along {
    const BY_VECTORS: bool = false;
}

impl Way for Across {
    const BY_VECTORS: bool = true;
}

/// Factors of elements and result.
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
/// `states` holds a state for each row and slice. The results are disjoint from `x`. With more
/// than one slice, states are written. With [`Share::Vectors`] `x` has elements, and each vector of
/// neighbouring rows is at a multiple of 16 bytes.
#[kernel(
    threads = THREADS,
    shared = (scratch: SharedArray<<R as Reduction>::State, States>),
    instances = reduce<f32 | f16 | bf16, Sum | SquareSum | Max | LogSumExp | Variance | ArgMax, Along | Across>,
    table = ReduceKernels
)]
pub unsafe fn reduce<T: Element + Convert<f32>, R: Reduce, W: Way>(
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
    let vector = const { 16 / T::BYTES as u32 };
    let by_lane = shape.share == Share::Lane as u32;
    let by_block = shape.share == Share::Block as u32;
    let by_lanes = shape.share == Share::Lanes as u32;
    let by_vectors = const { W::BY_VECTORS };
    let (row, part, parts) = if by_lane {
        (block.x * 32 + lane, warp, WARPS)
    } else if by_block {
        (block.x, thread, THREADS)
    } else if by_lanes {
        (block.x * (THREADS / LANES) + thread / LANES, thread % LANES, LANES)
    } else if by_vectors {
        // The row that this thread writes.
        (block.x * (32 * vector) + thread, warp, WARPS)
    } else {
        (block.x * WARPS + warp, lane, 32)
    };
    let from = block.y * shape.slice;
    let end = shape.columns.min(from + shape.slice);
    let place =
        |row: u32, stride: RowStride, group: i64| i64::from(row) * stride.row + i64::from(block.z) * group;
    let (stride, mut scratch) = (shape.stride.element, scratch);
    let mut state = R::NONE;
    if by_vectors {
        let first = (block.x * 32 + lane) * vector;
        let to = if first < shape.rows { end } else { from };
        let x = x.offset(place(first, shape.stride, shape.group));
        let (part, mut of_rows) = (RowPart { from, to, part, parts }, [R::NONE; 8]);
        part.for_each_across(x, stride, |i, values, at| {
            let mut signed = [0.0; RowPart::ACROSS];
            for (signed, value) in signed.iter_mut().zip(values) {
                *signed = value * rule.sign;
            }
            of_rows[i] = R::then(of_rows[i], R::of(&signed[..values.len()], |i| at + i));
        });
        #[allow(clippy::needless_range_loop, reason = "loops over arrays of the kernel unroll")]
        for i in 0..const { 16 / T::BYTES } {
            scratch.set((lane * vector + i as u32, warp), of_rows[i]);
        }
    } else {
        let part = RowPart { from, to: if row < shape.rows { end } else { from }, part, parts };
        if shape.from_states {
            let x = x.cast::<R::State>().offset(place(row, shape.stride, shape.group));
            let read = |at: u32| x.read(i64::from(at.min(end - 1)) * stride);
            part.strided(read, |other, _| state = R::combine(state, other));
        } else {
            let x = x.offset(place(row, shape.stride, shape.group));
            part.for_each(x, stride, |values, at| {
                let mut signed = [0.0; 16];
                for (signed, value) in signed.iter_mut().zip(values) {
                    *signed = value * rule.sign;
                }
                state = R::with(state, &signed[..values.len()], at);
            });
        }
        if by_lanes {
            state = lanes_reduce::<{ LANES - 1 }, _>(state, R::combine);
        } else if !by_lane {
            state = warp_reduce(state, R::combine);
        }
        if by_lane || by_block {
            scratch.set((lane, warp), state);
        }
    }
    if by_lane || by_block || by_vectors {
        sync_threads();
        if thread >= if by_vectors { 32 * vector } else { 32 } {
            return;
        }
        let of = if by_vectors { thread } else { lane };
        state = scratch.get((of, 0u32));
        for other in 1..WARPS {
            state = R::combine(state, scratch.get((of, other)));
        }
    }
    if row < shape.rows && (by_lane || by_vectors || part == 0) {
        if !shape.from_states {
            let x = x.offset(place(row, shape.stride, shape.group));
            let value = |at: u32| x.read(i64::from(at.min(end - 1)) * stride).convert() * rule.sign;
            if stride == 1 && !by_vectors {
                state = R::located(state, value);
            }
            let first = place(row, shape.index, shape.index_group) as u32;
            state = R::indexed(state, |at| first + at * shape.index.element as u32);
        }
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
