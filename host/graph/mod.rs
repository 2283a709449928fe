//! CUDA graphs: the launches of a piece of work, captured once and launched as a whole.
//!
//! - [`capture`]: [`Device::capture`](crate::Device::capture), and what may not be called
//!   meanwhile;
//! - [`executable`]: [`Graph`] and [`GraphExec`];
//! - [`recording`]: the same on the simulator.

mod capture;
mod executable;
mod recording;

pub(crate) use capture::{not_captured, takes_dependent_launches};
pub use executable::{Graph, GraphExec};
pub(crate) use recording::Recording;
