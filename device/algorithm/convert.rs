//! Conversions of whole fragments, in packed pairs where the GPU has an instruction for two.

use super::copy::{AccessBits, Always, Checked, copy_alike, copy_where};
use crate::arch::{Bf16x2, Convert, F16x2, prmt};
use crate::memory::{Element, GlobalPointer, Storable};
use crate::number::{S4, Scalar, U4};
use crate::tensor::{
    Access, AccessMut, Engine, Fragment, FragmentLike, GlobalTensor, InRegisters, NoOpenMode, Once,
    RegistersMut, StaticLayout, Strided, Strides, Tensor, run_of,
};
use crate::unroll;
use half::{bf16, f16};

impl<T: Storable, E: InRegisters + Engine<Element = T>, L: StaticLayout> Tensor<E, L> {
    /// A fragment of the values converted to another type, rounded as by [`Convert`]:
    /// `scores.view().convert::<f16>()`.
    ///
    /// From f32 to f16 or bf16 one instruction converts two values (`cvt.rn.f16x2.f32`), and 4-bit
    /// integers become f16, bf16 or f32 two at a time ([`ConvertAll`]).
    ///
    /// ```
    /// use half::f16;
    /// use moye_device::layout::layout;
    /// use moye_device::static_layout;
    /// use moye_device::tensor::Fragment;
    ///
    /// static_layout! { Values = layout!((2, 2)); }
    /// let halves = Fragment::<f32, Values>::filled(0.1).convert::<f16>();
    /// assert_eq!(halves[(1, 1)], f16::from_f32(0.1));
    /// ```
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn convert<U: Element>(&self) -> Fragment<U, FragmentLike<L>>
    where
        T: ConvertAll<U>,
    {
        let mut result = Fragment::zeros();
        // SAFETY: both have the same number of elements; those of the tensor were initialised at
        // construction.
        unsafe { T::convert_all(self, &mut result) };
        result
    }
}

/// A type whose fragments can be converted to `U`: one with a [`Convert`], or a 4-bit integer.
///
/// Eight 4-bit integers of a register become four pairs of f16 or bf16 by a shift, an `lop3` that
/// puts two of them below the bits of a power of two, and an exact subtraction of that power.
#[diagnostic::on_unimplemented(
    message = "there is no conversion from fragments of `{Self}` to `{U}`",
    label = "elements `{Self}` are not converted to `{U}`",
    note = "a number with `Convert<{U}>` is converted, and U4 and S4 are to f16, bf16 and f32"
)]
pub trait ConvertAll<U: Element>: Storable {
    /// Converts all elements.
    ///
    /// # Safety
    /// Both have the same number of elements; the source is written.
    #[doc(hidden)]
    unsafe fn convert_all<E, L, LD>(source: &Tensor<E, L>, destination: &mut Fragment<U, LD>)
    where
        E: InRegisters + Engine<Element = Self>,
        L: StaticLayout,
        LD: StaticLayout;
}

impl<U: Element, T: Element + Convert<U>> ConvertAll<U> for T {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn convert_all<E, L, LD>(source: &Tensor<E, L>, destination: &mut Fragment<U, LD>)
    where
        E: InRegisters + Engine<Element = T>,
        L: StaticLayout,
        LD: StaticLayout,
    {
        // SAFETY: both have the same number of elements; those of the source are written.
        unsafe { convert_into(source, destination) }
    }
}

/// Eight integers of 4 or 8 bits in words, the first in the lowest bits, as pairs of floats: for
/// kernels that unpack weights without fragments. Fragments use [`convert`](Tensor::convert).
///
/// ```
/// use half::f16;
/// use moye_device::algorithm::Eight;
/// use moye_device::number::U4;
///
/// let pairs: [[f16; 2]; 4] = U4::pairs(0x7654_3210);
/// assert_eq!(pairs[1].map(f16::to_f32), [1.0, 5.0]);
/// let pairs: [[f16; 2]; 4] = u8::pairs([0x0302_01FF, 0]);
/// assert_eq!(pairs[0].map(f16::to_f32), [255.0, 1.0]);
/// ```
pub trait Eight<U> {
    /// The words.
    type Words;

    /// The index of the integer that is value `value` of pair `pair`. 4-bit integers `i` and
    /// `i + 4` are a pair, extracted from a word by a shift and a mask; so are 8-bit integers `2 i`
    /// and `2 i + 1`.
    #[must_use]
    fn place(pair: u32, value: u32) -> u32;

    /// The pairs.
    #[must_use]
    fn pairs(words: Self::Words) -> [[U; 2]; 4];

    /// The bias that [`biased`](Self::biased) adds to both integers of each pair.
    const BIASES: [f32; 4];

    /// The integers plus the bias of their pair, in fewer instructions than [`pairs`](Self::pairs):
    /// subtract the product of the biases from a product of these values.
    #[must_use]
    fn biased(words: Self::Words) -> [[U; 2]; 4];
}

/// The bits of the integers that are at the same place in both halves of a word.
const LOW_NIBBLES: u32 = 0x000F_000F;

/// The 16-bit float `$power`, from which on consecutive floats differ by 1, holds the integer in
/// its lowest bits; `$flip` turns a signed integer into the unsigned one that is larger by `$more`.
/// If consecutive floats from `$above` on differ by 1/16, the integer may be four bits higher.
macro_rules! eight {
    ($($t:ty, $flip:literal, $more:literal: $float:ident, $pair:ident, $power:literal, $above:literal;)+) => { $(
        impl Eight<$float> for $t {
            type Words = u32;

            const BIASES: [f32; 4] = [$power + $more, $above + $more, $power + $more, $above + $more];

            #[inline(always)]
            fn place(pair: u32, value: u32) -> u32 {
                pair + 4 * value
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn pairs(word: u32) -> [[$float; 2]; 4] {
                let (power, off) = const {
                    ($pair::splat($float::from_f32_const($power)), $pair::splat($float::from_f32_const($power + $more)))
                };
                let word = word ^ $flip;
                let mut pairs = [[$float::ZERO; 2]; 4];
                unroll!(for i in 0..4 {
                    let pair = $pair::from_bits(word >> (4 * i) & LOW_NIBBLES | power.to_bits()) - off;
                    pairs[i] = [pair.low(), pair.high()];
                });
                pairs
            }

            #[inline(always)]
            fn biased(word: u32) -> [[$float; 2]; 4] {
                let (power, above) = const {
                    ($pair::splat($float::from_f32_const($power)), $pair::splat($float::from_f32_const($above)))
                };
                let word = word ^ $flip;
                let mut pairs = [[$float::ZERO; 2]; 4];
                unroll!(for i in 0..4 {
                    let bits = if i % 2 == 0 {
                        word >> (4 * i) & LOW_NIBBLES | power.to_bits()
                    } else if const { $power > $above } {
                        word >> (4 * i - 4) & LOW_NIBBLES << 4 | above.to_bits()
                    } else {
                        word >> (4 * i) & LOW_NIBBLES | above.to_bits()
                    };
                    let pair = $pair::from_bits(bits);
                    pairs[i] = [pair.low(), pair.high()];
                });
                pairs
            }
        }

        four_bits!($t => $float);
    )+ };
}

macro_rules! four_bits {
    ($t:ty => $to:ty) => {
        impl ConvertAll<$to> for $t {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn convert_all<E, L, LD>(source: &Tensor<E, L>, destination: &mut Fragment<$to, LD>)
            where
                E: InRegisters + Engine<Element = Self>,
                L: StaticLayout,
                LD: StaticLayout,
            {
                // SAFETY: both have the same number of elements; those of the source are written.
                unsafe { convert_eights(source, destination) }
            }
        }
    };
}
eight! {
    U4, 0, 0.0: f16, F16x2, 1024.0, 64.0;
    S4, 0x8888_8888, 8.0: f16, F16x2, 1024.0, 64.0;
    U4, 0, 0.0: bf16, Bf16x2, 128.0, 128.0;
    S4, 0x8888_8888, 8.0: bf16, Bf16x2, 128.0, 128.0;
}

macro_rules! through_f16 {
    ($($t:ty),+) => { $(
        impl Eight<f32> for $t {
            type Words = u32;

            const BIASES: [f32; 4] = <Self as Eight<f16>>::BIASES;

            #[inline(always)]
            fn place(pair: u32, value: u32) -> u32 {
                pair + 4 * value
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn pairs(word: u32) -> [[f32; 2]; 4] {
                <Self as Eight<f16>>::pairs(word).map(|pair| pair.map(Convert::convert))
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn biased(word: u32) -> [[f32; 2]; 4] {
                <Self as Eight<f16>>::biased(word).map(|pair| pair.map(Convert::convert))
            }
        }

        four_bits!($t => f32);
    )+ };
}
through_f16!(U4, S4);

/// Bytes `2 i` and `2 i + 1` of two words: with their bias, then subtracted.
macro_rules! bytes {
    ($($float:ty, $pair:ty, $bias:literal: $of:expr;)+) => { $(
        impl Eight<$float> for u8 {
            type Words = [u32; 2];

            const BIASES: [f32; 4] = [$bias; 4];

            #[inline(always)]
            fn place(pair: u32, value: u32) -> u32 {
                2 * pair + value
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn pairs(words: [u32; 2]) -> [[$float; 2]; 4] {
                let bias = const { <$pair>::splat(<$float>::from_f32_const($bias)) };
                <Self as Eight<$float>>::biased(words).map(|[low, high]| {
                    let pair = <$pair>::new(low, high);
                    let pair = if $bias == 0.0 { pair } else { pair - bias };
                    [pair.low(), pair.high()]
                })
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn biased(words: [u32; 2]) -> [[$float; 2]; 4] {
                let mut pairs = [[<$float>::ZERO; 2]; 4];
                unroll!(for i in 0..4 {
                    pairs[i] = $of(words[i / 2], 2 * (i as u32 % 2));
                });
                pairs
            }
        }
    )+ };
}
bytes! {
    // Below the bits of 1024, from which on consecutive f16 differ by 1.
    f16, F16x2, 1024.0: |word, first| {
        let pair = F16x2::from_bits(prmt(word, 0x6400_6400, 0x5150 + 0x101 * first));
        [pair.low(), pair.high()]
    };
    // 8 bits fit a bf16, and fit below the bits of 2^23 in an f32.
    bf16, Bf16x2, 0.0: |word, first| {
        let wide = |byte| f32::from_bits(prmt(word, 0x4B00_0000, 0x7540 + byte)) - 8_388_608.0;
        Convert::<bf16>::convert_pair([wide(first), wide(first + 1)])
    };
}

/// Converts words of eight elements; the last may have fewer.
///
/// # Safety
/// Both have the same number of elements; the source is written.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn convert_eights<T, U, E, L, LD>(source: &Tensor<E, L>, destination: &mut Fragment<U, LD>)
where
    T: Scalar + Storable + Eight<U, Words = u32>,
    U: Element,
    E: InRegisters + Engine<Element = T>,
    L: StaticLayout,
    LD: StaticLayout,
{
    let size = Tensor::<E, L>::SIZE;
    for word in 0..size.div_ceil(8) {
        let first = 8 * word;
        // SAFETY: the indices are below both sizes, and a run of 8 is a word.
        unsafe {
            let bits = if const { run_of::<E, L>() >= 8 } {
                source.engine().load::<L, u32>(first)
            } else {
                let mut bits = 0;
                for i in 0..8 {
                    if first + i < size {
                        bits |= (source.get(first + i).low_bits() as u32) << (4 * i);
                    }
                }
                bits
            };
            let pairs = T::pairs(bits);
            for i in 0..8 {
                if first + i < size {
                    destination.set(first + i, pairs[i % 4][i / 4]);
                }
            }
        }
    }
}

/// Converts element by element, or pair by pair.
///
/// # Safety
/// Both have the same number of elements; the source is written.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn convert_into<T, U, E, L, LD>(source: &Tensor<E, L>, destination: &mut Fragment<U, LD>)
where
    T: Element + Convert<U>,
    U: Element,
    E: InRegisters + Engine<Element = T>,
    L: StaticLayout,
    LD: StaticLayout,
{
    // SAFETY: the source is written, and both have the same number of elements.
    unsafe {
        for pair in 0..Tensor::<E, L>::SIZE / 2 {
            let [low, high] = Convert::<U>::convert_pair([source.get(2 * pair), source.get(2 * pair + 1)]);
            destination.set(2 * pair, low);
            destination.set(2 * pair + 1, high);
        }
        if const { Tensor::<E, L>::SIZE % 2 == 1 } {
            let last = const { Tensor::<E, L>::SIZE - 1 };
            destination.set(last, source.get(last).convert());
        }
    }
}

impl<P: GlobalPointer, S: Strides, R, L: StaticLayout> GlobalTensor<P, S, L, R> {
    /// The thread's part in registers, each element converted to `U`, and `outside` for out of
    /// bounds elements: to start a reduction of ragged rows, or to load 4-bit weights as f16.
    ///
    /// # Safety
    /// Same contract as [`copy`](super::copy()), for the source.
    #[inline(always)]
    #[must_use]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn load_as<U: Element>(&self, outside: U) -> Fragment<U, FragmentLike<L>>
    where
        P::Element: ConvertAll<U>,
        R: NoOpenMode,
    {
        const {
            AccessBits::<
                Always,
                Strided<P, S, R>,
                Once<L>,
                RegistersMut<'_, P::Element>,
                Once<FragmentLike<L>>,
            >::BITS
        };
        let mut own = Fragment::<P::Element, FragmentLike<L>>::zeros();
        // SAFETY: the source is readable; neither layout contains an element twice.
        unsafe {
            let once: Tensor<_, Once<L>> = Tensor::from_engine(*self.engine());
            copy_alike(&once, &mut own.view_as_mut::<Once<FragmentLike<L>>>());
        }
        let mut result = Fragment::zeros();
        // SAFETY: both have the layout's elements, which are written.
        unsafe { P::Element::convert_all(&own, &mut result) };
        if !S::WHOLE {
            for i in 0..Self::SIZE {
                if !self.engine().exists::<L>(i) {
                    result[i] = outside;
                }
            }
        }
        result
    }
}

/// A type whose values [`copy`](super::copy()) stores as `U`: the type itself, or one with a
/// conversion.
#[diagnostic::on_unimplemented(
    message = "elements `{Self}` are not copied as `{U}`",
    label = "no conversion from `{Self}` to `{U}`",
    note = "a copy converts between f32 and f16 or bf16; for another conversion `map` the fragment first"
)]
pub trait CopyAs<U: Storable>: Storable {
    /// Copies a whole tensor.
    ///
    /// # Safety
    /// Same contract as [`copy`](super::copy()).
    #[doc(hidden)]
    unsafe fn copy_all<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
    where
        S: Access + Engine<Element = Self>,
        D: AccessMut + Engine<Element = U>,
        LS: StaticLayout,
        LD: StaticLayout;
}

impl<T: Storable> CopyAs<T> for T {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn copy_all<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
    where
        S: Access + Engine<Element = T>,
        D: AccessMut + Engine<Element = T>,
        LS: StaticLayout,
        LD: StaticLayout,
    {
        // SAFETY: the source is readable and the destination writable.
        unsafe { copy_alike(source, destination) }
    }
}

/// Copies through registers, where all elements are converted.
///
/// # Safety
/// Same contract as [`copy`](super::copy()).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn copy_converted<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
where
    S: Access + Engine<Element: Element + Convert<D::Element>>,
    D: AccessMut + Engine<Element: Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let mut own = Fragment::<S::Element, FragmentLike<LS>>::zeros();
    // SAFETY: the source is readable and the destination writable.
    unsafe {
        copy_alike(source, &mut own);
        copy_where::<Checked, _, _, _, _>(&own.view().convert::<D::Element>(), destination);
    }
}

macro_rules! copy_as {
    ($($from:ty => $to:ty),*) => { $(
        impl CopyAs<$to> for $from {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn copy_all<S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>)
            where
                S: Access + Engine<Element = $from>,
                D: AccessMut + Engine<Element = $to>,
                LS: StaticLayout,
                LD: StaticLayout,
            {
                // SAFETY: the source is readable and the destination writable.
                unsafe { copy_converted(source, destination) }
            }
        }
    )* };
}
copy_as!(f32 => f16, f32 => bf16, f16 => f32, bf16 => f32);
