//! The colours of pictures, for light and dark pages.
//!
//! The 32 categories were chosen in OKLCH: candidates are all colours of sRGB with six lightnesses (light: 0.66 to 0.95,
//! dark: 0.26 to 0.50), chromas of 0.03, 0.07, 0.11 and 0.15, and hues every 15 degrees, whose contrast with the ink is
//! at least 5.1. Their distance is the least of three in OKLab: as seen with normal vision, with protanopia and with
//! deuteranopia (the matrices of Machado, Oliveira and Fernandes, 2009, in linear light). Farthest-point search takes
//! 32; annealing then orders them so that threads that stand side by side in the usual layouts, whose numbers differ by
//! 1, 2, 4, 8 or 16, are far apart. Dichromats see lightness and one axis of colour, so it is mostly by lightness that
//! neighbours differ for them. `tests/draw.rs` holds the distances.
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
    /// Behind everything.
    pub page: Rgb,
    /// Labels, titles, strong borders.
    pub ink: Rgb,
    /// Hierarchical coordinates and notes.
    pub muted: Rgb,
    /// Between cells.
    pub line: Rgb,
    /// The corner of a cell in conflict.
    pub conflict: Rgb,
    /// What tells things apart.
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
        0xACCDF8, 0x90ABAA, 0xF0C543, 0xB5D1D0, 0xDBFACB, 0xDDB227, 0x9ABAE4, 0xD168A7, 0xC1D582, 0xA7EBF8,
        0x85B18E, 0xF9F39B, 0x8A82E9, 0xAFBCA9, 0xCAE9BB, 0x9CB4FE, 0x869889, 0xEDE361, 0x9C95FE, 0xA39160,
        0xA7BAC9, 0xBBFFF0, 0x86B46D, 0xB7D5A8, 0x8B88D3, 0xD37812, 0xCDE5D9, 0x93A3D1, 0x99C77F, 0xFEF473,
        0x8D8DBC, 0xDA950B,
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
        0x3A2786, 0x397059, 0x3C4D59, 0x435AB8, 0x433F09, 0x463F83, 0x1D3539, 0x535E2F, 0x305D7B, 0x2A202E,
        0x2D3F9A, 0x3B6987, 0x0F0E6B, 0x2C4149, 0x455D61, 0x1C2967, 0x3B402E, 0x534D92, 0x2D2A52, 0x504C1A,
        0x47456F, 0x301F18, 0x5C6C14, 0x5E589F, 0x2A1A40, 0x434E3E, 0x2C3504, 0x3A3760, 0x516770, 0x221556,
        0x394EAA, 0x2A3424,
    ]),
    ramp: colours([0x161F27, 0x192936, 0x1C3345, 0x1F3D56, 0x214766, 0x225277, 0x245D89, 0x24689B]),
};
