//! Basis vectors: the place of a coordinate along which a stride is.

use core::fmt;

use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::text::Text;

/// The basis of a plain integer.
pub(crate) const NO_BASIS: u32 = u32::MAX;
/// The basis that marks the wildcard `_`.
pub(crate) const ANY: u32 = u32::MAX - 1;
/// The number of distinct places at each level of a coordinate.
pub const MAX_BASIS: usize = 64;
/// The maximum depth of the place of a basis vector.
pub const MAX_BASIS_DEPTH: usize = 5;

/// The code of the path without an index: the coordinate as a whole. CuTe's `E<>`, which is the
/// integer 1.
pub(crate) const WHOLE: u32 = 1;

const INDEX_BITS: u32 = 6;
const INDEX: u32 = (1 << INDEX_BITS) - 1;

const _: () = assert!(1 << INDEX_BITS == MAX_BASIS, "an index fills its bits");
const _: () = assert!(INDEX_BITS as usize * MAX_BASIS_DEPTH < 31, "no path has the code of ANY or NO_BASIS");

/// The place of a coordinate along which a stride is: element 1, or element 0 of element 1, and so
/// on. CuTe's `E<1>` and `E<1,0>`.
///
/// Its notation is CuTe's, with the innermost index first: 2 times `Basis::new(&[1, 0])` is
/// `2@0@1`. So the index after the last `@` is always the mode of the whole coordinate.
///
/// ```
/// use moye_device::layout::{Basis, Leaf, tuple};
/// assert_eq!(tuple!(2@0@1).leaf(0), Leaf::Scaled { value: 2, basis: Basis::new(&[1, 0]) });
/// assert_eq!(Basis::new(&[1, 0]).to_string(), "1@0@1");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Basis(
    /// Six bits for each index, the outermost lowest, and a bit above the last.
    u32,
);

impl Basis {
    /// The place at `path`, outermost index first.
    ///
    /// # Panics
    /// If [`try_new`](Self::try_new) returns an error.
    #[track_caller]
    pub const fn new(path: &[usize]) -> Self {
        match Self::try_new(path) {
            Ok(basis) => basis,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`new`](Self::new) as a `Result`.
    ///
    /// # Errors
    /// If an index is not below [`MAX_BASIS`], there are more than [`MAX_BASIS_DEPTH`], or none.
    pub const fn try_new(path: &[usize]) -> Result<Self, LayoutError> {
        match code_of(path) {
            Ok(code) => Ok(Self(code)),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("Basis::new([");
                text.sizes(path);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }

    /// The number of its indices: 1 for an element of the coordinate, 2 for an element of an
    /// element.
    pub const fn depth(&self) -> usize {
        depth(self.0)
    }

    /// Index `level` of its path, with the outermost at 0; `None` past the depth.
    pub const fn index(&self, level: usize) -> Option<usize> {
        if level < self.depth() {
            Some((self.0 >> (INDEX_BITS * level as u32) & INDEX) as usize)
        } else {
            None
        }
    }

    pub(crate) const fn of(code: u32) -> Self {
        Self(code)
    }

    pub(crate) const fn code(self) -> u32 {
        self.0
    }

    /// The expansion of a basis vector in the macros `layout!` and `tuple!`: its indices as
    /// written, innermost first.
    #[doc(hidden)]
    #[track_caller]
    pub const fn from_macro(written: &[i64]) -> u32 {
        let mut path = [0; MAX_BASIS_DEPTH + 1];
        let count = if written.len() < path.len() { written.len() } else { path.len() };
        let mut i = 0;
        while i < count {
            let index = written[written.len() - 1 - i];
            // A negative index becomes too large, and a fault shows it as written.
            path[i] = index as usize;
            i += 1;
        }
        let (path, _) = path.split_at(count);
        Self::new(path).0
    }
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::<32>::new();
        text.str("1@");
        text.basis(self.0);
        f.pad(text.as_str())
    }
}

impl fmt::Debug for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const fn code_of(path: &[usize]) -> Result<u32, Fault> {
    if path.is_empty() {
        return Err(Fault::Least { what: "number of indices", value: 0, least: 1 });
    }
    let mut code = WHOLE;
    let mut level = path.len();
    while level > 0 {
        level -= 1;
        if path[level] >= MAX_BASIS {
            return Err(Fault::BasisRange { basis: path[level] as i64 });
        }
        code = tri!(within(path[level], code));
    }
    Ok(code)
}

/// The code of element `index`, which is below [`MAX_BASIS`].
pub(crate) const fn element(index: usize) -> u32 {
    WHOLE << INDEX_BITS | index as u32
}

/// The basis vector `code` within element `outer`: the path with one more leading index.
pub(crate) const fn within(outer: usize, code: u32) -> Result<u32, Fault> {
    if depth(code) == MAX_BASIS_DEPTH {
        return Err(Fault::BasisDepth);
    }
    Ok(code << INDEX_BITS | outer as u32)
}

/// Element `inner` of the place of `code`: the path with one more index at the end.
pub(crate) const fn extended(code: u32, inner: usize) -> Result<u32, Fault> {
    let bits = INDEX_BITS * depth(code) as u32;
    if depth(code) == MAX_BASIS_DEPTH {
        return Err(Fault::BasisDepth);
    }
    Ok((code ^ 1 << bits) | (inner as u32) << bits | 1 << (bits + INDEX_BITS))
}

/// The number of indices of a path.
pub(crate) const fn depth(code: u32) -> usize {
    ((31 - code.leading_zeros()) / INDEX_BITS) as usize
}

/// The first index of a path that is not [`WHOLE`].
pub(crate) const fn outermost(code: u32) -> usize {
    (code & INDEX) as usize
}

/// The path after its first index.
pub(crate) const fn inner(code: u32) -> u32 {
    code >> INDEX_BITS
}

/// Whether it is an element of the coordinate, not an element of an element.
pub(crate) const fn is_flat(code: u32) -> bool {
    inner(code) == WHOLE
}

/// The place of a stride; an integer stride is along the whole coordinate.
pub(crate) const fn place_of(basis: u32) -> u32 {
    if basis == NO_BASIS { WHOLE } else { basis }
}

/// The rest of the path `code` after `start`, if it begins with `start`.
pub(crate) const fn below(code: u32, start: u32) -> Option<u32> {
    let bits = INDEX_BITS * depth(start) as u32;
    let begins = depth(code) >= depth(start) && (code ^ start) & ((1 << bits) - 1) == 0;
    if begins { Some(code >> bits) } else { None }
}

impl<const N: usize> Text<N> {
    /// The indices of a basis vector in the order of its notation, without the first `@`.
    pub const fn basis(&mut self, code: u32) {
        let mut level = depth(code);
        while level > 0 {
            level -= 1;
            self.int((code >> (INDEX_BITS * level as u32) & INDEX) as i64);
            if level > 0 {
                self.str("@");
            }
        }
    }

    /// `value` times a basis vector, or the integer.
    pub const fn scaled(&mut self, value: i64, basis: u32) {
        self.int(value);
        if basis != NO_BASIS {
            self.str("@");
            self.basis(basis);
        }
    }
}
