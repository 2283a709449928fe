//! The layouts of a copy atom, in bits and in elements.

use crate::layout::{Layout, LayoutErrorKind, try_upcast};
use crate::tiling::TilingError;

/// The layouts of a copy atom in bits: `(thread, bit)` to the index of the bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitLayouts {
    /// The threads that execute the instruction together, as a layout over their indices.
    pub thr_id: Layout,
    /// The source's layout: for an instruction that takes addresses, the bits at each thread's
    /// address.
    pub src: Layout,
    /// The destination's layout.
    pub dst: Layout,
    /// The order of the data, to which both refer.
    pub reference: Layout,
}

/// The layouts of a copy atom in elements: `(thread, value)` to the index of the element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueLayouts {
    /// The size of an element in bits.
    pub bits: i64,
    /// The threads that execute the instruction together.
    pub thr_id: Layout,
    /// The source's layout.
    pub src: Layout,
    /// The destination's layout.
    pub dst: Layout,
    /// The order of the data, to which both refer.
    pub reference: Layout,
}

/// The reason why an instruction cannot move elements of a given size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(
    clippy::large_enum_variant,
    reason = "a layout's error carries its text in place; nothing is boxed in no_std"
)]
pub enum AtomError {
    /// A thread holds fewer bits of the data than an element has, so that elements would be split
    /// between threads.
    Torn {
        /// `source`, `destination` or `reference`.
        side: &'static str,
        /// The bits of an element.
        element_bits: i64,
        /// The most bits that an element may have.
        most: i64,
    },
    /// The bits that the instruction moves for a thread are not a whole number of elements.
    Wide {
        /// The bits of an element.
        element_bits: i64,
        /// The bits that it moves.
        moved: i64,
    },
    /// No element has this size.
    Width {
        /// The bits of an element.
        element_bits: i64,
    },
}

impl core::fmt::Display for AtomError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.tiling("the copy atom").fmt(f)
    }
}

impl core::error::Error for AtomError {}

impl AtomError {
    /// The error as one of `who`, which tiles the atom or needs its layouts: the message starts
    /// with `who`.
    pub const fn tiling(&self, who: &str) -> TilingError {
        let text = TilingError::of(who);
        match self {
            Self::Torn { side, element_bits, most } => text
                .str("elements of ")
                .int(*element_bits)
                .str(" bits are torn between threads on the ")
                .str(side)
                .str(" side of the atom, where ")
                .int(*most)
                .str(" consecutive bits belong to one thread; take elements of at most ")
                .int(*most)
                .str(" bits, or another atom"),
            Self::Wide { element_bits, moved } => text
                .str("the atom moves ")
                .int(*moved)
                .str(" bits at once, which are not a whole number of elements of ")
                .int(*element_bits)
                .str(" bits; take elements of at most ")
                .int(*moved)
                .str(" bits that divide it, or an atom that moves ")
                .int(*element_bits),
            Self::Width { element_bits } => {
                text.str("an element of ").int(*element_bits).str(" bits; it has at least 1")
            }
        }
    }
}

impl BitLayouts {
    /// The bytes that the instruction reads at each thread's address, or from its registers. 0 for
    /// an atom that leaves the size to the tensors.
    pub const fn src_bytes(&self) -> usize {
        (self.src.extent(1) / 8) as usize
    }

    /// The bytes that each thread receives, or that are written at its address.
    pub const fn dst_bytes(&self) -> usize {
        (self.dst.extent(1) / 8) as usize
    }

    /// The layouts in elements of `bits` bits.
    ///
    /// # Errors
    /// If elements of that size would be split between threads.
    pub const fn try_values(&self, bits: i64) -> Result<ValueLayouts, AtomError> {
        let src = match in_values(&self.src, self.thr_id.size(), bits, "source") {
            Ok(layout) => layout,
            Err(error) => return Err(error),
        };
        let dst = match in_values(&self.dst, self.thr_id.size(), bits, "destination") {
            Ok(layout) => layout,
            Err(error) => return Err(error),
        };
        let reference = match in_values(&self.reference, self.thr_id.size(), bits, "reference") {
            Ok(layout) => layout,
            Err(error) => return Err(error),
        };
        Ok(ValueLayouts { bits, thr_id: self.thr_id, src, dst, reference })
    }

    /// [`try_values`](Self::try_values) for elements that the instruction moves whole. CuTe counts
    /// a part of an element as an element, which no instruction can copy.
    ///
    /// # Errors
    /// If elements of that size would be split between threads, or the moved bits are not a whole
    /// number of elements.
    pub const fn try_whole_values(&self, bits: i64) -> Result<ValueLayouts, AtomError> {
        let values = match self.try_values(bits) {
            Ok(values) => values,
            Err(error) => return Err(error),
        };
        // An atom that leaves the width to the tensors moves any element.
        if self.src_bytes() > 0 {
            let (from, to) = (self.src.extent(1), self.dst.extent(1));
            if values.num_val_src() * bits != from || values.num_val_dst() * bits != to {
                return Err(AtomError::Wide { element_bits: bits, moved: if from < to { from } else { to } });
            }
        }
        Ok(values)
    }
}

impl ValueLayouts {
    /// Elements that a thread reads.
    pub const fn num_val_src(&self) -> i64 {
        self.src.extent(1)
    }

    /// Elements that a thread gets.
    pub const fn num_val_dst(&self) -> i64 {
        self.dst.extent(1)
    }
}

/// One layout in elements: CuTe's `recast_layout<uint1_t, T>`, with CuTe's check that it loses no
/// thread.
const fn in_values(
    layout: &Layout,
    threads: i64,
    bits: i64,
    side: &'static str,
) -> Result<Layout, AtomError> {
    match try_upcast(*layout, bits) {
        Ok(values) if values.extent(0) == threads => Ok(values),
        Ok(_) => Err(AtomError::Torn { side, element_bits: bits, most: bits_of_a_thread(layout) }),
        Err(error) if matches!(error.kind(), LayoutErrorKind::Divisibility) => {
            Err(AtomError::Torn { side, element_bits: bits, most: bits_of_a_thread(layout) })
        }
        Err(_) => Err(AtomError::Width { element_bits: bits }),
    }
}

/// The number of consecutive bits of a thread: the smallest stride between threads.
const fn bits_of_a_thread(layout: &Layout) -> i64 {
    let threads = layout.mode(0).flatten();
    let mut least = i64::MAX;
    let mut leaf = 0;
    while leaf < threads.rank() {
        let mode = threads.mode(leaf);
        if mode.size() > 1 && mode.at(1) > 0 && mode.at(1) < least {
            least = mode.at(1);
        }
        leaf += 1;
    }
    least
}
