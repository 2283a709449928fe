//! Products whose destination D is not C, on the simulator: the same results in place and
//! elsewhere, for every rank of operands. Results of another type, and complex products by three
//! real ones, are in `tests/device/tiled/products.rs`.

use moye_device::algorithm::copy;
use moye_device::arch::thread_idx;
use moye_device::atom::mma::*;
use moye_device::atom::{FragmentOf, OfC, StaticTiledMma, TiledMma};
use moye_device::memory::{Global, GlobalMut};
use moye_device::tensor::{Fragment, Matrix, StaticLayout, UnitStride};
use moye_device::{layout, static_layout, tiled_mma};
use moye_sim::{GlobalMemory, Launch};

static_layout! {
    TileA = layout!((32, 12));
    TileB = layout!((16, 12));
    TileC = layout!((32, 16));
    V = layout!(1);
    M4 = layout!(4);
    N3 = layout!(3);
    M4K5 = layout!((4, 5));
    N3K5 = layout!((3, 5));
    M4N3 = layout!((4, 3));
    M4N3Across = layout!((4, 3):(3, 1));
}

fn a(i: usize) -> f32 {
    (i * 37 % 23) as f32 - 11.0
}

fn b(i: usize) -> f32 {
    (i * 29 % 19) as f32 - 9.0
}

fn c(i: usize) -> f32 {
    2048.0 + 2.0 * (i * 31 % 400) as f32
}

fn exact(i: usize) -> f32 {
    let (m, n) = (i % 32, i / 32);
    (0..12).fold(c(i), |sum, k| sum + a(m + 32 * k) * b(n + 16 * k))
}

tiled_mma! {
    Fma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((1, 1, 1)));
    Doubles: TiledMma<SM80_8x8x4_F64F64F64F64_TN> = TiledMma::new(layout!((2, 2, 1)));
}

#[test]
fn what_the_product_is_added_to_stays_as_it_is() {
    let memory = GlobalMemory::new();
    let doubles = |f: fn(usize) -> f32, count| (0..count).map(|i| f64::from(f(i))).collect::<Vec<_>>();
    let operands = [(a as fn(usize) -> f32, 32 * 12), (b, 16 * 12), (c, 32 * 16)];
    let buffers = operands.map(|(f, count)| memory.upload(&doubles(f, count), "operand").unwrap());
    let result = memory.upload(&[f64::NAN; 32 * 16], "d").unwrap();
    let ([a, b, c], d) = (buffers.each_ref().map(|buffer| buffer.address()), result.address());
    let kernel = || {
        let [a, b, c] = [a, b, c].map(Global::<f64>::from_address);
        let d = GlobalMut::<f64>::from_address(d);
        let mma = Doubles::get_slice(thread_idx().x);
        let g_a = Matrix::new(a, (32, 12), UnitStride::<0>(32)).local_tile::<TileA, _>((0, 0));
        let g_b = Matrix::new(b, (16, 12), UnitStride::<0>(16)).local_tile::<TileB, _>((0, 0));
        let g_c = Matrix::new(c, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        let g_d = Matrix::new(d, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        // SAFETY: fragments are written before they are read; each element of D belongs to one
        // thread.
        unsafe {
            let mut t_r_c = mma.partition_fragment_c(&g_c);
            let mut t_r_d = mma.partition_fragment_d(&g_d);
            copy(&mma.partition_c(g_c), &mut t_r_c);
            let (t_g_a, t_g_b) = (mma.partition_a(g_a), mma.partition_b(g_b));
            mma.gemm_into(&mut t_r_d, t_g_a, t_g_b, &t_r_c);
            // A second product onto the same accumulators: the product counts twice, the addend
            // once.
            let once = t_r_d.clone();
            mma.gemm(&mut t_r_c, t_g_a, t_g_b);
            for i in 0..Fragment::<f64, FragmentOf<TileC, Doubles, OfC>>::SIZE {
                assert_eq!(once.get(i), t_r_c.get(i), "in place and elsewhere agree");
            }
            copy(&t_r_d, &mut mma.partition_d(g_d));
        }
    };
    Launch::new("product", 1, 128, &memory).run(&kernel).unwrap();
    for (i, got) in result.download::<f64>().into_iter().enumerate() {
        assert_eq!(got, f64::from(exact(i)), "({}, {})", i % 32, i / 32);
    }
}

/// One thread's product by atoms of one value. The result D has another fragment, and another
/// order, than the addend C.
fn of_rank<A: StaticLayout, B: StaticLayout, C: StaticLayout, D: StaticLayout>(m: usize, n: usize, k: usize) {
    let fragment = |size: usize, value: &dyn Fn(usize) -> f32| -> Vec<f32> { (0..size).map(value).collect() };
    let (a, b) = (fragment(m * k, &|i| a(i)), fragment(n * k, &|i| b(i)));
    // SAFETY: every element is set before it is read.
    unsafe {
        let (mut left, mut right) = (Fragment::<f32, A>::uninit(), Fragment::<f32, B>::uninit());
        let (mut addend, mut d) = (Fragment::<f32, C>::uninit(), Fragment::<f32, D>::uninit());
        a.iter().enumerate().for_each(|(i, &value)| left.set(i, value));
        b.iter().enumerate().for_each(|(i, &value)| right.set(i, value));
        (0..m * n).for_each(|i| addend.set(i, c(i)));
        Fma::get_slice(0).gemm_into(&mut d, &left, &right, &addend);
        for (i, j) in (0..n).flat_map(|j| (0..m).map(move |i| (i, j))) {
            let want = (0..k).fold(c(i + m * j), |sum, k| sum + a[i + m * k] * b[j + n * k]);
            assert_eq!(d.get(i + m * j), want, "({i}, {j}) of {m} x {n} x {k}");
            assert_eq!(addend.get(i + m * j), c(i + m * j), "C stays");
        }
    }
}

#[test]
fn results_go_elsewhere_for_operands_of_atoms_of_one_value() {
    of_rank::<V, V, V, V>(1, 1, 1);
    of_rank::<M4, N3, M4N3, M4N3Across>(4, 3, 1);
    of_rank::<M4K5, N3K5, M4N3, M4N3Across>(4, 3, 5);
}
