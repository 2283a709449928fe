//! `raced list` names the kernels; `raced NAME right|faulty` launches one on GPU 0, for
//! compute-sanitizer; `raced simulate` prints what the simulator says of each, as CSV.

use moye::{Device, Grid, Ptx, Result, include_ptx};
use moye_kernels_races::{BLOCKS, Raced, WORDS, all};

static PTX: Ptx = include_ptx!("moye_kernels_races");

/// Launches a kernel on zeros.
fn launch(device: &Device, Raced { kernel, threads, cluster }: Raced, right: bool) -> Result<()> {
    let module = device.load(&PTX)?;
    let mut data = device.upload(&vec![0_u32; WORDS])?;
    let grid = Grid::new(BLOCKS, threads).clusters(cluster);
    // SAFETY: the buffer and the grid are what the kernels expect; what a faulty one does is
    // to be seen.
    unsafe { module.launch(kernel, grid, (&mut data, right)) }?;
    device.synchronize()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let find = |name: &str| all().find(|raced| raced.kernel.name() == name);
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => all().for_each(|raced| println!("{}", raced.kernel.name())),
        ["simulate"] => {
            println!("kernel,right,faulty");
            for raced in all() {
                let said = |right| match launch(&Device::sim(), raced, right) {
                    Ok(()) => "nothing".to_owned(),
                    Err(error) => error.to_string().replace(',', ";"),
                };
                println!("{},{},{}", raced.kernel.name(), said(true), said(false));
            }
        }
        [name, variant @ ("right" | "faulty")] if find(name).is_some() => {
            let raced = find(name).expect("it was just found");
            launch(&Device::gpu(0)?, raced, variant == "right")?;
        }
        _ => {
            eprintln!("usage: raced list | raced simulate | raced NAME right|faulty");
            std::process::exit(2)
        }
    }
    Ok(())
}
