//! `moye tune`

use super::bench::GpuArgument;
use super::report::Report;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use moye::{Choice, Tuning};
use moye_bench::{Kind, Majors, Plan, Size};
use moye_tune::{Found, Way};
use std::path::PathBuf;

#[derive(Args)]
pub struct Tune {
    /// Element types of products, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "f16", value_name = "TYPES")]
    types: Vec<Kind>,
    /// Majors of A and B, as in BLAS: `tn`, `nt`, `nn` or `tt` (t: K of A, N of B is contiguous),
    /// separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "tn", value_name = "ORDERS")]
    majors: Vec<Majors>,
    /// Sizes, each `N` or `MxNxK`, separated by commas.
    #[arg(long, value_delimiter = ',', required = true, value_name = "SIZES")]
    sizes: Vec<Size>,
    /// File for the choices; existing entries for other problems stay (default: moye/tuning.json in
    /// the user's configuration folder).
    #[arg(long, value_name = "FILE.json")]
    file: Option<PathBuf>,
    #[command(flatten)]
    device: GpuArgument,
}

impl Tune {
    pub fn run(self) -> Result<()> {
        let file = tuning_file(self.file)?;
        // An unusable file is reported before the work.
        let mut tuning = if file.exists() { Tuning::load(&file)? } else { Tuning::default() };
        let device = self.device.open("tune")?;
        let mut report = Report::to_stdout();
        report.line("device", format_args!("{} ({})", device.name(), device.arch()));
        for &kind in &self.types {
            for &majors in &self.majors {
                for &size in &self.sizes {
                    let found = moye_tune::search(&device, kind, majors, size, Plan::default())
                        .with_context(|| format!("{kind} {majors} {size}"))?;
                    let Found { problem, best: Way { tile, splits }, seconds, untuned, tried } = found;
                    tuning.insert(&device, problem, Choice { tile, splits, seconds });
                    // Save each result as soon as it is known: the next one may take long.
                    tuning.save(&file)?;
                    let operations = 2.0 * size.m as f64 * size.n as f64 * size.k as f64 / 1e12;
                    report.line(
                        "tuned",
                        format_args!(
                            "{kind} {majors} {size}: tile {}x{}, {splits} slices: {:.1} {}, the fastest of {tried}; untuned tile {}x{}, {} slices: {:.1}",
                            tile.0,
                            tile.1,
                            operations / seconds,
                            kind.unit(),
                            untuned.0.tile.0,
                            untuned.0.tile.1,
                            untuned.0.splits,
                            operations / untuned.1,
                        ),
                    );
                }
            }
        }
        report.line("file", format_args!("{}, {} choices", file.display(), tuning.len()));
        Ok(())
    }
}

/// The named file, or the user's.
pub fn tuning_file(named: Option<PathBuf>) -> Result<PathBuf> {
    named
        .or_else(Tuning::default_path)
        .ok_or_else(|| anyhow!("there is no home folder to keep tuning.json in; name a file with --file"))
}
