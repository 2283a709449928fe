//! Pictures: their contents, in every format.

mod common;
mod formats;
mod golden;
mod kinds;
mod palette;
mod space;
mod typeset;
