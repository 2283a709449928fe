//! CUDA graphs: launches that are captured once and launched as a whole.
//!
//! - [`capture`][]: [`Device::capture`](crate::Device::capture);
//! - [`executable`]: [`Graph`] and [`GraphExec`].

mod capture;
mod executable;

pub use executable::{Graph, GraphExec};
