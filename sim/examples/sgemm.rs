//! Times a matrix product on the simulator: C (512x512) = A (512x256) B (256x512), f32, tiles of
//! 128x128x8, 256 threads with 8x8 results each, and checks some results.
//!
//! `cargo run --release -p moye-sim --example sgemm`

use moye_sim::intrinsics::*;
use moye_sim::{GlobalMemory, Launch};

const M: u32 = 512;
const N: u32 = 512;
const K: u32 = 256;
const TILE: u32 = 128;
const DEPTH: u32 = 8;
/// From one column of a tile to the next, in elements; odd, as it would be on a GPU for the sake of
/// its banks.
const PITCH: u32 = TILE + 1;

fn kernel(a: u64, b: u64, c: u64) {
    let (t, block) = (thread_idx().x, block_idx());
    let tile_a = shared_base();
    let tile_b = tile_a + 4 * PITCH * DEPTH;
    let (row, column) = (t % 16, t / 16);
    let mut sums = [[0.0f32; 8]; 8];
    for k0 in (0..K).step_by(DEPTH as usize) {
        for piece in 0..4 {
            let (i, k) = (t % 128, t / 128 + 2 * piece);
            let at = 4 * (k * PITCH + i);
            let column_a = u64::from((k0 + k) * M + block.x * TILE + i);
            let column_b = u64::from((k0 + k) * N + block.y * TILE + i);
            store_shared(tile_a + at, load_global::<f32>(a + 4 * column_a));
            store_shared(tile_b + at, load_global::<f32>(b + 4 * column_b));
        }
        sync_threads();
        for k in 0..DEPTH {
            let at = |i: u32, offset: u32| 4 * (k * PITCH + offset + 16 * i);
            let left: [f32; 8] = std::array::from_fn(|i| load_shared(tile_a + at(i as u32, row)));
            let right: [f32; 8] = std::array::from_fn(|j| load_shared(tile_b + at(j as u32, column)));
            for (sums, left) in sums.iter_mut().zip(left) {
                for (sum, right) in sums.iter_mut().zip(right) {
                    *sum = fma_f32(left, right, *sum);
                }
            }
        }
        sync_threads();
    }
    for (i, sums) in (0..).zip(sums) {
        for (j, sum) in (0..).zip(sums) {
            let (m, n) = (block.x * TILE + row + 16 * i, block.y * TILE + column + 16 * j);
            store_global(c + 4 * u64::from(n * M + m), sum);
        }
    }
}

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
    let launch = Launch::new("sgemm", grid, 256, &memory).shared_bytes(2 * 4 * (PITCH * DEPTH) as usize);
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
