//! The Hopper kernels for variable lengths, pages, splits and packed heads.

use crate::attention::hopper_config::*;
use crate::attention::{self as kernels, Arguments, Strides};
use crate::case::{Case, Order};
use crate::check::{Kernels, check_by};
use crate::machine::Simulator;
use crate::operands::Operands;
use crate::random::Random;
use half::{bf16, f16};
use moye_device::atom::tma::{TmaElement, TmaMap};
use moye_device::kernel::Kernel;
use moye_device::layout;
use moye_sim::GlobalMemory;

/// A kernel's parameters.
type Parameters<C> = (
    TmaMap<TmaBox<C>>,
    TmaMap<TmaBox<C>>,
    TmaMap<TmaBox<C, SMALL_BOX>>,
    TmaMap<TmaBox<C, SMALL_BOX>>,
    Arguments<<C as Config>::T>,
);

/// The element types with kernels for Hopper.
trait Varied: Kernels + TmaElement {
    /// Runs a case by the kernel for its head size, or that for few rows.
    fn run(
        simulator: &Simulator,
        case: &Case,
        few: bool,
        arguments: &mut Arguments<Self>,
        operands: &Operands<Self>,
    );
}

macro_rules! varied {
    ($($t:ty: $($d:literal $config:ident $kernel:ident, $few:ident $of_few:ident;)+)+) => { $(
        impl Varied for $t {
            fn run(
                simulator: &Simulator,
                case: &Case,
                few: bool,
                arguments: &mut Arguments<Self>,
                operands: &Operands<Self>,
            ) {
                match (case.d, few) {
                    $(
                        ($d, false) => run::<$config>(simulator, &kernels::$kernel, case, arguments, operands),
                        ($d, true) => run::<$few>(simulator, &kernels::$of_few, case, arguments, operands),
                    )+
                    other => panic!("no kernel for heads of {other:?}"),
                }
            }
        }
    )+ };
}
varied! {
    bf16:
        64 Bf16D64Varied hopper_bf16_64_varied, Bf16D64Few hopper_bf16_64_few;
        128 Bf16D128Causal hopper_bf16_128_varied, Bf16D128Few hopper_bf16_128_few;
        256 Bf16D256Varied hopper_bf16_256_varied, Bf16D256Few hopper_bf16_256_few;
    f16:
        64 F16D64Varied hopper_f16_64_varied, F16D64Few hopper_f16_64_few;
        128 F16D128Causal hopper_f16_128_varied, F16D128Few hopper_f16_128_few;
        256 F16D256Varied hopper_f16_256_varied, F16D256Few hopper_f16_256_few;
}

/// Runs a case by a kernel.
fn run<C: Config<T: Kernels + TmaElement>>(
    simulator: &Simulator,
    kernel: &Kernel<Parameters<C>>,
    case: &Case,
    arguments: &mut Arguments<C::T>,
    operands: &Operands<C::T>,
) {
    let (rows, batches) = match (case.page, operands.k_offsets.last()) {
        (Some(page), _) => (page, operands.pages.len()),
        (_, Some(&rows)) => (rows as usize, 1),
        _ => (case.k_length, case.batches),
    };
    let tensor = |strides: &Strides| {
        let Strides { batch, row, head } = *strides;
        let [rows, heads, batches] = [rows, case.kv_heads(), batches].map(|extent| extent as i64);
        layout!((rows, { C::D }, heads, batches):(row, 1, head, batch))
    };
    let (of_k, of_v) = (tensor(&arguments.stride_k), tensor(&arguments.stride_v));
    macro_rules! map {
        ($operand:ident, $tensor:ident, $rows:expr) => {
            TmaMap::from_words(
                TmaBox::<C, { $rows }>::tensor_map(arguments.$operand.address(), &$tensor).unwrap().encode(),
            )
        };
    }
    let maps = (map!(k, of_k, BOX), map!(v, of_v, BOX), map!(k, of_k, SMALL_BOX), map!(v, of_v, SMALL_BOX));
    let blocks = arguments.grid(64 * C::WARPGROUPS);
    let parameters = (maps.0, maps.1, maps.2, maps.3, *arguments);
    // A profile takes several times as long: short cases have one.
    // SAFETY: the operands of the case.
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

fn check<T: Varied>(case: &Case, few: bool, seed: u64) {
    let simulator = Simulator(GlobalMemory::new());
    check_by::<T, _>(&simulator, case, seed, |arguments, operands| {
        T::run(&simulator, case, few, arguments, operands);
    });
}

/// What these kernels serve, at random: at least one key, and one query token.
fn random_case(random: &mut Random) -> (Case, bool) {
    let few = random.one_in(2);
    let mut case = Case::random(random);
    let d = random.of(&[64, 64, 128, 128, 256]);
    case = Case { d, dv: d, decode: false, softcap: 0.0, alibi: false, bias: None, mask: None, ..case };
    case.scale = 1.0 / (d as f32).sqrt();
    case.q_length = if few { 1 + random.below(20) } else { random.of(&[1, 7, 64, 65, 130, 200]) };
    case.k_length = random.of(&[1, 15, 64, 129, 200, 257, 400]);
    if case.order == Order::Packed {
        case.order = Order::TokenFirst;
    }
    if case.page.is_some() {
        case.page = Some(random.of(&[16, 32, 64, 64, 128, 256]));
    }
    if let Some(lengths) = &mut case.lengths {
        for length in lengths.iter_mut() {
            *length = (random.below(case.q_length + 1), random.below(case.k_length + 1));
        }
        // The tensors have a row each.
        lengths[0] = (lengths[0].0.max(1), lengths[0].1.max(1));
    }
    if let Some(lengths) = &mut case.k_lengths {
        lengths.iter_mut().for_each(|length| *length = random.below(case.k_length + 1));
    }
    for planted in &mut case.planted {
        planted.1 = random.below(case.k_length);
    }
    (case, few)
}

#[test]
fn variable_lengths_pages_splits_and_packed_heads_on_hopper_are_within_the_rounding_of_the_element_type() {
    for seed in 0..24 {
        let (case, few) = random_case(&mut Random::new(seed));
        if seed % 2 == 0 {
            check::<bf16>(&case, few, seed);
        } else {
            check::<f16>(&case, few, seed);
        }
    }
}

#[test]
fn a_chunk_of_a_prompt_is_split_and_its_heads_share_tiles() {
    let mut case = Case::new(128, (1, 4, 2), (70, 600)).causal();
    (case.splits, case.pack) = (3, true);
    check::<bf16>(&case, false, 1);
    check::<f16>(&case, true, 2);
}

#[test]
fn pages_of_16_and_32_tokens_are_loaded_by_boxes_of_16_keys() {
    for (d, page) in [(64, 16), (128, 16), (128, 32), (256, 16)] {
        for few in [true, false] {
            let mut case = Case::new(d, (2, 2, 2), (20, 333)).causal();
            case.page = Some(page);
            case.k_lengths = Some(vec![333, 17]);
            check::<bf16>(&case, few, 3);
        }
    }
}

#[test]
fn keys_of_a_page_that_is_filled_in_part_do_not_come_through() {
    for d in [64, 128, 256] {
        for few in [true, false] {
            // The rest of a page after its last key is NaN.
            let mut case = Case::new(d, (1, 1, 1), (20, 51));
            case.page = Some(256);
            check::<bf16>(&case, few, 1);
            case.k_length = 300;
            case.splits = 2;
            check::<f16>(&case, few, 1);
        }
    }
}
