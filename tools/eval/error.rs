//! The errors of expressions and requests.

use moye_device::layout::LayoutError;
use std::fmt;
use thiserror::Error;

/// The reason why an expression or a request has no answer. Its `Debug` form is its message.
#[derive(Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalError {
    /// The expression or a layout in it cannot be parsed, or an operation received an unsuitable
    /// argument.
    #[error("column {column}: {reason}")]
    At {
        /// The column of the offending character or call, counted from 1 in characters.
        column: usize,
        /// What was expected there, and what was found.
        reason: String,
    },
    /// An operation received an unsuitable argument, or does not exist.
    #[error("{0}")]
    Call(String),
    /// The operation has no result; this is its message.
    #[error("{0}")]
    Layout(Box<LayoutError>),
}

impl fmt::Debug for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl EvalError {
    /// The error with the column of the call that caused it, unless it has one. The message of an
    /// operation names its operands, which say more than a column.
    pub(super) fn at(self, column: usize) -> Self {
        match self {
            Self::Call(reason) => Self::At { column, reason },
            other => other,
        }
    }
}

impl From<LayoutError> for EvalError {
    fn from(error: LayoutError) -> Self {
        Self::Layout(Box::new(error))
    }
}
