//! The roles of the warpgroups of a warp-specialised block: consumers that multiply, and one
//! producer that issues their copies.

use crate::arch::{FULL_WARP, block_dim, shuffle, simulator_assert, thread_idx};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

/// The role of a thread's warpgroup, uniform across the warp for the compiler too: a branch by the
/// role is not divergent.
///
/// The consumers are the first warpgroups of the block, and the producer is the last. Each arm of a
/// `match` sets its registers: where both sides join before it, `ptxas` ignores `setmaxnreg`.
///
/// ```
/// use moye_device::prelude::*;
///
/// /// # Safety
/// /// `out` has an element for each thread.
/// #[kernel(threads = Role::threads(2), min_blocks = 1)]
/// pub unsafe fn roles(out: GlobalMut<u32>) {
///     let thread = i64::from(thread_idx().x);
///     match Role::of_thread(2) {
///         Role::Producer { elected } => {
///             decrease_registers::<40>();
///             out.write(thread, 10 + u32::from(elected));
///         }
///         Role::Consumer { warpgroup } => {
///             increase_registers::<232>();
///             out.write(thread, warpgroup);
///         }
///     }
/// }
///
/// # use moye_sim::{GlobalMemory, Launch};
/// # let memory = GlobalMemory::new();
/// # let out = memory.upload(&[99u32; 384], "out").unwrap();
/// # let to = GlobalMut::from_address(out.address());
/// # Launch::new("roles", 1, 384, &memory).run(&|| unsafe { roles.call((to,)) }).unwrap();
/// # let got = out.download::<u32>();
/// assert_eq!((got[0], got[128], got[256], got[257], got[383]), (0, 1, 11, 10, 10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The last warpgroup.
    Producer {
        /// Whether this thread issues the copies: it is the warpgroup's first.
        elected: bool,
    },
    /// A warpgroup that multiplies.
    Consumer {
        /// Its number.
        warpgroup: u32,
    },
}

impl Role {
    /// The threads of a block with this many consumer warpgroups: `#[kernel(threads = ...)]`.
    #[must_use]
    pub const fn threads(consumers: u32) -> u32 {
        WARPGROUP * (consumers + 1)
    }

    /// The role of this thread in a block with this many consumer warpgroups, which has
    /// [`threads`](Self::threads) threads. All lanes of the warp must call it together.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    #[must_use]
    pub fn of_thread(consumers: u32) -> Self {
        let thread = thread_idx().x;
        simulator_assert!(
            block_dim().x == Self::threads(consumers),
            "Role::of_thread: {consumers} consumer warpgroups and a producer are {} threads, and the block has {}",
            Self::threads(consumers),
            block_dim().x
        );
        // The number is uniform across the warp; the shuffle tells the compiler so.
        let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
        if warpgroup == consumers {
            Self::Producer { elected: thread == WARPGROUP * consumers }
        } else {
            Self::Consumer { warpgroup }
        }
    }
}
