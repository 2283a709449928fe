//! Attention of 8-bit floats, only by TMA and `wgmma`: supported calls, scale factors, and the
//! launch.

use super::builder::Attention;
use super::element::AttentionElement;
use super::heads::OPERATION;
use super::hopper::fields;
use super::variant::{HopperLaunch, HopperVariant};
use crate::PTX;
use crate::kernels;
use crate::kernels::Arguments;
use crate::kernels::hopper::*;
use moye_device::atom::tma::{TmaElement, TmaMap};
use moye_device::kernel::Kernel;
use moye_device::memory::Global;
use moye_device::number::F8E4M3;
use moye_runtime::{Arch, BufferSlice, Device, Error, Grid, Result, Stream, TensorMapOf};

/// The maps of Q, K, V and O, the arguments, the scale factors, and the heads of a section.
type Parameters<C> =
    (TmaMap<TmaQ<C>>, TmaMap<TmaK<C>>, TmaMap<TmaV<C>>, TmaMap<TmaO<C>>, Arguments<F8E4M3>, Scales, u32);

/// The scale factors of a checked call, or an error with the unsupported option.
pub fn scales<T: AttentionElement>(
    call: &Attention<'_, T>,
    device: &Device,
    arguments: &Arguments<T>,
) -> Result<Scales> {
    let unsupported = |detail: String| Err(Error::Unsupported { operation: OPERATION, detail });
    if device.arch() != Arch::new(9, 0) {
        return unsupported(format!(
            "{} on {}: its kernels are for sm_90 (Hopper); convert the tensors to bf16",
            T::NAME,
            device.arch()
        ));
    }
    let used: Vec<&str> = [
        ("softcap", call.softcap != 0.0),
        ("bias", call.bias.is_some()),
        ("mask", call.mask.is_some()),
        ("alibi", call.slopes.is_some()),
        ("sinks", call.sinks.is_some()),
        ("variable_length", call.offsets.is_some()),
        ("key_lengths", call.key_lengths.is_some()),
        ("pages", call.pages.is_some()),
        ("splits", call.splits.is_some_and(|splits| splits > 1)),
    ]
    .into_iter()
    .filter_map(|(name, used)| used.then_some(name))
    .collect();
    if !used.is_empty() {
        return unsupported(format!(
            "{} with {}: its kernels have masks by causal and window alone; convert the tensors to bf16",
            T::NAME,
            used.join(", ")
        ));
    }
    if arguments.scale <= 0.0 {
        return unsupported(format!(
            "{} with the scale {}: it must be positive; convert the tensors to bf16",
            T::NAME,
            arguments.scale
        ));
    }
    let kv_heads = call.k.shape.extents[1] as u32;
    let [q, k, v] = call.scales.each_ref().map(Option::as_ref);
    Ok(Scales {
        q: scale("q", q, arguments.batches, arguments.heads)?,
        k: scale("k", k, arguments.batches, kv_heads)?,
        v: scale("v", v, arguments.batches, kv_heads)?,
    })
}

/// The error if TMA cannot load the tensors of a call.
pub fn not_by_tma<T: AttentionElement>(call: &Attention<'_, T>) -> Error {
    let strides = [call.q.shape, call.k.shape, call.v.shape].map(|shape| shape.strides);
    let detail = format!(
        "TMA cannot load q, k and v with the strides {strides:?} (batch, head, token) in bytes: they must be below 2^40; \
         copy the tensors to contiguous buffers"
    );
    Error::Unsupported { operation: OPERATION, detail }
}

/// The scale factors of an operand of `heads` heads; 1 without them.
fn scale(name: &str, factors: Option<&BufferSlice<'_, f32>>, batches: u32, heads: u32) -> Result<Scale> {
    let Some(factors) = factors else { return Ok(Scale::NONE) };
    let all = u64::from(batches) * u64::from(heads);
    let (batch, head) = match factors.len() as u64 {
        1 => (0, 0),
        len if len == u64::from(heads) => (0, 1),
        len if len == all => (heads, 1),
        len => {
            let detail = format!(
                "the scales of {name}: {len} factors; give 1, {heads} (one for each head) or {all} (one for each head of each batch)"
            );
            return Err(Error::ShapeMismatch { operation: OPERATION, detail });
        }
    };
    Ok(Scale { factors: Global::from_address(factors.address()), batch, head })
}

/// # Safety
/// Same contract as [`HopperVariant::launch`].
unsafe fn run<C: E4m3Kernel>(
    stream: &Stream,
    launch: &HopperLaunch,
    arguments: Arguments<F8E4M3>,
) -> Result<()> {
    let [q, k, v, o] = &launch.fields;
    let device = stream.device();
    let q = TensorMapOf::<TmaQ<C>>::of_fields(device, q)?;
    let k = TensorMapOf::<TmaK<C>>::of_fields(device, k)?;
    let v = TensorMapOf::<TmaV<C>>::of_fields(device, v)?;
    let o = TensorMapOf::<TmaO<C>>::of_fields(device, o)?;
    let grid = Grid::new(launch.blocks, C::THREADS);
    let parameters = (&q, &k, &v, &o, arguments, launch.scales, launch.section);
    // SAFETY: the tensors are in the device's memory; the maps belong to them.
    unsafe { PTX.launch(stream, &C::KERNEL, grid, parameters) }
}

/// A configuration with its kernel.
pub trait E4m3Kernel: HopperConfig<Operand = F8E4M3, T: TmaElement> {
    const KERNEL: Kernel<Parameters<Self>>;
}

const fn variant<C: E4m3Kernel>() -> HopperVariant<F8E4M3> {
    HopperVariant::of::<C>(C::KERNEL.name(), fields::<C>, run::<C>).writes_lse(!C::SUMS_BY_WGMMA)
}

macro_rules! variants {
    ($($config:ident $kernel:ident),+) => {
        $(impl E4m3Kernel for $config<F8E4M3> {
            const KERNEL: Kernel<Parameters<Self>> = kernels::$kernel;
        })+

        /// The kernels, the faster of two with the same tiles first.
        pub const VARIANTS: &[HopperVariant<F8E4M3>] = &[$(variant::<$config<F8E4M3>>()),+];
    };
}
#[cfg(feature = "e4m3")]
variants! {
    E4m3D64 hopper_e4m3_64, E4m3D64Lse hopper_e4m3_64_lse, E4m3D128 hopper_e4m3_128,
    E4m3D128Causal hopper_e4m3_128_causal, E4m3D128Lse hopper_e4m3_128_lse, E4m3D256 hopper_e4m3_256
}
