//! Builds the launch of a declared list of products.

use super::NAME_PAIRS as NAME;
use super::kernels::number;
use super::list::{self, CopyA, CopyB, Loop};
use crate::block_scaled::call::scales;
use crate::grouped::list::MOST;
use crate::grouped::listed::ListKernel;
use crate::grouped::pairs::{Pairs, check_types, multiply, products, shape_of_product};
use crate::launches;
use moye_device::atom::tma::TmaElement;
use moye_device::atom::wgmma::SM90_64x128x32_F32E4M3E4M3_SS_TN;
use moye_device::collective::{Mainloop, SCALED_K};
use moye_runtime::operation::{ArrayType, Call, Dtype, Options};
use moye_runtime::{Error, Result, Stream};

/// Operands of a product: two matrices, and their scales.
const OPERANDS: usize = 4;

macro_rules! kernels {
    ($($kernel:ident),+) => {
        [$(ListKernel {
            kernel: list::$kernel,
            tile: (SIZE.0, SIZE.1),
            threads: Loop::<Atom>::THREADS,
            element: u8::ELEMENT,
            maps: [&CopyA::TILE, &CopyB::TILE],
        }),+]
    };
}
/// The instruction of e4m3: all have its tile.
type Atom = SM90_64x128x32_F32E4M3E4M3_SS_TN;
const SIZE: (u32, u32, u32) = Loop::<Atom>::TILE;

/// The kernels with results of bf16 and of f32 by [`number`], and that of f16.
static KERNELS: [ListKernel; 9] = kernels!(
    block_scaled_list_bf16,
    block_scaled_list_bf16_e4m3_e5m2,
    block_scaled_list_bf16_e5m2_e4m3,
    block_scaled_list_bf16_e5m2_e5m2,
    block_scaled_list_f32,
    block_scaled_list_f32_e4m3_e5m2,
    block_scaled_list_f32_e5m2_e4m3,
    block_scaled_list_f32_e5m2_e5m2,
    block_scaled_list_f16
);

/// The kernel of operands and results of these types.
pub(super) fn kernel_of(
    operation: &'static str,
    operands: [Dtype; 2],
    result: Dtype,
) -> Result<&'static ListKernel> {
    let number = number(operation, operands, result)?;
    Ok(&KERNELS[match result {
        Dtype::Bf16 => number,
        Dtype::F32 => 4 + number,
        _ => 8,
    }])
}

/// Lists of 8-bit floats.
struct Scaled;

impl Pairs for Scaled {
    const NAME: &'static str = NAME;
    const KERNELS: &'static [ListKernel] = &KERNELS;
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
    let at = |i: usize, operand: usize| inputs[OPERANDS * i + operand].as_ref();
    for (operand, name) in ["a", "b"].into_iter().enumerate() {
        let of: [_; MOST] = std::array::from_fn(|i| at(i, operand));
        check_types(NAME, name, &of)?;
    }
    let [a, b] = [0, 1].map(|operand| at(0, operand).expect("checked: it is not optional").dtype);
    kernel_of(NAME, [a, b], dtype)?;
    let of = |i: usize| {
        let shape = shape_of_product(NAME, i, [at(i, 0), at(i, 1)])?.to_vec();
        for (name, of, scales, rows) in [("a", at(i, 0), at(i, 2), 1), ("b", at(i, 1), at(i, 3), 128)] {
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

/// The kernel of a call.
fn kernel(call: &Call<'_>) -> Result<&'static str> {
    let operands = [0, 1].map(|operand| call.operand(operand).dtype);
    Ok(kernel_of(NAME, operands, call.options.dtype("dtype"))?.kernel.name())
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn run(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let products = products(NAME, call, OPERANDS, |given| {
        let of = |name: &str, at: usize| {
            scales(NAME, name, given[at].as_ref().expect("checked: it is given with its operand"), false)
        };
        Ok([of("scale_a", 2)?, of("scale_b", 3)?])
    })?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete.
    unsafe { multiply::<Scaled>(stream, kernel(call)?, &products) }
}

/// The kernel of a call.
pub fn explain(stream: &Stream, call: &Call<'_>) -> Result<&'static str> {
    launches::check_hopper(NAME, stream)?;
    kernel(call)
}
