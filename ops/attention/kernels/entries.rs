//! The kernels by name: tiles by head size.

use super::arguments::Arguments;
use super::combine::{CombineStorage, THREADS, combine};
use super::config::{MmaConfig, Shape, Storage};
use super::forward::forward;
use super::schedule::OneWork;
use half::{bf16, f16};
use moye_device::arch::block_idx;
use moye_device::kernel;

macro_rules! entries {
    ($(
        $d:literal x $dv:literal, tile $m:literal x $n:literal blocks $blocks:literal, decode 16 x $dn:literal blocks $dblocks:literal:
        $($t:ident $feature:literal: $plain:ident $general:ident $decode:ident;)+
    )+) => { $( $(
        entries!(@one $feature $t, $d, $dv, $m, $n, false, $blocks, "the options that leave scores as they are", $plain);
        entries!(@one $feature $t, $d, $dv, 64, 64, true, 1, "all options", $general);
        entries!(@one $feature $t, $d, $dv, 16, $dn, true, $dblocks, "all options, for 16 query rows", $decode);
    )+ )+ };
    (@one $feature:literal $t:ident, $d:literal, $dv:literal, $m:literal, $n:literal, $general:literal, $blocks:literal, $doc:literal, $name:ident) => {
        #[cfg(feature = $feature)]
        #[doc = concat!("Attention of `", stringify!($t), "`, heads of ", $d, " columns (values ", $dv, "): ", $doc, ".")]
        #[doc = concat!(" Tiles of ", $m, " query rows and ", $n, " keys.")]
        ///
        /// # Safety
        /// Same contract as [`forward`].
        #[kernel(
            threads = <Shape<$t, $d, $dv, $m, $n, $general> as MmaConfig>::THREADS,
            min_blocks = $blocks,
            shared = Storage<Shape<$t, $d, $dv, $m, $n, $general>>
        )]
        pub unsafe fn $name(arguments: Arguments<$t>) {
            type C = Shape<$t, $d, $dv, $m, $n, $general>;
            let tiles = OneWork::new(&arguments, block_idx().x, true);
            forward::<C, { 2 * C::BLOCKS }>(&arguments, tiles)
        }
    };
}
entries! {
    64 x 64, tile 128 x 128 blocks 2, decode 16 x 64 blocks 2:
        bf16 "bf16": forward_bf16_64 forward_bf16_64_general decode_bf16_64;
        f16 "f16": forward_f16_64 forward_f16_64_general decode_f16_64;
    80 x 80, tile 128 x 64 blocks 2, decode 16 x 64 blocks 2:
        bf16 "bf16": forward_bf16_80 forward_bf16_80_general decode_bf16_80;
        f16 "f16": forward_f16_80 forward_f16_80_general decode_f16_80;
    96 x 96, tile 128 x 64 blocks 2, decode 16 x 32 blocks 3:
        bf16 "bf16": forward_bf16_96 forward_bf16_96_general decode_bf16_96;
        f16 "f16": forward_f16_96 forward_f16_96_general decode_f16_96;
    128 x 128, tile 128 x 64 blocks 2, decode 16 x 32 blocks 3:
        bf16 "bf16": forward_bf16_128 forward_bf16_128_general decode_bf16_128;
        f16 "f16": forward_f16_128 forward_f16_128_general decode_f16_128;
    192 x 192, tile 64 x 64 blocks 1, decode 16 x 32 blocks 4:
        bf16 "bf16": forward_bf16_192 forward_bf16_192_general decode_bf16_192;
        f16 "f16": forward_f16_192 forward_f16_192_general decode_f16_192;
    192 x 128, tile 64 x 64 blocks 1, decode 16 x 32 blocks 4:
        bf16 "bf16": forward_bf16_192x128 forward_bf16_192x128_general decode_bf16_192x128;
        f16 "f16": forward_f16_192x128 forward_f16_192x128_general decode_f16_192x128;
    256 x 256, tile 64 x 64 blocks 1, decode 16 x 32 blocks 3:
        bf16 "bf16": forward_bf16_256 forward_bf16_256_general decode_bf16_256;
        f16 "f16": forward_f16_256 forward_f16_256_general decode_f16_256;
}

macro_rules! combining {
    ($($feature:literal $name:ident $t:ty;)+) => { $(
        #[cfg(feature = $feature)]
        /// Reduces the splits of a forward or decode kernel with `dv` columns of values.
        ///
        /// # Safety
        /// Same contract as [`combine`].
        #[kernel(threads = THREADS, min_blocks = 6, shared = CombineStorage)]
        pub unsafe fn $name(arguments: Arguments<$t>, dv: u32) {
            combine::<$t>(&arguments, dv)
        }
    )+ };
}
combining! {
    "bf16" combine_bf16 bf16;
    "f16" combine_f16 f16;
}
