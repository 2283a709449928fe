//! `moye atoms`: the table of warp and warpgroup matrix instructions.

use super::report;
use anyhow::{Result, bail};
use clap::Args;
use moye_device::atom::mma::{MMA_ATOMS, MmaInfo, MmaOperandInfo};
use moye_device::atom::wgmma::{WGMMA_ATOMS, WgmmaInfo};
use moye_device::layout::Layout;
use serde_json::{Value, json};

#[derive(Args)]
pub struct Atoms {
    /// Only atoms whose name (CuTe's or MoYe's) or instruction contains all of these words,
    /// ignoring case: `bf16`, `sm80 s8`.
    #[arg(value_name = "TEXT")]
    filter: Vec<String>,
    /// Print JSON, one atom for each line.
    #[arg(long)]
    json: bool,
}

impl Atoms {
    pub fn run(self) -> Result<()> {
        let atoms = matching(&self.filter);
        if atoms.is_empty() {
            bail!(
                "no atom's name or instruction contains {}; atoms are matrix instructions, and UniversalFma, a multiply-add of \
                 one thread, is none of them (`moye draw --mma UniversalFma` draws it)",
                self.filter.join(" and ")
            );
        }
        let mut text = String::new();
        for atom in &atoms {
            if self.json {
                text += &atom.as_json().to_string();
                text.push('\n');
            } else {
                text += &atom.described();
            }
        }
        report::print(&text);
        Ok(())
    }
}

/// An atom of a warp or a warpgroup.
#[derive(Clone, Copy)]
enum Atom {
    Warp(&'static MmaInfo),
    Warpgroup(&'static WgmmaInfo),
}

impl Atom {
    /// CuTe's name, MoYe's name if there is one, and the instruction.
    fn names(self) -> [&'static str; 3] {
        match self {
            Self::Warp(atom) => [atom.name, atom.moye_name.unwrap_or_default(), atom.instruction],
            Self::Warpgroup(atom) => [atom.name, "", atom.instruction],
        }
    }

    fn described(self) -> String {
        match self {
            Self::Warp(atom) => described(atom),
            Self::Warpgroup(atom) => described_of_warpgroup(atom),
        }
    }

    fn as_json(self) -> Value {
        match self {
            Self::Warp(atom) => as_json(atom),
            Self::Warpgroup(atom) => as_json_of_warpgroup(atom),
        }
    }
}

/// The atoms whose names or instruction contain all words.
fn matching(parts: &[String]) -> Vec<Atom> {
    let parts: Vec<_> = parts.iter().map(|part| part.to_lowercase()).collect();
    let matches = |atom: &Atom| {
        let text = atom.names().join(" ").to_lowercase();
        parts.iter().all(|part| text.contains(part.as_str()))
    };
    let all = MMA_ATOMS.iter().map(Atom::Warp).chain(WGMMA_ATOMS.iter().map(Atom::Warpgroup));
    all.filter(matches).collect()
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

/// The threads of a warpgroup, as an atom's thread layout.
const WARPGROUP: &str = "128:1";
/// How an operand in shared memory is passed.
const DESCRIPTOR: (&str, usize) = ("matrix descriptor", 1);

/// An operand of a warpgroup atom.
struct OfWarpgroup {
    name: &'static str,
    element: &'static str,
    bits: usize,
    /// How it is passed, and the number of registers.
    given: (&'static str, usize),
    layout: Layout,
}

/// The operands; C is D.
fn operands_of_warpgroup(atom: &WgmmaInfo) -> [OfWarpgroup; 3] {
    let [a, b, d] = atom.types;
    let [bits, bits_d] = atom.bits;
    let of_d = match d {
        "f32" => "f32",
        "s32" => "i32",
        _ => "u32",
    };
    let of_a = if atom.a_in_registers { ("u32", 4) } else { DESCRIPTOR };
    [
        OfWarpgroup { name: "D", element: d, bits: bits_d, given: (of_d, atom.registers), layout: atom.c() },
        OfWarpgroup { name: "A", element: a, bits, given: of_a, layout: atom.a() },
        OfWarpgroup { name: "B", element: b, bits, given: DESCRIPTOR, layout: atom.b() },
    ]
}

fn described_of_warpgroup(atom: &WgmmaInfo) -> String {
    let [m, n, k] = atom.shape_mnk;
    let (major, minor) = atom.ptx_version;
    let mut text = format!("{}\n  {}\n", atom.name, atom.instruction);
    text += &format!("  sm_90a only, PTX {major}.{minor}; {m} x {n} x {k}; threads {WARPGROUP}\n");
    for OfWarpgroup { name, element, given: (register, count), layout, .. } in operands_of_warpgroup(atom) {
        let given = format!("{count} x {register}");
        text += &format!("  {name}  {element:<5} {given:<9}  {layout}\n");
    }
    text
}

fn as_json_of_warpgroup(atom: &WgmmaInfo) -> Value {
    let mut value = json!({
        "name": atom.name,
        "moye_name": null,
        "arch": 90,
        "oldest_arch": 90,
        "ptx_version": [atom.ptx_version.0, atom.ptx_version.1],
        "instruction": atom.instruction,
        "instruction_count": 1,
        "shape_mnk": atom.shape_mnk,
        "thr_id": WARPGROUP,
    });
    for OfWarpgroup { name, element, bits, given: (register, registers), layout } in
        operands_of_warpgroup(atom)
    {
        value[name] = json!({
            "element": element,
            "bits": bits,
            "register": register,
            "registers": registers,
            "layout": layout.to_string(),
        });
    }
    value["C"] = value["D"].clone();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_must_occur_in_any_case() {
        let parts = |parts: &[&str]| matching(&parts.iter().map(|&part| part.to_owned()).collect::<Vec<_>>());
        assert_eq!(parts(&[]).len(), MMA_ATOMS.len() + WGMMA_ATOMS.len());
        let names: Vec<_> = parts(&["BF16", "m16n8k16"]).iter().map(|atom| atom.names()[0]).collect();
        assert_eq!(names, ["SM80_16x8x16_F32BF16BF16F32_TN"]);
        assert_eq!(parts(&["mmaop_8x8x4_f64"])[0].names()[0], "SM80_8x8x4_F64F64F64F64_TN", "by MoYe's name");
        assert!(parts(&["bf16", "satfinite"]).is_empty());
    }

    #[test]
    fn a_description_names_what_a_kernel_needs() {
        let text = matching(&["SM80_16x8x16_F32F16F16F32".to_owned()])[0].described();
        for part in [
            "MMAOP_16x8x16_F32F16F16F32_TN in MoYe",
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32\n",
            "sm_80 and later, PTX 7.0; 16 x 8 x 16; threads 32:1",
            "A  f16   4 x u32  ((4,8),(2,2,2)):((32,1),(16,8,128))",
        ] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }

    #[test]
    fn atoms_of_a_warpgroup_say_where_their_operands_lie() {
        for (name, parts) in [
            (
                "SM90_64x256x16_F32BF16BF16_SS",
                [
                    "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16\n",
                    "sm_90a only, PTX 8.0; 64 x 256 x 16; threads 128:1",
                    "D  f32   128 x f32  ((4,8,4),(2,2,32)):((128,1,16),(64,8,512))",
                    "A  bf16  1 x matrix descriptor",
                ],
            ),
            (
                "SM90_64x8x32_S32S8U8_RS_TN",
                [
                    "m64n8k32.s32.s8.u8",
                    "D  s32   4 x i32",
                    "A  s8    4 x u32",
                    "B  u8    1 x matrix descriptor",
                ],
            ),
        ] {
            let atom = matching(&[name.to_owned()]).into_iter().find(|atom| atom.names()[0] == name).unwrap();
            let text = atom.described();
            for part in parts {
                assert!(text.contains(part), "{part} is missing in:\n{text}");
            }
            let json = atom.as_json();
            assert_eq!((&json["C"], json["arch"].as_u64()), (&json["D"], Some(90)), "{json}");
        }
    }
}
