//! The PTX of each kernel has its instructions once, and ptxas takes it for sm_90a without a
//! warning.

#[path = "../../common/sm_90a.rs"]
mod sm_90a;

use moye_kernels_hopper::PTX;

/// Kernels with instructions of theirs, by their full names.
const INSTRUCTIONS: &[(&str, &str)] = &[
    ("mbarrier_try_parity", "mbarrier.try_wait.parity.shared::cta.b64"),
    ("mbarrier_try_parity", "mbarrier.inval.shared.b64"),
    ("mbarrier_test_parity", "mbarrier.test_wait.parity.shared.b64"),
    ("named_barrier", "bar.arrive"),
    ("named_barrier", "bar.sync"),
    ("readers_in_turn", "bar.arrive"),
    ("set_registers", "setmaxnreg.dec.sync.aligned.u32"),
    ("set_registers", "setmaxnreg.inc.sync.aligned.u32"),
    ("elect_one", "elect.sync"),
    ("dependent", "griddepcontrol.wait"),
    ("dependent", "griddepcontrol.launch_dependents"),
    ("cluster_u32", "st.shared::cluster.b32"),
    ("cluster_u32", "ld.shared::cluster.b32"),
    ("cluster_u128", "st.shared::cluster.v4.b32"),
    ("cluster_u128", "ld.shared::cluster.v4.b32"),
    ("cluster_u32", "fence.acq_rel.cluster"),
    ("cluster_mbarrier", "mbarrier.arrive.release.cluster.shared::cluster.b64"),
    ("cluster_mbarrier", "fence.mbarrier_init.release.cluster"),
    (
        "multicast_bytes",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster",
    ),
    (
        "multicast_bytes_policy",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
    ),
    (
        "multicast_tensor",
        "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint",
    ),
    ("multicast_tensor", "mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64"),
    ("copy_to_cluster", "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"),
    ("copy_to_cluster", "mbarrier.arrive.expect_tx.shared::cta.b64"),
    ("copy_to_cluster", "fence.proxy.async"),
    ("store_async_u32", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32"),
    ("store_async_f32", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32"),
    ("store_async_u64", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64"),
    ("store_async_u32x2", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.b32"),
    ("store_async_u128", "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32"),
    ("load_1d", "cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes"),
    ("load_2d", "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"),
    ("load_3d", "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"),
    ("load_4d", "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"),
    ("load_5d", "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"),
    (
        "load_2d_policy",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint",
    ),
    ("load_2d_policy", "prefetch.tensormap"),
    ("store_1d", "cp.async.bulk.tensor.1d.global.shared::cta.bulk_group"),
    ("store_2d", "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group"),
    ("store_3d", "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group"),
    ("store_4d", "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group"),
    ("store_5d", "cp.async.bulk.tensor.5d.global.shared::cta.bulk_group"),
    ("store_2d_policy", "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint"),
    ("store_1d", "fence.proxy.async.shared::cta"),
    ("store_1d", "cp.async.bulk.commit_group"),
    ("store_1d", "cp.async.bulk.wait_group"),
    ("add_1d", "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group"),
    ("add_2d", "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group"),
    ("add_3d", "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group"),
    ("add_4d", "cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group"),
    ("add_5d", "cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.bulk_group"),
    ("prefetch_1d", "cp.async.bulk.prefetch.tensor.1d.L2.global"),
    ("prefetch_2d", "cp.async.bulk.prefetch.tensor.2d.L2.global"),
    ("prefetch_3d", "cp.async.bulk.prefetch.tensor.3d.L2.global"),
    ("prefetch_4d", "cp.async.bulk.prefetch.tensor.4d.L2.global"),
    ("prefetch_5d", "cp.async.bulk.prefetch.tensor.5d.L2.global"),
    ("load_bytes", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"),
    ("load_bytes", "cp.async.bulk.prefetch.L2.global"),
    ("load_bytes_policy", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"),
    ("load_bytes_policy", "mbarrier.expect_tx.relaxed.cta.shared::cta.b64"),
    ("store_bytes", "cp.async.bulk.global.shared::cta.bulk_group"),
    ("store_bytes", "cp.async.bulk.wait_group.read"),
    ("store_bytes_policy", "cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint"),
    ("through_global", "fence.proxy.async.global"),
    ("through_global", "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"),
    ("add_bytes_u32", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32"),
    ("add_bytes_i32", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32"),
    ("add_bytes_u64", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64"),
    ("add_bytes_f32", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32"),
    ("add_bytes_f64", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64"),
    ("add_bytes_f16", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16"),
    ("add_bytes_bf16", "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16"),
];

#[test]
fn every_kernel_has_its_instructions_once() {
    let module = sm_90a::module(sm_90a::text(PTX));
    for &(kernel, instruction) in INSTRUCTIONS {
        let function = module.kernel(kernel).unwrap_or_else(|| panic!("{kernel} is not in the PTX"));
        let count = function.count_where(|name| name == instruction);
        assert_eq!(count, 1, "{kernel} has {instruction} {count} times: {:?}", function.instructions);
    }
    for kernel in &module.kernels {
        let copies = kernel.count_where(|name| {
            name.starts_with("cp.")
                && !name.contains("group.")
                && !name.ends_with("group")
                && !name.contains("prefetch")
        });
        // The loop over a ring of stages may be unrolled, and has the same copy in each turn.
        if kernel.name == "readers_in_turn" {
            assert!(copies > 0, "{}: no copy: {:?}", kernel.name, kernel.instructions);
            continue;
        }
        assert!(copies <= 1, "{}: {copies} copies: {:?}", kernel.name, kernel.instructions);
    }
}

#[test]
fn ptxas_takes_every_kernel_for_sm_90a() {
    sm_90a::assembles(sm_90a::text(PTX));
}
