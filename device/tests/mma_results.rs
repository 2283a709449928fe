//! Products whose results are stored apart from their accumulators, on the simulator: atoms with
//! results of another type, atoms of every kind, and every rank of operands.

use crate::bytes::{bytes, of_bytes};
use half::f16;
use moye_device::algorithm::{clear, copy, transform};
use moye_device::arch::thread_idx;
use moye_device::atom::mma::*;
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_device::number::{Complex64, GaussComplex};
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

/// `D` of 32 x 16 for column-major `A` of 32 x 12, `B` of 16 x 12, and `C`, by a launch of
/// `kernel`.
fn launch<A: Element, C: Element, D: Element>(
    threads: u32,
    a: &[A],
    b: &[A],
    c: &[C],
    kernel: impl Fn(Global<A>, Global<A>, Global<C>, GlobalMut<D>) + Sync,
) -> Vec<D> {
    let memory = GlobalMemory::new();
    let upload = |bytes: &[u8]| {
        let buffer = memory.alloc(bytes.len(), "operand").unwrap();
        buffer.write(0, bytes).unwrap();
        buffer
    };
    let (a, b, c) = (upload(bytes(a)), upload(bytes(b)), upload(bytes(c)));
    let d = memory.alloc(32 * 16 * D::BYTES, "d").unwrap();
    let at = [a.address(), b.address(), c.address(), d.address()];
    Launch::new("product", 1, threads, &memory)
        .run(&|| {
            kernel(
                Global::from_address(at[0]),
                Global::from_address(at[1]),
                Global::from_address(at[2]),
                GlobalMut::from_address(at[3]),
            );
        })
        .unwrap();
    let mut result = vec![0; d.len()];
    d.read(0, &mut result).unwrap();
    result.chunks_exact(D::BYTES).map(of_bytes).collect()
}

fn a(i: usize) -> f32 {
    (i * 37 % 23) as f32 - 11.0
}

fn b(i: usize) -> f32 {
    (i * 29 % 19) as f32 - 9.0
}

/// Values at which f16 has steps of 2, so that a sum rounded to f16 would not be exact.
fn c(i: usize) -> f32 {
    2048.0 + 2.0 * (i * 31 % 400) as f32
}

fn exact(i: usize) -> f32 {
    let (m, n) = (i % 32, i / 32);
    (0..12).fold(c(i), |sum, k| sum + a(m + 32 * k) * b(n + 16 * k))
}

/// f16 operands and accumulators, f32 results: three steps along K, in 2 x 1 atoms per quad pair.
fn mixed<M: StaticTiledMma<Atom: MmaAtom<A = f16, B = f16, C = f16, D = f32>>>() {
    let halves = |f: fn(usize) -> f32, count| (0..count).map(|i| f16::from_f32(f(i))).collect::<Vec<_>>();
    let (left, right, addend) = (halves(a, 32 * 12), halves(b, 16 * 12), halves(c, 32 * 16));
    let got = launch(32, &left, &right, &addend, |a, b, c, d: GlobalMut<f32>| {
        let mma = M::get_slice(thread_idx().x);
        let g_a = Matrix::new(a, (32, 12), UnitStride::<0>(32)).local_tile::<TileA, _>((0, 0));
        let g_b = Matrix::new(b, (16, 12), UnitStride::<0>(16)).local_tile::<TileB, _>((0, 0));
        let g_c = Matrix::new(c, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        let g_d = Matrix::new(d, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        // SAFETY: fragments are written before they are read; each element of D belongs to one
        // thread.
        unsafe {
            let mut t_r_c = mma.partition_fragment_c(&g_c); // (MMA, MMA_M, MMA_N)
            let t_g_d = mma.partition_d(g_d); // (MMA, MMA_M, MMA_N)
            let mut t_r_d = mma.make_fragment_d(&t_g_d); // (MMA, MMA_M, MMA_N)
            copy(&mma.partition_c(g_c), &mut t_r_c);
            mma.gemm_into(&mut t_r_d, mma.partition_a(g_a), mma.partition_b(g_b), &t_r_c);
            copy(&t_r_d, &mut mma.partition_d(g_d));
        }
    });
    for (i, got) in got.into_iter().enumerate() {
        assert_eq!(got, exact(i), "{}: ({}, {})", M::Atom::NAME, i % 32, i / 32);
    }
}

tiled_mma! {
    MixedTn: TiledMma<SM70_8x8x4_F32F16F16F16_TN> = TiledMma::new(layout!((2, 2, 1)));
    MixedNt: TiledMma<SM70_8x8x4_F32F16F16F16_NT> = TiledMma::new(layout!((2, 2, 1)));
    MixedNn: TiledMma<SM70_8x8x4_F32F16F16F16_NN> = TiledMma::new(layout!((2, 2, 1)));
    MixedTt: TiledMma<SM70_8x8x4_F32F16F16F16_TT> = TiledMma::new(layout!((2, 2, 1)));
    Fma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((1, 1, 1)));
    Doubles: TiledMma<SM80_8x8x4_F64F64F64F64_TN> = TiledMma::new(layout!((2, 2, 1)));
    Gauss: TiledMma<SM80_8x8x4_GC64C64C64GC64_TN> = TiledMma::new(layout!((2, 2, 1)));
}

#[test]
fn results_of_another_type_than_the_sums_are_exact_over_all_steps() {
    mixed::<MixedTn>();
    mixed::<MixedNt>();
    mixed::<MixedNn>();
    mixed::<MixedTt>();
}

#[test]
fn what_the_product_is_added_to_stays_as_it_is() {
    let doubles = |f: fn(usize) -> f32, count| (0..count).map(|i| f64::from(f(i))).collect::<Vec<_>>();
    let (left, right, addend) = (doubles(a, 32 * 12), doubles(b, 16 * 12), doubles(c, 32 * 16));
    let got = launch(128, &left, &right, &addend, |a, b, c, d: GlobalMut<f64>| {
        let mma = Doubles::get_slice(thread_idx().x);
        let g_a = Matrix::new(a, (32, 12), UnitStride::<0>(32)).local_tile::<TileA, _>((0, 0));
        let g_b = Matrix::new(b, (16, 12), UnitStride::<0>(16)).local_tile::<TileB, _>((0, 0));
        let g_c = Matrix::new(c, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        let g_d = Matrix::new(d, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        // SAFETY: as above.
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
            for i in 0
                ..Fragment::<f64, moye_device::atom::FragmentOf<TileC, Doubles, moye_device::atom::OfC>>::SIZE
            {
                assert_eq!(once.get(i), t_r_c.get(i), "in place and elsewhere agree");
            }
            copy(&t_r_d, &mut mma.partition_d(g_d));
        }
    });
    for (i, got) in got.into_iter().enumerate() {
        assert_eq!(got, f64::from(exact(i)), "({}, {})", i % 32, i / 32);
    }
}

#[test]
fn sums_of_three_products_are_tiled_like_any_others() {
    let at = |i: usize| Complex64::new(f64::from(a(i)), f64::from(b(i + 3)));
    let bt = |i: usize| Complex64::new(f64::from(b(i)), f64::from(a(i + 5)));
    let (left, right): (Vec<_>, Vec<_>) = ((0..32 * 12).map(at).collect(), (0..16 * 12).map(bt).collect());
    let got = launch(128, &left, &right, &[0_u8], |a, b, _, d: GlobalMut<Complex64>| {
        let mma = Gauss::get_slice(thread_idx().x);
        let g_a = Matrix::new(a, (32, 12), UnitStride::<0>(32)).local_tile::<TileA, _>((0, 0));
        let g_b = Matrix::new(b, (16, 12), UnitStride::<0>(16)).local_tile::<TileB, _>((0, 0));
        let g_d = Matrix::new(d, (32, 16), UnitStride::<0>(32)).local_tile::<TileC, _>((0, 0));
        // SAFETY: as above.
        unsafe {
            let mut sums: Fragment<GaussComplex, _> = mma.partition_fragment_c(&g_d); // (MMA, MMA_M, MMA_N)
            clear(&mut sums);
            mma.gemm(&mut sums, mma.partition_a(g_a), mma.partition_b(g_b));
            transform(&sums, &mut mma.partition_c(g_d), Complex64::from);
        }
    });
    for (i, got) in got.into_iter().enumerate() {
        let (m, n) = (i % 32, i / 32);
        let want = (0..12).fold(Complex64::default(), |sum, k| sum + at(m + 32 * k) * bt(n + 16 * k));
        assert_eq!(got, want, "({m}, {n})");
    }
}

/// One thread's product by atoms of one value, with results apart from the accumulators and in
/// another order.
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
