//! Algorithms over tensors: `copy`, `gemm`, `fill` and related functions.
//!
//! [`copy()`], [`copy_elements_if`] and [`gemm()`] take tensors as they are. Copies and products by
//! the atom of a [`TiledCopy`](crate::atom::TiledCopy) or [`TiledMma`](crate::atom::TiledMma) are
//! methods of a thread's slice of it, [`ThrCopy`](crate::atom::ThrCopy) and
//! [`ThrMma`](crate::atom::ThrMma), over tensors that were partitioned by it.
//!
//! They work on any memory: global, shared, registers. Here a block of 32 threads scales and adds
//! columns of a matrix through fragments; [the guide](crate::guide::tiling) shows tiled copies and
//! products.
//!
//! ```
//! # #![allow(non_snake_case)]
//! use moye_device::algorithm::{axpby, copy, fill, transform};
//! use moye_device::arch::thread_idx;
//! use moye_device::layout::layout;
//! use moye_device::memory::{Global, GlobalMut};
//! use moye_device::static_layout;
//! use moye_device::tensor::{Aligned, Matrix, UnitStride};
//! # use moye_sim::{GlobalMemory, Launch};
//!
//! static_layout! {
//!     Tile = layout!((4, 32));
//!     Threads = layout!((1, 32));
//! }
//!
//! /// `y = 2 * (x + 1) + 3 * y`, and a column of sevens where `x` has none.
//! fn kernel(x: Global<f32>, columns: u32, y: GlobalMut<f32>) {
//!     let thread = thread_idx().x;
//!     let strides = Aligned::<_, 16>(UnitStride::<0>(4));
//!     let gX = Matrix::new(x, (4, columns), strides).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
//!     let gY = Matrix::new(y, (4, 32), strides).local_tile::<Tile, _>((0, 0)); // (BLK_M, BLK_N)
//!     let tXgX = gX.local_partition::<Threads>(thread); // (THR_M, THR_N): a column
//!     let mut tXgY = gY.local_partition::<Threads>(thread); // (THR_M, THR_N)
//!     // SAFETY: each thread has a column to itself, and its fragments are written before they are read.
//!     unsafe {
//!         let (mut tXrX, mut tXrY) = (tXgY.make_fragment_like(), tXgY.make_fragment_like());
//!         if thread < columns {
//!             // Both sides allow 16 bytes: one load of four f32 each.
//!             copy(&tXgX, &mut tXrX);
//!             copy(&tXgY, &mut tXrY);
//!             let mut sum = tXgY.make_fragment_like();
//!             transform(&tXrX, &mut sum, |x| x + 1.0);
//!             axpby(2.0, &sum, 3.0, &mut tXrY);
//!         } else {
//!             fill(&mut tXrY, 7.0);
//!         }
//!         copy(&tXrY, &mut tXgY);
//!     }
//! }
//!
//! # let memory = GlobalMemory::new();
//! # let floats = |values: &[f32]| values.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
//! # let (x, y) = (memory.alloc(4 * 4 * 31, "x").unwrap(), memory.alloc(4 * 4 * 32, "y").unwrap());
//! # x.write(0, &floats(&(0..124).map(|i| i as f32).collect::<Vec<_>>())).unwrap();
//! # y.write(0, &floats(&[1.0; 128])).unwrap();
//! # let (from, to) = (x.address(), y.address());
//! # Launch::new("kernel", 1, 32, &memory)
//! #     .run(&|| kernel(Global::from_address(from), 31, GlobalMut::from_address(to)))
//! #     .unwrap();
//! # let mut bytes = vec![0; 4 * 4 * 32];
//! # y.read(0, &mut bytes).unwrap();
//! # let y: Vec<f32> = bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
//! // `x` holds 0, 1, 2, ... in 31 columns of four, `y` ones in 32. Afterwards:
//! assert_eq!(y[..4], [5.0, 7.0, 9.0, 11.0]);
//! assert_eq!(y[120..], [245.0, 247.0, 249.0, 251.0, 7.0, 7.0, 7.0, 7.0]);
//! ```

mod between;
mod convert;
mod copy;
mod copy_tiled;
mod elementwise;
mod fill;
mod fragments;
mod gemm;
mod gemm_tiled;
mod lanes;
mod map;
mod map_modes;
mod reduction;
mod row;
mod row_access;
mod row_ahead;
mod row_chunks;
mod row_sums;
mod row_team;
mod sliced;
mod stream;
mod transpose;

pub use crate::atom::mma::AddsInPlace;
pub use between::{GlobalToShared, SharedToRegisters};
pub use convert::{ConvertAll, CopyAs, Eight};
pub use copy::{copy, copy_async, copy_elements_if};
pub use copy_tiled::{CopyDestination, CopySource, ReadBy, WrittenBy};
pub(crate) use copy_tiled::{TiledCall, copy_if, copy_tiled};
pub use elementwise::{axpby, transform};
pub use fill::{clear, fill};
pub use fragments::{FromRegisters, ToRegisters};
pub use gemm::gemm;
pub(crate) use gemm_tiled::{gemm_tiled_into, results_fit};
pub use lanes::{
    block_reduce, block_scan, lanes_reduce, quad_reduce, quad_transpose, warp_reduce, warp_scan,
    warp_scan_exclusive, warpgroup_reduce,
};
pub use map::{MapInputs, MapPointers, load_vector_if, map, store_vector_if};
pub use map_modes::{FastDivmod, MAP_THREADS, MapModes, MapPlace};
#[cfg(not(target_arch = "nvptx64"))]
pub use map_modes::{MapLaunch, MapOperand};
pub use reduction::{ArgMax, LogSumExp, Max, Reduction, SquareSum, Sum, Variance};
pub use row::{
    AnyBlock, AnyBlock512, AnyChunked, AnyCluster, AnyWarp, Block128, Block256, Block512, Block1024, Chunked,
    Cluster512, Cluster1024, ClusterBlocks, Lanes4, Lanes8, OneBlock, RowBlocks, RowCopy, RowCopyWith,
    RowScratch, RowShape, RowStride, RowStrides, RowTile, StridesOf, Warp,
};
pub use row_ahead::RowStage;
pub use row_chunks::Chunks;
pub use row_sums::RowSums;
pub use row_team::RowTeam;
pub use stream::RowPart;
pub use transpose::transpose_paired;
