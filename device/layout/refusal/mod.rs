//! Messages of failed operations: the layer above the algebra, which names the mode of an operand
//! that does not fit.
//!
//! The functions of the algebra return a [`Fault`]: two values and the rule. A failed operation
//! passes it here with its operands, and the mode is found afterwards. No function of the algebra
//! imports this module or calls its methods of [`LayoutError`]: `operation!` and similar macros do.
//! The constructors in `error.rs` build errors that concern no mode.

mod find;

use super::error::{CountedIn, LayoutError, MESSAGE, begin_reason};
use super::fault::Fault;
use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::profile::MAX_NODES;
use super::text::{Text, put};
pub(crate) use find::*;

/// The space of a message that is reserved for the reason, after the mode that it concerns.
const REASON: usize = 250;

/// The mode that a failed operation concerns, by its name and the types of its operands.
macro_rules! place {
    (composition; Swizzle $other:ident; $of:tt) => { $crate::layout::refusal::Place::whole() };
    (composition; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_composition $of };
    (composition_tiler; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Compose $of) };
    (logical_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Divide $of) };
    (zipped_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Divide $of) };
    (tiled_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Divide $of) };
    (flat_divide; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Divide $of) };
    (logical_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Multiply $of) };
    (zipped_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Multiply $of) };
    (tiled_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Multiply $of) };
    (flat_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::place!(Multiply $of) };
    (blocked_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_repeats $of };
    (raked_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_repeats $of };
    (tile_to_shape; $($ty:ident)+; ($block:expr, $shape:expr)) => {
        $crate::layout::refusal::of_shape($block, $shape, &$crate::layout::IntTuple::int(0))
    };
    (tile_to_shape_ordered; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_shape $of };
    (with_shape; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_reshaped $of };
    (make_layout; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_difference $of };
    (transform; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_difference $of };
    (inner_product; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_difference $of };
    (idx2crd_strided; $($ty:ident)+; ($index:expr, $shape:expr, $stride:expr)) => {
        $crate::layout::refusal::of_difference($shape, $stride)
    };
    (increment; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::of_coordinate $of };
    ($name:ident; $($ty:ident)+; $of:tt) => { $crate::layout::refusal::Place::whole() };
    ($each:ident ($layout:expr, $tiler:expr)) => {
        $crate::layout::refusal::of_modes($crate::layout::by_mode::Each::$each, "tiler", $layout, $tiler)
    };
}
pub(crate) use place;

impl LayoutError {
    /// [`after`](Self::after) for a fault that concerns a mode.
    pub(crate) const fn at_place(mut text: Text<MESSAGE>, fault: Fault, place: &Place) -> Self {
        let reason = begin_reason(&mut text);
        place.write(&mut text);
        Self::said(text, reason, fault, &place.within)
    }
}

/// The mode that a fault concerns, and its counterpart.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    /// The name of the operand in messages; empty for a mode of two tuples.
    whose: &'static str,
    /// The index of the mode, then of the mode in it, and so on.
    path: [u8; MAX_NODES],
    depth: usize,
    mode: Option<Layout>,
    /// The elements of two tuples at this place.
    tuples: Option<(IntTuple, IntTuple)>,
    /// The complement of the tile, if the fault concerns it.
    rest: Option<Layout>,
    /// The owner of the modes that a sentence counts, if that is not the first operand.
    within: CountedIn,
}

impl Place {
    /// The operands as a whole.
    pub(crate) const fn whole() -> Self {
        Self::of("")
    }

    /// A mode of the operand `whose`, entered step by step.
    const fn of(whose: &'static str) -> Self {
        let path = [0; MAX_NODES];
        Self { whose, path, depth: 0, mode: None, tuples: None, rest: None, within: None }
    }

    const fn enter(&mut self, mode: usize) {
        self.path[self.depth] = mode as u8;
        self.depth += 1;
    }

    const fn leave(&mut self) {
        self.depth -= 1;
    }

    /// "mode (1,0) of the second layout, 3:1: ", if the fault concerns less than the whole.
    const fn write(&self, text: &mut Text<MESSAGE>) {
        text.keep(REASON);
        if self.depth > 0 {
            text.str(if self.depth > 1 { "mode (" } else { "mode " });
            let mut i = 0;
            while i < self.depth {
                put!(text, str(if i > 0 { "," } else { "" }), size(self.path[i] as usize));
                i += 1;
            }
            text.str(if self.depth > 1 { ")" } else { "" });
            if !self.whose.is_empty() {
                put!(text, " of the ", str(self.whose));
            }
            if let Some(mode) = &self.mode {
                put!(text, ", ", layout(mode));
            }
            if let Some((a, b)) = &self.tuples {
                put!(text, ", ", tuple(a), " beside ", tuple(b));
            }
            text.str(": ");
        }
        if let Some(rest) = &self.rest {
            put!(text, "the complement ", layout(rest), " of the tile: ");
        }
        text.give_rest();
    }
}
