//! Loads and stores of a thread's part of the rows that it shares: each vector is one predicated
//! access, wholly in bounds or out of bounds.

use super::row::{RowBlocks as _, RowShape};
use super::row_team::RowTeam;
use crate::arch::{Convert, Word, Word128};
use crate::layout::Layout;
use crate::memory::{Element, GlobalPointer, GlobalPointerMut};
use crate::tensor::{
    Access as _, AccessMut as _, Fragment, FragmentLike, GlobalTensor, StaticLayout, Strides,
};
use crate::tiling::TilingError;
use core::ops::Range;

impl<C: RowShape> RowTeam<C> {
    /// Elements that are loaded before they are used: enough to hide the latency, and few enough
    /// for 64 registers a thread. Without alignment each element takes an address.
    const GROUP: usize = if C::ALIGN > 1 { 16 } else { 8 };

    /// These elements of a thread's part, each vector by one predicated load; 0 out of
    /// bounds.
    ///
    /// # Safety
    /// The source is readable.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load_vectors<P, S, L>(
        part: &GlobalTensor<P, S, L, ()>,
        values: &mut Fragment<P::Element, FragmentLike<L>>,
        elements: Range<usize>,
    ) where
        P: GlobalPointer<Element: Element>,
        S: Strides,
        L: StaticLayout,
    {
        let vector = const { access(&L::LAYOUT) };
        for i in elements.start / vector..elements.end / vector {
            let i = i * vector;
            let (valid, address) = (part.engine().exists::<L>(i), part.engine().address::<L>(i));
            // SAFETY: the vector is in bounds if it is valid, and aligned as the shape requires; a
            // fragment's elements are compact.
            unsafe {
                if C::ALIGN == 1 {
                    let bits = <P::Element as Element>::Bits::load_global_if(valid, address);
                    values[i] = P::Element::from_bits(bits);
                    continue;
                }
                macro_rules! load {
                    ($word:ty, $i:expr, $address:expr) => {
                        values
                            .engine_mut()
                            .store::<FragmentLike<L>, $word>($i, <$word>::load_global_if(valid, $address))
                    };
                }
                match const { access(&L::LAYOUT) * P::Element::BYTES } {
                    4 => load!(u32, i, address),
                    8 => load!(u64, i, address),
                    16 => load!(Word128, i, address),
                    _ => {
                        // Elements of 32 bits that belong to elements of 16 bits.
                        load!(Word128, i, address);
                        load!(Word128, i + vector / 2, address + 16);
                    }
                }
            }
        }
    }

    /// A thread's part of the block's rows, in f32; 0 out of bounds. Each vector is one predicated
    /// load: a vector is wholly in bounds or out of bounds, since the shape's alignment holds for
    /// the length too.
    ///
    /// # Safety
    /// Same contract as [`copy`](super::copy()), for the source.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    #[must_use]
    pub unsafe fn load<P, S, L>(
        &self,
        part: &GlobalTensor<P, S, L, ()>,
    ) -> Fragment<f32, FragmentLike<FragmentLike<L>>>
    where
        P: GlobalPointer<Element: Element + Convert<f32>>,
        S: Strides,
        L: StaticLayout,
    {
        let mut values = Fragment::<P::Element, FragmentLike<L>>::zeros();
        // SAFETY: the source is readable.
        unsafe { Self::load_vectors(part, &mut values, 0..const { L::LAYOUT.size() as usize }) };
        values.convert()
    }

    /// Replaces each element of a thread's rows by `f` of it and of the element of `part` at the
    /// same place, 0 out of bounds. It loads a few vectors at a time to save registers.
    ///
    /// # Safety
    /// Same contract as [`load`](Self::load).
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn apply_loaded<P, S, LG, L>(
        &self,
        values: &mut Fragment<f32, L>,
        part: &GlobalTensor<P, S, LG, ()>,
        f: impl Fn(f32, f32) -> f32,
    ) where
        P: GlobalPointer<Element: Element + Convert<f32>>,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let size = const { same_part(&L::LAYOUT, &LG::LAYOUT) };
        for group in 0..size.div_ceil(Self::GROUP) {
            let (from, to) = (group * Self::GROUP, ((group + 1) * Self::GROUP).min(size));
            let mut loaded = Fragment::<P::Element, FragmentLike<LG>>::zeros();
            // SAFETY: the source is readable.
            unsafe { Self::load_vectors(part, &mut loaded, from..to) };
            for i in from..to {
                values[i] = f(values[i], loaded[i].convert());
            }
        }
    }

    /// Stores a thread's rows, rounded to the elements of `part`, each vector by one predicated
    /// store; nothing out of bounds, and nothing unless the team [`writes`](Self::writes).
    ///
    /// # Safety
    /// Same contract as [`copy`](super::copy()), for the destination.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn store<P, S, LG, L>(&self, values: &Fragment<f32, L>, part: &GlobalTensor<P, S, LG, ()>)
    where
        P: GlobalPointerMut<Element: Element>,
        f32: Convert<P::Element>,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let (size, vector) = const { (same_part(&L::LAYOUT, &LG::LAYOUT), access(&LG::LAYOUT)) };
        let rounded = values.convert::<P::Element>();
        for i in 0..size / vector {
            let i = i * vector;
            let (mut valid, address) = (part.engine().exists::<LG>(i), part.engine().address::<LG>(i));
            if const { C::Blocks::CHUNKS } {
                valid &= self.writes();
            }
            // SAFETY: the vector is in bounds if it is valid, and aligned as the shape requires; a
            // fragment's elements are compact.
            unsafe {
                if C::ALIGN > 1 {
                    let word = rounded.engine().load::<FragmentLike<L>, Word128>(i);
                    Word128::store_global_if(valid, address, word);
                } else {
                    <P::Element as Element>::Bits::store_global_if(valid, address, rounded[i].to_bits());
                }
            }
        }
    }

    /// [`store`](Self::store) as elements of 8 bits, of which `encode` returns four, the first in
    /// the lowest byte. `part` is a partition by a [`RowCopyWith`](super::RowCopyWith).
    ///
    /// # Safety
    /// Same contract as [`store`](Self::store); vectors are at multiples of their size.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub unsafe fn store_bytes<P, S, LG, L>(
        &self,
        values: &Fragment<f32, L>,
        part: &GlobalTensor<P, S, LG, ()>,
        encode: impl Fn([f32; 4]) -> u32,
    ) where
        P: GlobalPointerMut<Element: Element<Bits = u8>>,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let (size, vector) = const { (same_part(&L::LAYOUT, &LG::LAYOUT), access(&LG::LAYOUT)) };
        let four = |i: usize| encode([values[i], values[i + 1], values[i + 2], values[i + 3]]);
        for i in 0..size / vector {
            let i = i * vector;
            let (mut valid, address) = (part.engine().exists::<LG>(i), part.engine().address::<LG>(i));
            if const { C::Blocks::CHUNKS } {
                valid &= self.writes();
            }
            // SAFETY: the vector is in bounds if it is valid, and aligned as the contract requires.
            unsafe {
                match const { access(&LG::LAYOUT) } {
                    8 => {
                        let word = u64::from(four(i + 4)) << 32 | u64::from(four(i));
                        u64::store_global_if(valid, address, word);
                    }
                    4 => u32::store_global_if(valid, address, four(i)),
                    _ => u8::store_global_if(valid, address, encode([values[i], 0.0, 0.0, 0.0]) as u8),
                }
            }
        }
    }

    /// The number of elements of a thread's part that are in bounds.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn count_inside<P, S, L>(&self, part: &GlobalTensor<P, S, L, ()>) -> u32
    where
        P: GlobalPointer,
        S: Strides,
        L: StaticLayout,
    {
        let (size, vector) = const { (L::LAYOUT.size() as usize, access(&L::LAYOUT)) };
        let mut count = 0;
        for i in 0..size / vector {
            count += if part.engine().exists::<L>(i * vector) { vector as u32 } else { 0 };
        }
        count
    }

    /// Sets the elements of a thread's rows that are out of bounds of `part` to `value`, the
    /// neutral element of the reduction that follows.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    pub fn fill_outside<P, S, LG, L>(
        &self,
        values: &mut Fragment<f32, L>,
        part: &GlobalTensor<P, S, LG, ()>,
        value: f32,
    ) where
        P: GlobalPointer,
        S: Strides,
        LG: StaticLayout,
        L: StaticLayout,
    {
        let (size, vector) = const { (same_part(&L::LAYOUT, &LG::LAYOUT), access(&LG::LAYOUT)) };
        // A thread's columns ascend: most threads have all of them.
        if part.engine().exists::<LG>(size - vector) {
            return;
        }
        for i in 0..size {
            // In bounds if its vector is.
            if !part.engine().exists::<LG>(i / vector * vector) {
                values[i] = value;
            }
        }
    }
}

/// Elements of an access to a part (CPY, CPY_M, CPY_N).
pub(super) const fn access(part: &Layout) -> usize {
    part.mode(0).size() as usize
}

/// The number of elements of a thread's rows, which must equal that of the part.
const fn same_part(values: &Layout, part: &Layout) -> usize {
    if values.size() != part.size() {
        TilingError::of("RowTeam")
            .str("the values are ")
            .layout(values)
            .str(" and the part is ")
            .layout(part)
            .str(": take the part of the tensor by the same RowCopy")
            .raise();
    }
    values.size() as usize
}
