//! `cp.async`: copies from global to shared memory that run beside the threads.
//!
//! A thread issues copies, closes what it has issued into a group with [`cp_async_commit`], and waits until all but
//! the newest `N` of its groups have arrived with [`cp_async_wait`]. Other threads see the data after a barrier that
//! follows the wait.

/// How many bytes one `cp.async` moves.
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
        match self {
            Self::B4 => 4,
            Self::B8 => 8,
            Self::B16 => 16,
        }
    }

    /// The size that moves `bytes`, where there is one.
    pub const fn of(bytes: usize) -> Option<Self> {
        match bytes {
            4 => Some(Self::B4),
            8 => Some(Self::B8),
            16 => Some(Self::B16),
            _ => None,
        }
    }
}

/// Starts a copy of `size` bytes from global to shared memory: the first `valid_bytes` from `source`, zeros for the
/// rest. With `valid_bytes` of 0 the source is not read.
///
/// # Safety
/// Both addresses are aligned to `size`; the destination lies in the block's shared memory; `valid_bytes` bytes at the
/// source are readable; `valid_bytes <= size`. Nobody touches the destination before the wait.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn cp_async(size: CpAsyncSize, destination: u32, source: u64, valid_bytes: u32) {
    #[cfg(target_arch = "nvptx64")]
    {
        macro_rules! copy {
            ($text:literal) => {
                // SAFETY: the caller's contract.
                unsafe {
                    core::arch::asm!(
                        $text,
                        destination = in(reg32) destination, source = in(reg64) source, valid = in(reg32) valid_bytes,
                        options(nostack)
                    )
                }
            };
        }
        match size {
            CpAsyncSize::B4 => copy!("cp.async.ca.shared.global [{destination}], [{source}], 4, {valid};"),
            CpAsyncSize::B8 => copy!("cp.async.ca.shared.global [{destination}], [{source}], 8, {valid};"),
            CpAsyncSize::B16 => copy!("cp.async.cg.shared.global [{destination}], [{source}], 16, {valid};"),
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async(destination, source, size.bytes(), valid_bytes);
}

/// Closes the thread's copies issued so far into a group (`cp.async.commit_group`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn cp_async_commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: only groups copies that were issued before.
    unsafe {
        core::arch::asm!("cp.async.commit_group;", options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_commit();
}

/// Waits until at most the newest `N` of the thread's groups are still on their way (`cp.async.wait_group N`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn cp_async_wait<const N: u32>() {
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
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("cp.async.wait_all;", options(nostack))
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::cp_async_wait_all();
}
