//! Builds the launches of a call.

use super::codes::{E4m3, Rows};
use super::kernel::{Finish, warps};
use super::kernels::{WeightKernels, few};
use super::many::{GateKernels, ManyKernels, Slices, StoreY, Target, is_sliced, linear_clear};
use super::matrices::{matrices, rows};
use super::pack;
use super::sizes::{Codes, Sizes};
use super::unpacked::{BLK_K, BLK_M, CopyCodes, CopyX};
use crate::operand::Source as Aligned;
use half::{bf16, f16};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::collective::{SplitK, Tiles};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Global, GlobalMut, TensorMap as Map};
use moye_device::number::U4;
use moye_runtime::operation::{self, Array, Call, Dtype, Launcher, Operation, Workspace};
use moye_runtime::{Arch, Error, Grid, KernelArg, Ptx, Rates, Result, Stream, TensorMap};
use std::marker::PhantomData;

/// The product.
pub const LINEAR: &str = "linear_quantized";
/// The product by activations of 8 bits.
pub const LINEAR_8: &str = "linear_quantized_a8";
/// The order of the kernels.
pub const PACK: &str = "pack_weights";
/// The weights as floats.
pub const UNPACK: &str = "unpack_weights";

/// Rows of x of a block that a caller may name.
pub const TILES_OF_X: &[&str] = &["auto", "8", "16", "64", "256"];

/// Rows of x of a block, by shape.
const SHAPES: [usize; 3] = [1, 8, 16];

/// Tiles of W of a block.
const TILES: usize = 2;

/// The inputs of the choice of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: usize,
    sizes: Sizes,
    /// Whether the rows of x are aligned.
    aligned: bool,
    /// Whether the product begins with a norm, and whether it gates.
    norm: bool,
    gated: bool,
    /// Rows of x of a block, or "auto".
    tile: &'static str,
    /// The plan for which the workspace was made: the only candidate.
    planned: Option<Planned>,
}

/// The fields that differ between the candidates of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Planned {
    kernel: usize,
    rows: usize,
    slices: usize,
    is_for_many: bool,
}

/// A kernel: its index in the table for few rows or for many, and its rows of x.
#[derive(Clone, Copy, Debug)]
struct Plan {
    kernel: usize,
    rows: usize,
    many: Option<Many>,
    /// Slices of K of a kernel for many rows.
    slices: usize,
}

impl Plan {
    fn planned(&self) -> Planned {
        let &Self { kernel, rows, slices, many } = self;
        Planned { kernel, rows, slices, is_for_many: many.is_some() }
    }
}

/// A kernel for many rows.
#[derive(Clone, Copy, Debug)]
struct Many {
    /// The tiles of the tensor maps of codes, of 4 and 8 bits, and of x.
    codes: [&'static TmaTile; 2],
    x: &'static TmaTile,
    /// Blocks that run on an SM at the same time, and microseconds of a stage.
    of_sm: u32,
    stage: f64,
}

/// Blocks of a cluster of the kernels for many rows.
const CLUSTER: u32 = 2;
/// Threads of a block of the kernels for many rows.
const THREADS: u32 = 384;
/// The numbers of slices of K that are considered.
const SLICES: [usize; 6] = [1, 2, 3, 4, 6, 8];

/// The kernels for many rows by their rows of x.
const fn many<T: WeightKernels>(codes: Codes) -> [(usize, Many); 2] {
    let (of_sm, stage) = if matches!(codes, Codes::U4) { (2, 0.63) } else { (1, 0.47) };
    [
        (
            64,
            Many {
                codes: [&CopyCodes::<U4, 6>::TILE, &CopyCodes::<u8, 10>::TILE],
                x: &CopyX::<T, 64, 10, CLUSTER>::TILE,
                of_sm,
                stage,
            },
        ),
        (
            256,
            Many {
                codes: [&CopyCodes::<U4, 4>::TILE, &CopyCodes::<u8, 4>::TILE],
                x: &CopyX::<T, 256, 4, CLUSTER>::TILE,
                of_sm: 1,
                stage: 0.757,
            },
        ),
    ]
}

impl Plan {
    /// The tiles of a kernel for many rows.
    fn tiles(&self, problem: &Problem) -> Tiles {
        let Sizes { n, k, .. } = problem.sizes;
        let [n, m, k, rows] = [n, problem.m, k, self.rows].map(|extent| extent as u32);
        Tiles::new((n, m, k), (BLK_M * CLUSTER, rows, BLK_K), 1)
    }

    /// The memory of a kernel for many rows: bytes of gates and ups, and of partial accumulators of
    /// slices, and counters.
    fn work(&self, problem: &Problem) -> [usize; 3] {
        let gates = if problem.gated { (2 * problem.m * problem.sizes.n).next_multiple_of(256) } else { 0 };
        if self.slices == 1 {
            return [gates, 0, 0];
        }
        let tiles = self.tiles(problem);
        let partials = SplitK::partials(tiles, self.slices as u32, BLK_M as usize * self.rows, CLUSTER);
        [gates, 4 * partials, (tiles.count() * CLUSTER) as usize]
    }

    /// Total bytes.
    fn bytes(&self, problem: &Problem) -> usize {
        let [gates, partials, counters] = self.work(problem);
        gates + partials + 4 * counters
    }
}

/// Addresses, and the rows of x and y.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    x: u64,
    codes: u64,
    factors: u64,
    y: u64,
    /// A plan's memory.
    work: u64,
    of_x: Rows,
    of_y: Rows,
    /// Norm, gate and residual.
    finish: Finish,
}

struct Linear<T>(PhantomData<T>);

impl<T: WeightKernels> Operation for Linear<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = LINEAR;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, card: &Rates) -> Vec<Plan> {
        let (Sizes { codes, offset, .. }, norm) = (problem.sizes, problem.norm);
        let by_rows = |shape, of: usize| codes as usize * of + shape;
        // By codes, rows of x, minima (which e4m3 lacks), and norm.
        let kernel = |shape| {
            let place = by_rows(shape, SHAPES.len());
            let before = if codes == Codes::E4m3 { 2 * SHAPES.len() } else { place };
            (place + before + usize::from(offset.is_none())) * 2 + usize::from(norm)
        };
        let few = SHAPES.iter().enumerate().map(|(shape, &rows)| Plan {
            kernel: kernel(shape),
            rows,
            many: None,
            slices: 1,
        });
        let few = few.filter(|plan| plan.rows > 1 || problem.m == 1 && problem.aligned);
        let many = many::<T>(codes);
        let steps = problem.sizes.k.div_ceil(BLK_K as usize);
        let many = many.into_iter().enumerate().flat_map(|(shape, (rows, many))| {
            let kernel = by_rows(shape, 2);
            SLICES.map(|slices| Plan { kernel, rows, many: Some(many), slices })
        });
        let is_sliced = |rows| codes != Codes::E4m3 || is_sliced::<E4m3>(rows);
        let many =
            many.filter(|plan| plan.slices == 1 || 4 * plan.slices <= steps && is_sliced(plan.rows as i64));
        let hopper = card.arch == Arch::new(9, 0) && !norm;
        let named = |plan: &Plan| problem.tile == "auto" || problem.tile.parse() == Ok(plan.rows);
        let is_planned = |plan: &Plan| problem.planned.is_none_or(|planned| planned == plan.planned());
        few.chain(many.filter(|_| hopper)).filter(named).filter(is_planned).collect()
    }

    /// For few rows the instructions of all blocks, each of which unpacks its tiles and multiplies
    /// all of its rows of x, or the steps of a warp, whichever takes longer. For many rows the
    /// stages of all waves, and partial accumulators.
    fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
        let (blocks_of_x, Sizes { n, k, .. }) = (problem.m.div_ceil(plan.rows), problem.sizes);
        match plan.many {
            None => {
                let of_weight = (blocks_of_x * (30 + 2 * plan.rows)) as f64;
                let steps = problem.sizes.steps().div_ceil(warps(plan.rows as i64) as usize);
                let of_step = if plan.rows == 1 { 0.7 } else { 1.2 };
                4.0 + (of_weight * (n * k) as f64 * 3.45e-9).max(of_step * steps as f64)
            }
            Some(many) => {
                let workers = (card.multiprocessors * many.of_sm / CLUSTER).max(1) as usize;
                let tiles = plan.tiles(problem).count() as usize;
                let waves = (tiles * plan.slices).div_ceil(workers);
                let steps = k.div_ceil(BLK_K as usize).div_ceil(plan.slices);
                // The last block of a tile reads the accumulators of all slices.
                let fix_up =
                    if plan.slices == 1 { 0.0 } else { 4.0 + 0.01 * (plan.slices * plan.rows) as f64 };
                2.0 + waves as f64 * (steps as f64 * many.stage + fix_up)
            }
        }
    }

    fn kernel(plan: &Plan) -> &'static str {
        match plan.many {
            None => few::<T>(plan.kernel).name(),
            Some(_) => <T as ManyKernels>::KERNELS[plan.kernel].name(),
        }
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let &Arguments { x, codes, factors, y, work, of_x, of_y, finish } = call;
        let sizes = problem.sizes;
        let weights = sizes.weights(codes, factors);
        let Some(many) = plan.many else {
            let grid = (sizes.tiles().div_ceil(TILES) as u32, problem.m.div_ceil(plan.rows) as u32);
            let (x, y) = (Global::from_address(x), GlobalMut::from_address(y));
            let arguments = (x, y, weights, problem.m as u32, of_x, of_y, finish);
            let kernel = few::<T>(plan.kernel);
            // SAFETY: the call's memory is accessible until the work is complete; the sizes were
            // checked.
            return unsafe {
                on.launch(kernel, Grid::new(grid, 32 * warps(plan.rows as i64)).dependent(), arguments)
            };
        };
        let (m, n, k) = (problem.m, sizes.n, sizes.k);
        // The stride of a mode of one element is not used, but maps must accept it.
        let row =
            |rows: Rows, columns: usize| if m > 1 { rows.row } else { columns.next_multiple_of(8) as i64 };
        let words = (sizes.steps() * 128) as i64;
        let device = on.stream().device();
        let of = |tile: &TmaTile, element, address, shape: [usize; 2], strides: [i64; 2]| {
            let shape = IntTuple::flat(&shape.map(|extent| extent as i64));
            let tensor = Layout::new(shape, IntTuple::flat(&strides));
            let fields = tile.tensor_map(element, address, &tensor).map_err(Error::TensorOfTile)?;
            TensorMap::new(device, &fields)
        };
        let of_codes = many.codes[usize::from(sizes.codes != Codes::U4)];
        let codes = of(of_codes, u32::ELEMENT, codes, [sizes.tiles(), words as usize], [words, 1])?;
        let x = of(many.x, T::ELEMENT, x, [m, k], [row(of_x, k), 1])?;
        let [gates, partials, counters] = plan.work(problem);
        // TMA stores up to the next multiple of 16 bytes past the end of a row.
        let aligned = of_y.aligned
            && n.is_multiple_of(8)
            && (m == 1 || of_y.row >= n as i64 / if finish.gated { 2 } else { 1 });
        let target = Target { y, rows: Rows { aligned, ..of_y }, m: m as u32, n: n as u32, finish };
        // Gates and ups go to a separate matrix, from which the next kernel computes y.
        let product = match finish.gated {
            true => Target {
                y: work,
                rows: Rows { row: n as i64, element: 1, aligned: true },
                finish: Finish { residual: 0, gated: false, ..finish },
                ..target
            },
            false => target,
        };
        let y = match product.rows.aligned {
            true => Some(of(&StoreY::<T>::TILE, T::ELEMENT, product.y, [n, m], [1, row(product.rows, n)])?),
            false => None,
        };
        let y = y.as_ref().map_or(Map::from_words([0; 16]), KernelArg::pass);
        let slices = Slices {
            count: plan.slices as u32,
            partials: GlobalMut::from_address(work + gates as u64),
            counters: GlobalMut::from_address(work + (gates + partials) as u64),
        };
        if counters > 0 {
            let grid = Grid::new((counters as u32).div_ceil(256), 256);
            // SAFETY: the workspace has the counters.
            unsafe { on.launch(&linear_clear, grid, (slices.counters, counters as u32))? };
        }
        let units = plan.tiles(problem).count() * slices.count;
        let clusters = (device.rates().multiprocessors * many.of_sm / CLUSTER).clamp(1, units);
        let grid = Grid::new(clusters * CLUSTER, THREADS).clusters(CLUSTER).dependent();
        let kernel = &<T as ManyKernels>::KERNELS[plan.kernel];
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe { on.launch(kernel, grid, (&codes, &x, y, weights, product, slices))? };
        if finish.gated {
            let grid = Grid::new(((n / 16).div_ceil(256) as u32, (m as u32).min(65_535)), 256);
            // SAFETY: the product in the workspace is complete: this kernel does not overlap.
            unsafe {
                on.launch(&<T as GateKernels>::KERNELS[0], grid, (Global::<T>::from_address(work), target))?
            };
        }
        Ok(())
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

/// The sizes of a product.
fn sizes(call: &Call<'_>) -> Result<Sizes> {
    let k = *call.operand(0).shape.last().expect("checked: x has a mode");
    Sizes::of(LINEAR, [&call.operand(1).ty(), &call.operand(2).ty()], k, call.options)
}

/// Computes a product.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { product(stream, call, None, false) }
}

/// Computes a product by weights that were packed before any work that may still run.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`]; no work that may still run
/// writes codes and factors.
pub unsafe fn run_early(stream: &Stream, call: &Call<'_>) -> Result<()> {
    // SAFETY: as in `run`, and no work that may still run writes codes and factors.
    unsafe { product(stream, call, None, true) }
}

/// Computes a product by activations of 8 bits.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run_8(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [x, scales, codes, factors, y] = [0, 1, 2, 3, 4].map(|index| call.operands[index].clone());
    let operands = [x, codes, factors, None, None, y];
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { product(stream, &Call { operands: &operands, ..*call }, scales.as_ref(), false) }
}

/// Computes a product; codes and factors are loaded while earlier work runs if `early`. Activations
/// with `scales` have 8 bits.
///
/// # Safety
/// Same contract as [`run`], or with `early` as [`run_early`].
unsafe fn product(stream: &Stream, call: &Call<'_>, scales: Option<&Array>, early: bool) -> Result<()> {
    let [x, codes, factors, y] = [0, 1, 2, 5].map(|index| call.operand(index));
    if x.elements() == 0 {
        return Ok(());
    }
    let norm = call.operands[4].as_ref().map_or(0, |norm| norm.address);
    let eps = (call.options.float("eps") as f32).to_bits();
    let (sizes, gated, tile) = (sizes(call)?, call.options.bool("gated"), call.options.choice("tile"));
    let whole = |bytes: usize| bytes.next_multiple_of(256);
    matrices(
        [Some(x), Some(y), call.operands[3].as_ref()],
        &mut |m, [mut x_at, y_at, residual], [mut of_x, of_y, rows]| {
            // Converted rows are in the workspace, and aligned wherever it is.
            let is_aligned = of_x.aligned || scales.is_some();
            let problem =
                Problem { m, sizes, aligned: is_aligned, norm: norm != 0, gated, tile, planned: None };
            of_halves!(LINEAR, y.dtype, T => {
                let plan = operation::plan::<Linear<T>>(stream.device(), &problem)?;
                let (k, row) = (sizes.k, sizes.k.next_multiple_of(8));
                let (strides, address, converted) = match scales {
                    Some(_) => (vec![row as i64, 1], 0, whole(2 * m * row)),
                    None => (vec![of_x.row, of_x.element], x_at, 0),
                };
                let mut matrix = Array { dtype: y.dtype, shape: vec![m, k], strides, address };
                let aligned = if plan.many.is_some() { Aligned::Matrices(&matrix).bytes() } else { 0 };
                let of_plan = if plan.many.is_some() { whole(plan.bytes(&problem)) } else { 0 };
                // Held until everything is launched.
                let work = Workspace::new(stream, of_plan + converted + aligned)?;
                let work_at = work.as_ref().map_or(0, Workspace::address);
                let mut next = work_at + of_plan as u64;
                if let Some(scales) = scales {
                    // SAFETY: the call's arrays are on the stream's device until the work is
                    // complete, and the workspace has room.
                    unsafe { pack::convert::<T>(stream, x_at, scales, next, x.dtype, of_x, [m, k, row])? };
                    (x_at, matrix.address) = (next, next);
                    of_x = Rows { row: row as i64, element: 1, aligned: true };
                    next += converted as u64;
                }
                if plan.many.is_some() {
                    // SAFETY: x is on the stream's device until the work is complete.
                    let aligned = unsafe { Aligned::Matrices(&matrix).rows(LINEAR, stream, &mut next)? };
                    x_at = aligned.address;
                    of_x = Rows { row: aligned.strides[1], element: 1, aligned: true };
                }
                let finish = Finish { residual, rows, norm, eps, gated, early };
                let (codes, factors) = (codes.address, factors.address);
                let arguments = Arguments { x: x_at, codes, factors, y: y_at, work: work_at, of_x, of_y, finish };
                // SAFETY: the call's arrays are on the stream's device until the work is complete.
                let launched = unsafe {
                    // Another plan could need more of the workspace.
                    let problem = Problem { planned: Some(plan.planned()), ..problem };
                    operation::run::<Linear<T>>(stream, &problem, &arguments)
                };
                drop(work);
                launched
            })
        },
    )
}

/// The kernel of a product.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let (x, y) = (call.operand(0), call.operand(5));
    let m = x.elements() / x.shape.last().map_or(1, |&k| k.max(1));
    let (norm, tile) = (call.operands[4].is_some(), call.options.choice("tile"));
    let aligned = x.dtype != y.dtype || rows(x).is_some_and(|rows| rows.aligned);
    let gated = call.options.bool("gated");
    let problem = Problem { m, sizes: sizes(call)?, aligned, norm, gated, tile, planned: None };
    of_halves!(LINEAR, y.dtype, T => {
        Ok(Linear::<T>::kernel(&operation::plan::<Linear<T>>(stream.device(), &problem)?))
    })
}

/// The kernel of a product by activations of 8 bits.
pub fn explain_8(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let [x, codes, factors, y] = [0, 2, 3, 4].map(|index| call.operands[index].clone());
    explain(stream, &Call { operands: &[x, codes, factors, None, None, y], ..*call })
}
