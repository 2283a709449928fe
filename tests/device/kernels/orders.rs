//! The shipped operations, in random orders of threads, warps and blocks: no race is reported, and
//! the bits are the same in each order.
//!
//! The order and the search for races are asked of the simulator by its environment variables, so
//! that each order is a separate process of this test program.

use crate::common::matrix::rng;
use half::f16;
use moye::{Device, Matmul, Matrix, MatrixMut};
use rand::RngExt;
use std::collections::BTreeMap;
use std::process::Command;

/// A number for bits (FNV-1a).
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

fn print(name: &str, values: &[f32]) {
    println!("result: {name} {:016x}", digest(values.iter().flat_map(|value| value.to_le_bytes())));
}

/// Numbers whose sums depend on the order of the additions.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    let mut rng = rng(&[seed]);
    (0..count).map(|_| rng.random_range(-0.5..0.5)).collect()
}

/// A product of f16 with f32 results, K contiguous in both operands.
fn product(name: &str, [m, n, k]: [usize; 3], choose: impl Fn(Matmul<'_, f16, f32>) -> Matmul<'_, f16, f32>) {
    let device = Device::sim();
    let halves = |count, seed| numbers(count, seed).into_iter().map(f16::from_f32).collect::<Vec<_>>();
    let (a, b) = (device.upload(&halves(m * k, 1)).unwrap(), device.upload(&halves(n * k, 2)).unwrap());
    let mut c = device.alloc_zeroed::<f32>(m * n).unwrap();
    let (a, b) = (Matrix::row_major(&a, m, k).unwrap(), Matrix::col_major(&b, k, n).unwrap());
    choose(Matmul::new(a, b)).run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
    print(name, &c.download().unwrap());
}

#[test]
#[ignore = "the test below runs it in a separate process"]
fn what_ships() {
    let extents = [100, 72, 208];
    for start in ["matmul_", "wgmma_"] {
        product(start, extents, |product| {
            let kernels = product.kernels(&Device::sim());
            let is_it = |kernel: &&&str| kernel.starts_with(start) && kernel.contains("_tn");
            let kernel = kernels.iter().find(is_it).unwrap_or_else(|| panic!("{start} in {kernels:?}"));
            println!("{kernel}");
            product.kernel(kernel)
        });
    }
    product("split-K", [64, 64, 512], |product| product.split_k(4));
    product("stream-K", [100, 354, 1552], |product| product.tile(128, 128).split_k(1));
    let device = Device::sim();
    let words = numbers(75 * 130, 3);
    let from = device.upload(&words).unwrap();
    let mut to = device.alloc_zeroed::<f32>(75 * 130).unwrap();
    let source = Matrix::row_major(&from, 75, 130).unwrap();
    moye::transpose(&device, &source, &mut MatrixMut::row_major(&mut to, 130, 75).unwrap()).unwrap();
    print("transpose", &to.download().unwrap());
    #[cfg(feature = "attention")]
    attention(&device);
}

/// Attention of two heads, with a partial tile of rows.
#[cfg(feature = "attention")]
fn attention(device: &Device) {
    use moye::{Attention, Heads, HeadsMut};
    let (rows, heads, size) = (70, 2, 64);
    let halves = |seed| {
        let values: Vec<_> = numbers(rows * heads * size, seed).into_iter().map(f16::from_f32).collect();
        device.upload(&values).unwrap()
    };
    let (q, k, v) = (halves(4), halves(5), halves(6));
    let mut o = halves(7);
    let [q, k, v] = [&q, &k, &v].map(|buffer| Heads::head_first(buffer, [1, heads, rows, size]).unwrap());
    let attention = Attention::new(q, k, v).causal();
    attention.run(device, &mut HeadsMut::head_first(&mut o, [1, heads, rows, size]).unwrap()).unwrap();
    let o: Vec<f32> = o.download().unwrap().into_iter().map(f16::to_f32).collect();
    print("attention", &o);
}

#[test]
fn what_ships_has_no_race_in_drawn_orders_and_the_same_bits_in_each() {
    let mut results: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for order in [None, Some("1"), Some("7"), Some("40")] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "orders::what_ships", "--ignored", "--nocapture", "--test-threads=1"]);
        command.env_remove("MOYE_SIM_ORDER").env("MOYE_SIM_RACES", "1");
        let done = command.envs(order.map(|seed| ("MOYE_SIM_ORDER", seed))).output().unwrap();
        let text = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success(), "order {order:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
        for line in text.lines().filter_map(|line| line.strip_prefix("result: ")) {
            let (name, bits) = line.rsplit_once(' ').unwrap();
            results.entry(name.to_owned()).or_default().push(bits.to_owned());
        }
    }
    assert!(results.len() >= 5, "{results:?}");
    for (name, bits) in results {
        assert!(bits.len() == 4 && bits.iter().all(|other| *other == bits[0]), "{name}: {bits:?}");
    }
}
