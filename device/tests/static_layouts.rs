//! A static layout costs nothing on the device: kernels that index through constant layouts,
//! composed, divided and swizzled, compile to no more instructions than kernels with handwritten
//! arithmetic.

#[path = "../../builder/tests/fixtures/krate.rs"]
#[allow(dead_code, reason = "shared with the builder's own tests")]
mod krate;

use moye_build::ptx::{Function, Module};
use std::sync::LazyLock;

/// Pairs of kernels, `NAME_layout` and `NAME_hand`.
const KERNELS: &str = "
use moye_device::arch::{self, Word, block_idx, thread_idx};
use moye_device::layout::*;
use moye_device::memory::{Global, SharedArray, SharedStorage};
use moye_device::static_layout;

// A row-major tile of 64 by 64, by thread and value: 16 values in a row for each of 64 by 4
// threads, row-major.
const TV: Layout = composition(
    make_row_major(tuple!((64, 64))),
    make_layout_tv(layout!((64, 4):(4, 1)), layout!((1, 16))).layout,
);

#[kernel]
pub unsafe fn composed_layout(x: Global<f32>, y: GlobalMut<f32>) {
    let thread = thread_idx().x as i64;
    for value in 0..16 {
        let at = TV.at_coord([thread, value]);
        unsafe { y.write(at, x.read(at)) };
    }
}

#[kernel]
pub unsafe fn composed_hand(x: Global<f32>, y: GlobalMut<f32>) {
    let thread = thread_idx().x as i64;
    for value in 0..16 {
        let (row, column) = (thread / 4, thread % 4 * 16 + value);
        let at = row * 64 + column;
        unsafe { y.write(at, x.read(at)) };
    }
}

// A column-major matrix of 1024 by 512 in tiles of 32 by 8: ((32, 8), (32, 64)).
const TILES: Layout = zipped_divide(layout!((1024, 512)), tiler!((32, 8)));

#[kernel]
pub unsafe fn divided_layout(x: Global<f32>, y: GlobalMut<f32>) {
    let at = TILES.at_coord([thread_idx().x as i64, block_idx().x as i64]);
    unsafe { y.write(at, x.read(at)) };
}

#[kernel]
pub unsafe fn divided_hand(x: Global<f32>, y: GlobalMut<f32>) {
    let (thread, block) = (thread_idx().x as i64, block_idx().x as i64);
    let (row, column) = (block % 32 * 32 + thread % 32, block / 32 * 8 + thread / 32);
    let at = row + column * 1024;
    unsafe { y.write(at, x.read(at)) };
}

// Two partitions in a row: a tile for each block, and in it 4 elements for each of 16 x 4 threads.
const PARTS: Layout = {
    let tiles = zipped_divide(make_row_major(tuple!((1024, 512))), tiler!((32, 8)));
    Layout::concat(&[logical_divide(tiles.mode(0), tiler!((16, 4))), tiles.mode(1)])
};
const THREADS: Layout = PARTS.mode(0).mode(0).mode(0).append(PARTS.mode(0).mode(1).mode(0));
const ELEMENTS: Layout = PARTS.mode(0).mode(0).mode(1).append(PARTS.mode(0).mode(1).mode(1));
const BLOCKS: Layout = PARTS.mode(1);

#[kernel]
pub unsafe fn twice_divided_layout(x: Global<f32>, y: GlobalMut<f32>) {
    let start = BLOCKS.at(block_idx().x as i64) + THREADS.at(thread_idx().x as i64);
    for element in 0..ELEMENTS.size() {
        let at = start + ELEMENTS.at(element);
        unsafe { y.write(at, x.read(at)) };
    }
}

#[kernel]
pub unsafe fn twice_divided_hand(x: Global<f32>, y: GlobalMut<f32>) {
    let (thread, block) = (thread_idx().x as i64, block_idx().x as i64);
    let (row, column) = (block % 32 * 32 + thread % 16, block / 32 * 8 + thread / 16);
    for j in 0..2 {
        for i in 0..2 {
            let at = (row + 16 * i) * 512 + column + 4 * j;
            unsafe { y.write(at, x.read(at)) };
        }
    }
}

// A tile of 64 by 64 halves in shared memory under the swizzle of 128 bytes. The kernel states
// its 128 threads, so both sides know that the coordinates are within the tile.
const SMEM: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((64, 64)));

#[kernel]
pub unsafe fn swizzled_layout(x: Global<u32>, y: GlobalMut<u32>) {
    let thread = thread_idx().x as i64 % 128;
    let (row, column) = (thread / 8, thread % 8);
    let base = arch::shared_base();
    for step in 0..4 {
        let at = SMEM.at_coord([row + 16 * step, column * 8]) as u32;
        unsafe { u32::store_shared(base + at * 2, x.read(thread + 128 * step)) };
    }
    arch::sync_threads();
    for step in 0..4 {
        let at = SMEM.at_coord([column * 8 + step, row * 2]) as u32;
        unsafe { y.write(thread + 128 * step, u32::load_shared(base + at * 2)) };
    }
}

#[kernel]
pub unsafe fn swizzled_hand(x: Global<u32>, y: GlobalMut<u32>) {
    let thread = thread_idx().x as i64 % 128;
    let (row, column) = (thread / 8, thread % 8);
    let base = arch::shared_base();
    let at = |row: i64, column: i64| {
        let at = row * 64 + column;
        (at ^ (at >> 3 & 56)) as u32
    };
    for step in 0..4 {
        unsafe { u32::store_shared(base + at(row + 16 * step, column * 8) * 2, x.read(thread + 128 * step)) };
    }
    arch::sync_threads();
    for step in 0..4 {
        let at = at(column * 8 + step, row * 2);
        unsafe { y.write(thread + 128 * step, u32::load_shared(base + at * 2)) };
    }
}

static_layout! {
    pub Smem = layout!((32, 32):(1, 33));
    // The same memory, its elements by tiles of 8 by 8: ((8, 8), (4, 4)).
    pub SmemTiles = zipped_divide(layout!((32, 32):(1, 33)), tiler!((8, 8)));
    pub Threads = layout!((64, 4));
}

#[kernel(threads = 256, shared = SharedArray<u32, Smem>)]
pub unsafe fn tensor_layout(x: Global<u32>, y: GlobalMut<u32>) {
    let thread = thread_idx().x;
    let tiles = unsafe { SharedArray::<u32, Smem>::take() }.with_layout::<SmemTiles>();
    let mut part = tiles.local_partition::<Threads>(thread);
    for i in 0..4 {
        unsafe { part.set(i, x.read(i as i64 * 256 + thread as i64)) };
    }
    arch::sync_threads();
    for i in 0..4 {
        unsafe { y.write(i as i64 * 256 + thread as i64, part.get(i)) };
    }
}

#[kernel(threads = 256, shared = SharedArray<u32, Smem>)]
pub unsafe fn tensor_hand(x: Global<u32>, y: GlobalMut<u32>) {
    let thread = thread_idx().x;
    let (element, tile) = (thread % 64, thread / 64);
    let at = element % 8 + element / 8 * 33 + tile * 8;
    let address = |i: u32| arch::shared_base() + 4 * (at + i * 8 * 33);
    for i in 0..4 {
        unsafe { u32::store_shared(address(i), x.read(i as i64 * 256 + thread as i64)) };
    }
    arch::sync_threads();
    for i in 0..4 {
        unsafe { y.write(i as i64 * 256 + thread as i64, u32::load_shared(address(i))) };
    }
}
";

/// Whether PTX can be built here. Without `core`'s source, the tests of this file are skipped with
/// a message; `MOYE_REQUIRE_PTX=1` turns that into a failure.
fn builds_ptx() -> bool {
    static BUILDS: LazyLock<bool> = LazyLock::new(|| {
        let missing = moye_build::core_source::find(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))).err();
        let required = std::env::var_os("MOYE_REQUIRE_PTX").is_some_and(|value| value == "1");
        if let Some(error) = missing.as_ref().filter(|_| !required) {
            eprintln!("the tests of static layouts in PTX are left out: {}", one_line(&error.to_string()));
        }
        missing.is_none() || required
    });
    *BUILDS
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn kernel(name: &str) -> Function {
    static MODULE: LazyLock<Module> = LazyLock::new(|| {
        let krate = krate::krate_with_device("static-layouts", KERNELS);
        let set = krate::builder(&krate).arch("sm_80").build().unwrap_or_else(|error| panic!("{error}"));
        Module::parse(&set.files[0].text).unwrap()
    });
    MODULE.kernel(name).unwrap_or_else(|| panic!("{name} is not in the module")).clone()
}

/// The instructions of a kernel without `cvta`: ptxas emits nothing for it, as a global address and
/// its generic address are equal, and the order of LLVM's passes decides how many the PTX contains.
fn work(kernel: &Function) -> usize {
    kernel.len() - kernel.count_where(|name| name.starts_with("cvta."))
}

/// Asserts that the kernel with layouts has no more instructions than the handwritten kernel, and
/// the same accesses.
fn costs_nothing(name: &str) {
    if !builds_ptx() {
        return;
    }
    let (layout, hand) = (kernel(&format!("{name}_layout")), kernel(&format!("{name}_hand")));
    println!("{name}: {} instructions, by hand {}", work(&layout), work(&hand));
    assert!(!layout.uses_local(), "the layout is not in memory: {:?}", layout.instructions);
    for access in ["ld.global", "st.global", "ld.shared", "st.shared", "ld.const"] {
        assert_eq!(layout.count(access), hand.count(access), "{name}: {access} in {:?}", layout.instructions);
    }
    assert!(
        work(&layout) <= work(&hand),
        "{name}: {} instructions with layouts, {} by hand:\n{:?}\n{:?}",
        work(&layout),
        work(&hand),
        layout.instructions,
        hand.instructions
    );
}

#[test]
fn a_composed_layout_costs_nothing() {
    costs_nothing("composed");
}

#[test]
fn a_divided_layout_costs_nothing() {
    costs_nothing("divided");
}

#[test]
fn a_divided_tile_of_a_divided_layout_costs_nothing() {
    costs_nothing("twice_divided");
}

#[test]
fn a_swizzled_layout_costs_nothing() {
    costs_nothing("swizzled");
}

#[test]
fn a_tensor_of_a_divided_layout_costs_nothing() {
    costs_nothing("tensor");
}
