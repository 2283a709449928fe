//! From a call to launches.

use super::kernel::{Slots, WORDS, append_16, append_32, append_128};
use crate::groups::elements_of_word;
use moye::operation::{Array, ArrayType, Call, Dtype, Elementwise, Launcher, run_launches};
use moye::{Element, Error, Grid, Ptx, Result, Stream};
use moye_device::algorithm::{FastDivmod, MAP_THREADS, MapLaunch, MapModes, MapOperand};
use moye_device::kernel::Kernel;
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "append";

/// A word of a row.
trait RowWord: Element {
    const KERNEL: Kernel<(Global<i32>, Global<Self>, GlobalMut<Self>, MapModes<2>, Slots)>;
}

macro_rules! words {
    ($($word:ty: $kernel:ident;)+) => { $(
        impl RowWord for $word {
            const KERNEL: Kernel<(Global<i32>, Global<Self>, GlobalMut<Self>, MapModes<2>, Slots)> = $kernel;
        }
    )+ };
}
words! {
    u128: append_128;
    u32: append_32;
    u16: append_16;
}

/// Rows of words `W`.
struct Append<W>(PhantomData<W>);

impl<W: RowWord> Elementwise<2> for Append<W> {
    type Scalars = Slots;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn kernel() -> &'static str {
        W::KERNEL.name()
    }

    unsafe fn launch(call: &MapLaunch<2>, slots: Slots, on: &Launcher<'_>) -> Result<()> {
        let [numbers, x] = call.inputs;
        let (numbers, x) = (Global::from_address(numbers), Global::from_address(x));
        let arguments = (numbers, x, GlobalMut::from_address(call.out), call.modes, slots);
        let grid = Grid::new(call.modes.count().div_ceil(WORDS * MAP_THREADS), MAP_THREADS).dependent();
        // SAFETY: the caller's contract; the grid has all words.
        unsafe { on.launch(&W::KERNEL, grid, arguments) }
    }
}

/// The type of the result, that of the cache.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [x, slots, cache] =
        [0, 1, 2].map(|index| inputs[index].clone().expect("checked: no input is optional"));
    let modes_of_slots = (cache.shape.len() + 1).saturating_sub(x.shape.len());
    let fits = !x.shape.is_empty()
        && slots.shape == x.shape[..1]
        && matches!(modes_of_slots, 1 | 2)
        && cache.shape[modes_of_slots..] == x.shape[1..];
    if !fits || cache.dtype != x.dtype {
        let detail = format!(
            "x has shape {:?} of {}, slots {:?} and the cache {:?} of {}; they must be (tokens, row...), \
             (tokens) and (slots, row...) or (pages, slots, row...), x and cache of one type",
            x.shape, x.dtype, slots.shape, cache.shape, cache.dtype
        );
        return Err(Error::ShapeMismatch { operation: NAME, detail });
    }
    if cache.shape[..modes_of_slots].iter().product::<usize>() > i32::MAX as usize {
        let detail = format!("the cache has shape {:?}, more than {} slots", cache.shape, i32::MAX);
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    Ok(vec![cache])
}

/// The elements of a word of a call.
fn word(call: &Call<'_>) -> usize {
    elements_of_word([call.operand(0), call.operand(3)])
}

/// Computes a call of words `W`, each of `elements` elements.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`]; rows consist of such words.
unsafe fn run_words<W: RowWord>(stream: &Stream, call: &Call<'_>, elements: usize) -> Result<()> {
    let [x, slots, cache] = [0, 1, 3].map(|index| call.operand(index));
    let in_words = |array: &Array, mode: usize| {
        let along_row = mode + 1 == array.shape.len() && elements > 1;
        if along_row { 1 } else { array.strides[mode] / elements as i64 }
    };
    let rank = x.shape.len();
    let mut shape = x.shape.clone();
    if rank > 1 {
        shape[rank - 1] /= elements;
    }
    let of_x: Vec<_> = (0..rank).map(|mode| in_words(x, mode)).collect();
    let of_slots: Vec<_> = (0..rank).map(|mode| if mode == 0 { slots.strides[0] } else { 0 }).collect();
    // The row of a slot, which its number places.
    let before = cache.shape.len() - rank;
    let of_cache: Vec<_> =
        (0..rank).map(|mode| if mode == 0 { 0 } else { in_words(cache, before + mode) }).collect();
    let page = if before == 1 { cache.shape[1] } else { cache.shape[0] };
    let of_slots_in_cache = Slots {
        count: cache.shape[..=before].iter().product::<usize>() as u32,
        page: FastDivmod::new(page.max(1) as u32),
        page_stride: if before == 1 { in_words(cache, 0) } else { 0 },
        stride: if rank > 1 || elements == 1 { cache.strides[before] / elements as i64 } else { 1 },
        wide: slots.dtype == Dtype::I64,
    };
    let operand = |array: &Array, bytes, strides| MapOperand { address: array.address, bytes, strides };
    let inputs = [operand(slots, slots.dtype.bytes(), &of_slots[..]), operand(x, W::BYTES, &of_x)];
    let launches = MapModes::launches_by_element(&shape, inputs, operand(cache, W::BYTES, &of_cache));
    // SAFETY: the launches have the words of the call's arrays.
    unsafe { run_launches::<Append<W>, 2>(stream, &launches, of_slots_in_cache) }
}

/// Computes a call: only the rows are written if the result is the cache.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, cache, out] = [0, 2, 3].map(|index| call.operand(index));
    // SAFETY: the call's arrays are on the stream's device until the work is complete; rows consist
    // of words of this size.
    unsafe {
        if (cache.address, &cache.strides) != (out.address, &out.strides) {
            crate::affine::copy(NAME, stream, cache, out)?;
        }
        match (word(call), x.dtype.bytes()) {
            (1, 2) => run_words::<u16>(stream, call, 1),
            (1, _) => run_words::<u32>(stream, call, 1),
            (elements, _) => run_words::<u128>(stream, call, elements),
        }
    }
}

/// The kernel that computes a call.
pub fn explain(call: &Call<'_>) -> &'static str {
    match (word(call), call.operand(0).dtype.bytes()) {
        (1, 2) => u16::KERNEL.name(),
        (1, _) => u32::KERNEL.name(),
        _ => u128::KERNEL.name(),
    }
}
