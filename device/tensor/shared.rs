//! Tensors in shared memory: everything but the thread's origin is known at compile time.

use super::static_layout::StaticLayout;
use super::tables::{Digits, Offsets, PLAIN, block_mask, is_linear_after, run};
use super::{Access, AccessMut, ElementIndex, Engine, Length, Movable, Partitioned, Tensor};
use crate::arch::Word;
use crate::layout::{Layout, Swizzle, Text};
use crate::memory::{Element, Shared, SharedPacked, Storable};
use crate::number::Scalar;
use core::marker::PhantomData;

/// Elements in shared memory, indexed by a layout of offsets.
pub type SharedTensor<T, L> = Tensor<Shared<T>, L>;

impl<T: Element, L: StaticLayout> SharedTensor<T, L> {
    /// The elements at `pointer`, which is aligned to 16 bytes.
    #[inline(always)]
    pub const fn shared(pointer: Shared<T>) -> Self {
        Tensor::from_engine(pointer)
    }

    /// The pointer to which the layout's offsets are relative.
    #[inline(always)]
    #[must_use]
    pub const fn pointer(&self) -> Shared<T> {
        self.engine
    }

    /// The address of an element in bytes, for instructions that need it.
    ///
    /// The element is given as for [`get`](Tensor::get).
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn address_of(&self, index: impl ElementIndex<L>) -> u32 {
        self.engine.address_at::<L>(index.element_offset::<PLAIN>())
    }
}

/// Only a whole array can have another layout: for a thread's part the alignment of its origin
/// would be unknown.
const fn whole(origin: &super::Divisors, moved: u64, layout: Layout) {
    if !origin.is_unmoved() || moved != 0 {
        let mut text = Text::<400>::new();
        text.str("with_layout: ");
        text.layout(&layout);
        text.str(" is a part of an array, whose origin was moved; take the whole array's tensor by another layout, and partition that");
        panic!("{}", text.as_str());
    }
}

/// No index of the layout is negative, or the tensor does not compile.
pub(crate) const fn starts_at_zero(layout: Layout) {
    let leaves = layout.leaves();
    let mut leaf = 0;
    while leaf < leaves {
        if layout.shape[leaf] > 1 && layout.step(leaf) < 0 {
            let mut text = Text::<400>::new();
            text.str("the layout ");
            text.layout(&layout);
            text.str(" has a negative stride, and would start before its array: reverse the order of the coordinates instead");
            panic!("{}", text.as_str());
        }
        leaf += 1;
    }
}

/// The swizzle must stay the same: otherwise elements would move.
const fn same_swizzle(new: Swizzle, old: Swizzle) {
    let same = new.bits() == old.bits()
        && (new.bits() == 0 || new.base() == old.base() && new.shift() == old.shift());
    if !same {
        let mut text = Text::<400>::new();
        text.str("with_layout: the new layout has the swizzle ");
        new.write(&mut text);
        text.str(", and the tensor ");
        old.write(&mut text);
        text.str(", so its elements would move; keep the swizzle");
        panic!("{}", text.as_str());
    }
}

/// The new layout has no element past those of the old one, or the tensor does not compile.
pub(super) const fn reaches_no_further(new: Layout, old: Layout) {
    starts_at_zero(new);
    if new.cosize() > old.cosize() {
        let mut text = Text::<400>::new();
        text.str("with_layout: ");
        text.layout(&new);
        text.str(" needs ");
        text.int(new.cosize());
        text.str(" elements, and ");
        text.layout(&old);
        text.str(" has ");
        text.int(old.cosize());
        panic!("{}", text.as_str());
    }
}

impl<T: Element> Shared<T> {
    /// The pointer moved to place `index` of `S`. Computed in bytes from the start: in a sum of
    /// elements that is scaled to bytes later, the compiler finds no multiples of the swizzle's
    /// block, and computes the swizzle for each stage.
    #[inline(always)]
    fn shifted<S: StaticLayout>(self, index: u32) -> Self {
        self.moved_bytes(Digits::<S, PLAIN>::times(index, size_of::<T>() as i32))
    }

    /// The pointer to the element of `L` at an offset.
    #[inline(always)]
    fn to<L: StaticLayout>(self, offset: i32) -> Self {
        Self::from_address(self.address_at::<L>(offset))
    }

    /// The address of an element of `L`, in bytes; `index` is constant after unrolling.
    #[inline(always)]
    pub(crate) fn address_of<L: StaticLayout>(self, index: usize) -> u32 {
        self.address_at::<L>(Offsets::<L, PLAIN>::TABLE[index])
    }

    /// The address of the element of `L` at an offset, in bytes.
    #[inline(always)]
    fn address_at<L: StaticLayout>(self, offset: i32) -> u32 {
        if L::SWIZZLE.bits() == 0 {
            return self.offset(offset).address();
        }
        if !const { is_linear_after(L::LAYOUT, L::MOVED, L::STEPPED, L::SWIZZLE) } {
            return swizzled::<T, L>(self.offset(offset).address());
        }
        // Arrays start at blocks of the swizzle. The offset's bits within a block are XORed with
        // the origin's; whole blocks are added, as an immediate of the load.
        let bytes = offset.wrapping_mul(T::BYTES as i32) as u32;
        let block = match cfg!(target_arch = "nvptx64") {
            true => block_bytes::<T, L>().wrapping_sub(1),
            // A constant for the simulator too, whose code is optimised little.
            false => const { block_bytes::<T, L>().wrapping_sub(1) },
        };
        let (step, inside) = (self.step_bytes(), bytes & block);
        let stepped = step & block;
        (swizzled::<T, L>(self.base()) ^ swizzled::<T, L>(stepped) ^ swizzled::<T, L>(inside))
            .wrapping_add(bytes - inside)
            .wrapping_add(step - stepped)
    }
}

impl<T: Scalar + Storable> SharedPacked<T> {
    /// The pointer moved to place `index` of `S`.
    #[inline(always)]
    fn shifted<S: StaticLayout>(self, index: u32) -> Self {
        self.offset(Digits::<S, PLAIN>::offset(index))
    }
}

/// The bytes of the swizzle's block: the alignment that its array needs.
pub(crate) const fn block_bytes<T: Element, L: StaticLayout>() -> u32 {
    if L::SWIZZLE.bits() == 0 { 1 } else { (block_mask(L::SWIZZLE) as u32 + 1) * T::BYTES as u32 }
}

/// The swizzle of `L` applied to a byte address.
#[inline(always)]
fn swizzled<T: Element, L: StaticLayout>(address: u32) -> u32 {
    let (mask, shift) = const {
        let unit = T::BYTES.trailing_zeros();
        ((L::SWIZZLE.source_mask() as u32) << unit, L::SWIZZLE.shift())
    };
    let taken = address & mask;
    address ^ if shift >= 0 { taken >> shift } else { taken << -shift }
}

/// The run length of shared memory.
pub struct SharedRun<T, L>(PhantomData<(T, L)>);

impl<T: Storable, L: StaticLayout> Length for SharedRun<T, L> {
    const LENGTH: usize = {
        let most = (128 / T::BITS) as usize;
        // The swizzle does not change the lowest bits.
        let kept = 1usize << L::SWIZZLE.base();
        let most = if L::SWIZZLE.bits() > 0 && kept < most { kept } else { most };
        run(L::LAYOUT, PLAIN, 1, L::ORIGIN, most)
    };
}

/// The accesses of tensors through a pointer to shared memory: words by address, single elements by
/// the pointer.
macro_rules! pointer {
    ($pointer:ident, $($bound:tt)+) => {
        impl<T: $($bound)+, L: StaticLayout> Tensor<$pointer<T>, L> {
            /// The same memory with another layout, which must not reach further.
            #[inline(always)]
            pub const fn with_layout<N: StaticLayout>(self) -> Tensor<$pointer<T>, N> {
                const {
                    whole(&L::ORIGIN, L::MOVED, L::LAYOUT);
                    reaches_no_further(N::LAYOUT, L::LAYOUT);
                    same_swizzle(N::SWIZZLE, L::SWIZZLE);
                };
                Tensor::from_engine(self.engine)
            }
        }

        impl<T: $($bound)+> Engine for $pointer<T> {
            type Element = T;
        }

        impl<T: $($bound)+> Movable for $pointer<T> {
            #[inline(always)]
            fn shift<S: StaticLayout>(&mut self, index: u32) {
                *self = self.shifted::<S>(index);
            }
        }

        impl<T: $($bound)+> Partitioned for $pointer<T> {}

        // SAFETY: `run` finds groups of consecutive offsets that start at multiples of their
        // length, origin included, and arrays in shared memory start at multiples of 16 bytes.
        unsafe impl<T: $($bound)+> Access for $pointer<T> {
            type Run<L: StaticLayout> = SharedRun<T, L>;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load<L: StaticLayout, W: Word>(&self, index: usize) -> W {
                // SAFETY: the words from `index` on may be read.
                unsafe { W::load_shared(self.address_of::<L>(index)) }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_one<L: StaticLayout>(&self, index: usize) -> T {
                // SAFETY: the element may be read.
                unsafe { self.load_at::<L>(index) }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_at<L: StaticLayout>(&self, at: impl ElementIndex<L>) -> T {
                // SAFETY: the element may be read.
                unsafe { self.to::<L>(at.element_offset::<PLAIN>()).read(0) }
            }

            #[inline(always)]
            fn exists<L: StaticLayout>(&self, _: usize) -> bool {
                true
            }
        }

        // SAFETY: as for `Access`.
        unsafe impl<T: $($bound)+> AccessMut for $pointer<T> {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store<L: StaticLayout, W: Word>(&mut self, index: usize, word: W) {
                // SAFETY: the words from `index` on may be written.
                unsafe { W::store_shared(self.address_of::<L>(index), word) }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_one<L: StaticLayout>(&mut self, index: usize, value: T) {
                // SAFETY: the element may be written.
                unsafe { self.store_at::<L>(index, value) }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_at<L: StaticLayout>(&mut self, at: impl ElementIndex<L>, value: T) {
                // SAFETY: the element may be written.
                unsafe { self.to::<L>(at.element_offset::<PLAIN>()).write(0, value) }
            }
        }
    };
}
pointer!(Shared, Element);
pointer!(SharedPacked, Scalar + Storable);

#[cfg(test)]
mod tests {
    use super::super::tables::is_linear;
    use super::*;
    use crate::atom::copy::{SM75_U32x4_LDSM_N, SM80_CP_ASYNC_CACHEGLOBAL};
    use crate::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
    use crate::atom::{
        PartitionD, PartitionS, StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_a,
    };
    use crate::layout::{ComposedLayout, Swizzle, layout, tuple};
    use crate::tensor::{AllButLast, Fixed, Kept, SliceOf, Sliceable};
    use crate::{swizzled_layout, tiled_copy, tiled_mma};
    use half::f16;

    swizzled_layout! {
        Sw128 = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, 64, 3)));
        Sw64 = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((64, 32, 3)));
        /// Rows of 72, so that the bits of rows and of the swizzle overlap.
        Odd = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((64, 64, 3):(72, 1, 4608)));
        /// With a negative shift.
        Up = ComposedLayout::new(Swizzle::new(2, 3, -3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((64, 32, 3)));
    }
    tiled_mma! {
        Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]);
    }
    tiled_copy! {
        Rows: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&Mma::MMA);
        Load: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u128>, f16> = TiledCopy::new(layout!((32, 4):(4, 1)), layout!((1, 8)));
    }

    /// Each element of a thread's part of a stage is at the swizzle of its offset in the array.
    fn lies_where_the_swizzle_says<L: StaticLayout, P: StaticLayout>(threads: Layout) {
        const BASE: u32 = 1 << 14;
        let stages = P::LAYOUT.mode(P::LAYOUT.rank() - 1);
        for thread in 0..threads.size() {
            for stage in 0..stages.size() {
                let offset = threads.at(thread) + stages.at(stage);
                let origin = Shared::<f16>::from_address(BASE).offset(offset as i32);
                for i in 0..AllButLast::<P>::LAYOUT.size() {
                    let element = offset + AllButLast::<P>::LAYOUT.at(i);
                    let want = BASE + 2 * L::SWIZZLE.apply(element) as u32;
                    let got = origin.address_of::<AllButLast<P>>(i as usize);
                    assert_eq!(got, want, "thread {thread}, stage {stage}, element {i} of {}", P::LAYOUT);
                }
            }
        }
    }

    /// [`lies_where_the_swizzle_says`] for slices at a step along K and a stage.
    fn slices_lie_where_the_swizzle_says<L: StaticLayout, P: StaticLayout>(threads: Layout) {
        type Places = (Kept, Kept, Fixed, Fixed);
        const BASE: u32 = 1 << 14;
        let (steps, stages) = (P::LAYOUT.mode(2), P::LAYOUT.mode(3));
        for thread in 0..threads.size() {
            let origin = Shared::<f16>::from_address(BASE).offset(threads.at(thread) as i32);
            for (k, stage) in (0..steps.size()).flat_map(|k| (0..stages.size()).map(move |stage| (k, stage)))
            {
                let slice = origin.slice::<P, Places>([0, 0, k as u32, stage as u32, 0, 0, 0]);
                for i in 0..SliceOf::<P, Places>::LAYOUT.size() {
                    let part = SliceOf::<P, Places>::LAYOUT.at(i);
                    let element = threads.at(thread) + steps.at(k) + stages.at(stage) + part;
                    let want = BASE + 2 * L::SWIZZLE.apply(element) as u32;
                    let got = slice.address_of::<SliceOf<P, Places>>(i as usize);
                    assert_eq!(
                        got,
                        want,
                        "thread {thread}, step {k}, stage {stage}, element {i} of {}",
                        P::LAYOUT
                    );
                }
            }
        }
    }

    fn of<L: StaticLayout>() {
        slices_lie_where_the_swizzle_says::<L, PartitionS<L, Rows>>(Rows::COPY.tidfrg_s(L::LAYOUT).mode(0));
        lies_where_the_swizzle_says::<L, PartitionS<L, Rows>>(Rows::COPY.tidfrg_s(L::LAYOUT).mode(0));
        lies_where_the_swizzle_says::<L, PartitionD<L, Load>>(Load::COPY.tidfrg_d(L::LAYOUT).mode(0));
    }

    #[test]
    fn swizzled_elements_lie_where_the_swizzle_of_their_offset_says() {
        of::<Sw128>();
        of::<Sw64>();
        of::<Odd>();
        of::<Up>();
    }

    #[test]
    fn rows_that_fill_their_blocks_are_linear_and_others_are_not() {
        let linear = |layout, moved, swizzle| is_linear(layout, moved, swizzle);
        type S = AllButLast<PartitionS<Sw128, Rows>>;
        type O = AllButLast<PartitionS<Odd, Rows>>;
        assert!(linear(S::LAYOUT, S::MOVED, S::SWIZZLE), "an `xor` with a constant for each step");
        assert!(!linear(O::LAYOUT, O::MOVED, O::SWIZZLE), "rows of 72 carry into the swizzle's bits");
    }
}
