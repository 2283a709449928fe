//! Products built from a tile scheduler, a mainloop, an epilogue and a sink, each a trait that any
//! crate can implement.
//!
//! | part | trait | implementations in this crate |
//! | --- | --- | --- |
//! | the tiles of a block, and the range of K of each | [`TileScheduler`] | [`OneTile`], [`Persistent`], [`SplitK`], [`StreamK`], [`GroupTiles`] |
//! | accumulators from tiles along K | [`Mainloop`], [`WarpSpecialised`] | [`Multistage`], [`TmaWarpSpecialised`], [`PingPong`], [`Promoted`] |
//! | loads of the stages of a mainloop | [`Fill`], for [`Filled`] and [`Promoted`] | [`ByTma`], [`Scaled`] |
//! | processing of the accumulators | [`TileEpilogue`] | [`ByElement`] of an [`Epilogue`] |
//! | processing of one accumulator, by its coordinate | [`Epilogue`] | [`Scale`], [`Bias`], [`Scales`], [`Map`], [`With`] |
//! | stores of a tile from registers | [`Sink`] | [`ToGlobal`], [`ThroughTma`], [`ToSpans`], [`BoxesToSpans`] |
//!
//! Custom parts can use [`Cut`] (the pieces of stream-K), [`Workspace`] (their reduction in
//! memory), [`store_vectors`], [`fill_box`] and [`store_words`] (rows of C at any place in memory),
//! and [`reuse_tile`] and [`store_tile`] (tiles in shared memory that TMA stores).
//!
//! [`gemm`] and [`gemm_warp_specialised`] are the bodies of kernels, which combine one of each. A
//! kernel then consists of its types and a call:
//!
//! ```
//! # #![allow(non_snake_case)]
//! # mod kernels {
//! use half::bf16;
//! use moye_device::atom::tma::TmaMap;
//! use moye_device::atom::wgmma::SM90_64x256x16_F32BF16BF16_SS;
//! use moye_device::atom::TiledMma;
//! use moye_device::collective::{
//!     ByElement, LoadA, LoadB, Mainloop, Persistent, Scale, StorageOf, StoreC, ThroughTma,
//!     TmaWarpSpecialised, gemm_warp_specialised,
//! };
//! use moye_device::layout::{Major, SwizzleBytes, layout, shared_memory_atom, tuple};
//! use moye_device::{kernel, swizzled_layout, tiled_mma};
//!
//! swizzled_layout! {
//!     SmemA = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64, 4))); // (BLK_M, BLK_K, PIPE)
//!     SmemB = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((256, 64, 4))); // (BLK_N, BLK_K, PIPE)
//! }
//! // Two warpgroups, stacked along M.
//! tiled_mma! { Mma: TiledMma<SM90_64x256x16_F32BF16BF16_SS> = TiledMma::new(layout!((2, 1, 1))); }
//! type Loop = TmaWarpSpecialised<bf16, SmemA, SmemB, Mma, 4>;
//! type Store = ThroughTma<bf16>;
//!
//! /// `c = 2 a b^T`, a grid of any number of blocks.
//! ///
//! /// # Safety
//! /// The maps are of matrices (M, K), (N, K) and (M, N) in memory of the device.
//! #[kernel(threads = Loop::THREADS, min_blocks = 1, shared = StorageOf<Loop, Store>)]
//! pub unsafe fn product(
//!     a: TmaMap<LoadA<bf16, SmemA>>,
//!     b: TmaMap<LoadB<bf16, SmemB>>,
//!     c: TmaMap<StoreC<bf16>>,
//!     m: u32,
//!     n: u32,
//!     k: u32,
//! ) {
//!     let scheduler = Persistent::new(Loop::tiles((m, n, k), 1), Loop::worker(), 8);
//!     let epilogue = ByElement::new((m, n), Scale(2.0));
//!     let (operands, sink) = ((a.tensor(), b.tensor()), Store::new(c.tensor()));
//!     gemm_warp_specialised::<Loop, _, _, _>(operands, scheduler, epilogue, sink);
//! }
//! # }
//! ```
//!
//! The guide has [a page](crate::guide::collectives) with a custom epilogue.
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

mod cut;
mod epilogue;
mod filled;
mod fix_up;
mod gemm;
mod load;
mod mainloop;
mod multistage;
mod ping_pong;
mod promoted;
mod promoted_scales;
mod rows;
mod scheduler;
mod sink;
mod spans;
mod split;
mod team;
mod tiles;
mod tma;
mod tma_store;

pub use cut::{Cut, Span};
pub use epilogue::{Bias, ByElement, Coordinate, Epilogue, Map, Scale, Scales, TileEpilogue, With};
pub use filled::{Fill, FillProducer, Filled, WarpsOf};
pub use fix_up::{FixUp, Piece, Workspace};
pub use gemm::{StorageOf, gemm, gemm_warp_specialised};
pub use load::{Load, Loading, TilesAlongK, TransposedLoad, TransposedRegisters};
pub use mainloop::{Accumulators, Mainloop, StageProducer, StagesOf, TileOf, WARPGROUP, WarpSpecialised};
pub use multistage::{Multistage, MultistageConfig};
pub use ping_pong::{PingPong, Turn, Turns};
pub use promoted::{PartOf, Promoted, SCALED_K, Scaled, TileOfParts};
pub use promoted_scales::{BlockScales, Columns, RowScales, ScalesOfB};
pub use rows::{Corner, blocks_of_vectors, fill_box, store_vectors, store_words};
pub use scheduler::{OneTile, Persistent, TileScheduler};
pub use sink::{Batches, Sink, StagingOf, ToGlobal};
pub use spans::{BoxesToSpans, BySpans, GroupTiles, Groups, Paired, RowSpans, Target, ToSpans};
pub use split::{SplitK, StreamK};
pub use team::{Team, TeamStorage};
pub use tiles::{Bands, Tiles, WorkTile, Worker};
pub use tma::{ByTma, LoadA, LoadB, RowsOfA, TmaWarpSpecialised};
pub use tma_store::{BoxLayout, Boxed, BoxesOf, RowOfBoxes, StoreC, ThroughTma, reuse_tile, store_tile};
