//! The edges of tensors of 1 to 5 modes in global memory, against hand-computed indices:
//! out-of-bounds elements read as zero and are not written, in each mode, in empty tensors, within
//! words, and where offsets exceed 2^32.

use crate::global_ranks::coordinates;
use moye_device::algorithm::{copy, fill};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{
    Aligned, Dense, GlobalArray, GlobalTensor, StaticLayout, Strided, Strides, UnitStride, run_of,
};
use moye_device::{layout, static_layout, tensor, tile};
use moye_sim::Launch;
use moye_sim::memory::GlobalMemory;

static_layout! {
    Tile1 = layout!((4,));
    Tile2 = layout!((4, 3));
    Tile3 = layout!((2, 4, 3));
    Tile4 = layout!((2, 3, 2, 3));
    Tile5 = layout!((2, 2, 3, 2, 2));
}

/// The value that threads write.
const WRITTEN: f32 = -1.0;

/// Runs `kernel` on one thread.
fn on_one_thread(memory: &GlobalMemory, kernel: impl Fn() + Sync) {
    Launch::new("edges", 1, 1, memory).run(&kernel).unwrap();
}

/// Reads a tile, checks each element against `expected`, and writes the whole tile.
///
/// # Safety
/// The existing elements of `tile` are in a buffer.
unsafe fn check_and_overwrite(
    mut tile: GlobalTensor<GlobalMut<f32>, impl Strides, impl StaticLayout>,
    expected: &[f32],
) {
    // SAFETY: the existing elements are in a buffer; the fragment is written before it is read.
    unsafe {
        let mut fragment = tile.make_fragment_like();
        copy(&tile, &mut fragment);
        let read: Vec<f32> = (0..expected.len()).map(|index| fragment[index]).collect();
        assert_eq!(read, expected);
        fill(&mut fragment, WRITTEN);
        copy(&fragment, &mut tile);
    }
}

macro_rules! each_rank {
    ($check:ident) => {
        $check!(1, Tile1; 0);
        $check!(2, Tile2; 0 1);
        $check!(3, Tile3; 0 1 2);
        $check!(4, Tile4; 0 1 2 3);
        $check!(5, Tile5; 0 1 2 3 4);
    };
}

#[test]
fn a_tile_over_the_edge_of_one_mode_reads_zeros_there_and_writes_nothing() {
    macro_rules! check {
        ($rank:literal, $tile:ty; $($axis:tt)+) => {
            let tile: [usize; $rank] = [$(<$tile>::LAYOUT.extent($axis) as usize),+];
            for short in 0..$rank {
                // The second tile along `short` lacks its last coordinate. The strides leave room
                // for it.
                let room: [usize; $rank] = core::array::from_fn(|axis| tile[axis] * (1 + usize::from(axis == short)));
                let strides: [i64; $rank] =
                    core::array::from_fn(|axis| room[..axis].iter().product::<usize>() as i64);
                let extents: [usize; $rank] = core::array::from_fn(|axis| room[axis] - usize::from(axis == short));
                let place = |at: &[usize]| {
                    let along = |axis: usize| at[axis] + if axis == short { tile[axis] } else { 0 };
                    let offset = (0..$rank).map(|axis| along(axis) * strides[axis] as usize).sum::<usize>();
                    (along(short) < extents[short], offset)
                };
                let data: Vec<f32> = (0..room.iter().product()).map(|i| i as f32 + 1.0).collect();
                let (mut read, mut written) = (vec![], data.clone());
                for (inside, offset) in coordinates(&tile).iter().map(|at| place(at)) {
                    read.push(if inside { data[offset] } else { 0.0 });
                    if inside {
                        written[offset] = WRITTEN;
                    }
                }
                assert!(read.contains(&0.0) && read.iter().any(|&x| x > 0.0));
                let memory = GlobalMemory::new();
                let buffer = memory.upload(&data, "tensor").unwrap();
                let address = buffer.address();
                on_one_thread(&memory, || {
                    let shape = ($(extents[$axis] as u32,)+);
                    let mX = GlobalArray::new(GlobalMut::<f32>::from_address(address), shape, Dense(strides));
                    let gX = mX.local_tile::<$tile, _>(($(u32::from($axis == short),)+));
                    // SAFETY: one thread; the tensor is in its buffer.
                    unsafe { check_and_overwrite(gX, &read) };
                });
                assert_eq!(buffer.download::<f32>(), written, "rank {}, over the edge of mode {short}", $rank);
            }
        };
    }
    each_rank!(check);
}

#[test]
fn an_empty_tensor_of_every_rank_reads_zeros_and_needs_no_memory() {
    macro_rules! check {
        ($rank:literal, $tile:ty; $($axis:tt)+) => {
            for empty in 0..$rank {
                on_one_thread(&GlobalMemory::new(), || {
                    let shape = ($(if $axis == empty { 0u32 } else { 9 },)+);
                    let nowhere = GlobalMut::<f32>::from_address(0x40);
                    let mX = GlobalArray::new(nowhere, shape, Dense([1; $rank]));
                    let gX = mX.local_tile::<$tile, _>(($($axis * 0,)+));
                    // SAFETY: no element exists.
                    unsafe {
                        check_and_overwrite(gX, &vec![0.0; <$tile>::LAYOUT.size() as usize]);
                        assert_eq!(mX.element(($($axis * 0,)+)), 0.0);
                    }
                });
            }
        };
    }
    each_rank!(check);
    let mX = tensor!(Global::<f32>::from_address(0x40), (0, 9, 5), (45, 5, 1));
    assert_eq!(tile!(mX, (2, 4, 3), (_, 0, 0)).tiles(), 0);
    assert_eq!(tile!(mX, (2, 4, 3), (0, _, 0)).tiles(), 3);
}

#[test]
fn offsets_beyond_2_to_the_32_elements_are_exact() {
    // Planes of 3 x 5, of which only the third is in memory.
    let apart = (1i64 << 31) + 8;
    let memory = GlobalMemory::new();
    let data: Vec<f32> = (0..15).map(|i| i as f32 + 1.0).collect();
    let plane = memory.upload(&data, "plane").unwrap();
    let first = plane.address() - 2 * 4 * apart as u64;
    let row = |row: usize| data[5 * row..5 * row + 5].to_vec();
    on_one_thread(&memory, || {
        let mX = tensor!(GlobalMut::<f32>::from_address(first), (3, 3, 5), (apart, 5, 1)); // (L, M, N)
        // SAFETY: one thread; these elements are in the plane, and are read before they are
        // written.
        unsafe {
            assert_eq!(
                (mX.element((2, 1, 3)), mX.element((3, 1, 3)), mX.element((2, 3, 0))),
                (9.0, 0.0, 0.0)
            );
            // (BLK_L, BLK_M, BLK_N), (BLK_L, BLK_N), (BLK_M, BLK_N)
            check_and_overwrite(tile!(mX, (1, 1, 6), (2, 0, 0)), &[row(0), vec![0.0]].concat());
            check_and_overwrite(tile!(mX.at((.., 1, ..)), (2, 3), (1, 0)), &[6.0, 0.0, 7.0, 0.0, 8.0, 0.0]);
            check_and_overwrite(tile!(mX.at((2, .., ..)), (1, 5), (2, 0)), &row(2));
        }
    });
    let written: Vec<f32> =
        (0..15).map(|i| if matches!(i, 8 | 9) { i as f32 + 1.0 } else { WRITTEN }).collect();
    assert_eq!(plane.download::<f32>(), written);
}

#[test]
fn the_last_tile_of_the_longest_mode_is_predicated() {
    // Seven elements of the last tile of 8 exist.
    let extent = i32::MAX as u32 - 8;
    let last = extent / 8;
    let memory = GlobalMemory::new();
    let data: Vec<f32> = (0..8).map(|i| i as f32 + 1.0).collect();
    let buffer = memory.upload(&data, "last tile").unwrap();
    let first = buffer.address() - 4 * 8 * u64::from(last);
    on_one_thread(&memory, || {
        let mX = tensor!(GlobalMut::<f32>::from_address(first), (2, extent, 2), (i64::MAX >> 8, 1, 1));
        let gX = tile!(mX, (1, 8, 1), (0, _, 0)); // (BLK_0, BLK_1, BLK_2, i)
        assert_eq!(gX.tiles(), last + 1);
        // SAFETY: one thread; the elements that exist are in the buffer.
        unsafe {
            check_and_overwrite(gX.at((.., .., .., last)), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 0.0]);
            check_and_overwrite(gX.at((.., .., .., last + 1)), &[0.0; 8]);
        }
    });
    let expected = [WRITTEN; 7].into_iter().chain([8.0]).collect::<Vec<_>>();
    assert_eq!(buffer.download::<f32>(), expected);
}

#[test]
fn a_stride_may_be_negative_or_zero() {
    let memory = GlobalMemory::new();
    let buffer = memory.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0], "vector").unwrap();
    let (first, last) = (buffer.address(), buffer.address() + 16);
    on_one_thread(&memory, || {
        let backwards = tensor!(GlobalMut::<f32>::from_address(last), (5,), (-1,));
        let repeated = tensor!(Global::<f32>::from_address(first), (2, 5), (0, 1));
        // SAFETY: one thread; the vector is in its buffer.
        unsafe {
            assert_eq!((repeated.element((1, 4)), repeated.element((2, 4))), (5.0, 0.0));
            check_and_overwrite(tile!(backwards, (4), (1)), &[1.0, 0.0, 0.0, 0.0]);
        }
    });
    assert_eq!(buffer.download::<f32>(), [WRITTEN, 2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn an_edge_within_a_word_of_a_tensor_of_three_modes_is_predicated_by_element() {
    // (A, B, C), B contiguous, 10 of a tile's 16 elements along it.
    type Rows = Aligned<UnitStride<1, [i64; 2]>, 16>;
    static_layout! {
        Part = layout!((1, 16, 2));
    }
    assert_eq!(run_of::<Strided<GlobalMut<f32>, Rows>, moye_device::tensor::IdentityOf<Part>>(), 4);
    let (along_a, along_c) = (12, 40);
    let data: Vec<f32> = (0..160).map(|i| i as f32 + 1.0).collect();
    let memory = GlobalMemory::new();
    let buffer = memory.upload(&data, "tensor").unwrap();
    let address = buffer.address();
    let (mut read, mut written) = (vec![], data.clone());
    for at in coordinates(&[1, 16, 2]) {
        let offset = along_a * (1 + at[0]) + at[1] + along_c * (2 + at[2]);
        let inside = at[1] < 10 && 2 + at[2] < 3;
        read.push(if inside { data[offset] } else { 0.0 });
        if inside {
            written[offset] = WRITTEN;
        }
    }
    on_one_thread(&memory, || {
        let strides: Rows = Aligned(UnitStride([along_a as i64, along_c as i64]));
        let mX = GlobalArray::new(GlobalMut::<f32>::from_address(address), (2, 10, 3), strides);
        // SAFETY: one thread; the tensor is in its buffer.
        unsafe { check_and_overwrite(mX.local_tile::<Part, _>((1, 0, 1)), &read) };
    });
    assert_eq!(buffer.download::<f32>(), written);
}

#[test]
fn a_slice_of_a_tile_by_any_mode_is_predicated_as_the_tile_is() {
    let extents = [3usize, 6, 5];
    let strides = [1i64, 3, 18];
    let data: Vec<f32> = (0..90).map(|i| i as f32 + 1.0).collect();
    let memory = GlobalMemory::new();
    let buffer = memory.upload(&data, "tensor").unwrap();
    let address = buffer.address();
    // The tile (1, 1, 1) begins at (2, 4, 3), and extends past each edge.
    let value = |i: usize, j: usize, k: usize| {
        let at = [2 + i, 4 + j, 3 + k];
        let inside = at.iter().zip(&extents).all(|(place, extent)| place < extent);
        let offset: usize = at.iter().zip(&strides).map(|(place, &stride)| place * stride as usize).sum();
        if inside { data[offset] } else { 0.0 }
    };
    on_one_thread(&memory, || {
        let mX = GlobalArray::new(Global::<f32>::from_address(address), (3, 6, 5), Dense(strides));
        let gX = mX.local_tile::<Tile3, _>((1, 1, 1)); // (2, 4, 3)
        // SAFETY: one thread; the tensor is in its buffer.
        unsafe {
            for i in 0..2 {
                let slice = gX.at((i, .., ..)); // (4, 3)
                for (j, k) in (0..4).flat_map(|j| (0..3).map(move |k| (j, k))) {
                    assert_eq!(slice.get((j, k)), value(i, j, k), "at ({i}, .., ..), element ({j}, {k})");
                }
            }
            for j in 0..4 {
                let slice = gX.at((.., j, ..)); // (2, 3)
                for (i, k) in (0..2).flat_map(|i| (0..3).map(move |k| (i, k))) {
                    assert_eq!(slice.get((i, k)), value(i, j, k), "at (.., {j}, ..), element ({i}, {k})");
                }
            }
            for (i, k) in (0..2).flat_map(|i| (0..3).map(move |k| (i, k))) {
                let slice = gX.at((i, .., k)); // (4,)
                for j in 0..4 {
                    assert_eq!(slice.get(j), value(i, j, k), "at ({i}, .., {k}), element {j}");
                }
            }
        }
    });
}
