//! The errors of layouts, in words that carry the values.

use super::fault::LayoutErrorKind;
use super::text::Text;

/// The longest message of a [`LayoutError`], in bytes.
pub(super) const MESSAGE: usize = 600;

/// Why an operation on layouts has no answer: the operation, its operands, the mode, the two
/// numbers and the rule.
///
/// The forms of the operations that do not return it (`composition` beside `try_composition`) panic
/// with its text, so in a `const` it is a compile error that carries the values.
#[derive(Clone, Copy)]
pub struct LayoutError {
    pub(super) kind: LayoutErrorKind,
    /// The column in the text that was read; 0 without a text.
    pub(super) column: u32,
    /// Where the reason begins in the text.
    pub(super) reason: u16,
    pub(super) text: Text<MESSAGE>,
}

impl LayoutError {
    /// The message after the operation and its operands, or after the text that was read and the
    /// column: the mode that does not fit, and the rule. Empty if the operands fill the message.
    ///
    /// ```
    /// use moye_device::layout::{layout, try_crd2idx, tuple};
    /// let error = try_crd2idx(layout!((4, 3):(3, 1)), tuple!((2, 1, 0))).unwrap_err();
    /// let reason = "the coordinate has 3 elements for a rank of 2; it has one for each mode, \
    ///     or is an integer for the whole";
    /// assert_eq!(error.reason(), Some(reason));
    /// ```
    pub fn reason(&self) -> Option<&str> {
        self.text().get(self.reason as usize..).filter(|reason| !reason.is_empty())
    }

    /// The message.
    pub const fn text(&self) -> &str {
        self.text.as_str()
    }

    /// What kind of error it is.
    pub const fn kind(&self) -> LayoutErrorKind {
        self.kind
    }

    /// Where the error is of text that was read: the column of what does not parse, or of the
    /// extent, stride or number that does not fit, counted from 1 in characters.
    ///
    /// ```
    /// use moye_device::layout::Layout;
    /// let error = Layout::parse("(4,0):(1,4)").unwrap_err();
    /// assert_eq!(error.column(), Some(4));
    /// assert!(error.text().contains("column 4: the extent 0 is below 1"));
    /// ```
    pub const fn column(&self) -> Option<usize> {
        match self.column {
            0 => None,
            column => Some(column as usize),
        }
    }
}

impl core::fmt::Display for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.text())
    }
}

impl core::fmt::Debug for LayoutError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "LayoutError({:?})", self.text())
    }
}

impl PartialEq for LayoutError {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.text() == other.text()
    }
}

impl Eq for LayoutError {}

impl core::error::Error for LayoutError {}
