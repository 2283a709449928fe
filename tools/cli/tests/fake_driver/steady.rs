//! The host's cost of a repeated product or transpose: no allocation, and of the driver's calls
//! only the context, the launch and, with a workspace, the query whether the stream is captured.

use crate::recorded;
use half::{bf16, f16};
use moye::{Buffer, Device, Matmul, Matrix, MatrixMut, Operand, Output, copy, transpose};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Instant;

/// Counts the allocations of a thread.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<u32> = const { Cell::new(0) };
}

#[global_allocator]
static COUNTING: Counting = Counting;

// SAFETY: as the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + 1);
        // SAFETY: `layout` has a size above 0, as `alloc` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, address: *mut u8, layout: Layout) {
        // SAFETY: `address` is from `alloc` with this layout, as `dealloc` requires.
        unsafe { System.dealloc(address, layout) }
    }
}

/// A row-major A of M x K and a B of K x N.
struct Product {
    shape: [usize; 3],
    b_is_row_major: bool,
}

/// K is contiguous in A and in B.
const fn tn(shape: [usize; 3]) -> Product {
    Product { shape, b_is_row_major: false }
}

/// K is contiguous in A, N in B.
const fn nn(shape: [usize; 3]) -> Product {
    Product { shape, b_is_row_major: true }
}

/// Calls `f` with a product of this shape that is computed repeatedly.
fn with_product<T: Operand + Output<T>>(
    device: &Device,
    Product { shape: [m, n, k], b_is_row_major }: Product,
    options: impl Fn(Matmul<'_, T>) -> Matmul<'_, T>,
    f: &mut dyn FnMut(&mut dyn FnMut()),
) {
    // SAFETY: the stand-in touches no memory.
    let buffer = |number: u64| unsafe {
        Buffer::<T>::from_raw_parts((1 << 42) + (number << 32), 1 << 28, device).unwrap()
    };
    let (a, b, mut c) = (buffer(0), buffer(1), buffer(2));
    let a = Matrix::row_major(&a, m, k).unwrap();
    let b = if b_is_row_major { Matrix::row_major(&b, k, n) } else { Matrix::col_major(&b, k, n) };
    let product = options(Matmul::new(a, b.unwrap()));
    let mut c = MatrixMut::row_major(&mut c, m, n).unwrap();
    f(&mut || product.run(device, &mut c).unwrap());
}

/// The products of `moye bench host`.
fn with_each_product(f: &mut dyn FnMut(&str, &mut dyn FnMut())) {
    let device = Device::gpu(0).unwrap();
    with_product::<f16>(&device, tn([64, 4096, 4096]), |p| p, &mut |run| f("f16 tn 64 x 4096 x 4096", run));
    with_product::<f16>(&device, tn([2048; 3]), |p| p, &mut |run| f("f16 tn 2048^3", run));
    with_product::<bf16>(&device, nn([1000; 3]), |p| p, &mut |run| f("bf16 nn 1000^3", run));
    let odd = nn([1001, 1003, 1007]);
    with_product::<bf16>(&device, odd, |p| p, &mut |run| f("bf16 nn 1001 x 1003 x 1007", run));
    with_product::<f32>(&device, tn([512; 3]), |p| p, &mut |run| f("f32 tn 512^3", run));
    with_product::<f32>(&device, tn([1024; 3]), |p| p.tf32(), &mut |run| f("tf32 tn 1024^3", run));
}

/// The stand-in's records so far.
fn noted() -> Vec<String> {
    let file = std::env::var_os("FAKE_DRIVER_ALL").unwrap();
    std::fs::read_to_string(file).unwrap().lines().map(str::to_owned).collect()
}

/// Calls `run` three times; the third call must only launch.
fn check_steady(name: &str, run: &mut dyn FnMut()) {
    run();
    run();
    let before = (noted().len(), ALLOCATED.get());
    run();
    let allocated = ALLOCATED.get() - before.1;
    let calls = noted().split_off(before.0);
    assert_eq!(allocated, 0, "{name} allocates");
    let launches = calls.iter().filter(|call| call.starts_with("cuLaunchKernel")).count();
    let contexts = calls.iter().filter(|call| *call == "cuCtxSetCurrent").count();
    assert!((1..=3).contains(&launches) && contexts <= launches, "{name}: {calls:?}");
    // With a workspace, the driver is asked whether another library captures the stream.
    let asked = calls.iter().filter(|call| *call == "cuStreamIsCapturing").count();
    assert!(asked <= 1, "{name}: {calls:?}");
    assert_eq!(launches + contexts + asked, calls.len(), "{name}: {calls:?}");
}

/// A transpose, a copy by vectors, and one whose lines end within a vector.
fn with_each_movement(f: &mut dyn FnMut(&str, &mut dyn FnMut())) {
    let device = Device::gpu(0).unwrap();
    // SAFETY: the stand-in touches no memory.
    let buffer = |number: u64| unsafe {
        Buffer::<f32>::from_raw_parts((1 << 42) + (number << 32), 1 << 20, &device).unwrap()
    };
    let (x, mut y) = (buffer(0), buffer(1));
    let matrix = Matrix::row_major(&x, 700, 500).unwrap();
    let mut transposed = MatrixMut::row_major(&mut y, 500, 700).unwrap();
    f("a transpose", &mut || transpose(&device, &matrix, &mut transposed).unwrap());
    let mut copied = MatrixMut::row_major(&mut y, 700, 500).unwrap();
    f("a copy", &mut || copy(&device, &matrix, &mut copied).unwrap());
    let matrix = Matrix::new(&x, 700, 501, (512, 1)).unwrap();
    let mut copied = MatrixMut::new(&mut y, 700, 501, (512, 1)).unwrap();
    f("a copy by two kernels", &mut || copy(&device, &matrix, &mut copied).unwrap());
}

#[test]
fn transposes_and_copies_that_were_computed_before_allocate_nothing_and_call_the_driver_for_launches_alone() {
    recorded("h100", &[], "all", || with_each_movement(&mut check_steady));
}

#[test]
fn a_product_that_was_computed_before_allocates_nothing_and_calls_the_driver_for_launches_alone() {
    recorded("h100", &[], "all", || with_each_product(&mut check_steady));
}

/// Prints the time of each product, transpose and copy: `MOYE_HOST_COST=1`, with the stand-in's
/// folder as `LD_LIBRARY_PATH`.
#[test]
#[ignore = "measures"]
fn times_on_the_host() {
    if std::env::var_os("MOYE_HOST_COST").is_none() {
        return;
    }
    let mut print = |name: &str, run: &mut dyn FnMut()| {
        let mut least = f64::INFINITY;
        for _ in 0..200 {
            let begun = Instant::now();
            (0..200).for_each(|_| run());
            least = least.min(begun.elapsed().as_secs_f64() / 200.0 * 1e9);
        }
        println!("{name}: {least:.0} ns");
    };
    with_each_product(&mut print);
    with_each_movement(&mut print);
}
