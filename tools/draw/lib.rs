//! Pictures of layouts, thread-value layouts, tiled copies and MMAs.
//!
//! A function for each kind of picture returns a [`Scene`]: grids of labelled, coloured cells.
//! [`Scene::render`] writes it in a [`Format`]: SVG, LaTeX (TikZ), Typst, a table for the terminal,
//! or the output of MoYe's and CuTe's `print_layout`.
//!
//! ```
//! use moye_draw::{Format, Style};
//! use moye_device::layout::layout;
//!
//! let scene = moye_draw::layout(&layout!((8, 8):(8, 1))).unwrap();
//! let svg = scene.render(Format::Svg, &Style::default());
//! assert!(svg.starts_with("<svg"));
//! ```
//!
//! The `print_layout` forms, on the layouts of CuTe's page on layouts and MoYe's reference:
//!
//! ```
//! use moye_draw::{Format, Style};
//! use moye_device::layout::layout;
//!
//! let lines = |text: String| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
//! let scene = moye_draw::layout(&layout!((2, (2, 2)):(4, (2, 1)))).unwrap();
//! assert_eq!(
//!     lines(scene.render(Format::CuTe, &Style::default())),
//!     [
//!         "(2,(2,2)):(4,(2,1))",
//!         "      0   1   2   3",
//!         "    +---+---+---+---+",
//!         " 0  | 0 | 2 | 1 | 3 |",
//!         "    +---+---+---+---+",
//!         " 1  | 4 | 6 | 5 | 7 |",
//!         "    +---+---+---+---+",
//!     ]
//! );
//!
//! let scene = moye_draw::layout(&layout!((4, (2, 2)):(2, (1, 8)))).unwrap();
//! assert_eq!(
//!     lines(scene.render(Format::MoYe, &Style { one_based: true, ..Style::default() })),
//!     [
//!         "(4, (2, 2)):(2, (1, 8))",
//!         "       1    2    3    4",
//!         "    +----+----+----+----+",
//!         " 1  |  1 |  2 |  9 | 10 |",
//!         "    +----+----+----+----+",
//!         " 2  |  3 |  4 | 11 | 12 |",
//!         "    +----+----+----+----+",
//!         " 3  |  5 |  6 | 13 | 14 |",
//!         "    +----+----+----+----+",
//!         " 4  |  7 |  8 | 15 | 16 |",
//!         "    +----+----+----+----+",
//!     ]
//! );
//! ```
//!
//! The trait [`Draw`] draws tiled copies and tiled MMAs.
#![deny(missing_docs)]

mod error;
mod format;
mod geometry;
mod grid;
mod palette;
mod print_layout;
mod scene;
mod shared_memory;
mod svg;
mod table;
mod thread_value;
mod tikz;
mod tiled;
mod typst;

pub use error::{DrawError, MAX_CELLS};
pub use format::{Colours, Format, Style, Theme};
pub use grid::layout;
pub use palette::{DARK, LIGHT, Palette, Rgb};
pub use scene::{CATEGORIES, Cell, Fill, Grid, Heading, Label, Mark, Panel, RAMP_STEPS, Scene};
pub use shared_memory::{Memory, banks, swizzle};
pub use thread_value::{mma, thread_value, tiled_copy, tiled_copy_of};
pub use tiled::{Draw, title_of_copy};

/// The crate's page in a registry.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
