//! Builds the launches of a call.

use super::kernel::*;
use crate::prelude::*;
use moye_device::algorithm::{MAP_THREADS, MapLaunch, MapModes, MapOperand};

const NAME: &str = "rope";

/// Rotations of the heads of tokens.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Rope {
    dtype: Dtype,
    map: MapLaunch<4>,
    /// The addresses of cosines and sines.
    tables: [u64; 2],
    /// The bits of the ratio of two angles.
    ratio: u64,
    form: RopeForm,
}

impl Launch for Rope {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let Self { dtype, map, tables, ratio, form } = *self;
        let mut angles = RopeAngles { first: 0.5 * std::f64::consts::FRAC_1_PI, powers: [1.0; POWERS] };
        let mut power = f64::from_bits(ratio);
        for to in &mut angles.powers {
            *to = power;
            power *= power;
        }
        let blocks = (map.modes.count().div_ceil(MAP_THREADS), form.heads.div_ceil(form.heads_of_block));
        let ([x, positions, ..], grid) = (map.inputs, Grid::new(blocks, MAP_THREADS).dependent());
        // SAFETY: the operands have the elements of the modes; the grid has all vectors and heads.
        of_floats!(NAME, dtype, T => unsafe {
            let (x, positions) = (Global::from_address(x), Global::from_address(positions));
            let ([cos, sin], out) = (tables.map(Global::from_address), GlobalMut::from_address(map.out));
            to.launch(&T::KERNELS[0], grid, (x, positions, cos, sin, out, map.modes, angles, form))
        })
    }
}

/// The modes of a tensor: tokens, heads if it has them, and the number of modes before both.
struct Modes {
    token: usize,
    head: Option<usize>,
    batch: usize,
}

fn modes(shape: &[usize], options: &Options) -> Result<Modes> {
    let (rank, axis) = (shape.len(), options.int("axis"));
    match axis {
        -2 if rank >= 3 => Ok(Modes { token: rank - 2, head: Some(rank - 3), batch: rank - 3 }),
        -2 if rank == 2 => Ok(Modes { token: 0, head: None, batch: 0 }),
        -3 if rank >= 3 => Ok(Modes { token: rank - 3, head: Some(rank - 2), batch: rank - 3 }),
        _ => {
            let detail = format!(
                "x has shape {shape:?}, and tokens are axis {axis}; it is -3 of (..., tokens, heads, elements), or -2 of \
                 (..., heads, tokens, elements) and of (tokens, elements)"
            );
            unsupported(NAME, detail)
        }
    }
}

/// The rotated elements of a head.
fn rotated(shape: &[usize], options: &Options) -> Result<usize> {
    let elements = shape[shape.len() - 1];
    let rotated = match options.int("rotary") {
        0 => elements,
        given => usize::try_from(given).unwrap_or(usize::MAX),
    };
    if rotated > elements || !rotated.is_multiple_of(2) || rotated / 2 > 1 << POWERS {
        let detail = format!(
            "{rotated} of {elements} elements are rotated; it is an even number of at most all, and {}",
            2 << POWERS
        );
        return unsupported(NAME, detail);
    }
    Ok(rotated)
}

/// Type and shape of the result: those of x.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let (x, [positions, cos, sin]) = (given(inputs, 0), [1, 2, 3].map(|index| inputs[index].as_ref()));
    let (of, rotated) = (modes(&x.shape, options)?, rotated(&x.shape, options)?);
    let tokens = x.shape[of.token];
    if let Some(positions) = positions
        && ![&[tokens][..], &[&x.shape[..of.batch], &[tokens]].concat()].contains(&&positions.shape[..])
    {
        let is = &positions.shape;
        let detail = format!("positions have shape {is:?}, and x of {:?} has {tokens} tokens", x.shape);
        return mismatch(NAME, detail);
    }
    if cos != sin {
        return mismatch(NAME, "cos and sin differ in shape or type, or one is left out".to_owned());
    }
    if let Some(cos) = cos {
        let rows = if positions.is_some() { 0 } else { tokens };
        let fits = cos.shape.len() == 2 && cos.shape[0] >= rows && cos.shape[1] == rotated / 2;
        if !fits || (cos.dtype != x.dtype && cos.dtype != Dtype::F32) {
            let detail = format!(
                "cos has shape {:?} of {}, and must have a row for each position ({rows} at least) of {} columns, \
                 float32 or {}",
                cos.shape,
                cos.dtype,
                rotated / 2,
                x.dtype
            );
            return mismatch(NAME, detail);
        }
    }
    Ok(vec![x.clone()])
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(on: &On<'_>, call: &Call<'_>) -> Result<()> {
    let ([x, out], options) = ([0, 4].map(|index| call.operand(index)), call.options);
    let [positions, cos, sin] = [1, 2, 3].map(|index| call.operands[index].as_ref());
    let (of, rotated) = (modes(&x.shape, options)?, rotated(&x.shape, options)?);
    let (bytes, last, pairs) = (x.dtype.bytes(), x.shape.len() - 1, rotated / 2);
    let [heads, _] = RowProblem::extents(NAME, [of.head.map_or(1, |head| x.shape[head]), pairs])?;
    if x.address != out.address || x.strides != out.strides {
        let [from, to] = [x, out].map(|array| {
            let mut rest = array.clone();
            rest.shape[last] -= rotated;
            let offset = rotated as i64 * array.strides[last] * bytes as i64;
            rest.address = array.address.wrapping_add_signed(offset);
            rest
        });
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        unsafe { crate::affine::copy(NAME, on, &from, &to)? };
    }
    if pairs == 0 || heads == 0 {
        return Ok(());
    }
    let fits = pairs.is_multiple_of(16 / bytes) && is_of_words(x, 16) && is_of_words(out, 16);
    let vector = if fits { 16 / bytes } else { 1 };
    let adjacent = options.bool("interleaved");
    // The modes: batches, tokens, and the vectors of a head.
    let shape = [&x.shape[..of.batch], &[x.shape[of.token], pairs / vector]].concat();
    let strides = |array: &Array| {
        let pair = array.strides[last] * if adjacent { 2 } else { 1 };
        [&array.strides[..of.batch], &[array.strides[of.token], pair * vector as i64]].concat()
    };
    let of_positions = match positions {
        Some(positions) => [positions.strides_as(NAME, &shape[..shape.len() - 1])?, vec![0]].concat(),
        None => vec![0; shape.len()],
    };
    let counted = |from_end: usize, step: usize| {
        let mut strides = vec![0; shape.len()];
        strides[shape.len() - from_end] = step as i64;
        strides
    };
    let (of_x, of_out, of_token, of_pair) = (strides(x), strides(out), counted(2, 1), counted(1, vector));
    let operand = |array: Option<&Array>, strides| MapOperand {
        address: array.map_or(0, |array| array.address),
        bytes: array.map_or(1, |array| array.dtype.bytes()),
        strides,
    };
    let inputs = [
        operand(Some(x), &of_x),
        operand(positions, &of_positions),
        operand(None, &of_token),
        operand(None, &of_pair[..]),
    ];
    let launches = MapModes::launches_by_element(&shape, inputs, operand(Some(out), &of_out));
    if launches.len() > 1 {
        return unsupported(NAME, format!("x has shape {:?}, more than one launch has; split it", x.shape));
    }
    let head = |array: &Array| of.head.map_or(0, |head| array.strides[head]);
    let part = |array: &Array| array.strides[last] * if adjacent { vector } else { pairs } as i64;
    let stride = |table: Option<&Array>, mode: usize| table.map_or(0, |table| table.strides[mode]);
    // Heads of a block share its angles: as many as leave work for all SMs.
    let threads = on.card().multiprocessors as usize * 1024;
    let vectors =
        u32::try_from(shape.iter().product::<usize>().saturating_mul(heads as usize).div_ceil(threads));
    let of_block = vectors.unwrap_or(heads).clamp(1, heads);
    let form = RopeForm {
        head: head(x),
        head_out: head(out),
        part: part(x),
        part_out: part(out),
        cos_row: stride(cos, 0),
        cos_column: stride(cos, 1),
        sin_row: stride(sin, 0),
        sin_column: stride(sin, 1),
        rows: cos.map_or(0, |cos| cos.shape[0] as i64),
        heads,
        heads_of_block: of_block.next_multiple_of(GROUP),
        vectors: (vector > 1).into(),
        adjacent: adjacent.into(),
        inverse: options.bool("inverse").into(),
        wide_positions: positions.is_some_and(|positions| positions.dtype == Dtype::I64).into(),
        f32_tables: cos.is_some_and(|cos| cos.dtype == Dtype::F32).into(),
        reserved: 0,
    };
    let ratio = options.float("base").powf(-1.0 / pairs as f64).to_bits();
    let tables = [cos, sin].map(|table| table.map_or(0, |table| table.address));
    launches.into_iter().try_for_each(|map| {
        // SAFETY: the launch has the elements of the call's arrays, on the stream's device
        // until the work is complete.
        unsafe { on.launch(&Rope { dtype: x.dtype, map, tables, ratio, form }) }
    })
}
