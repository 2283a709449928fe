//! Test cases that stress the kernels, and benchmark cases.

use moye_runtime::operation::Case;

const fn case(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("indices", -2.0, 12.0)])
}

/// Indices of several modes, below and above the rows, which are aligned or not.
pub const CASES: &[Case] = &[
    case(&[Some(&[7]), Some(&[10, 40])]),
    case(&[Some(&[2, 3]), Some(&[10, 33])]),
    case(&[Some(&[5]), Some(&[11, 1])]),
    case(&[Some(&[]), Some(&[3, 16])]),
    case(&[Some(&[3, 70]), Some(&[9, 256])]),
    case(&[Some(&[0]), Some(&[10, 8])]),
    case(&[Some(&[4]), Some(&[0, 8])]),
    case(&[Some(&[4]), Some(&[10, 0])]),
];

/// 128 MB and more of bf16: as many indices as rows.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[16_384]), Some(&[16_384, 4096])]).ranges(&[("indices", 0.0, 16_384.0)]),
    Case::new(&[Some(&[65_536]), Some(&[65_536, 576])]).ranges(&[("indices", 0.0, 65_536.0)]),
];
