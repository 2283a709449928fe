//! mbarriers: barriers in shared memory, at which both copies and threads arrive.
//!
//! An mbarrier is 8 bytes of shared memory, aligned to 8. One thread initialises it with
//! [`mbarrier_init`], followed by a barrier of the block
//! ([`fence_mbarrier_init`](super::fence_mbarrier_init) makes it visible to other blocks of the
//! cluster, and to copies). A phase completes when all arrivals of the initialised count and all
//! expected bytes of copies and asynchronous stores have occurred; then the next phase begins.
//!
//! There are two ways to identify the phase of a wait:
//! - by a *state* that an arrival returned ([`mbarrier_wait`]): for threads that arrive themselves;
//! - by its *parity* ([`mbarrier_wait_parity`]): the first phase has parity 0, the second 1, the
//!   third 0 again. A wait for a parity returns when the current phase has the other parity, so a
//!   thread may be at most one phase behind. On a new mbarrier the wait for parity 1 returns at
//!   once, as if a phase had preceded: a producer, which waits for an empty buffer, starts with 1;
//!   a consumer, which waits for a full buffer, with 0.

mod cluster;
mod parity;
mod state;
mod transaction;

pub use cluster::{
    mbarrier_arrive_cluster, mbarrier_arrive_cluster_relaxed, mbarrier_arrive_expect_tx_cluster,
};
pub use parity::{
    mbarrier_test_wait_parity, mbarrier_try_wait_parity, mbarrier_try_wait_parity_cluster,
    mbarrier_wait_parity, mbarrier_wait_parity_cluster,
};
pub use state::{
    cp_async_mbarrier_arrive, cp_async_mbarrier_arrive_noinc, mbarrier_arrive, mbarrier_init, mbarrier_inval,
    mbarrier_test_wait, mbarrier_wait,
};
pub use transaction::{mbarrier_arrive_expect_tx, mbarrier_expect_tx};
