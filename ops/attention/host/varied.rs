//! Variable lengths, pages, splits and packed heads by TMA and `wgmma`: the plan for a problem, and
//! the launch.

use super::element::AttentionElement;
use super::hopper::{Of, layout_of};
use super::model::{HOPPER, Split, splits};
use super::plan::{Code, Plan, Sizes, blocks};
use super::problem::Problem;
use super::variant::{HopperLaunch, HopperVariant, KeyTensor};
use crate::PTX;
use crate::kernels;
use crate::kernels::Arguments;
use crate::kernels::hopper::*;
use half::{bf16, f16};
use moye_device::atom::tma::{TmaElement, TmaMap};
use moye_device::kernel::Kernel;
use moye_runtime::{Grid, Rates, Result, Stream, TensorMapOf};
use moye_sim::TensorMap as Fields;

/// The fixed cost of a tile, in rows.
const OVERHEAD_ROWS: u32 = 64;

/// The maps of K and V, by boxes and by small boxes, and the arguments.
type Parameters<C> = (
    TmaMap<TmaKeyBox<C>>,
    TmaMap<TmaValueBox<C>>,
    TmaMap<TmaKeyBox<C, SMALL_BOX>>,
    TmaMap<TmaValueBox<C, SMALL_BOX>>,
    Arguments<Of<C>>,
);

/// The smallest scale of the kernels that change single scores: they divide by it.
const SMALLEST_SCALE: f32 = 1e-20;

/// The plan for a problem; `None` if the kernels for sm_80 must serve it: another architecture, a
/// scale that is not positive, bias or mask with strides that [`CHUNK`](kernels::CHUNK) does not
/// allow, pages smaller than a TMA box, no keys, tensors that TMA cannot load.
pub fn plan<T: AttentionElement>(problem: &Problem<T>, card: &Rates) -> Option<Plan<T>> {
    let &Problem { ref arguments, sizes, keys, splits: wanted, chunked, hopper } = problem;
    let (variants, smallest) =
        if arguments.changes_scores() { (T::GENERAL, SMALLEST_SCALE) } else { (T::VARIED, 0.0) };
    let paged = arguments.pages.address() != 0;
    if !hopper
        || !chunked
        || arguments.scale < smallest
        || arguments.softcap != 0.0 && arguments.softcap < smallest
        || paged && !arguments.page.is_multiple_of(SMALL_BOX)
        || arguments.k_length == 0
        || keys.rows == 0
        || keys.batches == 0
    {
        return None;
    }
    let tiles = |variant: &HopperVariant<T>, pack| blocks(arguments, variant.tile.0, pack, 1);
    // Heads that share keys share a tile if fewer tiles result.
    let pack = |variant: &HopperVariant<T>| {
        if tiles(variant, arguments.group) < tiles(variant, 1) { arguments.group } else { 1 }
    };
    // The tile with the fewest rows to multiply; of equal ones the larger, which reads keys less
    // often.
    let variant = variants.iter().filter(|variant| variant.sizes == sizes).min_by_key(|variant| {
        let cost = u64::from(variant.tile.0 + OVERHEAD_ROWS);
        (tiles(variant, pack(variant)).saturating_mul(cost), u32::MAX - variant.tile.0)
    })?;
    let pack = pack(variant);
    (variant.fields)(arguments, keys)?;
    let of_split = tiles(variant, pack);
    let splits = wanted.unwrap_or_else(|| {
        let key_tiles = arguments.k_length.div_ceil(variant.tile.1);
        let (rates, tile) = (*card, variant.tile);
        splits(
            &Sizes::of(arguments, sizes),
            &Split { kernel: &HOPPER, shared_bytes: 0, tile, blocks: of_split, key_tiles, rates },
        )
    });
    let blocks = of_split.saturating_mul(splits.into());
    Some(Plan { code: Code::Hopper(variant), pack, splits, in_last_block: false, section: 1, blocks })
}

/// The tensor maps of keys and values, if TMA loads them.
fn fields<C: VariedKernel>(arguments: &Arguments<Of<C>>, keys: KeyTensor) -> Option<[Fields; 4]> {
    let &Arguments { k, v, heads, group, .. } = arguments;
    let tensor = |d, strides| layout_of(keys.rows, d, heads / group, keys.batches, strides);
    let (of_k, of_v) = (tensor(C::D, &arguments.stride_k), tensor(C::DV, &arguments.stride_v));
    Some([
        TmaKeyBox::<C>::tensor_map(k.address(), &of_k).ok()?,
        TmaValueBox::<C>::tensor_map(v.address(), &of_v).ok()?,
        TmaKeyBox::<C, SMALL_BOX>::tensor_map(k.address(), &of_k).ok()?,
        TmaValueBox::<C, SMALL_BOX>::tensor_map(v.address(), &of_v).ok()?,
    ])
}

/// # Safety
/// Same contract as [`HopperVariant::launch`].
unsafe fn launch<C: VariedKernel>(
    stream: &Stream,
    launch: &HopperLaunch,
    arguments: Arguments<Of<C>>,
) -> Result<()> {
    let [k, v, small_k, small_v] = &launch.fields;
    let device = stream.device();
    let k = TensorMapOf::<TmaKeyBox<C>>::of_fields(device, k)?;
    let v = TensorMapOf::<TmaValueBox<C>>::of_fields(device, v)?;
    let small_k = TensorMapOf::<TmaKeyBox<C, SMALL_BOX>>::of_fields(device, small_k)?;
    let small_v = TensorMapOf::<TmaValueBox<C, SMALL_BOX>>::of_fields(device, small_v)?;
    let grid = Grid::new(launch.blocks, C::THREADS);
    // SAFETY: the tensors are in the device's memory; the maps belong to them.
    unsafe { PTX.launch(stream, &C::KERNEL, grid, (&k, &v, &small_k, &small_v, arguments)) }
}

/// A configuration with its kernel.
pub trait VariedKernel: HopperConfig<Operand: TmaElement> {
    const KERNEL: Kernel<Parameters<Self>>;
}

const fn variant<C: VariedKernel>() -> HopperVariant<Of<C>> {
    HopperVariant::of::<C>(C::KERNEL.name(), fields::<C>, launch::<C>)
}

/// The kernels of a type, and those of them that change single scores.
type Kernels<T> = (&'static [HopperVariant<T>], &'static [HopperVariant<T>]);

macro_rules! variants {
    ($($feature:literal $t:ident $list:ident: $($config:ident $kernel:ident),+; both $($both:ident $of_both:ident),+; general $($general:ident $all:ident),+;)+) => { $(
        variants!(@kernels $feature $t: $($config $kernel)+ $($both $of_both)+ $($general $all)+);

        #[cfg(feature = $feature)]
        /// The kernels of this type.
        pub const $list: Kernels<$t> = (
            &[$(variant::<$config<$t>>(),)+ $(variant::<$both<$t>>()),+],
            &[$(variant::<$both<$t>>(),)+ $(variant::<$general<$t>>()),+],
        );
    )+ };
    (@kernels $feature:literal $t:ident: $($config:ident $kernel:ident)+) => {
        $(#[cfg(feature = $feature)]
        impl VariedKernel for $config<$t> {
            const KERNEL: Kernel<Parameters<Self>> = kernels::$kernel;
        })+
    };
}
variants! {
    "bf16" bf16 BF16: D64Varied hopper_bf16_64_varied, D64Few hopper_bf16_64_few, D128Causal hopper_bf16_128_varied,
        D128Few hopper_bf16_128_few, D256Varied hopper_bf16_256_varied, D256Few hopper_bf16_256_few;
        both D80General hopper_bf16_80_general, D96General hopper_bf16_96_general, D192General hopper_bf16_192_general,
            D192x128General hopper_bf16_192x128_general;
        general D64General hopper_bf16_64_general, D128General hopper_bf16_128_general,
            D256General hopper_bf16_256_general;
    "f16" f16 F16: D64Varied hopper_f16_64_varied, D64Few hopper_f16_64_few, D128Causal hopper_f16_128_varied,
        D128Few hopper_f16_128_few, D256Varied hopper_f16_256_varied, D256Few hopper_f16_256_few;
        both D80General hopper_f16_80_general, D96General hopper_f16_96_general, D192General hopper_f16_192_general,
            D192x128General hopper_f16_192x128_general;
        general D64General hopper_f16_64_general, D128General hopper_f16_128_general,
            D256General hopper_f16_256_general;
}
