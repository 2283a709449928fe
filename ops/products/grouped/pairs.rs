//! From a declared list of products to a launch.

use super::kernel::{CopyA, CopyB, Grouped, Wide};
use super::list::{Four, GroupedPairsKernels, Listed, Loop, MOST, Passed};
use crate::operand::{self, Place, Rows, Source};
use half::{bf16, f16};
use moye_device::atom::tma::TmaElement;
use moye_device::collective::Mainloop;
use moye_device::memory::TensorMap as Map;
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation};
use moye_runtime::{Error, Grid, KernelArg, Ptx, Rates, Result, Stream, TensorMap};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "grouped_pairs";

/// M, N and K of each product, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem([[u32; 3]; MOST]);

/// The rows of A and B of each product, and the products without them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    operands: [[Rows; 2]; MOST],
    products: Four,
}

/// The products of elements `T`.
struct Pairs<T>(PhantomData<T>);

impl<T: Grouped + GroupedPairsKernels + TmaElement> Operation for Pairs<T> {
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
        let (block_m, block_n, _) = Loop::<T, Passed>::TILE;
        let tiles = |[m, n, _]: [u32; 3]| u64::from(m.div_ceil(block_m)) * u64::from(n.div_ceil(block_n));
        let tiles = tiles_in_32_bits(NAME, problem.0.map(tiles).iter().sum())?;
        let count = call.products.count as usize;
        let of = [&CopyA::<T, Wide>::TILE, &CopyB::<T, Wide, 1>::TILE];
        let map = |i: usize| match i / 2 < count {
            true => call.operands[i / 2][i % 2].map::<T>(on.stream(), of[i % 2]).map(Some),
            false => Ok(None),
        };
        let maps = (0..2 * MOST).map(map).collect::<Result<Vec<_>>>()?;
        let [a0, b0, a1, b1, a2, b2, a3, b3] = passed(&maps);
        let blocks = on.stream().device().rates().multiprocessors.min(tiles);
        let grid = Grid::new(blocks, Loop::<T, Passed>::THREADS).dependent();
        // SAFETY: the maps are of the operands, in memory of the device; the caller's contract.
        unsafe { on.launch(&T::KERNELS[0], grid, (a0, b0, a1, b1, a2, b2, a3, b3, call.products)) }
    }
}

/// The maps as parameters; a product that the call lacks has zeros as its map.
pub(crate) fn passed<const N: usize>(maps: &[Option<TensorMap>]) -> [Map; N] {
    std::array::from_fn(|i| maps[i].as_ref().map_or(Map::from_words([0; 16]), KernelArg::pass))
}

/// The tiles of a list, which the kernels count in 32 bits.
pub(crate) fn tiles_in_32_bits(operation: &'static str, tiles: u64) -> Result<u32> {
    u32::try_from(tiles).map_err(|_| {
        let detail = format!("the products have {tiles} tiles, and may have {}; divide the list", u32::MAX);
        Error::Unsupported { operation, detail }
    })
}

/// The shape of product `i` of (m, k) and (n, k), or none where neither is given.
pub(crate) fn shape_of_product(
    operation: &'static str,
    i: usize,
    operands: [Option<&ArrayType>; 2],
) -> Result<[usize; 2]> {
    let mismatch = |detail| Err(Error::ShapeMismatch { operation, detail });
    match operands {
        [None, None] => Ok([0, 0]),
        [Some(a), Some(b)] => match (&a.shape[..], &b.shape[..]) {
            (&[m, k], &[n, of_b]) if k == of_b => {
                if [m, n, k].iter().any(|&extent| extent > i32::MAX as usize) {
                    let detail = format!(
                        "a{i} has shape {:?} and b{i} {:?}, and extents are {} at most; divide the product",
                        a.shape,
                        b.shape,
                        i32::MAX
                    );
                    return Err(Error::Unsupported { operation, detail });
                }
                Ok([m, n])
            }
            _ => mismatch(format!(
                "a{i} has shape {:?} and b{i} {:?}, and they must be (m, k) and (n, k)",
                a.shape, b.shape
            )),
        },
        [Some(_), None] => mismatch(format!("a{i} is given without b{i}")),
        [None, Some(_)] => mismatch(format!("b{i} is given without a{i}")),
    }
}

/// A product of the list without its maps: C, and K as the operands' rows have it.
pub(crate) fn listed(c: &Array, k: u32) -> Listed {
    let ([_, m, n], Place { row, column, .. }) = operand::place(c);
    let aligned = u32::from(operand::is_aligned(c));
    Listed { c: c.address, row, column, m: m as u32, n: n as u32, k, aligned }
}

/// Products as a parameter.
pub(crate) fn four(products: &[Listed]) -> Four {
    let of = |i: usize| products.get(i).copied().unwrap_or_default();
    Four { first: of(0), second: of(1), third: of(2), fourth: of(3), count: products.len() as u32 }
}

/// Element types and shapes of the results.
pub fn results(inputs: &[Option<ArrayType>]) -> Result<Vec<ArrayType>> {
    let dtype = inputs[0].as_ref().expect("checked: it is not optional").dtype;
    let of = |i: usize| {
        let operands = [2 * i, 2 * i + 1].map(|index| inputs[index].as_ref());
        let shape = shape_of_product(NAME, i, operands)?.to_vec();
        if let Some(other) = operands.into_iter().flatten().find(|of| of.dtype != dtype) {
            let detail =
                format!("a0 has elements of {dtype}, and product {i} of {}; convert them", other.dtype);
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        Ok(ArrayType { dtype, shape })
    };
    (0..MOST).map(of).collect()
}

/// The products of a call that have elements: the operands and the result of each.
fn products<'a>(call: &'a Call<'_>) -> Vec<([&'a Array; 2], &'a Array)> {
    let of = |i: usize| {
        let array = |index: usize| call.operands[index].as_ref();
        let c = array(2 * MOST + i).filter(|c| c.elements() > 0)?;
        Some(([array(2 * i)?, array(2 * i + 1)?], c))
    };
    (0..MOST).filter_map(of).collect()
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let products = products(call);
    let Some((_, first)) = products.first() else { return Ok(()) };
    operand::check_hopper(NAME, stream)?;
    let sources: Vec<_> = products.iter().flat_map(|(operands, _)| operands.map(Source::Matrices)).collect();
    // Held until all has been launched.
    let work = operand::workspace(stream, &sources)?;
    let mut next = work.as_ref().map_or(0, |work| work.address());
    let mut rows = Vec::with_capacity(sources.len());
    for source in &sources {
        // SAFETY: the call's arrays are on the stream's device until the work is complete.
        rows.push(unsafe { source.rows(stream, &mut next)? });
    }
    let pair = |i: usize| if i < products.len() { [rows[2 * i], rows[2 * i + 1]] } else { [rows[0]; 2] };
    let operands: [[Rows; 2]; MOST] = std::array::from_fn(pair);
    let all: Vec<_> = products.iter().zip(&operands).map(|((_, c), [a, _])| listed(c, a.shape[2])).collect();
    let extents = |i: usize| all.get(i).map_or([0; 3], |of| [of.m, of.n, of.k]);
    let problem = Problem(std::array::from_fn(extents));
    let arguments = Arguments { operands, products: four(&all) };
    // SAFETY: the arguments are those of the call.
    unsafe {
        if first.dtype == Dtype::F16 {
            operation::run::<Pairs<f16>>(stream, &problem, &arguments)
        } else {
            operation::run::<Pairs<bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    operand::check_hopper(NAME, stream)?;
    Ok(if call.operand(0).dtype == Dtype::F16 {
        Pairs::<f16>::kernel(&())
    } else {
        Pairs::<bf16>::kernel(&())
    })
}
