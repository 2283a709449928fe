//! The PTX of each kernel has its instruction once, and ptxas takes it for the oldest architecture that has it.

use crate::common::ptx::{before, kernel_text, version_of};
use crate::common::say;
use moye_build::Arch;
use moye_build::ptx::Module;
use moye_build::report::Ptxas;
use moye_device::atom::copy::copy_atoms;
use std::collections::BTreeMap;

/// Kernels that need no more than sm_80, with their instructions.
const SM_80: &[(&str, &str)] = &[
    ("cvt_f16", "cvt.rn.f16.f32"),
    ("cvt_bf16", "cvt.rn.bf16.f32"),
    ("cvt_f16_relu", "cvt.rn.relu.f16.f32"),
    ("cvt_bf16_relu", "cvt.rn.relu.bf16.f32"),
    ("cvt_tf32", "cvt.rna.tf32.f32"),
    ("cvt_f32_of_f16", "cvt.f32.f16"),
    ("cvt_s8", "cvt.rni.sat.s8.f32"),
    ("cvt_u8", "cvt.rni.sat.u8.f32"),
    ("cvt_s32", "cvt.rni.sat.s32.f32"),
    ("cvt_u32", "cvt.rni.sat.u32.f32"),
    ("cvt_f16x2", "cvt.rn.f16x2.f32"),
    ("cvt_bf16x2", "cvt.rn.bf16x2.f32"),
    ("cvt_f16x2_relu", "cvt.rn.relu.f16x2.f32"),
    ("cvt_bf16x2_relu", "cvt.rn.relu.bf16x2.f32"),
    ("add_f16x2", "add.rn.f16x2"),
    ("sub_f16x2", "sub.rn.f16x2"),
    ("mul_f16x2", "mul.rn.f16x2"),
    ("min_f16x2", "min.f16x2"),
    ("max_f16x2", "max.f16x2"),
    ("add_bf16x2", "fma.rn.bf16x2"),
    ("sub_bf16x2", "fma.rn.bf16x2"),
    ("mul_bf16x2", "fma.rn.bf16x2"),
    ("min_bf16x2", "min.bf16x2"),
    ("max_bf16x2", "max.bf16x2"),
    ("fma_f16", "fma.rn.f16"),
    ("fma_bf16", "fma.rn.bf16"),
    ("fma_f16x2", "fma.rn.f16x2"),
    ("fma_bf16x2", "fma.rn.bf16x2"),
    ("fma_f16x2_relu", "fma.rn.relu.f16x2"),
    ("fma_bf16x2_relu", "fma.rn.relu.bf16x2"),
    ("ldsm_x1", "ldmatrix.sync.aligned.m8n8.x1.shared.b16"),
    ("ldsm_x2", "ldmatrix.sync.aligned.m8n8.x2.shared.b16"),
    ("ldsm_x4", "ldmatrix.sync.aligned.m8n8.x4.shared.b16"),
    ("ldsm_x1_trans", "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16"),
    ("ldsm_x2_trans", "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16"),
    ("ldsm_x4_trans", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
    ("movm_trans", "movmatrix.sync.aligned.m8n8.trans.b16"),
    ("shuffle_xor1", "shfl.sync.bfly.b32"),
    ("shuffle_xor4", "shfl.sync.bfly.b32"),
    ("copy_u8", "ld.global.u8"),
    ("copy_u8", "st.global.u8"),
    ("copy_u16", "ld.global.b16"),
    ("copy_u16", "st.global.b16"),
    ("copy_u32", "ld.global.b32"),
    ("copy_u32", "st.global.b32"),
    ("copy_u64", "ld.global.b64"),
    ("copy_u64", "st.global.b64"),
    ("copy_u128", "ld.global.v4.b32"),
    ("copy_u128", "st.global.v4.b32"),
    ("shared_u8", "ld.shared.u8"),
    ("shared_u8", "st.shared.u8"),
    ("shared_u16", "ld.shared.b16"),
    ("shared_u16", "st.shared.b16"),
    ("shared_u32", "ld.shared.b32"),
    ("shared_u32", "st.shared.b32"),
    ("shared_u64", "ld.shared.b64"),
    ("shared_u64", "st.shared.b64"),
    ("shared_v2", "ld.shared.v2.b32"),
    ("shared_v2", "st.shared.v2.b32"),
    ("shared_u128", "ld.shared.v4.b32"),
    ("shared_u128", "st.shared.v4.b32"),
    ("ca_4", "cp.async.ca.shared.global"),
    ("ca_8", "cp.async.ca.shared.global"),
    ("ca_16", "cp.async.ca.shared.global"),
    ("cg_16", "cp.async.cg.shared.global"),
    ("ca_4_if", "cp.async.ca.shared.global"),
    ("ca_8_if", "cp.async.ca.shared.global"),
    ("ca_16_if", "cp.async.ca.shared.global"),
    ("cg_16_if", "cp.async.cg.shared.global"),
    ("ca_4_zfill", "cp.async.ca.shared.global"),
    ("ca_8_zfill", "cp.async.ca.shared.global"),
    ("ca_16_zfill", "cp.async.ca.shared.global"),
    ("cg_16_zfill", "cp.async.cg.shared.global"),
    ("ca_4_zfill_if", "cp.async.ca.shared.global"),
    ("ca_8_zfill_if", "cp.async.ca.shared.global"),
    ("ca_16_zfill_if", "cp.async.ca.shared.global"),
    ("cg_16_zfill_if", "cp.async.cg.shared.global"),
    ("cg_16", "cp.async.commit_group"),
    ("cg_16", "cp.async.wait_group"),
    ("cg_16_64b", "cp.async.wait_all"),
    ("ca_4_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_8_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_16_256b", "cp.async.ca.shared.global.L2::256B"),
    ("cg_16_64b", "cp.async.cg.shared.global.L2::64B"),
    ("cg_16_128b", "cp.async.cg.shared.global.L2::128B"),
    ("cg_16_256b", "cp.async.cg.shared.global.L2::256B"),
    ("ca_4_if_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_4_zfill_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_4_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_4_if_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_4_zfill_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_4_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_4_if_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_4_zfill_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_8_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_8_if_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_8_zfill_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_8_if_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_8_zfill_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_8_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_8_if_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_8_zfill_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_16_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_16_if_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_16_zfill_64b", "cp.async.ca.shared.global.L2::64B"),
    ("ca_16_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_16_if_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_16_zfill_128b", "cp.async.ca.shared.global.L2::128B"),
    ("ca_16_if_256b", "cp.async.ca.shared.global.L2::256B"),
    ("ca_16_zfill_256b", "cp.async.ca.shared.global.L2::256B"),
    ("cg_16_if_64b", "cp.async.cg.shared.global.L2::64B"),
    ("cg_16_zfill_64b", "cp.async.cg.shared.global.L2::64B"),
    ("cg_16_if_128b", "cp.async.cg.shared.global.L2::128B"),
    ("cg_16_zfill_128b", "cp.async.cg.shared.global.L2::128B"),
    ("cg_16_if_256b", "cp.async.cg.shared.global.L2::256B"),
    ("cg_16_zfill_256b", "cp.async.cg.shared.global.L2::256B"),
    ("mbarrier_counted", "mbarrier.init.shared.b64"),
    ("mbarrier_counted", "mbarrier.arrive.shared.b64"),
    ("mbarrier_counted", "mbarrier.test_wait.shared.b64"),
    ("mbarrier_counted", "cp.async.mbarrier.arrive.noinc.shared.b64"),
    ("mbarrier_uncounted", "mbarrier.init.shared.b64"),
    ("mbarrier_uncounted", "mbarrier.arrive.shared.b64"),
    ("mbarrier_uncounted", "mbarrier.test_wait.shared.b64"),
    ("mbarrier_uncounted", "cp.async.mbarrier.arrive.shared.b64"),
    ("prefetched", "prefetch.global.L2"),
    ("policy_last", "createpolicy.fractional.L2::evict_last.b64"),
    ("policy_normal", "createpolicy.fractional.L2::evict_normal.b64"),
    ("policy_first", "createpolicy.fractional.L2::evict_first.b64"),
    ("policy_unchanged", "createpolicy.fractional.L2::evict_unchanged.b64"),
    ("policy_last", "ld.global.L2::cache_hint.v4.b32"),
    ("policy_last", "st.global.L2::cache_hint.v4.b32"),
    ("ld_ca", "ld.global.ca.b32"),
    ("ld_cg", "ld.global.cg.v4.b32"),
    ("ld_cs", "ld.global.cs.v2.b32"),
    ("ld_lu", "ld.global.lu.b32"),
    ("ld_evict_last", "ld.global.L1::evict_last.b32"),
    ("ld_evict_first", "ld.global.L1::evict_first.v4.b32"),
    ("ld_evict_unchanged", "ld.global.L1::evict_unchanged.b32"),
    ("ld_no_allocate", "ld.global.L1::no_allocate.v4.b32"),
    ("ld_64b", "ld.global.L2::64B.b32"),
    ("ld_128b", "ld.global.L2::128B.v4.b32"),
    ("ld_256b", "ld.global.L2::256B.v4.b32"),
    ("ld_nc_u8", "ld.global.nc.u8"),
    ("ld_nc_u16", "ld.global.nc.b16"),
    ("ld_nc_u32", "ld.global.nc.b32"),
    ("ld_nc_u64", "ld.global.nc.b64"),
    ("ld_nc_v2", "ld.global.nc.v2.b32"),
    ("ld_nc_v4", "ld.global.nc.v4.b32"),
    ("ld_nc_ca", "ld.global.ca.nc.b32"),
    ("ld_nc_cg", "ld.global.cg.nc.b32"),
    ("ld_nc_cs", "ld.global.cs.nc.b32"),
    ("ld_nc_evict_last", "ld.global.nc.L1::evict_last.b32"),
    ("ld_nc_evict_first", "ld.global.nc.L1::evict_first.b32"),
    ("ld_nc_evict_unchanged", "ld.global.nc.L1::evict_unchanged.b32"),
    ("ld_nc_no_allocate_128b", "ld.global.nc.L1::no_allocate.L2::128B.v4.b32"),
    ("ld_nc_256b", "ld.global.nc.L2::256B.v4.b32"),
    ("st_wb", "st.global.wb.b32"),
    ("st_cg", "st.global.cg.v4.b32"),
    ("st_cs", "st.global.cs.v2.b32"),
    ("st_wt", "st.global.wt.b32"),
    ("st_evict_last", "st.global.L1::evict_last.b32"),
    ("st_evict_first", "st.global.L1::evict_first.v4.b32"),
    ("st_no_allocate", "st.global.L1::no_allocate.v4.b32"),
    ("redux_add", "redux.sync.add.s32"),
    ("redux_add_s32", "redux.sync.add.s32"),
    ("redux_min_u32", "redux.sync.min.u32"),
    ("redux_max_u32", "redux.sync.max.u32"),
    ("redux_min_s32", "redux.sync.min.s32"),
    ("redux_max_s32", "redux.sync.max.s32"),
    ("redux_and", "redux.sync.and.b32"),
    ("redux_or", "redux.sync.or.b32"),
    ("redux_xor", "redux.sync.xor.b32"),
    ("match_any_b32", "match.any.sync.b32"),
    ("match_any_b64", "match.any.sync.b64"),
    ("match_all_b32", "match.all.sync.b32"),
    ("vote_all_odd", "vote.sync.all.pred"),
    ("vote_any_odd", "vote.sync.any.pred"),
    ("ballot_odd", "vote.sync.ballot.b32"),
    ("shuffle_seventh", "shfl.sync.idx.b32"),
    ("shuffle_seventh_s32", "shfl.sync.idx.b32"),
    ("shuffle_seventh_f32", "shfl.sync.idx.b32"),
    ("shuffle_up_3", "shfl.sync.up.b32"),
    ("shuffle_down_5", "shfl.sync.down.b32"),
    ("shuffle_xor_13", "shfl.sync.bfly.b32"),
    ("atom_add_u32", "atom.global.add.u32"),
    ("atom_add_s32", "atom.global.add.s32"),
    ("atom_add_u64", "atom.global.add.u64"),
    ("atom_add_s64", "atom.global.add.u64"),
    ("atom_add_f32", "atom.global.add.f32"),
    ("atom_add_f64", "atom.global.add.f64"),
    ("atom_add_f16x2", "atom.global.add.noftz.f16x2"),
    ("red_add_u32", "red.global.add.u32"),
    ("red_add_s32", "red.global.add.s32"),
    ("red_add_u64", "red.global.add.u64"),
    ("red_add_s64", "red.global.add.u64"),
    ("red_add_f32", "red.global.add.f32"),
    ("red_add_f64", "red.global.add.f64"),
    ("red_add_f16x2", "red.global.add.noftz.f16x2"),
    ("atom_min_u32", "atom.global.min.u32"),
    ("atom_max_u32", "atom.global.max.u32"),
    ("atom_min_s32", "atom.global.min.s32"),
    ("atom_max_s32", "atom.global.max.s32"),
    ("atom_min_u64", "atom.global.min.u64"),
    ("atom_max_s64", "atom.global.max.s64"),
    ("atom_and_b32", "atom.global.and.b32"),
    ("atom_or_b32", "atom.global.or.b32"),
    ("atom_xor_b64", "atom.global.xor.b64"),
    ("atom_min_s64", "atom.global.min.s64"),
    ("atom_max_u64", "atom.global.max.u64"),
    ("atom_and_s32", "atom.global.and.b32"),
    ("atom_and_b64", "atom.global.and.b64"),
    ("atom_and_s64", "atom.global.and.b64"),
    ("atom_or_s32", "atom.global.or.b32"),
    ("atom_or_b64", "atom.global.or.b64"),
    ("atom_or_s64", "atom.global.or.b64"),
    ("atom_xor_b32", "atom.global.xor.b32"),
    ("atom_xor_s32", "atom.global.xor.b32"),
    ("atom_xor_s64", "atom.global.xor.b64"),
    ("shared_atom_add_u32", "atom.shared.add.u32"),
    ("shared_atom_add_s32", "atom.shared.add.s32"),
    ("shared_atom_add_u64", "atom.shared.add.u64"),
    ("shared_atom_add_s64", "atom.shared.add.u64"),
    ("shared_atom_add_f32", "atom.shared.add.f32"),
    ("shared_atom_add_f64", "atom.shared.add.f64"),
    ("shared_atom_add_f16x2", "atom.shared.add.noftz.f16x2"),
    ("shared_red_add_u32", "red.shared.add.u32"),
    ("shared_red_add_s32", "red.shared.add.s32"),
    ("shared_red_add_u64", "red.shared.add.u64"),
    ("shared_red_add_s64", "red.shared.add.u64"),
    ("shared_red_add_f32", "red.shared.add.f32"),
    ("shared_red_add_f64", "red.shared.add.f64"),
    ("shared_red_add_f16x2", "red.shared.add.noftz.f16x2"),
    ("shared_atom_min_s32", "atom.shared.min.s32"),
    ("shared_atom_max_u64", "atom.shared.max.u64"),
    ("shared_atom_and_b64", "atom.shared.and.b64"),
    ("shared_atom_or_b32", "atom.shared.or.b32"),
    ("shared_atom_xor_b32", "atom.shared.xor.b32"),
    ("shared_atom_min_u32", "atom.shared.min.u32"),
    ("shared_atom_min_u64", "atom.shared.min.u64"),
    ("shared_atom_min_s64", "atom.shared.min.s64"),
    ("shared_atom_max_u32", "atom.shared.max.u32"),
    ("shared_atom_max_s32", "atom.shared.max.s32"),
    ("shared_atom_max_s64", "atom.shared.max.s64"),
    ("shared_atom_and_b32", "atom.shared.and.b32"),
    ("shared_atom_and_s32", "atom.shared.and.b32"),
    ("shared_atom_and_s64", "atom.shared.and.b64"),
    ("shared_atom_or_s32", "atom.shared.or.b32"),
    ("shared_atom_or_b64", "atom.shared.or.b64"),
    ("shared_atom_or_s64", "atom.shared.or.b64"),
    ("shared_atom_xor_s32", "atom.shared.xor.b32"),
    ("shared_atom_xor_b64", "atom.shared.xor.b64"),
    ("shared_atom_xor_s64", "atom.shared.xor.b64"),
    ("atom_exch_b32", "atom.global.exch.b32"),
    ("atom_exch_b64", "atom.global.exch.b64"),
    ("atom_cas_b32", "atom.global.cas.b32"),
    ("atom_cas_b64", "atom.global.cas.b64"),
    ("atom_exch_s32", "atom.global.exch.b32"),
    ("atom_cas_s32", "atom.global.cas.b32"),
    ("atom_exch_s64", "atom.global.exch.b64"),
    ("atom_cas_s64", "atom.global.cas.b64"),
    ("atom_exch_f32", "atom.global.exch.b32"),
    ("atom_cas_f32", "atom.global.cas.b32"),
    ("atom_exch_f64", "atom.global.exch.b64"),
    ("atom_cas_f64", "atom.global.cas.b64"),
    ("shared_exch_b32", "atom.shared.exch.b32"),
    ("shared_cas_b32", "atom.shared.cas.b32"),
    ("shared_exch_b64", "atom.shared.exch.b64"),
    ("shared_cas_b64", "atom.shared.cas.b64"),
    ("shared_exch_s32", "atom.shared.exch.b32"),
    ("shared_cas_s32", "atom.shared.cas.b32"),
    ("shared_exch_s64", "atom.shared.exch.b64"),
    ("shared_cas_s64", "atom.shared.cas.b64"),
    ("shared_exch_f32", "atom.shared.exch.b32"),
    ("shared_cas_f32", "atom.shared.cas.b32"),
    ("shared_exch_f64", "atom.shared.exch.b64"),
    ("shared_cas_f64", "atom.shared.cas.b64"),
    ("shared_exchanges", "atom.shared.exch.b32"),
    ("shared_exchanges", "atom.shared.cas.b32"),
];

/// Kernels that need sm_90, with their instructions.
const SM_90: &[(&str, &str)] = &[
    ("cvt_tf32_rn", "cvt.rn.tf32.f32"),
    ("cvt_tf32_rz", "cvt.rz.tf32.f32"),
    ("cvt_tf32_rn_relu", "cvt.rn.relu.tf32.f32"),
    ("stsm_x1", "stmatrix.sync.aligned.m8n8.x1.shared.b16"),
    ("stsm_x2", "stmatrix.sync.aligned.m8n8.x2.shared.b16"),
    ("stsm_x4", "stmatrix.sync.aligned.m8n8.x4.shared.b16"),
    ("stsm_x1_trans", "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16"),
    ("stsm_x2_trans", "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16"),
    ("stsm_x4_trans", "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16"),
    ("atom_add_bf16x2", "atom.global.add.noftz.bf16x2"),
    ("red_add_bf16x2", "red.global.add.noftz.bf16x2"),
    ("shared_atom_add_bf16x2", "atom.shared.add.noftz.bf16x2"),
    ("shared_red_add_bf16x2", "red.shared.add.noftz.bf16x2"),
];

/// A kernel and its instruction, or an architecture and its PTX.
type Pair = (&'static str, &'static str);

/// Both modules: the architecture, its text, and what is in it.
fn modules() -> [(&'static str, &'static str, &'static [Pair]); 2] {
    let of = |images: &'static [Pair]| {
        assert_eq!(images.len(), 1, "one architecture each");
        images[0]
    };
    let (old, new) = (of(moye_kernels_copy::PTX_SM_80), of(moye_kernels_copy::PTX_SM_90));
    [(old.0, old.1, SM_80), (new.0, new.1, SM_90)]
}

#[test]
fn every_kernel_has_its_instruction_once_and_nothing_like_it() {
    for (arch, text, expected) in modules() {
        let module = Module::parse(text).unwrap();
        assert!(
            module.functions.is_empty(),
            "{arch}: functions that were not inlined: {:?}",
            module.functions
        );
        for &(kernel, instruction) in expected {
            let function =
                module.kernel(kernel).unwrap_or_else(|| panic!("{kernel} is not in the PTX for {arch}"));
            let count = function.count_where(|name| name == instruction);
            assert_eq!(
                count, 1,
                "{kernel} for {arch} has {instruction} {count} times: {:?}",
                function.instructions
            );
        }
        for function in &module.kernels {
            let name = function.name.as_str();
            let listed =
                |of: &str| expected.iter().any(|&(kernel, instruction)| kernel == name && instruction == of);
            if OF_SEVERAL.contains(&name) {
                continue;
            }
            assert!(
                expected.iter().any(|&(kernel, _)| kernel == name),
                "{name} for {arch} is not in the table"
            );
            let Frame { loads, stores, from_shared, to_shared } = Frame::of(name);
            let around = |what| {
                let plain = |of: &str| of.starts_with(what) && !listed(of);
                function.count_where(plain)
            };
            assert_eq!(
                ["ld.global", "st.global", "ld.shared", "st.shared"].map(around),
                [loads, stores, from_shared, to_shared],
                "{name} for {arch}: loads and stores, global and shared, beside its own: {:?}",
                function.instructions
            );
            let plain = |of: &str| {
                ["ld.global", "st.global", "ld.shared", "st.shared"].iter().any(|p| of.starts_with(p))
            };
            let others = function.count_where(|of| is_like_an_atom(of) && !plain(of) && !listed(of));
            // What arrives at an mbarrier has been copied.
            let copies = usize::from(name.starts_with("mbarrier_"));
            assert_eq!(
                others, copies,
                "{name} for {arch} has more than its own: {:?}",
                function.instructions
            );
        }
    }
}

/// Kernels of several instructions each, which other tests are of: a load and a store have no type for bf16 to f32.
const OF_SEVERAL: &[&str] = &[
    "cvt_f32_of_bf16",
    "every_parameter",
    "groups",
    "reverse_b1",
    "reverse_b1_shared",
    "reverse_s4",
    "reverse_s4_shared",
    "reverse_u4",
    "reverse_u4_shared",
];

/// Whether an instruction moves data, other than from register to register and from the parameters, or computes with floats.
fn is_like_an_atom(instruction: &str) -> bool {
    let moves = [
        "ld.",
        "st.",
        "ldu.",
        "ldmatrix.",
        "stmatrix.",
        "movmatrix.",
        "shfl.",
        "atom.",
        "red.",
        "redux.",
        "match.",
        "vote.",
        "prefetch",
        "createpolicy.",
        "mbarrier.",
        "mma.",
        "wmma.",
    ];
    let types = [".f16", ".bf16", ".tf32", ".f32", ".f64"];
    let copies = instruction.starts_with("cp.")
        && !instruction.contains("_group")
        && !instruction.contains("wait_all");
    !instruction.starts_with("ld.param")
        && (copies
            || moves.iter().any(|start| instruction.starts_with(start))
            || types.iter().any(|name| instruction.contains(name)))
}

/// The loads and stores with which a kernel takes its inputs and leaves its results, beside its own instruction.
struct Frame {
    loads: usize,
    stores: usize,
    from_shared: usize,
    to_shared: usize,
}

impl Frame {
    fn of(kernel: &str) -> Self {
        let [loads, stores, from_shared, to_shared] = match kernel.split('_').next().expect("a name") {
            // Each lane puts a row of four words into shared memory, and writes what it gets.
            "ldsm" => [4, registers(kernel), 0, 4],
            "stsm" => [registers(kernel), 4, 4, 0],
            "movm" => [1, 1, 0, 0],
            "shuffle" if ["shuffle_xor1", "shuffle_xor4"].contains(&kernel) => [2, 2, 0, 0],
            // Their instructions are the load and the store; one of a policy stands for all.
            "copy" => [0; 4],
            "policy" if kernel == "policy_last" => [0; 4],
            "policy" => [1, 1, 0, 0],
            // What was in shared memory before, the predicate, and the way out.
            "ca" | "cg" if kernel.ends_with('b') && kernel.split('_').count() == 3 => [0, 1, 1, 0],
            "ca" | "cg" => {
                let predicated = kernel.contains("_if") || kernel.contains("_zfill_");
                [usize::from(predicated), 1, 1, 1]
            }
            "mbarrier" => [0, 1, 1, 0],
            "ld" => [0, 1, 0, 0],
            "st" => [1, 0, 0, 0],
            "cvt" if !kernel.contains("x2") => [1, 1, 0, 0],
            "cvt" | "add" | "sub" | "mul" | "min" | "max" => [2, 1, 0, 0],
            "fma" => [3, 1, 0, 0],
            "prefetched" | "redux" | "match" | "vote" | "ballot" | "shuffle" => [1, 1, 0, 0],
            "atom" if kernel.starts_with("atom_exch") => [1, 1, 0, 0],
            "atom" if kernel.starts_with("atom_cas") => [2, 1, 0, 0],
            "atom" | "red" => [1, 0, 0, 0],
            "shared" if kernel == "shared_exchanges" => [0, 2, 1, 1],
            "shared" if kernel.starts_with("shared_exch_") => [2, 2, 1, 1],
            "shared" if kernel.starts_with("shared_cas_") => [3, 2, 1, 1],
            "shared" if kernel.contains("_atom_") || kernel.contains("_red_") => [2, 1, 1, 1],
            "shared" => [1, 1, 0, 0],
            _ => panic!("nobody says what {kernel} takes and leaves"),
        };
        Self { loads, stores, from_shared, to_shared }
    }
}

/// The registers of a matrix instruction: `ldsm_x4_trans` has 4.
fn registers(kernel: &str) -> usize {
    let count = kernel.split('_').nth(1).and_then(|count| count.strip_prefix('x'));
    count.and_then(|count| count.parse().ok()).expect("the matrices are counted in the name")
}

#[test]
fn every_atom_with_an_instruction_has_a_kernel() {
    let listed = |instruction: &str| SM_80.iter().chain(SM_90).any(|(_, listed)| *listed == instruction);
    for atom in copy_atoms() {
        let Some(ptx) = atom.ptx else { continue };
        assert!(listed(ptx), "{atom}: no kernel of the tests has {ptx}");
    }
}

#[test]
fn ptxas_takes_every_kernel_for_the_architecture_it_is_compiled_for() {
    let Some(ptxas) = Ptxas::find() else {
        eprintln!("skipped: there is no ptxas (`cargo xtask test` fetches it, or set MOYE_PTXAS)");
        return;
    };
    for (arch, text, _) in modules() {
        let assembled = ptxas.assemble(text, arch.parse().unwrap()).unwrap();
        let kernels = Module::parse(text).unwrap().kernels.len();
        assert_eq!(assembled.kernels.len(), kernels, "{arch}: a report for each kernel");
        for (name, usage) in &assembled.kernels {
            assert_eq!((usage.spills(), usage.stack), (0, 0), "{name} for {arch} spills: {usage:?}");
        }
    }
}

/// What needs less than sm_80 and is no instruction of an atom: the kernels of plain copies, of what a warp does together and of
/// atomic operations, with the oldest architecture and PTX version that have the instruction, from NVIDIA's "PTX ISA".
const OLDER: &[(&str, u32, (u32, u32))] = &[
    ("copy_u8", 0, (1, 0)),
    ("copy_u16", 0, (1, 0)),
    ("copy_u32", 0, (1, 0)),
    ("copy_u64", 0, (1, 0)),
    ("copy_u128", 0, (1, 0)),
    ("shared_u8", 0, (1, 0)),
    ("shared_u16", 0, (1, 0)),
    ("shared_u32", 0, (1, 0)),
    ("shared_u64", 0, (1, 0)),
    ("shared_v2", 0, (1, 0)),
    ("shared_u128", 0, (1, 0)),
    ("vote_all_odd", 30, (6, 0)),
    ("vote_any_odd", 30, (6, 0)),
    ("ballot_odd", 30, (6, 0)),
    ("shuffle_seventh", 30, (6, 0)),
    ("shuffle_up_3", 30, (6, 0)),
    ("shuffle_down_5", 30, (6, 0)),
    ("shuffle_xor_13", 30, (6, 0)),
    ("match_any_b32", 70, (6, 0)),
    ("match_any_b64", 70, (6, 0)),
    ("match_all_b32", 70, (6, 0)),
];

/// The oldest architecture and PTX version that have an atomic operation, from the same. Of the types that exchanges and bit
/// operations are not told, the widths count.
fn atomic_needs(instruction: &str) -> Option<(u32, (u32, u32))> {
    let mut parts = instruction.split('.');
    if !matches!(parts.next(), Some("atom" | "red")) {
        return None;
    }
    let (operation, of) = (parts.nth(1)?, parts.next_back()?);
    Some(match of {
        "bf16x2" => (90, (7, 8)),
        "f16x2" => (60, (6, 2)),
        "f64" => (60, (5, 0)),
        "f32" => (20, (2, 0)),
        wide if wide.ends_with("64") && !matches!(operation, "add" | "exch" | "cas") => (32, (3, 1)),
        wide if wide.ends_with("64") => (20, (2, 0)),
        _ => (12, (1, 2)),
    })
}

/// The kernels of an instruction, each with the text of the module that has it.
fn kernels_of(instruction: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = move |(_, text, listed): (_, &'static str, &'static [Pair])| {
        listed.iter().filter(move |(_, of)| *of == instruction).map(move |&(kernel, _)| (kernel, text))
    };
    modules().into_iter().flat_map(of)
}

/// A module of one kernel for an architecture and a PTX version: its text, and the shared memory that it may name.
fn alone(module: &'static str, kernel: &str, arch: u32, (major, minor): (u32, u32)) -> String {
    format!(
        ".version {major}.{minor}\n.target sm_{arch}\n.address_size 64\n.extern .shared .align 1024 .b8 moye_shared[];\n{}",
        kernel_text(module, kernel)
    )
}

#[test]
fn each_wait_says_how_many_groups_may_be_under_way() {
    let text = kernel_text(moye_kernels_copy::PTX_SM_80[0].1, "groups");
    let waits: Vec<&str> =
        text.lines().filter_map(|line| line.trim().strip_prefix("cp.async.wait_group ")).collect();
    assert_eq!(waits, ["2;", "1;", "0;"], "{text}");
    assert_eq!(text.matches("cp.async.commit_group;").count(), 3, "{text}");
}

#[test]
fn each_cp_async_moves_as_many_bytes_as_its_kernel_says() {
    let mut checked = 0;
    for &(kernel, instruction) in
        SM_80.iter().filter(|(_, of)| of.starts_with("cp.async.c") && of.contains(".global"))
    {
        // `ca_16_zfill`: the caches, the bytes, and what is done where a predicate says no.
        let bytes = kernel.split('_').nth(1).expect("the bytes are named");
        let lines: Vec<&str> = kernel_text(moye_kernels_copy::PTX_SM_80[0].1, kernel)
            .lines()
            .filter(|line| line.split_whitespace().any(|word| word == instruction))
            .collect();
        let [line] = lines[..] else { panic!("{kernel} has {instruction} once: {lines:?}") };
        // `[to], [from], bytes` and, where there is one, the register that says how many of them there are to read.
        let operands: Vec<&str> = line.trim_end_matches([';', ' ', '}']).split(", ").map(str::trim).collect();
        assert_eq!(operands.get(2), Some(&bytes), "{kernel}: {line}");
        assert_eq!(operands.len(), if kernel.contains("zfill") { 4 } else { 3 }, "{kernel}: {line}");
        checked += 1;
    }
    assert_eq!(checked, 52, "each of four kinds in four forms, and with three prefetches in three");
}

/// The first PTX version with an instruction, from NVIDIA's "PTX ISA".
fn version_of_instruction(instruction: &str) -> (u32, u32) {
    match instruction.split('.').next() {
        Some("ldmatrix") => (6, 5),
        Some("cp") => (7, 0),
        Some("movmatrix" | "stmatrix") => (7, 8),
        // `shfl.sync`.
        _ => (6, 0),
    }
}

/// The oldest architecture that any assembler at hand has: that of CUDA 12. What is older still (shuffles and votes sm_30,
/// loads and stores everything) is assembled for it.
const OLDEST_OF_PTXAS: u32 = 50;

/// A kernel, its module, the oldest architecture, the oldest PTX version.
type Case = (&'static str, &'static str, u32, (u32, u32));

/// All kernels whose architecture is known.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for atom in copy_atoms() {
        let Some(instruction) = atom.ptx else { continue };
        // A kernel of an instruction serves all atoms that have it.
        for (kernel, text) in kernels_of(instruction) {
            cases.push((kernel, text, atom.arch, version_of_instruction(instruction)));
        }
    }
    cases.extend(OLDER.iter().map(|&(kernel, arch, version)| (kernel, modules()[0].1, arch, version)));
    for (_, text, listed) in modules() {
        for &(kernel, instruction) in listed {
            cases.extend(atomic_needs(instruction).map(|(arch, version)| (kernel, text, arch, version)));
        }
    }
    cases.sort_unstable();
    // A kernel of two atoms is of the instruction of the older one.
    cases.dedup_by_key(|&mut (kernel, ..)| kernel);
    cases
}

#[test]
fn ptxas_takes_every_atom_for_the_oldest_architecture_and_version_and_for_none_before() {
    let mut assemblers = BTreeMap::new();
    let mut assemble = |kernel, text, arch: u32, version: (u32, u32)| {
        let name: Arch = format!("sm_{arch}").parse().unwrap();
        let found: &Option<Ptxas> = assemblers.entry(arch).or_insert_with(|| Ptxas::find_for(name));
        let version = version.max(version_of(arch));
        let assembled = found.as_ref()?.assemble(&alone(text, kernel, arch, version), name);
        Some(assembled.map(drop).map_err(|error| error.to_string()))
    };
    let mut failures = Vec::new();
    for (kernel, text, arch, version) in cases() {
        let oldest = arch.max(OLDEST_OF_PTXAS);
        if let Some(Err(error)) = assemble(kernel, text, oldest, version) {
            failures.push(format!("{kernel} for sm_{oldest}, PTX {version:?}: {error}"));
        }
        if let Some(before) = before(oldest)
            && assemble(kernel, text, before, version) == Some(Ok(()))
        {
            failures.push(format!("{kernel}: sm_{before} has it too, not only sm_{oldest}"));
        }
        // An older version than the instruction's says nothing of it.
        if version > version_of(oldest) && assemble(kernel, text, oldest, version_of(oldest)) == Some(Ok(()))
        {
            failures.push(format!("{kernel}: PTX {:?} has it too, not only {version:?}", version_of(oldest)));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let missing: Vec<_> =
        assemblers.iter().filter(|(_, found)| found.is_none()).map(|(arch, _)| arch).collect();
    if missing.is_empty() {
        assert!([50, 60, 70, 75, 80, 90].iter().all(|arch| assemblers.contains_key(arch)), "{assemblers:?}");
    } else {
        say(&format!(
            "atoms are not assembled for sm_{missing:?}: there is no ptxas for it (`cargo xtask test` fetches it)"
        ));
    }
}
