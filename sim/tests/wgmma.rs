//! `wgmma`: products by descriptors, and the order of fences, groups and waits.

use crate::common::{Words, fault};
use moye_sim::intrinsics::*;
use moye_sim::{FaultKind, GlobalMemory, Launch};

fn decode(bits: u64) -> f64 {
    f64::from(bits as u8 as i8)
}

/// s32 += s8 x s8, 64 x 16 x 32, from K-major tiles without a swizzle.
pub const S8: Wgmma = Wgmma {
    operation: "wgmma.s8",
    n: 16,
    a: WgmmaNumber { bits: 8, decode },
    b: WgmmaNumber { bits: 8, decode },
    d: WgmmaResult {
        bits: 32,
        decode: |bits| f64::from(bits as i32),
        encode: |value| value as i32 as u32 as u64,
    },
    sum: MmaSum::Wrap,
    mn_major: [false; 2],
    negate: [false; 2],
};

/// Without a swizzle: core matrices of 8 rows of 16 bytes, 128 bytes each; the two along k are
/// consecutive.
pub const fn descriptor(address: u32) -> u64 {
    (address as u64 >> 4) | (128 >> 4) << 16 | (256 >> 4) << 32
}

fn element(matrix: u32, row: u32, k: u32) -> i8 {
    (matrix as i8 + 1).wrapping_mul(7).wrapping_add((row * 5 + k * 3) as i8 % 23)
}

/// Writes a matrix of `rows` x 32 bytes at an address.
fn fill(address: u32, matrix: u32, rows: u32) {
    for row in 0..rows {
        for k in 0..32 {
            let at = address + row / 8 * 256 + k / 16 * 128 + row % 8 * 16 + k % 16;
            store_shared(at, element(matrix, row, k));
        }
    }
}

const A: u32 = 1024;
const B: u32 = 1024 + 64 * 32;

fn expected(row: u32, column: u32) -> i32 {
    (0..32).map(|k| i32::from(element(0, row, k)) * i32::from(element(1, column, k))).sum()
}

/// The steps that a test leaves out.
#[derive(Clone, Copy, Default)]
struct Without {
    proxy_fence: bool,
    fence: bool,
    wait: bool,
    one_warp: bool,
    writes_early: bool,
}

/// Two products on the same accumulators, `D = A B` and `D += A B`, in one group; each thread
/// stores its part of D.
fn kernel(output: u64, without: Without) {
    let t = thread_idx().x;
    if t == 0 {
        fill(A, 0, 64);
        fill(B, 1, 16);
        if !without.proxy_fence {
            fence_proxy_async();
        }
    }
    sync_threads();
    if without.one_warp && t >= 32 {
        return;
    }
    let mut d = [77; 8];
    if !without.fence {
        wgmma_fence();
    }
    for adds in [false, true] {
        wgmma(&S8, &mut d, WgmmaA::Shared(descriptor(A)), descriptor(B), adds);
    }
    wgmma_commit_group();
    if without.writes_early && t == 0 {
        store_shared(A, 0_u32);
    }
    if !without.wait {
        wgmma_wait_group(0);
    }
    wgmma_take_results(&mut d);
    for (i, word) in d.into_iter().enumerate() {
        store_global(output + 4 * u64::from(8 * t + i as u32), word);
    }
}

fn launch<'a>(memory: &GlobalMemory) -> Launch<'a> {
    Launch::new("k", 1, 128, memory).shared_bytes(8192)
}

#[test]
fn products_are_added_up_and_given_after_the_wait() {
    let memory = GlobalMemory::new();
    let output = Words::new(&memory, 128 * 8, 0);
    let address = output.address();
    launch(&memory).run(&|| kernel(address, Without::default())).unwrap();
    for (i, word) in output.read().into_iter().enumerate() {
        let (t, value) = (i as u32 / 8, i as u32 % 8);
        let row = t / 32 * 16 + t % 32 / 4 + 8 * (value / 2 % 2);
        let column = 2 * (t % 4) + value % 2 + 8 * (value / 4);
        assert_eq!(word as i32, 2 * expected(row, column), "({row}, {column})");
    }
}

#[test]
fn results_without_a_wait_are_nan() {
    let memory = GlobalMemory::new();
    let output = Words::new(&memory, 128 * 8, 0);
    let address = output.address();
    launch(&memory).run(&|| kernel(address, Without { wait: true, ..Without::default() })).unwrap();
    assert!(output.read().iter().all(|&word| f32::from_bits(word).is_nan()));
}

#[test]
fn missing_fences_early_writes_and_missing_warps_are_faults() {
    let memory = GlobalMemory::new();
    let output = Words::new(&memory, 128 * 8, 0);
    let address = output.address();
    let told = |without| fault(launch(&memory), &|| kernel(address, without));
    let error = told(Without { proxy_fence: true, ..Without::default() });
    assert!(matches!(error.kind, FaultKind::SharedUnfenced { .. }), "{error}");
    let error = told(Without { fence: true, ..Without::default() });
    assert!(error.to_string().contains("there was no wgmma.fence"), "{error}");
    let error = told(Without { writes_early: true, ..Without::default() });
    assert!(matches!(error.kind, FaultKind::SharedBeingRead { offset: 0, .. }), "{error}");
    let error = told(Without { one_warp: true, ..Without::default() });
    assert!(error.to_string().contains("the wgmma of the other warps of its warpgroup"), "{error}");
    let error =
        fault(Launch::new("k", 1, 96, &memory).shared_bytes(8192), &|| kernel(address, Without::default()));
    assert!(
        error.to_string().contains("of a block of 96 threads is in no whole warpgroup of 128"),
        "{error}"
    );
}
