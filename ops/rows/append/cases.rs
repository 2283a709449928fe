//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::Case;

/// Contiguous slots and pages, rows that are aligned or not, and slots below and above the cache.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[7, 2, 16]), Some(&[7]), Some(&[40, 2, 16])]).ranges(&[("slots", -4.0, 44.0)]),
    Case::new(&[Some(&[9, 3, 8]), Some(&[9]), Some(&[4, 16, 3, 8])]).ranges(&[("slots", -2.0, 70.0)]),
    Case::new(&[Some(&[5, 33]), Some(&[5]), Some(&[7, 3, 33])]).ranges(&[("slots", 0.0, 21.0)]),
    Case::new(&[Some(&[1, 1]), Some(&[1]), Some(&[1, 1])]).ranges(&[("slots", 0.0, 1.0)]),
    Case::new(&[Some(&[70, 256]), Some(&[70]), Some(&[150, 1, 256])]).ranges(&[("slots", 0.0, 150.0)]),
    // Rows of one element, without a mode.
    Case::new(&[Some(&[8]), Some(&[8]), Some(&[40])]).ranges(&[("slots", 0.0, 40.0)]),
    Case::new(&[Some(&[8]), Some(&[8]), Some(&[4, 16])]).ranges(&[("slots", 0.0, 64.0)]),
    Case::new(&[Some(&[0, 8]), Some(&[0]), Some(&[3, 8])]),
    Case::new(&[Some(&[3, 8]), Some(&[3]), Some(&[0, 16, 8])]).ranges(&[("slots", 0.0, 9.0)]),
];

/// Eight heads of 128 elements: the tokens of a prompt, into pages of 16 slots.
pub const BENCH: &[Case] =
    &[Case::new(&[Some(&[16_384, 8, 128]), Some(&[16_384]), Some(&[2048, 16, 8, 128])])
        .ranges(&[("slots", 0.0, 32_768.0)])];
