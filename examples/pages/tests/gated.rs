//! The product with an epilogue of its own, by both mainloops, against f64 accumulators on sizes
//! that are not multiples of a tile.

use moye_device::atom::tma::TmaMap;
use moye_device::half::f16;
use moye_device::layout;
use moye_device::memory::{Global, GlobalMut};
use moye_kernels::hopper::WgmmaConfig as _;
use moye_kernels::mma::Arguments;
use moye_sim::GlobalMemory;
use pages::gated::{Gated, gated};
use pages::gated_tma::{Config, TmaA, TmaB, gated_tma};

/// Which mainloop runs.
#[derive(Clone, Copy, Debug)]
enum Mainloop {
    CpAsync,
    Tma,
}

/// Numbers from -1 to 1 that look random.
fn numbers(count: usize, seed: u64) -> Vec<f16> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f16::from_f64((state >> 11) as f64 / (1u64 << 52) as f64 - 1.0)
    };
    (0..count).map(|_| next()).collect()
}

/// GELU by a hyperbolic tangent, in double precision.
fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh())
}

/// The relative error of a product whose rows of C are `ldc` apart; the padding between them stays
/// as it was.
fn relative_error(mainloop: Mainloop, (m, n, k): (usize, usize, usize), ldc: usize) -> f64 {
    let ld = k.next_multiple_of(8);
    let (a, b) = (numbers(m * ld, 1), numbers(n * ld, 2));
    let (bias, gate) = (numbers(n, 3), numbers(m * n, 4));
    let marked = vec![f16::from_f32(77.0); m * ldc];
    let memory = GlobalMemory::new();
    let upload = |values: &[f16], name| memory.upload(values, name).unwrap();
    let (da, db, dc) = (upload(&a, "a"), upload(&b, "b"), upload(&marked, "c"));
    let (dbias, dgate) = (upload(&bias, "bias"), upload(&gate, "gate"));
    let pointers = (
        Global::from_address(da.address()),
        Global::from_address(db.address()),
        GlobalMut::from_address(dc.address()),
    );
    let arguments =
        Arguments::product(pointers, (m as u32, n as u32, k as u32), (ld as i64, ld as i64, ldc as i64));
    let epilogue = Gated {
        bias: Global::from_address(dbias.address()),
        gate: Global::from_address(dgate.address()),
        ld_gate: n as i64,
    };
    match mainloop {
        Mainloop::CpAsync => {
            let blocks = (m.div_ceil(64) * n.div_ceil(64)) as u32;
            // SAFETY: the matrices are in their allocations, and rows of A and B start at multiples
            // of 16 bytes.
            unsafe { gated.simulate(&memory, blocks, 128, (arguments, epilogue)) }.unwrap();
        }
        Mainloop::Tma => {
            let [rows_a, rows_b, k, ld] = [m, n, k, ld].map(|extent| extent as i64);
            let a =
                TmaA::tensor_map(da.address(), &layout!((rows_a, k, 1):(ld, 1, { rows_a * ld }))).unwrap();
            let b =
                TmaB::tensor_map(db.address(), &layout!((rows_b, k, 1):(ld, 1, { rows_b * ld }))).unwrap();
            let (a, b) = (TmaMap::from_words(a.encode()), TmaMap::from_words(b.encode()));
            // SAFETY: as above; the maps are of A and B.
            unsafe { gated_tma.simulate(&memory, 2, Config::THREADS, (a, b, arguments, epilogue)) }.unwrap();
        }
    }
    let (mut error, mut norm) = (0.0, 0.0);
    for (i, got) in dc.download::<f16>().into_iter().enumerate() {
        let (row, column) = (i / ldc, i % ldc);
        if column >= n {
            assert_eq!(got.to_f32(), 77.0, "{mainloop:?}: behind row {row}, {column}");
            continue;
        }
        let products = (0..k).map(|l| a[row * ld + l].to_f64() * b[column * ld + l].to_f64());
        let want = gelu(products.sum::<f64>() + bias[column].to_f64()) * gate[row * n + column].to_f64();
        error += (got.to_f64() - want).powi(2);
        norm += want.powi(2);
    }
    (error / norm).sqrt()
}

#[test]
fn a_gated_product_is_that_of_float64_by_both_mainloops_on_ragged_sizes() {
    // Whole tiles, one that reaches beyond all extents, a single element, rows of C at odd
    // addresses, and several tiles.
    for (shape, ldc) in [
        ((128, 128, 64), 128),
        ((60, 51, 88), 56),
        ((1, 1, 1), 1),
        ((131, 70, 72), 71),
        ((200, 300, 130), 300),
    ] {
        for mainloop in [Mainloop::CpAsync, Mainloop::Tma] {
            let error = relative_error(mainloop, shape, ldc);
            assert!(error < 5e-4, "{mainloop:?}, {shape:?}: relative error {error}");
        }
    }
}

/// The entry points of this crate's PTX, by architecture.
const PTX: &[(&str, &str)] = include!(env!("PAGES_PTX"));

#[test]
fn the_ptx_has_the_kernels_of_this_crate_and_no_other() {
    for (arch, text) in PTX {
        let entries: Vec<_> = text
            .split(".visible .entry ")
            .skip(1)
            .map(|entry| entry.split('(').next().unwrap().trim())
            .collect();
        assert!(
            entries.contains(&"gated") && entries.contains(&"gated_tma") == (*arch == "sm_90a"),
            "{entries:?}"
        );
        let own = |name: &&str| {
            ["attention_", "gate_", "gated", "rmsnorm_", "softmax_"].iter().any(|part| name.starts_with(part))
        };
        assert!(entries.iter().all(own), "{arch}: {entries:?}");
        // The steps of attention on Hopper and `gated_tma` are for sm_90a alone.
        let count = if *arch == "sm_90a" { 17 } else { 11 };
        assert_eq!(entries.len(), count, "{arch}: {entries:?}");
    }
}
