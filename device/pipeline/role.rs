//! The roles of the warpgroups of a warp-specialised block: consumers that multiply, and a producer
//! that issues their copies.

use crate::arch::{
    FULL_WARP, block_dim, decrease_registers, increase_registers, shuffle, simulator_assert, thread_idx,
};
use crate::tiling::TilingError;

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Registers of an SM.
const REGISTERS: u32 = 65_536;

/// The role of a thread's warpgroup, uniform across the warp also for the compiler: a branch on the
/// role is not divergent.
///
/// The consumers are the first warpgroups of the block, and the producer is the last.
/// [`with_registers`](Self::with_registers) also moves registers from the producer to the
/// consumers.
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
///         Role::Producer { elected } => out.write(thread, 10 + u32::from(elected)),
///         Role::Consumer { warpgroup } => out.write(thread, warpgroup),
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
        /// Whether this thread issues the copies: it is the first of the warpgroup.
        elected: bool,
    },
    /// A warpgroup that multiplies.
    Consumer {
        /// Its index.
        warpgroup: u32,
    },
}

impl Role {
    /// The threads of a block with `consumers` consumer warpgroups: `#[kernel(threads = ...)]`.
    #[must_use]
    pub const fn threads(consumers: u32) -> u32 {
        WARPGROUP * (consumers + 1)
    }

    /// The role of this thread in a block with `consumers` consumer warpgroups, which has
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
        // The index is uniform across the warp; the shuffle tells the compiler so.
        let warpgroup = shuffle(FULL_WARP, thread / WARPGROUP, 0);
        if warpgroup == consumers {
            Self::Producer { elected: thread == WARPGROUP * consumers }
        } else {
            Self::Consumer { warpgroup }
        }
    }

    /// [`of_thread`](Self::of_thread) for a block whose roles have different register counts: a
    /// producer thread keeps `PRODUCER` registers, a consumer thread takes `CONSUMER`
    /// (`setmaxnreg`).
    ///
    /// Both are multiples of 8, from 24 to 256. A block of 384 threads starts with 168 registers
    /// each, 64,512 in all; two consumers with 232 and a producer with 40 need exactly these,
    /// `128 * (2 * 232 + 40)`. Counts above the block's registers do not compile: the consumers
    /// would wait for them forever. The check assumes that the kernel declares
    /// `threads = Role::threads(CONSUMERS)` and `min_blocks = 1`.
    ///
    /// Each arm of the `match` sets its registers first. A function that set them and then returned
    /// the role would join both paths, in which case `ptxas` ignores `setmaxnreg`.
    ///
    /// ```
    /// use moye_device::prelude::*;
    ///
    /// /// # Safety
    /// /// `out` has an element for each thread.
    /// #[kernel(threads = Role::threads(2), min_blocks = 1)]
    /// pub unsafe fn roles(out: GlobalMut<u32>) {
    ///     let thread = i64::from(thread_idx().x);
    ///     match Role::with_registers::<2, 40, 232>() {
    ///         RoleWithRegisters::Producer(registers) => {
    ///             let elected = registers.give();
    ///             out.write(thread, 10 + u32::from(elected));
    ///         }
    ///         RoleWithRegisters::Consumer(registers) => {
    ///             let warpgroup = registers.take();
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
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn with_registers<const CONSUMERS: u32, const PRODUCER: u32, const CONSUMER: u32>()
    -> RoleWithRegisters<PRODUCER, CONSUMER> {
        const { registers_fit(CONSUMERS, PRODUCER, CONSUMER) };
        match Self::of_thread(CONSUMERS) {
            Self::Producer { elected } => RoleWithRegisters::Producer(ProducerRegisters { elected }),
            Self::Consumer { warpgroup } => RoleWithRegisters::Consumer(ConsumerRegisters { warpgroup }),
        }
    }
}

/// The role of a thread's warpgroup, and the registers of its threads: see
/// [`Role::with_registers`].
#[derive(Debug)]
#[must_use]
pub enum RoleWithRegisters<const PRODUCER: u32, const CONSUMER: u32> {
    /// The last warpgroup, which releases registers.
    Producer(ProducerRegisters<PRODUCER>),
    /// A warpgroup that multiplies, which takes registers.
    Consumer(ConsumerRegisters<CONSUMER>),
}

/// The registers that a producer's thread keeps.
#[derive(Debug)]
#[must_use = "a producer gives registers away, or its consumers wait for them for ever"]
pub struct ProducerRegisters<const COUNT: u32> {
    elected: bool,
}

impl<const COUNT: u32> ProducerRegisters<COUNT> {
    /// Releases the other registers, and returns whether this thread issues the copies: it is the
    /// first of the warpgroup.
    ///
    /// # Safety
    /// All threads of the warpgroup execute it together, each warp with all its lanes.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn give(self) -> bool {
        // SAFETY: all warps of the warpgroup execute it, with all lanes.
        unsafe { decrease_registers::<COUNT>() };
        self.elected
    }
}

/// The registers that a consumer's thread takes.
#[derive(Debug)]
#[must_use = "a consumer takes registers, or its accumulators do not fit"]
pub struct ConsumerRegisters<const COUNT: u32> {
    warpgroup: u32,
}

impl<const COUNT: u32> ConsumerRegisters<COUNT> {
    /// Takes the registers as soon as the producer has released them, and returns the index of the
    /// warpgroup.
    ///
    /// # Safety
    /// Same contract as [`ProducerRegisters::give`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn take(self) -> u32 {
        // SAFETY: all warps of the warpgroup execute it, with all lanes.
        unsafe { increase_registers::<COUNT>() };
        self.warpgroup
    }
}

/// `setmaxnreg` accepts these counts, and the block has the registers, or it does not compile.
const fn registers_fit(consumers: u32, producer: u32, consumer: u32) {
    let threads = Role::threads(consumers);
    // A thread starts with what the launch bounds allow, at most the number that it can address.
    let (share, most) = (REGISTERS / threads / 8 * 8, 248);
    let start = if share < most { share } else { most };
    let (has, needs) = (start * threads, WARPGROUP * (producer + consumers * consumer));
    let taken = producer.is_multiple_of(8) && consumer.is_multiple_of(8) && producer >= 24 && consumer <= 256;
    if !taken || producer > start || consumer < start || needs > has {
        TilingError::of("Role::with_registers")
            .str("a producer with ")
            .int(producer as i64)
            .str(" registers for each thread and ")
            .int(consumers as i64)
            .str(" consumer warpgroups with ")
            .int(consumer as i64)
            .str(" need ")
            .int(needs as i64)
            .str(", and a block of ")
            .int(threads as i64)
            .str(" threads starts with ")
            .int(start as i64)
            .str(" for each, ")
            .int(has as i64)
            .str(" in all: take multiples of 8 that need no more, 24 to ")
            .int(start as i64)
            .str(" for the producer and ")
            .int(start as i64)
            .str(" to 256 for the consumers")
            .raise();
    }
}
