//! Counters of `ncu`, with what the simulator's profile has for each.
//!
//! A counter with a `/` is an instance of a metric by opcode:
//! `sass__inst_executed_per_opcode/SHFL`; with a `+`, the sum of several.

use moye::profile::{Class, Counts};

type Figure = fn(&Counts) -> u64;

/// The counters by name.
pub const COUNTERS: &[(&str, Figure)] = &[
    // Requests to the L1 cache. It counts `cp.async` among the loads.
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", |counts| {
        counts.global_loads.sectors + counts.async_loads.sectors
    }),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", |counts| {
        counts.global_loads.requests + counts.async_loads.requests
    }),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", |counts| counts.global_stores.sectors),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", |counts| counts.global_stores.requests),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum", |counts| sectors(counts, "atom.global")),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum", |counts| sectors(counts, "red.global")),
    // Wavefronts of shared memory.
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", |counts| counts.shared_loads.wavefronts),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", |counts| counts.shared_stores.wavefronts),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", |counts| counts.shared_loads.conflicts()),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", |counts| counts.shared_stores.conflicts()),
    ("sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum", |counts| {
        counts.async_stores.wavefronts
    }),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum", |counts| counts.shared_atomics.wavefronts),
    // Bulk and tensor copies.
    ("sm__inst_executed_pipe_tma_pred_on_any.sum", |counts| {
        counts.count("cp.async.bulk.") - counts.count("cp.async.bulk.wait_group")
    }),
    ("l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum", |counts| {
        (counts.bulk_bytes - counts.bulk_stored_bytes) / 32
    }),
    ("l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum", |counts| counts.bulk_stored_bytes / 32),
    // Instructions by the unit that executes them.
    ("sm__inst_executed_pipe_tensor.sum", |counts| counts.of_class(Class::TensorCore)),
    ("sm__inst_executed_pipe_xu.sum", |counts| {
        counts.of_class(Class::Special) + counts.count("cvt.rni") + counts.count("cvt.rn.f16.f32")
    }),
    // Instructions of a warp by opcode.
    ("sass__inst_executed_per_opcode/LDG", |counts| counts.of_class(Class::GlobalLoad)),
    ("sass__inst_executed_per_opcode/STG", |counts| counts.of_class(Class::GlobalStore)),
    ("sass__inst_executed_per_opcode/LDS", |counts| counts.count("ld.shared")),
    ("sass__inst_executed_per_opcode/STS", |counts| counts.count("st.shared")),
    ("sass__inst_executed_per_opcode/LDSM", |counts| counts.count("ldmatrix")),
    ("sass__inst_executed_per_opcode/STSM", |counts| counts.count("stmatrix")),
    ("sass__inst_executed_per_opcode/LDGSTS", |counts| counts.async_loads.requests),
    ("sass__inst_executed_per_opcode/LDGDEPBAR", |counts| {
        counts.count("cp.async.commit_group") + counts.count("cp.async.wait_all")
    }),
    ("sass__inst_executed_per_opcode/ATOMG", |counts| counts.count("atom.global")),
    ("sass__inst_executed_per_opcode/RED+REDG", |counts| counts.count("red.global")),
    ("sass__inst_executed_per_opcode/ATOMS", |counts| {
        counts.count("atom.shared") + counts.count("red.shared")
    }),
    ("sass__inst_executed_per_opcode/BAR", |counts| counts.count("bar.sync") + counts.count("barrier.sync")),
    ("sass__inst_executed_per_opcode/WARPSYNC", |counts| counts.count("bar.warp.sync")),
    ("sass__inst_executed_per_opcode/SHFL", |counts| counts.count("shfl")),
    ("sass__inst_executed_per_opcode/VOTE+VOTEU", |counts| counts.count("vote")),
    ("sass__inst_executed_per_opcode/MATCH", |counts| counts.count("match")),
    ("sass__inst_executed_per_opcode/REDUX", |counts| counts.count("redux")),
    ("sass__inst_executed_per_opcode/MUFU", |counts| counts.of_class(Class::Special)),
    ("sass__inst_executed_per_opcode/F2F+F2FP+F2I", |counts| counts.of_class(Class::Convert)),
    ("sass__inst_executed_per_opcode/HMMA", |counts| {
        counts.count("mma.") - counts.count("mma.sync.aligned.m16n8k32")
    }),
    ("sass__inst_executed_per_opcode/IMMA", |counts| counts.count("mma.sync.aligned.m16n8k32")),
    ("sass__inst_executed_per_opcode/HGMMA", |counts| counts.count("wgmma.mma_async")),
    ("sass__inst_executed_per_opcode/UBLKCP", |counts| {
        counts.count("cp.async.bulk.shared") + counts.count("cp.async.bulk.global")
    }),
    ("sass__inst_executed_per_opcode/UTMALDG", |counts| counts.count("cp.async.bulk.tensor.shared")),
    ("sass__inst_executed_per_opcode/SYNCS", |counts| counts.count("mbarrier")),
    ("sass__inst_executed_per_opcode/FENCE", |counts| counts.count("fence.proxy.async")),
    // A fence of the proxies and a releasing arrival at the cluster's barrier begin with one.
    ("sass__inst_executed_per_opcode/MEMBAR", |counts| {
        let arrivals =
            counts.count("barrier.cluster.arrive") - counts.count("barrier.cluster.arrive.relaxed");
        counts.count("fence.acq_rel") + counts.count("fence.proxy.async") + arrivals
    }),
    ("sass__inst_executed_per_opcode/UCGABAR_ARV", |counts| counts.count("barrier.cluster.arrive")),
    ("sass__inst_executed_per_opcode/UCGABAR_WAIT", |counts| counts.count("barrier.cluster.wait")),
    // Lanes that take part, which is how a GPU shows divergence.
    ("sass__thread_inst_executed_true_per_opcode/LDG", |counts| counts.global_loads.lanes),
    ("sass__thread_inst_executed_true_per_opcode/STG", |counts| counts.global_stores.lanes),
];

/// Sectors of atomic operations, of a kernel that has these alone.
fn sectors(counts: &Counts, name: &str) -> u64 {
    if counts.count(name) > 0 { counts.global_atomics.sectors } else { 0 }
}
