//! Attention kernels on the simulator, against softmax attention in f64.

#[path = "../../../../tests/fixtures/common/bytes.rs"]
mod bytes;
#[path = "../../../../tests/fixtures/common/lines.rs"]
mod lines;
mod attention {
    //! The tested kernels.
    pub use moye_attention::kernels::*;
}
#[allow(dead_code, reason = "the tests of the call use all of it")]
mod case;
mod check;
mod declared;
mod e4m3;
mod large;
mod machine;
mod operands;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "../../../../ops/attention/host/oracle.rs"]
mod oracle;
#[path = "../../../../tests/fixtures/common/random.rs"]
mod random;
mod reference;
mod several;
mod varied;

use case::Case;
use check::{Kernels, check, check_by};
use half::{bf16, f16};
use machine::{Machine as _, Simulator};
use moye_device::memory::GlobalMut;
use moye_sim::GlobalMemory;
use std::collections::BTreeSet;
use varied::Varied as _;

/// Name and shared memory of the kernel for a case.
fn facts<T: Kernels>(case: &Case) -> (&'static str, u32) {
    let kernel = T::entry(case).0;
    (kernel.name(), kernel.shared_bytes() as u32)
}

fn simulator() -> Simulator {
    Simulator(GlobalMemory::new())
}

#[test]
fn plain_and_causal_attention_are_within_the_rounding_of_the_element_type() {
    for (d, lengths) in [(64, (130, 200)), (128, (130, 100))] {
        let case = Case::new(d, (1, 2, 2), lengths);
        check::<bf16, _>(&simulator(), &case, 1);
        check::<f16, _>(&simulator(), &case.causal(), 2);
    }
}

#[test]
fn random_options_are_within_the_rounding_of_the_element_type() {
    let mut kernels = BTreeSet::new();
    for seed in 0..42 {
        let case = Case::of_seed(seed).short();
        if seed % 2 == 0 {
            check::<bf16, _>(&simulator(), &case, seed);
            kernels.insert(facts::<bf16>(&case).0);
        } else {
            check::<f16, _>(&simulator(), &case, seed);
            kernels.insert(facts::<f16>(&case).0);
        }
    }
    assert_eq!(kernels.len(), 42, "kernels that ran: {kernels:?}");
}

#[test]
fn each_kernel_fits_into_the_shared_memory_of_every_gpu_from_sm_80_on() {
    for seed in 0..42 {
        let case = Case::of_seed(seed);
        let (name, bytes) = if seed % 2 == 0 { facts::<bf16>(&case) } else { facts::<f16>(&case) };
        // sm_86 and sm_89 have 99 KiB per block.
        assert!(bytes <= 99 * 1024, "{name}: {bytes} bytes");
    }
}

#[test]
fn the_splits_of_a_row_are_reduced_by_one_warp_or_by_the_four_of_a_block() {
    // With 257 keys, most of many splits are empty; 1300 keys of 128 columns are 41 tiles.
    for (d, splits, keys) in [(64, 8, 257), (256, 9, 257), (80, 33, 257), (128, 40, 1300), (64, 128, 100)] {
        let mut case = Case::new(d, (1, 2, 2), (3, keys));
        (case.decode, case.splits) = (true, splits);
        check::<bf16, _>(&simulator(), &case, splits.into());
    }
}

#[test]
fn the_block_of_a_tile_that_arrives_last_reduces_the_splits_and_resets_its_counter() {
    // Some splits of the last sequence have no key, and one sequence has no query.
    let lengths = vec![(3, 290), (0, 40), (2, 70)];
    for (d, splits, page) in [(64, 3, None), (128, 9, Some(16)), (256, 17, None)] {
        let mut case = Case::new(d, (3, 4, 2), (3, 290)).causal();
        (case.splits, case.page, case.pack, case.sinks) = (splits, page, d != 64, true);
        case.lengths = Some(lengths.clone());
        let machine = simulator();
        let counters = machine.upload(&[0; 4 * 64]);
        check_by::<bf16, _>(&machine, &case, splits.into(), |arguments, operands| {
            arguments.counters = GlobalMut::from_address(counters.address());
            bf16::run(&machine, &case, true, arguments, operands);
        });
        assert!(counters.download::<u8>().iter().all(|&byte| byte == 0), "{case:?}");
    }
}
