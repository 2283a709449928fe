//! The allocations that a launch may access, fixed when it starts.

use super::allocation::Block;
use std::fmt;
use std::sync::Arc;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) base: u64,
    pub(crate) len: u64,
}

impl Span {
    /// The empty span.
    pub(crate) const EMPTY: Self = Self { base: 0, len: 0 };

    /// Whether `bytes` bytes at `address` are inside it.
    #[inline(always)]
    pub(crate) const fn contains(self, address: u64, bytes: u64) -> bool {
        let offset = address.wrapping_sub(self.base);
        offset < self.len && self.len - offset >= bytes
    }
}

/// The allocations at the start of a launch, by ascending address.
pub(crate) struct Snapshot {
    blocks: Vec<Arc<Block>>,
    spans: Vec<Span>,
}

impl Snapshot {
    /// `blocks` are sorted by address.
    pub(crate) fn new(blocks: Vec<Arc<Block>>) -> Self {
        let spans = blocks.iter().map(|block| block.span()).collect();
        Self { blocks, spans }
    }

    /// The allocation that contains `address`.
    pub(crate) fn find(&self, address: u64) -> Option<Span> {
        self.number_of(address).map(|number| self.spans[number])
    }

    /// The allocations' ranges, by index.
    pub(crate) fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// The index of the allocation that contains `address`.
    pub(crate) fn number_of(&self, address: u64) -> Option<usize> {
        let number = self.spans.partition_point(|span| span.base <= address).checked_sub(1)?;
        self.spans[number].contains(address, 1).then_some(number)
    }

    /// The allocation nearest to an access that is outside all allocations or crosses the end of
    /// one.
    pub(crate) fn nearest(&self, address: u64, bytes: u64) -> Option<Nearest> {
        let distance = |span: &Span| {
            if address < span.base {
                span.base - address
            } else {
                address.saturating_sub(span.base + span.len)
            }
        };
        let (at, span) = self.spans.iter().enumerate().min_by_key(|(_, span)| distance(span))?;
        let place = if address < span.base {
            Place::Before(span.base - address)
        } else if address >= span.base + span.len {
            Place::After(address - (span.base + span.len))
        } else {
            let offset = address - span.base;
            // For a tensor map's tensor, `address + bytes` may exceed 2^64.
            Place::Crossing { offset, excess: bytes.saturating_sub(span.len - offset) }
        };
        Some(Nearest { label: self.blocks[at].label().into(), base: span.base, len: span.len, place })
    }
}

/// The allocation nearest to an out-of-bounds access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The allocation's label.
    pub label: String,
    /// Its first address.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The position of the access relative to the allocation.
    pub place: Place,
}

/// The position of an out-of-bounds access relative to an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// It starts this many bytes before the first byte.
    Before(u64),
    /// It starts this many bytes after the end (0: right at the end).
    After(u64),
    /// It starts inside and crosses the end.
    Crossing {
        /// The offset of its first byte.
        offset: u64,
        /// The number of its bytes past the end.
        excess: u64,
    },
}

impl fmt::Display for Nearest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label, base, len, place } = self;
        match place {
            Place::Crossing { offset, excess: 0 } => write!(f, "at offset {offset}")?,
            Place::Before(distance) => write!(f, "{distance} bytes before the start")?,
            Place::After(0) => write!(f, "right at the end")?,
            Place::After(distance) => write!(f, "{distance} bytes past the end")?,
            Place::Crossing { offset, excess } => {
                write!(f, "from offset {offset}, {excess} bytes over the end")?
            }
        }
        let nearest = if matches!(place, Place::Crossing { excess: 0, .. }) { "" } else { "nearest " };
        write!(f, " of the {nearest}allocation, `{label}` ({len} bytes at {base:#x})")
    }
}
