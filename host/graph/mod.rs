//! CUDA graphs: launches that are captured once and launched as a whole.
//!
//! - [`capture`]: [`Device::capture`](crate::Device::capture), and the calls that are not allowed
//!   meanwhile;
//! - [`executable`]: [`Graph`] and [`GraphExec`];
//! - [`recording`]: graphs on the simulator.

mod capture;
mod executable;
mod recording;

pub(crate) use capture::{not_captured, takes_dependent_launches};
pub use executable::{Graph, GraphExec};
pub(crate) use recording::Recording;
