//! Attention on Hopper: one body for whole tensors, variable lengths, pages and 8-bit floats.
//!
//! - `config`: the shape of a kernel as a type; `shapes`: all shapes; `layouts`: their layouts.
//! - `forward`: the body, and the order of work of each source of keys; `source`: the producer.
//! - `mainloop`: a consumer's loop over keys; `scores`: its score policies.
//! - `rows`: a thread's rows of a tile of queries.
//! - `store`: Q to shared memory, O to global memory; `schedule`: the tiles of a persistent block.
//! - `arrival`: splits reduced by the block that arrives last.
//! - `e4m3`: 8-bit floats with scale factors; `e4m3_mainloop`: their loop over keys.
//!
//! Functions without a contract have the contract of [`forward`].
//! All threads of a consumer warpgroup call them together; the producer calls the functions of
//! `source`.

mod arrival;
mod config;
mod e4m3;
mod e4m3_mainloop;
#[allow(unused_imports, unused_macros, reason = "each feature has some of the kernels")]
pub(super) mod entries;
mod forward;
mod layouts;
mod mainloop;
mod rows;
mod schedule;
mod scores;
mod shapes;
mod source;
mod store;

pub use config::{BOX, HopperConfig, SMALL_BOX, STAGES, WARPGROUP};
pub use e4m3::{E4m3Storage, Scale, ScaledMaps, Scales};
pub use forward::{KeyMaps, KeySource, forward};
#[cfg(test)]
pub(super) use layouts::piece;
pub use layouts::*;
pub use schedule::Tiles;
#[cfg(not(target_arch = "nvptx64"))]
pub use schedule::even_section;
pub use scores::CHUNK;
pub use shapes::*;
pub use source::Maps;
