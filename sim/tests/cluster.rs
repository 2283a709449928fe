//! Clusters: the barrier, and faults across blocks. Indices and remote arrivals are in
//! `tests/device/hopper`, blocks that have ended or do not exist in `tests/device/faults`.

use crate::common::fault;
use moye_sim::intrinsics::*;
use moye_sim::{FaultKind, GlobalMemory, Launch, LaunchError};

#[test]
fn grids_that_clusters_do_not_divide_and_too_large_clusters_are_refused() {
    let memory = GlobalMemory::new();
    let reason =
        |grid: u32, cluster: u32| match Launch::new("k", grid, 1, &memory).cluster(cluster).run(&|| {}) {
            Err(LaunchError::Invalid { reason, .. }) => reason,
            other => panic!("{other:?}"),
        };
    assert_eq!(reason(3, 2), "grid (3,1,1); its extents are multiples of those of the cluster (2,1,1)");
    assert_eq!(reason(17, 17), "a cluster (17,1,1) of blocks; it has 1 to 16");
    assert_eq!(reason(17, 0), "a cluster (0,1,1) of blocks; it has 1 to 16");
}

#[test]
fn threads_that_returned_are_not_waited_for_at_the_clusters_barrier() {
    let kernel = || {
        if thread_idx().x >= 7 * (cluster_rank() + 1) {
            return;
        }
        cluster_arrive();
        cluster_wait();
    };
    Launch::new("k", 2, 32, &GlobalMemory::new()).cluster(2).run(&kernel).unwrap();
}

#[test]
fn plain_uses_of_cluster_addresses_and_arrivals_out_of_turn_fault() {
    let launch = || Launch::new("k", 2, 1, &GlobalMemory::new()).cluster(2).shared_bytes(64);
    let error = fault(launch(), &|| {
        store_shared(map_shared(shared_base(), 0), 1_u32);
    });
    assert!(matches!(error.kind, FaultKind::SharedOutOfBounds { .. }), "{error}");
    let error = fault(launch(), &cluster_wait);
    assert!(
        error.to_string().contains("the thread waits and has not arrived since its last wait"),
        "{error}"
    );
    let error = fault(launch(), &|| {
        cluster_arrive();
        cluster_arrive();
    });
    assert!(error.to_string().contains("the thread arrives again before it has waited"), "{error}");
}

#[test]
fn a_deadlock_across_blocks_tells_the_threads_of_each() {
    let error = fault(Launch::new("k", 2, 32, &GlobalMemory::new()).cluster(2).shared_bytes(64), &|| {
        if cluster_rank() == 0 {
            cluster_arrive();
            cluster_wait();
        } else {
            if thread_idx().x == 0 {
                mbarrier_init(shared_base(), 1);
            }
            sync_threads();
            mbarrier_wait_parity(shared_base(), 0);
        }
    });
    let text = error.to_string();
    assert!(text.contains("32 threads (0,0,0) to (31,0,0) wait for the barrier of the cluster"), "{text}");
    assert!(
        text.contains(
            "in block 1 of the cluster 32 threads (0,0,0) to (31,0,0) wait for the phase of parity 0"
        ),
        "{text}"
    );
}
