//! Pictures: what they show, in every format.

#[cfg(feature = "cli")]
#[path = "draw/cli.rs"]
mod cli;
#[path = "draw/common.rs"]
mod common;
#[path = "draw/formats.rs"]
mod formats;
#[path = "draw/golden.rs"]
mod golden;
#[path = "draw/kinds.rs"]
mod kinds;
#[path = "draw/palette.rs"]
mod palette;
#[cfg(feature = "cli")]
#[path = "draw/pictures.rs"]
mod pictures;
#[path = "draw/space.rs"]
mod space;
#[path = "draw/typeset.rs"]
mod typeset;
