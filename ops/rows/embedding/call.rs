//! From a call to launches.

use super::kernel::{WORDS, embedding_16, embedding_32, embedding_128};
use crate::groups::elements_of_word;
use moye::operation::{Array, ArrayType, Call, Dtype, Elementwise, Launcher, run_launches};
use moye::{Element, Error, Grid, Ptx, Result, Stream};
use moye_device::algorithm::{MAP_THREADS, MapLaunch, MapModes, MapOperand};
use moye_device::kernel::Kernel;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

const NAME: &str = "embedding";

/// A word of a row.
trait RowWord: Element {
    const KERNEL: Kernel<(Global<i32>, Global<Self>, GlobalMut<Self>, MapModes<2>, i64, i64, bool)>;
}

macro_rules! words {
    ($($word:ty: $kernel:ident;)+) => { $(
        impl RowWord for $word {
            const KERNEL: Kernel<(Global<i32>, Global<Self>, GlobalMut<Self>, MapModes<2>, i64, i64, bool)> = $kernel;
        }
    )+ };
}
words! {
    u128: embedding_128;
    u32: embedding_32;
    u16: embedding_16;
}

/// Rows of words `W`.
struct Embedding<W>(PhantomData<W>);

impl<W: RowWord> Elementwise<2> for Embedding<W> {
    /// Rows of the table, words between them, whether indices have 64 bits.
    type Scalars = (i64, i64, bool);
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn kernel() -> &'static str {
        W::KERNEL.name()
    }

    unsafe fn launch(call: &MapLaunch<2>, (rows, ld, wide): Self::Scalars, on: &Launcher<'_>) -> Result<()> {
        let [indices, table] = call.inputs;
        let (indices, table) = (Global::from_address(indices), Global::from_address(table));
        let arguments = (indices, table, GlobalMut::from_address(call.out), call.modes, rows, ld, wide);
        let grid = Grid::new(call.modes.count().div_ceil(WORDS * MAP_THREADS), MAP_THREADS).dependent();
        // SAFETY: the caller's contract; the grid has all words.
        unsafe { on.launch(&W::KERNEL, grid, arguments) }
    }
}

/// The type of the result: a row for each index.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [indices, table] = [0, 1].map(|index| inputs[index].clone().expect("checked: no input is optional"));
    let [_, columns] = table.shape[..] else {
        let detail = format!("weight has shape {:?}, and must have rows and columns", table.shape);
        return Err(Error::ShapeMismatch { operation: NAME, detail });
    };
    let shape = indices.shape.into_iter().chain([columns]).collect();
    Ok(vec![ArrayType { dtype: table.dtype, shape }])
}

/// The elements of a word of a call.
fn word(call: &Call<'_>) -> usize {
    elements_of_word([call.operand(1), call.operand(2)])
}

/// Computes a call of words `W`, each of `elements` elements.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`]; rows consist of such words.
unsafe fn run_words<W: RowWord>(stream: &Stream, call: &Call<'_>, elements: usize) -> Result<()> {
    let [indices, table, out] = [0, 1, 2].map(|index| call.operand(index));
    let (last, words) = (indices.shape.len(), table.shape[1] / elements);
    let in_words = |array: &Array, mode: usize| {
        let along_row = mode + 1 == array.shape.len() && elements > 1;
        if along_row { 1 } else { array.strides[mode] / elements as i64 }
    };
    let shape: Vec<_> = indices.shape.iter().copied().chain([words]).collect();
    // An index is that of all words of a row, and a column that of all rows.
    let of_indices: Vec<_> = indices.strides.iter().copied().chain([0]).collect();
    let of_columns: Vec<_> = std::iter::repeat_n(0, last).chain([in_words(table, 1)]).collect();
    let of_out: Vec<_> = (0..=last).map(|mode| in_words(out, mode)).collect();
    let operand = |array: &Array, bytes, strides| MapOperand { address: array.address, bytes, strides };
    let inputs =
        [operand(indices, indices.dtype.bytes(), &of_indices[..]), operand(table, W::BYTES, &of_columns)];
    let launches = MapModes::launches_by_element(&shape, inputs, operand(out, W::BYTES, &of_out));
    let scalars = (table.shape[0] as i64, in_words(table, 0), indices.dtype == Dtype::I64);
    // SAFETY: the launches have the words of the call's arrays.
    unsafe { run_launches::<Embedding<W>, 2>(stream, &launches, scalars) }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: rows consist of words of this size.
    unsafe {
        match (word(call), call.operand(1).dtype.bytes()) {
            (1, 2) => run_words::<u16>(stream, call, 1),
            (1, _) => run_words::<u32>(stream, call, 1),
            (elements, _) => run_words::<u128>(stream, call, elements),
        }
    }
}

/// The kernel that computes a call.
pub fn explain(call: &Call<'_>) -> &'static str {
    match (word(call), call.operand(1).dtype.bytes()) {
        (1, 2) => u16::KERNEL.name(),
        (1, _) => u32::KERNEL.name(),
        _ => u128::KERNEL.name(),
    }
}
