//! The memory cost of a warp's access, computed at compile time from its layout: sectors of global
//! memory, and bank conflicts in shared memory.
//!
//! A kernel can assert its design at compile time:
//!
//! ```
//! use moye_device::analysis::{global_access, shared_access};
//! use moye_device::layout::{ComposedLayout, Layout, layout};
//!
//! // 32 x 8 threads, each 4 consecutive f32 of a column-major tile: (thread, value) to the element.
//! const COPY: Layout = layout!((256, 4):(4, 1));
//! const _: () = assert!(global_access(COPY, 32, 4).is_coalesced());
//!
//! // A warp reads a row of a column-major 32 x 32 tile: one bank, 32 times. A padded column frees it.
//! const ROW: Layout = layout!((32, 1):(32, 0));
//! const PADDED: Layout = layout!((32, 1):(33, 0));
//! const _: () = assert!(shared_access(ComposedLayout::plain(ROW), 32, 1).conflict_degree() == 32);
//! const _: () = assert!(shared_access(ComposedLayout::plain(PADDED), 32, 1).is_conflict_free());
//! ```
//!
//! # The model
//! - Global memory moves in *sectors* of 32 bytes, aligned to 32. A warp's request moves every
//!   sector that it accesses, once. (CUDA C++ Best Practices Guide, "Coalesced access to global
//!   memory", for compute capability 6.0 and later.)
//! - Shared memory has 32 *banks* of 4 bytes: consecutive words are in consecutive banks, and each
//!   bank delivers one word per *wavefront*; lanes that read the same word share it. The conflict
//!   degree is the largest number of different words from one bank. (CUDA C++ Programming Guide,
//!   "Shared memory", for compute capability 5.x and later.)
//! - An access of 8 or 16 bytes is served in *phases*, one for each half or quarter of the warp in
//!   the order of lanes, since 32 banks deliver 128 bytes at a time. The guides do not document
//!   this; Nsight Compute's count of wavefronts shows it, and NVIDIA's engineers confirm it in its
//!   forum. `ldmatrix` and `stmatrix` take 8 rows of 16 bytes in a phase, one matrix each.
//!
//! Base addresses are assumed to be aligned to 128 bytes, as arrays in shared memory and buffers in
//! global memory are.

mod access;
mod warp;

pub(crate) use access::requests;
pub use access::{
    AccessError, AccessReport, global_access, matrix_access, shared_access, try_global_access,
    try_matrix_access, try_shared_access,
};
pub use warp::{BANKS, SECTOR_BYTES, WarpAccess};
