//! Builds the launches of products along rows.

use super::NAME_K as NAME;
use super::kernels::number;
use super::rows::{self, COPY_COLUMNS, COPY_THREADS, Copied, Loop, Operands, Order, block_scaled_k_copy};
use crate::block_scaled::kernel::{CopyA, CopyB, Square};
use crate::launches;
use crate::operand::{self, Ends, Place, Results, Rows};
use half::{bf16, f16};
use moye_device::atom::wgmma::SM90_64x128x32_F32E4M3E4M3_SS_TN;
use moye_device::collective::{Groups, Mainloop, SCALED_K, Target};
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut, TensorMap};
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye_runtime::{Error, Grid, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// Rows and columns of a result, groups, and rows of all groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    groups: u32,
    rows: u32,
    /// The [`number`] of the operands' types.
    types: usize,
}

/// Bytes of the workspace start at multiples of this.
const ALIGN: usize = 256;

impl Problem {
    /// The K tiles of the copies: each group has at most one more than its rows need.
    const fn tiles(&self) -> u32 {
        self.rows.div_ceil(SCALED_K) + self.groups
    }

    /// Bytes of the copies of both operands, and of their scales.
    fn pieces(&self) -> [usize; 4] {
        let [tiles, m, n] = [self.tiles(), self.m, self.n].map(|extent| extent as usize);
        let (of_k, of_scale) = (tiles * SCALED_K as usize, 4 * tiles);
        [m * of_k, n * of_k, m * of_scale, n * of_scale].map(|bytes| bytes.next_multiple_of(ALIGN))
    }
}

/// An operand and its scales: addresses, strides, columns with one scale, and the contiguous mode.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct From {
    x: u64,
    of_x: Place,
    scales: u64,
    of_scales: Place,
    columns_of_scale: u32,
    order: Order,
}

/// A kernel with results `O`.
type Entry<O> = Kernel<(TensorMap, TensorMap, Target<O>, Operands, Groups)>;

/// A result type.
trait Kernels: Element {
    /// Its kernels by [`number`].
    const KERNELS: &'static [Entry<Self>];
}
macro_rules! kernels {
    ($($t:ty: $($kernel:ident)+;)+) => { $(
        impl Kernels for $t {
            const KERNELS: &'static [Entry<Self>] = &[$(rows::$kernel),+];
        }
    )+ };
}
kernels! {
    bf16: block_scaled_k_bf16 block_scaled_k_bf16_e4m3_e5m2 block_scaled_k_bf16_e5m2_e4m3
        block_scaled_k_bf16_e5m2_e5m2;
    f16: block_scaled_k_f16;
    f32: block_scaled_k_f32 block_scaled_k_f32_e4m3_e5m2 block_scaled_k_f32_e5m2_e4m3 block_scaled_k_f32_e5m2_e5m2;
}

/// The mainloop of e4m3: all types have its tile.
type AnyLoop = Loop<SM90_64x128x32_F32E4M3E4M3_SS_TN>;

/// Addresses and strides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    operands: [From; 2],
    ends: Ends,
    c: Results,
}

/// Products to results `O`.
struct Along<O>(PhantomData<O>);

impl<O: Kernels> Operation for Along<O> {
    type Problem = Problem;
    type Plan = &'static Entry<O>;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<&'static Entry<O>> {
        O::KERNELS.get(problem.types).into_iter().collect()
    }

    fn workspace(_: &&'static Entry<O>, problem: &Problem, _: &Self::Call) -> Result<usize> {
        Ok(problem.pieces().iter().sum())
    }

    fn kernel(kernel: &&'static Entry<O>) -> &'static str {
        kernel.name()
    }

    unsafe fn launch(
        kernel: &&'static Entry<O>,
        problem: &Problem,
        call: &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let &Problem { m, n, groups: count, rows, .. } = problem;
        let &Arguments { operands, ends, c } = call;
        let (groups, padded) = (ends.groups(count, rows), problem.tiles() * SCALED_K);
        let mut next = on.workspace();
        let [copy_a, copy_b, scale_a, scale_b] = problem.pieces().map(|bytes| {
            next += bytes as u64;
            next - bytes as u64
        });
        for (from, columns, to, scales) in
            [(operands[0], m, copy_a, scale_a), (operands[1], n, copy_b, scale_b)]
        {
            let copied = Copied {
                x: Global::from_address(from.x),
                of_x: from.of_x,
                scales: Global::from_address(from.scales),
                of_scales: from.of_scales,
                columns_of_scale: from.columns_of_scale,
                columns,
                order: from.order,
            };
            let grid = Grid::new((problem.tiles(), columns.div_ceil(COPY_COLUMNS)), COPY_THREADS).dependent();
            let (to, scales) = (GlobalMut::from_address(to), GlobalMut::from_address(scales));
            // SAFETY: the operand is readable, and the workspace has room for the copies.
            unsafe { on.launch(&block_scaled_k_copy, grid, (copied, to, scales, padded, groups))? };
        }
        let rows = |address, rows| {
            let whole = i64::from(rows) * i64::from(padded);
            Rows { address, shape: [1, rows, padded], strides: [whole, padded.into()] }
        };
        let a = rows(copy_a, m).map::<u8>(on.stream(), &CopyA::<Square>::TILE)?;
        let b = rows(copy_b, n).map::<u8>(on.stream(), &CopyB::<Square, 1>::TILE)?;
        let (block_m, block_n, _) = AnyLoop::TILE;
        let tiles = launches::tiles(u64::from(m.div_ceil(block_m)) * u64::from(count), n, block_n);
        let grid = launches::persistent(NAME, on, tiles, 1, AnyLoop::THREADS)?;
        let copies = Operands {
            scale_a: Global::from_address(scale_a),
            scale_b: Global::from_address(scale_b),
            m,
            n,
            band: 2048 / block_m,
        };
        // SAFETY: the maps are of the copies, which stay in the workspace until the work is
        // complete.
        unsafe { on.launch(kernel, grid, (&a, &b, c.matrices::<O>(m), copies, groups)) }
    }
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let [a, b, scale_a, scale_b, ends] =
        [0, 1, 2, 3, 4].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    let mismatch = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
    let (rows, m, n, groups) = match (&a.shape[..], &b.shape[..], &ends.shape[..]) {
        (&[rows, m], &[others, n], &[groups]) if rows == others => (rows, m, n, groups),
        _ => {
            return mismatch(format!(
                "a has shape {:?}, b {:?} and ends {:?}, and they must be (rows, m), (rows, n) and (groups)",
                a.shape, b.shape, ends.shape
            ));
        }
    };
    let blocks = |extent: usize| extent.div_ceil(SCALED_K as usize);
    for (name, of, columns) in [("scale_a", scale_a, &[m][..]), ("scale_b", scale_b, &[n, blocks(n)])] {
        let fits = |columns: &&usize| {
            let wanted = [blocks(rows).max(1), **columns];
            of.shape.len() == 2
                && of.shape.iter().zip(wanted).all(|(&extent, wanted)| extent == wanted || extent == 1)
        };
        if !columns.iter().any(|columns| fits(&columns)) {
            let wanted: Vec<_> =
                columns.iter().map(|columns| format!("[{}, {columns}]", blocks(rows))).collect();
            return mismatch(format!(
                "{name} has shape {:?}, and must have {}, of which any extent may be 1 for a scale of all",
                of.shape,
                wanted.join(" or ")
            ));
        }
    }
    let dtype = options.dtype("dtype");
    number(NAME, [a.dtype, b.dtype], dtype)?;
    // The copies have a grid with 128 columns along y, and elements along K that TMA counts.
    let (most_columns, most) = (COPY_COLUMNS as usize * 65_535, i32::MAX as usize);
    let padded = blocks(rows).saturating_add(groups).saturating_mul(SCALED_K as usize);
    if padded > most || m.max(n) > most_columns {
        let detail = format!(
            "{rows} rows of {m} and {n} columns in {groups} groups are copied to rows of {padded} elements; columns are \
             {most_columns} at most, and these elements {most}; divide the groups"
        );
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    launches::tiles_in_32_bits(NAME, (blocks(m) as u64 * blocks(n) as u64).saturating_mul(groups as u64))?;
    Ok(vec![ArrayType { dtype, shape: vec![groups, m, n] }])
}

/// An operand of a call, with its scales.
fn from(x: &Array, scales: &Array) -> From {
    let (([_, rows, columns], mut of_x), ([_, blocks, of_columns], mut at)) =
        (operand::place(x), operand::place(scales));
    // One scale for all.
    if blocks == 1 {
        at.row = 0;
    }
    if of_columns == 1 {
        at.column = 0;
    }
    if rows == 1 {
        of_x.row = 1;
    }
    let whole = |is_one: bool, stride: i64| is_one || stride % 16 == 0;
    let is_aligned = x.address.is_multiple_of(16);
    let along_columns = is_aligned && of_x.row == 1 && whole(columns == 1, of_x.column);
    let along_rows =
        is_aligned && of_x.column == 1 && columns.is_multiple_of(16) && whole(rows == 1, of_x.row);
    // One of them suffices: that by which nothing is exchanged.
    let order = Order { columns: along_columns, rows: along_rows && !along_columns };
    let columns_of_scale = if of_columns == columns { 1 } else { SCALED_K };
    From { x: x.address, of_x, scales: scales.address, of_scales: at, columns_of_scale, order }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [a, b, scale_a, scale_b, ends, c] = [0, 1, 2, 3, 4, 5].map(|i| call.operand(i));
    if c.elements() == 0 {
        return Ok(());
    }
    launches::check_hopper(NAME, stream)?;
    let [rows, m] = [a.shape[0], a.shape[1]].map(|extent| extent as u32);
    let types = number(NAME, [a.dtype, b.dtype], c.dtype)?;
    let problem = Problem { m, n: b.shape[1] as u32, groups: c.shape[0] as u32, rows, types };
    let ends = Ends { address: ends.address, apart: 0 };
    let arguments = Arguments { operands: [from(a, scale_a), from(b, scale_b)], ends, c: Results::of(c) };
    // SAFETY: the arguments are those of the call.
    unsafe {
        match c.dtype {
            Dtype::F32 => operation::run::<Along<f32>>(stream, &problem, &arguments),
            Dtype::F16 => operation::run::<Along<f16>>(stream, &problem, &arguments),
            _ => operation::run::<Along<bf16>>(stream, &problem, &arguments),
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    let [a, b, c] = [0, 1, 5].map(|i| call.operand(i).dtype);
    let types = number(NAME, [a, b], c)?;
    Ok(match c {
        Dtype::F32 => f32::KERNELS[types].name(),
        Dtype::F16 => f16::KERNELS[types].name(),
        _ => bf16::KERNELS[types].name(),
    })
}
