//! Classes of instructions, as a profiler groups them.

use crate::ptx::Function;
use std::collections::BTreeMap;

/// The class of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Class {
    /// Loads from global memory.
    GlobalLoad,
    /// Stores to global memory.
    GlobalStore,
    /// Loads from shared memory, including `ldmatrix`.
    SharedLoad,
    /// Stores to shared memory, including `stmatrix`.
    SharedStore,
    /// Loads and stores of local memory.
    Local,
    /// Asynchronous copies: `cp.async`, bulk copies, tensor copies.
    AsyncCopy,
    /// Atomic operations and reductions in memory.
    Atomic,
    /// `mma.sync` and `wgmma.mma_async`.
    TensorCore,
    /// Barriers, mbarriers, fences and waits.
    Barrier,
    /// Shuffles, votes, matches and reductions of a warp.
    Warp,
    /// Arithmetic of `f64`.
    Double,
    /// Arithmetic of 16, 32 and packed floats.
    Float,
    /// The special function unit: `ex2`, `rcp`, `rsqrt`, `sin`, `tanh`, ...
    Special,
    /// Conversions between types.
    Convert,
    /// Divisions and remainders.
    Divide,
    /// Integer and bit arithmetic, comparisons and selections.
    Integer,
    /// Branches, calls and exits.
    Control,
    /// The rest: moves, parameters, addresses.
    Other,
}

/// Prefixes of names with their classes. The first match counts.
const BEGINNINGS: &[(&str, Class)] = &[
    ("ld.global", Class::GlobalLoad),
    ("st.global", Class::GlobalStore),
    ("ld.shared", Class::SharedLoad),
    ("ldmatrix", Class::SharedLoad),
    ("stmatrix", Class::SharedStore),
    ("st.shared", Class::SharedStore),
    ("ld.local", Class::Local),
    ("st.local", Class::Local),
    ("cp.async.bulk.commit", Class::Barrier),
    ("cp.async.bulk.wait", Class::Barrier),
    ("cp.async.commit", Class::Barrier),
    ("cp.async.wait", Class::Barrier),
    ("cp.async.mbarrier", Class::Barrier),
    ("cp.async", Class::AsyncCopy),
    ("cp.reduce.async", Class::AsyncCopy),
    ("st.async", Class::AsyncCopy),
    ("atom", Class::Atomic),
    ("red.", Class::Atomic),
    ("mma.", Class::TensorCore),
    ("wgmma.mma", Class::TensorCore),
    ("wgmma", Class::Barrier),
    ("mbarrier", Class::Barrier),
    ("bar", Class::Barrier),
    ("membar", Class::Barrier),
    ("fence", Class::Barrier),
    ("griddepcontrol", Class::Barrier),
    ("shfl", Class::Warp),
    ("vote", Class::Warp),
    ("match", Class::Warp),
    ("redux", Class::Warp),
    ("elect", Class::Warp),
    ("movmatrix", Class::Warp),
    ("activemask", Class::Warp),
    ("cvt.", Class::Convert),
    ("div.", Class::Divide),
    ("rem.", Class::Divide),
    ("ex2.", Class::Special),
    ("lg2.", Class::Special),
    ("rcp.", Class::Special),
    ("rsqrt.", Class::Special),
    ("sqrt.", Class::Special),
    ("sin.", Class::Special),
    ("cos.", Class::Special),
    ("tanh.", Class::Special),
    ("bra", Class::Control),
    ("brx", Class::Control),
    ("call", Class::Control),
    ("ret", Class::Control),
    ("exit", Class::Control),
    ("trap", Class::Control),
    ("mov", Class::Other),
    ("cvta", Class::Other),
    ("ld.param", Class::Other),
];

/// Arithmetic operations, whose class depends on the type.
const ARITHMETIC: &[&str] = &[
    "add", "sub", "mul", "mad", "fma", "min", "max", "abs", "neg", "setp", "set", "selp", "slct", "and",
    "or", "xor", "not", "shl", "shr", "shf", "lop3", "prmt", "bfe", "bfi", "bfind", "brev", "clz", "popc",
    "dp2a", "dp4a", "mul24", "mad24", "sad", "testp", "copysign",
];

impl Class {
    /// The class of an instruction by its full name.
    pub fn of(name: &str) -> Self {
        if let Some((_, class)) = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning)) {
            return *class;
        }
        let mut parts = name.split('.');
        if !parts.next().is_some_and(|operation| ARITHMETIC.contains(&operation)) {
            return Self::Other;
        }
        let is = |types: &[&str]| name.split('.').any(|part| types.contains(&part));
        if is(&["f64"]) {
            Self::Double
        } else if is(&["f32", "f32x2", "f16", "f16x2", "bf16", "bf16x2"]) {
            Self::Float
        } else {
            Self::Integer
        }
    }

    /// Its name in a report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GlobalLoad => "global load",
            Self::GlobalStore => "global store",
            Self::SharedLoad => "shared load",
            Self::SharedStore => "shared store",
            Self::Local => "local",
            Self::AsyncCopy => "asynchronous copy",
            Self::Atomic => "atomic",
            Self::TensorCore => "tensor core",
            Self::Barrier => "barrier",
            Self::Warp => "warp",
            Self::Double => "f64",
            Self::Float => "float",
            Self::Special => "special function",
            Self::Convert => "conversion",
            Self::Divide => "division",
            Self::Integer => "integer",
            Self::Control => "control",
            Self::Other => "other",
        }
    }
}

impl Function {
    /// The number of instructions of each class.
    pub fn classes(&self) -> BTreeMap<Class, usize> {
        let mut classes = BTreeMap::new();
        for (name, count) in &self.instructions {
            *classes.entry(Class::of(name)).or_default() += count;
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_an_instruction_follows_from_its_name_and_type() {
        for (name, class) in [
            ("ld.global.nc.v4.b32", Class::GlobalLoad),
            ("ldmatrix.sync.aligned.m8n8.x4.shared.b16", Class::SharedLoad),
            ("cp.async.cg.shared.global", Class::AsyncCopy),
            ("cp.async.wait_group", Class::Barrier),
            ("fma.rn.f32", Class::Float),
            ("fma.rn.bf16x2", Class::Float),
            ("mul.rn.f64", Class::Double),
            ("setp.lt.u32", Class::Integer),
            ("div.rn.f32", Class::Divide),
            ("ex2.approx.ftz.f32", Class::Special),
            ("cvt.rn.bf16x2.f32", Class::Convert),
            ("cvta.to.global.u64", Class::Other),
            ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", Class::TensorCore),
            ("bar.sync", Class::Barrier),
        ] {
            assert_eq!(Class::of(name), class, "{name}");
        }
    }
}
