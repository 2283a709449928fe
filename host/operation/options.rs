//! The options of an operation, and their values in a call.

use super::{Axes, Declaration, Dtype};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// An option, with its default.
#[derive(Clone, Copy, Debug)]
pub struct OptionOf {
    /// Its name.
    pub name: &'static str,
    /// Its effect.
    pub about: &'static str,
    /// Its default value; other values have the same type.
    pub default: Value,
    /// The values that it takes, for messages; `None` for any value of the type.
    pub takes: Option<&'static str>,
}

impl OptionOf {
    /// An option of any value of the default's type.
    pub const fn new(name: &'static str, about: &'static str, default: Value) -> Self {
        Self { name, about, default, takes: None }
    }

    /// The option, with the values that it takes, for messages.
    #[must_use]
    pub const fn takes(self, takes: &'static str) -> Self {
        Self { takes: Some(takes), ..self }
    }
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Int(i64),
    /// A number.
    Float(f64),
    /// Yes or no.
    Bool(bool),
    /// An element type.
    Dtype(Dtype),
    /// Axes of an array.
    Axes(Axes),
    /// One of several names: the chosen one, and all of them.
    Choice(&'static str, &'static [&'static str]),
    /// Two integers. `None` means without a limit; an option whose default is two integers takes
    /// only integers.
    Pair([Option<i64>; 2]),
    /// A name from the operation's list, such as a kernel's name: see
    /// [`Options::set_text`].
    Text(&'static str),
    /// No value, of an option that is not set by default: an example of its values.
    Unset(&'static Value),
}

impl Value {
    /// A value of the option's type.
    pub const fn of_type(self) -> Self {
        match self {
            Self::Unset(example) => *example,
            value => value,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Dtype(dtype) => write!(f, "{dtype}"),
            Self::Axes(axes) => write!(f, "{axes}"),
            Self::Choice(name, _) | Self::Text(name) => f.write_str(name),
            Self::Pair(pair) => {
                let [first, second] = pair.map(|number| number.map_or("-".to_owned(), |n| n.to_string()));
                write!(f, "{first},{second}")
            }
            Self::Unset(_) => f.write_str("none"),
        }
    }
}

/// The values of all options of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Options(Vec<(&'static str, Value)>);

impl Options {
    /// The default options of an operation.
    pub fn of(declaration: &Declaration) -> Self {
        Self(declaration.options.iter().map(|option| (option.name, option.default)).collect())
    }

    /// The value of an option, for modification.
    fn find(&mut self, operation: &'static str, name: &str) -> Result<&mut Value> {
        let Some(index) = self.0.iter().position(|(known, _)| *known == name) else {
            let names = self.0.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let detail = format!("there is no option {name}; there are {names}");
            return Err(Error::Unsupported { operation, detail });
        };
        Ok(&mut self.0[index].1)
    }

    /// Sets an option to one of its names.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such option or name, or the option's values are not
    /// names.
    pub fn choose(&mut self, operation: &'static str, name: &str, chosen: &str) -> Result<()> {
        let known = self.find(operation, name)?;
        let Value::Choice(_, names) = known.of_type() else {
            let detail = format!("{name} is {known} by default, and takes no name ({chosen:?})");
            return Err(Error::Unsupported { operation, detail });
        };
        let Some(chosen) = names.iter().find(|of| **of == chosen) else {
            let detail = format!("{name} is {chosen:?}, and must be one of {}", names.join(", "));
            return Err(Error::Unsupported { operation, detail });
        };
        *known = Value::Choice(chosen, names);
        Ok(())
    }

    /// Sets an option of names that the operation knows.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such option, or its values have another type.
    pub fn set_text(&mut self, operation: &'static str, name: &str, text: &str) -> Result<()> {
        /// Each text that was given: names of kernels, which are few. More are refused.
        static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
        const MOST: usize = 4096;
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = match texts.get(text) {
            Some(kept) => kept,
            None if texts.len() < MOST && text.len() <= MOST => {
                let kept: &'static str = text.to_owned().leak();
                texts.insert(kept);
                kept
            }
            None => {
                let detail = format!("{name} has had {MOST} values, and can have no other");
                return Err(Error::Unsupported { operation, detail });
            }
        };
        self.set(operation, name, Value::Text(kept))
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if there is no such option, or its values have another type. A number
    /// option accepts an integer.
    pub fn set(&mut self, operation: &'static str, name: &str, value: Value) -> Result<()> {
        if let Value::Choice(chosen, _) = value {
            return self.choose(operation, name, chosen);
        }
        let known = self.find(operation, name)?;
        *known = match (known.of_type(), value) {
            (Value::Float(_), Value::Int(value)) => Value::Float(value as f64),
            (Value::Axes(_), Value::Int(axis)) => Value::Axes(Axes::new([axis])),
            (Value::Int(_), Value::Int(_))
            | (Value::Float(_), Value::Float(_))
            | (Value::Bool(_), Value::Bool(_))
            | (Value::Dtype(_), Value::Dtype(_))
            | (Value::Axes(_), Value::Axes(_))
            | (Value::Text(_), Value::Text(_)) => value,
            (Value::Pair(of), Value::Pair(pair)) if of.contains(&None) || !pair.contains(&None) => value,
            (of_type, other) => {
                let takes = match of_type {
                    Value::Int(_) => "a whole number".to_owned(),
                    Value::Float(_) => "a number".to_owned(),
                    Value::Bool(_) => "true or false".to_owned(),
                    Value::Dtype(_) => "the name of an element type".to_owned(),
                    Value::Axes(_) => "the number of an axis or several".to_owned(),
                    Value::Choice(_, names) => format!("one of {}", names.join(", ")),
                    Value::Text(_) => "a name".to_owned(),
                    Value::Pair(_) | Value::Unset(_) => "two whole numbers".to_owned(),
                };
                let detail = format!("{name} is {takes}, not {other}");
                return Err(Error::Unsupported { operation, detail });
            }
        };
        Ok(())
    }

    fn get(&self, name: &str) -> Value {
        let known = self.0.iter().find(|(known, _)| *known == name);
        known.unwrap_or_else(|| panic!("the operation declares no option `{name}`")).1
    }

    /// Whether an option has a value: always, unless its default is [`Value::Unset`].
    ///
    /// # Panics
    /// The operation does not declare such an option.
    pub fn is_set(&self, name: &str) -> bool {
        !matches!(self.get(name), Value::Unset(_))
    }
}

/// Writes a getter of each type of options.
macro_rules! getters {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:pat => $value:ident: $t:ty;)+) => {
        impl Options { $(
            $(#[doc = $about])+
            ///
            /// # Panics
            /// The operation does not declare such an option.
            pub fn $name(&self, name: &str) -> $t {
                match self.get(name) {
                    $kind => $value,
                    other => panic!("the operation declares `{name}` as {other:?}"),
                }
            }
        )+ }
    };
}

getters! {
    /// The value of an integer option.
    int: Value::Int(value) => value: i64;
    /// The value of a number option.
    float: Value::Float(value) => value: f64;
    /// The value of an option that is true or false.
    bool: Value::Bool(value) => value: bool;
    /// The value of an element type option.
    dtype: Value::Dtype(value) => value: Dtype;
    /// The value of an axes option.
    axes: Value::Axes(value) => value: Axes;
    /// The value of an option that is one of several names.
    choice: Value::Choice(value, _) => value: &'static str;
    /// The value of an option that is a name.
    text: Value::Text(value) => value: &'static str;
    /// The value of an option of two integers.
    pair: Value::Pair(value) => value: [Option<i64>; 2];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_without_a_value_take_those_of_their_type_alone() {
        let values = [
            ("splits", Value::Unset(&Value::Int(1))),
            ("window", Value::Unset(&Value::Pair([None; 2]))),
            ("tile", Value::Unset(&Value::Pair([Some(0); 2]))),
            ("kernel", Value::Unset(&Value::Text(""))),
            ("activation", Value::Unset(&Value::Choice("relu", &["relu", "silu"]))),
        ];
        let mut options = Options(values.to_vec());
        assert!(!options.is_set("splits"));
        options.set("test", "splits", Value::Int(3)).unwrap();
        assert!(options.is_set("splits") && options.int("splits") == 3);
        options.set("test", "window", Value::Pair([Some(3), None])).unwrap();
        assert_eq!(options.pair("window"), [Some(3), None]);
        assert!(options.set("test", "tile", Value::Pair([Some(3), None])).is_err(), "both are needed");
        options.set("test", "tile", Value::Pair([Some(64), Some(128)])).unwrap();
        options.choose("test", "activation", "silu").unwrap();
        options.set_text("test", "kernel", "one").unwrap();
        assert_eq!((options.choice("activation"), options.text("kernel")), ("silu", "one"));
        let said = options.set("test", "splits", Value::Bool(true)).unwrap_err().to_string();
        assert!(said.contains("splits is a whole number, not true"), "{said}");
        let said = options.choose("test", "activation", "tanh").unwrap_err().to_string();
        assert!(said.contains("activation is \"tanh\", and must be one of relu, silu"), "{said}");
    }
}
