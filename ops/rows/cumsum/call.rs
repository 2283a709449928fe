//! From a call to launches.

use super::kernel::{
    self, CumsumAcrossKernels, CumsumKernels, CumsumLongKernels, THREADS, THREADS_LONG, cumsum_clear,
};
use crate::groups::Along;
use crate::of_floats;
use crate::place::Place;
use moye::operation::{self, Call, Launcher, Operation, Workspace};
use moye::{Grid, Ptx, Rates, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "cumsum";

/// The longest row of a warp.
const WARP_COLUMNS: u32 = 1024;
/// Chunks of the shortest row that has a block for each.
const LONG: u32 = 4;

/// The rows of a launch, in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    rows: u32,
    groups: u32,
    columns: u32,
    /// Bytes of an element.
    bytes: usize,
    /// Whether rows are contiguous, with starts and a length of multiples of 16 bytes.
    aligned: bool,
    /// Whether elements are contiguous across rows.
    across: bool,
}

/// Who has the elements of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Warp,
    Block,
    /// A block for each chunk.
    Long,
    /// A lane of each warp of a block.
    Lane,
}

impl Plan {
    fn new(problem: &Problem, card: &Rates) -> Self {
        let rows = problem.rows * problem.groups;
        if problem.across {
            Self::Lane
        } else if problem.columns <= WARP_COLUMNS {
            Self::Warp
        } else if problem.chunks() >= LONG && rows <= 2 * card.multiprocessors {
            Self::Long
        } else {
            Self::Block
        }
    }

    /// Words between the launches.
    fn words(self, problem: &Problem) -> usize {
        let rows = problem.rows as usize * problem.groups as usize;
        if self == Self::Long { rows * kernel::words(problem.chunks()) as usize } else { 0 }
    }
}

impl Problem {
    const fn chunks(&self) -> u32 {
        self.columns.div_ceil(kernel::chunk(self.bytes))
    }
}

/// Addresses, strides and scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    addresses: [u64; 2],
    /// The address of the words between the launches.
    states: u64,
    places: [Place; 2],
    exclusive: bool,
}

/// Cumulative sums of elements `T`.
struct Cumsum<T>(PhantomData<T>);

impl<T: CumsumKernels + CumsumLongKernels + CumsumAcrossKernels> Operation for Cumsum<T> {
    type Problem = Problem;
    type Plan = Plan;
    type Call = Arguments;
    const NAME: &'static str = NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, card: &Rates) -> Vec<Plan> {
        vec![Plan::new(problem, card)]
    }

    fn kernel(plan: &Plan) -> &'static str {
        match plan {
            Plan::Warp | Plan::Block => <T as CumsumKernels>::KERNELS[0].name(),
            Plan::Long => <T as CumsumLongKernels>::KERNELS[0].name(),
            Plan::Lane => <T as CumsumAcrossKernels>::KERNELS[0].name(),
        }
    }

    unsafe fn launch(plan: &Plan, problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let Problem { rows, groups, columns, aligned, .. } = *problem;
        let ([x, y], [of_x, of_y], exclusive) = (call.addresses, call.places, call.exclusive);
        let (x, y) = (Global::from_address(x), GlobalMut::from_address(y));
        let states = GlobalMut::from_address(call.states);
        // SAFETY: the arrays hold the rows of the problem, and the workspace the words of long
        // rows.
        unsafe {
            match plan {
                Plan::Warp | Plan::Block => {
                    let by_warp = *plan == Plan::Warp;
                    let blocks = if by_warp { rows.div_ceil(THREADS / 32) } else { rows };
                    let arguments = (x, y, rows, columns, of_x, of_y, by_warp, aligned, exclusive);
                    let grid = Grid::new((blocks, groups), THREADS);
                    on.launch(&<T as CumsumKernels>::KERNELS[0], grid, arguments)
                }
                Plan::Long => {
                    let count = plan.words(problem) as u32;
                    on.launch(&cumsum_clear, Grid::new(count.div_ceil(THREADS), THREADS), (states, count))?;
                    let grid = Grid::new((problem.chunks(), rows, groups), THREADS_LONG);
                    let arguments = (x, y, states, columns, of_x, of_y, aligned, exclusive);
                    on.launch(&<T as CumsumLongKernels>::KERNELS[0], grid, arguments)
                }
                Plan::Lane => {
                    let grid = Grid::new((rows.div_ceil(32), groups), THREADS);
                    let arguments = (x, y, rows, columns, of_x, of_y, exclusive);
                    on.launch(&<T as CumsumAcrossKernels>::KERNELS[0], grid, arguments)
                }
            }
        }
    }
}

/// The rows of a call.
fn problem(call: &Call<'_>) -> Result<(Problem, Arguments)> {
    let arrays = [0, 1].map(|index| call.operand(index));
    let x = arrays[0];
    let axis = x.axis(NAME, call.options.int("axis"))?;
    let Along { rows, groups, columns, places } = Along::new(NAME, arrays, axis)?;
    let vector = 16 / x.dtype.bytes() as i64;
    let aligned = i64::from(columns) % vector == 0
        && places
            .iter()
            .all(|place| place.element == 1 && place.row % vector == 0 && place.group % vector == 0)
        && arrays.iter().all(|array| array.address.is_multiple_of(16));
    let problem = Problem {
        rows,
        groups,
        columns,
        bytes: x.dtype.bytes(),
        aligned,
        across: columns > 1 && rows >= 16 && places[0].element != 1 && places[0].row == 1,
    };
    let (addresses, exclusive) = (arrays.map(|array| array.address), call.options.bool("exclusive"));
    Ok((problem, Arguments { addresses, states: 0, places, exclusive }))
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let x = call.operand(0);
    if x.elements() == 0 {
        return Ok(());
    }
    let (problem, mut arguments) = problem(call)?;
    let words = Plan::new(&problem, &stream.device().rates()).words(&problem);
    // Held until all has been launched.
    let work = Workspace::new(stream, 8 * words)?;
    arguments.states = work.as_ref().map_or(0, Workspace::address);
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { of_floats!(NAME, x.dtype, T => operation::run::<Cumsum<T>>(stream, &problem, &arguments)) }
}

/// The kernel that computes a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    let plan = Plan::new(&problem(call)?.0, &stream.device().rates());
    Ok(of_floats!(NAME, call.operand(0).dtype, T => Cumsum::<T>::kernel(&plan)))
}
