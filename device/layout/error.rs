//! The errors of layouts, as messages with the values.

use super::basis::NO_BASIS;
use super::fault::{Fault, LayoutErrorKind, Value, is, next_name};
use super::int_tuple::IntTuple;
use super::layout::Layout;
use super::text::{Text, put};

/// The longest message of a [`LayoutError`], in bytes.
pub(super) const MESSAGE: usize = 600;

/// The space reserved after the layout whose mode the message names.
const RULE: usize = 130;

/// The name and the layout whose modes a sentence counts, if that is not the first operand.
pub(super) type CountedIn = Option<(&'static str, Layout)>;

/// Why an operation on layouts has no result: the operation, its operands, the mode, the two values
/// and the rule.
///
/// Operations that do not return it (`composition` beside `try_composition`) panic with its
/// message, so in a `const` it is a compile error with the values.
#[derive(Clone, Copy)]
pub struct LayoutError {
    kind: LayoutErrorKind,
    /// The column in the parsed text; 0 without a text.
    column: u32,
    /// The start of the reason in the message.
    reason: u16,
    text: Text<MESSAGE>,
}

impl LayoutError {
    /// The message after the operation and its operands, or after the parsed text and the column:
    /// the mode that does not fit, and the rule. Empty if the operands fill the message.
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

    /// The kind of error.
    pub const fn kind(&self) -> LayoutErrorKind {
        self.kind
    }

    /// For an error in parsed text, the column of the character that does not parse, or of the
    /// extent, stride or integer that does not fit, counted from 1 in characters.
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

/// Errors that concern no mode: the algebra builds them, without the advice.
impl LayoutError {
    /// An error of `operation` on one tuple.
    pub(super) const fn of_tuple(operation: &str, tuple: &IntTuple, fault: Fault) -> Self {
        let mut text = Text::of_operands();
        put!(text, str(operation), "(", tuple(tuple), ")");
        Self::after(text, fault)
    }

    /// An error whose message begins with `text`, the operation and its operands.
    pub(super) const fn after(mut text: Text<MESSAGE>, fault: Fault) -> Self {
        let reason = begin_reason(&mut text);
        Self::said(text, reason, fault, &None)
    }

    /// An error in parsed text, which `text` shows, at `column`.
    pub(super) const fn at_column(mut text: Text<MESSAGE>, column: usize, fault: Fault) -> Self {
        text.give_rest();
        put!(text, ": column ", size(column));
        let mut error = Self::after(text, fault);
        if let LayoutErrorKind::Parse { .. } = error.kind {
            error.kind = LayoutErrorKind::Parse { column };
        }
        error.column = if column > u32::MAX as usize { u32::MAX } else { column as u32 };
        error
    }

    /// An error whose reason, which begins at `reason`, ends with its fault's sentence.
    pub(super) const fn said(mut text: Text<MESSAGE>, reason: u16, fault: Fault, within: &CountedIn) -> Self {
        let (mut rest, values) = fault.sentence();
        loop {
            let (literal, name) = next_name(rest);
            text.str(literal);
            let Some((name, after)) = name else { break };
            let mut i = 0;
            while !is(values[i].0, name) {
                i += 1;
            }
            write_value(&mut text, values[i].1, within);
            rest = after;
        }
        Self { kind: fault.kind(), column: 0, reason, text }
    }
}

/// Ends the operands of a message, and returns the start of its reason.
pub(super) const fn begin_reason(text: &mut Text<MESSAGE>) -> u16 {
    text.give_rest();
    text.str(": ");
    text.len()
}

const fn write_value(text: &mut Text<MESSAGE>, value: Value, within: &CountedIn) {
    match value {
        Value::Int(value) => text.int(value),
        Value::Size(value) => text.size(value),
        Value::Word(value) => text.str(value),
        Value::Step((stride, along)) if stride == along => text.int(stride),
        Value::Step((stride, along)) => put!(text, int(stride), " (", int(along), " along the mode)"),
        Value::Stride((stride, basis)) => text.scaled(stride, basis),
        Value::Basis(NO_BASIS) => text.str("none (an integer)"),
        Value::Basis(basis) => put!(text, "basis vector ", basis(basis)),
        Value::Mode(mode) => {
            put!(text, " mode ", size(mode), " (modes coalesced)");
            text.keep(RULE);
            if let Some((what, layout)) = within {
                put!(text, " of ", str(what), layout(layout));
            }
            text.give_rest();
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
