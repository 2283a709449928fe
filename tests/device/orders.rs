//! The shipped operations, in random orders of threads, warps and blocks: no race is reported, and
//! the bits are the same in each order.
//!
//! Environment variables select the simulator's order and race detection, so each order is a
//! separate process: this test program, called again.
#![cfg(all(feature = "matmul", feature = "movement"))]

use half::f16;
use moye::{Device, Error, GlobalMut, Grid, Kernel, LaunchBounds, Matmul, Matrix, MatrixMut};
use moye_sim::intrinsics::{shared_base, store_shared, thread_idx};
use std::collections::BTreeMap;
use std::process::Command;

/// Runs an ignored test in a separate process with these variables; returns its output.
fn call(test: &str, variables: &[(&str, &str)]) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
    command.env_remove("MOYE_SIM_RACES").env_remove("MOYE_SIM_ORDER");
    let done = command.envs(variables.iter().copied()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    (done.status.success(), text)
}

/// A hash of bytes (FNV-1a).
fn digest(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes
        .into_iter()
        .fold(0xCBF2_9CE4_8422_2325, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3))
}

fn print(name: &str, values: &[f32]) {
    println!("result: {name} {:016x}", digest(values.iter().flat_map(|value| value.to_le_bytes())));
}

/// Values whose sums depend on the order of the additions.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
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
#[ignore = "the tests of this file call it"]
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
        let mut variables = vec![("MOYE_SIM_RACES", "1")];
        variables.extend(order.map(|seed| ("MOYE_SIM_ORDER", seed)));
        let (is_done, text) = call("what_ships", &variables);
        assert!(is_done, "order {order:?}: {text}");
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

/// Two warps write one word: a race, and a result that depends on the order.
const RACE: Kernel<(GlobalMut<u32>,)> = Kernel::new(
    "race",
    "moye-tests",
    LaunchBounds { threads: Some(64), exact: true, min_blocks: None },
    256,
    |(_,)| store_shared(shared_base(), thread_idx().x / 32 + 1),
);

#[test]
#[ignore = "the tests of this file call it"]
fn a_race() {
    let device = Device::sim();
    let mut data = device.upload(&[0_u32]).unwrap();
    // SAFETY: the race is a fault, or intended.
    let ran = unsafe { device.launch(&RACE, Grid::new(1, 64), (&mut data,)) };
    match ran {
        Ok(()) => println!("result: silent"),
        Err(Error::Simulator(error)) => println!("result: {}", error.fault().unwrap().thread),
        Err(error) => panic!("{error}"),
    }
}

/// The output of [`a_race`] with these variables.
fn said(variables: &[(&str, &str)]) -> String {
    let (is_done, text) = call("a_race", variables);
    assert!(is_done, "{text}");
    let (_, result) = text.lines().find_map(|line| line.split_once("result: ")).expect("a result");
    result.to_owned()
}

#[test]
fn the_variable_of_races_turns_the_search_on_and_off() {
    assert_eq!(said(&[("MOYE_SIM_RACES", "0")]), "silent");
    for on in ["1", "values"] {
        assert_ne!(said(&[("MOYE_SIM_RACES", on)]), "silent");
    }
    let by_default = said(&[]);
    assert_eq!(by_default == "silent", !cfg!(debug_assertions), "{by_default}");
}

#[test]
fn the_variable_of_the_order_draws_the_same_one_for_a_number_and_others_for_others() {
    let of = |seed: &str| said(&[("MOYE_SIM_RACES", "1"), ("MOYE_SIM_ORDER", seed)]);
    let seeds: Vec<String> = (0..6).map(|seed| of(&seed.to_string())).collect();
    assert_eq!(seeds[3], of("3"), "the same number, the same order");
    assert!(seeds.iter().any(|other| *other != seeds[0]), "{seeds:?}");
}
