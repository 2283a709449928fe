//! Builds launches that permute weights to the kernels' order and back, and convert 8-bit
//! activations to f16 and bf16.

use super::activations::{self, ActivationKernels};
use super::call::UNPACK;
use super::codes::Rows;
use super::formats::{self, Floats, Source, UnpackKernels};
use super::kernels::WeightKernels;
use super::sizes::{Codes, Form, Sizes, source_sizes};
use half::{bf16, f16};
use moye_device::memory::{Global, GlobalMut};
use moye_runtime::operation::{Array, Call, Dtype};
use moye_runtime::{Grid, Result, Stream};

/// Permutes weights into the order of the kernels.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn pack(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let types: Vec<_> = call.operands[..3].iter().map(|array| array.as_ref().map(Array::ty)).collect();
    let (form, sizes) = source_sizes(&types, call.options)?;
    let address = |index: usize| call.operands[index].as_ref().map_or(0, |array| array.address);
    let weights = call.operand(0);
    let is = |dtype| call.operands[1].as_ref().is_some_and(|scales| scales.dtype == dtype);
    let source = Source {
        weights: Global::from_address(weights.address),
        scales: Global::from_address(address(1)),
        others: Global::from_address(address(2)),
        floats: Floats { bf16: is(Dtype::Bf16), f32: is(Dtype::F32) },
        row: (weights.shape[1] * weights.dtype.bytes()) as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        group: (sizes.k / sizes.groups) as u32,
    };
    let threads = sizes.tiles() * (sizes.steps() * 32).max(sizes.groups * 8);
    let grid = Grid::new((threads as u32).div_ceil(formats::THREADS), formats::THREADS);
    let codes = GlobalMut::from_address(address(3));
    let arguments = (source, codes, GlobalMut::from_address(address(4)), sizes.offset.is_none());
    let module = stream.device().load(&crate::PTX)?;
    // SAFETY: the call's arrays are on the stream's device until the work is complete; the grid has
    // all codes and factors.
    unsafe { module.launch_on(stream, &form.kernel, grid, arguments) }
}

/// The kernel that packs.
pub fn explain_pack(call: &Call<'_>) -> Result<&'static str> {
    let form = Form::named(call.options.choice("form")).expect("an option of these names");
    Ok(form.kernel.name())
}

/// The weights as floats.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn unpack(stream: &Stream, call: &Call<'_>) -> Result<()> {
    let [codes, factors, out] = [0, 1, 2].map(|index| call.operand(index));
    let sizes = Sizes::of(UNPACK, [&codes.ty(), &factors.ty()], out.shape[1], call.options)?;
    let weights = sizes.weights(codes.address, factors.address);
    let threads = sizes.tiles() * sizes.steps() * 32;
    let grid = Grid::new((threads as u32).div_ceil(formats::THREADS), formats::THREADS);
    let module = stream.device().load(&crate::PTX)?;
    macro_rules! launch {
        ($t:ty) => {{
            let kernel = &<$t as UnpackKernels>::KERNELS[sizes.codes as usize];
            // SAFETY: as in `pack`.
            unsafe {
                module.launch_on(stream, kernel, grid, (weights, GlobalMut::<$t>::from_address(out.address)))
            }
        }};
    }
    if out.dtype == Dtype::F16 { launch!(f16) } else { launch!(bf16) }
}

/// The kernel that unpacks.
pub fn explain_unpack(call: &Call<'_>) -> Result<&'static str> {
    let codes = Codes::of(UNPACK, call.options)? as usize;
    Ok(match call.options.dtype("dtype") {
        Dtype::F16 => <f16 as UnpackKernels>::KERNELS[codes].name(),
        _ => <bf16 as UnpackKernels>::KERNELS[codes].name(),
    })
}

/// Launches the conversion of `m` rows of activations of 8 bits, of elements `x`, to rows of `row`
/// elements at `to`.
///
/// # Safety
/// The activations are readable, with a scale for each row, and there is room.
pub unsafe fn convert<T: WeightKernels>(
    stream: &Stream,
    x: u64,
    scales: &Array,
    to: u64,
    dtype: Dtype,
    of_x: Rows,
    [m, k, row]: [usize; 3],
) -> Result<()> {
    let kernel = &<T as ActivationKernels>::KERNELS[usize::from(dtype == Dtype::E4m3)];
    let [m, k, row] = [m, k, row].map(|extent| extent as u32);
    let threads = activations::THREADS;
    let grid = Grid::new((m * row).div_ceil(threads), threads).dependent();
    let arguments =
        (x, Global::from_address(scales.address), GlobalMut::<T>::from_address(to), m, k, row, of_x);
    // SAFETY: the activations, scales and result are accessible; the grid has all elements.
    unsafe { stream.device().load(&crate::PTX)?.launch_on(stream, kernel, grid, arguments) }
}
