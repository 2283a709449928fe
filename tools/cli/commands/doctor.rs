//! `moye doctor`

use super::built_in;
use super::report::Report;
use anyhow::{Result, bail};
use clap::Args;
use moye::driver::DriverCode;
use moye::{Device, Error, driver};
use moye_build::core_source::CoreSource;
use moye_build::report::Ptxas;
use moye_build::{BuildError, core_source};
use std::env;

/// Checks everything; fails if a component is missing that is required without a GPU too.
#[derive(Args)]
pub struct Doctor {}

/// The result of one check.
enum Finding {
    /// The component is present.
    Ok(String),
    /// The component is missing: the consequence, and the way to fix it.
    Missing { what: String, without: &'static str, fix: String },
}

/// Prints a result; returns whether the component is present.
fn tell(report: &mut Report, name: &str, finding: Finding) -> bool {
    let name = format!("{name:<12}");
    match finding {
        Finding::Ok(what) => {
            report.line(&name, format_args!("ok       {what}"));
            true
        }
        Finding::Missing { what, without, fix } => {
            report.line(&name, format_args!("missing  {what}"));
            report.line("", format_args!("{:13}{without}", ""));
            report.line("", format_args!("{:13}to fix it: {fix}", ""));
            false
        }
    }
}

impl Doctor {
    pub fn run(self) -> Result<()> {
        let mut report = Report::to_stdout();
        let compiler = tell(&mut report, "rustc", rustc());
        let source = tell(&mut report, "core source", source_of_core());
        tell(&mut report, "ptxas", ptxas());
        if tell(&mut report, "driver", driver()) {
            gpus(&mut report);
        } else {
            report.line("GPU         ", "unknown  no driver to ask");
        }
        report.line("simulator   ", "ok       runs every kernel on the CPU");
        if !(compiler && source) {
            bail!("kernels cannot be compiled here; compiled programs run");
        }
        Ok(())
    }
}

fn rustc() -> Finding {
    match core_source::compiler_version() {
        Ok(version) => Finding::Ok(version),
        Err(error) => Finding::Missing {
            what: error.to_string(),
            without: "Without it nothing can be compiled; this program still runs.",
            fix: "install Rust from https://rustup.rs".to_owned(),
        },
    }
}

fn source_of_core() -> Finding {
    let missing = |what: String, fix: &str| Finding::Missing {
        what: what.lines().next().unwrap_or_default().to_owned(),
        without: "Without it no kernel can be compiled to PTX; compiled programs run.",
        fix: fix.to_owned(),
    };
    let install = "`rustup component add rust-src`, or `cargo xtask setup` in a checkout of moye";
    let folder = match env::current_dir() {
        Ok(folder) => folder,
        Err(error) => return missing(error.to_string(), install),
    };
    match core_source::find(&folder) {
        // Only crates that depend on this program's checkout search there.
        Ok(CoreSource { library, .. })
            if library.starts_with(built_in()) && !folder.starts_with(built_in()) =>
        {
            Finding::Ok(format!(
                "{}, from the checkout in which this program was built; for crates that do not depend on that checkout set {} to it",
                library.display(),
                core_source::VARIABLE
            ))
        }
        Ok(source) => Finding::Ok(source.library.display().to_string()),
        Err(error @ BuildError::CoreSourceUnusable { .. })
            if env::var_os(core_source::VARIABLE).is_some() =>
        {
            missing(
                error.to_string(),
                "set MOYE_RUST_SRC to the folder `library` in the source of that version, or unset it",
            )
        }
        Err(error @ BuildError::CoreSourceUnusable { .. }) => {
            missing(error.to_string(), "remove that folder; `cargo xtask setup` fetches the right one")
        }
        Err(error) => missing(error.to_string(), install),
    }
}

fn ptxas() -> Finding {
    match Ptxas::find() {
        Some(ptxas) if !ptxas.path().is_file() => Finding::Missing {
            what: format!("MOYE_PTXAS names {}, which is not a file", ptxas.path().display()),
            without: "Without it reports on kernels lack registers and spills; compiling and running do not need it.",
            fix: "set MOYE_PTXAS to the program, or unset it to search the usual places".to_owned(),
        },
        Some(ptxas) => Finding::Ok(ptxas.path().display().to_string()),
        None => Finding::Missing {
            what: "not in PATH, CUDA_PATH or a Python environment".to_owned(),
            without: "Without it reports on kernels lack registers and spills; compiling and running do not need it.",
            fix: "`pip install nvidia-cuda-nvcc`, or install the CUDA toolkit".to_owned(),
        },
    }
}

fn driver() -> Finding {
    match driver::version() {
        Ok((major, minor)) => Finding::Ok(format!("for CUDA {major}.{minor}")),
        Err(Error::NoDriver { file, reason }) => Finding::Missing {
            what: format!("cannot open {file} ({reason})"),
            without: "Without it no GPU can be used; the simulator still runs.",
            fix: "install the NVIDIA driver for the GPU; a container must be started with the GPU passed in"
                .to_owned(),
        },
        Err(error) => Finding::Missing {
            fix: match error {
                Error::DriverTooOld { .. } => "update the NVIDIA driver".to_owned(),
                _ => "install the NVIDIA driver again".to_owned(),
            },
            what: error.to_string(),
            without: "Without it no GPU can be used; the simulator still runs.",
        },
    }
}

/// Compiles a small kernel, because only that shows whether the driver accepts the kernels' PTX. A
/// program without operations has no kernel.
fn accepts_ptx(device: &Device) -> moye::Result<()> {
    #[cfg(feature = "operations")]
    device.attributes(&moye::kernels::copy)?;
    let _ = device;
    Ok(())
}

/// Reports on every GPU.
fn gpus(report: &mut Report) {
    let missing = |error: &Error| {
        Finding::Missing {
        what: error.to_string(),
        without: "Without it the simulator is used.",
        fix: match error {
            Error::GpuTooOld { .. } => "use a GPU of sm_80 (Ampere) or newer".to_owned(),
            Error::DriverTooOld { .. } => "update the NVIDIA driver".to_owned(),
            Error::PtxVersion { needs, .. } => {
                format!("update the NVIDIA driver to one of CUDA {needs} or newer")
            }
            Error::PtxRefused { log, .. } if log.is_empty() => "update the NVIDIA driver".to_owned(),
            Error::PtxRefused { .. } => {
                "update the NVIDIA driver; if it still refuses this kernel, its log above says why".to_owned()
            }
            Error::KernelFault { .. } => {
                "restart the program: after a kernel's fault its process cannot use the GPU any more".to_owned()
            }
            Error::Driver { code: DriverCode::OUT_OF_MEMORY, .. } => {
                "free memory of the GPU: `nvidia-smi` lists the processes that use it".to_owned()
            }
            _ => "see `nvidia-smi` for the driver's view, and CUDA_VISIBLE_DEVICES for the GPUs that it may use"
                .to_owned(),
        },
    }
    };
    let count = match Device::gpu_count() {
        Ok(count) => count,
        Err(error) => {
            tell(report, "GPU", missing(&error));
            return;
        }
    };
    for index in 0..count {
        let device = Device::gpu(index).and_then(|device| accepts_ptx(&device).map(|()| device));
        let finding = match device {
            Err(error) => missing(&error),
            Ok(device) => {
                let properties = device.properties();
                let memory = properties.memory_bytes.unwrap_or(0) >> 20;
                let (name, arch, multiprocessors) =
                    (&properties.name, properties.arch, properties.multiprocessors);
                Finding::Ok(format!("{name}, {arch}, {multiprocessors} SMs, {memory} MiB of memory"))
            }
        };
        tell(report, &format!("GPU {index}"), finding);
    }
}
