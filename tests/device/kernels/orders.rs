//! The shipped operations, in random orders of threads, warps and blocks: no race is reported, and
//! the bits are the same in each order. A kernel with a race shows that a `Device` has both.
//!
//! Environment variables select the order and race detection of the simulator, so each order is a
//! separate process of this test program.

use crate::common::matrix::rng;
use half::f16;
use moye::{Device, Error, GlobalMut, Grid, Kernel, LaunchBounds, Matmul, Matrix, MatrixMut};
use moye_sim::intrinsics::{shared_base, store_shared, thread_idx};
use rand::RngExt;
use std::collections::BTreeMap;
use std::process::Command;

/// Runs an ignored test of this file in a separate process with these variables, and returns what
/// it printed after `told: `.
fn called(test: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &format!("orders::{test}"), "--ignored", "--nocapture", "--test-threads=1"]);
    command.env_remove("MOYE_SIM_RACES").env_remove("MOYE_SIM_ORDER");
    let done = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{variables:?}: {text}{}", String::from_utf8_lossy(&done.stderr));
    text.lines().filter_map(|line| Some(line.split_once("told: ")?.1.to_owned())).collect()
}

/// A hash of bits (FNV-1a).
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

fn print(name: &str, values: &[f32]) {
    println!("told: {name} {:016x}", digest(values.iter().flat_map(|value| value.to_le_bytes())));
}

/// Values whose sums depend on the order of the additions.
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
#[ignore = "the tests below run it in a separate process"]
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
        let order = order.map(|seed| ("MOYE_SIM_ORDER", seed));
        let variables: Vec<_> = order.into_iter().chain([("MOYE_SIM_RACES", "1")]).collect();
        for line in called("what_ships", &variables) {
            let (name, bits) = line.rsplit_once(' ').unwrap();
            results.entry(name.to_owned()).or_default().push(bits.to_owned());
        }
    }
    assert!(results.len() >= 5, "{results:?}");
    for (name, bits) in results {
        assert!(bits.len() == 4 && bits.iter().all(|other| *other == bits[0]), "{name}: {bits:?}");
    }
}

/// Two warps write one word: a race, whose reported thread depends on the order.
const RACE: Kernel<(GlobalMut<u32>,)> = Kernel::new(
    "race",
    "moye-tests",
    LaunchBounds { threads: Some(64), exact: true, min_blocks: None },
    256,
    |(_,)| store_shared(shared_base(), thread_idx().x / 32 + 1),
);

#[test]
#[ignore = "the tests below run it in a separate process"]
fn a_race() {
    let device = Device::sim();
    let mut data = device.upload(&[0_u32]).unwrap();
    // SAFETY: the kernel has one word of shared memory, and its race is what is reported.
    match unsafe { device.launch(&RACE, Grid::new(1, 64), (&mut data,)) } {
        Ok(()) => println!("told: silent"),
        Err(Error::Simulator(error)) => println!("told: {}", error.fault().unwrap().thread),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_variables_of_the_simulator_act_on_a_launch_of_a_device() {
    let told = |variables: &[(&str, &str)]| called("a_race", variables).remove(0);
    assert_eq!(told(&[("MOYE_SIM_RACES", "0")]), "silent");
    assert_ne!(told(&[("MOYE_SIM_RACES", "values")]), "silent");
    assert_eq!(told(&[]) == "silent", !cfg!(debug_assertions));
    let of = |seed: &str| told(&[("MOYE_SIM_RACES", "1"), ("MOYE_SIM_ORDER", seed)]);
    let drawn = ["0", "1", "2", "3", "4", "5"].map(of);
    assert!(!drawn.contains(&"silent".to_owned()), "{drawn:?}");
    assert_eq!(drawn[3], of("3"), "the same number, the same order");
    assert!(drawn.iter().any(|other| *other != drawn[0]), "other numbers, other orders: {drawn:?}");
}
