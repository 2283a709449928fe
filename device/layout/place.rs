//! Where in the operands a fault is: looked for after the fact, so that the functions of the
//! algebra carry nothing along.

mod find;

use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::profile::MAX_NODES;
use super::text::Text;
pub(crate) use find::*;

/// How much of a message is kept free for the reason, behind the mode that it is about.
const REASON: usize = 250;

/// How much is kept free behind the layout whose mode is spoken of.
const ADVICE: usize = 130;

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
    /// Whether it is the block of a product that does not fit.
    is_block: bool,
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
    pub const fn whole() -> Self {
        Self {
            whose: "",
            path: [0; MAX_NODES],
            depth: 0,
            part: None,
            is_block: false,
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
    pub const fn write<const N: usize>(&self, text: &mut Text<N>) {
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
    pub const fn write_mode<const N: usize>(&self, text: &mut Text<N>, mode: usize) {
        text.str(" mode ");
        text.size(mode);
        text.str(" (modes coalesced)");
        text.keep(ADVICE);
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

    /// What the modes that a fault names are modes of, and what steps through it.
    pub const fn is_in_first(&self) -> bool {
        self.within.is_none()
    }

    pub const fn steps(&self) -> &'static str {
        self.steps
    }

    /// " at mode (1,0), 3 beside (1,2)", of two tuples.
    pub const fn write_difference<const N: usize>(&self, text: &mut Text<N>) {
        if let Some(Part::Tuples(a, b)) = &self.part
            && self.depth > 0
        {
            text.str(" at ");
            self.write_path(text);
            text.keep(ADVICE);
            text.str(": ");
            text.tuple(a);
            text.str(" beside ");
            text.tuple(b);
            text.give_rest();
        }
    }
}
