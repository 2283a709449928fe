//! `cargo xtask ptx`: what each shipped kernel uses on the GPU.

use crate::checkout::Checkout;
use anyhow::{Result, bail};
use lexopt::{Arg, Parser, ValueExt};
use moye_build::report::{KernelReport, Ptxas, Report};
use moye_build::{PtxBuilder, PtxSet};

const ARCHS: &[&str] = &["sm_80", "sm_90a"];

/// What was asked for.
#[derive(Default)]
pub struct Options {
    archs: Vec<String>,
    json: bool,
    /// Parts of kernels' names; none: all kernels.
    kernels: Vec<String>,
}

impl Options {
    pub fn read(arguments: &mut Parser) -> Result<Self> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next()? {
            match argument {
                Arg::Long("arch") => options.archs.push(arguments.value()?.string()?),
                Arg::Long("json") => options.json = true,
                Arg::Value(name) => options.kernels.push(name.string()?),
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(options)
    }

    fn wants(&self, kernel: &str) -> bool {
        self.kernels.is_empty() || self.kernels.iter().any(|part| kernel.contains(part.as_str()))
    }
}

/// Compiles the shipped kernels.
fn compile(checkout: &Checkout, archs: &[String]) -> Result<PtxSet> {
    let mut builder = PtxBuilder::new(checkout.root.join("device/kernels"))
        .feature("ladder")
        .feature("matmul")
        .feature("movement")
        .target_dir(checkout.target.join("ptx"))
        .out_dir(checkout.target.join("ptx/report"));
    for arch in archs {
        builder = builder.arch(arch);
        if arch == "sm_90a" {
            // As the library's own build script.
            builder = builder.rustflag_of(arch, "-Ctarget-feature=+ptx81");
        }
    }
    Ok(builder.build()?)
}

/// The shipped kernels for all architectures, which must compile without a warning.
pub fn without_warnings(checkout: &Checkout) -> Result<()> {
    let archs: Vec<_> = ARCHS.iter().map(|arch| (*arch).to_owned()).collect();
    let set = compile(checkout, &archs)?;
    if !set.warnings.is_empty() {
        bail!("the compiler warns of code that only a GPU runs:\n{}", set.warnings.concat());
    }
    Ok(())
}

pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    let archs = match options.archs.as_slice() {
        [] => ARCHS.iter().map(|arch| (*arch).to_owned()).collect(),
        named => named.to_vec(),
    };
    let set = compile(checkout, &archs)?;
    let ptxas = Ptxas::find();
    let mut reports = Vec::new();
    for file in &set.files {
        let mut report = Report::of_kernels(file, ptxas.as_ref(), |name| options.wants(name))?;
        // The module's order follows the units that it was compiled by.
        report.kernels.sort_by(|first, second| first.ptx.name.cmp(&second.ptx.name));
        reports.push(report);
    }
    if reports.iter().all(|report| report.kernels.is_empty()) && !options.kernels.is_empty() {
        bail!(
            "no kernel's name contains {} in what is compiled for {}",
            options.kernels.join(" or "),
            archs.join(" and ")
        );
    }
    if options.json {
        let all: Vec<_> = reports.iter().map(Report::to_json).collect();
        println!("{:#}", serde_json::Value::from(all));
        return Ok(());
    }
    print!("{}", table(&reports));
    match &ptxas {
        Some(ptxas) => println!("\nregisters, stack and spills by {}", ptxas.path().display()),
        None => println!("\nregisters and spills are not known: no ptxas was found (MOYE_PTXAS names one)"),
    }
    for report in &reports {
        for function in &report.functions {
            println!("{}: `{function}` is called, not inlined", report.arch);
        }
        for warning in &report.warnings {
            println!("{}: {warning}", report.arch);
        }
    }
    Ok(())
}

const HEADER: &[&str] = &[
    "kernel",
    "arch",
    "threads",
    "regs",
    "stack",
    "spills",
    "local",
    "shared",
    "ld.global",
    "st.global",
    "ld.shared",
    "st.shared",
    "cp.async",
    "ldmatrix",
    "fma",
    "mma",
    "wgmma",
    "bar",
    "all",
];

fn table(reports: &[Report]) -> String {
    let mut rows = vec![HEADER.iter().map(|cell| (*cell).to_owned()).collect::<Vec<_>>()];
    for report in reports {
        rows.extend(report.kernels.iter().map(|kernel| row(&report.arch.to_string(), kernel)));
    }
    let widths: Vec<_> =
        (0..HEADER.len()).map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<_> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

fn row(arch: &str, kernel: &KernelReport) -> Vec<String> {
    let ptx = &kernel.ptx;
    let known = |number: Option<usize>| number.map_or("?".to_owned(), |n| n.to_string());
    let count = |name: &str| ptx.count(name).to_string();
    // `4x128 1x32`: four accesses of 128 bits and one of 32.
    let by_width = |name: &str| match kernel.widths(name) {
        widths if widths.is_empty() => "0".to_owned(),
        widths => widths.iter().rev().map(|(bits, n)| format!("{n}x{bits}")).collect::<Vec<_>>().join(" "),
    };
    let shared = ptx.shared_bytes + ptx.bounds.shared.map_or(0, |bytes| bytes as usize);
    vec![
        ptx.name.clone(),
        arch.to_owned(),
        ptx.bounds.threads.map_or("any".to_owned(), |threads| threads.to_string()),
        known(kernel.usage.map(|usage| usage.registers)),
        known(kernel.usage.map(|usage| usage.stack)),
        known(kernel.usage.map(|usage| usage.spills())),
        ptx.local_bytes.to_string(),
        shared.to_string(),
        by_width("ld.global"),
        by_width("st.global"),
        by_width("ld.shared"),
        by_width("st.shared"),
        // The copies; what commits and waits for them is not counted.
        ptx.count_where(|name| name.starts_with("cp.async") && name.contains(".shared")).to_string(),
        count("ldmatrix"),
        count("fma"),
        count("mma"),
        count("wgmma.mma_async"),
        (ptx.count("bar") + ptx.count("barrier")).to_string(),
        ptx.len().to_string(),
    ]
}
