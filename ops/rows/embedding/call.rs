//! Builds the launches of a call.

use super::kernel::{WORDS, embedding_16, embedding_32, embedding_128};
use crate::prelude::*;
use moye_device::algorithm::{MAP_THREADS, MapLaunch, MapModes, MapOperand};

const NAME: &str = "embedding";

/// Rows of words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Embedding {
    map: MapLaunch<2>,
    /// Bytes of a word.
    bytes: usize,
    /// Rows of the table, and words between them.
    rows: i64,
    ld: i64,
    /// Whether indices have 64 bits.
    wide: bool,
}

impl Launch for Embedding {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { map: MapLaunch { inputs: [indices, table], out, modes }, bytes, rows, ld, wide } = *self;
        let grid = Grid::new(modes.count().div_ceil(WORDS * MAP_THREADS), MAP_THREADS).dependent();
        let indices = Global::from_address(indices);
        macro_rules! launch {
            ($kernel:ident) => {{
                let (table, out) = (Global::from_address(table), GlobalMut::from_address(out));
                // SAFETY: the operands have the words of the modes; the grid has all words.
                unsafe { to.launch(&$kernel, grid, (indices, table, out, modes, rows, ld, wide)) }
            }};
        }
        match bytes {
            2 => launch!(embedding_16),
            4 => launch!(embedding_32),
            _ => launch!(embedding_128),
        }
    }
}

/// The type of the result: a row for each index.
pub fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    let (indices, table) = (given(inputs, 0), given(inputs, 1));
    let [_, columns] = table.shape[..] else {
        return mismatch(NAME, format!("weight has shape {:?}, and must have rows and columns", table.shape));
    };
    let shape = indices.shape.iter().copied().chain([columns]).collect();
    Ok(vec![ArrayType { dtype: table.dtype, shape }])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let [indices, table, out] = [0, 1, 2].map(|index| call.operand(index));
    let elements = elements_of_word([table, out]);
    let (last, bytes) = (indices.shape.len(), elements * table.dtype.bytes());
    let in_words = |array: &Array, mode: usize| stride_in_words(array, mode, elements);
    let shape: Vec<_> = indices.shape.iter().copied().chain([table.shape[1] / elements]).collect();
    // All words of a row share its index; all rows share the columns.
    let of_indices: Vec<_> = indices.strides.iter().copied().chain([0]).collect();
    let of_columns: Vec<_> = std::iter::repeat_n(0, last).chain([in_words(table, 1)]).collect();
    let of_out: Vec<_> = (0..=last).map(|mode| in_words(out, mode)).collect();
    let operand = |array: &Array, bytes, strides| MapOperand { address: array.address, bytes, strides };
    let inputs =
        [operand(indices, indices.dtype.bytes(), &of_indices[..]), operand(table, bytes, &of_columns)];
    let launches = MapModes::launches_by_element(&shape, inputs, operand(out, bytes, &of_out));
    let (rows, ld, wide) = (table.shape[0] as i64, in_words(table, 0), indices.dtype == Dtype::I64);
    launches.into_iter().try_for_each(|map| {
        // SAFETY: the launch has the words of the call's arrays, on the stream's device until the
        // work is complete.
        unsafe { on.launch(&Embedding { map, bytes, rows, ld, wide }) }
    })
}
