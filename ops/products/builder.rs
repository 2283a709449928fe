//! Options of declarations.

use moye_runtime::operation::{OptionOf, Value};

/// An option: its name, what it changes, and its default.
pub const fn option(name: &'static str, about: &'static str, default: Value) -> OptionOf {
    OptionOf::new(name, about, default)
}
