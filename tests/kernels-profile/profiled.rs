//! `profiled`: prints what the simulator's profile says of each kernel, as CSV; or launches each
//! once on GPU 0, for `ncu`.
//!
//! `profiled expect > expected.csv` needs no GPU. `profiled launch` is what `ncu.py` beside this
//! file runs under `ncu`.

use moye::profile::Counts;
use moye::{Device, Grid, Ptx, Result, include_ptx};
use moye_kernels_profile::{BLOCKS, KERNELS, THREADS, WORDS};

static PTX: Ptx = include_ptx!("moye_kernels_profile");

/// Counters of `ncu` with what is compared with each.
const COUNTERS: [(&str, fn(&Counts) -> u64); 17] = [
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", |counts| counts.global_loads.sectors),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", |counts| counts.global_loads.requests),
    ("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", |counts| counts.global_stores.sectors),
    ("l1tex__t_requests_pipe_lsu_mem_global_op_st.sum", |counts| counts.global_stores.requests),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", |counts| counts.shared_loads.wavefronts),
    ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum", |counts| counts.shared_stores.wavefronts),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum", |counts| counts.shared_loads.conflicts()),
    ("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum", |counts| counts.shared_stores.conflicts()),
    ("smsp__inst_executed_op_global_ld.sum", |counts| counts.count("ld.global")),
    ("smsp__inst_executed_op_global_st.sum", |counts| counts.count("st.global")),
    ("smsp__inst_executed_op_global_atom.sum", |counts| counts.count("atom.global")),
    ("smsp__inst_executed_op_shared_ld.sum", |counts| counts.count("ld.shared")),
    ("smsp__inst_executed_op_shared_st.sum", |counts| counts.count("st.shared")),
    ("smsp__inst_executed_op_shared_atom.sum", |counts| counts.count("atom.shared")),
    ("smsp__inst_executed_op_ldsm.sum", |counts| counts.count("ldmatrix")),
    ("smsp__inst_executed_op_ldgsts.sum", |counts| counts.count("cp.async")),
    ("sm__inst_executed_pipe_tensor.sum", |counts| counts.count("mma")),
];

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
    let x = device.upload(&vec![0_u32; WORDS])?;
    let mut y = device.upload(&vec![0_u32; WORDS])?;
    if expect {
        println!("kernel,counter,expected");
    }
    for kernel in KERNELS {
        // SAFETY: both buffers have `WORDS` words, and the grid is the one that the kernels expect.
        let mut launch = || unsafe { module.launch(kernel, Grid::new(BLOCKS, THREADS), (&x, &mut y)) };
        if !expect {
            launch()?;
            device.synchronize()?;
            println!("{}", kernel.name());
            continue;
        }
        let total = device.profile(launch)?.kernels[0].total();
        for (counter, of) in COUNTERS {
            println!("{},{counter},{}", kernel.name(), of(&total));
        }
    }
    Ok(())
}
