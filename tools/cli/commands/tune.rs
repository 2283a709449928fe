//! `moye tune`

use super::bench::{GpuArgument, declared};
use super::report::Report;
use anyhow::{Context, Result, bail};
use clap::Args;
use clap::error::ErrorKind;
use moye::operation::{Declaration, Plans};
use moye_bench::{Kind, Majors, Size};
use std::path::PathBuf;

#[derive(Args)]
pub struct Tune {
    /// Operations of `moye run` to tune, at the sizes that they declare; `matmul` with --sizes (and
    /// by default) at these
    #[arg(value_parser = declared::parser(), value_name = "OPERATION")]
    operations: Vec<&'static Declaration>,
    /// Element types, separated by commas (default: f16 for products, bf16 and f32 for operations).
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TYPES")]
    types: Vec<Kind>,
    /// Majors of A and B, as in BLAS: `tn`, `nt`, `nn` or `tt` (t: K of A, N of B is contiguous),
    /// separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "tn", value_name = "ORDERS")]
    majors: Vec<Majors>,
    /// Sizes of products, each `N` or `MxNxK`, separated by commas.
    #[arg(long, value_delimiter = ',', required_unless_present = "operations", value_name = "SIZES")]
    sizes: Vec<Size>,
    /// File for the plans; those for other problems stay (default: moye/tuning.json in the user's
    /// configuration folder).
    #[arg(long, value_name = "FILE.json")]
    file: Option<PathBuf>,
    #[command(flatten)]
    device: GpuArgument,
}

impl Tune {
    pub fn run(self) -> Result<()> {
        let works = if self.sizes.is_empty() {
            declared::works(&self.operations, &self.types)?
        } else if let Some(other) = self.operations.iter().find(|of| of.name != moye::MATMUL.name) {
            let said = format!(
                "the argument '--sizes <SIZES>' cannot be used with '{}', which is tuned at the sizes that it declares\n",
                other.name
            );
            clap::Error::raw(ErrorKind::ArgumentConflict, said).exit()
        } else {
            self.products()
        };
        let file = match self.file.or_else(Plans::default_path) {
            Some(file) => file,
            None => bail!("there is no home folder to keep tuning.json in; name a file with --file"),
        };
        // An unusable file is reported before the work.
        let mut plans = if file.exists() { Plans::load(&file)? } else { Plans::default() };
        let device = self.device.open("tune")?;
        let mut report = Report::to_stdout();
        report.line("device", format_args!("{} ({})", device.name(), device.arch()));
        for work in &works {
            let tuned = declared::tune(&device, work).with_context(|| work.to_string())?;
            if tuned.plans.is_empty() {
                report.line("tuned", format_args!("{work}: there is one plan, and nothing to choose"));
            }
            for failed in &tuned.failed {
                let (kernel, candidate) = (failed.kernel, failed.candidate + 1);
                report
                    .line("left out", format_args!("{work}: {kernel} (plan {candidate}): {}", failed.error));
            }
            for plan in tuned.plans {
                report.line(
                    "tuned",
                    format_args!(
                        "{work}: {} (plan {} of {}): {:.2} us; untuned {:.2} us",
                        plan.explained,
                        plan.candidate + 1,
                        plan.candidates,
                        plan.us,
                        plan.untuned_us
                    ),
                );
                plans.insert(plan);
            }
            // Saved as soon as it is known: the next one may take long.
            plans.save(&file)?;
        }
        report.line("file", format_args!("{}, {} plans", file.display(), plans.iter().len()));
        Ok(())
    }

    /// The products of the named sizes.
    fn products(&self) -> Vec<declared::Work> {
        let types = if self.types.is_empty() { &[Kind::F16][..] } else { &self.types };
        let mut works = Vec::new();
        for &kind in types {
            for &majors in &self.majors {
                works.extend(self.sizes.iter().map(|&size| declared::Work::product(kind, majors, size)));
            }
        }
        works
    }
}
