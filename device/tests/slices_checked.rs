//! The simulator checks in every build what a caller promises about threads and coordinates: a
//! launch that breaks the promise is a fault that names the values and the line.

use moye_device::arch::thread_idx;
use moye_device::atom::copy::UniversalCopy;
use moye_device::atom::mma::UniversalFma;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma, TiledCopy, TiledMma};
use moye_device::memory::{Global, Shared, SharedArray, SharedPacked, SharedStorage};
use moye_device::number::S4;
use moye_device::tensor::{Fragment, Matrix, SharedTensor, UnitStride};
use moye_device::{layout, static_layout, tiled_copy, tiled_mma};
use moye_sim::{GlobalMemory, Launch};

tiled_copy! {
    Copy: TiledCopy<UniversalCopy<f32>, f32> = TiledCopy::new(layout!((4, 2)), layout!((1, 1)));
}
tiled_mma! {
    Mma: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((4, 2, 1)));
}
static_layout! {
    Tile = layout!((4, 2, 3));
    Threads = layout!((4, 2));
    Four = layout!(4);
}

/// The fault of nine threads, one too many.
fn fault(kernel: impl Fn(u32) + Sync) -> String {
    let memory = GlobalMemory::new();
    let launch = |threads| {
        Launch::new("slices", 1, threads, &memory)
            .shared_bytes(SharedArray::<f32, Tile>::BYTES)
            .run(&|| kernel(thread_idx().x))
    };
    launch(8).expect("there are eight threads");
    launch(9).expect_err("a ninth is not").to_string()
}

#[track_caller]
fn says(fault: &str, parts: &[&str]) {
    for part in ["kernel `slices`", "thread (8,0,0)", "slices_checked.rs"].iter().chain(parts) {
        assert!(fault.contains(part), "`{part}` is missing in: {fault}");
    }
}

fn tile() -> SharedTensor<f32, Tile> {
    // SAFETY: the launch has the shared memory; nothing of it is read.
    unsafe { SharedArray::<f32, Tile>::take() }
}

#[test]
fn a_thread_that_a_tiled_copy_does_not_have_is_a_fault() {
    let fault = fault(|thread| {
        Copy::get_slice(thread);
    });
    says(&fault, &["get_slice: thread 8 of a tiled copy of 8 threads"]);
}

#[test]
fn a_thread_that_a_tiled_mma_does_not_have_is_a_fault() {
    let fault = fault(|thread| {
        Mma::get_slice(thread);
    });
    says(&fault, &["get_slice: thread 8 of a tiled MMA of 8 threads"]);
}

#[test]
fn a_thread_that_a_partition_does_not_have_is_a_fault() {
    let fault = fault(|thread| {
        tile().local_partition::<Threads>(thread);
    });
    says(&fault, &["local_partition: thread 8 of the 8 of (4,2):(1,4)"]);
}

#[test]
fn a_place_that_a_mode_does_not_have_is_a_fault() {
    let last = fault(|thread| {
        tile().at((.., .., thread / 8 * 3));
    });
    says(&last, &["at: place 3 of mode 2 of (4,2,3):(1,4,8), which has 3"]);
    let middle = fault(|thread| {
        tile().at((.., thread / 8 * 2, 1));
    });
    says(&middle, &["at: place 2 of mode 1 of (4,2,3):(1,4,8), which has 2"]);
    let fragment = fault(|thread| {
        Fragment::<f32, Tile>::filled(0.0).at_mut((thread / 8 * 4, .., ..));
    });
    says(&fragment, &["at: place 4 of mode 0 of"]);
    let matrix = fault(|thread| {
        Matrix::new(Global::<f32>::from_address(0), (4, 3), UnitStride::<0>(4)).at((.., thread / 8 * 3));
    });
    says(&matrix, &["at: place 3 of mode 1 of a tensor of (4, 3)"]);
}

#[test]
fn an_element_that_a_fragment_does_not_have_is_a_fault() {
    let fault = fault(|thread| {
        let fragment = Fragment::<f32, Four>::filled(0.0);
        // SAFETY: a slice out of bounds of the fragment is a fault.
        unsafe { fragment.get(thread as usize / 8 * 4) };
    });
    for part in ["thread (8,0,0)", "element 4 of the 4:1 of a fragment"] {
        assert!(fault.contains(part), "`{part}` is missing in: {fault}");
    }
}

#[test]
fn a_word_that_starts_within_a_byte_is_a_fault() {
    let fault = fault(|thread| {
        // SAFETY: an offset within a byte is a fault; the others were written.
        unsafe {
            let bytes = Shared::<u8>::from_address(moye_device::arch::shared_base());
            bytes.write(0, 0x21);
            SharedPacked::<S4>::new(bytes).read_word::<u8>(i64::from(thread / 8));
        }
    });
    says(&fault, &["a word starts with the first element of a byte, not with element 1 of it"]);
}
