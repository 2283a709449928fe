//! GPU architectures by their names: `sm_80`, `sm_90a`, ...

use crate::BuildError;
use std::fmt;
use std::str::FromStr;

/// A target architecture of PTX: `sm_80` and everything after it, `sm_120f` and later ones of its
/// family, or `sm_90a` and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    major: u32,
    minor: u32,
    scope: Scope,
}

/// The architectures that run code for an architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Scope {
    Later,
    /// The `f` of `sm_120f`.
    Family,
    /// The `a` of `sm_90a`.
    Specific,
}

impl Arch {
    /// The compute capability, major and minor: `(9, 0)` for `sm_90a`.
    pub const fn capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// Whether the code runs only on exactly this architecture (the `a` of `sm_90a`), not on later
    /// ones.
    pub const fn is_specific(self) -> bool {
        matches!(self.scope, Scope::Specific)
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.scope {
            Scope::Later => "",
            Scope::Family => "f",
            Scope::Specific => "a",
        };
        write!(f, "sm_{}{}{suffix}", self.major, self.minor)
    }
}

impl FromStr for Arch {
    type Err = BuildError;

    fn from_str(name: &str) -> Result<Self, BuildError> {
        let parse = || {
            let digits = name.strip_prefix("sm_")?;
            let (digits, scope) = match digits.strip_suffix(['a', 'f']) {
                Some(before) if digits.ends_with('a') => (before, Scope::Specific),
                Some(before) => (before, Scope::Family),
                None => (digits, Scope::Later),
            };
            // The last digit is the minor version, the digits before it the major one: sm_120 is
            // 12.0.
            let all_digits = digits.len() >= 2 && digits.bytes().all(|b| b.is_ascii_digit());
            let (major, minor) = all_digits.then(|| digits.split_at(digits.len() - 1))?;
            Some(Self { major: major.parse().ok()?, minor: minor.parse().ok()?, scope })
        };
        parse().ok_or_else(|| BuildError::Arch { name: name.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for (name, capability, specific) in [
            ("sm_80", (8, 0), false),
            ("sm_90a", (9, 0), true),
            ("sm_120", (12, 0), false),
            ("sm_120f", (12, 0), false),
        ] {
            let arch: Arch = name.parse().unwrap();
            assert_eq!((arch.capability(), arch.is_specific()), (capability, specific), "{name}");
            assert_eq!(arch.to_string(), name);
        }
    }

    #[test]
    fn anything_else_is_refused_by_name() {
        for name in ["", "80", "sm80", "sm_", "sm_8", "sm_9x", "compute_80", "sm_90b", "sm_+80"] {
            let error = name.parse::<Arch>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{name}`")), "the message names what was given: {error}");
        }
    }
}
