//! Products that go by tiled copies and tiled MMAs from end to end, on the simulator and the GPU where there is one: against
//! a float64 reference, exactly for integers, over shapes that fill their tiles, hang over them and barely exist.
#![allow(clippy::type_complexity, reason = "a kernel's type is its parameter list")]

mod common;

use common::devices;
use common::matrix::rng;
use half::{bf16, f16};
use moye::{Device, Element, Global, GlobalMut, Grid, Kernel, Ptx};
use moye_device::number::{F8E4M3, Scalar, Tf32};
use moye_kernels_tiled as kernels;
use rand::RngExt;
use rand::rngs::StdRng;

static SM_80: Ptx = Ptx::new("moye-kernels-tiled", kernels::PTX_SM_80);
static SM_90: Ptx = Ptx::new("moye-kernels-tiled (sm_90)", kernels::PTX_SM_90);

type Product<T, U> = Kernel<(Global<T>, Global<T>, GlobalMut<U>, u32, u32, u32, i64, i64, i64)>;

/// An element of an operand or a result.
trait Number: Element + PartialEq {
    fn draw(rng: &mut StdRng) -> Self;
    fn value(self) -> f64;
}

macro_rules! floats {
    ($($t:ty),*) => { $(
        impl Number for $t {
            fn draw(rng: &mut StdRng) -> Self {
                Self::nearest(rng.random_range(-1.0..=1.0))
            }
            fn value(self) -> f64 {
                self.to_f64()
            }
        }
    )* };
}
floats!(f16, bf16, f64, F8E4M3);

impl Number for f32 {
    /// A value that tf32 has too, so that tensor cores lose nothing of it.
    fn draw(rng: &mut StdRng) -> Self {
        Tf32::nearest(rng.random_range(-1.0..=1.0)).to_f64() as Self
    }
    fn value(self) -> f64 {
        f64::from(self)
    }
}

macro_rules! integers {
    ($($t:ty),*) => { $(
        impl Number for $t {
            fn draw(rng: &mut StdRng) -> Self {
                rng.random()
            }
            fn value(self) -> f64 {
                f64::from(self)
            }
        }
    )* };
}
integers!(i8, i32);

/// `(M, N, K)`: one tile, ragged ones, single rows and columns, several tiles along each mode.
const SHAPES: [(usize, usize, usize); 8] = [
    (64, 64, 64),
    (1, 1, 1),
    (5, 3, 7),
    (64, 64, 16),
    (67, 129, 72),
    (130, 65, 33),
    (1, 200, 100),
    (200, 1, 130),
];

/// The largest error that is let pass, relative in norm: 0 for a result that has to be exact.
fn check<T: Number, U: Number>(
    ptx: &Ptx,
    kernel: &Product<T, U>,
    tile: (usize, usize),
    threads: u32,
    bound: f64,
) {
    for device in devices() {
        if device.is_gpu() && ptx.image_for(device.arch()).is_none() {
            eprintln!("{} is skipped on {}, which is older", kernel.name(), device.name());
            continue;
        }
        for shape in SHAPES {
            one(&device, ptx, kernel, shape, tile, threads, bound);
        }
    }
}

fn one<T: Number, U: Number>(
    device: &Device,
    ptx: &Ptx,
    kernel: &Product<T, U>,
    (m, n, k): (usize, usize, usize),
    tile: (usize, usize),
    threads: u32,
    bound: f64,
) {
    let mut rng = rng(&[m, n, k]);
    // Rows start at multiples of 16 bytes, which the kernels are promised; C's need not.
    let ld = k.next_multiple_of(16) + 16;
    let (a, b): (Vec<T>, Vec<T>) =
        ((0..m * ld).map(|_| T::draw(&mut rng)).collect(), (0..n * ld).map(|_| T::draw(&mut rng)).collect());
    let ldc = n + 3;
    let module = device.load(ptx).unwrap();
    let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
    let mut device_c = device.alloc_uninit::<U>(m * ldc).unwrap();
    device_c.fill_bytes(0xFF).unwrap();
    let grid = Grid::new((m.div_ceil(tile.0) as u32, n.div_ceil(tile.1) as u32), threads);
    // SAFETY: the buffers hold the matrices with these leading dimensions.
    unsafe {
        module.launch(
            kernel,
            grid,
            (
                &device_a,
                &device_b,
                &mut device_c,
                m as u32,
                n as u32,
                k as u32,
                ld as i64,
                ld as i64,
                ldc as i64,
            ),
        )
    }
    .unwrap();
    let c = device_c.download().unwrap();

    let what = format!("{} of {m} x {n} x {k} on {}", kernel.name(), device.name());
    let (mut error, mut norm) = (0.0, 0.0);
    for i in 0..m {
        for j in 0..n {
            let want: f64 = (0..k).map(|p| a[i * ld + p].value() * b[j * ld + p].value()).sum();
            let got = c[i * ldc + j].value();
            error += (got - want).powi(2);
            norm += want.powi(2);
        }
        for (j, got) in c[i * ldc + n..(i + 1) * ldc].iter().enumerate() {
            // SAFETY: plain bits.
            let bytes =
                unsafe { std::slice::from_raw_parts(std::ptr::from_ref(got).cast::<u8>(), size_of::<U>()) };
            assert!(bytes.iter().all(|&byte| byte == 0xFF), "{what}: writes at ({i}, {}) of C", n + j);
        }
    }
    // A result that was never written is not a number, or far away.
    let relative = (error / norm).sqrt();
    assert!(relative <= bound, "{what}: relative error {relative:e}, expected at most {bound:e}");
}

macro_rules! tests {
    ($($name:ident $ptx:ident $tile:expr, $threads:literal, $bound:expr;)+) => { $(
        #[test]
        fn $name() {
            check(&$ptx, &kernels::$name::$name, $tile, $threads, $bound);
        }
    )+ };
}
tests! {
    f16_swizzled SM_80 (64, 64), 128, 1e-6;
    f16_permuted SM_80 (64, 64), 128, 1e-6;
    f16_padded SM_80 (32, 64), 64, 4e-3;
    bf16_plain SM_80 (64, 32), 128, 1e-6;
    tf32_permuted SM_80 (64, 64), 128, 1e-6;
    f64_plain SM_80 (32, 32), 128, 1e-14;
    s8_ldmatrix SM_80 (64, 64), 128, 0.0;
    fma_shared SM_80 (64, 64), 256, 1e-6;
    f16_shared SM_80 (32, 32), 128, 1e-6;
    // The hardware adds products of 8-bit floats with 13 bits behind the largest's first.
    e4m3_ldmatrix SM_90 (64, 64), 128, 1e-3;
}

#[test]
fn each_kernel_has_its_instructions_and_no_local_memory() {
    let module = moye_build::ptx::Module::parse(kernels::PTX_SM_80[0].1).unwrap();
    let wanted = [
        ("f16_swizzled", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 8),
        ("f16_swizzled", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 16),
        ("f16_permuted", "ldmatrix.sync.aligned.m8n8.x2.shared.b16", 16),
        ("f16_permuted", "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 32),
        ("tf32_permuted", "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 16),
        ("s8_ldmatrix", "ldmatrix.sync.aligned.m8n8.x4.shared.b16", 4),
        ("f64_plain", "ld.shared.b64", 16),
        ("fma_shared", "fma.rn.f32", 128),
    ];
    for (kernel, instruction, count) in wanted {
        let entry = module.kernel(kernel).unwrap_or_else(|| panic!("there is no kernel {kernel}"));
        assert_eq!(entry.count(instruction), count, "{kernel}: {instruction}: {:?}", entry.instructions);
        assert!(!entry.uses_local(), "{kernel} uses local memory");
    }
}
