//! The modes of arrays as groups of rows, for kernels whose launch has rows of two strides; and
//! operations that have one kernel.

use crate::place::Place;
use moye::operation::{Array, Launcher, Operation};
use moye::{Error, Ptx, Rates, Result};
use std::hash::Hash;
use std::marker::PhantomData;

/// An operation of one kernel, with nothing to choose.
pub trait OneKernel: 'static {
    /// All that the launch depends on, besides the addresses.
    type Problem: Copy + Eq + Hash + 'static;
    /// The addresses and scalars of a call.
    type Call: Copy + Eq + Hash + 'static;
    /// The name in messages.
    const NAME: &'static str;

    /// The name of the kernel.
    fn kernel() -> &'static str;

    /// Launches it.
    ///
    /// # Errors
    /// Those of a launch.
    ///
    /// # Safety
    /// As for [`Operation::launch`].
    unsafe fn launch(problem: &Self::Problem, call: &Self::Call, on: &Launcher<'_>) -> Result<()>;
}

/// [`OneKernel`] as an operation.
pub struct One<K>(PhantomData<K>);

impl<K: OneKernel> Operation for One<K> {
    type Problem = K::Problem;
    type Plan = ();
    type Call = K::Call;
    const NAME: &'static str = K::NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(_: &K::Problem, _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn kernel(_: &()) -> &'static str {
        K::kernel()
    }

    unsafe fn launch(_: &(), problem: &K::Problem, call: &K::Call, on: &Launcher<'_>) -> Result<()> {
        // SAFETY: the call's addresses are the problem's operands, on the stream's device.
        unsafe { K::launch(problem, call, on) }
    }
}

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

/// Rows along an axis of arrays, in groups.
pub struct Along<const N: usize> {
    /// Rows of a group.
    pub rows: u32,
    /// Groups of rows.
    pub groups: u32,
    /// Elements of a row of the first array.
    pub columns: u32,
    /// The strides of each array.
    pub places: [Place; N],
}

impl<const N: usize> Along<N> {
    /// The rows of arrays that have the same other modes.
    ///
    /// # Errors
    /// As for [`groups_and_rows`], and longer rows than a launch has.
    pub fn new(operation: &'static str, arrays: [&Array; N], axis: usize) -> Result<Self> {
        let x = arrays[0];
        let modes = (0..x.shape.len()).filter(|&mode| mode != axis);
        let modes = modes.map(|mode| (x.shape[mode], arrays.map(|array| array.strides[mode])));
        let [groups, rows] = groups_and_rows(operation, x, joined(modes.collect()))?;
        let columns = i32::try_from(x.shape[axis]).map_err(|_| {
            let detail =
                format!("rows have {} elements, and may have {}; split them", x.shape[axis], i32::MAX);
            Error::Unsupported { operation, detail }
        })?;
        let places = std::array::from_fn(|i| Place {
            group: groups.1[i],
            row: rows.1[i],
            element: if columns > 1 { arrays[i].strides[axis] } else { 1 },
        });
        Ok(Self { rows: rows.0, groups: groups.0, columns: columns as u32, places })
    }
}

/// Whether the elements along the last mode of an array are contiguous, and start at multiples of
/// `bytes` at each place of the other modes.
pub fn is_of_words(array: &Array, bytes: usize) -> bool {
    let elements = (bytes / array.dtype.bytes()) as i64;
    let Some((last, others)) = array.strides.split_last() else { return false };
    let far = |(stride, &extent): (&i64, &usize)| extent <= 1 || stride % elements == 0;
    *last == 1 && array.address.is_multiple_of(bytes as u64) && others.iter().zip(&array.shape).all(far)
}

/// Elements of the largest word that the rows of two arrays consist of.
pub fn elements_of_word(arrays: [&Array; 2]) -> usize {
    let elements = 16 / arrays[0].dtype.bytes();
    let is_whole = |array: &Array| array.shape.last().is_some_and(|extent| extent.is_multiple_of(elements));
    if arrays.iter().all(|array| is_whole(array) && is_of_words(array, 16)) { elements } else { 1 }
}
