//! Text built during constant evaluation.

use super::int_tuple::{IntTuple, Leaf};
use super::layout::Layout;
use super::profile::{At, Profile, ROOT};
use super::tiler::Tiler;

/// Writes literals and `method(values)` to a text, one after another.
macro_rules! put {
    ($text:expr $(, $($literal:literal)? $($method:ident($($value:expr),*))?)*) => {{
        $($($text.str($literal);)? $($text.$method($($value),*);)?)*
    }};
}
pub(crate) use put;

/// Text of at most `N` bytes. Longer text is truncated and ends in `...`.
#[derive(Clone, Copy)]
pub(crate) struct Text<const N: usize> {
    bytes: [u8; N],
    // Small, since the text is part of every result.
    len: u16,
    /// Bytes reserved at the end.
    kept: u16,
    full: bool,
}

/// A length in its stored type; no text is longer.
const fn short(length: usize) -> u16 {
    assert!(length <= u16::MAX as usize);
    length as u16
}

impl<const N: usize> Text<N> {
    pub const fn new() -> Self {
        Self { bytes: [0; N], len: 0, full: false, kept: 0 }
    }

    /// Text that begins with operands: half of it is reserved for the statement about them, until
    /// [`give_rest`](Self::give_rest).
    pub const fn of_operands() -> Self {
        Self { kept: short(N / 2), ..Self::new() }
    }

    /// Reserves `bytes` at the end, as far as they are available, for text after the next operands.
    pub const fn keep(&mut self, bytes: usize) {
        self.kept = short(bytes);
    }

    /// Releases the reserved bytes.
    pub const fn give_rest(&mut self) {
        self.kept = 0;
        self.full = false;
    }

    /// The number of bytes so far.
    pub const fn len(&self) -> u16 {
        self.len
    }

    pub const fn as_str(&self) -> &str {
        let (used, _) = self.bytes.split_at(self.len as usize);
        match core::str::from_utf8(used) {
            Ok(text) => text,
            Err(_) => "(text that is not UTF-8)",
        }
    }

    pub const fn str(&mut self, text: &str) {
        let bytes = text.as_bytes();
        if self.full {
            return;
        }
        if self.len as usize + bytes.len() + 3 + self.kept as usize > N {
            self.full = true;
            self.bytes(b"...");
        } else {
            self.bytes(bytes);
        }
    }

    const fn bytes(&mut self, bytes: &[u8]) {
        let mut i = 0;
        while i < bytes.len() && (self.len as usize) < N {
            self.bytes[self.len as usize] = bytes[i];
            self.len += 1;
            i += 1;
        }
    }

    pub const fn int(&mut self, value: i64) {
        if value < 0 {
            self.str("-");
        }
        self.digits(value.unsigned_abs());
    }

    /// A number or an index of modes.
    pub const fn size(&mut self, value: usize) {
        self.digits(value as u64);
    }

    const fn digits(&mut self, value: u64) {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        let (_, used) = digits.split_at(at);
        match core::str::from_utf8(used) {
            Ok(text) => self.str(text),
            Err(_) => unreachable!(),
        }
    }

    pub const fn leaf(&mut self, leaf: Leaf) {
        match leaf {
            Leaf::Int(value) => self.int(value),
            Leaf::Scaled { value, basis } => self.scaled(value, basis.code()),
            Leaf::Any => self.str("_"),
        }
    }

    pub const fn tuple(&mut self, tuple: &IntTuple) {
        self.node(&tuple.profile, ROOT, Leaves::Tuple(tuple));
    }

    pub const fn layout(&mut self, layout: &Layout) {
        self.layout_at(layout, ROOT);
    }

    pub const fn layout_at(&mut self, layout: &Layout, at: At) {
        self.node(&layout.profile, at, Leaves::Shape(layout));
        self.str(":");
        self.node(&layout.profile, at, Leaves::Stride(layout));
    }

    pub const fn tiler(&mut self, tiler: &Tiler) {
        self.tiler_at(tiler, ROOT);
    }

    const fn tiler_at(&mut self, tiler: &Tiler, at: At) {
        if tiler.is_any(at) {
            self.str("_");
        } else if tiler.is_by_mode(at) {
            let profile = &tiler.layout.profile;
            self.str("(");
            let mut mode = profile.first(at);
            let mut i = 0;
            while i < profile.rank(at) {
                if i > 0 {
                    self.str(",");
                }
                self.tiler_at(tiler, mode);
                mode = profile.next(mode);
                i += 1;
            }
            self.str(")");
        } else {
            self.layout_at(&tiler.layout, at);
        }
    }

    const fn node(&mut self, profile: &Profile, at: At, leaves: Leaves) {
        if profile.is_leaf(at) {
            self.leaf(leaves.get(at.leaf));
            return;
        }
        self.str("(");
        let mut mode = profile.first(at);
        let mut i = 0;
        while i < profile.rank(at) {
            if i > 0 {
                self.str(",");
            }
            self.node(profile, mode, leaves);
            mode = profile.next(mode);
            i += 1;
        }
        self.str(")");
    }
}

/// Several values, one after another.
macro_rules! lists {
    ($(fn $name:ident($text:ident, $value:ident: $ty:ty) $each:expr;)+) => {
        impl<const N: usize> Text<N> {$(
            pub const fn $name(&mut self, values: &[$ty]) {
                let mut i = 0;
                while i < values.len() {
                    if i > 0 {
                        self.str(", ");
                    }
                    let ($text, $value) = (&mut *self, &values[i]);
                    $each;
                    i += 1;
                }
            }
        )+}
    };
}

lists! {
    fn ints(text, value: i64) text.int(*value);
    fn sizes(text, value: usize) text.size(*value);
    fn tuples(text, value: IntTuple) text.tuple(value);
    fn layouts(text, value: Layout) text.layout(value);
    fn tilers(text, value: Tiler) text.tiler(value);
}

/// The owner of the integers with which a profile is printed.
#[derive(Clone, Copy)]
enum Leaves<'a> {
    Tuple(&'a IntTuple),
    Shape(&'a Layout),
    Stride(&'a Layout),
}

impl Leaves<'_> {
    const fn get(&self, leaf: usize) -> Leaf {
        match self {
            Self::Tuple(tuple) => tuple.leaf(leaf),
            Self::Shape(layout) => Leaf::Int(layout.shape[leaf]),
            Self::Stride(layout) => layout.stride_leaf(leaf),
        }
    }
}
