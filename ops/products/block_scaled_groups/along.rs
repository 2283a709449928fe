//! From a call of products along rows to launches.

use super::NAME_K as NAME;
use super::rows::{
    COPY_COLUMNS, COPY_THREADS, Copied, Loop, Operands, Order, ScaledKKernels, block_scaled_k_copy,
};
use crate::block_scaled::kernel::{CopyA, CopyB, Square};
use crate::operand::{self, Ends, Place, Results, Rows};
use moye_device::collective::{Mainloop, SCALED_K};
use moye_device::memory::{Element, Global, GlobalMut};
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
}

/// Bytes of the workspace start at multiples of this.
const ALIGN: usize = 256;

impl Problem {
    /// The K tiles of the copies: each group has one more than its rows need at most.
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

/// An operand and its scales: addresses, strides, columns with one scale, and what is contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct From {
    x: u64,
    of_x: Place,
    scales: u64,
    of_scales: Place,
    columns_of_scale: u32,
    order: Order,
}

/// Products to results `O`.
struct Along<O>(PhantomData<O>);

impl<O: ScaledKKernels + Element> Operation for Along<O> {
    type Problem = Problem;
    type Plan = ();
    type Call = ([From; 2], Ends, Results);
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(_: &Problem, _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn workspace((): &(), problem: &Problem, _: &Self::Call) -> Result<usize> {
        Ok(problem.pieces().iter().sum())
    }

    fn kernel((): &()) -> &'static str {
        O::KERNELS[0].name()
    }

    unsafe fn launch((): &(), problem: &Problem, call: &Self::Call, on: &Launcher<'_>) -> Result<()> {
        let &Problem { m, n, groups: count, rows } = problem;
        let &(operands, ends, c) = call;
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
        let (block_m, block_n, _) = Loop::TILE;
        let tiles = m.div_ceil(block_m) * n.div_ceil(block_n) * count;
        let blocks = on.stream().device().rates().multiprocessors.min(tiles);
        let grid = Grid::new(blocks, Loop::THREADS).dependent();
        let copies = Operands {
            scale_a: Global::from_address(scale_a),
            scale_b: Global::from_address(scale_b),
            m,
            n,
            band: 2048 / block_m,
        };
        // SAFETY: the maps are of the copies, in memory of the device; the caller's contract.
        unsafe { on.launch(&O::KERNELS[0], grid, (&a, &b, c.matrices::<O>(m), copies, groups)) }
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
    if !matches!(dtype, Dtype::Bf16 | Dtype::F32) {
        let detail = format!("dtype is {dtype}, and may be bfloat16 or float32");
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    // Tiles are counted in 32 bits, and K tiles of 128 bytes along y of a grid.
    let tiles = blocks(m) as u64 * blocks(n) as u64 * groups as u64;
    let most = COPY_COLUMNS as usize * 65_535;
    if rows > i32::MAX as usize || m.max(n) > most || tiles > i32::MAX as u64 {
        let detail = format!(
            "{rows} rows of {m} and {n} columns in {groups} groups; columns are {most} at most, and tiles of 128 x 128 {}",
            i32::MAX
        );
        return Err(Error::Unsupported { operation: NAME, detail });
    }
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
    operand::check_hopper(NAME, stream)?;
    let [rows, m] = [a.shape[0], a.shape[1]].map(|extent| extent as u32);
    let problem = Problem { m, n: b.shape[1] as u32, groups: c.shape[0] as u32, rows };
    let ends = Ends { address: ends.address, apart: 0 };
    let arguments = ([from(a, scale_a), from(b, scale_b)], ends, Results::of(c));
    // SAFETY: the arguments are those of the call.
    unsafe {
        if c.dtype == Dtype::F32 {
            operation::run::<Along<f32>>(stream, &problem, &arguments)
        } else {
            operation::run::<Along<half::bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    operand::check_hopper(NAME, stream)?;
    Ok(if call.operand(5).dtype == Dtype::F32 {
        Along::<f32>::kernel(&())
    } else {
        Along::<half::bf16>::kernel(&())
    })
}
