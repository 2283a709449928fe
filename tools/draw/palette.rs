//! The colours of pictures, for light and dark pages.
//!
//! The 32 categories were chosen in OKLCH. Candidates are all sRGB colours with nine lightnesses
//! (light: 0.66 to 0.96, dark: 0.22 to 0.52), nine chromas up to 0.18, and hues every 15 degrees,
//! whose contrast with the ink is at least 5.1. Their distance is the least of four in OKLab: as
//! seen with normal vision, with protanopia, with deuteranopia and with tritanopia (the matrices of
//! Machado, Oliveira and Fernandes, 2009, in linear light). Annealing selects and orders 32 of
//! them, such that any two differ, and that adjacent threads of the usual layouts, whose indices
//! differ by 1, 2, 4, 8 or 16, are far apart. Dichromats see lightness and one axis of colour, so
//! for them neighbours differ mostly in lightness. `tests` checks the distances.
//!
//! The ramp has hue 245 and a lightness and chroma that change by equal steps.

use super::scene::{CATEGORIES, Fill, Mark, RAMP_STEPS};

/// A colour of sRGB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rgb {
    /// Red.
    pub red: u8,
    /// Green.
    pub green: u8,
    /// Blue.
    pub blue: u8,
}

impl Rgb {
    const fn hex(code: u32) -> Self {
        Self { red: (code >> 16) as u8, green: (code >> 8) as u8, blue: code as u8 }
    }
}

impl std::fmt::Display for Rgb {
    /// Six hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:02x}{:02x}{:02x}", self.red, self.green, self.blue)
    }
}

/// The colours of a page.
#[derive(Debug)]
pub struct Palette {
    /// The background.
    pub page: Rgb,
    /// Labels, titles, strong borders.
    pub ink: Rgb,
    /// Hierarchical coordinates and notes.
    pub muted: Rgb,
    /// The lines between cells.
    pub line: Rgb,
    /// The corner of a cell with a conflict.
    pub conflict: Rgb,
    /// The colours of categories.
    pub categories: [Rgb; CATEGORIES as usize],
    /// From weak to strong.
    pub ramp: [Rgb; RAMP_STEPS as usize],
}

impl Palette {
    /// The colour of a cell.
    pub fn fill(&self, fill: Fill) -> Rgb {
        match fill {
            Fill::None => self.page,
            Fill::Category(index) => self.categories[usize::from(index % CATEGORIES)],
            Fill::Ramp(step) => self.ramp[usize::from(step.min(RAMP_STEPS - 1))],
        }
    }

    /// The colour of a cell's border.
    pub fn border(&self, mark: Mark) -> Rgb {
        match mark {
            Mark::None => self.line,
            Mark::Accessed | Mark::Conflict => self.ink,
        }
    }
}

const fn colours<const N: usize>(codes: [u32; N]) -> [Rgb; N] {
    let mut colours = [Rgb::hex(0); N];
    let mut i = 0;
    while i < N {
        colours[i] = Rgb::hex(codes[i]);
        i += 1;
    }
    colours
}

/// For light pages.
pub static LIGHT: Palette = Palette {
    page: Rgb::hex(0xFFFFFF),
    ink: Rgb::hex(0x1B1B1F),
    muted: Rgb::hex(0x5A5A64),
    line: Rgb::hex(0x7C7C86),
    conflict: Rgb::hex(0xB3261E),
    categories: colours([
        0xECDE28, 0x87D4B3, 0xA88ED8, 0xCD7769, 0xB7D3D3, 0x6A98B9, 0xECA52D, 0xAABFFC, 0x589FF8, 0xD9F47B,
        0x0EF7F8, 0xD7AD73, 0xFAF6AF, 0x12CECF, 0xB98184, 0xDDF9F2, 0xA4BBB0, 0xB39B59, 0xD5D18B, 0x8CACD5,
        0xE08427, 0x98F1AB, 0x50B3F2, 0xE68C93, 0x6AE1F5, 0x8A7DFA, 0xDB703B, 0x9BFDD3, 0xB1A4B7, 0xF2B458,
        0xBBE4D1, 0xA17ADF,
    ]),
    ramp: colours([0xF0F7FC, 0xDCEBF8, 0xC9DFF4, 0xB5D4EF, 0xA1C8EA, 0x8DBCE6, 0x78B1E1, 0x63A5DB]),
};

/// For dark pages.
pub static DARK: Palette = Palette {
    page: Rgb::hex(0x141418),
    ink: Rgb::hex(0xF4F4F6),
    muted: Rgb::hex(0xB4B4BE),
    line: Rgb::hex(0x7C7C86),
    conflict: Rgb::hex(0xFF8A80),
    categories: colours([
        0x863640, 0x361A5A, 0x435BCF, 0x56343F, 0x172045, 0x3144B5, 0x693D28, 0x350F8C, 0x7750B1, 0x340905,
        0x2B1172, 0x805A7C, 0x351D07, 0x443A56, 0x8D5951, 0x50131E, 0x3C3476, 0x76535D, 0x3E2232, 0x2C3E99,
        0xA44C1D, 0x191731, 0x64619B, 0x9A3B2F, 0x5A2304, 0x453E82, 0x714B09, 0x25151E, 0x4F498E, 0x652D11,
        0x333058, 0x59568F,
    ]),
    ramp: colours([0x161F27, 0x192936, 0x1C3345, 0x1F3D56, 0x214766, 0x225277, 0x245D89, 0x24689B]),
};
