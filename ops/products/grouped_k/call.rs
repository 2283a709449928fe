//! Builds the launches of a call.

use super::kernel::{CopyA, CopyB, GroupedKKernels, Outer, ROWS, TAIL_THREADS, grouped_k_tails};
use crate::launches;
use crate::operand::{Ends, Results, Rows, Source};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::layout::{IntTuple, Layout};
use moye_device::memory::{Global, GlobalMut};
use moye_runtime::operation::{self, ArrayType, Call, Dtype, Launcher, Operation, Workspace};
use moye_runtime::{Error, Grid, Ptx, Rates, Result, Stream, TensorMap};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "grouped_k";

/// A tile of the result, and threads of a block.
const TILE: (u32, u32) = (128, 256);
const THREADS: u32 = 384;

/// Rows of the result of a group, columns, and groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    m: u32,
    n: u32,
    groups: u32,
}

/// Addresses and strides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    /// The rows of A and B.
    operands: [Rows; 2],
    /// The last rows of their groups, in the workspace.
    tails: [Rows; 2],
    ends: Ends,
    c: Results,
}

/// The products of operands `T`.
struct GroupedKOf<T>(PhantomData<T>);

impl<T: Outer + GroupedKKernels + TmaElement> Operation for GroupedKOf<T> {
    type Problem = Problem;
    type Plan = ();
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(_: &Problem, _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn kernel((): &()) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch((): &(), problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let &Problem { m, n, groups: count } = problem;
        let &Arguments { operands, tails, ends, c } = call;
        let groups = ends.groups(count, operands[0].shape[1]);
        for (x, tails) in operands.iter().zip(&tails) {
            let (from, to) = (Global::from_address(x.address), GlobalMut::from_address(tails.address));
            let ([.., columns], padded) = (x.shape, tails.strides[1] as u32);
            let grid = Grid::new((ROWS, count), TAIL_THREADS).dependent();
            // SAFETY: the rows are readable, and the workspace has room for the last ones.
            unsafe { on.launch(&grouped_k_tails, grid, (from, x.strides[1], columns, to, padded, groups))? };
        }
        let map = |rows: &Rows, tile: &TmaTile| map::<T>(on.stream(), rows, tile);
        let (a, b) = (map(&operands[0], &CopyA::<T>::TILE)?, map(&operands[1], &CopyB::<T>::TILE)?);
        let (tails_a, tails_b) = (map(&tails[0], &CopyA::<T>::TILE)?, map(&tails[1], &CopyB::<T>::TILE)?);
        let (c, target) = c.target::<T>(on.stream(), count * m)?;
        let tiles = launches::tiles(u64::from(m.div_ceil(TILE.0)) * u64::from(count), n, TILE.1);
        let grid = launches::persistent(NAME, on, tiles, 1, THREADS)?;
        let band = 2048 / TILE.0;
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe {
            on.launch(
                &T::KERNELS[0],
                grid,
                (&a, &b, &tails_a, &tails_b, c.pass(), target, groups, m, n, band),
            )
        }
    }
}

/// The map of (columns, rows).
fn map<T: TmaElement>(stream: &Stream, rows: &Rows, tile: &TmaTile) -> Result<TensorMap> {
    let ([_, count, columns], [_, row]) = (rows.shape.map(i64::from), rows.strides);
    let tensor = Layout::new(IntTuple::flat(&[columns, count]), IntTuple::flat(&[1, row]));
    let fields = tile.tensor_map(T::ELEMENT, rows.address, &tensor).map_err(Error::TensorOfTile)?;
    TensorMap::new(stream.device(), &fields)
}

/// Element type and shape of the result.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let [a, b, ends] = [0, 1, 2].map(|i| inputs[i].as_ref().expect("checked: it is not optional"));
    let mismatch = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
    if a.dtype != b.dtype {
        return mismatch(format!("a has elements of {}, and b of {}; convert one of them", a.dtype, b.dtype));
    }
    match (&a.shape[..], &b.shape[..], &ends.shape[..]) {
        (&[rows, m], &[others, n], &[groups]) if rows == others => {
            // Last rows are copied by a grid with groups along y, and results are rows of one map.
            let (most_groups, most) = (65_535, i32::MAX as usize);
            if groups > most_groups || groups.saturating_mul(m.max(1)) > most || n > most {
                let detail = format!(
                    "{groups} groups of results of {m} x {n}; groups are {most_groups} at most, and rows of all results \
                     and columns {most}; divide the groups"
                );
                return Err(Error::Unsupported { operation: NAME, detail });
            }
            Ok(vec![ArrayType { dtype: a.dtype, shape: vec![groups, m, n] }])
        }
        _ => mismatch(format!(
            "a has shape {:?}, b {:?} and ends {:?}, and they must be (rows, m), (rows, n) and (groups)",
            a.shape, b.shape, ends.shape
        )),
    }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [a, b, ends, c] = [0, 1, 2, 3].map(|i| call.operand(i));
    if c.elements() == 0 {
        return Ok(());
    }
    launches::check_hopper(NAME, stream)?;
    let groups = c.shape[0];
    let sources = [a, b].map(Source::Groups);
    let tails = [a, b].map(|x| 2 * groups * ROWS as usize * x.shape[1].next_multiple_of(8));
    let aligned: usize = sources.iter().map(|source| source.bytes()).sum();
    // Held until everything is launched.
    let work = Workspace::new(stream, tails.iter().sum::<usize>() + aligned)?;
    let mut next = work.as_ref().map_or(0, |work| work.address());
    let tails = [(a, tails[0]), (b, tails[1])].map(|(x, bytes)| {
        let (rows, columns) = ((groups * ROWS as usize) as i64, x.shape[1]);
        let row = columns.next_multiple_of(8) as i64;
        next += bytes as u64;
        Rows {
            address: next - bytes as u64,
            shape: [1, rows as u32, columns as u32],
            strides: [rows * row, row],
        }
    });
    let mut operands = tails;
    if a.shape[0] > 0 {
        for (rows, source) in operands.iter_mut().zip(sources) {
            // SAFETY: the call's arrays are on the stream's device until the work is complete.
            *rows = unsafe { source.rows(NAME, stream, &mut next)? };
        }
    }
    let ends = Ends { address: ends.address, apart: 0 };
    let problem = Problem { m: c.shape[1] as u32, n: c.shape[2] as u32, groups: groups as u32 };
    let arguments = Arguments { operands, tails, ends, c: Results::of(c) };
    // SAFETY: the arguments are those of the call.
    unsafe {
        if c.dtype == Dtype::F16 {
            operation::run::<GroupedKOf<half::f16>>(stream, &problem, &arguments)
        } else {
            operation::run::<GroupedKOf<half::bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    Ok(if call.operand(0).dtype == Dtype::F16 {
        GroupedKOf::<half::f16>::kernel(&())
    } else {
        GroupedKOf::<half::bf16>::kernel(&())
    })
}
