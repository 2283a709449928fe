//! What race detection costs where each word of global memory is touched once: a transpose of a
//! matrix of 2048 x 2048 words, through shared memory, and a copy of it. Prints processor time with
//! race detection and without.
//!
//! `cargo run -p moye-sim --example race_cost`

use moye_sim::intrinsics::*;
use moye_sim::{GlobalMemory, Launch};

const N: u32 = 2048;
const TILE: u32 = 64;
const ROUNDS: usize = 3;

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
    // The first number of the file, in nanoseconds, of this thread.
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
    let (from, to) = (a.address(), b.address());
    let kernels: [(&str, Launch<'_>, fn(u64, u64)); 2] = [
        ("transpose", Launch::new("transpose", (N / TILE, N / TILE), 256, &memory), transpose),
        ("copy", Launch::new("copy", N * N / 4096, 256, &memory), copy),
    ];
    for (name, launch, kernel) in kernels {
        let launch = launch.shared_bytes(4 * (TILE * (TILE + 1)) as usize);
        let mut least = [f64::INFINITY; 2];
        for round in 0..2 * ROUNDS {
            let races = round % 2 == 1;
            let taken = timed(&launch, races, kernel, from, to)?;
            least[usize::from(races)] = least[usize::from(races)].min(taken);
        }
        let [without, with] = least;
        println!("{name},{with:.3},{without:.3},{:.2}", with / without);
    }
    Ok(())
}

fn timed(
    launch: &Launch<'_>,
    races: bool,
    kernel: fn(u64, u64),
    from: u64,
    to: u64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let start = seconds()?;
    launch.clone().races(races).run(&|| kernel(from, to))?;
    Ok(seconds()? - start)
}
