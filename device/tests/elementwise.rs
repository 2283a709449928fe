//! Elementwise functions and products of every rank on the simulator, against plain Rust.

use crate::bytes::{bytes, of_bytes};
use half::{bf16, f16};
use moye_device::algorithm::{axpby, clear, copy, fill, transform};
use moye_device::arch::{f16_to_f32, sync_threads, thread_idx};
use moye_device::atom::mma::{SM80_8x8x4_C64C64C64C64_TN, SM80_16x8x8_F32F16F16F32_TN, UniversalFma};
use moye_device::atom::{StaticTiledMma, TiledMma};
use moye_device::memory::{Element, Global, GlobalMut, SharedArray, SharedStorage};
use moye_device::number::{Complex64, F8E4M3, Tf32};
use moye_device::tensor::{Dense, Fragment, FragmentLike, Matrix, StaticLayout, UnitStride};
use moye_device::{layout, static_layout, tiled_mma};
use moye_sim::{GlobalMemory, Launch};

static_layout! {
    Tile = layout!((8, 6));
    Padded = layout!((8, 6):(1, 9));
    Threads = layout!((4, 2));
}

/// The elements of the last of three buffers of 48 elements after `kernel`, given the first two.
fn run<T: Element + PartialEq>(
    x: &[T; 48],
    y: &[T; 48],
    kernel: impl Fn(Global<T>, GlobalMut<T>) + Sync,
) -> Vec<T> {
    let memory = GlobalMemory::new();
    let (a, b) = (memory.upload(bytes(x), "x").unwrap(), memory.upload(bytes(y), "y").unwrap());
    let (from, to) = (a.address(), b.address());
    Launch::new("elementwise", 1, 8, &memory)
        .shared_bytes(SharedArray::<T, Padded>::BYTES)
        .run(&|| kernel(Global::from_address(from), GlobalMut::from_address(to)))
        .unwrap();
    b.download::<u8>().chunks_exact(T::BYTES).map(of_bytes).collect()
}

fn numbers() -> ([f32; 48], [f32; 48]) {
    (core::array::from_fn(|i| i as f32 - 20.5), core::array::from_fn(|i| 3.0 * i as f32 + 0.25))
}

#[test]
fn axpby_scales_and_adds() {
    let (x, y) = numbers();
    let got = run(&x, &y, |x, y| {
        let thread = thread_idx().x;
        let x = Matrix::new(x, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        let y = Matrix::new(y, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        // SAFETY: each element belongs to one thread.
        unsafe {
            axpby(2.0, &x.local_partition::<Threads>(thread), -0.5, &mut y.local_partition::<Threads>(thread))
        };
    });
    let want: Vec<f32> = (0..48).map(|i| 2.0 * x[i] - 0.5 * y[i]).collect();
    assert_eq!(got, want);
}

#[test]
fn axpby_with_a_beta_of_zero_does_not_read_y() {
    let (x, _) = numbers();
    let got = run(&x, &[f32::NAN; 48], |x, y| {
        let thread = thread_idx().x;
        let x = Matrix::new(x, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        let y = Matrix::new(y, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        // SAFETY: each element belongs to one thread.
        unsafe {
            axpby(3.0, &x.local_partition::<Threads>(thread), 0.0, &mut y.local_partition::<Threads>(thread))
        };
    });
    assert_eq!(got, x.map(|x| 3.0 * x));
}

#[test]
fn transform_fill_and_clear_go_by_the_layout_and_not_by_the_memory() {
    let (x, y) = numbers();
    let got = run(&x, &y, |x, y| {
        let thread = thread_idx().x;
        let x = Matrix::new(x, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        let y = Matrix::new(y, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        let (x, mut y) = (x.local_partition::<Threads>(thread), y.local_partition::<Threads>(thread));
        // SAFETY: each element belongs to one thread, in memory and in the padded tile, whose
        // padding stays poisoned.
        unsafe {
            let mut smem = SharedArray::<f32, Padded>::take().local_partition::<Threads>(thread);
            fill(&mut smem, 7.0);
            transform(&smem, &mut y, |v| v + 1.0);
            clear(&mut smem);
            transform(&x, &mut smem, |v| v * v);
            sync_threads();
            let mut doubled = smem.make_fragment_like();
            transform(&smem, &mut doubled, |v| v * 2.0);
            copy(&doubled, &mut y);
        }
    });
    assert_eq!(got, x.map(|x| 2.0 * x * x));
}

#[test]
fn transform_rounds_results_to_the_type_of_the_output_one_by_one_or_in_pairs() {
    static_layout! { Odd = layout!((3, 5)); }
    let mut values = Fragment::<f32, Odd>::zeros();
    for i in 0..15 {
        values[i] = (i as f32 - 7.0) * 1.000_37 + 1e-5;
    }
    let (mut f16s, mut bf16s) = (Fragment::<f16, Odd>::zeros(), Fragment::<bf16, Odd>::zeros());
    let (mut same, mut back) = (Fragment::<f32, Odd>::zeros(), Fragment::<f32, Odd>::zeros());
    let mut calls = Vec::new();
    // SAFETY: the fragments are this thread's.
    unsafe {
        transform(&values, &mut f16s, |x| 3.0 * x);
        transform(&values, &mut bf16s, |x| {
            calls.push(x);
            x
        });
        transform(&values, &mut same, |x| 3.0 * x);
        transform(&f16s, &mut back, |x| x);
    }
    for i in 0..15 {
        let x = values[i];
        assert_eq!(f16s[i].to_bits(), f16::from_f32(3.0 * x).to_bits(), "{x}");
        assert_eq!(bf16s[i].to_bits(), bf16::from_f32(x).to_bits(), "{x}");
        assert_eq!((same[i], back[i]), (3.0 * x, f16s[i].to_f32()), "{x}");
        assert_eq!(calls[i], x, "elements are transformed in their order, once");
    }
    assert_eq!(calls.len(), 15);
}

/// Clears elements that were all `value`.
fn cleared<T: Element + PartialEq + std::fmt::Debug>(value: T, zero: T) {
    assert_ne!(value, zero);
    let got = run(&[value; 48], &[value; 48], |_, y| {
        let y = Matrix::new(y, (8, 6), Dense([1, 8])).local_tile::<Tile, _>((0, 0));
        // SAFETY: each element belongs to one thread.
        unsafe { clear(&mut y.local_partition::<Threads>(thread_idx().x)) };
    });
    assert_eq!(got, [zero; 48], "{}", T::NAME);
}

#[test]
fn clear_sets_every_element_of_any_type_to_zero() {
    cleared(-20.5_f32, 0.0);
    cleared(3.0_f64, 0.0);
    cleared(f16::ONE, f16::ZERO);
    cleared(bf16::NAN, bf16::ZERO);
    cleared(Tf32::from_f32(1.5), Tf32::from_f32(0.0));
    cleared(F8E4M3::from_bits(0x7f), F8E4M3::from_bits(0));
    cleared(-7_i8, 0);
    cleared(u8::MAX, 0);
    cleared(i16::MIN, 0);
    cleared(i32::MIN, 0);
    cleared(u64::MAX, 0);
    cleared(u128::MAX, 0);
    cleared(Complex64::new(1.0, -1.0), Complex64::new(0.0, 0.0));
}

tiled_mma! {
    Fma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((1, 1, 1)));
    Widening: TiledMma<UniversalFma<f32, f16>> = TiledMma::new(layout!((1, 1, 1)));
    Bytes: TiledMma<UniversalFma<i32, i8>> = TiledMma::new(layout!((1, 1, 1)));
    Words: TiledMma<UniversalFma<u64>> = TiledMma::new(layout!((1, 1, 1)));
    ComplexFma: TiledMma<UniversalFma<Complex64>> = TiledMma::new(layout!((1, 1, 1)));
    Half: TiledMma<SM80_16x8x8_F32F16F16F32_TN> = TiledMma::new(layout!((1, 1, 1)));
    Complex: TiledMma<SM80_8x8x4_C64C64C64C64_TN> = TiledMma::new(layout!((1, 1, 1)));
}
static_layout! {
    M4 = layout!(4);
    N3 = layout!(3);
    M4K5 = layout!((4, 5));
    N3K5 = layout!((3, 5));
    M4N3 = layout!((4, 3));
    V = layout!((1));
    TileA = layout!((16, 8));
    TileB = layout!((8, 8));
    TileC = layout!((16, 8));
    /// K is not the contiguous mode: a register's two elements are not contiguous.
    SmemA = layout!((16, 8):(1, 17));
    SmemB = layout!((8, 8):(1, 9));
    ComplexA = layout!((8, 4));
    ComplexC = layout!((8, 8));
}

/// A fragment of `value(i)` at index `i`.
fn fragment<T: Element, L: StaticLayout>(value: impl Fn(usize) -> T) -> Fragment<T, FragmentLike<L>> {
    // SAFETY: each element is set at once.
    unsafe {
        let mut fragment = Fragment::uninit();
        for i in 0..L::LAYOUT.size() as usize {
            fragment.set(i, value(i));
        }
        fragment
    }
}

/// One thread's product by atoms of one value, for operands of any rank.
macro_rules! product {
    ($mma:ty, $t:ty => $sum:ty, $a:ty, $b:ty, $c:ty, ($m:literal, $n:literal, $k:literal)) => {{
        let a = |i: usize| (i as i8 * 3 - 7);
        let b = |i: usize| (i as i8 * 5 - 9);
        let mut c = fragment::<$sum, $c>(|i| <$sum>::from(i as u8));
        let (left, right) =
            (fragment::<$t, $a>(|i| <$t>::from(a(i))), fragment::<$t, $b>(|i| <$t>::from(b(i))));
        // SAFETY: one thread's own elements.
        unsafe { <$mma>::get_slice(0).gemm(&mut c, &left, &right) };
        for j in 0..$n {
            for i in 0..$m {
                let sum: i64 = (0..$k).map(|k| i64::from(a(i + $m * k)) * i64::from(b(j + $n * k))).sum();
                let want = sum + (i + $m * j) as i64;
                // SAFETY: inside the fragment.
                assert_eq!(
                    unsafe { c.get(i + $m * j) } as i64,
                    want,
                    "({i}, {j}) of {} x {} x {}",
                    $m,
                    $n,
                    $k
                );
            }
        }
    }};
}

#[test]
fn gemm_takes_operands_of_atoms_of_one_value() {
    // (V) (V) (V), an outer product, and a matrix product, of atoms of one value.
    product!(Fma, f32 => f32, V, V, V, (1, 1, 1));
    product!(Fma, f32 => f32, M4, N3, M4N3, (4, 3, 1));
    product!(Fma, f32 => f32, M4K5, N3K5, M4N3, (4, 3, 5));
}

#[test]
fn a_universal_fma_widens_its_operands() {
    product!(Bytes, i8 => i32, M4K5, N3K5, M4N3, (4, 3, 5));
    let a = fragment::<f16, M4K5>(|i| f16::from_f32(i as f32 / 8.0 - 1.0));
    let b = fragment::<f16, N3K5>(|i| f16::from_f32(0.75 - i as f32 / 4.0));
    let mut c = fragment::<f32, M4N3>(|i| i as f32);
    // SAFETY: one thread's own elements; the sums below read inside them.
    unsafe {
        Widening::get_slice(0).gemm(&mut c, &a, &b);
        for (i, j) in (0..4).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let sum: f32 = (0..5).map(|k| f16_to_f32(a.get(i + 4 * k)) * f16_to_f32(b.get(j + 3 * k))).sum();
            assert_eq!(c.get(i + 4 * j), sum + (i + 4 * j) as f32, "({i}, {j})");
        }
    }
}

#[test]
fn a_universal_fma_takes_64_bit_integers() {
    let a = fragment::<u64, M4K5>(|i| u64::MAX - i as u64);
    let b = fragment::<u64, N3K5>(|i| 3 + i as u64);
    let mut c = fragment::<u64, M4N3>(|_| 1);
    // SAFETY: one thread's own elements.
    unsafe {
        Words::get_slice(0).gemm(&mut c, &a, &b);
        for (i, j) in (0..4).flat_map(|i| (0..3).map(move |j| (i, j))) {
            let sum = (0..5).fold(1u64, |sum, k| {
                sum.wrapping_add((u64::MAX - (i + 4 * k) as u64).wrapping_mul(3 + (j + 3 * k) as u64))
            });
            assert_eq!(c.get(i + 4 * j), sum, "({i}, {j})");
        }
    }
}

#[test]
fn a_universal_fma_takes_complex_numbers() {
    let number = |i: usize, by: f64| Complex64::new(by * i as f64 - 4.0, 2.0 - by * i as f64);
    let a = fragment::<Complex64, M4K5>(|i| number(i, 0.5));
    let b = fragment::<Complex64, N3K5>(|i| number(i, 0.25));
    let mut c = fragment::<Complex64, M4N3>(|i| number(i, 1.0));
    // SAFETY: one thread's own elements.
    unsafe {
        ComplexFma::get_slice(0).gemm(&mut c, &a, &b);
        for (i, j) in (0..4).flat_map(|i| (0..3).map(move |j| (i, j))) {
            // Small enough to be exact in any order.
            let sum = (0..5).fold(number(i + 4 * j, 1.0), |sum, k| sum + a.get(i + 4 * k) * b.get(j + 3 * k));
            assert_eq!(c.get(i + 4 * j), sum, "({i}, {j})");
        }
    }
}

/// `a * b` of one warp, A and B in shared memory with M and N contiguous, by whole fragments and
/// step by step along K.
fn half_product(steps: bool) {
    let memory = GlobalMemory::new();
    let at = |i: usize| f16::from_f32((i * 37 % 23) as f32 - 11.0);
    let bt = |i: usize| f16::from_f32((i * 29 % 19) as f32 - 9.0);
    let a = memory.upload(&(0..128).map(at).collect::<Vec<f16>>(), "a").unwrap();
    let b = memory.upload(&(0..64).map(bt).collect::<Vec<f16>>(), "b").unwrap();
    let c = memory.alloc(16 * 8 * 4, "c").unwrap();
    let addresses = [a.address(), b.address(), c.address()];
    type Storage = (SharedArray<f16, SmemA>, SharedArray<f16, SmemB>);
    Launch::new("half", 1, 32, &memory)
        .shared_bytes(Storage::BYTES)
        .run(&|| {
            let [a, b, c] = addresses;
            let mma = Half::get_slice(thread_idx().x);
            let g_a = Matrix::new(Global::<f16>::from_address(a), (16, 8), UnitStride::<0>(16))
                .local_tile::<TileA, _>((0, 0));
            let g_b = Matrix::new(Global::<f16>::from_address(b), (8, 8), UnitStride::<0>(8))
                .local_tile::<TileB, _>((0, 0));
            let g_c = Matrix::new(GlobalMut::<f32>::from_address(c), (16, 8), UnitStride::<0>(16))
                .local_tile::<TileC, _>((0, 0));
            // SAFETY: the launch has the storage; what one thread writes the others read after a
            // barrier.
            unsafe {
                let (s_a, s_b) = Storage::take();
                copy(&mma.partition_a(g_a), &mut mma.partition_a(s_a));
                copy(&mma.partition_b(g_b), &mut mma.partition_b(s_b));
                sync_threads();
                let mut sums = mma.accumulator::<TileC>(); // (MMA, MMA_M, MMA_N)
                let (t_a, t_b) = (mma.partition_a(s_a), mma.partition_b(s_b)); // (MMA, MMA_M, MMA_K)
                if steps {
                    // (MMA, MMA_M) and (MMA, MMA_N)
                    mma.gemm(&mut sums, t_a.at((.., .., 0)), t_b.at((.., .., 0)));
                } else {
                    mma.gemm(&mut sums, t_a, t_b);
                }
                copy(&sums, &mut mma.partition_c(g_c));
            }
        })
        .unwrap();
    for (i, got) in c.download::<f32>().into_iter().enumerate() {
        let (m, n) = (i % 16, i / 16);
        let want: f32 = (0..8).map(|k| at(m + 16 * k).to_f32() * bt(n + 8 * k).to_f32()).sum();
        assert_eq!(got, want, "({m}, {n}), steps: {steps}");
    }
}

#[test]
fn registers_are_assembled_from_elements_that_are_not_contiguous() {
    half_product(false);
    half_product(true);
}

#[test]
fn an_atom_alone_is_a_product_of_rank_one() {
    let memory = GlobalMemory::new();
    Launch::new("atom", 1, 32, &memory)
        .run(&|| {
            let mma = Half::get_slice(thread_idx().x);
            let mut sums = mma.accumulator::<TileC>(); // (MMA, 1, 1)
            // SAFETY: all lanes are here; every element is set.
            unsafe {
                let g_a = Matrix::new(Global::<f16>::from_address(0), (16, 8), UnitStride::<0>(16))
                    .local_tile::<TileA, _>((0, 0));
                let g_b = Matrix::new(Global::<f16>::from_address(0), (8, 8), UnitStride::<0>(8))
                    .local_tile::<TileB, _>((0, 0));
                let (mut a, mut b) = (mma.partition_fragment_a(&g_a), mma.partition_fragment_b(&g_b));
                fill(&mut a, f16::from_f32(2.0));
                fill(&mut b, f16::from_f32(3.0));
                // (MMA), each
                let (a, b) = (a.at((.., 0, 0)), b.at((.., 0, 0)));
                mma.gemm(sums.at_mut((.., 0, 0)), a, b);
                for i in 0..4 {
                    assert_eq!(sums.get(i), 48.0, "8 products of 2 and 3");
                }
            }
        })
        .unwrap();
}

#[test]
fn complex_numbers_take_two_registers() {
    let memory = GlobalMemory::new();
    let at = |i: usize| Complex64::new((i % 7) as f64 - 3.0, (i % 5) as f64 - 2.0);
    let a = memory.upload(bytes(&(0..32).map(at).collect::<Vec<_>>()), "a").unwrap();
    let c = memory.alloc(8 * 8 * 16, "c").unwrap();
    let (from, to) = (a.address(), c.address());
    Launch::new("complex", 1, 32, &memory)
        .run(&|| {
            let mma = Complex::get_slice(thread_idx().x);
            let tile =
                |address| Matrix::new(Global::<Complex64>::from_address(address), (8, 4), UnitStride::<0>(8));
            let g_a = tile(from).local_tile::<ComplexA, _>((0, 0));
            let g_c = Matrix::new(GlobalMut::<Complex64>::from_address(to), (8, 8), UnitStride::<0>(8))
                .local_tile::<ComplexC, _>((0, 0));
            // SAFETY: each element of C belongs to one thread.
            unsafe {
                let mut sums = mma.partition_fragment_c(&g_c);
                fill(&mut sums, Complex64::new(1.0, -1.0));
                mma.gemm(&mut sums, mma.partition_a(g_a), mma.partition_b(g_a));
                copy(&sums, &mut mma.partition_c(g_c));
            }
        })
        .unwrap();
    for (i, got) in c.download::<u8>().chunks_exact(16).map(of_bytes::<Complex64>).enumerate() {
        let (m, n) = (i % 8, i / 8);
        let want = (0..4).fold(Complex64::new(1.0, -1.0), |sum, k| sum + at(m + 8 * k) * at(n + 8 * k));
        assert_eq!((got.re, got.im), (want.re, want.im), "({m}, {n})");
    }
}
