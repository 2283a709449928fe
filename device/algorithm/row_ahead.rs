//! Rows that are copied to shared memory while a team computes on the previous ones.

use super::row::{RowBlocks, RowShape};
use super::row_access::access;
use super::row_team::RowTeam;
use crate::arch::{
    Convert, CpAsyncKind, L2Prefetch, Word as _, Word128, cp_async_commit, cp_async_wait_all, cp_async_zfill,
    thread_idx,
};
use crate::memory::{Element, GlobalPointer, SharedStorage};
use crate::tensor::{
    Access as _, AccessMut as _, Fragment, FragmentLike, GlobalTensor, StaticLayout, Strides,
};
use core::marker::PhantomData;

/// Shared memory for a tile of rows that a block computes on next, in the [`kernel`](crate::kernel)
/// attribute's `shared`. A thread copies its own elements by `cp.async` and reads no others, so
/// that it waits only for its own copies. It has no memory, and [`take`](Self::take) loads
/// directly, if the shape is not [`AHEAD`](RowShape::AHEAD), or if the kernel's `STAGES` stages do
/// not fit: 96 KB, 200 KB in the blocks of a cluster, or 40 KB where a block takes chunks.
///
/// ```
/// # #![allow(non_snake_case)]
/// # use moye_device::algorithm::{Block512, RowCopy, RowScratch, RowShape, RowStage, RowStride};
/// # use moye_device::algorithm::{RowTeam, Warp};
/// # use moye_device::prelude::*;
/// /// `y = x - mean(x)` along rows of `n`, `ld` apart. Grid: at most `ceil(m / C::ROWS)`
/// /// blocks, which step over the rows.
/// ///
/// /// # Safety
/// /// `x` and `y` hold `m` rows, which start at multiples of 16 bytes; `n` is at most `C::COLUMNS`.
/// #[kernel(
///     threads = C::BLOCK,
///     shared = (scratch: SharedArray<f32, RowScratch>, stage: RowStage<T, C>),
///     instances = centred<f32, Warp | Block512>
/// )]
/// pub unsafe fn centred<T: Element + Convert<f32>, C: RowShape>(
///     x: Global<T>,
///     y: GlobalMut<T>,
///     m: u32,
///     n: u32,
///     ld: RowStride,
/// ) where
///     f32: Convert<T>,
/// {
///     let mut team = RowTeam::<C>::new(scratch);
///     let load = RowCopy::<T, C>::get_slice(thread_idx().x);
///     stage.start(&load.partition_s(team.rows(x, (m, n), ld)));
///     loop {
///         let tXgX = load.partition_s(team.rows(x, (m, n), ld)); // (CPY, CPY_M, CPY_N)
///         let mut tXrX = stage.take(&team, &tXgX); // (CPY, CPY_M, CPY_N)
///         stage.start(&load.partition_s(team.rows_at(x, (m, n), ld, team.next_tile())));
///         let sum = team.reduce(tXrX.reduce_rows(f32::add), f32::add); // (CPY_M)
///         tXrX.apply_rows(&sum, |x, sum| x - sum / n as f32);
///         team.store(&tXrX, &load.partition_d(team.rows(y, (m, n), ld)));
///         if !team.step(m) {
///             return;
///         }
///     }
/// }
/// # let memory = moye_sim::GlobalMemory::new();
/// # let x = memory.upload(&(0..5 * 1000).map(|i| (i % 1000) as f32).collect::<Vec<_>>(), "x").unwrap();
/// # let y = memory.upload(&[f32::NAN; 5 * 1000], "y").unwrap();
/// # let ld = RowStride { row: 1000, element: 1 };
/// # let arguments = (Global::from_address(x.address()), GlobalMut::from_address(y.address()), 5, 1000, ld);
/// // SAFETY: both hold 5 rows of 1,000 elements.
/// # unsafe { centred_f32_block512.simulate(&memory, 2, Block512::BLOCK, arguments) }.unwrap();
/// # let got = y.download::<f32>();
/// assert_eq!((got[0], got[4999]), (-499.5, 499.5));
/// ```
pub struct RowStage<T, C, const STAGES: usize = 1>(u32, PhantomData<(T, C)>);

impl<T, C, const STAGES: usize> Clone for RowStage<T, C, STAGES> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, C, const STAGES: usize> Copy for RowStage<T, C, STAGES> {}

impl<T: Element, C: RowShape, const STAGES: usize> SharedStorage for RowStage<T, C, STAGES> {
    const BYTES: usize = if Self::HOLDS { Self::TILE } else { 0 };
    const ALIGN: usize = 16;

    type Tensors = Self;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self {
        Self(base, PhantomData)
    }
}

impl<T: Element, C: RowShape, const STAGES: usize> RowStage<T, C, STAGES> {
    /// Bytes of a tile.
    const TILE: usize = (C::ROWS * C::COLUMNS) as usize * T::BYTES;
    /// Whether it has memory. Two blocks with chunks fit on an SM.
    const HOLDS: bool = C::AHEAD
        && STAGES * Self::TILE
            <= match (<C::Blocks as RowBlocks>::CLUSTER, <C::Blocks as RowBlocks>::CHUNKS) {
                (true, _) => 200 << 10,
                (_, true) => 40 << 10,
                _ => 96 << 10,
            };

    /// Whether the blocks of a cluster read elements [`again`](Self::again) after an exchange: the
    /// stage has memory.
    pub const KEEPS: bool = Self::HOLDS && <C::Blocks as RowBlocks>::CLUSTER;

    /// The address of a thread's vector: those of adjacent threads are contiguous.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn vector(self, i: usize) -> u32 {
        self.0 + (i as u32 * C::BLOCK + thread_idx().x) * 16
    }

    /// Starts to copy a thread's part of a tile of rows, with 0 out of bounds.
    ///
    /// # Safety
    /// Same contract as [`copy_async`](super::copy_async), for the source; the previous copy has
    /// been taken.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn start<P, S, L>(self, part: &GlobalTensor<P, S, L, ()>)
    where
        P: GlobalPointer<Element = T>,
        S: Strides,
        L: StaticLayout,
    {
        if const { !Self::HOLDS } {
            return;
        }
        let (size, vector) = const { (L::LAYOUT.size() as usize, access(&L::LAYOUT)) };
        for i in 0..size / vector {
            let (valid, from) =
                (part.engine().exists::<L>(i * vector), part.engine().address::<L>(i * vector));
            // SAFETY: the place is the thread's own; the vector is in bounds if it is valid, and
            // aligned as the shape requires.
            unsafe {
                let bytes = if valid { 16 } else { 0 };
                cp_async_zfill(CpAsyncKind::Cg16, L2Prefetch::None, self.vector(i), from, bytes);
            }
        }
        cp_async_commit();
    }

    /// The elements of the last copy, in f32. The next copy may start.
    ///
    /// # Safety
    /// `part` is the one that [`start`](Self::start) copied last; the call waits for all copies of
    /// the thread.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub unsafe fn take<P, S, L>(
        self,
        team: &RowTeam<C>,
        part: &GlobalTensor<P, S, L, ()>,
    ) -> Fragment<f32, FragmentLike<FragmentLike<L>>>
    where
        T: Convert<f32>,
        P: GlobalPointer<Element = T>,
        S: Strides,
        L: StaticLayout,
    {
        if const { !Self::HOLDS } {
            // SAFETY: the part is readable.
            return unsafe { team.load(part) };
        }
        cp_async_wait_all();
        // SAFETY: the thread has waited for its copy.
        unsafe { self.again(part) }
    }

    /// The elements of the last copy again, in f32: a kernel that calls this after an exchange
    /// between blocks, and then starts the next copy, needs no registers for them meanwhile.
    ///
    /// # Safety
    /// The stage [`KEEPS`](Self::KEEPS) elements, [`take`](Self::take) returned those of `part`,
    /// and no copy to this stage has started since.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub unsafe fn again<P, S, L>(
        self,
        part: &GlobalTensor<P, S, L, ()>,
    ) -> Fragment<f32, FragmentLike<FragmentLike<L>>>
    where
        T: Convert<f32>,
        P: GlobalPointer<Element = T>,
        S: Strides,
        L: StaticLayout,
    {
        let _ = part;
        let (size, vector) = const { (L::LAYOUT.size() as usize, access(&L::LAYOUT)) };
        let mut values = Fragment::<T, FragmentLike<L>>::zeros();
        for i in 0..size / vector {
            // SAFETY: the thread has waited for its copy.
            unsafe { self.read(&mut values, i, vector) };
        }
        values.convert()
    }

    /// Vector `i` of a thread's copy, of `vector` elements.
    ///
    /// # Safety
    /// The thread has waited for its copy.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn read<L: StaticLayout>(self, values: &mut Fragment<T, L>, i: usize, vector: usize) {
        // SAFETY: the thread has waited for its copy; a fragment's elements are compact.
        unsafe {
            let word = Word128::load_shared(self.vector(i));
            values.engine_mut().store::<L, Word128>(i * vector, word);
        }
    }

    /// [`RowTeam::apply_loaded`] for rows that were copied once, such as weights that all rows
    /// share. Each chunk has other elements, which are loaded directly.
    ///
    /// # Safety
    /// Same contract as [`RowTeam::apply_loaded`]; `part` is the one that [`start`](Self::start)
    /// copied, and a [`take`](Self::take) has waited for it.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn apply<P, S, LG, L>(
        self,
        team: &RowTeam<C>,
        values: &mut Fragment<f32, L>,
        part: &GlobalTensor<P, S, LG, ()>,
        f: impl Fn(f32, f32) -> f32,
    ) where
        T: Convert<f32>,
        P: GlobalPointer<Element = T>,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        if const { !Self::HOLDS || <C::Blocks as RowBlocks>::CHUNKS } {
            // SAFETY: the part is readable.
            return unsafe { team.apply_loaded(values, part, f) };
        }
        let (size, vector) = const { (LG::LAYOUT.size() as usize, access(&LG::LAYOUT)) };
        let mut words = Fragment::<T, FragmentLike<LG>>::zeros();
        for i in 0..size / vector {
            // SAFETY: the thread has waited for its copy.
            unsafe { self.read(&mut words, i, vector) };
            for i in i * vector..(i + 1) * vector {
                values[i] = f(values[i], words[i].convert());
            }
        }
    }
}
