//! `cp.async`: asynchronous copies from global to shared memory (sm_80, PTX 7.0).
//!
//! A thread issues copies, commits them as a group with [`cp_async_commit`], and waits until all
//! but the newest `N` of its groups are complete with [`cp_async_wait`]. Other threads see the data
//! after a barrier that follows the wait.

use super::cache::L2Prefetch;
#[cfg(target_arch = "nvptx64")]
use super::cache::PrefetchSize;
use super::target::needs;

/// The bytes that one [`cp_async`] moves, and the caches, which follow from the size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpAsyncSize {
    /// 4 bytes, cached in L1 and L2 (`.ca`).
    B4,
    /// 8 bytes, cached in L1 and L2 (`.ca`).
    B8,
    /// 16 bytes, cached in L2 only (`.cg`).
    B16,
}

impl CpAsyncSize {
    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        self.kind().bytes()
    }

    /// The size of `bytes` bytes, if it exists.
    pub const fn of(bytes: usize) -> Option<Self> {
        match bytes {
            4 => Some(Self::B4),
            8 => Some(Self::B8),
            16 => Some(Self::B16),
            _ => None,
        }
    }

    const fn kind(self) -> CpAsyncKind {
        match self {
            Self::B4 => CpAsyncKind::Ca4,
            Self::B8 => CpAsyncKind::Ca8,
            Self::B16 => CpAsyncKind::Cg16,
        }
    }
}

/// The forms of `cp.async`: the caches that keep the line, and the bytes that it moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpAsyncKind {
    /// 4 bytes, L1 and L2 (`.ca`).
    Ca4,
    /// 8 bytes, L1 and L2 (`.ca`).
    Ca8,
    /// 16 bytes, L1 and L2 (`.ca`).
    Ca16,
    /// 16 bytes, L2 only (`.cg`).
    Cg16,
}

impl CpAsyncKind {
    /// The size in bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Ca4 => 4,
            Self::Ca8 => 8,
            Self::Ca16 | Self::Cg16 => 16,
        }
    }
}

/// One `asm!` for each form: `$text` around the instruction's name, size and operands.
#[cfg(target_arch = "nvptx64")]
macro_rules! each_form {
    ($kind:ident, $prefetch:ident, $form:ident) => {
        match ($kind, $prefetch.0) {
            (CpAsyncKind::Ca4, PrefetchSize::None) => $form!("ca.shared.global", "4"),
            (CpAsyncKind::Ca8, PrefetchSize::None) => $form!("ca.shared.global", "8"),
            (CpAsyncKind::Ca16, PrefetchSize::None) => $form!("ca.shared.global", "16"),
            (CpAsyncKind::Cg16, PrefetchSize::None) => $form!("cg.shared.global", "16"),
            (CpAsyncKind::Ca4, PrefetchSize::B64) => $form!("ca.shared.global.L2::64B", "4"),
            (CpAsyncKind::Ca8, PrefetchSize::B64) => $form!("ca.shared.global.L2::64B", "8"),
            (CpAsyncKind::Ca16, PrefetchSize::B64) => $form!("ca.shared.global.L2::64B", "16"),
            (CpAsyncKind::Cg16, PrefetchSize::B64) => $form!("cg.shared.global.L2::64B", "16"),
            (CpAsyncKind::Ca4, PrefetchSize::B128) => $form!("ca.shared.global.L2::128B", "4"),
            (CpAsyncKind::Ca8, PrefetchSize::B128) => $form!("ca.shared.global.L2::128B", "8"),
            (CpAsyncKind::Ca16, PrefetchSize::B128) => $form!("ca.shared.global.L2::128B", "16"),
            (CpAsyncKind::Cg16, PrefetchSize::B128) => $form!("cg.shared.global.L2::128B", "16"),
            (CpAsyncKind::Ca4, PrefetchSize::B256) => $form!("ca.shared.global.L2::256B", "4"),
            (CpAsyncKind::Ca8, PrefetchSize::B256) => $form!("ca.shared.global.L2::256B", "8"),
            (CpAsyncKind::Ca16, PrefetchSize::B256) => $form!("ca.shared.global.L2::256B", "16"),
            (CpAsyncKind::Cg16, PrefetchSize::B256) => $form!("cg.shared.global.L2::256B", "16"),
        }
    };
}

/// Starts a copy of `size` bytes from global to shared memory: the first `valid_bytes` from
/// `source`, zeros for the rest. With `valid_bytes` of 0 the source is not read.
///
/// # Safety
/// Same contract as [`cp_async_zfill`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async(size: CpAsyncSize, destination: u32, source: u64, valid_bytes: u32) {
    // SAFETY: same contract as `cp_async_zfill`.
    unsafe { cp_async_zfill(size.kind(), L2Prefetch::None, destination, source, valid_bytes) }
}

/// Starts a copy from global to shared memory (`cp.async`). `kind` and `prefetch` are constants.
///
/// # Safety
/// Both addresses are aligned to the copy's size; the destination is in the block's shared memory;
/// the source is readable. No thread accesses the destination before the wait.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async_plain(kind: CpAsyncKind, prefetch: L2Prefetch, destination: u32, source: u64) {
    needs!("cp.async (the atoms SM80_CP_ASYNC_CACHEALWAYS and SM80_CP_ASYNC_CACHEGLOBAL)", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! copy {
            ($form:literal, $size:literal) => {
                // SAFETY: aligned addresses of shared and of readable global memory.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.async.", $form, " [{destination}], [{source}], ", $size, ";"),
                        destination = in(reg32) destination, source = in(reg64) source,
                        options(nostack)
                    )
                }
            };
        }
        each_form!(kind, prefetch, copy)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = prefetch;
        moye_sim::intrinsics::cp_async(destination, source, kind.bytes(), kind.bytes());
    }
}

/// Starts a copy from global to shared memory: the first `valid_bytes` come from `source`, the rest
/// are zeros (`cp.async` with a source size). With `valid_bytes` of 0 the source is not read.
/// `kind` and `prefetch` are constants.
///
/// # Safety
/// Both addresses are aligned to the copy's size; the destination is in the block's shared memory;
/// `valid_bytes` bytes at the source are readable, and no more than the copy's size. No thread
/// accesses the destination before the wait.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async_zfill(
    kind: CpAsyncKind,
    prefetch: L2Prefetch,
    destination: u32,
    source: u64,
    valid_bytes: u32,
) {
    needs!("cp.async (the atoms SM80_CP_ASYNC_CACHEALWAYS_ZFILL and SM80_CP_ASYNC_CACHEGLOBAL_ZFILL)", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! copy {
            ($form:literal, $size:literal) => {
                // SAFETY: aligned addresses; `valid_bytes` bytes of the source are readable.
                unsafe {
                    core::arch::asm!(
                        concat!("cp.async.", $form, " [{destination}], [{source}], ", $size, ", {valid};"),
                        destination = in(reg32) destination, source = in(reg64) source, valid = in(reg32) valid_bytes,
                        options(nostack)
                    )
                }
            };
        }
        each_form!(kind, prefetch, copy)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = prefetch;
        moye_sim::intrinsics::cp_async(destination, source, kind.bytes(), valid_bytes);
    }
}

/// [`cp_async_plain`] if `valid`; otherwise it has no effect, and the destination keeps its
/// contents (`@p cp.async`).
///
/// # Safety
/// Same contract as [`cp_async_plain`], if `valid`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async_if(
    valid: bool,
    kind: CpAsyncKind,
    prefetch: L2Prefetch,
    destination: u32,
    source: u64,
) {
    needs!("cp.async (the atoms SM80_CP_ASYNC_CACHEALWAYS and SM80_CP_ASYNC_CACHEGLOBAL)", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! copy {
            ($form:literal, $size:literal) => {
                // SAFETY: aligned addresses; the source is readable if `valid`.
                unsafe {
                    core::arch::asm!(
                        "{{ .reg .pred p; setp.ne.b32 p, {valid}, 0;",
                        concat!("@p cp.async.", $form, " [{destination}], [{source}], ", $size, "; }}"),
                        destination = in(reg32) destination, source = in(reg64) source,
                        valid = in(reg32) valid as u32,
                        options(nostack)
                    )
                }
            };
        }
        each_form!(kind, prefetch, copy)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if valid {
        // SAFETY: aligned addresses; the source is readable.
        unsafe { cp_async_plain(kind, prefetch, destination, source) }
    }
}

/// Commits the thread's copies issued so far as a group (`cp.async.commit_group`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn cp_async_commit() {
    needs!("cp.async.commit_group", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: only groups copies that were issued before.
    unsafe {
        core::arch::asm!("cp.async.commit_group;", options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_commit();
}

/// Waits until at most the newest `N` of the thread's groups are in flight
/// (`cp.async.wait_group N`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn cp_async_wait<const N: u32>() {
    needs!("cp.async.wait_group", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: waits; the default clobber keeps memory accesses on their side of it.
    unsafe {
        core::arch::asm!("cp.async.wait_group {n};", n = const N, options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_wait_group(N);
}

/// Waits for all of the thread's copies, grouped or not (`cp.async.wait_all`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn cp_async_wait_all() {
    needs!("cp.async.wait_all", 80 7.0);
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: only waits; the default clobber orders memory accesses.
    unsafe {
        core::arch::asm!("cp.async.wait_all;", options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_wait_all();
}
