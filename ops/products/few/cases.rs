//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::Case;

/// One row, several, more than a block's; ragged rows of W and elements; no rows, and K 0.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[1, 1]), Some(&[1, 1]), None]),
    Case::new(&[Some(&[1, 640]), Some(&[40, 640]), Some(&[1, 40])]),
    Case::new(&[Some(&[5, 1096]), Some(&[33, 1096]), None]),
    Case::new(&[Some(&[19, 77]), Some(&[18, 77]), Some(&[19, 18])]),
    Case::new(&[Some(&[0, 8]), Some(&[3, 8]), None]),
    Case::new(&[Some(&[2, 0]), Some(&[9, 0]), Some(&[2, 9])]),
];

/// Products of decoding.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[1, 4096]), Some(&[4096, 4096]), None]),
    Case::new(&[Some(&[1, 4096]), Some(&[14_336, 4096]), None]),
    Case::new(&[Some(&[4, 4096]), Some(&[14_336, 4096]), None]),
    Case::new(&[Some(&[16, 4096]), Some(&[14_336, 4096]), None]),
];
