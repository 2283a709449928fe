//! Builds the launches of calls.

use super::kernel::{self as kernels, Extents};
use super::qkv::{HeadsAt, Qkv};
use super::quantised::Scaled8;
use super::residual::{PART, WithResidual};
use crate::grouped::call::{Plan, THREADS, plans};
use crate::grouped::kernel::Grouped;
use crate::launches;
use crate::operand::{self, Mapped, Results, Rows, Source};
use half::{bf16, f16};
use moye_device::atom::tma::TmaElement;
use moye_device::collective::Target;
use moye_device::kernel::{Kernel, KernelParam};
use moye_device::memory::{Element, TensorMap};
use moye_device::number::F8E4M3;
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye_runtime::{Error, Ptx, Rates, Result, Stream};
use std::hash::Hash;
use std::marker::PhantomData;

/// The product with a residual.
pub const RESIDUAL: &str = "linear_residual";
/// Queries, keys and values.
pub const QKV: &str = "linear_qkv";
/// The product to e4m3.
pub const E4M3: &str = "linear_e4m3";

/// The tiles that a caller may name.
pub const TILES: &[&str] = &["auto", "128x256 pairs", "128x128"];

/// A kernel of elements `O` of C and an end `E`.
type FusedKernel<O, E> = Kernel<(TensorMap, TensorMap, TensorMap, Target<O>, E, Extents)>;

/// An end of products of elements `T` with its kernels, by tile.
trait Kernels<T: Grouped>: KernelParam + Eq + Hash {
    type C: Element;
    const NAME: &'static str;
    const KERNELS: [FusedKernel<Self::C, Self>; 2];

    /// The kernel's parameters for `rows` rows of results.
    fn target(results: Results, stream: &Stream, rows: u32) -> Result<(Mapped, Target<Self::C>)>;
}

macro_rules! kernels {
    ($($end:ident, $name:expr, $t:ident to $c:ty: $wide:ident $square:ident, |$results:ident, $stream:ident, $rows:ident| $target:expr;)+) => { $(
        impl Kernels<$t> for $end {
            type C = $c;
            const NAME: &'static str = $name;
            const KERNELS: [FusedKernel<$c, Self>; 2] = [kernels::$wide, kernels::$square];

            fn target($results: Results, $stream: &Stream, $rows: u32) -> Result<(Mapped, Target<$c>)> {
                $target
            }
        }
    )+ };
}
kernels! {
    WithResidual, RESIDUAL, bf16 to bf16: linear_residual_bf16_128x256 linear_residual_bf16_128x128,
        |results, stream, rows| results.target(stream, rows);
    WithResidual, RESIDUAL, f16 to f16: linear_residual_f16_128x256 linear_residual_f16_128x128,
        |results, stream, rows| results.target(stream, rows);
    Qkv, QKV, bf16 to bf16: linear_qkv_bf16_128x256 linear_qkv_bf16_128x128,
        |results, _stream, _rows| Ok(results.plain());
    Qkv, QKV, f16 to f16: linear_qkv_f16_128x256 linear_qkv_f16_128x128,
        |results, _stream, _rows| Ok(results.plain());
    Scaled8, E4M3, bf16 to F8E4M3: linear_e4m3_bf16_128x256 linear_e4m3_bf16_128x128,
        |results, _stream, _rows| Ok(results.plain());
    Scaled8, E4M3, f16 to F8E4M3: linear_e4m3_f16_128x256 linear_e4m3_f16_128x128,
        |results, _stream, _rows| Ok(results.plain());
}

/// Extents, and the tile or "auto".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    tile: &'static str,
}

/// Addresses and strides, and the end.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments<E> {
    a: Rows,
    b: Rows,
    c: Results,
    end: E,
}

/// Products of elements `T` with an end `E`.
struct Fused<T, E>(PhantomData<(T, E)>);

impl<T: Grouped + TmaElement, E: Kernels<T>> Operation for Fused<T, E> {
    type Problem = Problem;
    type Plan = (usize, Plan);
    type Call = Arguments<E>;
    const NAME: &'static str = <E as Kernels<T>>::NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(&Problem { tile, .. }: &Problem, _: &Rates) -> Vec<(usize, Plan)> {
        let [wide, _, square] = plans::<T>();
        let named = |(_, plan): &(usize, Plan)| [plan.name, "auto"].contains(&tile);
        [wide, square].into_iter().enumerate().filter(named).collect()
    }

    fn cost((_, plan): &(usize, Plan), &Problem { m, n, .. }: &Problem, card: &Rates) -> f64 {
        let (rows, columns) = (plan.tile.0 * plan.cluster, plan.tile.1);
        let workers = u64::from((card.multiprocessors / plan.cluster).max(1));
        let waves = launches::tiles(m.div_ceil(rows), n, columns).div_ceil(workers);
        waves as f64 * f64::from(plan.tile.0 * plan.tile.1) / plan.rate
    }

    fn kernel((instance, _): &(usize, Plan)) -> &'static str {
        E::KERNELS[*instance].name()
    }

    unsafe fn launch(
        (instance, plan): &(usize, Plan),
        &Problem { m, n, k, .. }: &Problem,
        &Arguments { a, b, c, end }: &Arguments<E>,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let (a, b) = (a.map::<T>(on.stream(), plan.maps[0])?, b.map::<T>(on.stream(), plan.maps[1])?);
        let (c, target) = E::target(c, on.stream(), m)?;
        let rows = plan.tile.0 * plan.cluster;
        let tiles = launches::tiles(m.div_ceil(rows), n, plan.tile.1);
        let grid = launches::persistent(Self::NAME, on, tiles, plan.cluster, THREADS)?;
        let extents = Extents { m, n, k, band: 2048 / rows };
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe { on.launch(&E::KERNELS[*instance], grid, (&a, &b, c.pass(), target, end, extents)) }
    }
}

fn mismatch<T>(operation: &'static str, detail: String) -> Result<T> {
    Err(Error::ShapeMismatch { operation, detail })
}

/// M, N and K of a and b.
fn extents(operation: &'static str, inputs: &[Option<ArrayType>]) -> Result<[usize; 3]> {
    let [a, b] = [0, 1].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    match (&a.shape[..], &b.shape[..]) {
        (&[m, k], &[n, of_b]) if k == of_b && a.dtype == b.dtype => Ok([m, n, k]),
        _ => mismatch(
            operation,
            format!(
                "a has shape {:?} of {} and b {:?} of {}; they must be (m, k) and (n, k) of one type",
                a.shape, a.dtype, b.shape, b.dtype
            ),
        ),
    }
}

/// Refuses an operand of a different shape.
fn check(operation: &'static str, name: &str, of: Option<&ArrayType>, wanted: &[usize]) -> Result<()> {
    match of {
        Some(array) if array.shape != wanted => {
            mismatch(operation, format!("{name} has shape {:?}, and must have {wanted:?}", array.shape))
        }
        _ => Ok(()),
    }
}

/// The number of sums of squares of a row.
const fn parts(columns: usize) -> usize {
    columns.div_ceil(PART as usize)
}

/// The types of results of a product with a residual.
pub fn with_residual(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [m, n, _] = extents(RESIDUAL, inputs)?;
    let dtype = inputs[0].as_ref().map_or(Dtype::Bf16, |a| a.dtype);
    check(RESIDUAL, "the residual", inputs[2].as_ref(), &[m, n])?;
    if let Some(squares) = &inputs[3]
        && (squares.shape.len() != 2 || squares.shape[0] != m || squares.shape[1] == 0)
    {
        let detail = format!(
            "squares_of_a have shape {:?}, and must have [{m}, parts], whose sum is that of a row's squares",
            squares.shape
        );
        return mismatch(RESIDUAL, detail);
    }
    let result = ArrayType { dtype, shape: vec![m, n] };
    if inputs[2].as_ref().is_some_and(|residual| residual.dtype != dtype) {
        return mismatch(RESIDUAL, format!("the residual must be of {dtype}, the type of a and b"));
    }
    Ok(vec![result, ArrayType { dtype: Dtype::F32, shape: vec![m, parts(n)] }])
}

/// The types of results of a product to e4m3.
pub fn to_e4m3(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [m, n, _] = extents(E4M3, inputs)?;
    Ok(vec![
        ArrayType { dtype: Dtype::E4m3, shape: vec![m, n] },
        ArrayType { dtype: Dtype::F32, shape: vec![m, parts(n)] },
    ])
}

/// Heads of queries, of keys, and the columns of each.
fn heads(n: usize, options: &Options) -> Result<[usize; 3]> {
    let [size, kv] = ["size", "kv_heads"].map(|name| options.int(name));
    let columns = kv.saturating_mul(2).saturating_mul(size);
    if ![32, 64, 128, 256].contains(&size) || kv < 0 || columns > n as i64 || n as i64 % size != 0 {
        let detail = format!(
            "w has {n} rows, with kv_heads {kv} and size {size}; they must be whole heads of 32, 64, 128 or 256 rows: \
             queries, then kv_heads of keys, then kv_heads of values"
        );
        return mismatch(QKV, detail);
    }
    Ok([(n as i64 - columns) / size, kv, size].map(|count| count as usize))
}

/// The types of results of queries, keys and values.
pub fn qkv(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let [m, n, _] = extents(QKV, inputs)?;
    let dtype = inputs[0].as_ref().map_or(Dtype::Bf16, |x| x.dtype);
    let [heads, kv, size] = heads(n, options)?;
    let [slots, page] = ["slots", "page"].map(|name| options.int(name));
    if slots < 0 || page < 0 || slots > i32::MAX.into() || (page > 0 && slots % page != 0) {
        let detail = format!("slots is {slots} and page {page}; slots must be whole pages");
        return mismatch(QKV, detail);
    }
    check(QKV, "slots_of_rows", inputs[2].as_ref(), &[m])?;
    let [positions, cos, sin] = [3, 4, 5].map(|i| inputs[i].as_ref());
    check(QKV, "positions", positions, &[m])?;
    let rows = cos.map_or(0, |cos| cos.shape.first().copied().unwrap_or(0));
    for (name, table) in [("cos", cos), ("sin", sin)] {
        check(QKV, name, table, &[rows, size / 2])?;
    }
    if positions.is_some() != cos.is_some() || positions.is_some() != sin.is_some() {
        return mismatch(QKV, "positions, cos and sin belong together: give all three, or none".to_owned());
    }
    let mut cache = if page > 0 { vec![slots / page, page] } else { vec![slots] };
    cache.extend([kv as i64, size as i64]);
    let cache: Vec<_> = cache.into_iter().map(|extent| extent as usize).collect();
    let of = |shape| ArrayType { dtype, shape };
    Ok(vec![of(vec![m, heads, size]), of(cache.clone()), of(cache)])
}

/// Computes a product with the end that `end` returns; C is operand `c` of the call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`]; the end is of the call's arrays.
unsafe fn product<E: Kernels<bf16> + Kernels<f16>>(
    stream: &Stream,
    call: &Call<'_>,
    tile: &'static str,
    c: Results,
    end: E,
) -> Result<()> {
    let [a, b] = [0, 1].map(|i| call.operand(i));
    launches::check_hopper(<E as Kernels<bf16>>::NAME, stream)?;
    let (operation, sources) = (<E as Kernels<bf16>>::NAME, [a, b].map(Source::Matrices));
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    let (_work, [rows_a, rows_b]) = unsafe { operand::both_aligned(operation, stream, sources)? };
    // K of the call: rows of an aligned copy may be longer, and norms divide by it.
    let k = a.shape[1] as u32;
    let problem = Problem { m: rows_a.shape[1], n: rows_b.shape[1], k, tile };
    let arguments = Arguments { a: rows_a, b: rows_b, c, end };
    // SAFETY: the arguments are those of the call.
    unsafe {
        if a.dtype == Dtype::F16 {
            operation::run::<Fused<f16, E>>(stream, &problem, &arguments)
        } else {
            operation::run::<Fused<bf16, E>>(stream, &problem, &arguments)
        }
    }
}

/// The tile of a product of heads: heads of 256 columns need a tile of 256 columns.
fn tile_of_heads(call: &Call<'_>) -> Result<&'static str> {
    match (call.options.int("size"), call.options.choice("tile")) {
        (256, tile) if tile == TILES[2] => {
            let detail = format!("tile is {tile}, and heads of 256 columns need {}", TILES[1]);
            Err(Error::Unsupported { operation: QKV, detail })
        }
        (256, _) => Ok(TILES[1]),
        (_, tile) => Ok(tile),
    }
}

/// The address of an optional operand, or 0.
fn address(call: &Call<'_>, index: usize) -> u64 {
    call.operands[index].as_ref().map_or(0, |array| array.address)
}

/// Computes a product with a residual.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run_residual(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let out = call.operand(4);
    if out.elements() == 0 {
        return Ok(());
    }
    let residual = call.operands[2].as_ref();
    let of_residual = residual.map_or_else(operand::Place::default, |array| operand::place(array).1);
    let end = WithResidual {
        residual: address(call, 2),
        row: of_residual.row,
        column: of_residual.column,
        squares: address(call, 5),
        of_a: address(call, 3),
        parts: call.operands[3].as_ref().map_or(0, |array| array.shape[1] as u32),
        eps: (call.options.float("eps") as f32).to_bits(),
        pairs: residual.is_some_and(|array| {
            array.address.is_multiple_of(4) && of_residual.column == 1 && of_residual.row % 2 == 0
        }) && out.shape[1].is_multiple_of(2),
    };
    // SAFETY: the end is of the call's arrays.
    unsafe { product(stream, call, call.options.choice("tile"), Results::of(out), end) }
}

/// Computes a product to e4m3.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run_e4m3(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let out = call.operand(2);
    if out.elements() == 0 {
        return Ok(());
    }
    let at = operand::place(call.operand(3)).1;
    let end = Scaled8 { scales: address(call, 3), row: at.row, block: at.column };
    // SAFETY: the end is of the call's arrays.
    unsafe { product(stream, call, call.options.choice("tile"), Results::of(out), end) }
}

/// The memory of heads: of a cache if there are slots.
fn heads_at(array: &Array) -> HeadsAt {
    let modes = array.shape.len();
    let stride = |mode: usize| array.strides[mode];
    let (token, head, element) = (stride(modes - 3), stride(modes - 2), stride(modes - 1));
    let page = if modes == 4 { stride(0) } else { 0 };
    let whole = |stride: i64, mode: usize| array.shape[mode] == 1 || stride % 8 == 0;
    let aligned = array.address.is_multiple_of(16)
        && element == 1
        && whole(token, modes - 3)
        && whole(head, modes - 2)
        && (modes == 3 || whole(page, 0));
    HeadsAt { address: array.address, page, token, head, element, aligned }
}

/// Computes queries, keys and values.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run_qkv(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let (x, w, q, k) = (call.operand(0), call.operand(1), call.operand(6), call.operand(7));
    if x.shape[0] == 0 || w.shape[0] == 0 {
        return Ok(());
    }
    let modes = k.shape.len();
    let tokens = if modes == 4 { k.shape[1] } else { k.shape[0] };
    let end = Qkv {
        q: heads_at(q),
        k: heads_at(k),
        v: heads_at(call.operand(8)),
        positions: address(call, 3),
        cos: address(call, 4),
        sin: address(call, 5),
        rotations: call.operands[4].as_ref().map_or(0, |cos| cos.shape[0] as u32),
        slots_of_rows: address(call, 2),
        slots: k.shape[..modes - 2].iter().product::<usize>() as u32,
        tokens: tokens.max(1) as u32,
        heads: q.shape[1] as u32,
        kv: k.shape[modes - 2] as u32,
        size: q.shape[2] as u32,
        adjacent: call.options.bool("interleaved"),
    };
    // SAFETY: the end is of the call's arrays.
    unsafe { product(stream, call, tile_of_heads(call)?, Results::of(q), end) }
}

/// The kernel of a call with an end `E`.
fn explain<E: Kernels<bf16> + Kernels<f16>>(
    stream: &Stream,
    call: &Call<'_>,
    tile: &'static str,
) -> Result<&'static str> {
    launches::check_hopper(<E as Kernels<bf16>>::NAME, stream)?;
    let [a, b] = [0, 1].map(|i| call.operand(i));
    let k = Source::Matrices(a).columns();
    let [m, n, k] = [a.shape[0], b.shape[0], k].map(|extent| extent as u32);
    let problem = Problem { m, n, k, tile };
    if a.dtype == Dtype::F16 {
        launches::kernel_of::<Fused<f16, E>>(stream, &problem)
    } else {
        launches::kernel_of::<Fused<bf16, E>>(stream, &problem)
    }
}

/// The kernel of a product with a residual.
pub fn explain_residual(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    explain::<WithResidual>(stream, call, call.options.choice("tile"))
}

/// The kernel of a product to e4m3.
pub fn explain_e4m3(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    explain::<Scaled8>(stream, call, call.options.choice("tile"))
}

/// The kernel of queries, keys and values.
pub fn explain_qkv(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    explain::<Qkv>(stream, call, tile_of_heads(call)?)
}
