//! The command line: one file for each command.

mod atoms;
#[cfg(feature = "operations")]
mod bench;
mod doctor;
mod draw;
#[cfg(feature = "run")]
#[cfg_attr(not(feature = "operations"), allow(dead_code, reason = "used only by `moye matmul`"))]
mod dtype;
mod eval;
#[cfg(feature = "run")]
#[cfg_attr(not(feature = "operations"), allow(dead_code, reason = "used only by `moye matmul`"))]
mod input;
mod interrupt;
#[cfg(feature = "operations")]
mod matmul;
mod new;
#[cfg(feature = "run")]
#[cfg_attr(not(feature = "operations"), allow(dead_code, reason = "used only by `moye matmul`"))]
mod npy;
#[cfg(feature = "run")]
mod number;
mod output;
#[cfg(feature = "operations")]
mod product;
#[cfg(feature = "operations")]
mod profile;
#[cfg(feature = "run")]
#[cfg_attr(not(feature = "operations"), allow(dead_code, reason = "used only by `moye matmul`"))]
mod progress;
mod ptx_report;
#[cfg(feature = "operations")]
mod reference;
mod report;
#[cfg(feature = "run")]
#[cfg_attr(
    not(feature = "operations"),
    allow(dead_code, reason = "used only by the operations that are commands")
)]
mod run;
#[cfg(feature = "run")]
mod transfer;
#[cfg(feature = "operations")]
mod tune;

use anyhow::Result;
#[cfg(feature = "run")]
use clap::Args;
use clap::{Parser, Subcommand};
#[cfg(feature = "run")]
use moye::{Device, DeviceChoice};
#[cfg(feature = "run")]
use report::Report;
use std::path::Path;

/// Matrix kernels written in Rust, on a GPU or its CPU simulator.
#[derive(Parser)]
#[command(name = "moye", version, arg_required_else_help = true)]
#[cfg_attr(
    not(feature = "run"),
    command(after_help = "This program was built without the feature `operations`: it runs no operation.")
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Multiply two matrices: NumPy's `a @ b` for two-dimensional files of float16, bfloat16,
    /// float32, float64, int8, float8_e4m3fn or float8_e5m2.
    #[cfg(feature = "operations")]
    Matmul(Box<matmul::Matmul>),
    #[cfg(feature = "operations")]
    #[command(flatten)]
    Named(run::Named),
    /// Run an operation on NumPy files: `moye run softmax x.npy -o y.npy --axis -1`.
    #[cfg(feature = "run")]
    Run(run::Run),
    /// Measure products, copies and transposes on a GPU, beside cuBLAS and the driver.
    ///
    /// Both sides run in one process, in turn, on random data, and each result is checked before it
    /// is timed. Without arguments, the rows of the performance table are measured.
    ///
    /// cuBLAS is loaded when the command starts: from LD_LIBRARY_PATH and the system's folders, or
    /// from MOYE_CUBLAS, which names libcublas.so.13 (or .12) or its folder. Without it, only our
    /// side is measured.
    #[cfg(feature = "operations")]
    Bench(Box<bench::Bench>),
    /// Try every plan of operations on a GPU, for products each tile with each number of split-K
    /// slices, and store the fastest in a file.
    ///
    /// The results of each plan are compared with those of the untuned one before it is timed. Only
    /// `--tuning FILE` of `moye matmul`, `moye run` and `moye bench`, and the library's
    /// `Plans::apply` use the file.
    #[cfg(feature = "operations")]
    Tune(Box<tune::Tune>),
    /// Draw a layout, a thread-value layout, a tiled copy, a matrix instruction, a swizzle or
    /// shared memory by bank.
    Draw(Box<draw::Draw>),
    /// Evaluate expressions of layouts: `moye eval 'composition((6,2):(8,2), (4,3):(3,1))'`.
    Eval(eval::Eval),
    /// List the matrix instructions: names, architectures, registers, thread-value layouts.
    Atoms(atoms::Atoms),
    /// Report what the kernels of a crate, or of a PTX file, use on a GPU: registers, spills,
    /// memory, instructions; and slow code with its source line.
    Report(ptx_report::PtxReport),
    /// Profile an operation without a GPU: the simulator counts sectors, bank conflicts,
    /// instructions and tensor-core operations by source line, with occupancy and a roofline for a
    /// named card.
    #[cfg(feature = "operations")]
    Profile(profile::Profile),
    /// Write a new crate with a kernel, its test on the simulator, and a program:
    /// `moye new my-kernels`.
    New(new::New),
    /// Check compiler, PTX tools, driver and GPU, and say how to fix what is missing.
    Doctor(doctor::Doctor),
}

impl Cli {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        interrupt::outlive_the_limit_of_files();
        match self.command {
            #[cfg(feature = "operations")]
            Command::Matmul(command) => command.run(),
            #[cfg(feature = "operations")]
            Command::Named(command) => command.run(),
            #[cfg(feature = "run")]
            Command::Run(command) => command.run(),
            #[cfg(feature = "operations")]
            Command::Bench(command) => command.run(),
            #[cfg(feature = "operations")]
            Command::Tune(command) => command.run(),
            Command::Draw(command) => command.run(),
            Command::Eval(command) => command.run(),
            Command::Atoms(command) => command.run(),
            Command::Report(command) => command.run(),
            #[cfg(feature = "operations")]
            Command::Profile(command) => command.run(),
            Command::New(command) => command.run(),
            Command::Doctor(command) => command.run(),
        }?;
        report::told()
    }
}

/// The checkout in which this program was built: two folders above its package. A package from a
/// registry has no checkout there.
fn built_in() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package)
}

/// The device of a command.
#[cfg(feature = "run")]
#[derive(Args)]
struct DeviceArgument {
    /// Device: `auto`, `gpu`, `gpu:N` or `sim` (default: the environment variable MOYE_DEVICE;
    /// without it GPU 0 if it is usable, otherwise the simulator).
    #[arg(long, value_name = "DEVICE")]
    device: Option<DeviceChoice>,
}

#[cfg(feature = "run")]
impl DeviceArgument {
    /// Opens the device and reports which one it is.
    fn open(&self, report: &mut Report) -> Result<Device> {
        let device = match self.device {
            Some(choice) => Device::choose(choice)?,
            None => Device::open()?,
        };
        match device.why_simulated() {
            None if device.is_gpu() => {
                report.line("device", format_args!("{} ({})", device.name(), device.arch()))
            }
            None => report.line("device", device.name()),
            Some(reason) => {
                // The part after the semicolon is advice, which is not needed here.
                let reason = reason.to_string();
                let reason = reason.split_once("; ").map_or(reason.as_str(), |(reason, _)| reason);
                report.line("device", format_args!("{} ({reason})", device.name()));
            }
        }
        Ok(device)
    }
}
