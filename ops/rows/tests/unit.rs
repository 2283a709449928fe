//! Unit tests of parts of the library. Inside the library they would compile all of its kernels for
//! the simulator again.
#![allow(dead_code, reason = "the tests need some of it")]

#[path = "../code.rs"]
mod code;
#[path = "../plan.rs"]
mod plan;
#[path = "../rows.rs"]
mod rows;

use moye_rows::PTX;
