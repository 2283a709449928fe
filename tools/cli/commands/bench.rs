//! `moye bench`

mod attention;
pub mod declared;
mod parallel;

use super::output::Output;
use super::report::{self, Report};
use anyhow::{Result, anyhow, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use moye::operation::{Declaration, Plans};
use moye::{Device, DeviceChoice, driver};
use moye_bench::activation::Function;
use moye_bench::cublas::{Choice, Cublas, CublasLt, Peer};
use moye_bench::results::{self, Conditions};
use moye_bench::suite;
use moye_bench::{
    Epilogue, Facts, Kind, Majors, Measure, Monitor, Plan, Seen, Size, Work, cublas_has, host, plot,
};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Default sizes of products: small ones show launch overhead, large ones the GPU's rate.
const SIZES: [usize; 5] = [512, 1024, 2048, 4096, 8192];
/// Default sizes of copies and transposes.
const MATRICES: [usize; 3] = [1024, 4096, 16384];

#[derive(Args)]
pub struct Bench {
    /// What to measure.
    #[arg(value_parser = Named::parser(), value_name = "WORK")]
    work: Vec<Named>,
    /// Element types of products and of the operations of `moye run`, separated by commas;
    /// attention has bf16 and e4m3.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "TYPES")]
    types: Vec<Kind>,
    /// Majors of A and B, as in BLAS: `tn`, `nt`, `nn` or `tt` (t: K of A, N of B is contiguous),
    /// separated by commas (default: `tn`).
    #[arg(long, value_delimiter = ',', value_name = "ORDERS")]
    majors: Vec<Majors>,
    /// Sizes, each `N` or `MxNxK`, separated by commas. Copies and transposes take M x N
    /// matrices, attention takes M queries and N keys of a sequence; these ignore K.
    #[arg(long, value_delimiter = ',', value_name = "SIZES")]
    sizes: Vec<Size>,
    /// Bytes of an element to copy or transpose, separated by commas (default: 4).
    #[arg(long, value_delimiter = ',', value_name = "BYTES")]
    element_bytes: Vec<usize>,
    /// Add a bias. Products have one value for each row of C, which is column-major; attention has
    /// one for each pair of query and key.
    #[arg(long)]
    bias: bool,
    /// Activation of products.
    #[arg(long, value_enum, value_name = "FUNCTION")]
    activation: Option<Function>,
    /// Peer of products.
    #[arg(long, value_enum, default_value_t = Against::Cublas, value_name = "LIBRARY")]
    against: Against,
    /// Number of rounds; a figure is their median.
    #[arg(long, default_value_t = Plan::default().rounds as u32, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    rounds: u32,
    /// Warm-up of each side before it is timed, in milliseconds.
    #[arg(long, default_value_t = Plan::default().warm_up.as_millis() as u64, value_name = "MS")]
    warm_up: u64,
    /// Flush the L2 cache before each launch, and time launches separately.
    #[arg(long)]
    flush_l2: bool,
    /// Idle time before each 20 ms batch of launches, in milliseconds: after a few hundred the
    /// device runs at its full clock, which the power limit otherwise lowers.
    #[arg(long, default_value_t = 0, value_name = "MS")]
    rest: u64,
    /// Use the plans that `moye tune` has stored in this file.
    #[arg(long, value_name = "FILE.json")]
    tuning: Option<PathBuf>,
    /// Use the kernel of this name, as the table shows it (default: chosen by the heuristic).
    #[arg(long, value_name = "NAME", conflicts_with = "tuning")]
    kernel: Option<String>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Also write the rows as CSV.
    #[arg(long, value_name = "FILE.csv")]
    csv: Option<PathBuf>,
    /// Write a plot of rates over sizes as SVG.
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Overwrite files that exist.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    device: GpuArgument,
    #[command(flatten)]
    attention: attention::Cases,
}

/// The GPU to measure.
#[derive(Args)]
pub struct GpuArgument {
    /// The GPU, `gpu` or `gpu:N` (default: the environment variable MOYE_DEVICE; without it GPU 0).
    #[arg(long, value_name = "GPU")]
    device: Option<DeviceChoice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum What {
    /// Products of matrices
    Matmul,
    /// Host time of a call of a product, beside cuBLASLt's; --types, --majors and --sizes select
    /// the products
    Host,
    /// Products over all GPUs of this machine with their collectives, beside one rank's product
    /// alone
    Parallel,
    /// Copies, beside the driver's copy of the same number of bytes
    Copy,
    /// Transposes, beside the driver's copy of the same number of bytes
    Transpose,
    /// Attention: long prompts, tokens against a cache, a chunk of a prompt; with --types e4m3
    /// prompts in 8-bit floats
    Attention,
}

/// Work, or an operation of `moye run`.
#[derive(Clone, Copy)]
enum Named {
    What(What),
    Declared(&'static Declaration),
}

impl Named {
    /// Names of either kind.
    fn parser() -> impl TypedValueParser<Value = Self> {
        let whats = What::value_variants().iter().filter_map(What::to_possible_value);
        PossibleValuesParser::new(whats.chain(declared::names())).map(|name| {
            declared::named(&name).map_or_else(
                || Self::What(What::from_str(&name, false).expect("it is one of these names")),
                Self::Declared,
            )
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Against {
    /// cuBLAS's cublasGemmEx; for 8-bit floats, biases and activations, which it lacks, cuBLASLt
    Cublas,
    /// cuBLASLt with its heuristic's first choice
    Cublaslt,
    /// cuBLASLt without an algorithm or a workspace, as PyTorch's torch._int_mm calls it: it
    /// searches in each call
    CublasltDefault,
    /// No peer
    None,
}

impl GpuArgument {
    /// Opens the GPU.
    ///
    /// # Errors
    /// There is no GPU, or the device is the simulator, which measures no times of a GPU.
    pub fn open(&self, command: &str) -> Result<Device> {
        let choice = match self.device {
            Some(choice) => choice,
            None => DeviceChoice::from_env()?,
        };
        let index = match choice {
            DeviceChoice::Auto => 0,
            DeviceChoice::Gpu(index) => index,
            DeviceChoice::Sim => bail!(
                "`moye {command}` measures a GPU, and the device is the simulator, which cannot time kernels; name a GPU \
                 (--device gpu:N), or leave MOYE_DEVICE out"
            ),
        };
        Device::gpu(index).map_err(|reason| {
            // The part after the semicolon offers the simulator, which does not help here.
            let reason = reason.to_string();
            let reason = reason.split_once("; ").map_or(reason.as_str(), |(reason, _)| reason);
            anyhow!("`moye {command}` needs a GPU: {reason}; run it on a machine with a GPU and NVIDIA's driver (`moye doctor` checks both)")
        })
    }
}

impl Bench {
    pub fn run(self) -> Result<()> {
        if self.names(What::Host) {
            return self.host_times();
        }
        if self.names(What::Parallel) {
            if self.work.len() > 1 {
                bail!("`parallel` has a separate table: name it alone");
            }
            self.device.open("bench")?;
            return parallel::run(self.json);
        }
        let declared = self.declared()?;
        let works = if declared.is_empty() { self.works()? } else { Vec::new() };
        if let Some(file) = &self.tuning {
            Plans::load(file)?.apply();
        }
        let device = self.device.open("bench")?;
        let place =
            |path: &Option<PathBuf>| path.as_deref().map(|path| Output::create(path, self.force)).transpose();
        let (csv, plot) = (place(&self.csv)?, place(&self.plot)?);

        let peer = match self.against {
            Against::Cublas => Cublas::open(&device).map(Peer::Cublas),
            Against::Cublaslt => CublasLt::open(&device, Choice::Heuristic).map(Peer::CublasLt),
            Against::CublasltDefault => CublasLt::open(&device, Choice::Default).map(Peer::CublasLt),
            Against::None => Err(anyhow!("--against none")),
        };
        let epilogue = Epilogue::named(self.bias, self.activation);
        let lacks = |work: &Work| matches!(work, Work::Matmul { kind, .. } if !cublas_has(*kind, epilogue));
        let lt = (self.against == Against::Cublas && works.iter().any(lacks))
            .then(|| CublasLt::open(&device, Choice::Heuristic).map(Peer::CublasLt));
        let monitor = Monitor::open(&device);
        let facts = Facts::of(&device);
        // With JSON, standard output carries nothing else.
        let mut report = if self.json { Report::to_stderr() } else { Report::to_stdout() };
        let conditions = self.conditions(&device, monitor.as_ref());
        // With an epilogue, all products use the other library.
        let beside = match &lt {
            Some(lt) if !epilogue.is_nothing() => lt.as_ref(),
            _ => peer.as_ref(),
        };
        tell(&mut report, &conditions, &facts, beside.map(Peer::name), self.warm_up);
        let measure = Measure {
            device: &device,
            plan: Plan {
                warm_up: Duration::from_millis(self.warm_up),
                rounds: self.rounds as usize,
                flush_l2: self.flush_l2,
                rest: Duration::from_millis(self.rest),
                ..Plan::default()
            },
            peer: peer.as_ref().ok(),
            no_peer: peer.as_ref().err().map(|error| format!("{error:#}")),
            lt: lt.as_ref(),
            epilogue,
            facts: facts.ok(),
            monitor: monitor.as_ref().ok(),
            kernel: self.kernel.as_deref(),
        };
        let (mut rows, mut failed) = (Vec::new(), Vec::new());
        let products = works.iter().map(|work| measure.row(work));
        let operations = declared.iter().map(|work| declared::row(&device, work, measure.monitor));
        for row in products.chain(operations) {
            // Earlier and later measurements are kept.
            let row = match row {
                Ok(row) => row,
                Err(error) => {
                    report.line("failed", format_args!("{error:#}"));
                    failed.push(error);
                    continue;
                }
            };
            report.line("measured", format_args!("{}: {:.1} {}", row.what(), row.moye.median, row.unit));
            if let Some(reason) = &row.no_peer
                && self.against != Against::None
                && measure.peer.is_some()
            {
                report.line("", reason);
            }
            rows.push(row);
        }
        if rows.is_empty() && !failed.is_empty() {
            return Err(failed.swap_remove(0));
        }
        if self.json {
            report::print(&format!("{:#}\n", results::json(&conditions, &rows)));
        } else {
            report::print(&format!("\n{}\n", results::table(&rows)));
        }
        if let Some(monitor) = measure.monitor {
            report.line("after", monitor.look());
        }
        // Last, so that an unwritable file loses no measurement.
        if let Some(output) = csv {
            output.write_text(&results::csv(&conditions, &rows))?;
        }
        if let Some(output) = plot {
            output.write_text(&plot::svg(&conditions, &rows)?)?;
        }
        match failed.len() {
            0 => Ok(()),
            count => {
                let first = failed.swap_remove(0);
                let all = rows.len() + count;
                Err(first.context(format!("{count} of {all} rows failed; the first")))
            }
        }
    }

    /// Measures calls by the host's clock, and prints the times.
    fn host_times(&self) -> Result<()> {
        if self.work.len() > 1 {
            bail!("`host` has a separate table: name it alone");
        }
        let cases: Vec<_> = if self.types.is_empty() && self.majors.is_empty() && self.sizes.is_empty() {
            host::CASES.to_vec()
        } else {
            self.products()
        };
        let device = self.device.open("bench")?;
        let peer = match self.against {
            Against::None => Err(anyhow!("--against none")),
            Against::CublasltDefault => CublasLt::open(&device, Choice::Default).map(Peer::CublasLt),
            _ => CublasLt::open(&device, Choice::Heuristic).map(Peer::CublasLt),
        };
        let mut costs = Vec::new();
        for case in cases {
            let peer = peer.as_ref().map_err(|reason| format!("{reason:#}"));
            costs.push(host::cost(&device, self.rounds as usize, peer, case)?);
        }
        let text = if self.json { format!("{:#}\n", host::json(&costs)) } else { host::table(&costs) };
        report::print(&text);
        Ok(())
    }

    /// Whether this work is named.
    fn names(&self, what: What) -> bool {
        self.work.iter().any(|named| matches!(named, Named::What(named) if *named == what))
    }

    /// The measurements of operations of `moye run`, if any is named.
    ///
    /// # Errors
    /// Other work is named too, or an option that is for other work.
    fn declared(&self) -> Result<Vec<declared::Work>> {
        let operations: Vec<_> = self
            .work
            .iter()
            .filter_map(|named| match named {
                Named::Declared(declaration) => Some(*declaration),
                Named::What(_) => None,
            })
            .collect();
        let Some(first) = operations.first() else { return Ok(Vec::new()) };
        let takes_others = !(self.majors.is_empty()
            && self.sizes.is_empty()
            && self.element_bytes.is_empty()
            && self.kernel.is_none()
            && !self.flush_l2
            && self.rest == 0
            && Epilogue::named(self.bias, self.activation).is_nothing()
            && !self.attention.is_given());
        if takes_others {
            bail!(
                "{} is measured at the sizes that it declares, with --types and --tuning alone: leave the other options out",
                first.name
            );
        }
        if operations.len() < self.work.len() {
            bail!(
                "{} is an operation of `moye run`: measure products, copies and attention apart",
                first.name
            );
        }
        declared::works(&operations, &self.types)
    }

    /// The measurements.
    ///
    /// # Errors
    /// An option does not apply to the requested work.
    fn works(&self) -> Result<Vec<Work>> {
        let named = !(self.work.is_empty()
            && self.types.is_empty()
            && self.majors.is_empty()
            && self.sizes.is_empty()
            && self.element_bytes.is_empty()
            && self.kernel.is_none()
            && Epilogue::named(self.bias, self.activation).is_nothing()
            && !self.attention.is_given());
        if !named {
            return Ok(suite::rows());
        }
        let moves = self.names(What::Copy) || self.names(What::Transpose);
        let multiplies = self.work.is_empty() || self.names(What::Matmul);
        let attends = self.names(What::Attention);
        if !attends && self.attention.is_given() {
            bail!(
                "an option of attention is given, and attention is not named: add `attention`, or leave the option out"
            );
        }
        if attends && !multiplies && !matches!(self.types[..], [] | [Kind::Bf16] | [Kind::E4m3]) {
            bail!("attention is measured of bf16 and of e4m3: give one of them by --types");
        }
        if !multiplies && !attends && !self.types.is_empty() {
            bail!("--types is for products, and none is named: add `matmul`, or use --element-bytes");
        }
        if !multiplies && !self.majors.is_empty() {
            bail!("--majors is for products, and none is named: add `matmul`, or leave it out");
        }
        if !multiplies && self.kernel.is_some() {
            bail!("--kernel is for products, and none is named: add `matmul`, or leave it out");
        }
        if !multiplies && !Epilogue::named(self.bias && !attends, self.activation).is_nothing() {
            bail!(
                "--bias and --activation are for products, and none is named: add `matmul`, or leave them out"
            );
        }
        let is_smooth = matches!(self.activation, Some(function) if !matches!(function, Function::Relu));
        if is_smooth && self.types.contains(&Kind::I8) {
            bail!(
                "--activation gelu, gelu_tanh and silu are for floats, and the product of i8 is int32; use relu, or other types"
            );
        }
        if !moves && !self.element_bytes.is_empty() {
            bail!(
                "--element-bytes is for copies and transposes, and none is named: add `copy` or `transpose`"
            );
        }
        let mut works = Vec::new();
        let what = if self.work.is_empty() { &[Named::What(What::Matmul)][..] } else { &self.work };
        for what in what {
            let Named::What(what) = what else { continue };
            match what {
                What::Matmul => {
                    let products = self.products().into_iter();
                    works.extend(products.map(|host::Case { kind, majors, size }| Work::Matmul {
                        kind,
                        majors,
                        size,
                    }));
                }
                What::Attention => {
                    let cases = self.attention.all(&self.sizes, self.bias, self.types == [Kind::E4m3]);
                    works.extend(cases.into_iter().map(Work::Attention));
                }
                What::Host | What::Parallel => {
                    bail!("`host` and `parallel` have separate tables: name one alone")
                }
                What::Copy | What::Transpose => {
                    let widths = if self.element_bytes.is_empty() { &[4][..] } else { &self.element_bytes };
                    for &bytes in widths {
                        for Size { m: rows, n: cols, .. } in self.sizes_or(&MATRICES) {
                            works.push(match what {
                                What::Copy => Work::Copy { bytes, rows, cols },
                                _ => Work::Transpose { bytes, rows, cols },
                            });
                        }
                    }
                }
            }
        }
        Ok(works)
    }

    /// The requested products: each type with each pair of majors and each size.
    fn products(&self) -> Vec<host::Case> {
        let kinds = if self.types.is_empty() { &[Kind::F32][..] } else { &self.types };
        let orders = if self.majors.is_empty() { &[Majors::TN][..] } else { &self.majors };
        let mut products = Vec::new();
        for &kind in kinds {
            for &majors in orders {
                products.extend(self.sizes_or(&SIZES).into_iter().map(|size| host::Case {
                    kind,
                    majors,
                    size,
                }));
            }
        }
        products
    }

    /// The requested sizes, or these defaults.
    fn sizes_or(&self, otherwise: &[usize]) -> Vec<Size> {
        match &self.sizes[..] {
            [] => otherwise.iter().copied().map(Size::cube).collect(),
            given => given.to_vec(),
        }
    }

    fn conditions(&self, device: &Device, monitor: Result<&Monitor, &String>) -> Conditions {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        Conditions {
            device: device.name().to_owned(),
            arch: device.arch().to_string(),
            multiprocessors: device.properties().multiprocessors,
            driver: driver::version().ok(),
            date: results::date(now),
            rounds: self.rounds as usize,
            flush_l2: self.flush_l2,
            rest_ms: self.rest,
            before: monitor.map_or_else(|_| Seen::default(), Monitor::look),
            unseen: monitor.err().cloned(),
            moye: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// Prints the device and the method.
fn tell(
    report: &mut Report,
    conditions: &Conditions,
    facts: &Result<Facts>,
    peer: Result<&str, &anyhow::Error>,
    warm_up: u64,
) {
    let Conditions { device, arch, multiprocessors, date, rounds, .. } = conditions;
    let driver = conditions
        .driver
        .map_or(String::new(), |(major, minor)| format!(", driver for CUDA {major}.{minor}"));
    report.line("device", format_args!("{device} ({arch}, {multiprocessors} SMs){driver}"));
    report.line("date", date);
    let flushed = if conditions.flush_l2 { ", L2 flushed before each launch" } else { "" };
    let rested = match conditions.rest_ms {
        0 => String::new(),
        rest => format!(", {rest} ms of rest before each batch"),
    };
    report.line(
        "how",
        format_args!("medians of {rounds} rounds in turn, {warm_up} ms of warm-up{flushed}{rested}"),
    );
    match facts {
        Ok(facts) if facts.clock > 0.0 && facts.memory_rate > 0.0 => report.line(
            "limits",
            format_args!("{:.0} MHz at most, memory {:.0} GB/s", facts.clock / 1e6, facts.memory_rate / 1e9),
        ),
        Ok(_) => report.line("limits", "not known: the driver reports no clocks"),
        Err(error) => report.line("limits", format_args!("not known: {error:#}")),
    }
    match &conditions.unseen {
        None => report.line("before", conditions.before),
        Some(reason) => report.line("before", format_args!("clocks and temperature are left out: {reason}")),
    }
    match peer {
        Ok(name) => report.line("beside", name),
        Err(reason) => report.line("beside", format_args!("nothing for products: {reason:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        bench: Bench,
    }

    fn works(arguments: &[&str]) -> Vec<Work> {
        let program = <Program as clap::Parser>::parse_from([&["bench"], arguments].concat());
        program.bench.works().unwrap()
    }

    #[test]
    fn an_option_that_does_not_apply_is_refused() {
        for (arguments, says) in [
            (&["copy", "--types", "f16"][..], "--types is for products"),
            (&["copy", "transpose", "--majors", "nt"], "--majors is for products"),
            (&["--element-bytes", "2"], "--element-bytes is for copies and transposes"),
            (&["matmul", "--element-bytes", "2"], "add `copy` or `transpose`"),
            (&["copy", "--kernel", "sgemm_nt"], "--kernel is for products"),
            (&["copy", "--bias"], "--bias and --activation are for products"),
            (&["transpose", "--activation", "relu"], "--bias and --activation are for products"),
            (&["--types", "f16,i8", "--activation", "gelu"], "use relu, or other types"),
        ] {
            let program = <Program as clap::Parser>::parse_from([&["bench"], arguments].concat());
            let said = program.bench.works().unwrap_err().to_string();
            assert!(said.contains(says), "{arguments:?}: {said}");
        }
    }

    #[test]
    fn options_of_attention_are_for_attention() {
        for arguments in [&["copy", "--head-dim", "64"][..], &["--softcap", "30"], &["matmul", "--causal"]] {
            let program = <Program as clap::Parser>::parse_from([&["bench"], arguments].concat());
            let said = program.bench.works().unwrap_err().to_string();
            assert!(said.ends_with("add `attention`, or leave the option out"), "{arguments:?}: {said}");
        }
        let default = works(&["attention"]).len();
        assert_eq!(works(&["attention", "--sizes", "1x8192x1", "--head-dim", "80,96", "--bias"]).len(), 2);
        assert_eq!(works(&["attention", "matmul", "--sizes", "512"]).len(), 3 + 1);
        assert!(default > 30, "{default}");
    }

    #[test]
    fn works_are_all_combinations_and_the_suite_where_nothing_is_named() {
        assert_eq!(works(&[]).len(), suite::rows().len());
        assert_eq!(works(&["--flush-l2"]).len(), suite::rows().len());
        let product = |kind, majors, size| Work::Matmul { kind, majors, size };
        let size = Size { m: 1, n: 2, k: 3 };
        assert_eq!(
            works(&["--types", "f16,i8", "--majors", "nt", "--sizes", "1x2x3,64"]),
            [
                product(Kind::F16, Majors::NT, size),
                product(Kind::F16, Majors::NT, Size::cube(64)),
                product(Kind::I8, Majors::NT, size),
                product(Kind::I8, Majors::NT, Size::cube(64)),
            ]
        );
        assert_eq!(works(&["--types", "f64"]).len(), SIZES.len());
        assert_eq!(works(&["--bias", "--activation", "relu"]).len(), SIZES.len());
        assert_eq!(
            works(&["copy", "transpose", "--sizes", "8x9x1", "--element-bytes", "4,2"]),
            [
                Work::Copy { bytes: 4, rows: 8, cols: 9 },
                Work::Copy { bytes: 2, rows: 8, cols: 9 },
                Work::Transpose { bytes: 4, rows: 8, cols: 9 },
                Work::Transpose { bytes: 2, rows: 8, cols: 9 },
            ]
        );
    }
}
