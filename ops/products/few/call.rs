//! Builds the launch of a call.

use super::kernel::{FewKernels, Form, TILE, WARPS, linear_few_f32_4, linear_few_f32_16};
use crate::launches;
use crate::operand::{self, Place, Rows, Source};
use half::{bf16, f16};
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation};
use moye_runtime::{Error, Grid, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "linear_few";

/// A kernel of elements `T`.
type FewKernel<T> = Kernel<(Global<T>, Global<T>, Global<T>, GlobalMut<T>, Form)>;

/// An element type with its kernels.
trait Kernels: Element {
    /// The kernels, each with the rows of x and of W of a block.
    const KERNELS: [(FewKernel<Self>, u32, u32); 2];
}
impl Kernels for f16 {
    const KERNELS: [(FewKernel<Self>, u32, u32); 2] =
        [(<Self as FewKernels>::KERNELS[0], 8, 2 * TILE), (<Self as FewKernels>::KERNELS[1], 16, 2 * TILE)];
}
impl Kernels for bf16 {
    const KERNELS: [(FewKernel<Self>, u32, u32); 2] =
        [(<Self as FewKernels>::KERNELS[0], 8, 2 * TILE), (<Self as FewKernels>::KERNELS[1], 16, 2 * TILE)];
}
impl Kernels for f32 {
    const KERNELS: [(FewKernel<Self>, u32, u32); 2] =
        [(linear_few_f32_4, 4, 8), (linear_few_f32_16, 16, 4 * WARPS)];
}

/// Extents of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
}

/// Addresses, and the rest of the kernels' parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    x: u64,
    w: u64,
    /// The address of the residual; 0: none.
    residual: u64,
    y: u64,
    form: Form,
}

/// Products of elements `T`.
struct Few<T>(PhantomData<T>);

impl<T: Kernels> Operation for Few<T> {
    type Problem = Problem;
    type Plan = usize;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(_: &Problem, _: &Rates) -> Vec<usize> {
        vec![0, 1]
    }

    /// Blocks of rows of x, each of which reads W.
    fn cost(plan: &usize, &Problem { m, .. }: &Problem, _: &Rates) -> f64 {
        let of_block = T::KERNELS[*plan].1;
        f64::from(m.div_ceil(of_block)) + f64::from(of_block) * 1e-3
    }

    fn kernel(plan: &usize) -> &'static str {
        T::KERNELS[*plan].0.name()
    }

    unsafe fn launch(
        plan: &usize,
        &Problem { m, n, .. }: &Problem,
        &Arguments { x, w, residual, y, form }: &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let (kernel, of_x, of_w) = &T::KERNELS[*plan];
        let grid = Grid::new((n.div_ceil(*of_w), m.div_ceil(*of_x)), 32 * WARPS).dependent();
        let [x, w, residual] = [x, w, residual].map(Global::from_address);
        // SAFETY: the operands have the elements of the form, and are accessible until the work is
        // complete.
        unsafe { on.launch(kernel, grid, (x, w, residual, GlobalMut::from_address(y), form)) }
    }
}

/// The error of extents or strides that the kernels do not take.
fn too_large(of: &[i64]) -> Error {
    let detail = format!(
        "{of:?} are more rows, columns or elements from row to row than the kernels take; take Matmul"
    );
    Error::Unsupported { operation: NAME, detail }
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [x, w] = [0, 1].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    let mismatch = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
    let (&[m, k], &[n, of_w]) = (&x.shape[..], &w.shape[..]) else {
        return mismatch(format!(
            "x has shape {:?} and w {:?}; they must be (m, k) and (n, k)",
            x.shape, w.shape
        ));
    };
    let result = ArrayType { dtype: x.dtype, shape: vec![m, n] };
    let residual = inputs[2].as_ref().unwrap_or(&result);
    if k != of_w || w.dtype != x.dtype || *residual != result {
        return mismatch(format!(
            "x has shape {:?} of {}, w {:?} of {} and the residual {:?} of {}; they must be (m, k), (n, k) and (m, n) of \
             one type",
            x.shape, x.dtype, w.shape, w.dtype, residual.shape, residual.dtype
        ));
    }
    // Blocks of rows of x are along the grid's y, which has at most 65,535 blocks.
    if m > 4 * 65_535 || [n, k].iter().any(|&extent| extent > i32::MAX as usize / 2) {
        return Err(too_large(&[m as i64, n as i64, k as i64]));
    }
    Ok(vec![result])
}

/// Calls `$call` with `$t` as the type of elements.
macro_rules! of_floats {
    ($dtype:expr, $t:ident => $call:expr) => {
        match $dtype {
            Dtype::F32 => {
                type $t = f32;
                $call
            }
            Dtype::F16 => {
                type $t = f16;
                $call
            }
            _ => {
                type $t = bf16;
                $call
            }
        }
    };
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, w, y] = [0, 1, 3].map(|i| call.operand(i));
    if y.elements() == 0 {
        return Ok(());
    }
    let place = |array: &Array| operand::place(array).1;
    let residual = call.operands[2].as_ref();
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let (_work, [x, w]) = unsafe { operand::both_aligned(NAME, stream, [x, w].map(Source::Vectors))? };
    let row = |rows: &Rows| u32::try_from(rows.strides[1]).map_err(|_| too_large(&[rows.strides[1]]));
    let form = Form {
        m: x.shape[1],
        n: w.shape[1],
        k: x.shape[2],
        row_x: row(&x)?,
        row_w: row(&w)?,
        residual: residual.map_or_else(Place::default, place),
        y: place(y),
    };
    let residual = residual.map_or(0, |residual| residual.address);
    let arguments = Arguments { x: x.address, w: w.address, residual, y: y.address, form };
    let problem = problem(call);
    // SAFETY: the arguments are those of the call, or of the workspace.
    of_floats!(y.dtype, T => unsafe { operation::run::<Few<T>>(stream, &problem, &arguments) })
}

/// The problem of a call.
fn problem(call: &Call<'_>) -> Problem {
    let ([m, k], n) = ([0, 1].map(|mode| call.operand(0).shape[mode] as u32), call.operand(1).shape[0]);
    Problem { m, n: n as u32, k }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    of_floats!(call.operand(3).dtype, T => launches::kernel_of::<Few<T>>(stream, &problem(call)))
}
