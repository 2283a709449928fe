//! The text of layouts, tuples and tilers, at run time.

use core::fmt;
use core::hash::{Hash, Hasher};

use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::text::Text;
use super::tiler::Tiler;

/// The longest layout: 64 integers of 20 digits, their bases, and the punctuation.
const LONGEST: usize = 2048;

impl fmt::Display for IntTuple {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::<LONGEST>::new();
        text.tuple(self);
        f.pad(text.as_str())
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::<LONGEST>::new();
        text.layout(self);
        f.pad(text.as_str())
    }
}

impl fmt::Display for Tiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::<LONGEST>::new();
        text.tiler(self);
        f.pad(text.as_str())
    }
}

macro_rules! value_traits {
    ($($name:ident)+) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

value_traits!(IntTuple Layout Tiler);

impl PartialEq for IntTuple {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

impl Eq for IntTuple {}

impl Hash for IntTuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.profile.nodes().hash(state);
        self.value[..self.leaves()].hash(state);
        self.basis[..self.leaves()].hash(state);
    }
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.equals(other)
    }
}

impl Eq for Layout {}

impl Hash for Layout {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.profile.nodes().hash(state);
        self.shape[..self.leaves()].hash(state);
        self.stride[..self.leaves()].hash(state);
        self.basis[..self.leaves()].hash(state);
    }
}

impl PartialEq for Tiler {
    fn eq(&self, other: &Self) -> bool {
        self.by_mode == other.by_mode && self.layout == other.layout
    }
}

impl Eq for Tiler {}

impl Hash for Tiler {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.by_mode.hash(state);
        self.layout.hash(state);
    }
}
