//! Tensors of elements smaller than a byte in shared memory.
//!
//! A thread's part is read and written by whole words, in which such elements lie together: by `ldmatrix`, by copies whose
//! runs fill at least a byte, by the atoms of 4-bit and 1-bit products. Global memory is read as bytes:
//! [`Tensor::bytes`] names the same shared memory so, for the copy that fills it.

use super::shared::{reaches_no_further, starts_at_zero, whole};
use super::static_layout::{Divisors, StaticLayout};
use super::tables::{Digits, Offsets, PLAIN, run};
use super::{Access, AccessMut, Engine, Length, Partitioned, SharedTensor, Tensor};
use crate::arch::Word;
use crate::layout::{Layout, Swizzle, recast};
use crate::memory::{Shared, SharedPacked, SharedStorage, Storable};
use crate::number::Scalar;
use core::marker::PhantomData;

/// Elements smaller than a byte in shared memory, named by a layout of offsets.
pub type PackedTensor<T, L> = Tensor<SharedPacked<T>, L>;

/// Elements smaller than a byte in shared memory, one for each index of the layout `L`: a
/// [`SharedStorage`], as [`SharedArray`](crate::memory::SharedArray) is for whole bytes.
///
/// ```
/// use moye_device::memory::SharedStorage;
/// use moye_device::number::S4;
/// use moye_device::tensor::PackedArray;
/// use moye_device::{layout, static_layout};
///
/// static_layout! {
///     /// 16 rows of 64 numbers of 4 bits, 48 bytes apart.
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

/// A swizzle exchanges pieces of 16 bytes, and is written for elements of whole bytes here.
const fn no_swizzle(swizzle: Swizzle) {
    assert!(
        swizzle.bits() == 0,
        "elements smaller than a byte are not swizzled: pad the rows, or take a layout of bytes"
    );
}

/// The layout `L` of elements of type `T`, in bytes.
pub struct BytesOf<T, L>(PhantomData<(T, L)>);

impl<T, L> Clone for BytesOf<T, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, L> Copy for BytesOf<T, L> {}

impl<T: Storable, L: StaticLayout> StaticLayout for BytesOf<T, L> {
    const LAYOUT: Layout = recast(L::LAYOUT, T::BITS, 8);
    const ORIGIN: Divisors = {
        let bits = L::ORIGIN.0[0] * T::BITS as u64;
        assert!(
            bits.is_multiple_of(8),
            "the tensor may start within a byte, and cannot be named by bytes: take the bytes of the whole array"
        );
        Divisors([bits / 8, 0, 0, 0])
    };
}

impl<T: Scalar + Storable, L: StaticLayout> PackedTensor<T, L> {
    /// The same memory as bytes, `8 / BITS` elements each, along the layout's contiguous mode.
    ///
    /// Only for the whole array, or a part of it that starts at a byte.
    #[inline(always)]
    pub fn bytes(self) -> SharedTensor<u8, BytesOf<T, L>> {
        let (address, bits) = self.engine.address();
        debug_assert!(bits == 0, "the tensor starts {bits} bits into a byte");
        Tensor::from_engine(Shared::from_address(address))
    }

    /// The same memory, named by another layout that reaches no further.
    #[inline(always)]
    pub fn with_layout<N: StaticLayout>(self) -> PackedTensor<T, N> {
        const {
            whole(&L::ORIGIN, L::MOVED, L::LAYOUT);
            reaches_no_further(N::LAYOUT, L::LAYOUT);
        };
        Tensor::from_engine(self.engine)
    }
}

impl<T: Scalar + Storable> Engine for SharedPacked<T> {
    type Element = T;

    #[inline(always)]
    fn shift<S: StaticLayout>(&mut self, index: u32) {
        *self = self.offset(i64::from(Digits::<S, PLAIN>::offset(index)));
    }
}

impl<T: Scalar + Storable> Partitioned for SharedPacked<T> {}

/// What lies together, by whole bytes.
pub struct PackedRun<T, L>(PhantomData<(T, L)>);

impl<T: Storable, L: StaticLayout> Length for PackedRun<T, L> {
    const LENGTH: usize = run(L::LAYOUT, PLAIN, 1, L::ORIGIN, (128 / T::BITS) as usize);
}

impl<T: Scalar + Storable> SharedPacked<T> {
    /// The address of the byte in which an element of `L` starts.
    #[inline(always)]
    pub(crate) fn address_of<L: StaticLayout>(self, index: usize) -> u32 {
        self.offset(i64::from(Offsets::<L, PLAIN>::TABLE[index])).address().0
    }
}

// SAFETY: `run` looks for groups of consecutive offsets that start at multiples of their length, origin included; arrays
// start at multiples of 128 bytes, and a word is at least a byte.
unsafe impl<T: Scalar + Storable> Access for SharedPacked<T> {
    type Run<L: StaticLayout> = PackedRun<T, L>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<L: StaticLayout, W: Word>(&self, index: usize) -> W {
        // SAFETY: the caller's contract.
        unsafe { W::load_shared(self.address_of::<L>(index)) }
    }

    #[inline(always)]
    fn exists<L: StaticLayout>(&self, _: usize) -> bool {
        true
    }
}

// SAFETY: as for `Access`.
unsafe impl<T: Scalar + Storable> AccessMut for SharedPacked<T> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store<L: StaticLayout, W: Word>(&mut self, index: usize, word: W) {
        // SAFETY: the caller's contract.
        unsafe { W::store_shared(self.address_of::<L>(index), word) }
    }
}
