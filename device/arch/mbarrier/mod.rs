//! mbarriers: barriers in shared memory, at which copies arrive as well as threads.
//!
//! An mbarrier is 8 bytes of shared memory, aligned to 8. One thread makes it with [`mbarrier_init`], and a barrier of the
//! block tells the others ([`fence_mbarrier_init`](super::fence_mbarrier_init) tells other blocks of the cluster, and copies).
//! A phase ends when as many arrivals have come as the mbarrier was made for, and as many bytes as its threads have said
//! that copies and asynchronous stores bring; then the next begins.
//!
//! There are two ways to name the phase that is waited for:
//! - by a *state* that an arrival gave ([`mbarrier_wait`]): for threads that arrive themselves;
//! - by its *parity* ([`mbarrier_wait_parity`]): the first phase has parity 0, the second 1, the third 0 again. A wait for
//!   a parity ends when the phase that runs has the other one, so a thread may be one phase behind and no more. On a new
//!   mbarrier the wait for parity 1 ends at once, as if there had been a phase before: who waits for a buffer to be free
//!   begins with 1, who waits for it to be full with 0.

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
