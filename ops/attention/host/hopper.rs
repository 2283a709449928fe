//! Attention by TMA and `wgmma`: the kernel for a call, and its launch.

use super::element::AttentionElement;
use super::plan::{Code, Plan, blocks};
use super::problem::Problem;
use super::variant::{HopperLaunch, HopperVariant, KeyTensor};
use crate::PTX;
use crate::kernels;
use crate::kernels::hopper::*;
use crate::kernels::{Arguments, Strides, TileConfig, UNLIMITED, Window};
use half::{bf16, f16};
use moye_device::atom::tma::{TmaElement, TmaMap};
use moye_device::kernel::Kernel;
use moye_device::layout;
use moye_device::layout::Layout;
use moye_runtime::{Grid, MAX_BLOCKS, Rates, Result, Stream, TensorMapOf};
use moye_sim::TensorMap as Fields;

/// The maps of Q, K, V and O, the arguments, and the heads of a section.
type Parameters<C> =
    (TmaMap<TmaQ<C>>, TmaMap<TmaK<C>>, TmaMap<TmaV<C>>, TmaMap<TmaO<C>>, Arguments<Of<C>>, u32);

/// The elements of Q, K and V.
pub type Of<C> = <C as TileConfig>::Operand;

/// The overhead of a tile of keys, in keys: on an H100, tiles of 160 keys beat tiles of 128 from
/// 2048 keys on.
const OVERHEAD: u32 = 20;
/// Queries of a masked sequence below which too much of a 192-row tile is hidden: on an
/// H100, causal heads of 64 have 292 TFLOP/s with 128 rows and 243 with 192 at 1024 tokens, 376 and
/// 407 at 4096.
const SHORT: u32 = 2048;
/// The percentage of L2 that keys and values of a section's heads may take, so that they stay
/// there: 32 of the 50 MiB of an H100.
const L2_SHARE: u64 = 64;

/// The plan for a problem by a kernel for whole tensors; `None` if another kernel must serve it: on
/// another architecture, with an option that changes single scores, sinks, pages or variable
/// lengths, without keys, with tensors that TMA cannot load.
pub fn plan<T: AttentionElement>(problem: &Problem<T>, card: &Rates) -> Option<Plan<T>> {
    let arguments = &problem.arguments;
    let on_device = [arguments.q_offsets, arguments.k_offsets, arguments.k_lengths];
    if !problem.hopper
        || arguments.is_general()
        || arguments.sinks.address() != 0
        || on_device.iter().any(|numbers| numbers.address() != 0)
        || arguments.k_length == 0
    {
        return None;
    }
    fastest(problem, card)
}

/// The plan by the fastest kernel for heads of these sizes; `None` if no kernel takes such heads,
/// or TMA cannot load the tensors.
pub fn fastest<T: AttentionElement>(problem: &Problem<T>, card: &Rates) -> Option<Plan<T>> {
    let &Problem { arguments, sizes, keys, .. } = problem;
    let arguments = Arguments { pack: 1, splits: 1, ..arguments };
    let Window { left, right } = arguments.window;
    let masked = left != UNLIMITED || right != UNLIMITED;
    // The length of all tiles of keys; for a sliding window small tiles are better.
    let cost = |variant: &HopperVariant<T>| {
        let (rows, keys) = variant.tile;
        let length = if left == UNLIMITED {
            u64::from(arguments.k_length.div_ceil(keys)) * u64::from(keys + OVERHEAD)
        } else {
            keys.into()
        };
        (masked && arguments.q_length < SHORT && rows > 128, length)
    };
    let has_lse = arguments.lse.address() != 0;
    let fits = |variant: &&HopperVariant<T>| variant.sizes == sizes && (variant.writes_lse || !has_lse);
    let variant = T::HOPPER.iter().filter(fits).min_by_key(|variant| cost(variant))?;
    (variant.fields)(&arguments, keys)?;
    let tiles = blocks(&arguments, variant.tile.0, 1, 1);
    if tiles > MAX_BLOCKS[0].into() {
        // More than the scheduler counts: the call is refused.
        return Some(Plan {
            code: Code::Hopper(variant),
            pack: 1,
            splits: 1,
            in_last_block: false,
            section: 1,
            blocks: tiles,
        });
    }
    let mut arguments = arguments;
    let blocks = arguments.grid(variant.tile.0).min(card.multiprocessors);
    let l2_bytes = card.l2_bytes / 100 * L2_SHARE;
    let d = (sizes.d + sizes.dv) as u32 / 2;
    // It tries many candidates.
    let section = even_section(&arguments, blocks, variant.tile, d, l2_bytes).max(1);
    Some(Plan {
        code: Code::Hopper(variant),
        pack: 1,
        splits: 1,
        in_last_block: false,
        section,
        blocks: blocks.into(),
    })
}

/// A tensor (row, column, head, sequence).
pub fn layout_of(rows: u32, d: i64, heads: u32, batches: u32, strides: &Strides) -> Layout {
    let [rows, heads, batches] = [rows, heads, batches].map(i64::from);
    layout!((rows, d, heads, batches):({ strides.row }, 1, { strides.head }, { strides.batch }))
}

/// The tensor maps of a call's tensors, if TMA can load and store them.
pub fn fields<C: HopperConfig<Operand: TmaElement, T: TmaElement>>(
    arguments: &Arguments<Of<C>>,
    tensor: KeyTensor,
) -> Option<[Fields; 4]> {
    let &Arguments { q, k, v, o, batches, heads, group, q_length, .. } = arguments;
    let queries = |d, strides| layout_of(q_length, d, heads, batches, strides);
    let keys = |d, strides| layout_of(tensor.rows, d, heads / group, tensor.batches, strides);
    let (of_q, of_o) = (queries(C::D, &arguments.stride_q), queries(C::DV, &arguments.stride_o));
    // Without keys nothing is loaded by their maps, which are those of Q.
    let empty = tensor.rows == 0;
    let (k, of_k) = if empty { (q, of_q) } else { (k, keys(C::D, &arguments.stride_k)) };
    let (v, of_v) = if empty { (q, of_q) } else { (v, keys(C::DV, &arguments.stride_v)) };
    Some([
        TmaQ::<C>::tensor_map(q.address(), &of_q).ok()?,
        TmaK::<C>::tensor_map(k.address(), &of_k).ok()?,
        TmaV::<C>::tensor_map(v.address(), &of_v).ok()?,
        TmaO::<C>::tensor_map(o.address(), &of_o).ok()?,
    ])
}

/// # Safety
/// Same contract as [`HopperVariant::launch`].
unsafe fn launch<C: HopperKernel>(
    stream: &Stream,
    launch: &HopperLaunch,
    arguments: Arguments<Of<C>>,
) -> Result<()> {
    let [q, k, v, o] = &launch.fields;
    let device = stream.device();
    let q = TensorMapOf::<TmaQ<C>>::of_fields(device, q)?;
    let k = TensorMapOf::<TmaK<C>>::of_fields(device, k)?;
    let v = TensorMapOf::<TmaV<C>>::of_fields(device, v)?;
    let o = TensorMapOf::<TmaO<C>>::of_fields(device, o)?;
    let grid = Grid::new(launch.blocks, C::THREADS);
    // SAFETY: the tensors are in the device's memory; the maps belong to them.
    unsafe { PTX.launch(stream, &C::KERNEL, grid, (&q, &k, &v, &o, arguments, launch.section)) }
}

/// A configuration with its kernel.
pub trait HopperKernel: HopperConfig<Operand: TmaElement, T: TmaElement> {
    const KERNEL: Kernel<Parameters<Self>>;
}

const fn variant<C: HopperKernel>() -> HopperVariant<Of<C>> {
    HopperVariant::of::<C>(C::KERNEL.name(), fields::<C>, launch::<C>)
}

macro_rules! variants {
    ($($feature:literal $t:ident $list:ident: $($config:ident $kernel:ident),+;)+) => { $(
        $(#[cfg(feature = $feature)]
        impl HopperKernel for $config<$t> {
            const KERNEL: Kernel<Parameters<Self>> = kernels::$kernel;
        })+

        #[cfg(feature = $feature)]
        /// The kernels of this type, those with the largest tiles of keys first.
        pub const $list: &[HopperVariant<$t>] = &[$(variant::<$config<$t>>()),+];
    )+ };
}
variants! {
    "bf16" bf16 BF16: D64 hopper_bf16_64, D64Causal hopper_bf16_64_causal, D128 hopper_bf16_128, D128Causal hopper_bf16_128_causal,
        D80 hopper_bf16_80, D96 hopper_bf16_96,
        D192 hopper_bf16_192, D192x128 hopper_bf16_192x128, D256 hopper_bf16_256;
    "f16" f16 F16: D64 hopper_f16_64, D64Causal hopper_f16_64_causal, D128 hopper_f16_128, D128Causal hopper_f16_128_causal, D80 hopper_f16_80, D96 hopper_f16_96,
        D192 hopper_f16_192, D192x128 hopper_f16_192x128, D256 hopper_f16_256;
}
