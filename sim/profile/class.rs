//! Classes of instructions, as a profiler groups them.

/// The effect of an instruction.
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
    /// `cp.async`, bulk and tensor copies, their prefetches, `st.async`.
    AsyncCopy,
    /// Atomic operations and reductions in memory.
    Atomic,
    /// `mma.sync` and `wgmma.mma_async`.
    TensorCore,
    /// Barriers of blocks, warps and clusters, mbarriers, commits of groups and waits for them.
    Barrier,
    /// Fences between threads, of the proxies, and `wgmma.fence`.
    Fence,
    /// Shuffles, votes, matches, elections and reductions of a warp.
    Warp,
    /// The special function unit: `ex2`, `rcp`, `rsqrt`, `lg2`, `tanh`, ...
    Special,
    /// Conversions between types.
    Convert,
    /// All others.
    Other,
}

/// Prefixes of names with their classes. The first match counts.
const BEGINNINGS: &[(&str, Class)] = &[
    ("ld.global", Class::GlobalLoad),
    ("st.global", Class::GlobalStore),
    ("ld.shared", Class::SharedLoad),
    ("ldmatrix", Class::SharedLoad),
    ("st.shared", Class::SharedStore),
    ("stmatrix", Class::SharedStore),
    ("cp.async.commit", Class::Barrier),
    ("cp.async.wait", Class::Barrier),
    ("cp.async.mbarrier", Class::Barrier),
    ("cp.async.bulk.commit", Class::Barrier),
    ("cp.async.bulk.wait", Class::Barrier),
    ("cp.async", Class::AsyncCopy),
    ("cp.reduce.async", Class::AsyncCopy),
    ("st.async", Class::AsyncCopy),
    ("prefetch", Class::AsyncCopy),
    ("atom", Class::Atomic),
    ("red.", Class::Atomic),
    ("mma.", Class::TensorCore),
    ("wgmma.mma", Class::TensorCore),
    ("wgmma.fence", Class::Fence),
    ("wgmma", Class::Barrier),
    ("mbarrier", Class::Barrier),
    ("bar", Class::Barrier),
    ("griddepcontrol", Class::Barrier),
    ("fence", Class::Fence),
    ("shfl", Class::Warp),
    ("vote", Class::Warp),
    ("match", Class::Warp),
    ("redux", Class::Warp),
    ("elect", Class::Warp),
    ("movmatrix", Class::Warp),
    ("cvt", Class::Convert),
    ("ex2", Class::Special),
    ("lg2", Class::Special),
    ("rcp", Class::Special),
    ("rsqrt", Class::Special),
    ("sqrt", Class::Special),
    ("tanh", Class::Special),
];

impl Class {
    /// All classes.
    pub const ALL: [Self; 13] = [
        Self::GlobalLoad,
        Self::GlobalStore,
        Self::SharedLoad,
        Self::SharedStore,
        Self::AsyncCopy,
        Self::Atomic,
        Self::TensorCore,
        Self::Barrier,
        Self::Fence,
        Self::Warp,
        Self::Special,
        Self::Convert,
        Self::Other,
    ];

    /// The class of an instruction by its name.
    ///
    /// ```
    /// use moye_sim::profile::Class;
    /// assert_eq!(Class::of("shfl.sync.bfly"), Class::Warp);
    /// assert_eq!(Class::of("cp.async.wait_group"), Class::Barrier);
    /// ```
    pub fn of(name: &str) -> Self {
        let class = BEGINNINGS.iter().find(|(beginning, _)| name.starts_with(beginning));
        class.map_or(Self::Other, |(_, class)| *class)
    }

    /// Its name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GlobalLoad => "global load",
            Self::GlobalStore => "global store",
            Self::SharedLoad => "shared load",
            Self::SharedStore => "shared store",
            Self::AsyncCopy => "asynchronous copy",
            Self::Atomic => "atomic",
            Self::TensorCore => "tensor core",
            Self::Barrier => "barrier",
            Self::Fence => "fence",
            Self::Warp => "warp",
            Self::Special => "special function",
            Self::Convert => "conversion",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_has_the_class_of_what_it_does() {
        for (name, class) in [
            ("ld.global.b128", Class::GlobalLoad),
            ("ldmatrix.sync.aligned.m8n8.x4", Class::SharedLoad),
            ("cp.async", Class::AsyncCopy),
            ("cp.async.bulk.tensor.shared::cluster.global", Class::AsyncCopy),
            ("cp.async.bulk.wait_group.read", Class::Barrier),
            ("red.shared", Class::Atomic),
            ("redux.sync.add", Class::Warp),
            ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16", Class::TensorCore),
            ("wgmma.fence", Class::Fence),
            ("wgmma.wait_group", Class::Barrier),
            ("barrier.cluster.wait", Class::Barrier),
            ("fence.proxy.async", Class::Fence),
            ("rsqrt.approx.ftz.f32", Class::Special),
            ("cvt.rn.bf16x2.f32", Class::Convert),
            ("setmaxnreg.inc.sync.aligned.u32", Class::Other),
        ] {
            assert_eq!(Class::of(name), class, "{name}");
        }
    }
}
