//! The runtime on every available device, in one program: linking three takes longer than compiling
//! them.

#[path = "../fixtures/common/mod.rs"]
mod common;

mod graphs;
mod launches;
mod streams;
