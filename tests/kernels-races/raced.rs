//! `raced list` names the kernels; `raced NAME right|faulty` launches one on GPU 0, for
//! compute-sanitizer; `raced simulate` prints what the simulator says of each, as CSV.

use moye::{Device, Grid, Ptx, Result, include_ptx};
use moye_kernels_races::{BLOCKS, KERNELS, THREADS, WORDS};

static PTX: Ptx = include_ptx!("moye_kernels_races");

/// Launches a kernel on zeros.
fn launch(device: &Device, name: &str, right: bool) -> Result<()> {
    let kernel = KERNELS.iter().find(|kernel| kernel.name() == name).expect("a name of the list");
    let module = device.load(&PTX)?;
    let mut data = device.upload(&vec![0_u32; WORDS])?;
    // SAFETY: the kernels expect this buffer and this grid; the effect of a faulty kernel is the
    // subject of the test.
    unsafe { module.launch(kernel, Grid::new(BLOCKS, THREADS), (&mut data, right)) }?;
    device.synchronize()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => KERNELS.iter().for_each(|kernel| println!("{}", kernel.name())),
        ["simulate"] => {
            println!("kernel,right,faulty");
            for kernel in KERNELS {
                let said = |right| match launch(&Device::sim(), kernel.name(), right) {
                    Ok(()) => "nothing".to_owned(),
                    Err(error) => error.to_string().replace(',', ";"),
                };
                println!("{},{},{}", kernel.name(), said(true), said(false));
            }
        }
        [name, variant @ ("right" | "faulty")] if KERNELS.iter().any(|kernel| kernel.name() == name) => {
            launch(&Device::gpu(0)?, name, variant == "right")?;
        }
        _ => {
            eprintln!("usage: raced list | raced simulate | raced NAME right|faulty");
            std::process::exit(2)
        }
    }
    Ok(())
}
