//! Why an expression or a request has no answer.

use moye_device::layout::LayoutError;
use std::fmt;
use thiserror::Error;

/// Why an expression or a request has no answer. Its `Debug` form is its message.
#[derive(Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalError {
    /// The text is no expression, what is written as a layout is none, or an operation was given
    /// what it does not take.
    #[error("column {column}: {reason}")]
    At {
        /// The column of the offending character or call, counted from 1 in characters.
        column: usize,
        /// What was expected there, and what there is.
        reason: String,
    },
    /// An operation was given what it does not take, or there is no such operation.
    #[error("{0}")]
    Call(String),
    /// The operation has no answer; this is its own message.
    #[error("{0}")]
    Layout(Box<LayoutError>),
}

impl fmt::Debug for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl EvalError {
    /// The error with the column of the call that it comes from, where it does not say one itself.
    /// What an operation says itself names its operands, which tell more than a column.
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
