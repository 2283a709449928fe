//! Tensors of elements smaller than a byte in shared memory.
//!
//! A thread's part is read and written in whole words of several elements: by `ldmatrix`, by copies
//! whose runs fill at least a byte, by the atoms of 4-bit and 1-bit products; or element by
//! element. In global memory the same elements are a [`Matrix`](super::Matrix) over
//! [`GlobalPacked`](crate::memory::GlobalPacked).

use super::shared::starts_at_zero;
use super::static_layout::StaticLayout;
use super::tables::{Offsets, PLAIN};
use super::{ElementIndex, Tensor};
use crate::layout::{Swizzle, Text};
use crate::memory::{Shared, SharedPacked, SharedStorage, Storable};
use crate::number::Scalar;
use core::marker::PhantomData;

/// Elements smaller than a byte in shared memory, indexed by a layout of offsets.
pub type PackedTensor<T, L> = Tensor<SharedPacked<T>, L>;

/// Elements smaller than a byte in shared memory, one for each index of the layout `L`: a
/// [`SharedStorage`], like [`SharedArray`](crate::memory::SharedArray) for whole bytes.
///
/// ```
/// use moye_device::memory::SharedStorage;
/// use moye_device::number::S4;
/// use moye_device::tensor::PackedArray;
/// use moye_device::{layout, static_layout};
///
/// static_layout! {
///     /// 16 rows of 64 elements of 4 bits, 48 bytes apart.
///     Rows = layout!((16, 64):(96, 1));
/// }
/// assert_eq!(PackedArray::<S4, Rows>::BYTES, 15 * 48 + 32);
/// ```
pub struct PackedArray<T: Storable, L: StaticLayout>(PhantomData<(T, L)>);

impl<T: Scalar + Storable, L: StaticLayout> SharedStorage for PackedArray<T, L> {
    const BYTES: usize = {
        no_swizzle(L::SWIZZLE);
        starts_at_zero(L::LAYOUT);
        (L::LAYOUT.cosize() * <T as Storable>::BITS + 7) as usize / 8
    };
    const ALIGN: usize = 128;

    type Tensors = PackedTensor<T, L>;

    #[inline(always)]
    unsafe fn at(base: u32) -> Self::Tensors {
        Tensor::from_engine(SharedPacked::new(Shared::from_address(base)))
    }
}

/// Swizzles are not supported here: they exchange pieces of 16 bytes, and are written for elements
/// of whole bytes.
const fn no_swizzle(swizzle: Swizzle) {
    if swizzle.bits() != 0 {
        let mut text = Text::<400>::new();
        text.str("elements smaller than a byte are not swizzled here, and the layout has ");
        swizzle.write(&mut text);
        text.str(": pad the rows, or take a layout of bytes");
        panic!("{}", text.as_str());
    }
}

impl<T: Scalar + Storable> SharedPacked<T> {
    /// The pointer to the element of `L` at an offset.
    #[inline(always)]
    #[expect(clippy::extra_unused_type_parameters, reason = "the other engine's has the swizzle of `L`")]
    pub(super) fn to<L: StaticLayout>(self, offset: i32) -> Self {
        self.offset(offset)
    }

    /// The address of the byte in which an element of `L` starts; `index` is constant after
    /// unrolling.
    #[inline(always)]
    pub(crate) fn address_of<L: StaticLayout>(self, index: usize) -> u32 {
        self.to::<L>(Offsets::<L, PLAIN>::TABLE[index]).address().0
    }
}

impl<T: Scalar + Storable, L: StaticLayout> PackedTensor<T, L> {
    /// Writes one element, by two atomic operations, when other threads may write other elements of
    /// its byte. [`set`](Tensor::set) takes one load and one store, and needs exclusive access to
    /// the byte.
    ///
    /// # Safety
    /// Same contract as [`SharedPacked::write_shared_byte`]. `index` is below [`Tensor::SIZE`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn set_shared_byte(&mut self, index: impl ElementIndex<L>, value: T) {
        // SAFETY: the word around the element may be read and written.
        unsafe { self.engine.to::<L>(index.element_offset::<PLAIN>()).write_shared_byte(0, value) };
    }
}
