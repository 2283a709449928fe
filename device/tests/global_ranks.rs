//! Tensors of 1 to 5 modes in global memory on the simulator: tiles, slices, predicates and
//! coordinates agree with plain loops over ragged extents and permuted strides.

use moye_device::algorithm::copy;
use moye_device::arch::thread_idx;
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{
    Aligned, Dense, Fragment, GlobalArray, GlobalTensor, IdentityOf, KeptStrides, StaticLayout, Strided,
    Strides, TensorRank, UnitStride, identity_tensor, run_of,
};
use moye_device::tensor::{Fixed, Kept};
use moye_device::{layout, static_layout, tensor, tile};
use moye_sim::Launch;
use moye_sim::memory::GlobalMemory;
use std::collections::HashMap;

static_layout! {
    Tile1 = layout!((4,));
    Threads1 = layout!((2,));
    Tile2 = layout!((4, 4));
    Tile3 = layout!((2, 4, 4));
    Threads3 = layout!((1, 2, 2));
    Tile4 = layout!((2, 1, 4, 2));
    Threads4 = layout!((2, 1, 1, 2));
    Tile5 = layout!((2, 3, 1, 2, 4));
    Threads5 = layout!((2, 1, 1, 1, 2));
    Tile3Part = layout!((2, 2, 2));
    Threads = layout!((2, 2));
    Two = layout!((2, 1, 1));
    One = layout!((1,));
    One5 = layout!((1, 1, 1, 1, 1));
}

/// Every coordinate below the extents, the first mode fastest.
pub fn coordinates(extents: &[usize]) -> Vec<Vec<usize>> {
    extents.iter().fold(vec![vec![]], |all, &extent| {
        (0..extent)
            .flat_map(|place| {
                all.iter().map(move |at| [at.as_slice(), &[place]].concat()).collect::<Vec<_>>()
            })
            .collect()
    })
}

fn offset(at: &[usize], strides: &[i64]) -> usize {
    at.iter().zip(strides).map(|(&place, &stride)| place * stride as usize).sum()
}

/// Strides for the modes in this order, the fastest first, with a gap of `gap` elements after each
/// mode.
fn permuted(extents: &[usize], order: &[usize], gap: usize) -> Vec<i64> {
    let (mut strides, mut next) = (vec![0; extents.len()], 1);
    for &mode in order {
        strides[mode] = next as i64;
        next = next * extents[mode] + gap;
    }
    strides
}

const POISON: f32 = -1.0;

/// Runs `kernel` with a source of `extents` and a poisoned destination, and checks that each
/// element arrives and no other is written.
fn arrives(
    extents: &[usize],
    from: &[i64],
    to: &[i64],
    threads: u32,
    kernel: impl Fn(Global<f32>, GlobalMut<f32>) + Sync,
) {
    let size =
        |strides: &[i64]| extents.iter().zip(strides).map(|(n, &s)| (n - 1) * s as usize).sum::<usize>() + 8;
    let data: Vec<f32> = (0..size(from)).map(|i| i as f32 + 1.0).collect();
    let memory = GlobalMemory::new();
    let source = memory.upload(&data, "source").unwrap();
    let destination = memory.upload(&vec![POISON; size(to)], "destination").unwrap();
    let (src, dst) = (source.address(), destination.address());
    Launch::new("ranks", 1, threads, &memory)
        .run(&|| kernel(Global::from_address(src), GlobalMut::from_address(dst)))
        .unwrap();
    let mut expected = vec![POISON; size(to)];
    for at in coordinates(extents) {
        expected[offset(&at, to)] = data[offset(&at, from)];
    }
    assert_eq!(destination.download::<f32>(), expected, "{extents:?} from {from:?} to {to:?}");
}

/// Copies a thread's part of a tile through registers.
///
/// # Safety
/// The threads' parts of `dst` are in a buffer and do not overlap.
unsafe fn through_registers<T: StaticLayout>(
    src: GlobalTensor<Global<f32>, impl Strides, impl StaticLayout>,
    dst: GlobalTensor<GlobalMut<f32>, impl Strides, impl StaticLayout>,
) {
    let thread = thread_idx().x;
    let (part, mut to) = (src.local_partition::<T>(thread), dst.local_partition::<T>(thread));
    // SAFETY: the tile's existing elements are in a buffer, each belongs to one thread.
    unsafe {
        let mut fragment = part.make_fragment_like();
        copy(&part, &mut fragment);
        copy(&fragment, &mut to);
    }
}

#[test]
fn tiles_of_every_rank_beyond_every_edge_are_copied_as_a_loop_copies() {
    macro_rules! rank {
        ($rank:literal, $tile:ty, $threads:ty, $extents:expr, $from:expr, $to:expr; $($axis:tt)+) => {
            let extents: [usize; $rank] = $extents;
            let (from, to) = (permuted(&extents, &$from, 1), permuted(&extents, &$to, 2));
            let strides = |of: &[i64]| Dense::<$rank>(core::array::from_fn(|axis| of[axis]));
            let (source, destination) = (strides(&from), strides(&to));
            let tiles: Vec<usize> =
                (0..$rank).map(|axis| extents[axis].div_ceil(<$tile>::LAYOUT.extent(axis) as usize)).collect();
            arrives(&extents, &from, &to, <$threads>::LAYOUT.size() as u32, |src, dst| {
                let shape = ($(extents[$axis] as u32,)+);
                let (mX, mY) = (GlobalArray::new(src, shape, source), GlobalArray::new(dst, shape, destination));
                for at in coordinates(&tiles) {
                    let at = ($(at[$axis] as u32,)+);
                    let (gX, gY) = (mX.local_tile::<$tile, _>(at), mY.local_tile::<$tile, _>(at));
                    // SAFETY: each element of the destination is in one tile and one thread's.
                    unsafe { through_registers::<$threads>(gX, gY) };
                }
            });
        };
    }
    rank!(1, Tile1, Threads1, [11], [0], [0]; 0);
    rank!(2, Tile2, Threads, [6, 11], [1, 0], [0, 1]; 0 1);
    rank!(3, Tile3, Threads3, [3, 7, 9], [2, 0, 1], [1, 2, 0]; 0 1 2);
    rank!(4, Tile4, Threads4, [3, 5, 6, 7], [3, 1, 0, 2], [0, 2, 3, 1]; 0 1 2 3);
    rank!(5, Tile5, Threads5, [3, 4, 2, 5, 6], [4, 2, 0, 3, 1], [1, 0, 4, 2, 3]; 0 1 2 3 4);
}

#[test]
fn a_slice_at_places_of_any_modes_is_the_tensor_of_the_others() {
    let extents = [3, 10, 2, 7];
    let (from, to) = (permuted(&extents, &[3, 0, 2, 1], 1), permuted(&extents, &[1, 3, 0, 2], 0));
    let strides = |of: &[i64]| Dense([of[0], of[1], of[2], of[3]]);
    let (source, destination) = (strides(&from), strides(&to));
    let of = |src, dst| {
        let shape = (3, 10, 2, 7);
        (GlobalArray::new(src, shape, source), GlobalArray::new(dst, shape, destination))
    };
    // The outer modes, the inner modes, then both.
    arrives(&extents, &from, &to, 4, |src, dst| {
        let (mX, mY) = of(src, dst);
        for (batch, head) in [(0u32, 0u32), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1)] {
            let (mX, mY) = (mX.at((batch, .., head, ..)), mY.at((batch, .., head, ..))); // (S, D)
            assert_eq!(mX.shape(), (10, 7));
            let (gX, gY) = (tile!(mX, (4, 8), (_, 0)), tile!(mY, (4, 8), (_, 0))); // (BLK_S, BLK_D, s)
            assert_eq!(gX.tiles(), 3);
            for tile in 0..gX.tiles() {
                let (gX, gY) = (gX.at((.., .., tile)), gY.at((.., .., tile)));
                // SAFETY: each element of the destination is in one slice, tile and thread.
                unsafe { through_registers::<Threads>(gX, gY) };
            }
        }
    });
    arrives(&extents, &from, &to, 4, |src, dst| {
        let (mX, mY) = of(src, dst);
        for row in 0..10u32 {
            for column in 0..7u32 {
                let (mX, mY) = (mX.at((.., .., .., column)), mY.at((.., row, .., column)));
                assert_eq!((mX.shape(), mY.shape()), ((3, 10, 2), (3, 2)));
                let (gX, gY) = (tile!(mX.at((.., row, ..)), (4, 4), (0, 0)), tile!(mY, (4, 4), (0, 0)));
                // SAFETY: each element of the destination is in one slice, tile and thread.
                unsafe { through_registers::<Threads>(gX, gY) };
            }
        }
    });
}

#[test]
fn several_open_modes_are_sliced_one_by_one() {
    let extents = [5, 3, 9];
    let (from, to) = (permuted(&extents, &[1, 2, 0], 0), permuted(&extents, &[2, 0, 1], 3));
    let (source, destination) = (Dense([from[0], from[1], from[2]]), Dense([to[0], to[1], to[2]]));
    arrives(&extents, &from, &to, 2, |src, dst| {
        let shape = (5, 3, 9);
        let gX = tile!(GlobalArray::new(src, shape, source), (2, 1, 4), (_, _, _)); // (BLK_0, BLK_1, BLK_2, i, j, k)
        let gY = tile!(GlobalArray::new(dst, shape, destination), (2, 1, 4), (_, _, _)); // (BLK_0, BLK_1, BLK_2, i, j, k)
        assert_eq!(gX.tiles(), 3);
        for (i, j, k) in
            (0..3u32).flat_map(|i| (0..3u32).flat_map(move |j| (0..3u32).map(move |k| (i, j, k))))
        {
            let gX = gX.at((.., .., .., .., j, ..)).at((.., .., .., i, k));
            let gY = gY.at((.., .., .., i, .., ..)).at((.., .., .., j, k));
            // SAFETY: each element of the destination is in one tile and one thread's.
            unsafe { through_registers::<Two>(gX, gY) };
        }
    });
}

#[test]
fn a_contiguous_mode_keeps_its_wide_accesses_until_a_slice_takes_a_place_of_it() {
    type Batches = Aligned<UnitStride<3, [i64; 3]>, 16>; // (B, S, H, D)
    fn run<S: Strides, L: StaticLayout>() -> usize {
        run_of::<Strided<Global<f32>, S>, IdentityOf<L>>()
    }
    static_layout! {
        Whole = layout!((1, 1, 1, 8));
        Across = layout!((8, 1, 1, 1));
        Row = layout!((1, 8));
        Heads = layout!((8, 1));
    }
    assert_eq!((run::<Batches, Whole>(), run::<Batches, Across>()), (4, 1));
    assert_eq!(run::<UnitStride<3, [i64; 3]>, Whole>(), 1, "no promise of alignment");
    type Head = KeptStrides<Batches, (Fixed, Kept, Fixed, Kept)>; // (S, D)
    type Column = KeptStrides<Batches, (Fixed, Kept, Kept, Fixed)>; // (S, H)
    assert_eq!((run::<Head, Row>(), run::<Head, Heads>()), (4, 1));
    assert_eq!((run::<Column, Row>(), run::<Column, Heads>()), (1, 1));
    assert_eq!((Head::UNIT, Column::UNIT, Column::ALIGN), (Some(1), None, 0));
}

#[test]
fn a_stride_that_is_written_as_one_is_the_contiguous_mode_of_any_rank() {
    let extents = [6, 20, 5];
    let (from, to) = (permuted(&extents, &[1, 2, 0], 4), permuted(&extents, &[0, 2, 1], 0));
    let (a, c, second, third) = (from[0], from[2], to[1], to[2]);
    arrives(&extents, &from, &to, 2, |src, dst| {
        let mX = tensor!(src, (6, 20, 5), (a, 1, c), align = 16); // (A, B, C)
        let mY = tensor!(dst, (6, 20, 5), (1, second, third)); // (A, B, C)
        for (i, j, k) in (0..3).flat_map(|i| (0..5).flat_map(move |j| (0..2).map(move |k| (i, j, k)))) {
            let (gX, gY) = (tile!(mX, (2, 4, 4), (i, j, k)), tile!(mY, (2, 4, 4), (i, j, k)));
            // SAFETY: each element of the destination is in one tile and one thread's.
            unsafe { through_registers::<Two>(gX, gY) };
        }
    });
    // All modes: a vector, and a tensor of five modes.
    arrives(&[9], &[1], &[3], 1, |src, dst| {
        let (gX, gY) = (tensor!(src, (9,), (1,)), tensor!(dst, (9,), (3,)));
        // SAFETY: one thread.
        unsafe { through_registers::<One>(tile!(gX, (16), (0)), tile!(gY, (16), (0))) };
    });
    let extents = [2, 3, 1, 2, 3];
    let (from, to) = (permuted(&extents, &[4, 3, 2, 1, 0], 0), permuted(&extents, &[3, 2, 1, 0, 4], 1));
    let (x, y) = (from.clone(), to.clone());
    arrives(&extents, &from, &to, 1, |src, dst| {
        let mX = tensor!(src, (2, 3, 1, 2, 3), (x[0], x[1], x[2], x[3], 1));
        let mY = tensor!(dst, (2, 3, 1, 2, 3), (y[0], y[1], y[2], y[3], y[4]));
        let (gX, gY) =
            (tile!(mX, (2, 4, 1, 2, 4), (0, 0, 0, 0, 0)), tile!(mY, (2, 4, 1, 2, 4), (0, 0, 0, 0, 0)));
        // SAFETY: one thread.
        unsafe { through_registers::<One5>(gX, gY) };
    });
}

#[test]
fn a_partitioned_identity_tensor_of_three_modes_has_each_elements_coordinate() {
    let first = (4u32, 8, 12);
    let whole = identity_tensor::<f32, Tile3, _>(first);
    let mut seen = HashMap::new();
    for thread in 0..4 {
        let part = whole.local_partition::<Threads3>(thread); // (2, 2, 2)
        for index in 0..8 {
            *seen.entry(part.coordinate(index)).or_insert(0) += 1;
        }
        let mut values = Fragment::<f32, Tile3Part>::zeros();
        values.apply_at(&part, |_, (i, j, k)| (100 * i + 10 * j + k) as f32);
        let (i, j, k) = part.coordinate((1, 0, 1));
        assert_eq!(values[(1, 0, 1)], (100 * i + 10 * j + k) as f32);
        assert_eq!(part.at((.., 1, ..)).coordinate((1, 0)), part.coordinate((1, 1, 0)));
    }
    let expected: HashMap<_, _> = coordinates(&[2, 4, 4])
        .into_iter()
        .map(|at| ((first.0 + at[0] as u32, first.1 + at[1] as u32, first.2 + at[2] as u32), 1))
        .collect();
    assert_eq!(seen, expected, "each coordinate is one thread's");
}

#[test]
fn a_place_beyond_its_mode_is_a_fault_with_both() {
    let memory = GlobalMemory::new();
    let address = memory.alloc(4096, "tensor").unwrap().address();
    let fault = |batch: u32| {
        let launch = Launch::new("beyond", 1, 1, &memory).run(&|| {
            let mX = tensor!(Global::<f32>::from_address(address), (4, 5, 6), (30, 6, 1)); // (B, M, N)
            let _ = mX.at((batch, .., ..));
        });
        launch.err().map(|fault| fault.to_string())
    };
    assert_eq!(fault(3), None);
    let text = fault(4).unwrap();
    assert!(text.contains("at: place 4 of mode 0 of a tensor of (4, 5, 6)"), "{text}");
    assert!(text.contains("global_ranks.rs"), "{text}");
}

#[test]
fn numbers_that_do_not_fit_into_32_bits_name_no_element() {
    use moye_device::memory::Shared;

    let memory = GlobalMemory::new();
    let address = memory.alloc(4096, "tensor").unwrap().address();
    let fault = |kernel: &(dyn Fn() + Sync)| {
        let launch = Launch::new("wide", 1, 1, &memory).shared_bytes(64).run(kernel);
        launch.err().map(|fault| fault.to_string())
    };
    // SAFETY: the first element is written before it is read; the others do not exist.
    let of_shared = |index: u64| {
        fault(&move || unsafe {
            Shared::<f32>::from_address(1024).write(0, 1.0);
            Shared::<f32>::from_address(1024).read(index);
        })
    };
    assert_eq!(of_shared(0), None);
    for index in [1 << 32, u64::from(u32::MAX), u64::MAX << 32] {
        let text = of_shared(index).unwrap();
        assert!(text.contains(&format!("the element {} further on", index as i64)), "{text}");
    }
    let text = fault(&|| {
        let mX = tensor!(Global::<f32>::from_address(address), (4, 5, 6), (30, 6, 1)); // (B, M, N)
        let _ = mX.at((1usize << 32, .., ..));
    });
    assert!(text.unwrap().contains("a mode has no place 4294967296"));
}

#[test]
fn a_part_that_is_one_element_for_all_indices_has_one_register() {
    use moye_device::layout::layout;
    use moye_device::tensor::fragment_layout;

    for (part, fragment) in [
        (layout!(((1, 8), 1, 2):((0, 0), 0, 0)), "((1,8),1,2):((0,0),0,0)"),
        (layout!((4, 2):(0, 0)), "(4,2):(0,0)"),
    ] {
        assert_eq!(fragment_layout(part).to_string(), fragment);
    }
}

#[test]
fn a_rank_is_the_number_of_coordinates() {
    fn rank<S: Strides>(_: S) -> usize {
        S::Rank::RANK
    }
    assert_eq!((rank(Dense([1])), rank(UnitStride::<0>(8)), rank(Dense([1; 5]))), (1, 2, 5));
    assert_eq!(rank(Aligned::<_, 16>(UnitStride::<2, _>([8, 16]))), 3);
}
