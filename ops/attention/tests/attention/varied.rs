//! The Hopper kernels for variable lengths, pages, splits and packed heads. Random cases of them go
//! through the call, in `tests/host/attention`.

use crate::attention::hopper::*;
use crate::attention::{self as kernels, Arguments, Strides, UNLIMITED};
use crate::case::{Broadcast, Case};
use crate::check::{Kernels, check_by};
use crate::machine::Simulator;
use crate::operands::Operands;
use half::{bf16, f16};
use moye_device::atom::tma::{TmaElement, TmaMap};
use moye_device::kernel::Kernel;
use moye_device::layout;
use moye_sim::GlobalMemory;

/// A kernel's parameters.
pub type Parameters<C> = (
    TmaMap<TmaKeyBox<C>>,
    TmaMap<TmaValueBox<C>>,
    TmaMap<TmaKeyBox<C, SMALL_BOX>>,
    TmaMap<TmaValueBox<C, SMALL_BOX>>,
    Arguments<<C as kernels::TileConfig>::Operand>,
);

/// The element types with kernels for Hopper.
pub trait Varied: Kernels + TmaElement {
    /// Runs a case by the kernel for its head sizes: the kernel for few rows, or for its score
    /// options.
    fn run(
        simulator: &Simulator,
        case: &Case,
        few: bool,
        arguments: &mut Arguments<Self>,
        operands: &Operands<Self>,
    );
}

macro_rules! varied {
    ($($t:ident: $($d:literal x $dv:literal $config:ident $kernel:ident, $few:ident $of_few:ident, $general:ident $all:ident;)+)+) => { $(
        impl Varied for $t {
            fn run(
                simulator: &Simulator,
                case: &Case,
                few: bool,
                arguments: &mut Arguments<Self>,
                operands: &Operands<Self>,
            ) {
                match (case.d, case.dv, few) {
                    $(
                        ($d, $dv, _) if case.changes_scores() => {
                            run::<$general<$t>>(simulator, &kernels::$all, case, u32::MAX, arguments, operands)
                        }
                        ($d, $dv, false) => run::<$config<$t>>(simulator, &kernels::$kernel, case, u32::MAX, arguments, operands),
                        ($d, $dv, true) => run::<$few<$t>>(simulator, &kernels::$of_few, case, u32::MAX, arguments, operands),
                    )+
                    other => panic!("no kernel for heads of {other:?}"),
                }
            }
        }
    )+ };
}
varied! {
    bf16:
        64 x 64 D64Varied hopper_bf16_64_varied, D64Few hopper_bf16_64_few, D64General hopper_bf16_64_general;
        128 x 128 D128Causal hopper_bf16_128_varied, D128Few hopper_bf16_128_few, D128General hopper_bf16_128_general;
        80 x 80 D80General hopper_bf16_80_general, D80General hopper_bf16_80_general, D80General hopper_bf16_80_general;
        96 x 96 D96General hopper_bf16_96_general, D96General hopper_bf16_96_general, D96General hopper_bf16_96_general;
        192 x 192 D192General hopper_bf16_192_general, D192General hopper_bf16_192_general, D192General hopper_bf16_192_general;
        192 x 128 D192x128General hopper_bf16_192x128_general, D192x128General hopper_bf16_192x128_general, D192x128General hopper_bf16_192x128_general;
        256 x 256 D256Varied hopper_bf16_256_varied, D256Few hopper_bf16_256_few, D256General hopper_bf16_256_general;
    f16:
        64 x 64 D64Varied hopper_f16_64_varied, D64Few hopper_f16_64_few, D64General hopper_f16_64_general;
        128 x 128 D128Causal hopper_f16_128_varied, D128Few hopper_f16_128_few, D128General hopper_f16_128_general;
        80 x 80 D80General hopper_f16_80_general, D80General hopper_f16_80_general, D80General hopper_f16_80_general;
        96 x 96 D96General hopper_f16_96_general, D96General hopper_f16_96_general, D96General hopper_f16_96_general;
        192 x 192 D192General hopper_f16_192_general, D192General hopper_f16_192_general, D192General hopper_f16_192_general;
        192 x 128 D192x128General hopper_f16_192x128_general, D192x128General hopper_f16_192x128_general, D192x128General hopper_f16_192x128_general;
        256 x 256 D256Varied hopper_f16_256_varied, D256Few hopper_f16_256_few, D256General hopper_f16_256_general;
}

/// Runs a case by a kernel, with one block per tile or `most` blocks.
pub fn run<C: HopperConfig<Operand: Kernels + TmaElement>>(
    simulator: &Simulator,
    kernel: &Kernel<Parameters<C>>,
    case: &Case,
    most: u32,
    arguments: &mut Arguments<C::Operand>,
    operands: &Operands<C::Operand>,
) {
    let (rows, batches) = match (case.page, operands.k_offsets.last()) {
        (Some(page), _) => (page, operands.pages.len()),
        (_, Some(&rows)) => (rows as usize, 1),
        _ => (case.k_length, case.batches),
    };
    let tensor = |d: i64, strides: &Strides| {
        let Strides { batch, row, head } = *strides;
        let [rows, heads, batches] = [rows, case.kv_heads(), batches].map(|extent| extent as i64);
        layout!((rows, d, heads, batches):(row, 1, head, batch))
    };
    let (of_k, of_v) = (tensor(C::D, &arguments.stride_k), tensor(C::DV, &arguments.stride_v));
    macro_rules! map {
        ($box:ident, $operand:ident, $tensor:ident, $rows:expr) => {
            TmaMap::from_words(
                $box::<C, { $rows }>::tensor_map(arguments.$operand.address(), &$tensor).unwrap().encode(),
            )
        };
    }
    let maps = (
        map!(TmaKeyBox, k, of_k, BOX),
        map!(TmaValueBox, v, of_v, BOX),
        map!(TmaKeyBox, k, of_k, SMALL_BOX),
        map!(TmaValueBox, v, of_v, SMALL_BOX),
    );
    let blocks = arguments.grid(64 * C::WARPGROUPS).min(most);
    let parameters = (maps.0, maps.1, maps.2, maps.3, *arguments);
    // A profile takes several times as long: only short cases have one.
    let done = unsafe {
        if case.k_length <= 64 {
            let profile = kernel.profile(&simulator.0, blocks, C::THREADS, parameters);
            profile.map(|profile| crate::lines::are_of_kernels(&profile))
        } else {
            kernel.simulate(&simulator.0, blocks, C::THREADS, parameters).map(drop)
        }
    };
    done.unwrap_or_else(|fault| panic!("{fault}\n{case:?}"));
}

pub fn check<T: Varied>(case: &Case, few: bool, seed: u64) {
    let simulator = Simulator(GlobalMemory::new());
    check_by::<T, _>(&simulator, case, seed, |arguments, operands| {
        T::run(&simulator, case, few, arguments, operands);
    });
}

/// One or several options, for 70 queries and 140 keys: a tile of 128 and a part of one.
fn with_options(name: &str) -> Case {
    let broadcast = |head, row| Some(Broadcast { batch: true, head, row, transposed: false, padded: true });
    let mut case = Case::new(64, (1, 2, 1), (70, 140));
    match name {
        "softcap, causal" => (case.softcap, case.window) = (3.0, [UNLIMITED, 0]),
        "ALiBi, window" => (case.alibi, case.window) = (true, [30, 5]),
        "bias of each head" => case.bias = broadcast(false, false),
        "bias of each key" => case.bias = broadcast(true, true),
        "mask of each head" => case.mask = broadcast(false, false),
        // A third of the rows sees nothing.
        "mask of each score, window of one key" => {
            (case.mask, case.window) = (broadcast(true, false), [0, 0]);
        }
        _ => {
            (case.softcap, case.alibi) = (20.0, true);
            (case.bias, case.mask) = (broadcast(false, false), broadcast(true, false));
            (case.group, case.pack, case.splits, case.sinks) = (2, true, 2, true);
        }
    }
    // Values that masks and windows hide from some rows: the others are recomputed key by key.
    if name.contains("window") || name.contains("mask") || name.starts_with("all") {
        case.planted = vec![(0, 6, f32::NAN), (0, 133, f32::INFINITY)];
    }
    case
}

#[test]
fn score_options_alone_and_together_are_within_the_rounding_of_the_element_type() {
    for (seed, name) in [
        "softcap, causal",
        "ALiBi, window",
        "bias of each head",
        "bias of each key",
        "mask of each head",
        "mask of each score, window of one key",
        "all at once, of packed heads, with sinks and splits",
    ]
    .into_iter()
    .enumerate()
    {
        check::<bf16>(&with_options(name), false, seed as u64);
    }
    // Fewer rows of more columns.
    let all = |d, dv| Case { d, dv, scale: 0.1, q_length: 20, ..with_options("all") };
    check::<f16>(&all(128, 128), false, 1);
    for (d, dv) in [(80, 80), (96, 96), (192, 192), (192, 128), (256, 256)] {
        check::<bf16>(&all(d, dv), false, 1);
    }
}

#[test]
fn a_chunk_of_a_prompt_is_split_and_its_heads_share_tiles() {
    let mut case = Case::new(128, (1, 4, 2), (70, 600)).causal();
    (case.splits, case.pack) = (3, true);
    check::<bf16>(&case, false, 1);
    check::<f16>(&case, true, 2);
}

/// Whether the kernels for a head size are those for few rows: some have one kernel for both.
fn kernels_of(d: usize) -> &'static [bool] {
    if [64, 128, 256].contains(&d) { &[true, false] } else { &[false] }
}

#[test]
fn pages_of_16_and_32_tokens_are_loaded_by_boxes_of_16_keys() {
    for (d, page) in [(64, 16), (80, 16), (96, 16), (128, 16), (128, 32), (192, 32), (256, 16)] {
        for &few in kernels_of(d) {
            // One sequence has three tiles, the other a box and one key. The rest of a page is NaN,
            // and the rows that it reaches are recomputed, which takes long for many keys of many
            // columns.
            let most = if d == 64 { 333 } else { 333usize.next_multiple_of(page) };
            let mut case = Case::new(d, (2, 2, 2), (20, most)).causal();
            case.page = Some(page);
            case.k_lengths = Some(vec![most, 17]);
            check::<bf16>(&case, few, 3);
        }
    }
}

#[test]
fn keys_of_a_page_that_is_filled_in_part_do_not_come_through() {
    for d in [64, 80, 128, 256] {
        // Many columns of many keys take long, as all rows are recomputed.
        let page = if d == 64 { 256 } else { 128 };
        for &few in kernels_of(d) {
            // The rest of a page after its last key is NaN.
            let mut case = Case::new(d, (1, 1, 1), (20, 51));
            case.page = Some(page);
            check::<bf16>(&case, few, 1);
            case.k_length = page + 44;
            case.splits = 2;
            check::<f16>(&case, few, 1);
        }
    }
}
