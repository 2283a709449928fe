//! GPU architectures.

use std::fmt;

/// A GPU architecture by its compute capability: 9.0 is `sm_90`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    major: u32,
    minor: u32,
}

impl Arch {
    /// The oldest architecture for which kernels are compiled.
    pub const OLDEST: Self = Self::new(8, 0);

    /// The architecture of compute capability `major.minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// The compute capability.
    pub const fn capability(self) -> (u32, u32) {
        (self.major, self.minor)
    }

    /// The architecture of the PTX target `target` (`sm_80`, `sm_120f`, `sm_90a`, ...), and its
    /// scope.
    pub(crate) fn of_target(target: &str) -> Option<(Self, Scope)> {
        let digits = target.strip_prefix("sm_")?;
        let (digits, scope) = match digits.strip_suffix(['a', 'f']) {
            Some(before) if digits.ends_with('a') => (before, Scope::Specific),
            Some(before) => (before, Scope::Family),
            None => (digits, Scope::Later),
        };
        let (major, minor) = digits.split_at_checked(digits.len().checked_sub(1)?)?;
        Some((Self::new(major.parse().ok()?, minor.parse().ok()?), scope))
    }

    /// Whether PTX for `target` runs on this architecture, and how well it fits: a higher value is
    /// closer.
    ///
    /// PTX for `sm_NN` runs on that architecture and all later ones, PTX for `sm_NNf` on those of
    /// the same major version, PTX for `sm_NNa` on exactly that one.
    pub(crate) fn fit(self, target: &str) -> Option<(Self, Scope)> {
        let (compiled, scope) = Self::of_target(target)?;
        let runs = match scope {
            Scope::Later => compiled <= self,
            Scope::Family => compiled <= self && compiled.major == self.major,
            Scope::Specific => compiled == self,
        };
        runs.then_some((compiled, scope))
    }

    /// Whether machine code for `target` runs on this architecture: the major versions must be
    /// equal, and PTX for `target` must run on it.
    pub(crate) fn runs_code_of(self, target: &str) -> bool {
        self.fit(target).is_some_and(|(compiled, _)| compiled.major == self.major)
    }

    /// Whether kernels can wait for their predecessors (PDL): `griddepcontrol` exists from sm_90
    /// on.
    pub(crate) fn can_wait(self) -> bool {
        self >= Self::new(9, 0)
    }
}

/// The architectures that run PTX for a target; the narrowest scope is the best fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    Later,
    Family,
    Specific,
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(arch: Arch, targets: &[&'static str]) -> Option<&'static str> {
        targets.iter().copied().filter(|t| arch.fit(t).is_some()).max_by_key(|t| arch.fit(t))
    }

    #[test]
    fn machine_code_runs_on_gpus_of_its_major_version() {
        for (gpu, target, runs) in [
            (Arch::new(8, 0), "sm_80", true),
            (Arch::new(8, 9), "sm_80", true),
            (Arch::new(9, 0), "sm_80", false),
            (Arch::new(9, 0), "sm_90a", true),
            (Arch::new(8, 0), "sm_86", false),
            (Arch::new(10, 0), "sm_90a", false),
        ] {
            assert_eq!(gpu.runs_code_of(target), runs, "{target} on {gpu}");
        }
    }

    #[test]
    fn the_closest_ptx_that_runs_is_chosen() {
        let shipped = ["sm_80", "sm_90a"];
        for (arch, expected) in [
            (Arch::new(7, 5), None),
            (Arch::new(8, 0), Some("sm_80")),
            (Arch::new(8, 9), Some("sm_80")),
            (Arch::new(9, 0), Some("sm_90a")),
            (Arch::new(10, 0), Some("sm_80")),
            (Arch::new(12, 0), Some("sm_80")),
        ] {
            assert_eq!(best(arch, &shipped), expected, "{arch}");
        }
        assert_eq!(best(Arch::new(9, 0), &["sm_90", "sm_90a", "sm_86"]), Some("sm_90a"));
        assert_eq!(best(Arch::new(12, 1), &["sm_80", "sm_120", "sm_103a"]), Some("sm_120"));
        assert_eq!(best(Arch::new(12, 1), &["sm_120", "sm_120f", "sm_100f"]), Some("sm_120f"));
    }

    #[test]
    fn what_is_no_architecture_fits_nothing() {
        for target in ["", "sm_", "sm_a", "sm_x0", "compute_80", "sm_90é"] {
            assert_eq!((Arch::of_target(target), Arch::new(9, 0).fit(target)), (None, None), "{target}");
        }
    }
}
