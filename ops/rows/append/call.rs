//! Builds the launches of a call.

use super::kernel::{Slots, WORDS, append_16, append_32, append_128};
use crate::prelude::*;
use moye_device::algorithm::{FastDivmod, MAP_THREADS, MapLaunch, MapModes, MapOperand};

pub const NAME: &str = "append";

/// Rows of words.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Append {
    map: MapLaunch<2>,
    /// Bytes of a word.
    bytes: usize,
    slots: Slots,
}

impl Launch for Append {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { map: MapLaunch { inputs: [numbers, x], out, modes }, bytes, slots } = *self;
        let grid = Grid::new(modes.count().div_ceil(WORDS * MAP_THREADS), MAP_THREADS).dependent();
        let numbers = Global::from_address(numbers);
        macro_rules! launch {
            ($kernel:ident) => {{
                let (x, out) = (Global::from_address(x), GlobalMut::from_address(out));
                // SAFETY: the operands have the words of the modes; the grid has all words.
                unsafe { to.launch(&$kernel, grid, (numbers, x, out, modes, slots)) }
            }};
        }
        match bytes {
            2 => launch!(append_16),
            4 => launch!(append_32),
            _ => launch!(append_128),
        }
    }
}

/// The type of the result: the cache's.
pub fn results(inputs: &[Option<ArrayType>], _: &Options) -> Result<Vec<ArrayType>> {
    let [x, slots, cache] = [0, 1, 2].map(|index| given(inputs, index));
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
        return mismatch(NAME, detail);
    }
    if cache.shape[..modes_of_slots].iter().product::<usize>() > i32::MAX as usize {
        return unsupported(
            NAME,
            format!("the cache has shape {:?}, more than {} slots", cache.shape, i32::MAX),
        );
    }
    Ok(vec![cache.clone()])
}

/// Computes a call: only the rows are written if the result is the cache.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let [x, slots, given, cache] = [0, 1, 2, 3].map(|index| call.operand(index));
    if (given.address, &given.strides) != (cache.address, &cache.strides) {
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        unsafe { crate::affine::copy(NAME, on, given, cache)? };
    }
    let rank = x.shape.len();
    // Rows of one element are at any places.
    let elements = if rank > 1 { elements_of_word([x, cache]) } else { 1 };
    let bytes = elements * x.dtype.bytes();
    let in_words = |array: &Array, mode: usize| stride_in_words(array, mode, elements);
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
    // No pages may be of any number of slots.
    let [count, page] =
        RowProblem::extents(NAME, [cache.shape[..=before].iter().product(), page.min(i32::MAX as usize)])?;
    let of_slots_in_cache = Slots {
        count,
        page: FastDivmod::new(page.max(1)),
        page_stride: if before == 1 { in_words(cache, 0) } else { 0 },
        stride: cache.strides[before] / elements as i64,
        wide: slots.dtype == Dtype::I64,
    };
    let operand = |array: &Array, bytes, strides| MapOperand { address: array.address, bytes, strides };
    let inputs = [operand(slots, slots.dtype.bytes(), &of_slots[..]), operand(x, bytes, &of_x)];
    let launches = MapModes::launches_by_element(&shape, inputs, operand(cache, bytes, &of_cache));
    launches.into_iter().try_for_each(|map| {
        // SAFETY: the launch has the words of the call's arrays, on the stream's device until the
        // work is complete.
        unsafe { on.launch(&Append { map, bytes, slots: of_slots_in_cache }) }
    })
}
