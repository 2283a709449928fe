//! `cargo xtask test`: every check and every test that the machine can run.

use crate::checkout::Checkout;
use crate::steps::{Summary, must, name};
use crate::{adding, language, own_kernels, packages, ptx, ptxas, python, setup, transcript};
use anyhow::{Result, bail};
use std::env::consts::EXE_EXTENSION;
use std::process::{Command, ExitCode, Stdio};

/// The steps, in the order they run: fast steps that find most mistakes run first. Steps without
/// PTX precede those with it: otherwise the operations would be built again.
const STEPS: &[&str] = &[
    "format",
    "language",
    "lints",
    "docs",
    "tests",
    "doctests",
    "examples",
    "transcript",
    "own-kernels",
    "candle",
    "hopper-steps",
    "python",
    "adding",
    "packages",
];

/// The step that runs in parallel with others.
const PACKAGES: &str = "packages";
/// The first of these other steps.
const BESIDE_PACKAGES: &str = "transcript";

/// The examples: first the ones that a new user runs, then all steps of the ladder; each asserts
/// its result.
const EXAMPLES: &[&str] = &["copy", "transpose", "matmul", "cudarc", "ladder"];

/// All packages, with the features that are off by default. Every step uses these options, so that
/// nothing is built twice. Tests, examples and the bundle launch through `cust`; the steps
/// `packages`, `own-kernels` and `python` launch through the library's bindings.
pub const ALL: &[&str] = &["--workspace", "--features", "attention,cudarc,cust,ladder,xtask/spelling"];
/// The features that clippy checks: everything except the dictionary of misspelt words, which takes
/// 47 s.
const LINTED: &[&str] = &["--workspace", "--features", "attention,cudarc,cust,ladder"];
/// The targets that are built as programs.
pub const PROGRAMS: &[&str] = &["--examples", "--bins"];

/// The arguments by which clippy denies all of its warnings.
const CLIPPY: &[&str] = &["--", "-D", "warnings"];

/// The package with products of candle's tensors.
const CANDLE: &str = "moye-candle";
/// The package of the guide's steps on Hopper.
const HOPPER_STEPS: &str = "hopper-steps";

pub fn run(checkout: &Checkout, wanted: &[String]) -> Result<ExitCode> {
    if let Some(unknown) = wanted.iter().find(|step| !STEPS.contains(&step.as_str())) {
        bail!("there is no step `{unknown}`; the steps are {}", STEPS.join(", "));
    }
    setup::core_source(checkout)?;
    let mut summary = Summary::default();
    let ptxas = match ptxas::ensure(checkout) {
        Ok(()) => true,
        Err(error) => {
            summary.skip(format!(
                "ptxas's reports on kernels (registers, spills, oldest architectures): it cannot be fetched: {error:#}"
            ));
            false
        }
    };
    // Python is probed only if tests that need it are run.
    let runs_tests = wanted.is_empty() || wanted.iter().any(|step| step == "tests");
    let tools = Tools { ptxas, python: runs_tests && has_python() };
    if runs_tests && !tools.python {
        summary.skip("the reasons for differences from ncu: there is no Python (set PYTHON)".to_owned());
    }
    let is_wanted = |step: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == step);
    std::thread::scope(|scope| {
        let mut packaged = None;
        for step in STEPS.iter().filter(|step| is_wanted(step)) {
            // `packages` builds in a separate target directory, in parallel with the steps before
            // it, which leave a core idle when one crate takes long.
            if is_wanted(PACKAGES) && packaged.is_none() && (*step == BESIDE_PACKAGES || *step == PACKAGES) {
                packaged = Some(scope.spawn(|| packages::run(checkout)));
            }
            // A step that is named fails if its tool is missing.
            let missing = missing_tool(checkout, step).filter(|_| wanted.is_empty());
            match packaged.take_if(|_| *step == PACKAGES) {
                Some(packaged) => summary.step(
                    "packages: a program is built of what a registry would have, in parallel with other steps",
                    || packaged.join().unwrap_or_else(|_| bail!("it panicked")),
                ),
                None => run_step(checkout, step, missing, !wanted.is_empty(), tools, &mut summary),
            }
        }
    });
    Ok(summary.finish())
}

/// The environment variable that selects a device for programs and tests. Here the tests run on
/// every device, whatever its value.
const DEVICE: &str = "MOYE_DEVICE";

/// The available programs that some tests need.
#[derive(Clone, Copy)]
struct Tools {
    ptxas: bool,
    python: bool,
}

/// Whether the Python that tests start can be run.
fn has_python() -> bool {
    let program = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    let mut probe = Command::new(program);
    probe.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// Runs a step, and skips the parts that need a missing tool.
fn run_step(
    checkout: &Checkout,
    step: &str,
    missing: Option<String>,
    is_wanted: bool,
    tools: Tools,
    summary: &mut Summary,
) {
    let cargo = |arguments: &[&str]| {
        let mut cargo = checkout.cargo();
        cargo.args(arguments).env_remove(DEVICE);
        cargo
    };
    match step {
        "format" => match missing {
            Some(reason) => summary.skip(reason),
            None => summary.step("format: all code is as rustfmt writes it", || {
                shown(&mut cargo(&["fmt", "--all", "--check"]))
            }),
        },
        "language" => summary.step("language: spelling, length of lines, words", || language::run(checkout)),
        "lints" => {
            match missing {
                Some(reason) => summary.skip(reason),
                None => summary.step("lints: clippy, warnings denied, all targets", || {
                    let lints = |of: &[&str]| cargo(&[&["clippy", "--quiet"], of, CLIPPY].concat());
                    // Without PTX, which clippy does not check: the build scripts for clippy differ
                    // from those for tests, and would compile the kernels again.
                    let linted = |of: &[&str]| shown(lints(of).env("DOCS_RS", "1"));
                    linted(&[LINTED, &["--all-targets"]].concat())?;
                    // The library as other crates use it, without the dependencies of the program,
                    // and with products and attention of one operand type.
                    for features in
                        [&[][..], &["--features", "cudarc"], &["--features", "matmul-bf16,attention-bf16"]]
                    {
                        let library = ["--package", "moye", "--lib", "--no-default-features"];
                        linted(&[&library[..], features].concat())?;
                    }
                    linted(&["--package", "moye-cli", "--no-default-features"])?;
                    linted(&["--package", "moye-cli", "--no-default-features", "--features", "run"])
                }),
            }
            summary.step("lints: device code compiled for the GPU has no warnings", || {
                ptx::without_warnings(checkout)
            });
        }
        "tests" => {
            summary.step("tests of all crates", || {
                shown(&mut tests(checkout, has(checkout, "nextest"), tools, None))
            });
            if let Some(reason) = no_gpu(checkout) {
                summary.skip(format!("tests on a GPU: {reason}; the simulator ran all kernels"));
            }
        }
        "doctests" => summary.step("doctests: the examples in the documentation", || {
            shown(&mut cargo(&[&["test", "--doc", "--quiet"], ALL].concat()))
        }),
        "docs" => {
            // A link to an item of another feature is not an error.
            let allowed = "-A rustdoc::broken_intra_doc_links -A rustdoc::private_intra_doc_links";
            let flags = format!("-D warnings {allowed}");
            summary.step(
                "docs: rustdoc of the packages as docs.rs runs it, without PTX and CUDA, warnings denied",
                || {
                    let mut doc = cargo(&["doc", "--no-deps", "--quiet"]);
                    packages::as_on_docs_rs(checkout, &mut doc)?;
                    shown(doc.env("RUSTDOCFLAGS", &flags))
                },
            );
        }
        "examples" => summary.step("examples: each runs on the simulator and asserts its result", || {
            shown(&mut cargo(&[&["build", "--quiet"], ALL, PROGRAMS].concat()))?;
            for example in EXAMPLES {
                let program = checkout.target.join("debug/examples").join(example);
                shown(Command::new(program).env(DEVICE, "sim"))?;
            }
            Ok(())
        }),
        "own-kernels" => summary.step("own-kernels: a crate with its own kernels is tested and run", || {
            // The same features as in the other steps: `cargo run` would build the program with the
            // features of its package alone.
            shown(&mut cargo(&[&["build", "--quiet"], ALL, PROGRAMS].concat()))?;
            own_kernels::test(checkout, has(checkout, "clippy"))
        }),
        "transcript" => summary.step("transcript: the guide's first ten minutes, command by command", || {
            transcript::run(checkout, "Rust", &[])
        }),
        "candle" => summary.step("candle: products of its tensors, on the simulator", || {
            // The step `tests` has run its tests, unless the command names this step.
            if is_wanted {
                shown(&mut tests(checkout, has(checkout, "nextest"), tools, Some(CANDLE)))?;
            }
            shown(&mut cargo(&[&["build", "--quiet"], ALL, PROGRAMS].concat()))?;
            shown(Command::new(checkout.target.join("debug").join(CANDLE)).env_remove(DEVICE))
        }),
        "hopper-steps" => {
            summary.step("hopper-steps: each step of the guide is checked, and the program runs", || {
                // The step `tests` has run them, unless the command names this step.
                if is_wanted {
                    shown(&mut tests(checkout, has(checkout, "nextest"), tools, Some(HOPPER_STEPS)))?;
                }
                shown(&mut cargo(&[&["build", "--quiet"], ALL, PROGRAMS].concat()))?;
                let program = checkout.target.join("debug").join(HOPPER_STEPS);
                shown(Command::new(program).args(["--device", "sim"]).env_remove(DEVICE))
            })
        }
        "python" | "adding" => {
            let environment = python::environment(checkout, "python3");
            let required = std::env::var_os("MOYE_REQUIRE_PYTHON").is_some_and(|value| value == "1");
            match (environment, is_wanted || required) {
                // The environment must exist if the step is named, or if the variable requires it.
                (Err(error), false) => {
                    summary.skip(format!("{step}: Python's environment cannot be set up: {error:#}"))
                }
                (environment, _) if step == "python" => summary
                    .step("python: the package is built and tested by pytest", || {
                        python::test(checkout, &environment?)
                    }),
                (environment, _) => summary
                    .step("adding: an operation is added to a copy, as CONTRIBUTING.md says", || {
                        adding::test(checkout, &environment?)
                    }),
            }
        }
        _ => unreachable!("`run` lets only known steps through"),
    }
}

/// Runs all tests, or those of one package. No test may skip a tool that was set up. nextest builds
/// all tests in both cases, with the same features, so that nothing is built twice.
fn tests(checkout: &Checkout, with_nextest: bool, tools: Tools, package: Option<&str>) -> Command {
    let mut cargo = checkout.cargo();
    match (with_nextest, package) {
        (true, _) => {
            cargo.args(["nextest", "run", "--no-fail-fast", "--cargo-quiet"]).args(ALL);
            cargo.args(package.into_iter().flat_map(|name| ["-E".to_owned(), format!("package({name})")]));
        }
        (false, None) => {
            cargo.args(["test", "--all-targets", "--no-fail-fast", "--quiet"]).args(ALL);
        }
        (false, Some(name)) => {
            cargo.args(["test", "--package", name, "--quiet"]);
        }
    }
    require(&mut cargo, tools);
    cargo.env_remove(DEVICE);
    cargo
}

/// Tests may not skip PTX, because `core`'s source was set up, nor anything that needs an available
/// program.
fn require(cargo: &mut Command, tools: Tools) {
    cargo.env("MOYE_REQUIRE_PTX", "1");
    for (name, is_there) in [("MOYE_REQUIRE_PTXAS", tools.ptxas), ("MOYE_REQUIRE_PYTHON", tools.python)] {
        if is_there {
            cargo.env(name, "1");
        }
    }
}

/// The part of the toolchain, other than the compiler, that a step needs and that is missing, with
/// the way to install it.
fn missing_tool(checkout: &Checkout, step: &str) -> Option<String> {
    let (command, component) = match step {
        "format" => ("fmt", "rustfmt"),
        "lints" => ("clippy", "clippy"),
        _ => return None,
    };
    (!has(checkout, command)).then(|| {
        format!("{step}: {component} is not installed; `rustup component add {component}` installs it")
    })
}

/// Why the tests ran on no GPU, according to `moye doctor`; `None` if there is one. The command
/// fails if something is missing, but still prints its report.
///
/// Uses the program that was built for the tests: `cargo run` would build it, and most of the
/// library, with the features of that package alone.
fn no_gpu(checkout: &Checkout) -> Option<String> {
    let program = checkout.target.join("debug/moye").with_extension(EXE_EXTENSION);
    let output = Command::new(program).arg("doctor").output();
    let output = match output {
        Ok(output) if output.status.code().is_some() && !output.stdout.is_empty() => output,
        _ => return Some("`moye doctor` cannot be run, so it is not known whether there is one".to_owned()),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found = |part: &str| {
        let line = text.lines().find(|line| line.starts_with(part))?;
        let mut words =
            line.split_whitespace().skip_while(|word| !matches!(*word, "ok" | "missing" | "unknown"));
        (words.next()? != "ok").then(|| words.collect::<Vec<_>>().join(" "))
    };
    found("driver").or_else(|| found("GPU"))
}

fn shown(command: &mut Command) -> Result<()> {
    eprintln!("   {}", name(command));
    must(command)
}

/// Whether cargo has this command.
fn has(checkout: &Checkout, command: &str) -> bool {
    let mut probe = checkout.cargo();
    probe.args([command, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_test_may_leave_out_what_was_set_up() {
        let checkout = Checkout::find().unwrap();
        let both = [false, true];
        for (ptxas, python) in both.into_iter().flat_map(|ptxas| both.map(|python| (ptxas, python))) {
            for (with_nextest, package) in both
                .into_iter()
                .flat_map(|nextest| [None, Some(HOPPER_STEPS)].map(|package| (nextest, package)))
            {
                let cargo = tests(&checkout, with_nextest, Tools { ptxas, python }, package);
                let sets =
                    |name: &str| cargo.get_envs().any(|set| set == (name.as_ref(), Some("1".as_ref())));
                assert!(sets("MOYE_REQUIRE_PTX"));
                assert_eq!(sets("MOYE_REQUIRE_PTXAS"), ptxas);
                assert_eq!(sets("MOYE_REQUIRE_PYTHON"), python);
                assert!(cargo.get_envs().any(|set| set == (DEVICE.as_ref(), None)), "no device is left out");
            }
        }
    }
}
