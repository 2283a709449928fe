//! Loads and stores of global memory with cache hints, and prefetches.
//!
//! Hints do not change the loaded value, with one exception that the contracts name: a non-coherent
//! load ([`Coherence::ReadOnly`]) may miss a write of the same kernel, which the simulator reports
//! as a fault.

use super::target::needs;
use super::word::{Word, Word64x2, Word128};

/// The forms of an instruction, as constants of a type. A form that needs a later PTX version than
/// its instruction is a constant that does not compile for older ones: the instruction's function
/// takes any form, and only the constant knows its form before optimisation.
macro_rules! forms {
    (
        $(#[$doc:meta])* $name:ident of $form:ident {
            $(#[$first_doc:meta])* $first:ident,
            $($(#[$of:meta])* $value:ident $(: $ptx:literal needs $sm:literal $version:literal)?,)+
        }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum $form {
            $first,
            $($value,)+
        }

        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub(super) $form);

        #[allow(non_upper_case_globals, reason = "named like the variants of an enum, which they stand for")]
        impl $name {
            $(#[$first_doc])*
            pub const $first: Self = Self($form::$first);
            $(
                $(#[$of])*
                $(#[doc = concat!("sm_", $sm, ", PTX ", $version, ".")])?
                pub const $value: Self = {
                    $(needs!($ptx, $sm $version);)?
                    Self($form::$value)
                };
            )+
        }

        impl Default for $name {
            #[inline(always)]
            fn default() -> Self {
                Self::$first
            }
        }
    };
}

forms! {
    /// The size of the surrounding memory that an access also loads into L2.
    L2Prefetch of PrefetchSize {
        /// Only the accessed bytes.
        None,
        /// The aligned 64 bytes around it (`.L2::64B`).
        B64: "an access with .L2::64B" needs 75 7.4,
        /// The aligned 128 bytes around it (`.L2::128B`).
        B128: "an access with .L2::128B" needs 75 7.4,
        /// The aligned 256 bytes around it (`.L2::256B`).
        B256: "an access with .L2::256B" needs 80 7.4,
    }
}

/// The path of a load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Coherence {
    /// `ld.global`: it sees this thread's writes and, after a barrier, other threads' writes.
    #[default]
    Coherent,
    /// `ld.global.nc`: for memory that no thread writes while the kernel runs.
    ReadOnly,
}

forms! {
    /// The cache policy of a loaded line.
    LoadCache of LoadForm {
        /// The GPU's default: in L1 and L2.
        Default,
        /// At all levels (`.ca`).
        Ca,
        /// In L2 but not in L1 (`.cg`).
        Cg,
        /// For data that are used once (`.cs`).
        Cs,
        /// Last in L1 to be evicted (`.L1::evict_last`).
        L1EvictLast: "ld.global.L1::evict_last" needs 70 7.4,
        /// First in L1 to be evicted (`.L1::evict_first`).
        L1EvictFirst: "ld.global.L1::evict_first" needs 70 7.4,
        /// Does not change the eviction order in L1 (`.L1::evict_unchanged`).
        L1EvictUnchanged: "ld.global.L1::evict_unchanged" needs 70 7.4,
        /// Not in L1 (`.L1::no_allocate`).
        L1NoAllocate: "ld.global.L1::no_allocate" needs 70 7.4,
        /// Last use of the line (`.lu`); [`Coherence::Coherent`] only.
        Lu,
    }
}

forms! {
    /// The cache policy of a store.
    StoreCache of StoreForm {
        /// The GPU's default.
        Default,
        /// In all caches that are coherent (`.wb`).
        Wb,
        /// In L2 but not in L1 (`.cg`).
        Cg,
        /// For data that are used once (`.cs`).
        Cs,
        /// Through L2 to memory (`.wt`).
        Wt,
        /// Last in L1 to be evicted (`.L1::evict_last`).
        L1EvictLast: "st.global.L1::evict_last" needs 70 7.4,
        /// First in L1 to be evicted (`.L1::evict_first`).
        L1EvictFirst: "st.global.L1::evict_first" needs 70 7.4,
        /// Not in L1 (`.L1::no_allocate`).
        L1NoAllocate: "st.global.L1::no_allocate" needs 70 7.4,
    }
}

/// The cache hints of a load. Pass a constant: it selects the instruction.
///
/// ```
/// use moye_device::arch::{L2Prefetch, LoadCache, LoadHint};
/// const STREAM: LoadHint = LoadHint::READ_ONLY.cache(LoadCache::L1NoAllocate).prefetch(L2Prefetch::B128);
/// const LAST_USE: LoadHint = LoadHint::PLAIN.cache(LoadCache::Lu);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadHint {
    /// The path.
    pub(super) coherence: Coherence,
    /// The cache policy.
    pub(super) cache: LoadCache,
    /// The prefetch into L2.
    pub(super) prefetch: L2Prefetch,
}

impl LoadHint {
    /// `ld.global`.
    pub const PLAIN: Self =
        Self { coherence: Coherence::Coherent, cache: LoadCache::Default, prefetch: L2Prefetch::None };

    /// `ld.global.nc`.
    pub const READ_ONLY: Self = Self { coherence: Coherence::ReadOnly, ..Self::PLAIN };

    /// The hint with another cache policy.
    ///
    /// # Panics
    /// If used with [`LoadCache::Lu`] and [`Coherence::ReadOnly`], a combination that PTX does not
    /// have; in a constant it does not compile.
    #[must_use]
    #[inline(always)]
    #[track_caller]
    pub const fn cache(self, cache: LoadCache) -> Self {
        assert!(
            !matches!((self.coherence, cache.0), (Coherence::ReadOnly, LoadForm::Lu)),
            "LoadCache::Lu (ld.global.lu) and LoadHint::READ_ONLY (ld.global.nc) exclude each other: PTX has no load that is \
             both: take LoadHint::PLAIN.cache(LoadCache::Lu), or LoadCache::Cs, data that are used once, with READ_ONLY"
        );
        Self { cache, ..self }
    }

    /// The hint with a prefetch into L2.
    #[must_use]
    pub const fn prefetch(self, prefetch: L2Prefetch) -> Self {
        Self { prefetch, ..self }
    }
}

/// The L2 eviction priority of accesses with a [`CachePolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L2Evict {
    /// Evicted after all other lines.
    Last,
    /// The default order.
    Normal,
    /// Evicted before all other lines.
    First,
    /// Does not change the order.
    Unchanged,
}

/// An L2 cache policy for accesses, in a register; built by [`CachePolicy::new`].
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct CachePolicy(#[cfg_attr(not(target_arch = "nvptx64"), allow(dead_code))] pub(super) u64);

impl CachePolicy {
    /// The policy for all accesses that use it (`createpolicy.fractional`). sm_80, PTX 7.4.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn new(evict: L2Evict) -> Self {
        needs!("createpolicy", 80 7.4);
        #[cfg(target_arch = "nvptx64")]
        {
            let policy: u64;
            macro_rules! create {
                ($primary:literal) => {
                    // SAFETY: computes a value.
                    unsafe {
                        core::arch::asm!(
                            concat!("createpolicy.fractional.L2::", $primary, ".b64 {policy}, 0f3F800000;"),
                            policy = out(reg64) policy,
                            options(pure, nomem, nostack)
                        )
                    }
                };
            }
            match evict {
                L2Evict::Last => create!("evict_last"),
                L2Evict::Normal => create!("evict_normal"),
                L2Evict::First => create!("evict_first"),
                L2Evict::Unchanged => create!("evict_unchanged"),
            }
            Self(policy)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Self(evict as u64)
    }
}

/// Words whose accesses take hints.
pub trait CachedAccess: Word {
    /// Loads the word with `hint`, a constant.
    ///
    /// # Safety
    /// Same contract as [`Word::load_global`]. With [`Coherence::ReadOnly`] no thread writes the
    /// word while the kernel runs.
    unsafe fn load_global_hint(hint: LoadHint, address: u64) -> Self;

    /// Loads the word with an L2 cache policy (`.L2::cache_hint`). sm_80, PTX 7.4.
    ///
    /// # Safety
    /// Same contract as [`Word::load_global`].
    unsafe fn load_global_policy(policy: CachePolicy, address: u64) -> Self;

    /// Stores the word with `cache`, a constant.
    ///
    /// # Safety
    /// Same contract as [`Word::store_global`].
    unsafe fn store_global_hint(cache: StoreCache, address: u64, value: Self);

    /// Stores the word with an L2 cache policy (`.L2::cache_hint`). sm_80, PTX 7.4.
    ///
    /// # Safety
    /// Same contract as [`Word::store_global`].
    unsafe fn store_global_policy(policy: CachePolicy, address: u64, value: Self);
}

/// One arm for each prefetch of a load.
#[cfg(target_arch = "nvptx64")]
macro_rules! each_prefetch {
    ($hint:ident, $load:ident, $name:literal) => {
        match $hint.prefetch.0 {
            PrefetchSize::None => $load!($name),
            PrefetchSize::B64 => $load!(concat!($name, ".L2::64B")),
            PrefetchSize::B128 => $load!(concat!($name, ".L2::128B")),
            PrefetchSize::B256 => $load!(concat!($name, ".L2::256B")),
        }
    };
}

/// One arm for each hint of a load.
#[cfg(target_arch = "nvptx64")]
macro_rules! each_load {
    ($hint:ident, $load:ident) => {
        match ($hint.coherence, $hint.cache.0) {
            (Coherence::Coherent, LoadForm::Default) => each_prefetch!($hint, $load, "ld.global"),
            (Coherence::Coherent, LoadForm::Ca) => each_prefetch!($hint, $load, "ld.global.ca"),
            (Coherence::Coherent, LoadForm::Cg) => each_prefetch!($hint, $load, "ld.global.cg"),
            (Coherence::Coherent, LoadForm::Cs) => each_prefetch!($hint, $load, "ld.global.cs"),
            // The constructor rejects read-only loads.
            (_, LoadForm::Lu) => each_prefetch!($hint, $load, "ld.global.lu"),
            (Coherence::Coherent, LoadForm::L1EvictLast) => {
                each_prefetch!($hint, $load, "ld.global.L1::evict_last")
            }
            (Coherence::Coherent, LoadForm::L1EvictFirst) => {
                each_prefetch!($hint, $load, "ld.global.L1::evict_first")
            }
            (Coherence::Coherent, LoadForm::L1EvictUnchanged) => {
                each_prefetch!($hint, $load, "ld.global.L1::evict_unchanged")
            }
            (Coherence::Coherent, LoadForm::L1NoAllocate) => {
                each_prefetch!($hint, $load, "ld.global.L1::no_allocate")
            }
            (Coherence::ReadOnly, LoadForm::Default) => each_prefetch!($hint, $load, "ld.global.nc"),
            (Coherence::ReadOnly, LoadForm::Ca) => each_prefetch!($hint, $load, "ld.global.ca.nc"),
            (Coherence::ReadOnly, LoadForm::Cg) => each_prefetch!($hint, $load, "ld.global.cg.nc"),
            (Coherence::ReadOnly, LoadForm::Cs) => each_prefetch!($hint, $load, "ld.global.cs.nc"),
            (Coherence::ReadOnly, LoadForm::L1EvictLast) => {
                each_prefetch!($hint, $load, "ld.global.nc.L1::evict_last")
            }
            (Coherence::ReadOnly, LoadForm::L1EvictFirst) => {
                each_prefetch!($hint, $load, "ld.global.nc.L1::evict_first")
            }
            (Coherence::ReadOnly, LoadForm::L1EvictUnchanged) => {
                each_prefetch!($hint, $load, "ld.global.nc.L1::evict_unchanged")
            }
            (Coherence::ReadOnly, LoadForm::L1NoAllocate) => {
                each_prefetch!($hint, $load, "ld.global.nc.L1::no_allocate")
            }
        }
    };
}

/// One arm for each policy of a store.
#[cfg(target_arch = "nvptx64")]
macro_rules! each_store {
    ($cache:ident, $store:ident) => {
        match $cache.0 {
            StoreForm::Default => $store!("st.global"),
            StoreForm::Wb => $store!("st.global.wb"),
            StoreForm::Cg => $store!("st.global.cg"),
            StoreForm::Cs => $store!("st.global.cs"),
            StoreForm::Wt => $store!("st.global.wt"),
            StoreForm::L1EvictLast => $store!("st.global.L1::evict_last"),
            StoreForm::L1EvictFirst => $store!("st.global.L1::evict_first"),
            StoreForm::L1NoAllocate => $store!("st.global.L1::no_allocate"),
        }
    };
}

/// The bodies for one word type: its PTX suffix, the registers of the instruction, how they form
/// the word.
macro_rules! word {
    ($word:ty, $ptx:literal, $list:literal, $(($reg:ident: $class:ident $ty:ty = $part:expr)),+ => $join:expr, |$value:ident|) => {
        impl CachedAccess for $word {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_global_hint(hint: LoadHint, address: u64) -> Self {
                #[cfg(target_arch = "nvptx64")]
                {
                    $(let $reg: $ty;)+
                    // A load from memory that may be written must stay in place; `readonly` tells
                    // LLVM so.
                    macro_rules! load {
                        ($name:expr) => {
                            // SAFETY: an aligned global address of readable memory.
                            unsafe {
                                core::arch::asm!(
                                    concat!($name, ".", $ptx, " ", $list, ", [{address}];"),
                                    $($reg = out($class) $reg,)+ address = in(reg64) address,
                                    options(pure, readonly, nostack)
                                )
                            }
                        };
                    }
                    each_load!(hint, load);
                    $join
                }
                #[cfg(not(target_arch = "nvptx64"))]
                if matches!(hint.coherence, Coherence::ReadOnly) {
                    let bytes: [u8; size_of::<$word>()] = moye_sim::intrinsics::load_global_read_only(address);
                    // SAFETY: a word is plain bits.
                    unsafe { bytes.as_ptr().cast::<$word>().read_unaligned() }
                } else {
                    // SAFETY: an aligned global address of readable memory.
                    unsafe { Self::load_global(address) }
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_global_policy(policy: CachePolicy, address: u64) -> Self {
                needs!("ld.global.L2::cache_hint", 80 7.4);
                #[cfg(target_arch = "nvptx64")]
                {
                    $(let $reg: $ty;)+
                    // SAFETY: an aligned global address of readable memory.
                    unsafe {
                        core::arch::asm!(
                            concat!("ld.global.L2::cache_hint.", $ptx, " ", $list, ", [{address}], {policy};"),
                            $($reg = out($class) $reg,)+ address = in(reg64) address, policy = in(reg64) policy.0,
                            options(pure, readonly, nostack)
                        )
                    };
                    $join
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let _ = policy;
                    // SAFETY: an aligned global address of readable memory.
                    unsafe { Self::load_global(address) }
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_global_hint(cache: StoreCache, address: u64, $value: Self) {
                #[cfg(target_arch = "nvptx64")]
                {
                    macro_rules! store {
                        ($name:expr) => {
                            // SAFETY: an aligned global address of writable memory.
                            unsafe {
                                core::arch::asm!(
                                    concat!($name, ".", $ptx, " [{address}], ", $list, ";"),
                                    $($reg = in($class) $part,)+ address = in(reg64) address,
                                    options(nostack)
                                )
                            }
                        };
                    }
                    each_store!(cache, store)
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let _ = cache;
                    // SAFETY: an aligned global address of writable memory.
                    unsafe { Self::store_global(address, $value) }
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_global_policy(policy: CachePolicy, address: u64, $value: Self) {
                needs!("st.global.L2::cache_hint", 80 7.4);
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: an aligned global address of writable memory.
                unsafe {
                    core::arch::asm!(
                        concat!("st.global.L2::cache_hint.", $ptx, " [{address}], ", $list, ", {policy};"),
                        $($reg = in($class) $part,)+ address = in(reg64) address, policy = in(reg64) policy.0,
                        options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let _ = policy;
                    // SAFETY: an aligned global address of writable memory.
                    unsafe { Self::store_global(address, $value) }
                }
            }
        }
    };
}

word!(u8, "u8", "{a}", (a: reg32 u32 = value as u32) => a as u8, |value|);
word!(u16, "b16", "{a}", (a: reg16 u16 = value) => a, |value|);
word!(u32, "b32", "{a}", (a: reg32 u32 = value) => a, |value|);
word!(u64, "b64", "{a}", (a: reg64 u64 = value) => a, |value|);
word!(Word64x2, "v2.b32", "{{{a}, {b}}}",
    (a: reg32 u32 = value.0[0]), (b: reg32 u32 = value.0[1]) => Word64x2([a, b]), |value|);
word!(Word128, "v4.b32", "{{{a}, {b}, {c}, {d}}}",
    (a: reg32 u32 = value.0[0]), (b: reg32 u32 = value.0[1]), (c: reg32 u32 = value.0[2]), (d: reg32 u32 = value.0[3])
    => Word128([a, b, c, d]), |value|);

/// Prefetches the line around a global address into L2 (`prefetch.global.L2`). Any address is
/// allowed; an unmapped address is ignored.
///
/// The address must not be a constant, though: the driver's compiler (seen in 580.159.04) ends the
/// process with a segmentation fault if the address of a prefetch is known to be 0, which `ptxas`
/// accepts.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn prefetch_l2(address: u64) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: changes no memory.
    unsafe {
        core::arch::asm!("prefetch.global.L2 [{}];", in(reg64) address, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = address;
        moye_sim::intrinsics::count_instruction("prefetch.global.L2");
    }
}
