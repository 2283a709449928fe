//! Copies and transposes as declared operations, of arrays of any element type of [`Dtype`].

use super::plan::{Addresses, Movement, Problem, Side};
use moye_runtime::operation::{
    self, Array, ArrayType, Call, Case, Declaration, Dtype, OperandOf, Operation, Role,
};
use moye_runtime::{Error, Result, Stream};

/// A copy of an array.
pub static COPY: Declaration = Declaration {
    name: "copy",
    summary: "a copy of an array, by default a new row-major one\n\nIn Python elements of any type are copied, of 1, 2, 4, 8 or 16 bytes.",
    operands: &[
        OperandOf::new(Role::Input, "x", "(N,), (M, N) or (batches, M, N), of any strides")
            .of(Dtype::NUMBERS)
            .moved(),
        OperandOf::new(
            Role::Result,
            "out",
            "the copy, of the shape and type of x; it shares no memory with x",
        )
        .of(Dtype::NUMBERS)
        .moved(),
    ],
    options: &[],
    results: |inputs, _| Ok(vec![input::<false>(inputs)?.clone()]),
    // SAFETY: the arrays are in memory of the stream's device until the work is complete.
    run: |stream, call| unsafe { run::<false>(stream, call) },
    explain: |stream, call| explain::<false>(stream, call).map(Into::into),
    reference: |inputs, _| inputs.iter().flatten().map(|(_, elements)| elements.clone()).collect(),
    tolerance: |_| 0.0,
    cases: &[
        of(&[Some(&[37, 70])]),
        of(&[Some(&[5, 1024])]),
        of(&[Some(&[16, 256])]),
        of(&[Some(&[2, 16_396])]),
        of(&[Some(&[3, 5, 7])]),
        of(&[Some(&[2, 33, 48])]),
        of(&[Some(&[301])]),
        of(&[Some(&[])]),
        of(&[Some(&[0, 5])]),
        of(&[Some(&[3, 0, 5])]),
    ],
    bench: BENCH,
};

/// The transpose of each matrix of an array.
pub static TRANSPOSE: Declaration = Declaration {
    name: "transpose",
    summary: "the transposed matrix, or that of each matrix of a batch, by default a new row-major array\n\nIn Python elements of any type are \
              moved, of 1, 2, 4, 8 or 16 bytes. ``x.T`` is a transposed view without a copy.",
    operands: &[
        OperandOf::new(Role::Input, "x", "(M, N) or (batches, M, N), of any strides")
            .of(Dtype::NUMBERS)
            .moved(),
        OperandOf::new(
            Role::Result,
            "out",
            "(N, M) or (batches, N, M), of the type of x; it shares no memory with x",
        )
        .of(Dtype::NUMBERS)
        .moved(),
    ],
    results: |inputs, _| {
        let ArrayType { dtype, mut shape } = input::<true>(inputs)?.clone();
        let rank = shape.len();
        shape.swap(rank - 2, rank - 1);
        Ok(vec![ArrayType { dtype, shape }])
    },
    // SAFETY: as for `COPY`.
    run: |stream, call| unsafe { run::<true>(stream, call) },
    explain: |stream, call| explain::<true>(stream, call).map(Into::into),
    reference: |inputs, _| {
        let (ty, x) = inputs[0].as_ref().expect("x is not optional");
        let [.., m, n] = ty.shape[..] else { unreachable!("`results` has refused it") };
        let place = |at: usize| (at / (m * n)) * m * n + at % m * n + at / m % n;
        vec![(0..x.len()).map(|at| x[place(at)]).collect()]
    },
    cases: &[
        of(&[Some(&[37, 70])]),
        of(&[Some(&[128, 136])]),
        of(&[Some(&[1, 300])]),
        of(&[Some(&[3, 65, 66])]),
        of(&[Some(&[2, 64, 4])]),
        of(&[Some(&[0, 5])]),
        of(&[Some(&[3, 0, 5])]),
    ],
    ..COPY
};

/// 64 MB and more.
const BENCH: &[Case] = &[of(&[Some(&[16_384, 16_384])]), of(&[Some(&[8192, 8192])])];

/// A case whose elements each type has.
const fn of(inputs: &'static [Option<&'static [usize]>]) -> Case {
    Case::new(inputs).ranges(&[("x", 0.0, 120.0)])
}

/// The type of `x`, if it has as many modes as the operation takes.
fn input<const TRANSPOSED: bool>(inputs: &[Option<ArrayType>]) -> Result<&ArrayType> {
    let operation = Movement::<TRANSPOSED>::NAME;
    let [Some(x)] = inputs else {
        let detail = format!("it takes one array, and has {}", inputs.len());
        return Err(Error::ShapeMismatch { operation, detail });
    };
    let least = if TRANSPOSED { 2 } else { 0 };
    if !(least..=3).contains(&x.shape.len()) {
        let takes = if TRANSPOSED { "two or three modes" } else { "three modes at most" };
        let detail = format!("x has shape {:?}, and must have {takes}; reshape it", x.shape);
        return Err(Error::ShapeMismatch { operation, detail });
    }
    Ok(x)
}

/// An array of three modes at most as batches of matrices: extents and strides, of which a mode
/// with one element has stride 0.
fn batched(array: &Array) -> ([usize; 3], [i64; 3]) {
    let (mut extents, mut strides) = ([1; 3], [0; 3]);
    let modes = array.shape.iter().zip(&array.strides).rev();
    for ((extent, stride), (&of, &by)) in extents.iter_mut().zip(&mut strides).rev().zip(modes) {
        (*extent, *stride) = (of, if of == 1 { 0 } else { by });
    }
    (extents, strides)
}

/// The problem of each matrix of a call, and its addresses: none without elements.
fn matrices<const TRANSPOSED: bool>(call: &Call<'_>) -> Result<Vec<(Problem, Addresses)>> {
    let (operation, x, out) = (Movement::<TRANSPOSED>::NAME, call.operand(0), call.operand(1));
    input::<TRANSPOSED>(&[Some(x.ty())])?;
    out.check_distinct(operation)?;
    if x.elements() > 1 {
        call.check_apart(operation, if TRANSPOSED { &TRANSPOSE } else { &COPY }, 1, &[])?;
    }
    if x.elements() == 0 {
        return Ok(Vec::new());
    }
    let bytes = x.dtype.bytes();
    let side = |array: &Array, index: usize| {
        let (_, [batch, row, column]) = batched(array);
        let offset = (index as i64 * batch * bytes as i64) as u64;
        Side { address: array.address.wrapping_add(offset), strides: [row, column] }
    };
    let [mut batches, mut m, n] = batched(x).0;
    // Matrices that follow each other on both sides are one.
    let follow = |array: &Array| {
        let [batch, row, _] = batched(array).1;
        m > 1 && batch == row * m as i64
    };
    if !TRANSPOSED && batches > 1 && follow(x) && follow(out) && batches * m <= i32::MAX as usize / 2 {
        (batches, m) = (1, batches * m);
    }
    let matrix = |index| {
        let (from, Side { address, strides: [row, column] }) = (side(x, index), side(out, index));
        // In the order of the source's modes.
        let strides = if TRANSPOSED { [column, row] } else { [row, column] };
        Problem::of(operation, bytes, [m, n], [from, Side { address, strides }])
    };
    (0..batches).map(matrix).filter_map(Result::transpose).collect()
}

/// Moves the elements of a call.
///
/// # Safety
/// Same contract as [`Declaration::run`].
unsafe fn run<const TRANSPOSED: bool>(stream: &Stream, call: &Call<'_>) -> Result<()> {
    matrices::<TRANSPOSED>(call)?.into_iter().try_for_each(|(problem, call)| {
        // SAFETY: each matrix is in its array, and `out` has each element once.
        unsafe { operation::run::<Movement<TRANSPOSED>>(stream, &problem, &call) }
    })
}

fn explain<const TRANSPOSED: bool>(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let Some((problem, _)) = matrices::<TRANSPOSED>(call)?.into_iter().next() else { return Ok("none") };
    let plan = operation::plan::<Movement<TRANSPOSED>>(stream.device(), &problem)?;
    Ok(Movement::<TRANSPOSED>::kernel(&plan))
}
