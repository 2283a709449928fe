//! From a call to launches.

use super::kernel::{CumsumKernels, THREADS};
use crate::groups::{self, Mode};
use crate::of_floats;
use crate::place::Place;
use moye::operation::{self, Call, Launcher, Operation};
use moye::{Error, Grid, Ptx, Rates, Result, Stream};
use moye_device::memory::{Global, GlobalMut};
use std::marker::PhantomData;

pub const NAME: &str = "cumsum";

/// The longest row of a warp.
const WARP_COLUMNS: u32 = 1024;

/// The rows of a launch, in groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem {
    rows: u32,
    groups: u32,
    columns: u32,
    /// Whether rows are contiguous, with starts and a length of multiples of 16 bytes.
    aligned: bool,
}

/// Addresses, strides and scalars of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    addresses: [u64; 2],
    places: [Place; 2],
    exclusive: bool,
}

/// Cumulative sums of elements `T`.
struct Cumsum<T>(PhantomData<T>);

impl<T: CumsumKernels> Operation for Cumsum<T> {
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

    fn cost(_: &(), _: &Problem, _: &Rates) -> f64 {
        0.0
    }

    fn kernel(_: &()) -> &'static str {
        T::KERNELS[0].name()
    }

    unsafe fn launch(_: &(), problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let Problem { rows, groups, columns, aligned } = *problem;
        let by_warp = columns <= WARP_COLUMNS;
        let blocks = if by_warp { rows.div_ceil(THREADS / 32) } else { rows };
        let ([x, y], [of_x, of_y]) = (call.addresses, call.places);
        let (x, y) = (Global::from_address(x), GlobalMut::from_address(y));
        let arguments = (x, y, rows, columns, of_x, of_y, by_warp, aligned, call.exclusive);
        // SAFETY: the arrays hold the rows of the problem.
        unsafe { on.launch(&T::KERNELS[0], Grid::new((blocks, groups), THREADS), arguments) }
    }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let arrays = [0, 1].map(|index| call.operand(index));
    let x = arrays[0];
    if x.elements() == 0 {
        return Ok(());
    }
    let axis = x.axis(NAME, call.options.int("axis"))?;
    let others = (0..x.shape.len()).filter(|&mode| mode != axis);
    let modes: Vec<Mode<2>> =
        others.map(|mode| (x.shape[mode], arrays.map(|array| array.strides[mode]))).collect();
    let [groups, rows] = groups::groups_and_rows(NAME, x, groups::joined(modes))?;
    let columns = i32::try_from(x.shape[axis]).map_err(|_| {
        let detail = format!("rows have {} elements, and may have {}; split them", x.shape[axis], i32::MAX);
        Error::Unsupported { operation: NAME, detail }
    })?;
    let places = [0, 1].map(|i| Place {
        group: groups.1[i],
        row: rows.1[i],
        element: if columns > 1 { arrays[i].strides[axis] } else { 1 },
    });
    let vector = 16 / x.dtype.bytes() as i64;
    let aligned = i64::from(columns) % vector == 0
        && places
            .iter()
            .all(|place| place.element == 1 && place.row % vector == 0 && place.group % vector == 0)
        && arrays.iter().all(|array| array.address.is_multiple_of(16));
    let problem = Problem { rows: rows.0, groups: groups.0, columns: columns as u32, aligned };
    let exclusive = call.options.bool("exclusive");
    let arguments = Arguments { addresses: arrays.map(|array| array.address), places, exclusive };
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { of_floats!(NAME, x.dtype, T => operation::run::<Cumsum<T>>(stream, &problem, &arguments)) }
}

/// The kernel that computes a call.
pub fn explain(_: &Stream, call: &Call<'_>) -> Result<&'static str> {
    Ok(of_floats!(NAME, call.operand(0).dtype, T => Cumsum::<T>::kernel(&())))
}
