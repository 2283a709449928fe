//! The resources of each kernel of a module: registers, spills, local and shared memory, and
//! instructions.
//!
//! Instructions, local and shared memory are read from the PTX. `ptxas`, NVIDIA's assembler,
//! decides registers and spills: they are known if it is found ([`Ptxas::find`]).

mod classes;
mod findings;
mod lint;
mod ptxas;
mod table;
mod text;

pub use classes::Class;
pub use findings::Finding;
pub use lint::{Level, Lint};
pub use table::{classes, table};
pub use text::{text, to_json};

pub use ptxas::{Assembled, Ptxas, PtxasError, Usage};

use crate::ptx::{Function, Module, ParseError};
use crate::{Arch, PtxFile};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt;

/// The report on the kernels of one module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The architecture of the module.
    pub arch: Arch,
    /// One for each kernel, in the module's order.
    pub kernels: Vec<KernelReport>,
    /// Functions that kernels call because they were not inlined.
    pub functions: Vec<String>,
    /// The warnings of `ptxas`.
    pub warnings: Vec<String>,
}

/// The report on one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelReport {
    /// The facts from its PTX.
    pub ptx: Function,
    /// The resources that `ptxas` reports, if it is found.
    pub usage: Option<Usage>,
}

/// The reason why there is no report.
#[derive(Debug)]
#[non_exhaustive]
pub enum ReportError {
    /// The PTX cannot be read.
    Ptx {
        /// The architecture of the module.
        arch: Arch,
        /// The position and the reason.
        source: ParseError,
    },
    /// `ptxas` refuses the PTX, or cannot be run.
    Ptxas {
        /// The architecture of the module.
        arch: Arch,
        /// Its output.
        source: PtxasError,
    },
}

impl fmt::Display for ReportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ptx { arch, source } => write!(f, "{arch}: {source}"),
            Self::Ptxas { arch, source } => write!(f, "{arch}: {source}"),
        }
    }
}

impl std::error::Error for ReportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Ptx { source, .. } => Some(source),
            Self::Ptxas { source, .. } => Some(source),
        }
    }
}

impl Report {
    /// Reads a module, and assembles it if there is an assembler.
    ///
    /// # Errors
    /// The module is not PTX, or `ptxas` refuses it.
    pub fn of(file: &PtxFile, ptxas: Option<&Ptxas>) -> Result<Self, ReportError> {
        Self::of_kernels(file, ptxas, |_| true)
    }

    /// Like [`of`](Self::of) for the kernels whose names are `wanted`; the others are not
    /// assembled.
    ///
    /// # Errors
    /// Same as [`of`](Self::of).
    pub fn of_kernels(
        file: &PtxFile,
        ptxas: Option<&Ptxas>,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Self, ReportError> {
        let arch = file.arch;
        let mut module = Module::parse(&file.text).map_err(|source| ReportError::Ptx { arch, source })?;
        let all = module.kernels.len();
        module.kernels.retain(|kernel| wanted(&kernel.name));
        let assemble = |ptxas: &Ptxas| {
            if module.kernels.len() == all {
                return ptxas.assemble(&file.text, arch);
            }
            let names: Vec<_> = module.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
            ptxas.assemble_kernels(&file.text, arch, &names)
        };
        let mut assembled =
            ptxas.map(assemble).transpose().map_err(|source| ReportError::Ptxas { arch, source })?;
        let kernels = module
            .kernels
            .into_iter()
            .map(|ptx| {
                let usage = assembled.as_mut().and_then(|all| all.kernels.remove(&ptx.name));
                KernelReport { ptx, usage }
            })
            .collect();
        Ok(Self {
            arch,
            kernels,
            functions: module.functions.into_iter().map(|function| function.name).collect(),
            warnings: assembled.map(|all| all.warnings).unwrap_or_default(),
        })
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&KernelReport> {
        self.kernels.iter().find(|kernel| kernel.ptx.name == name)
    }

    /// The report as JSON.
    pub fn to_json(&self) -> Value {
        json!({
            "arch": self.arch.to_string(),
            "kernels": self.kernels.iter().map(KernelReport::to_json).collect::<Vec<_>>(),
            "functions": self.functions,
            "warnings": self.warnings,
        })
    }
}

impl KernelReport {
    /// Whether it uses local memory, according to its PTX or, if known, to `ptxas`.
    pub fn uses_local(&self) -> bool {
        self.ptx.uses_local() || self.usage.is_some_and(|usage| usage.stack > 0 || usage.spills() > 0)
    }

    /// Accesses of one kind by width: for `ld.global`, how many load 32 bits, how many 128.
    pub fn widths(&self, access: &str) -> BTreeMap<usize, usize> {
        let mut widths = BTreeMap::new();
        for (name, count) in &self.ptx.instructions {
            let ours = name.strip_prefix(access).is_some_and(|rest| rest.starts_with(['.', ':']));
            if let Some(bits) = ours.then(|| access_bits(name)).flatten() {
                *widths.entry(bits).or_default() += count;
            }
        }
        widths
    }

    fn to_json(&self) -> Value {
        let bounds = self.ptx.bounds;
        let classes =
            self.ptx.classes().into_iter().map(|(class, count)| (class.name().to_owned(), count.into()));
        let classes: Map<String, Value> = classes.collect();
        json!({
            "kernel": self.ptx.name,
            "params": self.ptx.params,
            "threads": bounds.threads,
            "min_blocks": bounds.min_blocks,
            "launch_shared_bytes": bounds.shared,
            "local_bytes": self.ptx.local_bytes,
            "shared_bytes": self.ptx.shared_bytes,
            "instructions": self.ptx.instructions,
            "classes": classes,
            "ptxas": self.usage.map(|usage| json!({
                "registers": usage.registers,
                "stack": usage.stack,
                "spill_stores": usage.spill_stores,
                "spill_loads": usage.spill_loads,
                "barriers": usage.barriers,
                "shared_bytes": usage.shared,
            })),
        })
    }
}

/// The bits that `ld.global.nc.v4.b32` loads: the vector's length times the type's size.
fn access_bits(instruction: &str) -> Option<usize> {
    let mut parts = instruction.rsplit('.');
    let bits: usize = parts.next()?.strip_prefix(['b', 'u', 's', 'f'])?.parse().ok()?;
    let length = parts.next().and_then(|part| part.strip_prefix('v')?.parse().ok()).unwrap_or(1);
    Some(bits * length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_access_is_as_wide_as_its_vector() {
        for (name, bits) in [
            ("ld.global.nc.v4.b32", Some(128)),
            ("st.shared.f32", Some(32)),
            ("ld.global.L1::no_allocate.v2.u64", Some(128)),
            ("ld.shared.b8", Some(8)),
            ("bar.sync", None),
        ] {
            assert_eq!(access_bits(name), bits, "{name}");
        }
    }

    #[test]
    fn without_an_assembler_the_ptx_still_tells() {
        let text = ".version 7.0\n.target sm_80\n.visible .entry k()\n{\nld.global.v4.b32 {a,b,c,d}, [e];\nst.shared.b32 [a], b;\nld.global.b32 a, [b];\n}\n";
        let file = PtxFile { arch: "sm_80".parse().unwrap(), path: "k.ptx".into(), text: text.to_owned() };
        let report = Report::of(&file, None).unwrap();
        let kernel = report.kernel("k").unwrap();
        assert_eq!(kernel.usage, None);
        assert!(!kernel.uses_local());
        assert_eq!(kernel.widths("ld.global"), BTreeMap::from([(32, 1), (128, 1)]));
        assert_eq!(report.to_json()["kernels"][0]["instructions"]["st.shared.b32"], 1);
    }
}
