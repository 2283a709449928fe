//! Errors for a tile in shared memory that does not consist of boxes.

use super::tile::MAX_EXTENT;
use crate::layout::{ComposedLayout, Text};

/// The longest message, in bytes.
const MESSAGE: usize = 700;

/// A layout of shared memory that tensor copies cannot fill: the layout, and the reason.
#[derive(Clone, Copy)]
pub struct TmaLayoutError {
    text: Text<MESSAGE>,
}

/// A reason, with its values.
#[derive(Clone, Copy)]
pub(super) enum Reason {
    Rank(usize),
    Offset(i64),
    Element(i64),
    Swizzle,
    NotContiguous,
    Row { run: i64, bits: i64, nearest: [i64; 2] },
    Span { run: i64, span: i64, nearest: [i64; 2] },
    Run { mode: usize, run: i64, multiple: i64, nearest: [i64; 2] },
    Copies { copies: i64 },
    Start { offset: i64, elements: i64 },
}

impl TmaLayoutError {
    /// The message.
    pub const fn text(&self) -> &str {
        self.text.as_str()
    }

    pub(super) const fn new(layout: &ComposedLayout, bits: i64, reason: Reason) -> Self {
        let mut text = Text::<MESSAGE>::new();
        text.str("the tile ");
        layout.write(&mut text);
        text.str(" of ");
        text.int(bits);
        text.str("-bit elements cannot be moved by tensor copies: ");
        match reason {
            Reason::Rank(rank) => {
                text.str("it has ");
                text.size(rank);
                text.str(" modes, and a tensor has 1 to 5 dimensions");
            }
            Reason::Offset(offset) => {
                text.str("it begins at the offset ");
                text.int(offset);
                text.str(", which belongs to the address");
            }
            Reason::Element(bits) => {
                text.str("elements have 8, 16, 32 or 64 bits, not ");
                text.int(bits);
            }
            Reason::Swizzle => {
                text.str("its swizzle is not one of 16-byte pieces in rows of 32, 64 or 128 bytes, Sw<b,");
                text.int((128 / bits).ilog2() as i64);
                text.str(",3> with b up to 3 for these elements");
            }
            Reason::NotContiguous => {
                text.str(
                    "along no mode do elements follow each other; one must, as dimension 0 of the tensor is contiguous",
                );
            }
            Reason::Row { run, bits, nearest } => {
                text.str("of the contiguous mode ");
                text.int(run);
                text.str(" elements follow each other, ");
                text.int(run * bits / 8);
                text.str(" bytes; it must be a multiple of 16 bytes");
                write_nearest(&mut text, nearest);
            }
            Reason::Span { run, span, nearest } => {
                text.str("its rows have ");
                text.int(run);
                text.str(" elements, and those of its swizzle ");
                text.int(span);
                write_nearest(&mut text, nearest);
            }
            Reason::Run { mode, run, multiple, nearest } => {
                text.str("mode ");
                text.size(mode);
                text.str(" has a run of ");
                text.int(run);
                text.str(" elements, and a box at most ");
                text.int(MAX_EXTENT);
                text.str("; no divisor of ");
                text.int(run);
                text.str(" up to that is a multiple of ");
                text.int(multiple);
                text.str(", which boxes need to begin at aligned addresses");
                write_nearest(&mut text, nearest);
            }
            Reason::Copies { copies } => {
                text.str("it falls into ");
                text.int(copies);
                text.str(" boxes, and at most 32 are issued for a tile; give it modes that run through (tile_to_shape_ordered)");
            }
            Reason::Start { offset, elements } => {
                text.str("a box begins at element ");
                text.int(offset);
                text.str(", not a multiple of the ");
                text.int(elements);
                text.str(" that a box is aligned to");
                let below = offset / elements * elements;
                write_nearest(&mut text, [below, below + elements]);
            }
        }
        Self { text }
    }
}

/// Writes the nearest extents that fit.
const fn write_nearest(text: &mut Text<MESSAGE>, [below, above]: [i64; 2]) {
    text.str(": ");
    if below > 0 {
        text.int(below);
        text.str(" and ");
    }
    text.int(above);
    text.str(if below > 0 { " fit" } else { " fits" });
}

impl core::fmt::Display for TmaLayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::fmt::Debug for TmaLayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TmaLayoutError({:?})", self.text())
    }
}

impl core::error::Error for TmaLayoutError {}
