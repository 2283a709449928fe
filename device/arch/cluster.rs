//! Clusters: the block's position in its cluster, the cluster's barrier, and the shared memory of
//! the other blocks.
//!
//! The blocks of a cluster run concurrently, and each may access the others' shared memory by
//! addresses from [`map_shared`]. The block's own shared addresses are addresses of the cluster's
//! shared memory too. A block must not exit while others may access its memory: either all blocks
//! synchronise at the cluster's barrier first, or it has waited for everything that they send.
//!
//! A launch without clusters has clusters of one block.

use super::Dim3;
use super::target::needs;
use super::word::{Word64x2, Word128};

macro_rules! special_register {
    ($($(#[$doc:meta])* $name:ident $register:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() -> u32 {
            needs!($register, 90 7.8);
            #[cfg(target_arch = "nvptx64")]
            {
                let value: u32;
                // SAFETY: reads a special register.
                unsafe {
                    core::arch::asm!(
                        concat!("mov.u32 {}, ", $register, ";"), out(reg32) value, options(pure, nomem, nostack)
                    )
                };
                value
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::$name()
        }
    )* };
}
special_register! {
    /// The block's rank in its cluster, with `x` fastest (`%cluster_ctarank`).
    cluster_rank "%cluster_ctarank";
    /// The number of blocks in a cluster (`%cluster_nctarank`).
    cluster_size "%cluster_nctarank";
}

macro_rules! special_registers {
    ($($(#[$doc:meta])* $name:ident $register:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        #[must_use]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() -> Dim3 {
            needs!($register, 90 7.8);
            #[cfg(target_arch = "nvptx64")]
            {
                let (x, y, z): (u32, u32, u32);
                // SAFETY: reads special registers.
                unsafe {
                    core::arch::asm!(concat!("mov.u32 {}, ", $register, ".x;"), out(reg32) x, options(pure, nomem, nostack));
                    core::arch::asm!(concat!("mov.u32 {}, ", $register, ".y;"), out(reg32) y, options(pure, nomem, nostack));
                    core::arch::asm!(concat!("mov.u32 {}, ", $register, ".z;"), out(reg32) z, options(pure, nomem, nostack));
                }
                Dim3 { x, y, z }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let d = moye_sim::intrinsics::$name();
                Dim3 { x: d.x, y: d.y, z: d.z }
            }
        }
    )* };
}
special_registers! {
    /// The block's index in its cluster (`%cluster_ctaid`).
    cluster_block_idx "%cluster_ctaid";
    /// Blocks in a cluster (`%cluster_nctaid`).
    cluster_dim "%cluster_nctaid";
}

macro_rules! barriers {
    ($($(#[$doc:meta])* $name:ident $intrinsic:literal $instruction:literal $version:literal;)*) => { $(
        $(#[$doc])*
        ///
        /// All lanes of the warp must call it together, and all warps of the cluster equally often.
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() {
            needs!($instruction, 90 $version);
            #[cfg(target_arch = "nvptx64")]
            {
                unsafe extern "C" {
                    #[link_name = $intrinsic]
                    fn barrier();
                }
                // SAFETY: a convergent intrinsic that accesses no memory that Rust manages.
                unsafe { barrier() }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            moye_sim::intrinsics::$name();
        }
    )* };
}
barriers! {
    /// Arrives at the cluster's barrier; the thread's earlier writes are visible to the threads
    /// that wait for it (`barrier.cluster.arrive.aligned`).
    cluster_arrive "llvm.nvvm.barrier.cluster.arrive.aligned" "barrier.cluster.arrive" 7.8;
    /// Arrives at the cluster's barrier without release semantics
    /// (`barrier.cluster.arrive.relaxed.aligned`): enough after
    /// [`fence_mbarrier_init`](super::fence_mbarrier_init), and without the GPU-wide fence that
    /// `ptxas` emits for the other form.
    cluster_arrive_relaxed "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned" "barrier.cluster.arrive.relaxed" 8.0;
    /// Waits until all threads of the cluster have arrived at its barrier
    /// (`barrier.cluster.wait.aligned`).
    cluster_wait "llvm.nvvm.barrier.cluster.wait.aligned" "barrier.cluster.wait" 7.8;
}

/// [`cluster_arrive`] and [`cluster_wait`], under their conditions.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn sync_cluster() {
    cluster_arrive();
    cluster_wait();
}

/// The address, in the cluster's shared memory, of the shared address `address` in block `rank` of
/// the cluster (`mapa.shared::cluster.u32`).
#[inline(always)]
#[must_use]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    needs!("mapa", 90 7.8);
    #[cfg(target_arch = "nvptx64")]
    {
        let mapped: u32;
        // SAFETY: arithmetic on an address.
        unsafe {
            core::arch::asm!(
                "mapa.shared::cluster.u32 {mapped}, {address}, {rank};",
                mapped = out(reg32) mapped, address = in(reg32) address, rank = in(reg32) rank,
                options(pure, nomem, nostack)
            )
        };
        mapped
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::map_shared(address, rank)
}

/// The word of an access to the cluster's shared memory.
pub trait ClusterWord: Copy {
    /// `ld.shared::cluster`.
    ///
    /// # Safety
    /// `address` is in the cluster's shared memory, aligned to the word's size, in a block that has
    /// not exited; another thread's write there is ordered before, for example by a barrier of the
    /// cluster.
    #[must_use]
    unsafe fn load_shared_cluster(address: u32) -> Self;

    /// `st.shared::cluster`.
    ///
    /// # Safety
    /// Same contract as [`load_shared_cluster`](Self::load_shared_cluster), and no other thread
    /// accesses the bytes meanwhile.
    unsafe fn store_shared_cluster(address: u32, value: Self);
}

macro_rules! cluster_word {
    ($($word:ty as $sim:ty: $ptx:literal $list:literal, ($($register:ident: $class:ident = $part:expr),+) => $join:expr, |$value:ident|, |$bits:ident| $from:expr, $to:expr;)*) => { $(
        impl ClusterWord for $word {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_shared_cluster(address: u32) -> Self {
                needs!("ld.shared::cluster", 90 7.8);
                #[cfg(target_arch = "nvptx64")]
                {
                    $(let $register;)+
                    // SAFETY: an aligned address in a block of the cluster that has not exited.
                    unsafe {
                        core::arch::asm!(
                            concat!("ld.shared::cluster.", $ptx, " ", $list, ", [{address}];"),
                            $($register = out($class) $register,)+ address = in(reg32) address,
                            options(readonly, nostack)
                        )
                    };
                    $join
                }
                #[cfg(not(target_arch = "nvptx64"))]
                {
                    let $bits: $sim = moye_sim::intrinsics::load_shared_cluster(address);
                    $from
                }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn store_shared_cluster(address: u32, $value: Self) {
                needs!("st.shared::cluster", 90 7.8);
                #[cfg(target_arch = "nvptx64")]
                // SAFETY: an aligned address in a block of the cluster that has not exited.
                unsafe {
                    core::arch::asm!(
                        concat!("st.shared::cluster.", $ptx, " [{address}], ", $list, ";"),
                        $($register = in($class) $part,)+ address = in(reg32) address, options(nostack)
                    )
                }
                #[cfg(not(target_arch = "nvptx64"))]
                moye_sim::intrinsics::store_shared_cluster::<$sim>(address, $to);
            }
        }
    )* };
}
cluster_word! {
    u32 as u32: "b32" "{a}", (a: reg32 = value) => a, |value|, |bits| bits, value;
    f32 as f32: "b32" "{a}", (a: reg32 = value) => a, |value|, |bits| bits, value;
    u64 as u64: "b64" "{a}", (a: reg64 = value) => a, |value|, |bits| bits, value;
    Word64x2 as [u32; 2]: "v2.b32" "{{{a}, {b}}}", (a: reg32 = value.0[0], b: reg32 = value.0[1])
        => Self([a, b]), |value|, |bits| Self(bits), value.0;
    Word128 as [u32; 4]: "v4.b32" "{{{a}, {b}, {c}, {d}}}",
        (a: reg32 = value.0[0], b: reg32 = value.0[1], c: reg32 = value.0[2], d: reg32 = value.0[3])
        => Self([a, b, c, d]), |value|, |bits| Self(bits), value.0;
}
