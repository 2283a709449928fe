//! The host's side of `moye_device::algorithm`: plans of kernels along rows, and launches of maps.
//!
//! Operations of these two families use them, through [`operation`](crate::operation); what every
//! operation has in common is there.

mod map;
mod rows;

pub use map::{broadcast_shape, map_grid, map_launches};
pub use rows::{RowInstance, RowPlan, RowProblem};
