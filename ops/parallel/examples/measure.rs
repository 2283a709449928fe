//! Measures parallel products on all GPUs of this machine, or on some of them and with one M:
//! `cargo run --release -p moye-parallel --example measure [GPUS [M]]`.
//!
//! "alone" is the product of a rank without the exchange, by the same kernels.
//! `benches/peers/parallel.py` measures PyTorch.

use moye::{Device, Result};
use moye_parallel::measure::{feed_forward, link, measure};

fn main() -> Result<()> {
    let count = Device::gpu_count()?;
    let world = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(count);
    let only: Option<usize> = std::env::args().nth(2).and_then(|text| text.parse().ok());
    let devices = (0..world).map(Device::gpu).collect::<Result<Vec<_>>>()?;
    println!("form,m,n,k,ranks,alone us,us,TFLOP/s of a rank,kernels");
    measure(&devices, only, |row| {
        let ([m, n, k], kernels) = (row.extents, row.kernels.replace(',', ";"));
        println!(
            "{:?},{m},{n},{k},{world},{:.1},{:.1},{:.0},{kernels}",
            row.form, row.alone, row.time, row.rate
        );
    })?;
    if only.is_none() && world > 1 {
        println!(
            "feed-forward of 4096 tokens (8192; 28672),,,,{world},,{:.1},,",
            feed_forward(&devices, [4096, 8192, 28_672])?
        );
        println!("link,,,,2,,,,{:.0} GB/s", link(&devices)? / 1e9);
    }
    Ok(())
}
