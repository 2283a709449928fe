//! The cost of race detection for memory-bound kernels: a transpose of a matrix of 2048 x 2048
//! words through shared memory and a copy of it, which access each word of global memory once, and
//! a matrix product of scalar loads. Prints processor time with and without race detection;
//! `benches/races.py` tabulates it.
//!
//! `cargo run -p moye-sim --example race_cost`

#[path = "kernels/sgemm.rs"]
mod sgemm;

use moye_sim::intrinsics::*;
use moye_sim::{GlobalMemory, Launch};

const N: u32 = 2048;
const TILE: u32 = 64;
const ROUNDS: usize = 5;
/// Elements of A, and of B, of the product.
const OPERAND: u32 = sgemm::M * sgemm::K;

fn transpose(a: u64, b: u64) {
    let (t, block) = (thread_idx().x, block_idx());
    let at = |row: u32, column: u32| 4 * u64::from(row * N + column);
    for row in (t / TILE..TILE).step_by(4) {
        let word: u32 = load_global(a + at(block.y * TILE + row, block.x * TILE + t % TILE));
        store_shared(shared_base() + 4 * (row * (TILE + 1) + t % TILE), word);
    }
    sync_threads();
    for row in (t / TILE..TILE).step_by(4) {
        let word: u32 = load_shared(shared_base() + 4 * (t % TILE * (TILE + 1) + row));
        store_global(b + at(block.x * TILE + row, block.y * TILE + t % TILE), word);
    }
}

fn copy(a: u64, b: u64) {
    let first = u64::from(block_idx().x) * 16384 + 4 * u64::from(thread_idx().x);
    for at in (first..first + 16384).step_by(1024) {
        store_global::<u32>(b + at, load_global(a + at));
    }
}

/// Processor time of the process, in seconds.
fn seconds() -> Result<f64, Box<dyn std::error::Error>> {
    // The first number of the file: nanoseconds of this thread.
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split(' ').next().unwrap_or_default().parse::<f64>()? / 1e9)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // All blocks run on this thread, whose processor time is read.
    let _pool = rayon::ThreadPoolBuilder::new().num_threads(1).use_current_thread().build()?;
    let memory = GlobalMemory::new();
    let bytes = 4 * (N * N) as usize;
    let (a, b) = (memory.alloc(bytes, "A")?, memory.alloc(bytes, "B")?);
    a.write(0, &(0..N * N).flat_map(u32::to_ne_bytes).collect::<Vec<_>>())?;
    b.fill(0, bytes, 0)?;
    let (from, to) = (a.address(), b.address());
    let tiles = (N / TILE, N / TILE);
    let transposed = Launch::new("transpose", tiles, 256, &memory);
    let transposed = transposed.shared_bytes(4 * (TILE * (TILE + 1)) as usize);
    let product =
        Launch::new("sgemm", (sgemm::M / sgemm::TILE, sgemm::N / sgemm::TILE), sgemm::THREADS, &memory)
            .shared_bytes(sgemm::SHARED_BYTES);
    let operand = memory.upload(&vec![1.0_f32; OPERAND as usize], "operand")?;
    let result = memory.alloc(4 * (sgemm::M * sgemm::N) as usize, "C")?;
    let (ab, c) = (operand.address(), result.address());
    measure("transpose", &transposed, &|| transpose(from, to))?;
    measure("copy", &Launch::new("copy", N * N / 4096, 256, &memory), &|| copy(from, to))?;
    measure("sgemm", &product, &|| sgemm::kernel(ab, ab, c))
}

/// Prints the kernel's name, the least time of several rounds with and without race detection,
/// their ratio, and the nanoseconds per access with and without.
fn measure(
    name: &str,
    launch: &Launch<'_>,
    kernel: &(dyn Fn() + Sync),
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut least, mut accesses) = ([f64::INFINITY; 2], 0);
    for round in 0..2 * ROUNDS {
        let races = round % 2 == 1;
        let start = seconds()?;
        accesses = launch.clone().races(races).run(&kernel)?.accesses;
        let least = &mut least[usize::from(races)];
        *least = least.min(seconds()? - start);
    }
    let [without, with] = least;
    let each = |seconds: f64| 1e9 * seconds / accesses as f64;
    println!("{name},{with:.3},{without:.3},{:.2},{:.0},{:.0}", with / without, each(with), each(without));
    Ok(())
}
