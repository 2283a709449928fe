//! The modes of arrays as groups of rows, for kernels whose launch has rows of two strides.

use crate::declare::unsupported;
use crate::place::Place;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_runtime::Result;
use moye_runtime::operation::{Array, Dtype};

/// A mode of `N` arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode<const N: usize> {
    /// Its extent.
    pub extent: usize,
    /// Its stride in each array.
    pub strides: [i64; N],
}

/// The modes in descending order of their strides in the first array. Two modes are joined where
/// every array has one stride for both.
pub fn joined<const N: usize>(mut modes: Vec<Mode<N>>) -> Vec<Mode<N>> {
    modes.retain(|mode| mode.extent != 1);
    modes.sort_by_key(|mode| std::cmp::Reverse(mode.strides[0]));
    let mut all: Vec<Mode<N>> = Vec::new();
    for Mode { extent, strides } in modes {
        match all.last_mut() {
            Some(last) if last.strides == strides.map(|stride| stride * extent as i64) => {
                *last = Mode { extent: last.extent * extent, strides };
            }
            _ => all.push(Mode { extent, strides }),
        }
    }
    all
}

/// Joined modes as groups of rows: their extents are those of a launch.
///
/// # Errors
/// More than two modes, or more rows than a launch supports.
pub fn groups_and_rows<const N: usize>(
    operation: &'static str,
    x: &Array,
    mut modes: Vec<Mode<N>>,
) -> Result<[Mode<N>; 2]> {
    let none = Mode { extent: 1, strides: [0; N] };
    let (rows, groups) = (modes.pop().unwrap_or(none), modes.pop().unwrap_or(none));
    let is_launch = rows.extent.checked_mul(groups.extent).is_some_and(|rows| rows <= i32::MAX as usize);
    if modes.is_empty() && is_launch && groups.extent <= moye_runtime::MAX_BLOCKS[2] as usize {
        return Ok([groups, rows]);
    }
    let (shape, strides) = (&x.shape, &x.strides);
    let detail = if modes.is_empty() {
        format!("x has shape {shape:?}, more rows than a launch has; split it")
    } else {
        format!(
            "the rows of x, of shape {shape:?} and strides {strides:?}, have more than two strides; copy it"
        )
    };
    unsupported(operation, detail)
}

/// An array of a launch: the address of its first element, 0 if it is left out, and its strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Placed {
    /// The address.
    pub address: u64,
    /// The strides.
    pub place: Place,
}

impl Placed {
    /// The array to read.
    pub fn read<T: Element>(self) -> Global<T> {
        Global::from_address(self.address)
    }

    /// The array to write.
    pub fn write<T: Element>(self) -> GlobalMut<T> {
        GlobalMut::from_address(self.address)
    }

    /// Whether rows are contiguous and start at multiples of 16 bytes, of `vector` elements.
    pub fn is_of_vectors(self, vector: usize) -> bool {
        let (Place { group, row, element }, vector) = (self.place, vector as i64);
        element == 1 && row % vector == 0 && group % vector == 0 && self.address.is_multiple_of(16)
    }
}

/// Rows along an axis of arrays, in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Along<const N: usize> {
    /// The element type of the first array.
    pub dtype: Dtype,
    /// Rows of a group.
    pub rows: u32,
    /// Groups of rows.
    pub groups: u32,
    /// Elements of a row of the first array.
    pub columns: u32,
    /// The arrays.
    pub arrays: [Placed; N],
}

impl<const N: usize> Along<N> {
    /// The rows of arrays that have the same other modes; those without the axis have an element
    /// for each row.
    ///
    /// # Errors
    /// Same as [`groups_and_rows`], and rows longer than a launch supports.
    ///
    /// # Panics
    /// The first array is left out.
    pub fn new(operation: &'static str, arrays: [Option<&Array>; N], axis: usize) -> Result<Self> {
        let x = arrays[0].expect("the first array is not optional");
        let stride = |array: Option<&Array>, mode: usize| match array {
            Some(array) if array.shape.len() == x.shape.len() => array.strides[mode],
            Some(array) if mode != axis => array.strides[mode - usize::from(mode > axis)],
            _ => 0,
        };
        let modes = (0..x.shape.len()).filter(|&mode| mode != axis);
        let modes = modes
            .map(|mode| Mode { extent: x.shape[mode], strides: arrays.map(|array| stride(array, mode)) });
        let [groups, rows] = groups_and_rows(operation, x, joined(modes.collect()))?;
        let Ok(columns) = i32::try_from(x.shape[axis]) else {
            let columns = x.shape[axis];
            let detail = format!("rows have {columns} elements, and may have {}; split them", i32::MAX);
            return unsupported(operation, detail);
        };
        let arrays = std::array::from_fn(|i| Placed {
            address: arrays[i].map_or(0, |array| array.address),
            place: Place {
                group: groups.strides[i],
                row: rows.strides[i],
                element: if columns > 1 { stride(arrays[i], axis) } else { 1 },
            },
        });
        let [rows, groups] = [rows, groups].map(|mode| mode.extent as u32);
        Ok(Self { dtype: x.dtype, rows, groups, columns: columns as u32, arrays })
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

/// The stride of a mode in words of `elements` elements, which rows along the last mode consist of.
pub fn stride_in_words(array: &Array, mode: usize, elements: usize) -> i64 {
    let along_row = mode + 1 == array.shape.len() && elements > 1;
    if along_row { 1 } else { array.strides[mode] / elements as i64 }
}
