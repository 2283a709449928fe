//! `Matmul` on the simulator and on a GPU if there is one: every element type and precision, every
//! orientation of the three matrices, and every epilogue, compared with float64.

#[path = "../../fixtures/common/mod.rs"]
mod common;

mod activations;
mod batches;
mod case;
mod each_kernel;
mod errors;
mod exact;
mod left_out;
mod parts;
mod ping_pong;
mod scales;
mod shared_tiles;

use case::{Case, Order, Scaled, Tested, check};
use common::matrix::rng;
use common::product::Number;
use common::{devices, in_turn, is_watched};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2};
use moye::{Device, Matmul, Output};
use rstest::rstest;

/// Sets a precision.
type Setup<T, U> = for<'a> fn(Matmul<'a, T, U>) -> Matmul<'a, T, U>;

/// Shapes of single elements, of whole tiles, and of more than whole tiles.
const SHAPES: [(usize, usize, usize); 7] =
    [(1, 1, 1), (2, 3, 5), (64, 64, 64), (17, 40, 33), (130, 70, 9), (65, 129, 100), (1, 90, 130)];

/// Every tile of the kernels of this precision, on every device, for all orientations of the
/// matrices.
fn all_orientations<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        for tile in tiles(&device, setup) {
            for (i, shape) in SHAPES.into_iter().enumerate() {
                for orders in 0..8usize {
                    // Padded by nothing, by a whole access, and by less.
                    let pad = [0, 16, 1][(i + orders) % 3];
                    let order = |bit: usize| {
                        if orders >> bit & 1 == 0 { Order::Rows(pad) } else { Order::Columns(pad) }
                    };
                    // On the simulator, not every shape in every orientation.
                    if !device.is_gpu() && (i + orders) % 3 != 0 {
                        continue;
                    }
                    let case = Case { tile: Some(tile), ..Case::new(shape, [order(0), order(1), order(2)]) };
                    check(&device, &case, bound, orders as u64, setup);
                }
            }
        }
    }
}

/// Products with at least a whole tile of each kernel along M, N and K, and a partial one: the loop
/// over whole tiles, and blocks that move back from the edge, or must not, because rows would be
/// unaligned or C is read.
fn more_than_a_tile<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        for tile in tiles(&device, setup) {
            for (i, orders) in [0b000usize, 0b011, 0b101, 0b110].into_iter().enumerate() {
                let order =
                    |bit: usize| if orders >> bit & 1 == 0 { Order::Rows(16) } else { Order::Columns(16) };
                // A stage holds fewer of the wider elements along K.
                let k = match size_of::<T>() {
                    8 => [144, 117],
                    4 if !device.is_gpu() => [104, 87],
                    4 => [208, 167],
                    _ => [400, 333],
                }[i % 2];
                let shape = if i % 2 == 0 { (304, 272, k) } else { (299, 270, k) };
                // On the simulator one order of each shape is enough.
                if !device.is_gpu() && i > 1 {
                    continue;
                }
                for (turn, beta) in [0.0, 2.0].into_iter().enumerate() {
                    if !in_turn(&device, i + turn, 2) {
                        continue;
                    }
                    let orders = [order(0), order(1), order(2)];
                    let case = Case { tile: Some(tile), splits: Some(1), beta, ..Case::new(shape, orders) };
                    check(&device, &case, bound, i as u64, setup);
                }
            }
        }
    }
}

/// Random products with all options.
fn anything<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        let (cases, most) = if device.is_gpu() { (150, 300) } else { (12, 80) };
        let mut rng = rng(&[cases, most]);
        let tiles = tiles(&device, setup);
        if tiles.is_empty() {
            common::say(&format!("products of {} are skipped on {}, which has none", T::NAME, device.name()));
            continue;
        }
        // A prefix of the same cases if each takes long.
        let cases = if is_watched() { cases / 4 } else { cases };
        for seed in 0..cases as u64 {
            let mut case = Case::any::<T>(&mut rng, most);
            // The default choice, and each tile in turn; each_kernel.rs covers every kernel.
            case.tile = tiles.get(seed as usize % (tiles.len() + 1)).copied();
            check(&device, &case, bound, seed, setup);
        }
    }
}

/// The answer of a product without a size about its kernels.
fn asked<T: Scaled + Number, U: Output<T> + Number, R>(
    setup: Setup<T, U>,
    device: &Device,
    ask: impl FnOnce(&Matmul<'_, T, U>, &Device) -> R,
) -> R {
    let nothing = device.alloc_zeroed::<T>(1).unwrap();
    let matrix = || moye::Matrix::row_major(&nothing, 1, 1).unwrap();
    ask(&setup(Matmul::new(matrix(), matrix())), device)
}

fn tiles<T: Scaled + Number, U: Output<T> + Number>(device: &Device, setup: Setup<T, U>) -> Vec<(u32, u32)> {
    asked(setup, device, |product, device| product.tiles(device))
}

macro_rules! types {
    ($($name:ident: $t:ty => $u:ty, $bound:expr, $setup:expr;)+) => { $(
        mod $name {
            use super::*;

            #[test]
            fn is_the_product_in_all_orientations() {
                all_orientations::<$t, $u>($bound, $setup);
            }

            #[test]
            fn is_the_product_of_more_than_a_tile() {
                more_than_a_tile::<$t, $u>($bound, $setup);
            }

            #[test]
            fn is_the_product_whatever_is_asked_of_it() {
                anything::<$t, $u>($bound, $setup);
            }
        }
    )+ };
}
types! {
    half_f16: f16 => f16, 5e-4, |product| product;
    half_f16_to_f32: f16 => f32, 2e-6, |product| product;
    // Accumulators of 11 bits, rounded at each step of 16 along K.
    half_f16_accumulators: f16 => f16, 2e-2, |product| product.f16_accumulators();
    half_bf16: bf16 => bf16, 4e-3, |product| product;
    half_bf16_to_f32: bf16 => f32, 2e-6, |product| product;
    single: f32 => f32, 2e-6, |product| product;
    single_tf32: f32 => f32, 2e-6, |product| product.tf32();
    double: f64 => f64, 1e-14, |product| product;
    bytes: i8 => i32, 0.0, |product| product;
    float8_e4m3: F8E4M3 => bf16, 4e-3, |product| product;
    float8_e4m3_to_f32: F8E4M3 => f32, 2e-6, |product| product;
    float8_e5m2: F8E5M2 => bf16, 4e-3, |product| product;
    float8_e5m2_to_f32: F8E5M2 => f32, 2e-6, |product| product;
}

#[rstest]
fn nothing_to_add_up_leaves_what_is_asked_of_the_sums(#[values(0, 5)] m: usize, #[values(0, 7)] n: usize) {
    for device in devices() {
        let orders = [Order::Rows(0), Order::Rows(0), Order::Columns(1)];
        for (beta, bias) in [(0.0, None), (2.0, Some(true))] {
            let case = Case { beta, bias, ..Case::new((m, n, 0), orders) };
            check::<f32, f32>(&device, &case, 1e-6, 0, |product| product);
            check::<f16, f16>(&device, &case, 5e-4, 0, |product| product);
        }
    }
}

/// A stage of 64 along K issues only the instructions of 16 that reach into K, in the first stage
/// of a tile and in a later one, and if the other slice of K ends with a whole stage.
#[rstest]
fn a_stage_that_k_ends_in_is_multiplied_as_far_as_k_goes(
    #[values(1, 16, 17, 32, 33, 48, 49, 64)] rest: usize,
    #[values((0, 1), (64, 1), (64, 2))] (before, splits): (usize, u32),
) {
    // One for each way to iterate over tiles and their stages.
    const KERNELS: [(&str, Option<&str>); 6] = [
        ("wgmma_f16_tn", Some("wgmma_bf16_tn")),
        ("wgmma_f16_nt", Some("wgmma_bf16_nt")),
        ("wgmma_f16_tn_alone", Some("wgmma_bf16_tn_alone")),
        ("wgmma_f16_tn_256x128", Some("wgmma_bf16_tn_256x128")),
        ("wgmma_f16_tn_128x192", None),
        ("wgmma_f16_tn_128x128", Some("wgmma_bf16_tn_128x128")),
    ];
    for device in devices().into_iter().filter(shared_tiles::has_wgmma) {
        for (of_f16, of_bf16) in KERNELS {
            let (m, n, k) = (72, 88, before + rest);
            let end = k.next_multiple_of(16) - k;
            let orders = if of_f16.ends_with("_nt") {
                [Order::Columns(0), Order::Rows(0), Order::Rows(0)]
            } else {
                [Order::Rows(end), Order::Columns(end), Order::Rows(0)]
            };
            let case =
                |kernel| Case { splits: Some(splits), kernel: Some(kernel), ..Case::new((m, n, k), orders) };
            check::<f16, f16>(&device, &case(of_f16), 5e-4, rest as u64, |product| product);
            if let Some(of_bf16) = of_bf16 {
                check::<bf16, f32>(&device, &case(of_bf16), 2e-6, rest as u64, |product| product);
            }
        }
    }
}

/// Rows that start at multiples of 16 bytes and end within: the gap between them is neither
/// accumulated nor written.
fn ends_within_a_piece<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        for tile in tiles(&device, setup) {
            for orders in 0..8usize {
                // Rows of 112 elements, of which 99 to 107 are used.
                let extents = [(99, 107), (107, 101), (99, 101)];
                let order = |i: usize| {
                    let (rows, columns) = extents[i];
                    if orders >> i & 1 == 0 { Order::Rows(112 - columns) } else { Order::Columns(112 - rows) }
                };
                let case =
                    Case { tile: Some(tile), ..Case::new((99, 101, 107), [order(0), order(1), order(2)]) };
                check(&device, &case, bound, orders as u64, setup);
            }
        }
    }
}

#[test]
fn rows_that_end_within_sixteen_bytes() {
    ends_within_a_piece::<f16, f16>(5e-4, |product| product);
    ends_within_a_piece::<bf16, f32>(2e-6, |product| product);
    ends_within_a_piece::<f32, f32>(2e-6, |product| product.tf32());
    ends_within_a_piece::<i8, i32>(0.0, |product| product);
    ends_within_a_piece::<F8E4M3, bf16>(4e-3, |product| product);
}

/// Unaligned rows of C, more than a tile of them, each longer than the part that passes through
/// shared memory at a time: the elements between them are unchanged.
fn c_begins_anywhere<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        for tile in tiles(&device, setup) {
            // Elements before C and between its rows: all rows, or every second one, start in the
            // middle of a word of two elements.
            for (i, (front, between)) in [(1, 1), (2, 6)].into_iter().enumerate() {
                for order in [Order::Rows(between), Order::Columns(between)] {
                    // 67 rows; the last tile, or the second half of one, has a single column.
                    let long = [257, 129][i];
                    let shape = if order == Order::Rows(between) { (67, long, 48) } else { (long, 67, 48) };
                    let case = Case {
                        tile: Some(tile),
                        offsets: [0, 0, front],
                        alpha: 2.0,
                        batches: 1 + i,
                        ..Case::new(shape, [Order::Rows(0), Order::Columns(0), order])
                    };
                    check(&device, &case, bound, i as u64, setup);
                }
            }
        }
    }
}

#[test]
fn rows_of_c_that_begin_anywhere() {
    c_begins_anywhere::<f16, f16>(5e-4, |product| product);
    c_begins_anywhere::<bf16, f32>(2e-6, |product| product);
    c_begins_anywhere::<f32, f32>(2e-6, |product| product.tf32());
    c_begins_anywhere::<i8, i32>(0.0, |product| product);
    c_begins_anywhere::<F8E4M3, bf16>(4e-3, |product| product);
}

/// Rows at any byte address are copied to addresses of 16-byte words: shorter than a word, whole
/// words and a rest, and more than a warp copies at a time.
#[test]
fn operands_whose_rows_begin_at_any_byte() {
    for device in devices() {
        for front in 0..16 {
            for (turn, k) in [1, 15, 16, 31, 33, 47, 2047, 2048, 2049, 4100].into_iter().enumerate() {
                if !in_turn(&device, front + turn, 4) {
                    continue;
                }
                // From row to row the start advances by 1 to 3 bytes, so that nine rows cover most
                // offsets.
                let between = 16 - k % 16 + 1 + front % 3;
                let case = Case {
                    offsets: [front, (5 * front) % 16, 0],
                    batches: 1 + front % 2,
                    ..Case::new((9, 17, k), [Order::Rows(between), Order::Columns(between), Order::Rows(0)])
                };
                check::<i8, i32>(&device, &case, 0.0, front as u64, |product| product);
            }
            let case = Case {
                offsets: [front, 0, 0],
                ..Case::new((9, 17, 1027), [Order::Rows(front % 5), Order::Columns(2), Order::Rows(0)])
            };
            // On the simulator, the types in turn.
            if in_turn(&device, front, 3) {
                check::<f16, f16>(&device, &case, 5e-4, front as u64, |product| product);
            }
            if in_turn(&device, front + 1, 3) {
                check::<f32, f32>(&device, &case, 2e-6, front as u64, |product| product.tf32());
            }
            if in_turn(&device, front + 2, 3) {
                check::<f64, f64>(&device, &case, 1e-14, front as u64, |product| product);
            }
        }
    }
}

#[test]
fn a_long_k_is_cut_and_added_up() {
    for device in devices() {
        let k = if device.is_gpu() && !is_watched() { 100_003 } else { 1201 };
        for splits in [None, Some(1), Some(7), Some(32)] {
            let case = Case {
                splits,
                ..Case::new((33, 20, k), [Order::Rows(5), Order::Columns(5), Order::Rows(0)])
            };
            // Tensor cores truncate accumulators, 6,000 times in a row.
            let bound = if device.is_gpu() { 3e-4 } else { 4e-6 };
            check::<f16, f32>(&device, &case, bound, 1, |product| product);
            check::<i8, i32>(&device, &case, 0.0, 1, |product| product);
        }
        // The other precisions as they are planned.
        let case = Case::new((33, 20, k), [Order::Rows(5), Order::Columns(5), Order::Rows(0)]);
        let gpu = |bound: f64, otherwise: f64| if device.is_gpu() { bound } else { otherwise };
        check::<f16, f16>(&device, &case, gpu(8e-4, 5e-4), 2, |product| product);
        check::<f16, f16>(&device, &case, gpu(2e-1, 5e-2), 3, |product| product.f16_accumulators());
        check::<bf16, bf16>(&device, &case, 4e-3, 4, |product| product);
        check::<bf16, f32>(&device, &case, gpu(3e-4, 4e-6), 5, |product| product);
        check::<f32, f32>(&device, &case, gpu(5e-5, 1e-5), 6, |product| product);
        check::<f32, f32>(&device, &case, gpu(6e-4, 8e-6), 7, |product| product.tf32());
        check::<f64, f64>(&device, &case, 1e-12, 8, |product| product);
        if !tiles::<F8E4M3, f32>(&device, |product| product).is_empty() {
            check::<F8E4M3, bf16>(&device, &case, 4e-3, 9, |product| product);
            check::<F8E4M3, f32>(&device, &case, 4e-6, 10, |product| product);
            check::<F8E5M2, f32>(&device, &case, 4e-6, 11, |product| product);
        }
    }
}

#[test]
fn large_products_on_a_gpu() {
    let Some(device) = common::gpu() else { return };
    for shape in [
        (1024, 1000, 777),
        (513, 2049, 300),
        (2000, 40, 4000),
        (8, 5000, 129),
        (64, 1100, 4096),
        (1100, 60, 4000),
    ] {
        let case = Case::new(shape, [Order::Rows(0), Order::Rows(0), Order::Rows(0)]);
        check::<f16, f16>(&device, &case, 5e-4, 0, |product| product);
        check::<f32, f32>(&device, &case, 4e-6, 0, |product| product);
        check::<f32, f32>(&device, &case, 4e-6, 0, |product| product.tf32());
        check::<i8, i32>(&device, &case, 0.0, 0, |product| product);
        if !tiles::<F8E4M3, f32>(&device, |product| product).is_empty() {
            check::<F8E4M3, f32>(&device, &case, 2e-6, 0, |product| product);
        }
    }
}
