//! Faults of a matrix instruction that not all lanes execute.

use moye_device::atom::mma::{MmaAtom, SM80_8x8x4_F64F64F64F64_TN as Atom};
use moye_sim::intrinsics::lane_id;
use moye_sim::{GlobalMemory, Launch};

fn product() -> [f64; 2] {
    let mut d = [0.0; 2];
    // SAFETY: a missing lane is a fault.
    unsafe { Atom::fma(&mut d, [1.0], [2.0], [3.0; 2]) };
    d
}

#[test]
fn all_32_lanes_get_their_part() {
    let memory = GlobalMemory::new();
    Launch::new("whole", 2, 64, &memory).run(&|| assert_eq!(product(), [3.0 + 4.0 * 2.0; 2])).unwrap();
}

#[test]
fn a_lane_that_has_returned_is_a_fault_that_names_the_instruction() {
    let memory = GlobalMemory::new();
    let kernel = || {
        if lane_id() != 7 {
            product();
        }
    };
    let fault = Launch::new("partial", 1, 32, &memory).run(&kernel).unwrap_err().to_string();
    for part in ["mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "partial"] {
        assert!(fault.contains(part), "`{part}` is missing in: {fault}");
    }
}

#[test]
fn a_block_that_is_no_whole_warp_is_a_fault() {
    let memory = GlobalMemory::new();
    let fault = Launch::new("short", 1, 16, &memory)
        .run(&|| assert_eq!(product(), [5.0; 2]))
        .unwrap_err()
        .to_string();
    assert!(fault.contains("mma.sync"), "{fault}");
}
