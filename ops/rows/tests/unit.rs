//! Unit tests of parts of the library. They are apart from it: as tests of the library they would
//! compile all of its kernels for the simulator once more.
#![allow(dead_code, reason = "the tests need some of it")]

#[cfg(feature = "quantize")]
#[path = "../quantize/kernel.rs"]
mod kernel;
#[cfg(feature = "quantize")]
#[path = "../place.rs"]
mod place;
#[path = "../plan.rs"]
mod plan;
#[path = "../rows.rs"]
mod rows;

use moye_rows::PTX;
