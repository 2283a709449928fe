//! Unusual tilings that are either right or refused with the values. Tilings that a kernel's types
//! refuse are in `tests/fixtures/compile-errors`.

use half::f16;
use moye_device::algorithm::{copy, fill};
use moye_device::arch::{shared_base, sync_threads, thread_idx};
use moye_device::atom::copy::{DefaultCopy, SM75_U32x4_LDSM_N, UniversalCopy, values_of};
use moye_device::atom::mma::SM80_16x8x16_F32F16F16F32_TN;
use moye_device::atom::{
    End, MmaTiling, Operand, Permutation, StaticTiledCopy, TiledCopy, TiledMma, TilingError,
};
use moye_device::layout::{IntTuple, Layout, Tiler, layout, make_col_major, make_ordered_layout, tuple};
use moye_device::memory::{Shared, SharedArray, SharedStorage};
use moye_device::tensor::{Fragment, SharedTensor, StaticLayout};
use moye_device::{static_layout, tiled_copy};
use moye_sim::{GlobalMemory, Launch};
use proptest::prelude::*;

type Floats = TiledCopy<UniversalCopy<f32>, f32>;
type Half = TiledMma<SM80_16x8x16_F32F16F16F32_TN>;

#[track_caller]
fn refused<T>(result: Result<T, TilingError>, parts: &[&str]) {
    let error = match result {
        Ok(_) => panic!("it is accepted"),
        Err(error) => error.to_string(),
    };
    for part in parts {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

#[test]
fn thread_value_layouts_that_leave_elements_out_or_the_tile_are_refused() {
    let tile = || Tiler::shape(tuple!((4, 2)));
    refused(
        Floats::try_from_tv(layout!((2, 2):(1, 2)), tile()),
        &["(2,2):(1,2)", "leaves elements of the tile out", "4 of 8", "more threads or values"],
    );
    refused(
        Floats::try_from_tv(layout!((4, 2):(0, 1)), tile()),
        &["leaves elements of the tile out", "2 of 8"],
    );
    refused(Floats::try_from_tv(layout!((4, 2):(-1, 4)), tile()), &["(4,2):(-1,4)", "negative stride"]);
    refused(Floats::try_from_tv(layout!((4, 2):(1, -4)), tile()), &["negative stride"]);
    refused(Floats::try_from_tv(layout!((4, 4):(1, 4)), tile()), &["reaches 16 elements", "has 8"]);
    // Two threads may have the same elements: operands of products do.
    assert!(Floats::try_from_tv(layout!(((4, 2), 2):((1, 0), 4)), tile()).is_ok());
}

#[test]
fn tensors_that_the_tile_does_not_divide_have_no_part_in_a_kernel() {
    const COPY: Floats = TiledCopy::new(layout!((32, 8)), layout!((1, 1)));
    for (tensor, taken) in [((48, 12), 1024), ((16, 8), 256), ((64, 4), 512), ((33, 8), 512)] {
        let tensor = make_col_major(IntTuple::flat(&[tensor.0, tensor.1]));
        let parts = ["(32,8)", "does not divide", &taken.to_string(), &tensor.size().to_string()];
        refused(COPY.tiling().partition_whole(End::Source, tensor), &parts);
        // The algebra rounds up, as in CuTe.
        assert!(COPY.try_partition_s(tensor).is_ok());
    }
    // Every third row, in three parts.
    let tiler = Tiler::by_mode(&[Tiler::layout(layout!(4:3)), Tiler::shape(tuple!(2))]);
    let thirds = Floats::from_tv(layout!((4, 2):(2, 1)), tiler);
    assert!(thirds.tiling().partition_whole(End::Source, layout!((12, 4))).is_ok());
    refused(thirds.tiling().partition_whole(End::Destination, layout!((16, 4))), &["does not divide", "64"]);
    let same = Tiler::by_mode(&[Tiler::layout(layout!(4:0)), Tiler::shape(tuple!(2))]);
    let same = Floats::from_tv(layout!((4, 2):(2, 1)), same);
    refused(same.tiling().partition_whole(End::Source, layout!((4, 2))), &["does not divide"]);
}

#[test]
fn permutations_that_name_an_element_twice_or_beyond_the_tile_are_refused() {
    let of = |m: Layout| {
        Half::permuted(layout!((1, 1, 1)), [Permutation::Layout(m), Permutation::Atoms, Permutation::Atoms])
    };
    let (twice, apart) = (of(layout!((8, 2):(1, 0))), of(layout!(16:2)));
    refused(twice.try_layout_tv(Operand::A), &["A (M, K)", "does not divide", "names each element once"]);
    refused(apart.try_layout_tv(Operand::C), &["C (M, N)", "does not divide"]);
    refused(apart.tiling().by_thread(Operand::A, layout!((16, 16))), &["512 elements of 256"]);
    // The even ones of 32 rows come first.
    assert!(apart.tiling().by_thread(Operand::A, layout!((32, 16))).is_ok());
    refused(of(layout!(16:-1)).try_layout_tv(Operand::A), &["-1"]);
    refused(
        Half::new(layout!((2, 2, 1))).tiling().by_thread(Operand::C, layout!((48, 32))),
        &["(32,16)", "C (M, N)", "(48,32)", "does not divide"],
    );
}

#[test]
fn elements_wider_than_what_an_atom_moves_are_refused_with_what_would_do() {
    let narrow = TiledCopy::<UniversalCopy<u16>, f32>::try_new(layout!((32, 1)), layout!((1, 1)));
    refused(narrow, &["moves 16 bits", "elements of 32 bits", "an atom that moves 32"]);
    let torn =
        TiledCopy::<UniversalCopy<u32>, moye_device::number::Complex64>::try_new(layout!(32), layout!(1));
    refused(torn, &["moves 32 bits", "elements of 128 bits"]);
    // CuTe counts half an element as one; the atom alone does, too.
    assert_eq!(values_of::<UniversalCopy<u16>, f32>().num_val_src(), 1);
    refused(
        TiledCopy::<SM75_U32x4_LDSM_N, f64>::try_new(layout!((32, 1)), layout!((1, 4))),
        &["64 bits", "at most 32 bits"],
    );
}

/// Compact layouts: extents with their modes in some order.
fn compact(most: i64) -> impl Strategy<Value = Layout> {
    let extents = prop::collection::vec(1..=most, 1..=3);
    extents.prop_flat_map(|extents| {
        let order = Just((0..extents.len() as i64).collect::<Vec<_>>()).prop_shuffle();
        (Just(extents), order).prop_map(|(extents, order)| {
            make_ordered_layout(IntTuple::flat(&extents), IntTuple::flat(&order))
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Threads and values of any count and order, over any multiple of their tile in either memory
    /// order: each element of the tensor is one value of one thread, on both sides, and a thread's
    /// block is what the layouts say.
    #[test]
    fn every_element_has_one_thread_and_value(
        threads in compact(5), values in compact(4), times in prop::collection::vec(1..=3_i64, 3), across in any::<bool>(),
    ) {
        let copy = Floats::try_new(threads, values).unwrap();
        let rank = copy.tile().rank();
        let extents: Vec<i64> = (0..rank).map(|mode| copy.tile().mode(mode).size() * times[mode]).collect();
        let order: Vec<i64> = (0..rank as i64).map(|mode| if across { rank as i64 - mode } else { mode }).collect();
        let tensor = make_ordered_layout(IntTuple::flat(&extents), IntTuple::flat(&order));
        for end in [End::Source, End::Destination] {
            prop_assert!(copy.tiling().partition_whole(end, tensor).is_ok(), "{copy:?} of {tensor}");
            let parts = copy.tiling().tidfrg(end, tensor).unwrap();
            let mut held = vec![0; tensor.size() as usize];
            for index in 0..parts.size() {
                held[parts.at(index) as usize] += 1;
            }
            prop_assert!(held.iter().all(|&times| times == 1), "{copy:?} of {tensor}: {held:?}");
        }
    }

    /// The same for products: any number of atoms, in any order, over tiles of any multiple. Each
    /// element of A, B and C belongs to as many threads as there are atoms along the mode that it
    /// lacks.
    #[test]
    fn every_element_of_an_operand_has_its_threads(
        atoms in prop::collection::vec(1..=3_i64, 3), order in Just(vec![0_i64, 1, 2]).prop_shuffle(),
        times in prop::collection::vec(1..=2_i64, 3), interleaved in any::<bool>(),
    ) {
        let layout = make_ordered_layout(IntTuple::flat(&atoms), IntTuple::flat(&order));
        let [m, n, k] = [16 * atoms[0], 8 * atoms[1], 16 * atoms[2]];
        // The rows of each atom in the order 0, 2, 4, ..., 1, 3, 5, ...
        let rows = if interleaved {
            Permutation::Layout(Layout::concat(&[layout!((8, 2):(2, 1)), Layout::new(IntTuple::int(atoms[0]), IntTuple::int(16))]))
        } else {
            Permutation::Atoms
        };
        let mma = Half::try_permuted(layout, [rows, Permutation::Tile(n * times[1]), Permutation::Atoms]).unwrap();
        for (operand, extents, without) in [
            (Operand::A, [m * times[0], k * times[2]], atoms[1]),
            (Operand::B, [n * times[1], k], atoms[0]),
            (Operand::C, [m * times[0], n * times[1]], atoms[2]),
        ] {
            let tensor = make_col_major(IntTuple::flat(&extents));
            let parts = mma.tiling().by_thread(operand, tensor).unwrap();
            let mut held = vec![0; tensor.size() as usize];
            for index in 0..parts.size() {
                held[parts.at(index) as usize] += 1;
            }
            prop_assert!(held.iter().all(|&times| times == without), "{mma:?}, {operand:?} of {tensor}: {held:?}");
        }
    }
}

/// Runs `kernel` as a block of `threads` with `bytes` of shared memory.
fn launch(threads: i64, bytes: usize, kernel: impl Fn(u32) + Sync) {
    let memory = GlobalMemory::new();
    Launch::new("edges", 1, threads as u32, &memory)
        .shared_bytes(bytes)
        .run(&|| kernel(thread_idx().x))
        .unwrap();
}

static_layout! {
    Row = layout!(60);
    Cube = layout!((6, 8, 6));
    CubePadded = layout!((6, 8, 6):(1, 7, 61));
}
tiled_copy! {
    /// Five threads of three values, four times along a row.
    OfRow: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!(5), layout!(3));
    RowByWidest: TiledCopy<DefaultCopy, f32> = TiledCopy::new(layout!(5), layout!(3));
    /// 3 x 2 x 3 threads of 2 x 2 x 1 values, the last mode fastest.
    OfCube: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((3, 2, 3):(6, 3, 1)), layout!((2, 2, 1):(2, 1, 1)));
}

/// Copies from one array of shared memory to another by `C`; each element of the tile arrives.
fn arrives<C: StaticTiledCopy<Element = f32>, S: StaticLayout, D: StaticLayout>()
where
    Shared<f32>: moye_device::algorithm::ReadBy<<C as StaticTiledCopy>::Atom>
        + moye_device::algorithm::WrittenBy<<C as StaticTiledCopy>::Atom>,
{
    let value = |i: usize| i as f32 * 0.5 - 3.0;
    launch(C::COPY.threads(), <(SharedArray<f32, S>, SharedArray<f32, D>)>::BYTES, |thread| {
        // SAFETY: the launch has the shared memory; what one thread writes others read after a
        // barrier.
        unsafe {
            let (mut source, destination) = <(SharedArray<f32, S>, SharedArray<f32, D>)>::take();
            let size = S::LAYOUT.size() as usize;
            if thread == 0 {
                (0..size).for_each(|i| source.set(i, value(i)));
            }
            sync_threads();
            let slice = C::get_slice(thread);
            slice.copy(slice.partition_s(source), slice.partition_d(destination));
            sync_threads();
            (0..size).for_each(|i| assert_eq!(destination.get(i), value(i), "element {i} of {}", D::LAYOUT));
        }
    });
}

#[test]
fn tiled_copies_of_one_mode_and_of_three_arrive() {
    arrives::<OfRow, Row, Row>();
    arrives::<RowByWidest, Row, Row>();
    arrives::<OfCube, Cube, CubePadded>();
    arrives::<OfCube, CubePadded, Cube>();
}

static_layout! {
    Board = layout!((8, 12));
    /// (CPY, CPY_M, CPY_N) of a predicate that depends on the column only.
    ByColumn = layout!((1, 2, 3):(0, 0, 1));
}
tiled_copy! {
    OfBoard: TiledCopy<UniversalCopy<f16>, f16> = TiledCopy::new(layout!((4, 4)), layout!((1, 1)));
}

#[test]
fn predicates_may_be_a_tensor_that_is_broadcast() {
    const MARKER: f16 = f16::NEG_ONE;
    launch(16, <(SharedArray<f16, Board>, SharedArray<f16, Board>)>::BYTES, |thread| {
        // SAFETY: the launch has the shared memory; a barrier orders writes and reads.
        unsafe {
            let (mut source, mut destination) = <(SharedArray<f16, Board>, SharedArray<f16, Board>)>::take();
            if thread == 0 {
                (0..96).for_each(|i| source.set(i, f16::from_f32(i as f32)));
                fill(&mut destination, MARKER);
            }
            sync_threads();
            let slice = OfBoard::get_slice(thread);
            let (t_s, t_d) = (slice.partition_s(source), slice.partition_d(destination)); // (CPY, CPY_M, CPY_N)
            // Columns 4 j + n, where n is the thread's own: columns below 7 are copied.
            let mut predicates = Fragment::<u8, ByColumn>::filled(0);
            for j in 0..3 {
                predicates.set(2 * j, u8::from(4 * j + thread as usize / 4 < 7));
            }
            slice.copy_if(|i| predicates.get(i) != 0, t_s, t_d);
            sync_threads();
            for i in 0..96 {
                let want = if i / 8 < 7 { f16::from_f32(i as f32) } else { MARKER };
                assert_eq!(destination.get(i), want, "({}, {})", i % 8, i / 8);
            }
        }
    });
}

static_layout! {
    Straight = layout!((4, 6));
    Across = layout!((4, 6):(6, 1));
    Backwards = layout!((4, 6):(-1, 4));
    AllBackwards = layout!((4, 6):(-1, -4));
    Broadcast = layout!((4, 6):(1, 0));
    OneForAll = layout!((4, 6):(0, 0));
    Overlapping = layout!((4, 6):(1, 1));
    OverlappingByTwo = layout!((4, 6):(1, 2));
    ByFour = layout!(((2, 2), 6):((1, 8), 2));
    Odd = layout!((4, 6):(1, 5));
    Strided = layout!((4, 6):(2, 8));
}

/// A copy by the widest accesses has the same result as a copy element by element, in the order of
/// the indices.
fn like_element_by_element<S: StaticLayout, D: StaticLayout>() {
    // Room on both sides of the first element, for strides of either sign.
    const ROOM: i64 = 64;
    let run = |by_element: bool| {
        let results = std::sync::Mutex::new(Vec::new());
        launch(1, 4 * 2 * 2 * ROOM as usize, |_| {
            // SAFETY: the launch has the shared memory, and all of it is written first.
            unsafe {
                let word = |i: i64| Shared::<f32>::from_address(shared_base()).offset(i as i32);
                (0..4 * ROOM).for_each(|i| word(i).write(0, i as f32));
                let source = SharedTensor::<f32, S>::shared(word(ROOM));
                let mut destination = SharedTensor::<f32, D>::shared(word(3 * ROOM));
                if by_element {
                    (0..24).for_each(|i| destination.set(i, source.get(i)));
                } else {
                    copy(&source, &mut destination);
                }
                results.lock().unwrap().extend((0..4 * ROOM).map(|i| word(i).read(0)));
            }
        });
        results.into_inner().unwrap()
    };
    assert_eq!(run(false), run(true), "{} to {}", S::LAYOUT, D::LAYOUT);
}

#[test]
fn copies_over_odd_strides_are_those_of_their_elements() {
    macro_rules! all {
        ($($source:ident)+) => { $(all!(@ $source);)+ };
        (@ $source:ident) => {
            like_element_by_element::<$source, Straight>();
            like_element_by_element::<$source, Across>();
            like_element_by_element::<$source, Backwards>();
            like_element_by_element::<$source, AllBackwards>();
            like_element_by_element::<$source, Broadcast>();
            like_element_by_element::<$source, OneForAll>();
            like_element_by_element::<$source, Overlapping>();
            like_element_by_element::<$source, OverlappingByTwo>();
            like_element_by_element::<$source, ByFour>();
            like_element_by_element::<$source, Odd>();
            like_element_by_element::<$source, Strided>();
        };
    }
    all!(Straight Across Backwards AllBackwards Broadcast OneForAll Overlapping OverlappingByTwo ByFour Odd Strided);
}

#[test]
fn tiles_of_no_extent_and_those_beyond_64_bits_are_refused_with_the_numbers() {
    const HALF: i64 = 1 << 62;
    for (tile, along) in
        [([0, 16, 16], "0 along M"), ([64, -32, 16], "-32 along N"), ([64, 32, i64::MIN], "along K")]
    {
        refused(
            Half::try_tiled(layout!((2, 2, 1)), tile),
            &["the tile has the extent ", along, "multiple of the atom's "],
        );
    }
    let many = Layout::new(IntTuple::flat(&[1, 1, HALF]), IntTuple::flat(&[0, 0, 1]));
    refused(
        Half::try_new(many),
        &["the atom has the extent 16 along K, and 4611686018427387904 of them", "take fewer"],
    );
    // Each extent alone is valid, their product is not.
    let tall = Half::try_tiled(layout!((2, 2, 1)), [HALF, 16, 16]).unwrap();
    refused(tall.try_layout_tv(Operand::C), &["does not fit in 64 bits"]);
    refused(tall.try_layout_tv(Operand::A), &["does not fit in 64 bits"]);
    // The next multiple would exceed 64 bits; the last that fits is advised.
    refused(Half::try_tiled(layout!((2, 2, 1)), [i64::MAX, 16, 16]), &["take 9223372036854775776"]);
    // 17 integers along M and 17 along N are more than a tiler can hold; that must not panic.
    let scattered = |extent| {
        Permutation::Layout(make_col_major(IntTuple::flat(&[[1; 16].as_slice(), &[extent]].concat())))
    };
    let both =
        Half::try_permuted(layout!((1, 1, 1)), [scattered(16), scattered(8), Permutation::Atoms]).unwrap();
    refused(both.try_layout_tv(Operand::C), &["more than 32 integers"]);
    let flat = [layout!(128), layout!((32, 4)), layout!((32, 4)), layout!((32, 4))];
    let mma = MmaTiling::new([16, 8, 16], layout!(32), flat, layout!((1, 1, 1)), [Permutation::Atoms; 3]);
    refused(mma.map(|_| ()), &["a thread-value layout has two modes", "128:1 has 1"]);
    let shapes = [[0, 8, 16], [16, 8, -1]];
    for shape in shapes {
        let mma = MmaTiling::new(
            shape,
            layout!(32),
            [layout!((32, 4)); 4],
            layout!((1, 1, 1)),
            [Permutation::Atoms; 3],
        );
        refused(mma.map(|_| ()), &["the atom has the extent ", "at least 1"]);
    }
}

#[test]
fn a_mode_that_a_product_does_not_have_is_named() {
    const MMA: Half = Half::new(layout!((2, 2, 1)));
    assert_eq!((0..3).map(|mode| MMA.tile_size(mode)).collect::<Vec<_>>(), [32, 16, 16]);
    assert_eq!((MMA.try_tile_size(1), MMA.tiling().try_atoms_along(1)), (Ok(16), Ok(2)));
    let error = MMA.try_tile_size(3).unwrap_err();
    assert_eq!(
        error.text(),
        "TiledMma: there is no mode 3; the modes of a product are M, N and K: 0, 1 and 2"
    );
    let panic = std::panic::catch_unwind(|| MMA.tile_size(3)).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some(error.text()));
    assert!(MMA.tiling().try_atoms_along(7).unwrap_err().text().contains("no mode 7"));
    refused(Half::try_tiled(layout!((2, 2, 1)), [48, 16, 16]), &["48", "take 64"]);
    assert_eq!(Half::try_tiled(layout!((2, 2, 1)), [64, 16, 16]).map(|mma| mma.tile_size(0)), Ok(64));
}
