//! Patterns of groups that stress the kernels, and benchmark cases.

use crate::grouped::cases::UNEVEN_64;
use moye_runtime::operation::Case;

/// Rows of a group: none, few, a K tile, more; NaN values of another group; results of a few and of
/// several tiles.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[200, 40]), Some(&[200, 24]), Some(&[4])])
        .values(&[("ends", &[3.0, 3.0, 150.0, 200.0])]),
    Case::new(&[Some(&[130, 136]), Some(&[130, 264]), Some(&[2])]).values(&[("ends", &[64.0, 130.0])]),
    Case::new(&[Some(&[3, 1]), Some(&[3, 9]), Some(&[2])])
        .values(&[("ends", &[2.0, 3.0]), ("a", &[1.0, 2.0, f64::NAN])]),
    Case::new(&[Some(&[0, 8]), Some(&[0, 16]), Some(&[2])]).values(&[("ends", &[0.0, 0.0])]),
];

/// Gradients of 64 experts' weights.
pub const BENCH: &[Case] =
    &[Case::new(&[Some(&[8192, 4096]), Some(&[8192, 2048]), Some(&[64])]).values(&[("ends", &UNEVEN_64)])];
