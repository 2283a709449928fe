//! The kinds of slow code of which a build warns: code that compiles and is slow, usually
//! unintentionally.

use std::fmt;
use std::str::FromStr;

/// A kind of slow code that the builder searches for in PTX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Lint {
    /// An array is in local memory, which is cached global memory, instead of registers.
    LocalMemory,
    /// Registers are spilled to local memory. Reported if `ptxas` is found.
    Spills,
    /// An `f32` is converted to `f64` for arithmetic: 32 to 64 times slower on GPUs without
    /// full-rate `f64` units.
    DoublePrecision,
    /// A division that is a sequence of 10 to 100 instructions: of 64 bits anywhere, of 32 bits or
    /// `f32` in an innermost loop. A loop over tiles around the loop over K may divide.
    SlowDivision,
    /// Two `f32` are converted to 16 bits separately, although one instruction converts a pair.
    UnpackedConversion,
    /// `ptxas` makes each `wgmma` wait for the previous one. Reported if `ptxas` is found.
    SerializedWgmma,
    /// An array of constants that is indexed at run time is in global memory: each access is a
    /// load.
    GlobalTable,
}

/// A build's reaction to a finding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// None.
    Allow,
    /// It warns.
    #[default]
    Warn,
    /// It fails.
    Deny,
}

impl Lint {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::LocalMemory,
        Self::Spills,
        Self::DoublePrecision,
        Self::SlowDivision,
        Self::UnpackedConversion,
        Self::SerializedWgmma,
        Self::GlobalTable,
    ];

    /// Its name: `local_memory`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LocalMemory => "local_memory",
            Self::Spills => "spills",
            Self::DoublePrecision => "double_precision",
            Self::SlowDivision => "slow_division",
            Self::UnpackedConversion => "unpacked_conversion",
            Self::SerializedWgmma => "serialized_wgmma",
            Self::GlobalTable => "global_table",
        }
    }

    /// Whether only `ptxas` reports it: without `ptxas` a build does not check it.
    pub const fn needs_ptxas(self) -> bool {
        matches!(self, Self::Spills | Self::SerializedWgmma)
    }

    /// The way out.
    pub(super) const fn help(self) -> &'static str {
        match self {
            Self::LocalMemory => {
                "index the array by constants only. A loop with a constant bound unrolls (`for i in 0..5 { let mask = 16 >> i; }`), \
                 one over an array by value may not; or keep the array in shared memory"
            }
            Self::Spills => {
                "use smaller tiles or more threads, or relax `threads` and `min_blocks` of `#[kernel]`"
            }
            Self::DoublePrecision => "write the constants as `f32` and keep the arithmetic in `f32`",
            Self::SlowDivision => {
                "multiply by a reciprocal that is computed once (`arch::rcp_approx_f32` for `f32`), divide by a constant, or \
                 use `u32` for `u64`"
            }
            Self::UnpackedConversion => {
                "leave it to `copy` or `transform` between fragments, or convert two at once: `arch::f32x2_to_f16x2`, \
                 `arch::f32x2_to_bf16x2`"
            }
            Self::SerializedWgmma => {
                "let no other instruction touch the accumulators between `wgmma` and its wait, and leave enough registers"
            }
            Self::GlobalTable => {
                "compute the element, index the array by constants only, or keep the array in shared memory"
            }
        }
    }
}

impl fmt::Display for Lint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Lint {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|lint| lint.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{name}` is none of the warnings {names}")
        })
    }
}
