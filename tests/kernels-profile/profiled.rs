//! `profiled`: prints what the simulator's profile says of each kernel, as CSV; or launches each
//! once on GPU 0, for `ncu`.
//!
//! `profiled expect` needs no GPU. `profiled launch` is what `ncu.py` beside this file runs under
//! `ncu`.

mod counters;

use counters::COUNTERS;
use moye::{Buffer, Device, Grid, Ptx, Result, TensorElement, TensorMap, TensorMapFields, include_ptx};
use moye_kernels_profile::{BLOCKS, THREADS, WORDS, kernels, tensor_copy};

static PTX: Ptx = include_ptx!("moye_kernels_profile");

fn main() -> Result<()> {
    let expect = match std::env::args().nth(1).as_deref() {
        Some("expect") => true,
        Some("launch") => false,
        _ => {
            eprintln!("usage: profiled expect | launch");
            std::process::exit(2)
        }
    };
    let device = if expect { Device::sim() } else { Device::gpu(0)? };
    let module = device.load(&PTX)?;
    let grid = Grid::new(BLOCKS, THREADS);
    let x = device.upload(&vec![0_u32; WORDS])?;
    let mut y = device.upload(&vec![0_u32; WORDS])?;
    if expect {
        println!("kernel,counter,expected");
    }
    for (kernel, cluster) in kernels() {
        // SAFETY: both buffers have `WORDS` words, and the grid is the one that the kernels expect.
        let launch = || unsafe { module.launch(kernel, grid.clusters(cluster), (&x, &mut y)) };
        run(&device, kernel.name(), expect, launch)?;
    }
    let map = rows_of_words(&device, &x)?;
    // SAFETY: the map is of boxes of 32 x 32 words, and the grid is the one that the kernel
    // expects.
    let launch = || unsafe { module.launch(&tensor_copy, grid, (&map, &mut y)) };
    run(&device, tensor_copy.name(), expect, launch)
}

/// `x` as rows of 32 words, of which a tensor copy takes 32 at a time.
fn rows_of_words(device: &Device, x: &Buffer<u32>) -> Result<TensorMap> {
    let extents = [32, 32 * u64::from(BLOCKS)];
    let fields = TensorMapFields::new(TensorElement::U32, x.address(), &extents, &[128], &[32, 32]);
    TensorMap::new(device, &fields)
}

/// Launches a kernel, and prints its name or what the profile says.
fn run(device: &Device, kernel: &str, expect: bool, launch: impl FnOnce() -> Result<()>) -> Result<()> {
    if !expect {
        launch()?;
        device.synchronize()?;
        println!("{kernel}");
        return Ok(());
    }
    let total = device.profile(launch)?.kernels[0].total();
    for (counter, of) in COUNTERS {
        println!("{kernel},{counter},{}", of(&total));
    }
    Ok(())
}
