//! Fragments by rows and columns: the same code for atoms of a warp and of a warpgroup, by the
//! layouts of their coordinates.

use core::ops::Add;
use half::{bf16, f16};
use moye_device::algorithm::{block_reduce, block_scan, copy, warp_scan_exclusive, warpgroup_reduce};
use moye_device::arch::{lane_id, thread_idx, wgmma::fragments};
use moye_device::atom::copy::AutoVectorizingCopy;
use moye_device::atom::mma::{SM80_8x8x4_F64F64F64F64_TN, SM80_16x8x16_F32F16F16F32_TN, UniversalFma};
use moye_device::atom::{
    AccumulatorOf, OfA, PartitionMma, StaticTiledCopy, StaticTiledMma, ThreadMma, TiledCopy, TiledMma,
};
use moye_device::layout::{Layout, composition, identity_layout, make_col_major, tuple};
use moye_device::memory::{Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::tensor::{
    AcrossLanes, Aligned, ByRow, Fragment, FragmentLike, IdentityOf, Matrix, OfTile, Reduced, Reordered,
    StaticLayout, UnitStride,
};
use moye_device::{layout, static_layout, tiled_copy, tiled_mma};
use moye_sim::{GlobalMemory, Launch};

static_layout! {
    Square = layout!((64, 64));
    Wide = layout!((32, 48));
    Rows = layout!((4, 256));
    Warps = layout!(4);
    Two = layout!((2, 3));
}
tiled_mma! {
    FourAlongM: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::new(layout!((4, 1, 1)));
    TwoByTwo: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 16, 16]);
    Doubles: TiledMma<SM80_8x8x4_F64F64F64F64_TN> = TiledMma::new(layout!((2, 1, 1)));
    Threads: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((8, 4)));
}
tiled_copy! {
    ByRows: TiledCopy<AutoVectorizingCopy, f32> = TiledCopy::new(layout!((4, 32):(32, 1)), layout!((1, 4)));
}

/// The accumulators of a warpgroup's 64 x N, in the layout of the `wgmma` atom.
#[derive(Clone, Copy)]
struct Wgmma<const N: i64>;
#[derive(Clone, Copy)]
struct WgmmaElements<const N: i64>;
#[derive(Clone, Copy)]
struct WgmmaThreads<const N: i64>;
#[derive(Clone, Copy)]
struct WgmmaTile<const N: i64>;

impl<const N: i64> StaticLayout for WgmmaTile<N> {
    const LAYOUT: Layout = layout!((64, N));
}
impl<const N: i64> StaticLayout for WgmmaElements<N> {
    const LAYOUT: Layout = composition(identity_layout(tuple!((64, N))), fragments::accumulators(N).mode(1));
}
impl<const N: i64> StaticLayout for WgmmaThreads<N> {
    const LAYOUT: Layout = composition(identity_layout(tuple!((64, N))), fragments::accumulators(N).mode(0));
}
impl<const N: i64> StaticLayout for Wgmma<N> {
    const LAYOUT: Layout = make_col_major(fragments::accumulators(N).mode(1).shape());
}
impl<const N: i64> OfTile for Wgmma<N> {
    type Tile = WgmmaTile<N>;
    type Elements = WgmmaElements<N>;
    type Threads = WgmmaThreads<N>;
}

/// `(row, column)` of a fragment follows the elements' rows and columns, and contains each element
/// once.
fn rows_are_rows<L: OfTile>() {
    let (by_row, coordinates) = (ByRow::<L>::LAYOUT, L::Elements::LAYOUT);
    let (rows, columns) = (by_row.extent(0), by_row.extent(1));
    assert_eq!(rows * columns, L::LAYOUT.size(), "{by_row}");
    // Register to index.
    let index = |register: i64| (0..L::LAYOUT.size()).find(|&i| L::LAYOUT.at(i) == register).unwrap();
    let at = |row: i64, column: i64| {
        let index = index(by_row.at(row + column * rows));
        (coordinates.along(0).at(index), coordinates.along(1).at(index))
    };
    let mut seen = std::collections::BTreeSet::new();
    for (row, column) in (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))) {
        assert_eq!(at(row, column), (at(row, 0).0, at(0, column).1), "({row}, {column}) of {by_row}");
        assert!(seen.insert(at(row, column)), "({row}, {column}) of {by_row} is there twice");
    }
    // Threads that share a row differ only in the bits of `LANES`; others differ elsewhere.
    let threads = L::Threads::LAYOUT;
    let lanes = i64::from(<Reduced<ByRow<L>, 1> as AcrossLanes>::LANES);
    for thread in 0..threads.size() {
        for other in 0..threads.size() {
            let shares = threads.along(0).at(thread) == threads.along(0).at(other);
            assert_eq!(shares, (thread ^ other) & !lanes == 0, "threads {thread} and {other} of {threads}");
        }
    }
}

#[test]
fn rows_and_columns_of_accumulators_are_those_of_the_tile_for_every_kind_of_atom() {
    rows_are_rows::<AccumulatorOf<Square, FourAlongM>>();
    rows_are_rows::<AccumulatorOf<Wide, Doubles>>();
    rows_are_rows::<AccumulatorOf<Square, Threads>>();
    rows_are_rows::<Wgmma<8>>();
    rows_are_rows::<Wgmma<64>>();
    rows_are_rows::<Wgmma<256>>();
    rows_are_rows::<FragmentLike<moye_device::atom::PartitionS<Rows, ByRows>>>();
    assert_eq!(ByRow::<Wgmma<64>>::LAYOUT, layout!((2, (2, 8)):(2, (1, 4))));
}

/// The registers hold the elements that the operand expects.
fn is_the_operand<L: OfTile, E: StaticLayout>() {
    let (registers, wanted, given) = (Reordered::<L, E>::LAYOUT, E::LAYOUT, L::Elements::LAYOUT);
    for i in 0..registers.size() {
        let index = (0..L::LAYOUT.size()).find(|&j| L::LAYOUT.at(j) == registers.at(i)).unwrap();
        let of = |layout: Layout, i: i64| (layout.along(0).at(i), layout.along(1).at(i));
        assert_eq!(of(given, index), of(wanted, i), "element {i} of {registers}");
    }
}

#[test]
fn accumulators_are_the_operand_a_of_the_next_product_register_by_register() {
    type Wanted<L, M> = PartitionMma<IdentityOf<L>, M, OfA>;
    is_the_operand::<AccumulatorOf<Square, FourAlongM>, Wanted<Square, FourAlongM>>();
    // (MMA, MMA_M, MMA_K)
    type P = Reordered<AccumulatorOf<Square, FourAlongM>, Wanted<Square, FourAlongM>>;
    assert_eq!(P::LAYOUT, layout!(((2, 2, 2), 1, 4):((1, 2, 4), 0, 8)));
    // A warpgroup's accumulators in steps of 16 columns, as the instruction takes A from registers.
    #[derive(Clone, Copy)]
    struct InRegisters;
    impl StaticLayout for InRegisters {
        const LAYOUT: Layout = composition(
            identity_layout(tuple!((64, 64))),
            Layout::concat(&[fragments::SM90_64x16.mode(1), layout!(4:1024)]),
        );
    }
    is_the_operand::<Wgmma<64>, InRegisters>();
    assert_eq!(ThreadMma::<IdentityOf<Square>, FourAlongM, OfA>::LAYOUT.size(), 128);
}

/// One warp per 16 rows: each thread's coordinates are the elements that it writes.
#[test]
fn coordinates_of_an_accumulator_name_the_elements_that_the_partition_writes() {
    let memory = GlobalMemory::new();
    let c = memory.alloc(64 * 64 * 4, "c").unwrap();
    let address = c.address();
    Launch::new("coordinates", 1, 128, &memory)
        .run(&|| {
            let mma = TwoByTwo::get_slice(thread_idx().x);
            let g_c = Matrix::new(GlobalMut::<f32>::from_address(address), (64, 64), UnitStride::<0>(64));
            let mut part = mma.partition_c(g_c.local_tile::<Square, _>((0, 0))); // (MMA, MMA_M, MMA_N)
            let mut sums = mma.accumulator::<Square>(); // (MMA, MMA_M, MMA_N)
            let at = mma.coordinates(&sums, (1000, 0));
            sums.apply_at(&at, |_, (row, column)| ((row - 1000) + 64 * column) as f32);
            // SAFETY: each element belongs to one thread.
            unsafe { copy(&sums, &mut part) };
        })
        .unwrap();
    assert_eq!(c.download::<f32>(), (0..64 * 64).map(|i| i as f32).collect::<Vec<_>>());
}

#[test]
fn a_row_is_reduced_across_the_lanes_that_have_parts_of_it() {
    let memory = GlobalMemory::new();
    let value = |row: usize, column: usize| ((row * 53 + column * 29) % 251) as f32 - 100.0;
    let values: Vec<f32> = (0..4 * 256).map(|i| value(i / 256, i % 256)).collect();
    let x = memory.upload(&values, "x").unwrap();
    let address = x.address();
    Launch::new("rows", 1, 128, &memory)
        .run(&|| {
            let strides = Aligned::<_, 16>(UnitStride::<1>(256));
            let tile = Matrix::new(Global::<f32>::from_address(address), (4, 256), strides)
                .local_tile::<Rows, _>((0, 0));
            let part = ByRows::get_slice(thread_idx().x).partition_s(tile); // (CPY, CPY_M, CPY_N)
            let mut values = part.fragment();
            // SAFETY: no thread writes.
            unsafe { copy(&part, &mut values) };
            let max = values.by_row().reduce::<1>(f32::max).across_lanes(f32::max);
            let sum = values.by_row().reduce::<1>(f32::add).across_lanes(f32::add);
            let row = thread_idx().x as usize / 32;
            let all = || (0..256).map(move |column| value(row, column));
            assert_eq!(max[0], all().fold(f32::MIN, f32::max));
            assert_eq!(sum[0], all().sum::<f32>(), "small integers are added exactly");
            // A running value continues from the previous one.
            let twice = values.by_row().fold::<1, _, _>(&max, |a, b| a.max(b + 1000.0));
            assert!(twice[0] > max[0]);
        })
        .unwrap();
}

#[test]
fn elements_have_indices_and_coordinates_and_maps_go_by_both() {
    let mut values = Fragment::<f32, Two>::zeros();
    values[(1, 2)] = 5.0;
    assert_eq!((values[5], values[(1, 2)], values[4]), (5.0, 5.0, 0.0));
    values.apply(|x| x + 1.0);
    let doubled = values.view().map(|x| (2.0 * x) as i32);
    assert_eq!((doubled[5], doubled[0]), (12, 2));
    let weights = Fragment::<f32, Warps>::filled(3.0);
    let rows = values.view().reduce::<1>(f32::add);
    assert_eq!((rows[0], rows[1]), (3.0, 8.0));
    values.apply_along::<0, _, _>(&rows, |x, row| x / row);
    assert_eq!(values[(1, 2)], 6.0 / 8.0);
    values.apply_with(&doubled.view(), |x, by: i32| x * by as f32);
    assert_eq!(values[(1, 2)], 9.0);
    assert_eq!(weights[3], 3.0);
    values.at_mut((.., 1))[0] = -1.0;
    assert_eq!(values[(0, 1)], -1.0);
    assert_eq!(values.at((0, ..)).layout(), layout!((3):(2)));
    let halves = values.view().convert::<f16>();
    assert_eq!(halves[5], f16::from_f32(9.0));
    assert_eq!(values.view().convert::<bf16>()[2], bf16::from_f32(-1.0));
}

#[test]
fn blocks_reduce_and_scan_through_an_element_for_each_warp() {
    type Storage = SharedArray<u32, Warps>;
    let memory = GlobalMemory::new();
    Launch::new("block", 1, 128, &memory)
        .shared_bytes(Storage::BYTES)
        .run(&|| {
            let thread = thread_idx().x;
            // SAFETY: the launch has the array, which is used for one reduction after the other.
            unsafe {
                let scratch = Storage::take();
                assert_eq!(block_reduce(thread, scratch, |a, b| a + b), 127 * 64);
                assert_eq!(block_reduce(thread ^ 5, scratch, u32::max), 127);
                assert_eq!(block_scan(thread, scratch, |a, b| a + b), thread * (thread + 1) / 2);
            }
            let lane = lane_id();
            assert_eq!(warp_scan_exclusive(lane + 1, 0, |a, b| a + b), lane * (lane + 1) / 2);
        })
        .unwrap();
    let fault = Launch::new("block", 1, 64, &memory)
        .shared_bytes(Storage::BYTES)
        // SAFETY: the launch has the array.
        .run(&|| unsafe {
            block_reduce(0u32, Storage::take(), |a, b| a + b);
        })
        .unwrap_err()
        .to_string();
    assert!(fault.contains("a block of 2 warps reduces through an array of 4:1"), "{fault}");
}

moye_device::named_barriers! {
    enum Barrier {
        First = 128,
        Second = 128,
    }
}

#[test]
fn warpgroups_reduce_by_barriers_of_their_own() {
    type Storage = (SharedArray<f32, Warps>, SharedArray<f32, Warps>);
    let memory = GlobalMemory::new();
    Launch::new("warpgroups", 1, 256, &memory)
        .shared_bytes(Storage::BYTES)
        .run(&|| {
            let thread = thread_idx().x;
            // SAFETY: the launch has the arrays, one for each warpgroup; whole warps reach the
            // barriers.
            let sum = unsafe {
                let (first, second) = Storage::take();
                if thread < 128 {
                    warpgroup_reduce(thread as f32, first, || Barrier::First.sync(), f32::add)
                } else {
                    warpgroup_reduce(thread as f32, second, || Barrier::Second.sync(), f32::add)
                }
            };
            assert_eq!(sum, if thread < 128 { 127.0 * 64.0 } else { 128.0 * 128.0 + 127.0 * 64.0 });
            let mut values = Fragment::<f32, Two>::filled(thread as f32);
            values[1] = 127.0 - thread as f32;
            // SAFETY: one array for each warpgroup; whole warps reach the barriers.
            let max = unsafe {
                let (first, second) = Storage::take();
                if thread < 128 {
                    values.across_warpgroup(first, || Barrier::First.sync(), f32::max)
                } else {
                    values.across_warpgroup(second, || Barrier::Second.sync(), f32::max)
                }
            };
            let (first, last) = (thread / 128 * 128, thread / 128 * 128 + 127);
            assert_eq!([max[0], max[1]], [last as f32, 127.0 - first as f32]);
        })
        .unwrap();
}
