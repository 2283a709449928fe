//! Builds the launch of a declared list of products.

use super::list::{List, MOST};
use super::listed::{KERNELS, ListKernel, listed, passed};
use crate::launches;
use crate::operand::{self, Rows, ScalesAt, Source};
use moye_runtime::operation::{self, Array, ArrayType, Call, Dtype, Launcher, Operation};
use moye_runtime::{Error, Ptx, Rates, Result, Stream};
use std::marker::PhantomData;

/// The name in messages.
pub const NAME: &str = "grouped_pairs";

/// The kernel's name, and the rows and columns of each result, or zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Problem {
    kernel: &'static str,
    results: [[u32; 2]; MOST],
}

/// The rows of A and B of each product, and the products without them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Arguments {
    operands: [[Rows; 2]; MOST],
    list: List,
}

/// Lists of one operation.
pub(crate) trait Pairs: 'static {
    /// The name in messages.
    const NAME: &'static str;
    /// Its kernels.
    const KERNELS: &'static [ListKernel];
}

/// The operation of lists `P`.
struct PairsOf<P>(PhantomData<P>);

impl<P: Pairs> Operation for PairsOf<P> {
    type Problem = Problem;
    type Plan = &'static ListKernel;
    type Call = Arguments;
    const NAME: &'static str = P::NAME;

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<&'static ListKernel> {
        P::KERNELS.iter().filter(|of| of.kernel.name() == problem.kernel).collect()
    }

    fn kernel(plan: &&'static ListKernel) -> &'static str {
        plan.kernel.name()
    }

    unsafe fn launch(
        plan: &&'static ListKernel,
        problem: &Problem,
        call: &Arguments,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let tiles = problem.results.map(|result| plan.tiles(result)).iter().sum();
        let grid = launches::persistent(P::NAME, on, tiles, 1, plan.threads)?;
        let map = |i: usize| plan.map(on.stream(), &call.operands[i / 2][i % 2], i % 2);
        let maps = (0..2 * call.list.count as usize).map(map).collect::<Result<Vec<_>>>()?;
        let [a0, b0, a1, b1, a2, b2, a3, b3] = passed(&maps);
        // SAFETY: the maps are of the operands, which stay in the device's memory until the work is
        // complete.
        unsafe { on.launch(&plan.kernel, grid, (a0, b0, a1, b1, a2, b2, a3, b3, call.list)) }
    }
}

/// A product of a call.
pub(crate) struct Product<'a> {
    pub operands: [&'a Array; 2],
    pub scales: [ScalesAt; 2],
    pub c: &'a Array,
}

/// The products of a call that have elements, each of `inputs` operands: the first two are A and B,
/// of the others `scales` returns the scales.
pub(crate) fn products<'a>(
    operation: &'static str,
    call: &'a Call<'_>,
    inputs: usize,
    scales: impl Fn(&[Option<Array>]) -> Result<[ScalesAt; 2]>,
) -> Result<Vec<Product<'a>>> {
    let mut products = Vec::new();
    for (i, given) in call.operands[..inputs * MOST].chunks(inputs).enumerate() {
        // Checked: both are given, or neither.
        let [Some(a), Some(b), ..] = given else { continue };
        let Some(c) = &call.operands[inputs * MOST + i] else {
            let detail = format!("a{i} and b{i} are given without out{i}; give it, or leave them out");
            return Err(Error::ShapeMismatch { operation, detail });
        };
        if c.elements() > 0 {
            products.push(Product { operands: [a, b], scales: scales(given)?, c });
        }
    }
    Ok(products)
}

/// Computes products by the kernel of this name.
///
/// # Safety
/// The arrays are in memory of the stream's device until the work is complete, and the kernel takes
/// their types.
pub(crate) unsafe fn multiply<P: Pairs>(
    stream: &Stream,
    kernel: &'static str,
    products: &[Product<'_>],
) -> Result<()> {
    if products.is_empty() {
        return Ok(());
    }
    launches::check_hopper(P::NAME, stream)?;
    let sources: Vec<_> = products.iter().flat_map(|of| of.operands.map(Source::Matrices)).collect();
    // Held until everything is launched.
    // SAFETY: the arrays are on the stream's device until the work is complete.
    let (_work, rows) = unsafe { operand::aligned(P::NAME, stream, &sources)? };
    let operands =
        std::array::from_fn(
            |i| if i < products.len() { [rows[2 * i], rows[2 * i + 1]] } else { [rows[0]; 2] },
        );
    let of = |i: usize| products.get(i).map(|of| listed(of.c, rows[2 * i].shape[2], of.scales));
    let all: [_; MOST] = std::array::from_fn(|i| of(i).unwrap_or_default());
    let [first, second, third, fourth] = all;
    let list = List { table: 0, first, second, third, fourth, count: products.len() as u32 };
    let problem = Problem { kernel, results: all.map(|of| [of.m, of.n]) };
    // SAFETY: the arguments are those of the call.
    unsafe { operation::run::<PairsOf<P>>(stream, &problem, &Arguments { operands, list }) }
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

/// Refuses products whose operand `name` differs in type from the first product's.
pub(crate) fn check_types(operation: &'static str, name: &str, of: &[Option<&ArrayType>]) -> Result<()> {
    let mut types = of.iter().enumerate().filter_map(|(i, of)| Some((i, (*of)?.dtype)));
    let Some((_, first)) = types.next() else { return Ok(()) };
    match types.find(|&(_, dtype)| dtype != first) {
        Some((i, other)) => {
            let detail = format!("{name}0 has elements of {first}, and {name}{i} of {other}; convert them");
            Err(Error::ShapeMismatch { operation, detail })
        }
        None => Ok(()),
    }
}

/// Lists of f16 or bf16.
struct Halves;

impl Pairs for Halves {
    const NAME: &'static str = NAME;
    const KERNELS: &'static [ListKernel] = &KERNELS;
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

/// The kernel of operands of a type.
fn kernel(dtype: Dtype) -> &'static str {
    KERNELS[usize::from(dtype == Dtype::F16)].kernel.name()
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let products = products(NAME, call, 2, |_| Ok(Default::default()))?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { multiply::<Halves>(stream, kernel(call.operand(0).dtype), &products) }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    Ok(kernel(call.operand(0).dtype))
}
