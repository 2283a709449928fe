//! Copies and partitions of a kernel's tiles as constants. That the file compiles shows that they
//! stay below the limit of the lint `long_running_const_eval`.

use moye_device::layout::*;

/// The accumulator layout of a warpgroup's m64n256 instruction, by thread and value.
const ACCUMULATOR: Layout = layout!(((4, 8, 4), (2, 2, 32)):((128, 1, 16), (64, 8, 512)));

/// The coordinates of the accumulator's elements in a tile of 128 x 256, for two such instructions.
const COORDINATES: Layout = {
    let tile = zipped_divide(identity_layout(tuple!((128, 256))), tiler!((64, 256)));
    Layout::concat(&[composition(tile.mode(0), ACCUMULATOR), tile.mode(1)])
};

#[test]
fn an_accumulator_knows_its_coordinates() {
    let thread = 37;
    for value in 0..128 {
        let index = thread + 128 * value;
        let linear = ACCUMULATOR.at(index);
        assert_eq!(COORDINATES.coordinate::<2>(index), [linear % 64, linear / 64], "value {value}");
    }
    assert_eq!(COORDINATES.coordinate::<2>(128 * 128), [64, 0], "the second instruction is 64 rows further");
}

/// The layouts that a matmul derives from its tile: the operands' tiles by thread and value, in
/// shared memory and as coordinates. As many constants as in a large kernel, each alone below the
/// lint's limit.
macro_rules! tiles_of_matmuls {
    ($($name:ident: $m:literal, $k:literal, $threads:expr, $values:expr;)+) => {$(
        mod $name {
            use super::*;

            const COPY: TvLayout = make_layout_tv($threads, $values);
            const TILES: Layout = zipped_divide(identity_layout(tuple!((4096, 4096))), tiler!(($m, $k)));
            const SMEM: ComposedLayout =
                shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!(($m, $k)));
            // (thread, value); the copies that cover the tile.
            const PARTS: Layout = {
                let tile = zipped_divide(TILES.mode(0), COPY.tile.tiler());
                Layout::concat(&[composition(tile.mode(0), COPY.layout), tile.mode(1)])
            };
            const SMEM_PARTS: ComposedLayout = SMEM.zipped_divide(COPY.tile.tiler());

            #[test]
            fn a_copy_covers_the_tile() {
                assert_eq!(PARTS.size(), $m * $k);
                assert_eq!(SMEM_PARTS.size(), $m * $k);
                let last = PARTS.coordinate::<2>(PARTS.size() - 1);
                assert_eq!(last, [$m - 1, $k - 1], "{PARTS}");
            }
        }
    )+};
}

tiles_of_matmuls! {
    m64: 64, 64, layout!((16, 8):(8, 1)), layout!((1, 8));
    m128: 128, 64, layout!((16, 8):(8, 1)), layout!((1, 8));
    m256: 256, 64, layout!((32, 8):(8, 1)), layout!((1, 8));
    wide: 128, 128, layout!((8, 16):(16, 1)), layout!((1, 8));
}
