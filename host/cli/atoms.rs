//! `moye atoms`: the table of matrix instructions.

use super::report;
use anyhow::{Result, bail};
use clap::Args;
use moye_device::atom::mma::{MMA_ATOMS, MmaInfo, MmaOperandInfo};
use serde_json::{Value, json};

#[derive(Args)]
pub struct Atoms {
    /// Only atoms whose name (CuTe's or MoYe's) or instruction contains all of these, in any case: `bf16`, `sm80 s8`.
    #[arg(value_name = "TEXT")]
    filter: Vec<String>,
    /// Print JSON, one atom a line.
    #[arg(long)]
    json: bool,
}

impl Atoms {
    pub fn run(self) -> Result<()> {
        let atoms = matching(&self.filter);
        if atoms.is_empty() {
            bail!(
                "no atom's name or instruction contains {}; they are of matrix instructions, and UniversalFma, a multiply-add of \
                 one thread, is none of them (`moye draw --mma UniversalFma` draws it)",
                self.filter.join(" and ")
            );
        }
        let mut text = String::new();
        for atom in &atoms {
            if self.json {
                text += &as_json(atom).to_string();
                text.push('\n');
            } else {
                text += &described(atom);
            }
        }
        report::print(&text);
        Ok(())
    }
}

/// The atoms in whose names and instruction all parts occur.
fn matching(parts: &[String]) -> Vec<&'static MmaInfo> {
    let parts: Vec<_> = parts.iter().map(|part| part.to_lowercase()).collect();
    let matches = |atom: &&MmaInfo| {
        let text = [atom.name, atom.moye_name.unwrap_or_default(), atom.instruction].join(" ").to_lowercase();
        parts.iter().all(|part| text.contains(part.as_str()))
    };
    MMA_ATOMS.iter().filter(matches).collect()
}

fn described(atom: &MmaInfo) -> String {
    let [m, n, k] = atom.shape_mnk;
    let (major, minor) = atom.ptx_version;
    let times =
        if atom.instruction_count > 1 { format!(" x {}", atom.instruction_count) } else { String::new() };
    let moye = atom.moye_name.map(|name| format!(", {name} in MoYe")).unwrap_or_default();
    let mut text = format!("{}{moye}\n", atom.name);
    text += &format!("  {}{times}\n", atom.instruction);
    text += &format!(
        "  sm_{} and later, PTX {major}.{minor}; {m} x {n} x {k}; threads {}\n",
        atom.oldest_arch, atom.thr_id
    );
    for (name, operand) in operands(atom) {
        text += &format!(
            "  {name}  {:<5} {} x {:<3}  {}\n",
            operand.element, operand.registers, operand.register, operand.layout
        );
    }
    text
}

fn operands(atom: &MmaInfo) -> [(&'static str, &MmaOperandInfo); 4] {
    [("D", &atom.d), ("A", &atom.a), ("B", &atom.b), ("C", &atom.c)]
}

fn as_json(atom: &MmaInfo) -> Value {
    let mut value = json!({
        "name": atom.name,
        "moye_name": atom.moye_name,
        "arch": atom.arch,
        "oldest_arch": atom.oldest_arch,
        "ptx_version": [atom.ptx_version.0, atom.ptx_version.1],
        "instruction": atom.instruction,
        "instruction_count": atom.instruction_count,
        "shape_mnk": atom.shape_mnk,
        "thr_id": atom.thr_id.to_string(),
    });
    for (name, operand) in operands(atom) {
        value[name] = json!({
            "element": operand.element,
            "bits": operand.bits,
            "register": operand.register,
            "registers": operand.registers,
            "layout": operand.layout.to_string(),
        });
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_must_occur_in_any_case() {
        let parts = |parts: &[&str]| matching(&parts.iter().map(|&part| part.to_owned()).collect::<Vec<_>>());
        assert_eq!(parts(&[]).len(), MMA_ATOMS.len());
        let names: Vec<_> = parts(&["BF16", "m16n8k16"]).iter().map(|atom| atom.name).collect();
        assert_eq!(names, ["SM80_16x8x16_F32BF16BF16F32_TN"]);
        assert_eq!(parts(&["mmaop_8x8x4_f64"])[0].name, "SM80_8x8x4_F64F64F64F64_TN", "by MoYe's name");
        assert!(parts(&["bf16", "satfinite"]).is_empty());
    }

    #[test]
    fn a_description_names_what_a_kernel_needs() {
        let text = described(matching(&["SM80_16x8x16_F32F16F16F32".to_owned()])[0]);
        for part in [
            "MMAOP_16x8x16_F32F16F16F32_TN in MoYe",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n",
            "sm_80 and later, PTX 7.0; 16 x 8 x 16; threads 32:1",
            "A  f16   4 x u32  ((4,8),(2,2,2)):((32,1),(16,8,128))",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }
}
