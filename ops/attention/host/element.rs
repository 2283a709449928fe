//! The kernels of each element type.

use super::e4m3;
use super::variant::{HeadSizes, HopperVariant};
use super::{hopper, varied};
use crate::kernels;
use crate::kernels::Arguments;
use half::{bf16, f16};
use moye_device::atom::tma::TmaElement;
use moye_device::kernel::Kernel;
use moye_device::memory::Element;
use moye_device::number::F8E4M3;

/// A kernel for one head size.
#[derive(Clone, Copy, Debug)]
pub struct Variant<T: Element> {
    pub(super) d: usize,
    pub(super) dv: usize,
    /// The kernel for options that leave scores unchanged.
    pub(super) plain: Kernel<(Arguments<T>,)>,
    /// The kernel for all options.
    pub(super) general: Kernel<(Arguments<T>,)>,
    /// Query rows and keys of the plain kernel's tiles.
    pub(super) tile: (u32, u32),
    /// Query rows and keys of the general kernel's tiles.
    pub(super) general_tile: (u32, u32),
    /// The kernel for all options and few query rows.
    pub(super) decode: Kernel<(Arguments<T>,)>,
    /// Query rows and keys of its tiles; each warp computes separate tiles.
    pub(super) decode_tile: (u32, u32),
}

impl<T: Element> Variant<T> {
    pub(super) const fn sizes(&self) -> HeadSizes {
        HeadSizes { d: self.d, dv: self.dv }
    }
}

/// The element types of attention: f16 and bf16, and on Hopper F8E4M3, with a scale factor for each
/// head.
pub trait AttentionElement: std::fmt::Debug + TmaElement + sealed::Sealed {
    /// The element type of results: the operands' type, but bf16 for F8E4M3.
    type Output: TmaElement;
    /// The kernels for sm_80; none for 8-bit floats.
    #[doc(hidden)]
    const VARIANTS: &'static [Variant<Self>];
    /// The kernel that reduces splits; `None` for types without splits.
    #[doc(hidden)]
    const COMBINE: Option<Kernel<(Arguments<Self>, u32)>>;
    #[doc(hidden)]
    const HOPPER: &'static [HopperVariant<Self>];
    #[doc(hidden)]
    const VARIED: &'static [HopperVariant<Self>];
    /// The kernels for options that change single scores.
    #[doc(hidden)]
    const GENERAL: &'static [HopperVariant<Self>];
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
    impl Sealed for moye_device::number::F8E4M3 {}
}

#[cfg(feature = "e4m3")]
impl AttentionElement for F8E4M3 {
    type Output = bf16;
    const VARIANTS: &'static [Variant<Self>] = &[];
    const COMBINE: Option<Kernel<(Arguments<Self>, u32)>> = None;
    const HOPPER: &'static [HopperVariant<Self>] = e4m3::VARIANTS;
    const VARIED: &'static [HopperVariant<Self>] = &[];
    const GENERAL: &'static [HopperVariant<Self>] = &[];
}

macro_rules! variants {
    ($($t:ident $feature:literal: $combine:ident $hopper:ident $($d:literal x $dv:literal tile $rows:literal x $keys:literal decode $decode_keys:literal:
        $plain:ident $general:ident $decode:ident;)+)+
    ) => { $(
        #[cfg(feature = $feature)]
        impl AttentionElement for $t {
            type Output = Self;
            const VARIANTS: &'static [Variant<Self>] = &[$(Variant {
                d: $d,
                dv: $dv,
                plain: kernels::$plain,
                general: kernels::$general,
                tile: ($rows, $keys),
                general_tile: (64, 64),
                decode: kernels::$decode,
                decode_tile: (16, $decode_keys),
            }),+];
            const COMBINE: Option<Kernel<(Arguments<Self>, u32)>> = Some(kernels::$combine);
            const HOPPER: &'static [HopperVariant<Self>] = hopper::$hopper;
            const VARIED: &'static [HopperVariant<Self>] = varied::$hopper.0;
            const GENERAL: &'static [HopperVariant<Self>] = varied::$hopper.1;
        }
    )+ };
}
variants! {
    bf16 "bf16": combine_bf16 BF16
        64 x 64 tile 128 x 128 decode 64: forward_bf16_64 forward_bf16_64_general decode_bf16_64;
        80 x 80 tile 128 x 64 decode 64: forward_bf16_80 forward_bf16_80_general decode_bf16_80;
        96 x 96 tile 128 x 64 decode 32: forward_bf16_96 forward_bf16_96_general decode_bf16_96;
        128 x 128 tile 128 x 64 decode 32: forward_bf16_128 forward_bf16_128_general decode_bf16_128;
        192 x 192 tile 64 x 64 decode 32: forward_bf16_192 forward_bf16_192_general decode_bf16_192;
        192 x 128 tile 64 x 64 decode 32: forward_bf16_192x128 forward_bf16_192x128_general decode_bf16_192x128;
        256 x 256 tile 64 x 64 decode 32: forward_bf16_256 forward_bf16_256_general decode_bf16_256;
    f16 "f16": combine_f16 F16
        64 x 64 tile 128 x 128 decode 64: forward_f16_64 forward_f16_64_general decode_f16_64;
        80 x 80 tile 128 x 64 decode 64: forward_f16_80 forward_f16_80_general decode_f16_80;
        96 x 96 tile 128 x 64 decode 32: forward_f16_96 forward_f16_96_general decode_f16_96;
        128 x 128 tile 128 x 64 decode 32: forward_f16_128 forward_f16_128_general decode_f16_128;
        192 x 192 tile 64 x 64 decode 32: forward_f16_192 forward_f16_192_general decode_f16_192;
        192 x 128 tile 64 x 64 decode 32: forward_f16_192x128 forward_f16_192x128_general decode_f16_192x128;
        256 x 256 tile 64 x 64 decode 32: forward_f16_256 forward_f16_256_general decode_f16_256;
}
