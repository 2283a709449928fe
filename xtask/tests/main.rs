//! The commands of `cargo xtask`, and the files of the checkout that they publish.

mod bundle_run;
mod guide;
mod packages;
mod ptx;
mod setup;
mod surface;
