//! TMA: moves tiles between global and shared memory by tensor copies.
//!
//! A tensor copy moves a *box*: dense in shared memory except for the swizzle, with dimension 0
//! fastest, up to 256 elements along each dimension, and with a swizzle no longer along dimension 0
//! than the swizzle's span. A [`TmaTile`] is the list of boxes that make up a tile with a given
//! layout in shared memory. It is a constant: the kernel issues a copy for each box, and the host
//! builds the tensor map from the same value ([`TmaTile::tensor_map`]), so that the two agree.
//!
//! ```
//! use moye_device::atom::tma::TmaTile;
//! use moye_device::layout::{ComposedLayout, Major, SwizzleBytes, layout, shared_memory_atom, tuple};
//! use moye_sim::{TensorElement, TensorSwizzle};
//!
//! // 128 x 64 elements of 16 bits, K contiguous, in rows of 128 bytes that are swizzled: one box.
//! const A: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((128, 64)));
//! const TILE: TmaTile = TmaTile::new(A, 16);
//! assert_eq!((TILE.copies(), TILE.bytes()), (1, 128 * 64 * 2));
//!
//! // A row-major matrix with 1000 rows of 512 elements, K running fastest.
//! let map = TILE.tensor_map(TensorElement::Bf16, 0x1000, &layout!((1000, 512):(512, 1)))?;
//! assert_eq!((map.extents[..2].to_vec(), map.strides[0]), (vec![512, 1000], 1024));
//! assert_eq!((map.box_extents[..2].to_vec(), map.swizzle), (vec![64, 128], TensorSwizzle::B128));
//!
//! // A matrix whose rows are not a multiple of 16 bytes apart cannot be copied so.
//! let error = TILE.tensor_map(TensorElement::Bf16, 0x1000, &layout!((1000, 500):(500, 1))).unwrap_err();
//! assert!(error.to_string().contains("the stride of dimension 1 of the tensor is 1000 bytes"));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

mod copy;
mod error;
#[cfg(not(target_arch = "nvptx64"))]
mod map;
#[cfg(test)]
mod tests;
mod tile;

pub(crate) use copy::SameTile;
pub use copy::{PartLayout, ThrTma, TileNumbers, TmaCopy, TmaMap, TmaTensor, TmaTiled};
pub use error::TmaLayoutError;
#[cfg(not(target_arch = "nvptx64"))]
pub use map::{TmaElement, TmaMapError};
pub use tile::TmaTile;
