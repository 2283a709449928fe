//! Runs a CUDA grid on the CPU: the same kernel source, without a GPU, and with its faults detected
//! and reported.
//!
//! A kernel is a Rust function that calls [`intrinsics`] where GPU code has special instructions:
//! indices, loads and stores, barriers, warp operations. [`Launch`] runs it once for every thread
//! of a grid. Anything but success is a [`Fault`] that names kernel, block, thread and source line,
//! never a crash or a hang.
//!
//! ```
//! use moye_sim::{GlobalMemory, Launch, intrinsics::*};
//!
//! // Every block reverses its 64 words through shared memory.
//! fn reverse(data: u64) {
//!     let (t, shared) = (thread_idx().x, shared_base());
//!     let at = data + 4 * u64::from(64 * block_idx().x + t);
//!     store_shared::<u32>(shared + 4 * t, load_global(at));
//!     sync_threads();
//!     store_global::<u32>(at, load_shared(shared + 4 * (63 - t)));
//! }
//!
//! let memory = GlobalMemory::new();
//! let data = memory.alloc(10 * 64 * 4, "data")?;
//! data.fill(0, data.len(), 0)?;
//! let address = data.address();
//! Launch::new("reverse", 10, 64, &memory).shared_bytes(256).run(&|| reverse(address))?;
//!
//! // With too little shared memory it faults:
//! let error = Launch::new("reverse", 10, 64, &memory).shared_bytes(128).run(&|| reverse(address)).unwrap_err();
//! assert!(error.to_string().starts_with("kernel `reverse`, block (0,0,0), thread (32,0,0) at "));
//! assert!(error.to_string().ends_with(
//!     "write of 4 bytes of shared memory at offset 128, outside the 128 bytes that the launch gave the block"
//! ));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The model
//!
//! - **Threads** are coroutines, each with a stack. One OS thread runs a whole block, switching
//!   from one simulated thread to the next where they wait: at a barrier, in a warp operation, for
//!   a condition, and after some thousand memory accesses, so that a thread may poll for another
//!   thread's write. Threads take turns within their warp, and warps take turns when all their
//!   threads wait, or after some thousand switches. The order is deterministic, so a block with the
//!   same inputs has the same results and faults.
//! - **Blocks** run in parallel on the cores of the host, and start in the order of their index.
//!   Their effects on each other through global memory (atomics) are unordered. A block that waits
//!   for another block finds it running only if the host has a core for it and the process has
//!   stacks for its threads: [`blocks_at_once`] returns how many run concurrently, at most 12
//!   blocks of 1024 threads.
//! - **Global memory** is [`GlobalMemory`]: host memory, which kernels access by address. An access
//!   that is not inside one allocation, or not aligned to its size, is a fault. New memory contains
//!   NaNs.
//! - **Shared memory** tracks for every byte whether it was written. Reading an unwritten byte is a
//!   fault, and so is accessing a byte that a `cp.async` is still writing. It starts at shared
//!   address 1024, not at 0.
//! - **`cp.async`** moves its data at the wait, not before: see [`intrinsics::cp_async`].
//! - **Bulk copies and TMA** move their data when a thread looks at the mbarrier, or waits for the
//!   group; so does **`st.async`**. A missing `fence.proxy.async` is a fault (see
//!   [`intrinsics::tensor_load`]), and so are copies in flight when the block ends.
//! - **`wgmma`** reads its operands by their descriptors, and returns its results after the wait:
//!   see [`intrinsics::Wgmma`].
//! - **Asynchronous reads and writes** of shared memory: a thread may overwrite the source, or read
//!   the destination, only if it *knows* that the operation is over, in any order of the threads:
//!   it has waited itself, or has synchronised with a thread that has. A stage that is released
//!   before `wgmma_wait_group` is a fault at the copy that refills it, even if that copy follows
//!   the wait in the simulator's order; so is the use of a stage by a warp that did not wait for
//!   its bytes, though another warp did. mbarriers, barriers of the block and the cluster and warp
//!   operations pass knowledge on from arriving to waiting threads; atomic operations and fences
//!   pass it on to threads that execute one later.
//! - **Races** are faults: two accesses to the same bytes, at least one of them a write, that no
//!   barrier, fence or wait orders. They are detected whatever the order of the run, within a warp
//!   too, in shared and in global memory; the fault names both threads and lines, and what would
//!   order them. Writes of the same value race only with reads of other threads. Race detection is
//!   on with debug assertions ([`Launch::races`], or the variable `MOYE_SIM_RACES`).
//! - **Streams** ([`Stream`]): an access to bytes that a launch or a copy of another stream
//!   accesses, without an [`Event`] or a host wait between, is also a race.
//! - **Orders** of threads and blocks can be random: [`Launch::order`], or the variable
//!   `MOYE_SIM_ORDER`.
//! - **Stacks** of threads have 256 KiB: [`Launch::stack_bytes`], or the variable `MOYE_SIM_STACK`.
//! - **Clusters** run their blocks together on one OS thread: see [`Launch::cluster`].
//! - **Barriers** count threads. If no thread of a block can continue and some have not exited, the
//!   fault lists what each thread waits for. A thread that exits without arriving at a barrier at
//!   which others wait is a fault, even if hardware would let it pass.
//! - **Warp operations** gather the lanes of their mask, as PTX's `.sync` specifies; all use one
//!   primitive, [`intrinsics::warp_collective`]. Shuffles, votes and reductions ignore lanes that
//!   have returned; reading from one is a fault.
//!
//! # What is not emulated
//!
//! Time and caches ([`profile`] counts sectors and bank conflicts, which cost nothing here); weak
//! memory: unordered accesses are faults, so no load needs to return an older value. An infinite
//! loop that calls no intrinsic is not detected. A thread that overflows its stack between two
//! intrinsics is a fault on Linux on x86-64, and ends the process on other hosts.
#![warn(missing_docs)]

mod block;
mod chain;
mod dim;
mod fault;
pub mod intrinsics;
mod launch;
pub mod memory;
mod mma;
mod pod;
mod process;
pub mod profile;
mod race;
mod stream;
mod tensor_map;
mod wgmma;

pub use dim::Dim3;
pub use fault::{
    Access, AsyncRead, Fault, FaultKind, LaunchError, Race, RaceAccess, RaceSpace, RaceThreads, ReadWait,
    ThreadRange, ThreadSet, WaitPlace, WaitingThreads,
};
pub use launch::{Launch, MAX_SHARED_BYTES, MAX_THREADS, Report, blocks_at_once};
pub use memory::{Allocation, GlobalMemory, MemoryError};
pub use pod::Pod;
pub use stream::{Event, Stream};
pub use tensor_map::{
    MAX_TENSOR_RANK, PARAMETER_SPACE, TENSOR_MAP_BYTES, TensorElement, TensorFill, TensorMap, TensorMapError,
    TensorPromotion, TensorSwizzle,
};
