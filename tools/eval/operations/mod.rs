//! The operations by name: one entry for each, shared by the parser, the requests and the help.

mod divide;
mod edit;
mod layout;
mod swizzle;
mod tuple;

use std::vec::Drain;

use super::error::EvalError;
use super::operand::Operands;
use super::value::Value;

/// A named operation.
pub struct Operation {
    /// Its name.
    pub name: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Its effect, in one line.
    pub about: &'static str,
    run: fn(&mut Operands) -> Result<Value, EvalError>,
}

/// A parameter of an operation.
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its kind: `layout`, `tuple`, `tiler`, ...
    pub kind: &'static str,
    /// The number of values that it takes.
    pub arity: Arity,
}

/// The number of values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arity {
    /// One.
    One,
    /// One or none.
    Optional,
    /// All remaining values.
    Many,
}

/// Related operations.
pub struct Group {
    /// Title of the group.
    pub title: &'static str,
    /// The operations.
    pub operations: &'static [Operation],
}

/// Declares operations: `name(parameter: Type, ...) = body, "what it does";`. The body is a
/// `Result`.
macro_rules! operations {
    ($($name:ident($($arg:ident: $ty:ty),*) = $body:expr, $about:literal;)+) => {
        &[$($crate::operations::Operation {
            name: stringify!($name),
            parameters: &[$($crate::operations::Parameter {
                name: stringify!($arg),
                kind: <$ty as $crate::operand::Operand>::NAME,
                arity: <$ty as $crate::operand::Operand>::ARITY,
            }),*],
            about: $about,
            run: |operands| {
                $(let $arg: $ty = operands.take()?;)*
                $crate::value::Answer::answer($body)
            },
        }),+]
    };
}
use operations;

/// All operations.
pub static GROUPS: &[Group] = &[layout::GROUP, divide::GROUP, edit::GROUP, swizzle::GROUP, tuple::GROUP];

/// Other names of operations: those of CuTe's pages and MoYe, or shorter ones.
const ALIASES: &[(&str, &str)] = &[
    ("TV", "make_layout_tv"),
    ("Layout", "make_layout"),
    ("col_major", "make_col_major"),
    ("row_major", "make_row_major"),
    ("ordered_layout", "make_ordered_layout"),
    ("layout_like", "make_layout_like"),
    ("make_identity_layout", "identity_layout"),
];

/// Names that take a function, which no expression can be.
const MACROS: &[&str] = &["transform", "fold"];

impl Operation {
    /// The operation with this name or alias.
    pub fn named(name: &str) -> Option<&'static Self> {
        let of = |name: &str| all().find(|operation| operation.name == name);
        of(name).or_else(|| {
            let (_, known) = ALIASES.iter().find(|(alias, _)| *alias == name)?;
            of(known)
        })
    }

    /// The operation with its parameters: `complement(layout: layout, cotarget?: tuple)`.
    pub fn signature(&self) -> String {
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|Parameter { name, kind, arity }| {
                let mark = match arity {
                    Arity::One => "",
                    Arity::Optional => "?",
                    Arity::Many => "...",
                };
                if name == kind { format!("{name}{mark}") } else { format!("{name}{mark}: {kind}") }
            })
            .collect();
        format!("{}({})", self.name, parameters.join(", "))
    }

    /// The result of the operation for these values.
    ///
    /// ```
    /// use moye_eval::{Operation, Value, evaluate};
    ///
    /// let operation = Operation::named("composition").unwrap();
    /// let layouts = [evaluate("(6,2):(8,2)").unwrap(), evaluate("(4,3):(3,1)").unwrap()];
    /// assert_eq!(operation.answer(layouts.to_vec()).unwrap().to_string(), "((2,2),3):((24,2),8)");
    /// assert!(operation.answer(vec![Value::from(1)]).is_err());
    /// ```
    ///
    /// # Errors
    /// The values are unsuitable, or the operation has no result for them.
    pub fn answer(&self, mut values: Vec<Value>) -> Result<Value, EvalError> {
        self.call(values.drain(..))
    }

    /// The result of the operation.
    pub(super) fn call(&self, values: Drain<'_, Value>) -> Result<Value, EvalError> {
        let takes_all = self.parameters.iter().any(|parameter| parameter.arity == Arity::Many);
        if values.len() > self.parameters.len() && !takes_all {
            return Err(Operands::miscounted(self, values.len()));
        }
        (self.run)(&mut Operands::new(self, values))
    }
}

/// All operations, group by group.
pub fn all() -> impl Iterator<Item = &'static Operation> {
    GROUPS.iter().flat_map(|group| group.operations)
}

/// The error for an unknown operation, which suggests a similar name if there is one.
pub(super) fn unknown(name: &str) -> EvalError {
    // Names are short: a long one is not a misspelling, and would make the message long.
    let shown: String = name.chars().take(40).collect();
    if MACROS.contains(&name) {
        return EvalError::Call(format!(
            "`{name}` takes a function, which no expression is; in Rust it is the macro moye_device::layout::{name}!"
        ));
    }
    let aliases = ALIASES.iter().map(|(alias, _)| *alias);
    let nearest = all()
        .map(|operation| operation.name)
        .chain(aliases)
        .map(|known| {
            let lower = strsim::damerau_levenshtein(&shown.to_ascii_lowercase(), &known.to_ascii_lowercase());
            (lower, known)
        })
        .min()
        .filter(|(distance, nearest)| *distance <= nearest.len() / 3);
    EvalError::Call(match nearest {
        Some((_, nearest)) => format!("there is no operation `{shown}`; did you mean `{nearest}`?"),
        None => format!("there is no operation `{shown}`; `moye eval --help` lists them"),
    })
}

/// A list of all operations, one a line.
pub fn help() -> String {
    // A few long signatures exceed the width, so that the others leave room.
    const WIDTH: usize = 44;
    let mut text = String::new();
    for group in GROUPS {
        text.push_str(group.title);
        text.push_str(":\n");
        for operation in group.operations {
            text.push_str(&format!("  {:WIDTH$}  {}\n", operation.signature(), operation.about));
        }
        text.push('\n');
    }
    let aliases: Vec<String> = ALIASES.iter().map(|(alias, name)| format!("{alias} is {name}")).collect();
    text.push_str(&format!("Other names: {}.\n", aliases.join(", ")));
    text.push_str("transform and fold take a function: they are macros of moye_device::layout, for Rust.");
    text
}
