//! A slice by `at` has the elements that indexing the whole tensor returns, in each kind of memory.

use moye_device::arch::{shared_base, thread_idx};
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::{StaticTiledCopy, TiledCopy};
use moye_device::layout::{ComposedLayout, Swizzle};
use moye_device::memory::{Global, GlobalPacked, Shared, SharedStorage};
use moye_device::number::S4;
use moye_device::tensor::{
    All, Fragment, Matrix, PackedArray, SharedTensor, StaticLayout, UnitStride, identity_tensor,
};
use moye_device::{layout, static_layout, swizzled_layout, tiled_copy, tuple};
use moye_sim::{GlobalMemory, Launch};

static_layout! {
    /// (BLK_M, BLK_N)
    Tile = layout!((4, 4));
    Threads = layout!((2, 2));
    /// (MMA, MMA_M, MMA_K), the last two in the order of their strides.
    Values = layout!((4, 2, 3):(1, 12, 4));
    /// (BLK_M, BLK_K, PIPE)
    Packed = layout!((4, 16, 2):(16, 1, 64));
    /// (BLK_M, BLK_K, a, b, c, PIPE)
    Six = layout!((4, 3, 2, 3, 2, 2):(3, 1, 12, 24, 72, 144));
}
swizzled_layout! {
    /// (BLK_M, BLK_K, PIPE)
    Swizzled = ComposedLayout::new(Swizzle::new(1, 3, 3), 0, layout!((8, 16):(16, 1))).tile_to_shape(tuple!((8, 16, 3)));
    /// Rows of 24, so that a step along M carries into the swizzled bits.
    Carrying = ComposedLayout::new(Swizzle::new(1, 3, 3), 0, layout!((8, 16, 3):(24, 1, 256)));
}
tiled_copy! {
    Copy: TiledCopy<UniversalCopy<u32>, u16> = TiledCopy::new(layout!((4, 2):(2, 1)), layout!((1, 2)));
}

/// Every coordinate below the extents.
fn places<const RANK: usize>(extents: [usize; RANK]) -> impl Iterator<Item = [usize; RANK]> {
    (0..extents.iter().product()).map(move |mut index: usize| {
        extents.map(|extent| {
            let place = index % extent;
            index /= extent;
            place
        })
    })
}

#[test]
fn a_slice_of_global_memory_has_its_tiles_elements_and_none_past_the_edge() {
    let (rows, columns) = (10, 7);
    let data: Vec<f32> = (0..rows * columns).map(|i| i as f32 + 1.0).collect();
    let memory = GlobalMemory::new();
    let source = memory.upload(&data, "source").unwrap();
    let address = source.address();
    let element = |i: usize, j: usize| if i < rows && j < columns { data[i + rows * j] } else { 0.0 };
    Launch::new("global", 1, 4, &memory)
        .run(&|| {
            let matrix = Matrix::new(Global::<f32>::from_address(address), (10, 7), UnitStride::<0>(10));
            let tiles = matrix.local_tile::<Tile, _>((All, All)); // (BLK_M, BLK_N, m, n)
            for [i, j, m, n] in places([4, 4, 3, 2]) {
                let want = element(4 * m + i, 4 * n + j);
                let tile = tiles.at((.., .., m, n)); // (BLK_M, BLK_N)
                // SAFETY: the matrix is readable.
                let got = unsafe {
                    [
                        tile.get((i, j)),
                        tile.at((i, ..)).get(j),
                        tiles.at((.., j, m, n)).get(i),
                        tiles.at((.., .., .., n)).at((i, j, m)).get(0),
                    ]
                };
                assert_eq!(got, [want; 4], "({i}, {j}) of tile ({m}, {n})");
            }
            let thread = thread_idx().x as usize;
            let part = tiles.local_partition::<Threads>(thread as u32); // (THR_M, THR_N, m, n)
            for [i, j, m, n] in places([2, 2, 3, 2]) {
                let want = element(4 * m + 2 * i + thread % 2, 4 * n + 2 * j + thread / 2);
                // SAFETY: the matrix is readable.
                let got = unsafe { part.at((i, .., m, n)).get(j) };
                assert_eq!(got, want, "({i}, {j}) of tile ({m}, {n}) for thread {thread}");
            }
        })
        .unwrap();
}

/// Slices of an array of 8 x 16 x 3 and of each thread's part of it.
fn slices_of_shared<L: StaticLayout>() {
    let array = SharedTensor::<u16, L>::shared(Shared::from_address(1 << 14));
    for [i, j, stage] in places([8, 16, 3]) {
        let want = array.address_of(i + 8 * (j + 16 * stage));
        let got = [
            array.at((.., .., stage)).address_of(i + 8 * j),
            array.at((i, .., stage)).address_of(j),
            array.at((.., j, ..)).at((.., stage)).address_of(i),
        ];
        assert_eq!(got, [want; 3], "({i}, {j}, {stage}) of {}", L::COMPOSED);
    }
    for thread in 0..8 {
        let part = Copy::get_slice(thread).partition_s(array); // (CPY, CPY_M, CPY_K, PIPE)
        assert_eq!([0, 1, 2, 3].map(|mode| part.layout().extent(mode)), [2, 2, 4, 3]);
        for [value, m, k, stage] in places([2, 2, 4, 3]) {
            let want = part.address_of(value + 2 * (m + 2 * (k + 4 * stage)));
            let got = [
                part.at((.., .., k, stage)).address_of(value + 2 * m),
                part.at((.., m, .., stage)).address_of(value + 2 * k),
                part.at((.., .., .., stage)).at((.., m, k)).address_of(value),
            ];
            assert_eq!(got, [want; 3], "({value}, {m}, {k}, {stage}) of thread {thread} of {}", L::COMPOSED);
        }
    }
}

#[test]
fn a_slice_of_swizzled_shared_memory_has_the_addresses_of_the_whole() {
    slices_of_shared::<Swizzled>();
    slices_of_shared::<Carrying>();
}

#[test]
fn a_transposed_array_keeps_its_modes_after_the_second() {
    let array = SharedTensor::<u16, Six>::shared(Shared::from_address(1 << 14));
    let transposed = array.transposed(); // (BLK_K, BLK_M, a, b, c, PIPE)
    assert_eq!(transposed.layout(), layout!((3, 4, 2, 3, 2, 2):(1, 3, 12, 24, 72, 144)));
    for [i, j, rest] in places([4, 3, 2 * 3 * 2 * 2]) {
        let got = transposed.address_of(j + 3 * (i + 4 * rest));
        assert_eq!(got, array.address_of(i + 4 * (j + 3 * rest)), "({i}, {j}) and {rest} of the others");
    }
}

#[test]
fn a_slice_of_registers_has_the_elements_of_the_whole() {
    let code = |[i, j, k]: [usize; 3]| (100 * i + 10 * j + k) as i32;
    let mut fragment = Fragment::<i32, Values>::filled(-1);
    for [i, j, k] in places([4, 2, 3]) {
        match k {
            0 => fragment.at_mut((.., .., k))[(i, j)] = code([i, j, k]),
            1 => fragment.view_mut().at_mut((i, .., ..))[(j, k)] = code([i, j, k]),
            _ => fragment.at_mut((.., j, ..)).at_mut((.., k))[i] = code([i, j, k]),
        }
    }
    for [i, j, k] in places([4, 2, 3]) {
        let got = [
            fragment[(i, j, k)],
            fragment.at((.., j, k))[i],
            fragment.at((i, .., ..))[(j, k)],
            fragment.view().at((.., j, ..)).at((i, k))[0],
        ];
        assert_eq!(got, [code([i, j, k]); 4], "({i}, {j}, {k})");
    }
}

#[test]
fn a_slice_of_packed_elements_has_the_elements_of_the_whole() {
    let number = |i: usize, j: usize, k: usize| S4::new(((3 * i + 5 * j + 7 * k) % 16) as i8 - 8).unwrap();
    let memory = GlobalMemory::new();
    // Four rows of six values, two per byte; rows of four bytes.
    let nibble = |i: usize, j: usize| number(i, j, 0).get() as u8 & 15;
    let bytes: Vec<u8> = places([4, 4]).map(|[b, i]| nibble(i, 2 * b) | nibble(i, 2 * b + 1) << 4).collect();
    let source = memory.upload(&bytes, "source").unwrap();
    let address = source.address();
    Launch::new("packed", 1, 1, &memory)
        .shared_bytes(PackedArray::<S4, Packed>::BYTES)
        .run(&|| {
            // SAFETY: the launch has the shared memory and one thread; each element is written
            // first.
            unsafe {
                let mut array = PackedArray::<S4, Packed>::take(); // (BLK_M, BLK_K, PIPE)
                // Writing an element modifies its byte.
                let bytes = Shared::<u8>::from_address(shared_base());
                (0..PackedArray::<S4, Packed>::BYTES as i32).for_each(|byte| bytes.write(byte, 0));
                for [i, j, stage] in places([4, 16, 2]) {
                    array.set((i, j, stage), number(i, j, stage));
                }
                for [i, j, stage] in places([4, 16, 2]) {
                    let got = [array.at((.., .., stage)).get((i, j)), array.at((.., j, ..)).get((i, stage))];
                    assert_eq!(got, [number(i, j, stage); 2], "({i}, {j}, {stage}) in shared memory");
                }
                let mut fragment = Fragment::<S4, Values>::filled(S4::MIN);
                for [i, j, k] in places([4, 2, 3]) {
                    fragment.at_mut((.., j, ..)).set((i, k), number(i, j, k));
                }
                for [i, j, k] in places([4, 2, 3]) {
                    let got = [fragment.get((i, j, k)), fragment.at((i, .., k)).get(j)];
                    assert_eq!(got, [number(i, j, k); 2], "({i}, {j}, {k}) in registers");
                }
            }
            let pointer = GlobalPacked::<S4>::new(Global::from_address(address));
            let tiles = Matrix::new(pointer, (4, 6), UnitStride::<1>(8)).local_tile::<Tile, _>((0, All)); // (BLK_M, BLK_K, k)
            for [i, j, k] in places([4, 4, 2]) {
                let column = 4 * k + j;
                let want = if column < 6 { number(i, column, 0) } else { S4::new(0).unwrap() };
                // SAFETY: the matrix is readable.
                let got = unsafe { [tiles.at((i, .., k)).get(j), tiles.at((.., j, k)).get(i)] };
                assert_eq!(got, [want; 2], "({i}, {column}) in global memory");
            }
        })
        .unwrap();
}

#[test]
fn a_slice_of_coordinates_has_the_coordinates_of_the_whole() {
    let tensor = identity_tensor::<f32, Values, _>((64, 16, 5)); // (BLK_A, BLK_B, BLK_C)
    for [i, j, k] in places([4, 2, 3]) {
        let got = [tensor.at((.., j, k)).coordinate(i), tensor.at((i, .., ..)).coordinate((j, k))];
        assert_eq!(got, [tensor.coordinate((i, j, k)); 2], "({i}, {j}, {k})");
    }
}
