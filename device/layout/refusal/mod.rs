//! Refusals in words: the layer above the algebra that says which mode of an operand does not fit,
//! the two numbers, and the rule.
//!
//! The functions of the algebra report a [`Fault`], which is small. An operation that is refused
//! hands it here with its operands, and the mode is looked for after the fact.

mod find;
mod words;

use super::error::{Fault, LayoutError, LayoutErrorKind, MESSAGE};
use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::profile::MAX_NODES;
use super::text::Text;
pub(crate) use find::*;

/// How much of a message is kept free for the reason, behind the mode that it is about.
const REASON: usize = 250;

/// How much is kept free behind the layout whose mode is spoken of.
const RULE: usize = 130;

/// The mode that a refused operation is about, by its name and the types of its operands.
macro_rules! place {
    (composition; Swizzle $other:ident; $of:tt) => { $crate::layout::refusal::Place::whole() };
    (composition; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_composition $of };
    (composition_tiler; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_tiler $of };
    (logical_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_divide $of };
    (zipped_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_divide $of };
    (tiled_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_divide $of };
    (flat_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_divide $of };
    (logical_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_product $of };
    (zipped_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_product $of };
    (tiled_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_product $of };
    (flat_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_product $of };
    (blocked_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_repeats $of };
    (raked_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_repeats $of };
    (tile_to_shape; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_shape $of };
    (tile_to_shape_ordered; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_ordered_shape $of };
    (with_shape; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_reshaped $of };
    (make_layout; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_difference $of };
    (inner_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_difference $of };
    (idx2crd_strided; $($ty:ident)+; ($index:expr, $shape:expr, $stride:expr)) => {
        $crate::layout::refusal::of_difference($shape, $stride)
    };
    (increment; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_coordinate $of };
    ($name:ident; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::Place::whole() };
}
pub(crate) use place;

impl LayoutError {
    /// An error of `operation` on one tuple.
    pub(crate) const fn of_tuple(operation: &str, tuple: &IntTuple, fault: Fault) -> Self {
        let mut text = Text::of_operands();
        text.str(operation);
        text.str("(");
        text.tuple(tuple);
        text.str(")");
        Self::after(text, fault)
    }

    /// An error of `operation` on two tuples, which nest differently or otherwise do not fit.
    pub(crate) const fn of_tuples(operation: &str, a: &IntTuple, b: &IntTuple, fault: Fault) -> Self {
        let mut text = Text::of_operands();
        text.str(operation);
        text.str("(");
        text.tuple(a);
        text.str(", ");
        text.tuple(b);
        text.str(")");
        Self::at_place(text, fault, &of_difference(a, b))
    }

    /// An error whose text begins with `text`, the operation and its operands.
    pub(crate) const fn after(text: Text<MESSAGE>, fault: Fault) -> Self {
        Self::at_place(text, fault, &Place::whole())
    }

    /// [`after`](Self::after), of a fault that is about some mode.
    pub(crate) const fn at_place(mut text: Text<MESSAGE>, fault: Fault, place: &Place) -> Self {
        text.give_rest();
        text.str(": ");
        let reason = text.len();
        place.write(&mut text);
        fault.write(&mut text, place);
        Self { kind: fault.kind(), column: 0, reason, text }
    }

    /// An error in text that was read, which `text` shows, of what stands at `column`.
    pub(crate) const fn at_column(mut text: Text<MESSAGE>, column: usize, fault: Fault) -> Self {
        text.give_rest();
        text.str(": column ");
        text.size(column);
        let mut error = Self::after(text, fault);
        if let LayoutErrorKind::Parse { .. } = error.kind {
            error.kind = LayoutErrorKind::Parse { column };
        }
        error.column = if column > u32::MAX as usize { u32::MAX } else { column as u32 };
        error
    }
}

/// The mode that a fault is about, and what it was put together with.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The operand, as messages call it.
    whose: &'static str,
    /// The index of the mode, of the mode in it, and so on.
    path: [u8; MAX_NODES],
    depth: usize,
    /// The mode itself.
    part: Option<Part>,
    /// What the modes that the fault names are modes of, where that is not the first operand.
    within: Option<Within>,
    /// What steps through it, where that is not one mode alone.
    steps: &'static str,
}

// There is one at a time, on the way to a message, and no heap during constant evaluation.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Copy)]
enum Part {
    Mode(Layout),
    /// The complement of a tile.
    Rest {
        tile: Layout,
        rest: Layout,
    },
    /// What two tuples have there.
    Tuples(IntTuple, IntTuple),
}

#[derive(Clone, Copy)]
enum Within {
    Mode(Layout),
    Complement(Layout),
}

impl Place {
    /// The operands as a whole.
    pub(crate) const fn whole() -> Self {
        Self {
            whose: "",
            path: [0; MAX_NODES],
            depth: 0,
            part: None,
            within: None,
            steps: "the second layout",
        }
    }

    const fn enter(&mut self, mode: usize) {
        self.path[self.depth] = mode as u8;
        self.depth += 1;
    }

    const fn leave(&mut self) {
        self.depth -= 1;
    }

    /// "mode 1", "mode (1,0)".
    const fn write_path<const N: usize>(&self, text: &mut Text<N>) {
        text.str("mode ");
        if self.depth > 1 {
            text.str("(");
        }
        let mut i = 0;
        while i < self.depth {
            if i > 0 {
                text.str(",");
            }
            text.size(self.path[i] as usize);
            i += 1;
        }
        if self.depth > 1 {
            text.str(")");
        }
    }

    /// "mode 1 of the second layout, 3:1: ", if the fault is about less than the whole.
    const fn write<const N: usize>(&self, text: &mut Text<N>) {
        let by_path = self.depth > 0 && !self.whose.is_empty();
        text.keep(REASON);
        match &self.part {
            Some(Part::Rest { tile, rest }) => {
                text.str("the complement ");
                text.layout(rest);
                text.str(" of the tile ");
                text.layout(tile);
                if by_path {
                    text.str(" (");
                    self.write_path(text);
                    text.str(" of the tiler)");
                }
                text.str(": ");
            }
            part if by_path => {
                self.write_path(text);
                text.str(" of the ");
                text.str(self.whose);
                if let Some(Part::Mode(mode)) = part {
                    text.str(", ");
                    text.layout(mode);
                }
                text.str(": ");
            }
            _ => {}
        }
        text.give_rest();
    }

    /// " of mode 0 (modes coalesced) of the complement (2,9):(4,60)".
    const fn write_mode<const N: usize>(&self, text: &mut Text<N>, mode: usize) {
        text.str(" mode ");
        text.size(mode);
        text.str(" (modes coalesced)");
        text.keep(RULE);
        match &self.within {
            Some(Within::Mode(layout)) => {
                text.str(" of ");
                text.layout(layout);
            }
            Some(Within::Complement(layout)) => {
                text.str(" of the complement ");
                text.layout(layout);
            }
            None => {}
        }
        text.give_rest();
    }

    /// " at mode (1,0), 3 beside (1,2)", of two tuples.
    const fn write_difference<const N: usize>(&self, text: &mut Text<N>) {
        if let Some(Part::Tuples(a, b)) = &self.part
            && self.depth > 0
        {
            text.str(" at ");
            self.write_path(text);
            text.keep(RULE);
            text.str(": ");
            text.tuple(a);
            text.str(" beside ");
            text.tuple(b);
            text.give_rest();
        }
    }
}
