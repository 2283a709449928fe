//! The PTX of each atom's kernel: its instruction, as often as the atom states, and no similar one;
//! and NVIDIA's assembler accepts it for the instruction's oldest architecture.

use crate::common::assembler;
use crate::common::ptx::{before, kernel_text, version_of};
use crate::kernels;
use moye_build::Arch;
use moye_build::ptx::Module;
use moye_build::report::Ptxas;
use moye_device::atom::mma::{MMA_ATOMS, MmaInfo};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The module with the atom's kernel.
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
        // Registers are loaded and stored unchanged.
        let moved = atom.a.words + atom.b.words + atom.c.words;
        assert_eq!(kernel.count("ld.global"), moved, "{}: {found:?}", atom.name);
        assert_eq!(kernel.count("st.global"), atom.d.words, "{}: {found:?}", atom.name);
    }
}

/// A module of these kernels for an architecture and a PTX version.
fn module(atoms: &[&MmaInfo], arch: u32, (major, minor): (u32, u32)) -> String {
    let mut module = format!(".version {major}.{minor}\n.target sm_{arch}\n.address_size 64\n");
    for atom in atoms {
        write!(module, "\n{}", kernel_text(text(atom), atom.name)).unwrap();
    }
    module
}

/// The assemblers by requested architecture; CUDA 12 has the ones before sm_75.
struct Assemblers(BTreeMap<u32, Option<Ptxas>>);

impl Assemblers {
    fn find() -> Self {
        let find = |arch: u32| Ptxas::find_for(named(arch));
        let all = MMA_ATOMS.iter().map(|atom| atom.oldest_arch);
        Self(
            all.flat_map(|arch| [Some(arch), before(arch)])
                .flatten()
                .map(|arch| (arch, find(arch)))
                .collect(),
        )
    }

    /// Whether an assembler accepts the atom; `None` without an assembler for it.
    fn assemble(&self, atom: &MmaInfo, arch: u32, version: (u32, u32)) -> Option<Result<(), String>> {
        let ptxas = self.0[&arch].as_ref()?;
        let assembled = ptxas.assemble(&module(&[atom], arch, version), named(arch));
        Some(assembled.map(drop).map_err(|error| error.to_string()))
    }
}

fn named(arch: u32) -> Arch {
    format!("sm_{arch}").parse().unwrap()
}

#[test]
fn ptxas_takes_every_atom_for_the_oldest_architecture_and_version_and_for_none_before() {
    let assemblers = Assemblers::find();
    let mut assembled = BTreeMap::<u32, usize>::new();
    let mut failures = Vec::new();
    for atom in MMA_ATOMS {
        let arch = atom.oldest_arch;
        let version = atom.ptx_version.max(version_of(arch));
        match assemblers.assemble(atom, arch, version) {
            Some(Ok(())) => *assembled.entry(arch).or_default() += 1,
            Some(Err(error)) => {
                failures.push(format!("{} for sm_{arch}, PTX {version:?}: {error}", atom.name));
            }
            None => {}
        }
        // An older version than the architecture's proves nothing about the instruction.
        if version > version_of(arch) && assemblers.assemble(atom, arch, version_of(arch)) == Some(Ok(())) {
            failures.push(format!(
                "{}: PTX {:?} has it too, not only {version:?}",
                atom.name,
                version_of(arch)
            ));
        }
        if let Some(before) = before(arch)
            && assemblers.assemble(atom, before, version.max(version_of(before))) == Some(Ok(()))
        {
            failures.push(format!("{}: sm_{before} has it too, not only sm_{arch}", atom.name));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    let missing: Vec<_> =
        assemblers.0.iter().filter(|(_, found)| found.is_none()).map(|(arch, _)| arch).collect();
    if missing.is_empty() {
        assert_eq!(assembled.values().sum::<usize>(), MMA_ATOMS.len(), "all of them: {assembled:?}");
        assert!([61, 70, 75, 80, 89].iter().all(|arch| assembled.contains_key(arch)), "{assembled:?}");
    } else {
        assembler::lacking(&format!("atoms are not assembled for sm_{missing:?}"));
    }
}
