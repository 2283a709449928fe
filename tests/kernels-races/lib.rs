//! Kernels with one fault each, and the same kernels without it: what the simulator says of each is
//! held beside what compute-sanitizer says on a GPU (`racecheck.py`).
//!
//! A launch has two blocks. A kernel does what its faulty twin leaves out where `right` holds. It
//! ends with a store of each thread to its own word, so that no load is removed. Several are public
//! reports as small kernels, which their texts name.
//!
//! The lines that a fault is to name end with the kernel's name as a comment.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]
#![allow(unused_braces, reason = "each kernel has the same form")]
#![allow(clippy::missing_safety_doc, reason = "`raced!` says what every kernel trusts")]
#![allow(non_camel_case_types, reason = "the atom's name is CuTe's")]

mod block;
mod cluster;
mod copies;
mod grid;
mod product;
mod warp;

use moye_device::arch::{FULL_WARP, Word, sync_threads, sync_warp};
use moye_device::{layout, static_layout};

/// The threads of most blocks.
pub const THREADS: u32 = 64;
/// The blocks of a launch.
pub const BLOCKS: u32 = 2;
/// The words of the buffer, which hold zeros.
pub const WORDS: usize = 1024;

static_layout! {
    /// The shared memory of a block, in words.
    pub Smem = layout!((1024, 1));
}

/// A barrier of the block, or one of the warp that is not enough.
#[inline(always)]
fn barrier_if(right: bool) {
    if right { sync_threads() } else { sync_warp(FULL_WARP) }
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store(address: u32, word: u32) {
    // SAFETY: the caller's contract: within the block's shared memory.
    unsafe { u32::store_shared(address, word) }
}

#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load(address: u32) -> u32 {
    // SAFETY: the caller's contract: within the block's shared memory.
    unsafe { u32::load_shared(address) }
}

/// Kernels of a file, in the list `$list`: blocks of `$threads` threads in clusters of `$cluster`.
macro_rules! raced {
    (
        $list:ident, $threads:tt, $cluster:literal;
        $($(#[$doc:meta])* $name:ident($t:ident, $s:ident, $data:ident, $right:ident) $body:block)*
    ) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The buffer has [`WORDS`](crate::WORDS) words, and the grid has
            /// [`BLOCKS`](crate::BLOCKS) blocks of as many threads as the list says.
            #[moye_device::kernel(threads = $threads, shared = moye_device::memory::SharedArray<u32, $crate::Smem>)]
            pub unsafe fn $name(data: moye_device::memory::GlobalMut<u32>, right: bool) {
                let ($t, $s, $right) = (moye_device::arch::thread_idx().x, moye_device::arch::shared_base(), right);
                let $data = data.address();
                // SAFETY: all addresses of the right kernel are within the buffer, or within the
                // shared memory; what the other one does is for the tools to say.
                unsafe {
                    let value: u32 = $body;
                    let number = moye_device::arch::block_idx().x * $threads + $t;
                    <u32 as moye_device::arch::Word>::store_global(data.address() + 2048 + 4 * u64::from(number), value)
                }
            }
        )*

        /// The kernels of this file.
        #[cfg(not(target_arch = "nvptx64"))]
        pub(crate) const $list: $crate::List = (&[$(&$name),*], $threads, $cluster);
    };
}
use raced;

/// A kernel with a fault.
#[cfg(not(target_arch = "nvptx64"))]
pub type Kernel = moye_device::kernel::Kernel<(moye_device::memory::GlobalMut<u32>, bool)>;

/// Kernels, the threads of their blocks, and the blocks of their clusters.
#[cfg(not(target_arch = "nvptx64"))]
type List = (&'static [&'static Kernel], u32, u32);

/// A kernel and its launch.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy)]
pub struct Raced {
    /// The kernel.
    pub kernel: &'static Kernel,
    /// The threads of a block.
    pub threads: u32,
    /// The blocks of a cluster.
    pub cluster: u32,
}

/// All kernels.
#[cfg(not(target_arch = "nvptx64"))]
pub fn all() -> impl Iterator<Item = Raced> {
    let lists =
        [block::KERNELS, warp::KERNELS, grid::KERNELS, copies::KERNELS, cluster::KERNELS, product::KERNELS];
    lists.into_iter().flat_map(|(kernels, threads, cluster)| {
        kernels.iter().map(move |kernel| Raced { kernel, threads, cluster })
    })
}
