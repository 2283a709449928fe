//! CUDA graphs: launches that are captured once and launched as a whole.
//!
//! - [`capture`]: [`Device::capture`](crate::Device::capture), and the calls that are not allowed
//!   meanwhile;
//! - [`executable`]: [`Graph`] and [`GraphExec`];
//! - [`recording`]: graphs on the simulator;
//! - [`simulated`]: streams of the simulator, which may take part in a capture;
//! - [`fault`]: uses of streams and events that a capture does not allow.

mod capture;
mod executable;
mod fault;
mod recording;
mod simulated;

pub(crate) use capture::{not_captured, takes_dependent_launches};
pub use executable::{Graph, GraphExec};
pub(crate) use fault::{of_code, of_wait};
pub(crate) use simulated::{Capture, Recorded, Simulated};
