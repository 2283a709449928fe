//! Step 3: the kernel of step 2, with copies of 64 and of 128 bits.
//!
//! A load moves two or four neighbours along the fast axis, so that a tile takes a half or a quarter of the loads and of the
//! stores to shared memory. Two rules follow. All values of a thread go in one access: two accesses of 64 bits for four
//! values would each leave every second sector's half unused. And what is stored as one word must start at a multiple of it,
//! so that columns in shared memory are padded by a whole word.

use super::config::{Tiling, entry};
use super::tiled::{Mma, Staged, TileAb, TileC, staged};
use moye_device::atom::TiledCopy;
use moye_device::atom::copy::UniversalCopy;
use moye_device::layout::layout;
use moye_device::tensor::{Aligned, UnitStride};
use moye_device::{static_layout, tiled_copy};

static_layout! {
    /// An operand in shared memory, (BLK_M, BLK_K): columns padded by 8 bytes.
    pub Smem64 = layout!((128, 8):(1, 130));
    /// An operand in shared memory, (BLK_M, BLK_K): columns padded by 16 bytes.
    pub Smem128 = layout!((128, 8):(1, 132));
}
tiled_copy! {
    /// 32 x 8 threads, two neighbours along M each.
    pub Load64: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
    /// 32 x 8 threads, four neighbours along M each.
    pub Load128: TiledCopy<UniversalCopy<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
}

/// What not to do: four neighbours a thread, two at a time. Threads are 16 bytes apart in each request, which moves twice the
/// sectors that its bytes need.
const TORN: TiledCopy<UniversalCopy<u64>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
const _: () = assert!(!TORN.is_coalesced(layout!((128, 8):(1, 4096))));

/// A tiling by words of one size.
macro_rules! vectorized {
    ($(#[$doc:meta])* $name:ident: $word:ty, $bytes:literal, $load:ty, $smem:ty) => {
        $(#[$doc])*
        pub struct $name;

        impl Tiling for $name {
            type StridesA = Aligned<UnitStride<0>, $bytes>;
            type StridesB = Aligned<UnitStride<0>, $bytes>;
            type TileA = TileAb;
            type TileB = TileAb;
            type TileC = TileC;
            type SmemA = $smem;
            type SmemB = $smem;
            type LoadA = $load;
            type LoadB = $load;
            type Sums = [f32; 1];
            type Mma = Mma;
        }

        impl Staged for $name {
            type Word = $word;
        }
    };
}
vectorized! {
    /// The tiling of step 3 with words of 64 bits.
    Vectorized64: u64, 8, Load64, Smem64
}
vectorized! {
    /// The tiling of step 3 with words of 128 bits.
    Vectorized128: u128, 16, Load128, Smem128
}

entry! {
    /// Step 3, 64 bits: as [`ladder_tiled`](super::ladder_tiled), with operands that are aligned to 8 bytes.
    ladder_vectorized_64 = staged::<Vectorized64>, threads = 256, min_blocks = 2,
    "`a`, `b`, `lda` and `ldb` are multiples of 8 bytes, 2 elements."
}
entry! {
    /// Step 3, 128 bits: as [`ladder_tiled`](super::ladder_tiled), with operands that are aligned to 16 bytes.
    ladder_vectorized_128 = staged::<Vectorized128>, threads = 256, min_blocks = 2,
    "`a`, `b`, `lda` and `ldb` are multiples of 16 bytes, 4 elements."
}
