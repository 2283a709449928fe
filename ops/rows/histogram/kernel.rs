//! Histograms: a block counts in shared memory, in several copies if there are few bins, and adds
//! its counts to the result. Counts are integers, so their order does not matter.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::place::Place;
use moye_device::algorithm::RowPart;
use moye_device::arch::{AtomicAdd as _, overlap_launches};
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 512;
/// The most bins that are counted in shared memory.
pub const ROOM: u32 = 8192;

static_layout! {
    /// Counts of copies of the bins.
    Counts = layout!(ROOM as i64);
}

/// The bins.
#[derive(Clone, Copy, Debug, PartialEq, KernelParam)]
#[repr(C)]
pub struct Bins {
    /// The least value that is counted.
    pub low: f32,
    /// The greatest value that is counted, in the last bin.
    pub high: f32,
    /// The number of bins, 2^24 at most.
    pub count: u32,
    /// Bins of a unit.
    pub factor: f32,
}

impl Bins {
    /// Bins of equal width.
    pub fn new([low, high]: [f32; 2], count: u32) -> Self {
        Self { low, high, count, factor: count as f32 / (high - low) }
    }

    /// The bin of a value, `count` or more if it is out of range.
    #[inline(always)]
    pub fn of(self, value: f32) -> u32 {
        if !(value >= self.low && value <= self.high) {
            return u32::MAX;
        }
        let bin = ((value - self.low) * self.factor) as u32;
        if bin < self.count { bin } else { self.count - 1 }
    }
}

/// An element type with bins.
pub trait Binned: Element {
    /// Calls `f` with the bin of each element of a part of a row.
    ///
    /// # Safety
    /// The row is readable.
    unsafe fn each(part: RowPart, x: Global<Self>, stride: i64, bins: Bins, f: impl FnMut(u32));
}

macro_rules! binned {
    ($($float:ty),+; $($integer:ty),+) => {
        $( impl Binned for $float {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn each(part: RowPart, x: Global<Self>, stride: i64, bins: Bins, mut f: impl FnMut(u32)) {
                // SAFETY: the row is readable.
                unsafe {
                    part.for_each(x, stride, |values, _| {
                        for &value in values {
                            f(bins.of(value));
                        }
                    });
                }
            }
        } )+
        $( impl Binned for $integer {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn each(part: RowPart, x: Global<Self>, stride: i64, bins: Bins, mut f: impl FnMut(u32)) {
                // SAFETY: the row is readable; indices past the end are clamped to the last
                // element.
                let read = |at: u32| unsafe { x.read(i64::from(at.min(part.to - 1)) * stride) };
                part.strided(read, |value, _| {
                    let is_bin = value >= 0 && value < bins.count as $integer;
                    f(if is_bin { value as u32 } else { u32::MAX });
                });
            }
        } )+
    };
}
binned!(f32, f16, bf16; i32, i64);

/// Sets the counts to 0. Grid: `ceil(bins / THREADS)`.
///
/// # Safety
/// `counts` holds `bins` elements, `stride` apart.
#[kernel(threads = THREADS)]
pub unsafe fn histogram_clear(counts: GlobalMut<i64>, bins: u32, stride: i64) {
    overlap_launches();
    let i = block_idx().x * THREADS + thread_idx().x;
    counts.offset(i64::from(i) * stride).write_if(i < bins, 0);
}

/// Adds the number of elements in each bin to `counts`. Grid: `(blocks, rows, groups)`; a row has
/// `n` elements.
///
/// # Safety
/// `x` holds the rows, and `counts` an element for each bin, `stride` apart, disjoint from `x`.
#[kernel(
    threads = THREADS,
    shared = (shared: SharedArray<u32, Counts>),
    instances = histogram<f32 | f16 | bf16 | i32 | i64>,
    table = HistogramKernels
)]
pub unsafe fn histogram<T: Binned>(
    x: Global<T>,
    n: u32,
    of_x: Place,
    bins: Bins,
    counts: GlobalMut<i64>,
    stride: i64,
) {
    overlap_launches();
    let (block, thread) = (block_idx(), thread_idx().x);
    let (x, element) = (x.offset(of_x.row(block.z, block.y)), of_x.element);
    let part = RowPart { from: 0, to: n, part: block.x * THREADS + thread, parts: grid_dim().x * THREADS };
    let address = |bin: u32| counts.offset(i64::from(bin) * stride).address();
    if bins.count > ROOM {
        T::each(part, x, element, bins, |bin| {
            if bin < bins.count {
                u64::reduce_add_global(address(bin), 1);
            }
        });
        return;
    }
    // Warps use copies in turn, as additions to the same bin are serialised.
    let copies = (ROOM / bins.count).min(THREADS / 32);
    let (own, all) = (thread / 32 % copies * bins.count, copies * bins.count);
    let mut shared = shared;
    let mut bin = thread;
    while bin < all {
        shared.set(bin, 0);
        bin += THREADS;
    }
    sync_threads();
    T::each(part, x, element, bins, |bin| {
        if bin < bins.count {
            u32::reduce_add_shared(shared.address_of(own + bin), 1);
        }
    });
    sync_threads();
    let mut bin = thread;
    while bin < bins.count {
        let mut count = 0;
        for copy in 0..copies {
            count += shared.get(copy * bins.count + bin);
        }
        if count > 0 {
            u64::reduce_add_global(address(bin), count.into());
        }
        bin += THREADS;
    }
}
