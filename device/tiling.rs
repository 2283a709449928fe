//! The errors of tilings, as messages with the values.

use crate::layout::{IntTuple, Layout, LayoutError, Text};
use core::fmt;

/// The longest message of a [`TilingError`], in bytes.
const MESSAGE: usize = 900;

/// Why an atom cannot be tiled, or a tensor cannot be partitioned: the conflicting values, and what
/// would work.
///
/// Functions that do not return it panic with its message, so in a `const` it is a compile error
/// with the values. Kernels can build one for their own conditions:
///
/// ```compile_fail
/// use moye_device::atom::TilingError;
///
/// const fn stages(stages: i64) -> i64 {
///     if stages < 2 {
///         TilingError::of("my kernel").str("there are ").int(stages).str(" stages, 2 at least are needed").raise();
///     }
///     stages
/// }
/// const STAGES: i64 = stages(1); // error: my kernel: there are 1 stages, 2 at least are needed
/// ```
#[derive(Clone, Copy)]
pub struct TilingError {
    text: Text<MESSAGE>,
}

impl TilingError {
    /// The message.
    pub const fn text(&self) -> &str {
        self.text.as_str()
    }

    /// An error that starts with its reporter, `what`.
    #[must_use]
    pub const fn of(what: &str) -> Self {
        let mut text = Text::new();
        text.str(what);
        text.str(": ");
        Self { text }
    }

    /// An error of the algebra.
    pub(crate) const fn from_layout(what: &str, error: &LayoutError) -> Self {
        Self::of(what).str(error.text())
    }

    /// The error with `text` appended.
    #[must_use]
    pub const fn str(mut self, text: &str) -> Self {
        self.text.str(text);
        self
    }

    /// The error with an integer appended.
    #[must_use]
    pub const fn int(mut self, value: i64) -> Self {
        self.text.int(value);
        self
    }

    /// The error with a tuple appended.
    #[must_use]
    pub const fn tuple(mut self, tuple: &IntTuple) -> Self {
        self.text.tuple(tuple);
        self
    }

    /// The error with a layout appended.
    #[must_use]
    pub const fn layout(mut self, layout: &Layout) -> Self {
        self.text.layout(layout);
        self
    }

    /// Ends constant evaluation, or the program, with the message.
    #[track_caller]
    pub const fn raise(&self) -> ! {
        panic!("{}", self.text())
    }
}

impl fmt::Display for TilingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for TilingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TilingError({:?})", self.text())
    }
}

impl PartialEq for TilingError {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for TilingError {}

impl core::error::Error for TilingError {}

/// `?` for operations of the layout algebra in constant evaluation; the error starts with `$what`.
macro_rules! by_algebra {
    ($what:expr, $result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Err($crate::tiling::TilingError::from_layout($what, &error)),
        }
    };
}
pub(crate) use by_algebra;

/// The value, or the end of constant evaluation with the error's message.
macro_rules! or_raise {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => error.raise(),
        }
    };
}
pub(crate) use or_raise;
