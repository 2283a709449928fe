//! From a declared list of products to a launch.

use super::NAME_PAIRS as NAME;
use super::list::{CopyA, CopyB, FourScales, Loop, PassedScaled, ScaledPairsKernels};
use crate::block_scaled::call::scales;
use crate::grouped::list::{Four, MOST};
use crate::grouped::pairs::{four, listed, passed, shape_of_product, tiles_in_32_bits};
use crate::operand::{self, Rows, Source};
use moye_device::collective::{BlockScales, Mainloop, SCALED_K};
use moye_device::memory::{Element, Global};
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation, Options};
use moye_runtime::{Error, Grid, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// Operands of a product: two matrices, and their scales.
pub(super) const OPERANDS: usize = 4;

/// M, N and K of each product, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Problem([[u32; 3]; MOST]);

/// The address of scales, and their strides of rows, of K and of matrices.
pub(super) type Scales = (u64, [u32; 3]);

/// The scales as kernels take them.
pub(super) fn passed_scales((address, [row, k, batch]): Scales) -> BlockScales {
    BlockScales { scales: Global::from_address(address), row, k, batch }
}

/// The rows and scales of A and B of each product, and the products without them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Arguments {
    operands: [[Rows; 2]; MOST],
    scales: [[Scales; 2]; MOST],
    products: Four,
}

/// The products to results `O`.
struct Pairs<O>(PhantomData<O>);

impl<O: ScaledPairsKernels + Element> Operation for Pairs<O> {
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
        O::KERNELS[0].name()
    }

    unsafe fn launch((): &(), problem: &Problem, call: &Arguments, on: &Launcher<'_>) -> Result<()> {
        let (block_m, block_n, _) = Loop::<PassedScaled>::TILE;
        let tiles = |[m, n, _]: [u32; 3]| u64::from(m.div_ceil(block_m)) * u64::from(n.div_ceil(block_n));
        let tiles = tiles_in_32_bits(NAME, problem.0.map(tiles).iter().sum())?;
        let (count, of) = (call.products.count as usize, [&CopyA::TILE, &CopyB::TILE]);
        let map = |i: usize| match i / 2 < count {
            true => call.operands[i / 2][i % 2].map::<u8>(on.stream(), of[i % 2]).map(Some),
            false => Ok(None),
        };
        let maps = (0..2 * MOST).map(map).collect::<Result<Vec<_>>>()?;
        let [a0, b0, a1, b1, a2, b2, a3, b3] = passed(&maps);
        let scales = call.scales.map(|scales| scales.map(passed_scales));
        let scales = FourScales {
            a0: scales[0][0],
            b0: scales[0][1],
            a1: scales[1][0],
            b1: scales[1][1],
            a2: scales[2][0],
            b2: scales[2][1],
            a3: scales[3][0],
            b3: scales[3][1],
        };
        let blocks = on.stream().device().rates().multiprocessors.min(tiles);
        let grid = Grid::new(blocks, Loop::<PassedScaled>::THREADS).dependent();
        let arguments = (a0, b0, a1, b1, a2, b2, a3, b3, call.products, scales);
        // SAFETY: the maps are of the operands, in memory of the device; the caller's contract.
        unsafe { on.launch(&O::KERNELS[0], grid, arguments) }
    }
}

/// Refuses scales that are not for the blocks of `of`, of 128 elements along K of `rows` rows.
pub(super) fn check_scales(
    operation: &'static str,
    name: &str,
    scales: &[usize],
    of: &[usize],
    rows: usize,
) -> Result<()> {
    let wanted = [of[0].div_ceil(rows), of[1].div_ceil(SCALED_K as usize).max(1)];
    let fits = scales.len() == 2
        && scales.iter().zip(wanted).all(|(&extent, wanted)| extent == wanted || extent == 1);
    if fits {
        return Ok(());
    }
    let detail = format!(
        "{name} has shape {scales:?}, and must have {wanted:?}, of which any extent may be 1 for a scale of all"
    );
    Err(Error::ShapeMismatch { operation, detail })
}

/// Element types and shapes of the results.
pub fn results(inputs: &[Option<ArrayType>], options: &Options) -> Result<Vec<ArrayType>> {
    let dtype = options.dtype("dtype");
    if !matches!(dtype, Dtype::Bf16 | Dtype::F32) {
        let detail = format!("dtype is {dtype}, and may be bfloat16 or float32");
        return Err(Error::Unsupported { operation: NAME, detail });
    }
    let of = |i: usize| {
        let at = |operand: usize| inputs[OPERANDS * i + operand].as_ref();
        let shape = shape_of_product(NAME, i, [at(0), at(1)])?.to_vec();
        for (name, of, scales, rows) in [("a", at(0), at(2), 1), ("b", at(1), at(3), 128)] {
            match (of, scales) {
                (Some(of), Some(scales)) => {
                    check_scales(NAME, &format!("scale_{name}{i}"), &scales.shape, &of.shape, rows)?;
                }
                (None, None) => {}
                _ => {
                    let detail =
                        format!("{name}{i} and scale_{name}{i} belong together: give both, or neither");
                    return Err(Error::ShapeMismatch { operation: NAME, detail });
                }
            }
        }
        Ok(ArrayType { dtype, shape })
    };
    (0..MOST).map(of).collect()
}

/// A product of a call: A, B, their scales, and C.
type Product<'a> = ([&'a Array; OPERANDS], &'a Array);

/// The products of a call that have elements.
fn products<'a>(call: &'a Call<'_>) -> Vec<Product<'a>> {
    let of = |i: usize| {
        let array = |index: usize| call.operands[index].as_ref();
        let c = array(OPERANDS * MOST + i).filter(|c| c.elements() > 0)?;
        let at = |operand: usize| array(OPERANDS * i + operand);
        Some(([at(0)?, at(1)?, at(2)?, at(3)?], c))
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
    let sources: Vec<_> =
        products.iter().flat_map(|([a, b, ..], _)| [a, b].map(|of| Source::Matrices(of))).collect();
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
    let mut of_all = [[(0, [0; 3]); 2]; MOST];
    for (([.., scale_a, scale_b], _), to) in products.iter().zip(&mut of_all) {
        *to = [scales("scale_a", scale_a, false)?, scales("scale_b", scale_b, false)?];
    }
    let extents = |i: usize| all.get(i).map_or([0; 3], |of| [of.m, of.n, of.k]);
    let problem = Problem(std::array::from_fn(extents));
    let arguments = Arguments { operands, scales: of_all, products: four(&all) };
    // SAFETY: the arguments are those of the call.
    unsafe {
        if first.dtype == Dtype::F32 {
            operation::run::<Pairs<f32>>(stream, &problem, &arguments)
        } else {
            operation::run::<Pairs<half::bf16>>(stream, &problem, &arguments)
        }
    }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    operand::check_hopper(NAME, stream)?;
    Ok(if call.options.dtype("dtype") == Dtype::F32 {
        Pairs::<f32>::kernel(&())
    } else {
        Pairs::<half::bf16>::kernel(&())
    })
}
