//! The 8 x 8 x 4 atoms of sm_70, each of eight lanes that are not adjacent in the warp. With one or
//! two atoms, the other lanes get the same parts, as CuTe's `get_slice` counts them.

use half::f16;
use moye_device::algorithm::{clear, copy};
use moye_device::arch::lane_id;
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::*;
use moye_device::atom::{Operand, StaticTiledMma, TiledCopy, TiledMma, make_tiled_copy_c};
use moye_device::layout::{IntTuple, Layout, make_col_major};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Matrix, UnitStride};
use moye_device::{layout, static_layout, tiled_mma};
use moye_sim::{GlobalMemory, Launch};

type Sums = SM70_8x8x4_F32F16F16F32_TN;
type Halves = SM70_8x8x4_F16F16F16F16_NT;

/// A thread's coordinate in a mode, by CuTe's `get_flat_coord`: each leaf is
/// `thread / stride % extent`, and the leaves of the mode combine to one index.
fn coordinate(mode: Layout, thread: i64) -> i64 {
    let flat = mode.flatten();
    let (mut coordinate, mut step) = (0, 1);
    for leaf in 0..flat.rank() {
        let (extent, stride) = (flat.extent(leaf), flat.mode(leaf).at(1));
        if extent > 1 {
            coordinate += thread / stride % extent * step;
        }
        step *= extent;
    }
    coordinate
}

/// Every thread's part is that of CuTe's `partition_A`, `_B`, `_C`.
fn is_counted_as_in_cute<M: MmaAtom>(mma: TiledMma<M>, threads: i64) {
    assert_eq!(mma.threads(), threads, "{mma:?}");
    let vmnk = mma.thr_layout_vmnk();
    for (operand, modes) in [(Operand::A, [1, 3]), (Operand::B, [2, 3]), (Operand::C, [1, 2])] {
        let tile = mma.operand_tile(operand);
        let tensor = make_col_major(IntTuple::flat(&[2 * tile.mode(0).size(), 3 * tile.mode(1).size()]));
        let parts = mma.tiling().thrfrg(operand, tensor).unwrap().mode(0); // (V, (THR_0, THR_1))
        let by_thread = mma.tiling().by_thread(operand, tensor).unwrap().mode(0);
        assert_eq!(by_thread.size(), threads, "{mma:?}: {by_thread}");
        for thread in 0..threads {
            let [v, first, second] = [0, modes[0], modes[1]].map(|mode| coordinate(vmnk.mode(mode), thread));
            let index = v + vmnk.extent(0) * (first + vmnk.extent(modes[0]) * second);
            assert_eq!(by_thread.at(thread), parts.at(index), "thread {thread}, {operand:?} of {mma:?}");
        }
    }
}

#[test]
fn threads_between_have_what_others_have() {
    for (atoms, threads) in [
        (layout!((1, 1, 1)), 32),
        (layout!((2, 1, 1)), 32),
        (layout!((1, 2, 1)), 32),
        (layout!((1, 1, 2)), 32),
        (layout!((2, 2, 1)), 32),
        (layout!((2, 2, 1):(2, 1, 4)), 32),
        (layout!((4, 1, 1)), 32),
        (layout!((2, 4, 1)), 64),
        (layout!((2, 2, 2)), 64),
    ] {
        is_counted_as_in_cute(TiledMma::<Sums>::new(atoms), threads);
        is_counted_as_in_cute(TiledMma::<Halves>::new(atoms), threads);
    }
    // Atoms of whole warps or of single threads have no gaps between their threads.
    is_counted_as_in_cute(TiledMma::<SM80_16x8x8_F32F16F16F32_TN>::new(layout!((2, 2, 1):(2, 1, 0))), 128);
    is_counted_as_in_cute(TiledMma::<UniversalFma<f32>>::new(layout!((3, 5, 2))), 30);
}

#[test]
fn one_quad_pair_is_four_times_in_its_warp() {
    const ONE: TiledMma<Sums> = TiledMma::new(layout!((1, 1, 1)));
    assert_eq!(ONE.thr_layout_vmnk().mode(0), layout!((4, 2):(1, 16)));
    let parts = ONE.tiling().by_thread(Operand::A, layout!((8, 4))).unwrap().mode(0);
    for lane in 0..32 {
        assert_eq!(parts.at(lane), lane % 4 + lane / 16 * 4, "a row of A for lane {lane}");
    }
    // Stores of the accumulators, by all lanes: the same eight parts four times.
    const STORE: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_c(&ONE);
    assert_eq!((STORE.threads(), STORE.values()), (32, 8));
}

#[test]
fn numbers_of_quad_pairs_that_fill_no_warp_are_refused() {
    for atoms in [
        layout!((3, 1, 1)),
        layout!((1, 3, 1)),
        layout!((5, 1, 1)),
        layout!((2, 3, 1)),
        layout!((3, 2, 1)),
        layout!((7, 1, 1)),
    ] {
        let error = TiledMma::<Sums>::try_new(atoms).unwrap_err().to_string();
        let count = format!("{} of them", atoms.size());
        for part in ["(4,2):(1,16)", &count, "lanes 0 to 3 and 16 to 19", "(2,2,1)"] {
            assert!(error.contains(part), "`{part}` is missing in: {error}");
        }
        assert!(!error.contains("0, 1, 2, ..."), "the atoms are numbered as they should be: {error}");
    }
    let error = TiledMma::<Sums>::try_new(layout!((2, 1, 1):(2, 0, 0))).unwrap_err().to_string();
    assert!(error.contains("must number its 2 atoms 0, 1, 2, ..."), "{error}");
}

tiled_mma! {
    One: TiledMma<Sums> = TiledMma::new(layout!((1, 1, 1)));
    Two: TiledMma<Sums> = TiledMma::new(layout!((2, 1, 1)));
    TwoAcross: TiledMma<Sums> = TiledMma::new(layout!((1, 2, 1)));
}
static_layout! {
    TileA = layout!((16, 8));
    TileB = layout!((16, 8));
    TileC = layout!((16, 16));
}

/// `C = A B`, 16 x 16 x 8, by a warp; every lane in `stores` stores its accumulators.
fn product<M: StaticTiledMma<Atom = Sums>>(stores: impl Fn(u32) -> bool + Sync) {
    let value = |i: usize| f16::from_f32((i * 37 % 23) as f32 - 11.0);
    let (a, b): (Vec<f16>, Vec<f16>) = (0..128).map(|i| (value(i), value(i + 5))).unzip();
    let memory = GlobalMemory::new();
    let (from_a, from_b) = (memory.upload(&a, "a").unwrap(), memory.upload(&b, "b").unwrap());
    let to = memory.alloc(1024, "c").unwrap();
    let at = [from_a.address(), from_b.address(), to.address()];
    Launch::new("product", 1, 32, &memory)
        .run(&|| {
            let mma = M::get_slice(lane_id());
            let (a, b) = (Global::<f16>::from_address(at[0]), Global::<f16>::from_address(at[1]));
            let g_a = Matrix::new(a, (16, 8), UnitStride::<0>(16)).local_tile::<TileA, _>((0, 0));
            let g_b = Matrix::new(b, (16, 8), UnitStride::<0>(16)).local_tile::<TileB, _>((0, 0));
            let c = GlobalMut::<f32>::from_address(at[2]);
            let g_c = Matrix::new(c, (16, 16), UnitStride::<0>(16)).local_tile::<TileC, _>((0, 0));
            // SAFETY: the sums are cleared first; lanes that store to one element store the same.
            unsafe {
                let mut t_r_c = mma.partition_fragment_c(&g_c); // (MMA, MMA_M, MMA_N)
                clear(&mut t_r_c);
                mma.gemm(&mut t_r_c, mma.partition_a(g_a), mma.partition_b(g_b));
                if stores(lane_id()) {
                    copy(&t_r_c, &mut mma.partition_c(g_c));
                }
            }
        })
        .unwrap();
    for (i, got) in to.download::<f32>().into_iter().enumerate() {
        let (m, n) = (i % 16, i / 16);
        let want: f32 = (0..8).map(|k| a[m + 16 * k].to_f32() * b[n + 16 * k].to_f32()).sum();
        assert_eq!(got, want, "({m}, {n}) by {:?}", M::MMA);
    }
}

#[test]
fn products_of_one_and_two_quad_pairs_are_right_in_every_lane() {
    for quad_pair in 0..4 {
        product::<One>(|lane| lane / 4 % 4 == quad_pair);
    }
    for half in 0..2 {
        product::<Two>(|lane| lane / 8 % 2 == half);
        product::<TwoAcross>(|lane| lane / 8 % 2 == half);
    }
    product::<One>(|_| true);
}
