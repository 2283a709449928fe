//! The expansion of `#[kernel]` on the host.

use moye_device::kernel;
use moye_device::kernel::{Kernel, LaunchBounds, ParamType, Scalar};
use moye_device::memory::{Global, GlobalMut, SharedArray, Storable};
use moye_device::{layout, static_layout};

const WARPS: usize = 4;

/// Documentation, conditions and lint levels pass through.
#[kernel(threads = WARPS * 32, min_blocks = 2)]
#[allow(clippy::needless_return)]
unsafe fn everything(n: u32, mut scale: f32, half: half::f16, x: Global<f32>, y: GlobalMut<u64>) {
    scale *= 2.0;
    assert_eq!(x.address(), 64);
    // SAFETY: the test passes the address of a local variable.
    unsafe { *(y.address() as *mut u64) = u64::from(n) + scale as u64 + half.to_f32() as u64 };
    return;
}

static_layout! {
    pub Tile = layout!((32, 32) : (1, 33));
}

#[kernel(shared = SharedArray<f32, Tile>)]
unsafe fn shared() {}

/// The same source, each time with other types.
///
/// # Safety
/// `y` points to an element.
#[kernel(threads = <T as Storable>::BITS * 4, instances = (generic_f32<f32, 3>, generic_u64<u64, 5>))]
unsafe fn generic<T: Storable, const N: u64>(flag: bool, y: GlobalMut<u64>) {
    // The contract is the kernel's: no `unsafe` is needed here.
    *(y.address() as *mut u64) = if flag { N * size_of::<T>() as u64 } else { 0 };
}

#[kernel(shared = (s_a: SharedArray<f32, Tile>, s_b: SharedArray<u8, Tile>))]
unsafe fn named(_y: GlobalMut<u64>) {
    assert_eq!(s_a.layout(), s_b.layout());
}

#[kernel]
unsafe fn nothing() {}

#[kernel(max_threads = 64)]
unsafe fn up_to() {}

#[kernel]
#[cfg(any())]
unsafe fn left_out(of: NoSuchType) {}

#[test]
fn a_kernel_is_a_value_with_name_package_parameters_and_bounds() {
    type Parameters = (u32, f32, half::f16, Global<f32>, GlobalMut<u64>);
    let kernel: Kernel<Parameters> = everything;
    assert_eq!(kernel.name(), "everything", "the name in the PTX is the function's");
    assert_eq!(kernel.package(), "moye-device", "the package is the one that declares it");
    assert_eq!(kernel.bounds(), LaunchBounds { threads: Some(128), exact: true, min_blocks: Some(2) });
    assert_eq!(up_to.bounds(), LaunchBounds { threads: Some(64), exact: false, min_blocks: None });
    let expected = [
        ParamType::Scalar(Scalar { name: "u32", size: 4 }),
        ParamType::Scalar(Scalar { name: "f32", size: 4 }),
        ParamType::Scalar(Scalar { name: "f16", size: 2 }),
        ParamType::Global { element: "f32", written: false },
        ParamType::Global { element: "u64", written: true },
    ];
    assert_eq!(kernel.params(), expected);
}

#[test]
fn a_kernel_that_declares_nothing_has_no_bounds() {
    assert_eq!(nothing.bounds(), LaunchBounds { threads: None, exact: false, min_blocks: None });
    assert_eq!((nothing.params(), nothing.shared_bytes()), (&[][..], 0));
}

#[test]
fn a_kernel_carries_the_shared_memory_that_it_needs() {
    // From the first element to past the last: 31 columns 33 apart, and 32 elements of the last.
    assert_eq!(shared.shared_bytes(), (31 * 33 + 32) * size_of::<f32>());
}

#[test]
fn the_body_runs_with_the_parameters_in_order() {
    let mut out = 0_u64;
    let y = GlobalMut::from_address(std::ptr::from_mut(&mut out) as u64);
    // SAFETY: the kernel writes one u64 through `y`.
    unsafe { everything.call((1, 10.0, half::f16::from_f32(300.0), Global::from_address(64), y)) };
    assert_eq!(out, 1 + 20 + 300);
}

#[test]
fn a_generic_function_has_an_entry_point_for_each_instance() {
    let mut out = 0_u64;
    let y = GlobalMut::from_address(std::ptr::from_mut(&mut out) as u64);
    assert_eq!((generic_f32.name(), generic_f32.bounds().threads), ("generic_f32", Some(128)));
    assert_eq!((generic_u64.name(), generic_u64.bounds().threads), ("generic_u64", Some(256)));
    let expected = [
        ParamType::Scalar(Scalar { name: "bool", size: 1 }),
        ParamType::Global { element: "u64", written: true },
    ];
    assert_eq!(generic_u64.params(), expected);
    // SAFETY: the kernels write one u64 through `y`.
    unsafe { generic_f32.call((true, y)) };
    assert_eq!(out, 3 * 4);
    // SAFETY: the kernel writes one u64 through `y`.
    unsafe { generic_u64.call((true, y)) };
    assert_eq!(out, 5 * 8);
    // SAFETY: the kernel writes one u64 through `y`.
    unsafe { generic_u64.call((false, y)) };
    assert_eq!(out, 0);
}

#[test]
fn named_arrays_are_the_shared_memory_of_the_kernel() {
    assert_eq!(named.shared_bytes(), (4 * (31 * 33 + 32usize)).next_multiple_of(128) + 31 * 33 + 32);
}
