//! The PTX of each atom's kernel: its instruction, as often as the atom says, and nothing like it; and NVIDIA's assembler
//! takes it for the oldest architecture that has it.

use crate::kernels;
use moye_build::Arch;
use moye_build::ptx::Module;
use moye_build::report::Ptxas;
use moye_device::atom::mma::{MMA_ATOMS, MmaInfo};
use std::fmt::Write as _;

/// The module that has the atom's kernel.
fn text(atom: &MmaInfo) -> &'static str {
    let [(_, text)] = (if atom.arch == 89 { kernels::PTX_SM_89 } else { kernels::PTX_SM_80 }) else {
        panic!("each set of kernels is compiled for one architecture");
    };
    text
}

#[test]
fn every_kernel_has_its_instruction_and_no_other_of_its_kind() {
    let modules = [kernels::PTX_SM_80, kernels::PTX_SM_89].map(|ptx| Module::parse(ptx[0].1).unwrap());
    let kernels: usize = modules.iter().map(|module| module.kernels.len()).sum();
    assert_eq!(kernels, MMA_ATOMS.len(), "a kernel for each atom");
    for atom in MMA_ATOMS {
        let kernel = modules.iter().find_map(|module| module.kernel(atom.name));
        let kernel = kernel.unwrap_or_else(|| panic!("{} is in no module", atom.name));
        let count = |wanted: &str| kernel.instructions.get(wanted).copied().unwrap_or(0);
        let found = &kernel.instructions;
        assert_eq!(count(atom.instruction), atom.instruction_count, "{}: {found:?}", atom.name);
        let alike = kernel.count_where(|name| name.contains("mma") || name.starts_with("dp"));
        assert_eq!(
            alike, atom.instruction_count,
            "{}: nothing else multiplies matrices: {found:?}",
            atom.name
        );
        // Registers go from memory to the instruction and back as they are.
        let moved = atom.a.words + atom.b.words + atom.c.words;
        assert_eq!(kernel.count("ld.global"), moved, "{}: {found:?}", atom.name);
        assert_eq!(kernel.count("st.global"), atom.d.words, "{}: {found:?}", atom.name);
    }
}

/// The text of one kernel from its `.visible` to its closing brace.
fn kernel_text(module: &'static str, name: &str) -> &'static str {
    let start = module.find(&format!(".visible .entry {name}(")).expect("the kernel is in its module");
    let length = module[start..].find("\n}\n").expect("a kernel ends") + 3;
    &module[start..start + length]
}

/// A module of these kernels for an architecture and a PTX version.
fn module(atoms: &[&MmaInfo], arch: u32, (major, minor): (u32, u32)) -> String {
    let mut module = format!(".version {major}.{minor}\n.target sm_{arch}\n.address_size 64\n");
    for atom in atoms {
        write!(module, "\n{}", kernel_text(text(atom), atom.name)).unwrap();
    }
    module
}

/// The first PTX version with an architecture, from NVIDIA's "PTX ISA".
fn version_of(arch: u32) -> (u32, u32) {
    match arch {
        61 => (5, 0),
        70 => (6, 0),
        75 => (6, 3),
        80 => (7, 0),
        89 => (7, 8),
        other => panic!("no atom names sm_{other}"),
    }
}

fn assemble(ptxas: &Ptxas, atoms: &[&MmaInfo], arch: u32, version: (u32, u32)) -> Result<(), String> {
    let name: Arch = format!("sm_{arch}").parse().unwrap();
    ptxas.assemble(&module(atoms, arch, version), name).map(drop).map_err(|error| error.to_string())
}

#[test]
fn ptxas_takes_every_atom_for_the_oldest_architecture_and_version_and_for_none_before() {
    let Some(ptxas) = Ptxas::find() else {
        eprintln!("skipped: there is no ptxas (`cargo xtask test` fetches it, or set MOYE_PTXAS)");
        return;
    };
    // The assembler of CUDA 13 begins at sm_75.
    let oldest = if assemble(&ptxas, &[], 61, (8, 0)).is_ok() { 61 } else { 75 };
    let mut failures = Vec::new();
    for atom in MMA_ATOMS {
        let arch = atom.oldest_arch.max(oldest);
        let version = atom.ptx_version.max(version_of(atom.oldest_arch)).max(version_of(arch));
        if let Err(error) = assemble(&ptxas, &[atom], arch, version) {
            failures.push(format!("{} for sm_{arch}, PTX {version:?}: {error}", atom.name));
        }
        let before = match atom.oldest_arch {
            89 => Some(80),
            80 => Some(75),
            75 => Some(70),
            70 => Some(61),
            _ => None,
        };
        if let Some(before) = before.filter(|&before| before >= oldest)
            && assemble(&ptxas, &[atom], before, version.max(version_of(before))).is_ok()
        {
            failures.push(format!("{}: sm_{before} has it too, not only sm_{arch}", atom.name));
        }
        // An older version than the architecture's own says nothing of the instruction.
        if version > version_of(arch) && assemble(&ptxas, &[atom], arch, version_of(arch)).is_ok() {
            failures.push(format!(
                "{}: PTX {:?} has it too, not only {version:?}",
                atom.name,
                version_of(arch)
            ));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
