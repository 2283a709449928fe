//! The modes of arrays as groups of rows: for kernels whose launch has rows of two strides.

use moye::operation::Array;
use moye::{Error, Result};

/// A mode: its extent, and its stride in each of `N` arrays.
pub type Mode<const N: usize> = (usize, [i64; N]);

/// The modes, those of greater strides in the first array first, joined where one stride of every
/// array leads through two of them.
pub fn joined<const N: usize>(mut modes: Vec<Mode<N>>) -> Vec<Mode<N>> {
    modes.retain(|mode| mode.0 != 1);
    modes.sort_by_key(|mode| std::cmp::Reverse(mode.1[0]));
    let mut all: Vec<Mode<N>> = Vec::new();
    for (extent, strides) in modes {
        match all.last_mut() {
            Some(last) if last.1 == strides.map(|stride| stride * extent as i64) => {
                *last = (last.0 * extent, strides);
            }
            _ => all.push((extent, strides)),
        }
    }
    all
}

/// Joined modes as groups of rows.
///
/// # Errors
/// More than two modes, or more rows than a launch has.
pub fn groups_and_rows<const N: usize>(
    operation: &'static str,
    x: &Array,
    mut modes: Vec<Mode<N>>,
) -> Result<[(u32, [i64; N]); 2]> {
    let none = (1, [0; N]);
    let (rows, groups) = (modes.pop().unwrap_or(none), modes.pop().unwrap_or(none));
    let is_launch = rows.0.checked_mul(groups.0).is_some_and(|rows| rows <= i32::MAX as usize);
    if modes.is_empty() && is_launch && groups.0 <= moye::MAX_BLOCKS[2] as usize {
        return Ok([groups, rows].map(|(extent, strides)| (extent as u32, strides)));
    }
    let (shape, strides) = (&x.shape, &x.strides);
    let detail = if modes.is_empty() {
        format!("x has shape {shape:?}, more rows than a launch has; split it")
    } else {
        format!(
            "the rows of x, of shape {shape:?} and strides {strides:?}, have more than two strides; copy it"
        )
    };
    Err(Error::Unsupported { operation, detail })
}

/// Elements of the largest word that the rows of two arrays consist of.
pub fn elements_of_word(arrays: [&Array; 2]) -> usize {
    let elements = 16 / arrays[0].dtype.bytes();
    let is_of_words = |array: &&Array| {
        let Some((row, others)) = array.strides.split_last() else { return false };
        *row == 1
            && array.address.is_multiple_of(16)
            && array.shape[others.len()].is_multiple_of(elements)
            && others
                .iter()
                .zip(&array.shape)
                .all(|(stride, &extent)| extent <= 1 || stride % elements as i64 == 0)
    };
    if arrays.iter().all(is_of_words) { elements } else { 1 }
}
