//! The operation's time on a GPU: `cargo bench`. `cargo test` runs this program too, and there, as
//! without a GPU, it measures a small case.

use moye::operation::measure;
use moye::{Device, Result};
use new_kernels::silu::SILU;

fn main() -> Result<()> {
    let device = Device::open()?;
    let is_bench = device.is_gpu() && std::env::args().any(|argument| argument == "--bench");
    let cases = if is_bench { SILU.bench } else { &SILU.cases[..1] };
    for case in cases {
        for &dtype in SILU.operands[0].dtypes {
            let measured = measure(&SILU, &device, case, dtype)?;
            println!(
                "{} of {:?} {dtype}: {:.1?}, {:.0} GB/s",
                measured.kernel,
                case.inputs[0].unwrap_or_default(),
                measured.time,
                measured.rate()
            );
        }
    }
    println!("on {}", device.name());
    Ok(())
}
