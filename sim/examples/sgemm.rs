//! Times a matrix product on the simulator: C (512x512) = A (512x256) B (256x512), f32, tiles of
//! 128x128x8, 256 threads with 8x8 results each, and checks some results.
//!
//! `cargo run --release -p moye-sim --example sgemm`

#[path = "kernels/sgemm.rs"]
mod sgemm;

use moye_sim::{GlobalMemory, Launch};
use sgemm::{K, M, N, SHARED_BYTES, THREADS, TILE, kernel};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = GlobalMemory::new();
    let matrix = |label: &str, elements: u32, value: fn(u32) -> f32| -> Result<_, moye_sim::MemoryError> {
        let matrix = memory.alloc(4 * elements as usize, label)?;
        let bytes: Vec<u8> = (0..elements).flat_map(|i| value(i).to_ne_bytes()).collect();
        matrix.write(0, &bytes)?;
        Ok(matrix)
    };
    let value_a = |i: u32| (i % 17) as f32 - 8.0;
    let value_b = |i: u32| (i % 23) as f32 - 11.0;
    let (a, b) = (matrix("A", M * K, value_a)?, matrix("B", K * N, value_b)?);
    let c = memory.alloc(4 * (M * N) as usize, "C")?;
    let (pa, pb, pc) = (a.address(), b.address(), c.address());

    let grid = (M / TILE, N / TILE);
    let launch = Launch::new("sgemm", grid, THREADS, &memory).shared_bytes(SHARED_BYTES);
    for _ in 0..3 {
        let report = launch.run(&|| kernel(pa, pb, pc))?;
        let rate = report.accesses as f64 / report.elapsed.as_secs_f64() / 1e6;
        println!("{M}x{N}x{K}: {:.3} s, {rate:.0} million accesses/s", report.elapsed.as_secs_f64());
    }

    let mut bytes = vec![0; c.len()];
    c.read(0, &mut bytes)?;
    for (m, n) in [(0, 0), (1, 200), (333, 127), (511, 511)] {
        let expected: f32 = (0..K).map(|k| value_a(k * M + m) * value_b(k * N + n)).sum();
        let at = 4 * (n * M + m) as usize;
        let found = f32::from_ne_bytes(bytes[at..at + 4].try_into()?);
        assert_eq!(found, expected, "C({m},{n})");
    }
    Ok(())
}
