//! From a call to launches.

use super::codes::Rows;
use super::formats::{self, Source, UnpackKernels};
use super::kernel::{Finish, LinearKernels, WARPS};
use super::sizes::{Form, Sizes, source_sizes};
use half::{bf16, f16};
use moye::operation::{self, Array, Call, Dtype, Launcher, Operation};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

/// The product.
pub const LINEAR: &str = "linear_quantized";
/// The order of the kernels.
pub const PACK: &str = "pack_weights";
/// The weights as floats.
pub const UNPACK: &str = "unpack_weights";

/// A type of activations: f16 or bf16.
pub trait WeightKernels: LinearKernels + UnpackKernels {}
impl<T: LinearKernels + UnpackKernels> WeightKernels for T {}

/// Rows of x of a block, by shape.
const SHAPES: [usize; 2] = [8, 16];

/// Tiles of W of a block.
const TILES: usize = 2;

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: usize,
    sizes: Sizes,
    /// Whether the product begins with a norm.
    norm: bool,
}

/// Addresses of x, codes, factors and y; the rows of x and y; what is done beside the product.
type Arguments = ([u64; 4], [Rows; 2], Finish);

struct Linear<T>(PhantomData<T>);

impl<T: WeightKernels> Operation for Linear<T> {
    type Problem = Problem;
    /// The kernel's number among those of a type, and its rows of x.
    type Plan = (usize, usize);
    type Call = Arguments;
    const NAME: &'static str = LINEAR;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<(usize, usize)> {
        let (Sizes { bits, offset, .. }, norm) = (problem.sizes, usize::from(problem.norm));
        // By codes, rows of x, and whether there are minima and a norm.
        let kernel = |shape| {
            let by_rows = usize::from(bits == 8) * SHAPES.len() + shape;
            (by_rows * 2 + usize::from(offset.is_none())) * 2 + norm
        };
        SHAPES.iter().enumerate().map(|(shape, &rows)| (kernel(shape), rows)).collect()
    }

    /// Instructions of all blocks: each unpacks its tiles, and multiplies all of its rows of x.
    fn cost(&(_, rows): &(usize, usize), problem: &Problem, _: &Rates) -> f64 {
        (problem.m.div_ceil(rows) * (40 + 2 * rows)) as f64
    }

    fn kernel(&(kernel, _): &(usize, usize)) -> &'static str {
        <T as LinearKernels>::KERNELS[kernel].name()
    }

    unsafe fn launch(
        &(kernel, rows): &(usize, usize),
        problem: &Problem,
        &([x, codes, factors, y], [of_x, of_y], finish): &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let sizes = problem.sizes;
        let grid = (sizes.tiles().div_ceil(TILES) as u32, problem.m.div_ceil(rows) as u32);
        let weights = sizes.weights(codes, factors);
        let (x, y) = (Global::from_address(x), GlobalMut::from_address(y));
        let arguments = (x, y, weights, problem.m as u32, of_x, of_y, finish);
        // SAFETY: the caller's contract; the sizes were checked.
        let grid = Grid::new(grid, 32 * WARPS).dependent();
        unsafe { on.launch(&<T as LinearKernels>::KERNELS[kernel], grid, arguments) }
    }
}

macro_rules! of_halves {
    ($operation:expr, $dtype:expr, $t:ident => $call:expr) => {
        match $dtype {
            Dtype::F16 => {
                type $t = f16;
                $call
            }
            Dtype::Bf16 => {
                type $t = bf16;
                $call
            }
            other => {
                let detail = format!("there are no kernels for elements of {other}; convert them to float16");
                Err(Error::Unsupported { operation: $operation, detail })
            }
        }
    };
}

/// The rows of an array, if one stride leads through all modes but the last.
fn rows(array: &Array) -> Option<Rows> {
    let last = array.shape.len() - 1;
    let (mut stride, mut rows) = (0, 1);
    for mode in (0..last).rev().filter(|&mode| array.shape[mode] != 1) {
        if rows > 1 && array.strides[mode] != stride * rows as i64 {
            return None;
        }
        if rows == 1 {
            stride = array.strides[mode];
        }
        rows *= array.shape[mode];
    }
    let element = if array.shape[last] == 1 { 1 } else { array.strides[last] };
    let bytes = array.dtype.bytes() as i64;
    let aligned = element == 1 && array.address.is_multiple_of(16) && (rows == 1 || stride * bytes % 16 == 0);
    Some(Rows { row: stride, element, aligned })
}

/// Calls `with` with the number of rows, the addresses and the rows of x, y and the residual: once
/// where all are matrices, else for each index of their first mode.
fn matrices(
    arrays: [Option<&Array>; 3],
    with: &mut impl FnMut(usize, [u64; 3], [Rows; 3]) -> Result<()>,
) -> Result<()> {
    const NONE: Rows = Rows { row: 0, element: 0, aligned: true };
    let of = arrays.map(|array| array.map_or(Some(NONE), rows));
    let x = arrays[0].expect("x is not optional");
    if let [Some(of_x), Some(of_y), Some(of_residual)] = of {
        let m = x.shape[..x.shape.len() - 1].iter().product();
        // A grid has 65,535 blocks along y.
        const MOST: usize = 8 * 65_535;
        return (0..m).step_by(MOST).try_for_each(|first| {
            let of = [of_x, of_y, of_residual];
            let at = |i: usize| {
                arrays[i].map_or(0, |array: &Array| {
                    array.address.wrapping_add_signed(first as i64 * of[i].row * array.dtype.bytes() as i64)
                })
            };
            with(MOST.min(m - first), [at(0), at(1), at(2)], of)
        });
    }
    (0..x.shape[0] as i64).try_for_each(|index| {
        let inner = arrays.map(|array| {
            array.map(|array| Array {
                shape: array.shape[1..].to_vec(),
                strides: array.strides[1..].to_vec(),
                address: array
                    .address
                    .wrapping_add_signed(index * array.strides[0] * array.dtype.bytes() as i64),
                dtype: array.dtype,
            })
        });
        matrices([0, 1, 2].map(|i| inner[i].as_ref()), with)
    })
}

/// The sizes of a product.
fn sizes(call: &Call<'_>) -> Result<Sizes> {
    let k = *call.operand(0).shape.last().expect("checked: x has a mode");
    Sizes::of(LINEAR, [&call.operand(1).ty(), &call.operand(2).ty()], k, call.options)
}

/// Computes a product.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { product(stream, call, false) }
}

/// Computes a product by weights that were packed before any work that may still run.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`]; no work that may still run writes codes
/// and factors.
pub unsafe fn run_early(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: as in `run`, and no work that may still run writes codes and factors.
    unsafe { product(stream, call, true) }
}

/// Computes a product; codes and factors are loaded while earlier work runs if `early`.
///
/// # Safety
/// As for [`run`], and with `early` for [`run_early`].
unsafe fn product(stream: &Stream, call: &Call<'_>, early: bool) -> Result<()> {
    let [x, codes, factors, y] = [0, 1, 2, 5].map(|index| call.operand(index));
    if x.elements() == 0 {
        return Ok(());
    }
    let (sizes, gated) = (sizes(call)?, call.options.bool("gated"));
    let norm = call.operands[4].as_ref().map_or(0, |norm| norm.address);
    let eps = (call.options.float("eps") as f32).to_bits();
    matrices(
        [Some(x), Some(y), call.operands[3].as_ref()],
        &mut |m, [x_at, y_at, residual], [of_x, of_y, rows]| {
            let addresses = [x_at, codes.address, factors.address, y_at];
            let arguments = (addresses, [of_x, of_y], Finish { residual, rows, norm, eps, gated, early });
            // SAFETY: the call's arrays are on the stream's device until the work is complete.
            unsafe {
                of_halves!(LINEAR, x.dtype, T => operation::run::<Linear<T>>(stream, &Problem { m, sizes, norm: norm != 0 }, &arguments))
            }
        },
    )
}

/// The kernel of a product.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let x = call.operand(0);
    let m = x.elements() / x.shape.last().map_or(1, |&k| k.max(1));
    let problem = Problem { m, sizes: sizes(call)?, norm: call.operands[4].is_some() };
    of_halves!(LINEAR, x.dtype, T => {
        Ok(Linear::<T>::kernel(&operation::plan::<Linear<T>>(stream.device(), &problem)?))
    })
}

/// Brings weights into the order of the kernels.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn pack(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let types: Vec<_> = call.operands[..3].iter().map(|array| array.as_ref().map(Array::ty)).collect();
    let (form, sizes) = source_sizes(&types, call.options)?;
    let address = |index: usize| call.operands[index].as_ref().map_or(0, |array| array.address);
    let weights = call.operand(0);
    let source = Source {
        weights: Global::from_address(weights.address),
        scales: Global::from_address(address(1)),
        others: Global::from_address(address(2)),
        row: (weights.shape[1] * weights.dtype.bytes()) as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        group: (sizes.k / sizes.groups) as u32,
    };
    let threads = sizes.tiles() * (sizes.steps() * 32).max(sizes.groups * 8);
    let grid = Grid::new((threads as u32).div_ceil(formats::THREADS), formats::THREADS);
    let codes = GlobalMut::from_address(address(3));
    let arguments = (source, codes, GlobalMut::from_address(address(4)), sizes.offset.is_none());
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete; the grid has
    // all codes and factors.
    unsafe { module.launch_on(stream, &form.kernel, grid, arguments) }
}

/// The kernel that packs.
pub fn explain_pack(call: &Call<'_>) -> Result<&'static str> {
    let form = Form::named(call.options.choice("form")).expect("an option of these names");
    Ok(form.kernel.name())
}

/// The weights as floats.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn unpack(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [codes, factors, out] = [0, 1, 2].map(|index| call.operand(index));
    let sizes = Sizes::of(UNPACK, [&codes.ty(), &factors.ty()], out.shape[1], call.options)?;
    let weights = sizes.weights(codes.address, factors.address);
    let threads = sizes.tiles() * sizes.steps() * 32;
    let grid = Grid::new((threads as u32).div_ceil(formats::THREADS), formats::THREADS);
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: as in `pack`.
    of_halves!(UNPACK, out.dtype, T => unsafe {
        let kernel = &<T as UnpackKernels>::KERNELS[usize::from(sizes.bits == 8)];
        module.launch_on(stream, kernel, grid, (weights, GlobalMut::<T>::from_address(out.address)))
    })
}

/// The kernel that unpacks.
pub fn explain_unpack(call: &Call<'_>) -> Result<&'static str> {
    let bits = usize::from(call.options.int("bits") == 8);
    of_halves!(UNPACK, call.options.dtype("dtype"), T => Ok(<T as UnpackKernels>::KERNELS[bits].name()))
}
