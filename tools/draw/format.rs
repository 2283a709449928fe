//! The formats of a picture, and their choice by the file name.

use super::error::DrawError;
use super::scene::Scene;
use super::{print_layout, svg, table, tikz, typst};
use std::path::Path;

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// SVG.
    Svg,
    /// A LaTeX document of class `standalone` with a TikZ picture.
    Tikz,
    /// A Typst document of the picture's size.
    Typst,
    /// A table of box-drawing characters for the terminal, coloured or not.
    Table,
    /// The output of MoYe's `print_layout`.
    MoYe,
    /// The output of CuTe's `print_layout`.
    CuTe,
}

/// The colours of an SVG, TikZ or Typst picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Theme {
    /// In SVG the reader's setting; elsewhere light.
    #[default]
    Auto,
    /// For light pages and paper.
    Light,
    /// For dark pages.
    Dark,
}

/// The colours that a terminal supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Colours {
    /// None.
    #[default]
    None,
    /// The 256 of xterm.
    Fixed256,
    /// 24-bit sRGB.
    True,
}

/// The options of a picture's look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// The colours of SVG, TikZ and Typst.
    pub theme: Theme,
    /// The colours of [`Format::Table`].
    pub colours: Colours,
    /// The width in characters at which [`Format::Table`] breaks wide grids into several; `None`
    /// breaks none.
    pub width: Option<usize>,
    /// Whether indices count from 1, as Julia's do.
    pub one_based: bool,
}

impl Style {
    /// The first index.
    pub(super) fn base(&self) -> i64 {
        i64::from(self.one_based)
    }
}

impl Format {
    /// The format of a file's suffix: `.svg`, `.tex` (TikZ), `.typ` (Typst) or `.txt` (MoYe's
    /// `print_layout`).
    ///
    /// # Errors
    /// The suffix is none of these.
    pub fn of_path(path: &Path) -> Result<Self, DrawError> {
        let suffix = path.extension().and_then(|suffix| suffix.to_str()).unwrap_or_default();
        match suffix.to_ascii_lowercase().as_str() {
            "svg" => Ok(Self::Svg),
            "tex" | "tikz" => Ok(Self::Tikz),
            "typ" => Ok(Self::Typst),
            "txt" => Ok(Self::MoYe),
            _ => Err(DrawError::Suffix { path: path.to_owned() }),
        }
    }
}

impl Scene {
    /// Renders the picture in a format.
    ///
    /// ```
    /// use moye_draw::{Format, Style};
    /// use moye_device::layout::layout;
    ///
    /// let scene = moye_draw::layout(&layout!((2, 3):(3, 1))).unwrap();
    /// let text = scene.render(Format::CuTe, &Style::default());
    /// assert_eq!(
    ///     text,
    ///     "(2,3):(3,1)\n      0   1   2 \n    +---+---+---+\n 0  | 0 | 1 | 2 |\n    +---+---+---+\n \
    ///      1  | 3 | 4 | 5 |\n    +---+---+---+\n"
    /// );
    /// ```
    pub fn render(&self, format: Format, style: &Style) -> String {
        match format {
            Format::Svg => svg::svg(self, style),
            Format::Tikz => tikz::tikz(self, style),
            Format::Typst => typst::typst(self, style),
            Format::Table => table::table(self, style),
            Format::MoYe => print_layout::print_layout(self, style, print_layout::Spaces::AfterCommas),
            Format::CuTe => print_layout::print_layout(self, style, print_layout::Spaces::None),
        }
    }
}
