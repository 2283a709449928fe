//! Every kernel by name, including kernels that a device never chooses.

use crate::case::{Case, Order, Tested, check};
use crate::common::product::Number;
use crate::common::{devices, in_turn};
use crate::shared_tiles;
use crate::{Setup, asked};
use half::{bf16, f16};
use moye::Output;
use moye::kernels::mma::Activation;
use moye::number::{F8E4M3, F8E5M2};

/// The orders of A, B and C for a kernel, from its name: `t` means for A that K is contiguous, `n`
/// the same for B. Kernels of `sgemm` write column-major C, others row-major.
pub fn orders(kernel: &str, between: usize) -> [Order; 3] {
    let order =
        ["tn", "nt", "nn", "tt"].into_iter().find(|order| kernel.split('_').any(|part| part == *order));
    let order = order.unwrap_or_else(|| panic!("{kernel} does not name the order of its operands"));
    let of = |rows: bool, between| if rows { Order::Rows(between) } else { Order::Columns(between) };
    [of(order.starts_with('t'), 0), of(order.ends_with('t'), 0), of(!kernel.starts_with("sgemm"), between)]
}

fn each<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        let kernels = asked(setup, &device, |product, device| product.kernels(device));
        for (number, kernel) in kernels.into_iter().enumerate() {
            // Rows of A and B in whole 16-byte words. More than a tile of 64; few rows and columns
            // with many stages of K, for small tiles; more rows than a tile of 256, whose
            // warpgroups compute two tiles below each other; a ring of stages filled more than
            // twice.
            let of_f32 = !device.is_gpu() && kernel.starts_with("sgemm");
            let by_tma = kernel.ends_with("_tma");
            let shapes = [
                (!of_f32 || !by_tma, (80, 144, if of_f32 { 104 } else { 208 })),
                (kernel.contains("_64x64"), (16, 32, if device.is_gpu() { 1936 } else { 976 })),
                (kernel.contains("_tn_256x128"), (472, 144, 208)),
                (by_tma, (136, if of_f32 { 132 } else { 264 }, 152)),
            ];
            for (i, (of_kernel, shape)) in shapes.into_iter().enumerate() {
                if !of_kernel {
                    continue;
                }
                // `exact.rs` has plain products of these types with such extents.
                if device.is_gpu() || !matches!(size_of::<T>(), 2 | 4) {
                    let plain = Case { kernel: Some(kernel), ..Case::new(shape, orders(kernel, 0)) };
                    check(&device, &plain, bound, i as u64, setup);
                }
                let all = Case {
                    kernel: Some(kernel),
                    offsets: [0, 0, 3],
                    alpha: 2.0,
                    beta: 3.0,
                    bias: Some(i == 0),
                    activation: Activation::Relu,
                    // A second batch starts at an address that is not a multiple of 16 bytes, so
                    // the operands must be rearrangeable.
                    batches: if kernel.contains("_tn") { 2 } else { 1 },
                    ..Case::new(shape, orders(kernel, 5))
                };
                check(&device, &all, bound, i as u64, setup);
                if !kernel.starts_with("wgmma") && !kernel.ends_with("_tma") {
                    continue;
                }
                // The epilogue in registers, without reading C: rows of C that TMA stores or that
                // are whole words, and others.
                let smooth = |activation| if kernel.contains("_s8_") { Activation::Relu } else { activation };
                // On the simulator a kernel gets one of each kind of rows, and the next kernel the
                // others.
                for (turn, (between, offset, bias, activation)) in [
                    (8, 0, true, smooth(Activation::Gelu)),
                    (8, 0, false, Activation::Relu),
                    (5, 3, false, smooth(Activation::Silu)),
                    (5, 3, true, Activation::None),
                ]
                .into_iter()
                .enumerate()
                {
                    if !in_turn(&device, number + turn, 2) {
                        continue;
                    }
                    let finished = Case {
                        kernel: Some(kernel),
                        offsets: [0, 0, offset],
                        alpha: if offset == 0 { 2.0 } else { 1.0 },
                        bias: Some(bias),
                        activation,
                        batches: all.batches,
                        ..Case::new(shape, orders(kernel, between))
                    };
                    check(&device, &finished, bound, i as u64, setup);
                }
            }
        }
    }
}

/// Tiles of 256 x 128 in f32: eight boxes of C, in rounds, of two instructions stacked along M.
fn wide(kernel: &'static str) {
    for device in devices().into_iter().filter(shared_tiles::has_wgmma) {
        for (between, offset, beta) in [(0, 0, 0.0), (5, 3, 0.0), (5, 3, 3.0)] {
            for bias in [None, Some(true), Some(false)] {
                let case = Case {
                    kernel: Some(kernel),
                    offsets: [0, 0, offset],
                    alpha: 2.0,
                    beta,
                    bias,
                    activation: if bias.is_some() { Activation::Relu } else { Activation::None },
                    ..Case::new((472, 144, 208), orders(kernel, between))
                };
                check::<f16, f32>(&device, &case, 2e-6, 0, |product| product);
            }
        }
    }
}

#[test]
fn of_256_x_128_writes_f32_below_each_other() {
    wide("wgmma_f16_tn_256x128");
}

/// Kernels of small tiles, and those with one tile for each block, move a tile that would cross the
/// edge inside, unless they read C: the bias then belongs to the rows and columns of the moved
/// tile.
fn moved<T: Tested<U>, U: Output<T> + Number>(bound: f64, setup: Setup<T, U>) {
    for device in devices() {
        let kernels = asked(setup, &device, |product, device| product.kernels(device));
        let small = |kernel: &&str| {
            kernel.starts_with("wgmma")
                && ["_64x64", "_64x128", "_k2", "_once"].iter().any(|part| kernel.contains(part))
        };
        for (number, kernel) in kernels.into_iter().filter(small).enumerate() {
            for (i, shape) in [(136, 200, 136), (80, 136, 136), (200, 264, 136)].into_iter().enumerate() {
                let [a, b, _] = orders(kernel, 0);
                // From registers, if rows of C are whole 16-byte words, and by rows.
                for (turn, between) in [8, 5].into_iter().enumerate() {
                    // On the simulator a kernel gets one of the two at a shape, and the next kernel
                    // the other.
                    if !in_turn(&device, number + i + turn, 2) {
                        continue;
                    }
                    let c = Order::Rows(between);
                    let case = Case {
                        kernel: Some(kernel),
                        alpha: 2.0,
                        bias: Some(i == 0),
                        activation: Activation::Relu,
                        ..Case::new(shape, [a, b, c])
                    };
                    check(&device, &case, bound, i as u64, setup);
                    if !in_turn(&device, i, 3) {
                        continue;
                    }
                    let plain = Case { kernel: Some(kernel), alpha: 2.0, ..Case::new(shape, [a, b, c]) };
                    check(&device, &plain, bound, i as u64, setup);
                }
            }
        }
    }
}

#[test]
fn of_small_tiles_is_right_where_tiles_are_moved_inside() {
    moved::<f16, f16>(5e-4, |product| product);
    moved::<bf16, f32>(2e-6, |product| product);
}

#[test]
fn of_half_precision_is_right() {
    each::<f16, f16>(5e-4, |product| product);
    each::<bf16, bf16>(4e-3, |product| product);
    each::<f16, f16>(2e-2, |product| product.f16_accumulators());
}

#[test]
fn of_single_and_double_precision_is_right() {
    each::<f32, f32>(2e-6, |product| product);
    each::<f32, f32>(2e-6, |product| product.tf32());
    each::<f64, f64>(1e-14, |product| product);
}

#[test]
fn of_eight_bits_is_right() {
    each::<i8, i32>(0.0, |product| product);
    // Kernels exist only on Hopper.
    each::<F8E4M3, bf16>(4e-3, |product| product);
    each::<F8E5M2, f32>(2e-6, |product| product);
}

/// Whole tiles of 256 x 128 and of 128 x 256, with fewer K steps than pipeline stages and with
/// more, whole and partial; tiles moved back from the edge, and tiles that cross it; with split-K
/// and batches. The padding after a row's end is not zero.
#[test]
fn of_f32_that_transpose_an_operand_take_any_k() {
    for device in devices() {
        for kernel in ["sgemm_nn", "sgemm_tt"] {
            let (m, n) = if kernel == "sgemm_nn" { (256, 128) } else { (128, 256) };
            let whole = [1_usize, 16, 17, 33, 48, 66].map(|k| (m, n, k));
            let other = [(260, 272, 40), (100, 60, 70), (128, 256, 99)];
            for (i, shape) in whole.into_iter().chain(other).enumerate() {
                // Rows of A and columns of B that start with pairs; every second one is not a
                // multiple of 16 bytes.
                let between = (6 - shape.2 % 4) % 4;
                let [a, b, c] = orders(kernel, 0);
                let (orders_of, transposed) = match kernel {
                    "sgemm_nn" => ([a, Order::Columns(between), c], 1),
                    _ => ([Order::Rows(between), b, c], 0),
                };
                let row = shape.2 + between;
                assert!(row % 4 == 2, "rows of {row}");
                let mut offsets = [0; 3];
                offsets[transposed] = 2;
                let case = Case {
                    kernel: Some(kernel),
                    offsets,
                    behind: 4,
                    alpha: 2.0,
                    // Batches of whole words: gaps of sixteen elements, or of five, with which they
                    // are unaligned and are rearranged.
                    batches: 1 + i % 2,
                    splits: if shape.2 > 60 { Some(2) } else { None },
                    ..Case::new(shape, orders_of)
                };
                check::<f32, f32>(&device, &case, 2e-6, i as u64, |product| product);
                // Unaligned rows are rearranged first.
                if !in_turn(&device, i, 2) {
                    continue;
                }
                let anywhere = Case { kernel: Some(kernel), ..Case::new(shape, orders(kernel, 0)) };
                check::<f32, f32>(&device, &anywhere, 2e-6, i as u64, |product| product);
            }
        }
    }
}

/// Whole tiles of 256 x 128, of which the last one along K is multiplied part by part: alone, after
/// one that ends within it, and after others.
#[test]
fn of_f32_without_a_transpose_take_any_k() {
    for device in devices() {
        for (i, k) in [1_usize, 16, 17, 33, 48, 65].into_iter().enumerate() {
            let case = Case {
                kernel: Some("sgemm_nt"),
                alpha: -3.0,
                splits: if k > 60 { Some(2) } else { Some(1) },
                ..Case::new((256, 128, k), orders("sgemm_nt", 0))
            };
            check::<f32, f32>(&device, &case, 2e-6, i as u64, |product| product);
        }
    }
}

/// The f32 FMA kernels with TMA loads, if a device has them.
fn f32_by_tma(device: &moye::Device) -> Vec<&'static str> {
    let setup: Setup<f32, f32> = |product| product;
    let kernels = asked(setup, device, |product, device| product.kernels(device));
    let found: Vec<_> = kernels.into_iter().filter(|kernel| kernel.ends_with("_tma")).collect();
    let expected = if device.arch() == moye::Arch::new(9, 0) {
        vec!["sgemm_nt_tma", "sgemm_nn_tma", "sgemm_tn_tma"]
    } else {
        vec![]
    };
    assert_eq!(found, expected, "{}", device.name());
    found
}

/// Whole tiles of 256 x 128 loaded by TMA, with fewer K steps than stages and with more, whole and
/// partial; tiles moved back from the edge, and a C without a whole tile; with split-K and batches,
/// with C's columns contiguous and its rows, so that either operand is shared by all batches. Rows
/// that do not start at multiples of 16 bytes are rearranged.
#[test]
fn of_f32_that_tma_loads_take_any_k() {
    for device in devices() {
        for (number, kernel) in f32_by_tma(&device).into_iter().enumerate() {
            // Unsplit, the ring of four stages is filled up to four times.
            let whole = [4_usize, 16, 20, 48, 64, 68, 204].map(|k| (256, 128, k));
            let other =
                [(128, 256, 48), (300, 136, 40), (100, 60, 140), (260, 256, 100), (1, 1, 1), (131, 135, 37)];
            let [a, b, c] = orders(kernel, 0);
            // The same for the kernel of the transposed product: A and B are swapped, and with them
            // rows and columns.
            let transposed = [b, a, c].map(|order| match order {
                Order::Rows(between) => Order::Columns(between),
                Order::Columns(between) => Order::Rows(between),
                other @ Order::Scattered => other,
            });
            for (i, shape) in whole.into_iter().chain(other).enumerate() {
                let case = Case {
                    kernel: Some(kernel),
                    alpha: -3.0,
                    batches: 1 + i % 2,
                    splits: if i % 3 == 2 { Some(3) } else { Some(1) },
                    // The kernel's B, and its A.
                    same_b: i % 4 == 1,
                    ..Case::new(shape, [a, b, c])
                };
                // On the simulator one of the two for each shape.
                if in_turn(&device, i + number, 2) {
                    check::<f32, f32>(&device, &case, 2e-6, i as u64, |product| product);
                }
                if !in_turn(&device, i + number + 1, 2) {
                    continue;
                }
                let (m, n, k) = shape;
                let case = Case { shape: (n, m, k), orders: transposed, ..case };
                check::<f32, f32>(&device, &case, 2e-6, i as u64, |product| product);
            }
        }
    }
}

/// Extents that are not whole words, of operands that are rearranged for it: their rows end with
/// zeros, and C is in a workspace, with split-K and batches.
#[test]
fn of_f32_take_extents_that_end_within_words() {
    for device in devices() {
        let older = ["sgemm_nt", "sgemm_nt_128x128", "sgemm_nn", "sgemm_tt"];
        for (number, kernel) in older.into_iter().chain(f32_by_tma(&device)).enumerate() {
            for (i, (splits, batches)) in [(1, 1), (3, 2), (1, 2), (3, 1)].into_iter().enumerate() {
                // On the simulator one of each number of slices and of batches.
                if !in_turn(&device, number + i / 2, 2) {
                    continue;
                }
                // Tiles have 256 x 128 elements, the older ones also 128 x 128 and 128 x 256.
                let shape = if device.is_gpu() { (261, 131, 70) } else { (261, 67, 37) };
                let case = Case {
                    kernel: Some(kernel),
                    splits: Some(splits),
                    batches,
                    beta: [0.0, 3.0][i % 2],
                    bias: Some(i < 2),
                    ..Case::new(shape, orders(kernel, 0))
                };
                check::<f32, f32>(&device, &case, 2e-6, i as u64, |product| product);
            }
        }
    }
}

/// Step 7 of the ladder, the pipeline with `mma.sync`, over hundreds of tiles along K, on a GPU
/// thousands, in one slice.
fn long<T: Tested<T> + Output<T>>(kernel: &'static str, bound: impl Fn(usize) -> f64, setup: Setup<T, T>) {
    for device in devices() {
        // Primes. The simulator takes seconds for the smaller one.
        let k: usize = if device.is_gpu() { 50_021 } else { 2003 };
        // Rows of A and columns of B are padded to whole 16-byte words.
        let between = k.next_multiple_of(8) - k;
        let orders = [Order::Rows(between), Order::Columns(between), Order::Rows(0)];
        let case = Case { kernel: Some(kernel), splits: Some(1), ..Case::new((19, 21, k), orders) };
        check(&device, &case, bound(k), 0, setup);
    }
}

/// The bound is that of rounding the result, plus the truncation towards zero of tensor cores at
/// each step: up to 2^-23 of a partial sum, which on average is two thirds of the total, for 16
/// elements of f16 and bf16 and for 8 of tf32.
#[test]
fn by_mma_sync_adds_up_a_very_long_k() {
    let cut = |k: usize, per_step: f64| k as f64 / per_step * 2f64.powi(-23) * 2.0 / 3.0;
    long::<f16>("matmul_f16_tn", |k| 5e-4 + cut(k, 16.0), |product| product);
    long::<bf16>("matmul_bf16_tn", |k| 4e-3 + cut(k, 16.0), |product| product);
    long::<f32>("matmul_tf32_tn", |k| 2e-6 + cut(k, 8.0), |product| product.tf32());
}
