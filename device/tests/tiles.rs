//! `tile!` of tensors in shared memory and of coordinates, its projections, and tiles by type.

#![allow(non_snake_case)]

use moye_device::arch::FULL_WARP;
use moye_device::memory::{Global, GlobalMut, Shared};
use moye_device::prelude::*;
use moye_device::tensor::{Coordinates, Rank};
use moye_sim::{GlobalMemory, Launch};

const BASE: u32 = 1 << 14;

swizzled_layout! {
    /// (BLK_M, BLK_K, PIPE), K-major.
    Rows = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64, 3)));
    /// (BLK_M, BLK_K, PIPE), M-major.
    Columns = shared_memory_atom(Major::Mn, SwizzleBytes::B64, 16).tile_to_shape(tuple!((64, 32, 2)));
}
static_layout! {
    /// Rows of 72, without a swizzle.
    Padded = layout!((64, 64):(72, 1));
    Tile<T: Storable> = layout!((16, { 512 / T::BITS }));
    TileMnk = layout!((32, 16, 8));
    Threads = layout!((4, 8));
}

fn array<L: StaticLayout>() -> SharedTensor<f16, L> {
    SharedTensor::shared(Shared::from_address(BASE))
}

/// The address of an element of the whole array, computed only by the algebra.
fn address<L: StaticLayout>(coordinate: [i64; 3]) -> u32 {
    BASE + 2 * L::SWIZZLE.apply(L::LAYOUT.at_coord(coordinate)) as u32
}

/// Each element of a tile of 16 x 32 is where the array has it, in each stage and in each thread's
/// part.
fn is_where_the_array_has_it<L: StaticLayout>() {
    let [m, k, stages] = [0, 1, 2].map(|mode| L::LAYOUT.extent(mode));
    for (i, j) in (0..m / 16).flat_map(|i| (0..k / 32).map(move |j| (i, j))) {
        let tile = tile!(array::<L>(), (16, 32), (i as u32, j as u32)); // (BLK_M, BLK_K, PIPE)
        for stage in 0..stages {
            let whole = tile.at((.., .., stage as u32)); // (BLK_M, BLK_K)
            for (row, column) in (0..16).flat_map(|row| (0..32).map(move |column| (row, column))) {
                let wanted = address::<L>([16 * i + row, 32 * j + column, stage]);
                let index = (row + 16 * column) as usize;
                assert_eq!(whole.address_of(index), wanted, "({row}, {column}) of ({i}, {j}), {stage}");
            }
            for thread in 0..32 {
                let part = partition!(whole, Threads, thread); // (4, 4)
                for (row, column) in (0..4).flat_map(|row| (0..4).map(move |column| (row, column))) {
                    let (thread_row, thread_column) = (i64::from(thread) % 4, i64::from(thread) / 4);
                    let place = [16 * i + 4 * row + thread_row, 32 * j + 8 * column + thread_column, stage];
                    assert_eq!(
                        part.address_of((row + 4 * column) as usize),
                        address::<L>(place),
                        "{place:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn elements_of_a_tile_of_shared_memory_are_where_the_array_has_them() {
    is_where_the_array_has_it::<Rows>();
    is_where_the_array_has_it::<Columns>();
}

#[test]
fn open_places_of_a_tile_of_shared_memory_become_modes_before_those_it_leaves() {
    let tiles = tile!(array::<Rows>(), (16, 16), (5, _)); // (BLK_M, BLK_K, k, PIPE)
    assert_eq!([0, 1, 2, 3].map(|mode| tiles.layout().extent(mode)), [16, 16, 4, 3]);
    for k in 0..4 {
        let tile = tile!(array::<Rows>(), (16, 16, 1), (5, k, 2)); // (BLK_M, BLK_K, 1)
        for (row, column) in (0..16).flat_map(|row| (0..16).map(move |column| (row, column))) {
            let index = (row + 16 * column) as usize;
            let wanted = address::<Rows>([80 + row, 16 * i64::from(k) + column, 2]);
            assert_eq!(tile.address_of(index), wanted, "({row}, {column}), step {k}");
            assert_eq!(tiles.at((.., .., k, 2)).address_of(index), wanted, "({row}, {column}), step {k}");
        }
    }
    let open = tile!(array::<Padded>(), Tile<f16>, (_, _)); // (BLK_M, BLK_K, m, k)
    assert_eq!(open.layout().to_string(), "(16,32,4,2):(72,1,1152,32)");
}

#[test]
fn a_tile_of_coordinates_starts_at_its_own() {
    let tile = identity_tensor::<f32, TileMnk, _>((100, 200, 300));
    let part: Tensor<Coordinates<f32, Rank<3>>, _> = tile!(tile, (8, 4, 8), (3, 2, 0)); // (8, 4, 8)
    assert_eq!(part.coordinate((1, 3, 7)), (100 + 25, 200 + 11, 307));
}

#[test]
fn a_projection_leaves_out_modes_of_the_tile_and_of_its_coordinate() {
    let pointer = Global::<f32>::from_address(0x1000);
    let (m, n, k) = (100u32, 50u32, 64u32);
    let at = (2u32, 1u32, All);
    let gA = tile!(tensor!(pointer, (m, k), (1, m)), TileMnk, at, (1, X, 1)); // (BLK_M, BLK_K, k)
    let gB = tile!(tensor!(pointer, (n, k), (1, n)), (32, 16, 8), (2, 1, _), (X, 1, 1)); // (BLK_N, BLK_K, k)
    let gC = tile!(tensor!(pointer, (m, n), (1, m)), (32, 16, 8), at, (1, 1, X)); // (BLK_M, BLK_N)
    assert_eq!((gA.layout().to_string(), gA.tiles()), ("(32,8):(1@0,1@1)".into(), 8));
    assert_eq!((gB.layout().to_string(), gB.tiles()), ("(16,8):(1@0,1@1)".into(), 8));
    assert_eq!(gC.layout().to_string(), "(32,16):(1@0,1@1)");
    let row = tensor!(pointer, (n, 1u32), (1, n)).at((.., 0)); // (N)
    let row = tile!(row, TileMnk, (2, 3, _), (X, 1, X)); // (BLK_N)
    assert_eq!(row.layout().to_string(), "(16):(1@0)");
    let sA = tile!(array::<Padded>(), (32, 16, 8), (1, 0, 2), (1, X, 1)); // (BLK_M, BLK_K)
    assert_eq!(
        (sA.layout().to_string(), sA.address_of(0)),
        ("(32,8):(72,1)".into(), BASE + 2 * (32 * 72 + 16))
    );
}

/// Doubles a matrix of 32 x 64 through shared memory: each of four warps takes its tile of 16 x 32
/// of the block's tile, in both memories.
///
/// # Safety
/// Both pointers are to such a matrix.
#[kernel(threads = 128, shared = (sX: SharedArray<f32, Whole>))]
unsafe fn doubled(x: Global<f32>, y: GlobalMut<f32>) {
    let (warp, lane) = (thread_idx().x / 32, lane_id());
    let place = (warp % 2, warp / 2, block_idx().x);
    let mX = tensor!(x, (32u32, 64u32), (64, 1)); // (M, N)
    let mY = tensor!(y, (32u32, 64u32), (64, 1)); // (M, N)
    // The third mode is for blocks; neither matrix has it.
    let gX = tile!(mX, (16, 32, 1), place, (1, 1, X)); // (16, 32)
    let mut sX_warp = tile!(sX, Tile16, (warp % 2, warp / 2)); // (16, 32)
    copy(partition!(gX, Threads, lane), partition!(sX_warp, Threads, lane));
    sync_warp(FULL_WARP);
    for i in 0..16 {
        let (row, column) = (i, lane as usize);
        sX_warp.set((row, column), 2.0 * sX_warp.get((row, column)));
    }
    sync_threads();
    // The tile of another warp.
    let other = tile!(sX, Tile16, (1 - warp % 2, warp / 2)); // (16, 32)
    let gY = tile!(mY, Tile16, (1 - warp % 2, warp / 2)); // (16, 32)
    copy(partition!(other, Threads, lane), partition!(gY, Threads, lane));
}
static_layout! {
    Whole = layout!((32, 64):(66, 1));
    Tile16 = layout!((16, 32));
}

#[test]
fn warps_go_through_their_own_tiles_of_shared_memory() {
    let memory = GlobalMemory::new();
    let x: Vec<f32> = (0..32 * 64).map(|i| i as f32).collect();
    let (dx, dy) = (memory.upload(&x, "x").unwrap(), memory.upload(&vec![f32::NAN; 32 * 64], "y").unwrap());
    let pointers = (Global::from_address(dx.address()), GlobalMut::from_address(dy.address()));
    // SAFETY: both hold a matrix of 32 x 64.
    unsafe { doubled.simulate(&memory, 1, 128, pointers).unwrap() };
    let twice: Vec<f32> = x.iter().map(|x| 2.0 * x).collect();
    assert_eq!(dy.download::<f32>(), twice);
}

#[test]
fn a_tile_past_the_last_of_shared_memory_is_a_fault_of_the_line() {
    let memory = GlobalMemory::new();
    let fault = Launch::new("past", 1, 32, &memory)
        .run(&|| {
            let _ = tile!(array::<Rows>(), (64, 64), (2, 0));
        })
        .unwrap_err();
    let text = fault.to_string();
    assert!(text.contains("local_tile: tile 2 along mode 0 of"), "{text}");
    assert!(text.contains("where the tile (64,64):(1,64) has 2"), "{text}");
    assert!(text.contains("tiles.rs"), "the line of the call: {text}");
}
