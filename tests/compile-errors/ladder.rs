//! A tiling of the ladder's first kernel text, for the cases that break one of its promises.

/// The tiling `$name` of 128 x 128 x 8 by 256 threads: the words in which a thread takes its operands from shared memory, the
/// strides of A and B, a tile in shared memory, and the tiled copy that fills it.
#[macro_export]
macro_rules! ladder_tiling {
    ($name:ident: $word:ty, strides $strides:ty, smem $smem:expr, load $atom:ty = $copy:expr) => {
        moye_device::static_layout! {
            TileAb = moye_device::layout!((128, 8));
            TileC = moye_device::layout!((128, 128));
            Smem = $smem;
        }
        moye_device::tiled_copy! {
            Load: TiledCopy<$atom, f32> = $copy;
        }
        moye_device::tiled_mma! {
            Mma: TiledMma<moye_device::atom::mma::UniversalFma<f32>> =
                moye_device::atom::TiledMma::new(moye_device::layout!((32, 8, 1)));
        }

        struct $name;

        impl moye_kernels::ladder::Tiling for $name {
            type StridesA = $strides;
            type StridesB = $strides;
            type TileA = TileAb;
            type TileB = TileAb;
            type TileC = TileC;
            type SmemA = Smem;
            type SmemB = Smem;
            type LoadA = Load;
            type LoadB = Load;
            type Sums = [f32; 1];
            type Mma = Mma;
        }

        impl moye_kernels::ladder::Staged for $name {
            type Word = $word;
        }
    };
}
