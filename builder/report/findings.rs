//! Finds slow code in the PTX of kernels: see [`Lint`].

use super::{KernelReport, Lint, Report};
use crate::Arch;
use crate::ptx::{Instruction, Listing, Place};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// Slow code in one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The kind.
    pub lint: Lint,
    /// The kernel's name.
    pub kernel: String,
    /// The architecture.
    pub arch: Arch,
    /// The finding, with its numbers.
    pub message: String,
    /// The source lines of most of its instructions: the innermost inlined function's first, the
    /// kernel's last. Empty if lines are unknown.
    pub places: Vec<Place>,
}

impl Finding {
    /// The line to show first: the innermost one in a file of `folder`, otherwise the kernel's.
    pub fn place(&self, folder: &Path) -> Option<&Place> {
        let own = self.places.iter().find(|place| Path::new(&*place.file).starts_with(folder));
        own.or(self.places.last())
    }

    /// The finding in at most three lines, with files named relative to `folder`.
    pub fn text(&self, folder: &Path) -> String {
        let named = |place: &Place| match Path::new(&*place.file).strip_prefix(folder) {
            Ok(inside) => Place { file: inside.to_string_lossy().into(), ..place.clone() }.to_string(),
            Err(_) => place.to_string(),
        };
        let mut text =
            format!("kernel `{}` for {}: {} [{}]", self.kernel, self.arch, self.message, self.lint);
        if let Some(place) = self.place(folder) {
            text += &format!("\n  --> {}", named(place));
            if let Some(kernel) = self.places.last().filter(|&last| last != place) {
                text += &format!(", called at {}", named(kernel));
            }
        }
        text + "\n  help: " + self.lint.help()
    }

    /// The finding as JSON.
    pub fn to_json(&self) -> Value {
        let place =
            |place: &Place| json!({ "file": &*place.file, "line": place.line, "column": place.column });
        json!({
            "lint": self.lint.name(),
            "kernel": self.kernel,
            "arch": self.arch.to_string(),
            "message": self.message,
            "places": self.places.iter().map(place).collect::<Vec<_>>(),
            "help": self.lint.help(),
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(Path::new("/")))
    }
}

impl Report {
    /// The slow code of its kernels. `listing` belongs to the same module, or to one compiled from
    /// the same source with lines.
    pub fn findings(&self, listing: &Listing) -> Vec<Finding> {
        let of_kernel = |kernel: &KernelReport| {
            let code = listing.kernel(&kernel.ptx.name);
            let found = [
                local_memory(kernel, code),
                spills(kernel),
                double_precision(code),
                slow_division(code),
                unpacked_conversion(code),
                self.serialized_wgmma(kernel, code),
                global_table(code),
            ];
            let finding = |(lint, found): (Lint, Option<Found>)| {
                let Found { message, places } = found?;
                Some(Finding { lint, kernel: kernel.ptx.name.clone(), arch: self.arch, message, places })
            };
            Lint::ALL.into_iter().zip(found).filter_map(finding).collect::<Vec<_>>()
        };
        self.kernels.iter().flat_map(of_kernel).collect()
    }

    fn serialized_wgmma(&self, kernel: &KernelReport, code: &[Instruction]) -> Option<Found> {
        let name = format!("'{}'", kernel.ptx.name);
        let of_kernel = |warning: &&String| {
            // If the assembler does not name the function, it is one of those with the instruction.
            let named = warning.contains('\'');
            warning.contains("serialized")
                && (warning.contains(&name) || !named && kernel.ptx.count("wgmma") > 0)
        };
        let said = self.warnings.iter().find(of_kernel)?;
        let message = said.split_once("Performance Loss:").map_or(&**said, |(_, reason)| reason).trim();
        let products = code.iter().filter(|instruction| instruction.name.starts_with("wgmma.mma"));
        Some(Found::at(message.to_owned(), products))
    }
}

/// A finding and its place.
struct Found {
    message: String,
    places: Vec<Place>,
}

impl Found {
    /// Adds the lines of most of these instructions; in a tie, those of the first.
    fn at<'a>(message: String, instructions: impl Iterator<Item = &'a Instruction>) -> Self {
        let mut counts: Vec<(&[Place], usize)> = Vec::new();
        for places in instructions.map(|instruction| &*instruction.places).filter(|places| !places.is_empty())
        {
            match counts.iter_mut().find(|(other, _)| *other == places) {
                Some((_, count)) => *count += 1,
                None => counts.push((places, 1)),
            }
        }
        let most = counts.iter().map(|(_, count)| *count).max();
        let first = counts.iter().find(|(_, count)| Some(*count) == most);
        Self { message, places: first.map(|(places, _)| places.to_vec()).unwrap_or_default() }
    }
}

fn local_memory(kernel: &KernelReport, code: &[Instruction]) -> Option<Found> {
    if !kernel.ptx.uses_local() {
        return None;
    }
    let (loads, stores) = (kernel.ptx.count("ld.local"), kernel.ptx.count("st.local"));
    let bytes = kernel.ptx.local_bytes;
    let mut message =
        format!("{bytes} bytes of local memory, {loads} loads from it and {stores} stores to it");
    if kernel.usage.is_some_and(|usage| usage.stack == 0) {
        // The driver assembles the PTX on the machine where it runs.
        message += "; this ptxas promotes it to registers, another may not";
    }
    let accesses = |begin: &'static str| code.iter().filter(move |i| i.name.starts_with(begin));
    // A load at an index that is not constant keeps the array out of registers.
    let loads = Found::at(message.clone(), accesses("ld.local"));
    Some(if loads.places.is_empty() { Found::at(message, accesses("st.local")) } else { loads })
}

fn spills(kernel: &KernelReport) -> Option<Found> {
    let usage = kernel.usage.filter(|usage| usage.spills() > 0)?;
    let message = format!(
        "{} bytes of spilled registers are stored and {} loaded, at {} registers per thread",
        usage.spill_stores, usage.spill_loads, usage.registers
    );
    Some(Found { message, places: Vec::new() })
}

fn global_table(code: &[Instruction]) -> Option<Found> {
    let loads = || code.iter().filter(|instruction| instruction.table.is_some());
    let arrays: BTreeSet<_> = loads().filter_map(|load| load.table.as_deref()).collect();
    let message = format!(
        "{} loads from {} arrays in global memory, at an index that is known at run time only",
        loads().count(),
        arrays.len()
    );
    (!arrays.is_empty()).then(|| Found::at(message, loads()))
}

fn double_precision(code: &[Instruction]) -> Option<Found> {
    let converted = || code.iter().filter(|instruction| instruction.name.starts_with("cvt.f64.f32"));
    let arithmetic = code.iter().filter(|i| super::Class::of(&i.name) == super::Class::Double).count();
    let count = converted().count();
    if count == 0 {
        return None;
    }
    let message =
        format!("{count} conversions of `f32` to `f64`, and {arithmetic} instructions of `f64` arithmetic");
    Some(Found::at(message, converted()))
}

fn slow_division(code: &[Instruction]) -> Option<Found> {
    let slow = |instruction: &&Instruction| {
        let mut parts = instruction.name.split('.');
        let (operation, ty) = (parts.next(), parts.next_back());
        let exact = !instruction.name.contains(".approx") && !instruction.name.contains(".full");
        match (operation, ty) {
            (Some("div" | "rem"), Some("u64" | "s64" | "f64")) => true,
            (Some("div" | "rem"), Some("u32" | "s32" | "f32")) => instruction.in_loop && exact,
            (Some("sqrt" | "rcp"), Some("f32")) => instruction.in_loop && exact,
            _ => false,
        }
    };
    let all: Vec<_> = code.iter().filter(slow).collect();
    let mut names: Vec<&str> = all.iter().map(|instruction| &*instruction.name).collect();
    names.sort_unstable();
    names.dedup();
    let looped = all.iter().filter(|instruction| instruction.in_loop).count();
    let message = format!("{} slow divisions ({}), {looped} of them in a loop", all.len(), names.join(", "));
    (!all.is_empty()).then(|| Found::at(message, all.into_iter()))
}

fn unpacked_conversion(code: &[Instruction]) -> Option<Found> {
    let single = |instruction: &&Instruction| {
        let name = &*instruction.name;
        name.starts_with("cvt.r") && (name.ends_with(".f16.f32") || name.ends_with(".bf16.f32"))
    };
    // Two conversions in code without a branch could have been one.
    let all: Vec<_> = code.iter().filter(single).collect();
    let paired: Vec<_> = all
        .iter()
        .filter(|one| {
            all.iter().filter(|other| other.block == one.block && other.name == one.name).count() > 1
        })
        .copied()
        .collect();
    let message = format!("{} conversions of `f32` to 16 bits that are not packed", paired.len());
    (!paired.is_empty()).then(|| Found::at(message, paired.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PtxFile;

    fn findings(body: &str) -> Vec<(Lint, String)> {
        let text = format!(
            ".version 7.0\n.target sm_80\n.global .b8 table[8];\n.visible .entry k()\n{{\n{body}\nret;\n}}\n"
        );
        let file = PtxFile { arch: "sm_80".parse().unwrap(), path: "k.ptx".into(), text };
        let report = Report::of(&file, None).unwrap();
        let all = report.findings(&Listing::read(&file.text).unwrap());
        all.into_iter().map(|finding| (finding.lint, finding.message)).collect()
    }

    #[test]
    fn each_kind_of_slow_code_is_found_with_its_numbers() {
        let local = "2 bytes of local memory, 1 loads from it and 1 stores to it";
        for (body, lint, message) in [
            (
                ".local .align 4 .b8 depot[2];\nst.local.b32 [a], b;\nld.local.b32 b, [a];",
                Lint::LocalMemory,
                local,
            ),
            (
                "cvt.f64.f32 a, b;\nmul.rn.f64 a, a, c;",
                Lint::DoublePrecision,
                "1 conversions of `f32` to `f64`, and 1 instructions of `f64` arithmetic",
            ),
            ("div.u64 a, b, c;", Lint::SlowDivision, "1 slow divisions (div.u64), 0 of them in a loop"),
            (
                "$L__BB0_1:\ndiv.rn.f32 a, b, c;\n@p bra $L__BB0_1;",
                Lint::SlowDivision,
                "1 slow divisions (div.rn.f32), 1 of them in a loop",
            ),
            (
                "cvt.rn.f16.f32 a, b;\ncvt.rn.f16.f32 c, d;",
                Lint::UnpackedConversion,
                "2 conversions of `f32` to 16 bits that are not packed",
            ),
            (
                "mov.b64 %rd1, table;\nadd.s64 %rd2, %rd1, %rd3;\nld.global.nc.b32 a, [%rd2];",
                Lint::GlobalTable,
                "1 loads from 1 arrays in global memory, at an index that is known at run time only",
            ),
        ] {
            assert_eq!(findings(body), [(lint, message.to_owned())], "{body}");
        }
    }

    #[test]
    fn intended_or_cheap_code_is_not_reported() {
        for body in [
            "mul.rn.f64 a, b, c;",
            "div.u32 a, b, c;",
            "div.rn.f32 a, b, c;",
            "$L__BB0_1:\ndiv.u32 a, b, c;\n$L__BB0_2:\nmul.lo.u32 a, b, c;\n@p bra $L__BB0_2;\n@q bra $L__BB0_1;",
            "$L__BB0_1:\ndiv.full.f32 a, b, c;\nrcp.approx.ftz.f32 a, b;\n@p bra $L__BB0_1;",
            "cvt.rn.f16.f32 a, b;",
            "mov.b64 %rd1, table;\nld.global.b32 a, [%rd1+4];\nst.global.b32 [%rd1], a;",
            "cvt.rn.f16.f32 a, b;\n$L__BB0_1:\ncvt.rn.f16.f32 c, d;",
            "cvt.rn.f16x2.f32 a, b, c;\ncvt.rn.f16x2.f32 a, b, c;",
        ] {
            assert_eq!(findings(body), [], "{body}");
        }
    }

    #[test]
    fn the_assemblers_word_on_wgmma_belongs_to_the_kernel_that_it_names() {
        let body = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {a}, b, c, 1, 1, 1;\nret;";
        let text = format!(
            ".version 8.0\n.target sm_90a\n.visible .entry k()\n{{\n{body}\n}}\n.visible .entry l()\n{{\n{body}\n}}\n"
        );
        let file = PtxFile { arch: "sm_90a".parse().unwrap(), path: "k.ptx".into(), text };
        let mut report = Report::of(&file, None).unwrap();
        report.warnings.push(
            "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to a call in the function 'l'"
                .into(),
        );
        let all = report.findings(&Listing::read(&file.text).unwrap());
        let [one] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((one.lint, one.kernel.as_str()), (Lint::SerializedWgmma, "l"));
        assert!(one.message.starts_with("wgmma.mma_async instructions are serialized"), "{}", one.message);
    }
}
