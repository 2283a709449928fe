//! Errors for a tile in shared memory that cannot be an operand.

use crate::layout::{ComposedLayout, IntTuple, Major, SwizzleBytes, Text, shared_memory_atom};

/// The longest message, in bytes.
const MESSAGE: usize = 900;

/// A layout of shared memory without a matrix descriptor: the layout, the reason, and the nearest
/// layout that has one.
#[derive(Clone, Copy)]
pub struct WgmmaLayoutError {
    text: Text<MESSAGE>,
}

/// A reason, with its values.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    /// The tile does not have two modes.
    Rank(usize),
    /// The layout has a nonzero offset.
    Offset(i64),
    /// The hardware does not support the swizzle.
    Swizzle,
    /// The type cannot be MN-major.
    MajorOfType,
    /// An extent of the tile, and what does not divide it.
    Extent { mode: usize, extent: i64, by: i64 },
    /// The 16 bytes that start at an index of a mode are not contiguous.
    Torn { mode: usize, index: i64, next: i64, gap: i64 },
    /// A piece is not aligned to 16 bytes.
    Unaligned { mode: usize, index: i64, offset: i64 },
    /// A piece is not at the address that the instruction reads.
    Place { mode: usize, index: i64, found: i64, wanted: i64 },
    /// A row of the swizzle is longer than the instruction's tile.
    RowTooLong { row: i64, rows: i64 },
    /// An instruction's tile begins within the 8 rows of a swizzle.
    Start { index: i64, offset: i64, pattern: i64 },
    /// An offset is too large for the descriptor, or negative.
    Far { offset: i64 },
}

impl WgmmaLayoutError {
    /// The message.
    pub const fn text(&self) -> &str {
        self.text.as_str()
    }

    pub(super) const fn new(
        layout: &ComposedLayout,
        bits: i64,
        major: Major,
        rows: i64,
        k: i64,
        reason: Reason,
    ) -> Self {
        let mut text = Text::<MESSAGE>::new();
        text.str("the tile ");
        layout.write(&mut text);
        text.str(" of ");
        text.int(bits);
        text.str(match major {
            Major::K => "-bit elements, K-major, has no matrix descriptor for ",
            Major::Mn => "-bit elements, MN-major, has no matrix descriptor for ",
        });
        text.int(rows);
        text.str(" x ");
        text.int(k);
        text.str(" of wgmma: ");
        write_reason(&mut text, reason, bits);
        write_nearest(&mut text, layout, bits, major, rows, k);
        Self { text }
    }
}

const fn mode_name(mode: usize) -> &'static str {
    if mode == 0 { "M (or N)" } else { "K" }
}

const fn write_reason<const N: usize>(text: &mut Text<N>, reason: Reason, bits: i64) {
    match reason {
        Reason::Rank(rank) => {
            text.str("it has ");
            text.size(rank);
            text.str(" modes, and a tile has two, M (or N) and K");
        }
        Reason::Offset(offset) => {
            text.str("it begins at the offset ");
            text.int(offset);
            text.str(", which belongs to the address");
        }
        Reason::Swizzle => {
            text.str("its swizzle is not one of 16-byte pieces in rows of 32, 64 or 128 bytes, Sw<b,");
            text.int((128 / bits).ilog2() as i64);
            text.str(",3> with b up to 3 for these elements");
        }
        Reason::MajorOfType => text.str("only elements of 16 bits may be MN-major"),
        Reason::Extent { mode, extent, by } => {
            text.str("its extent along ");
            text.str(mode_name(mode));
            text.str(" is ");
            text.int(extent);
            text.str(", not a multiple of ");
            text.int(by);
        }
        Reason::Torn { mode, index, next, gap } => {
            text.str("elements ");
            text.int(index);
            text.str(" and ");
            text.int(next);
            text.str(" along ");
            text.str(mode_name(mode));
            text.str(" are ");
            text.int(gap);
            text.str(" apart, and 16 bytes of them must be contiguous");
        }
        Reason::Unaligned { mode, index, offset } => {
            text.str("element ");
            text.int(index);
            text.str(" along ");
            text.str(mode_name(mode));
            text.str(" is at offset ");
            text.int(offset);
            text.str(", not a multiple of ");
            text.int(128 / bits);
            text.str(", which is 16 bytes");
        }
        Reason::Place { mode, index, found, wanted } => {
            text.str("element ");
            text.int(index);
            text.str(" along ");
            text.str(mode_name(mode));
            text.str(" is ");
            text.int(found);
            text.str(" elements after the first of its instruction, which reads it at ");
            text.int(wanted);
        }
        Reason::RowTooLong { row, rows } => {
            text.str("a row of its swizzle has ");
            text.int(row);
            text.str(" elements, and the instruction takes ");
            text.int(rows);
        }
        Reason::Start { index, offset, pattern } => {
            text.str("the instruction's tile that begins at element ");
            text.int(index);
            text.str(" is at offset ");
            text.int(offset);
            text.str(", inside the ");
            text.int(pattern);
            text.str(" elements after which the swizzle repeats");
        }
        Reason::Far { offset } => {
            text.str("an offset of ");
            text.int(offset);
            text.str(" pieces of 16 bytes, of which a descriptor holds 0 to 16383");
        }
    }
}

/// Writes the layout with the widest swizzle that fits, for the same extents if possible.
const fn write_nearest<const N: usize>(
    text: &mut Text<N>,
    layout: &ComposedLayout,
    bits: i64,
    major: Major,
    rows: i64,
    k: i64,
) {
    // MN-major needs 16 bits; other types are K-major.
    let major = if bits == 16 { major } else { Major::K };
    let (mn, depth) = if layout.rank() == 2 {
        (round_up(layout.layout.extent(0), rows), round_up(layout.layout.extent(1), k))
    } else {
        (rows, k)
    };
    let mut bytes = 128;
    loop {
        let row = bytes * 8 / bits;
        let fits = match major {
            Major::K => depth % row == 0,
            Major::Mn => rows % row == 0,
        };
        if fits || bytes == 16 {
            break;
        }
        bytes /= 2;
    }
    let Some(swizzle) = SwizzleBytes::of_row(bytes) else { return };
    let atom = shared_memory_atom(major, swizzle, bits);
    text.str("; ");
    if let Ok(nearest) = atom.try_tile_to_shape(IntTuple::flat(&[mn, depth])) {
        nearest.write(text);
        text.str(" has one: shared_memory_atom(Major::");
        text.str(match major {
            Major::K => "K",
            Major::Mn => "Mn",
        });
        text.str(", SwizzleBytes::");
        text.str(match swizzle {
            SwizzleBytes::None => "None",
            SwizzleBytes::B32 => "B32",
            SwizzleBytes::B64 => "B64",
            SwizzleBytes::B128 => "B128",
        });
        text.str(", ");
        text.int(bits);
        text.str(").tile_to_shape(tuple!((");
        text.int(mn);
        text.str(", ");
        text.int(depth);
        text.str(")))");
    }
}

const fn round_up(value: i64, multiple: i64) -> i64 {
    (value + multiple - 1) / multiple * multiple
}

impl core::fmt::Display for WgmmaLayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::fmt::Debug for WgmmaLayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "WgmmaLayoutError({:?})", self.text())
    }
}
