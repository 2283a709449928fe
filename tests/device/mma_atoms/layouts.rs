//! Layouts and names, compared with CuTe's.

use moye_device::atom::mma::{MMA_ATOMS, MmaInfo, MmaOperandInfo};
use moye_device::layout::{IntTuple, Layout};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// CuTe's description of its atoms, by name.
fn cute() -> BTreeMap<String, Value> {
    // A bundle for machines without cargo sets the variable too, and lacks the folder of the
    // compilation.
    let package =
        std::env::var("CARGO_MANIFEST_DIR").unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let path = Path::new(&package).join("tests/fixtures/data/golden/cute_cpp.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"))
        .filter(|line| line["kind"] == "mma_traits")
        .map(|line| (line["name"].as_str().unwrap().to_owned(), line))
        .collect()
}

fn atom(name: &str) -> &'static MmaInfo {
    MMA_ATOMS.iter().find(|atom| atom.name == name).unwrap_or_else(|| panic!("there is no atom {name}"))
}

fn tuple(value: &Value) -> IntTuple {
    match value {
        Value::Number(number) => IntTuple::int(number.as_i64().unwrap()),
        Value::Array(elements) => IntTuple::tuple(&elements.iter().map(tuple).collect::<Vec<_>>()),
        other => panic!("no tuple: {other}"),
    }
}

/// CuTe's layout. Two of its strides nest deeper than their shapes; they are flattened.
fn layout(value: &Value) -> Layout {
    let shape = tuple(&value["shape"]);
    Layout::try_new(shape, tuple(&value["stride"])).unwrap_or_else(|_| {
        assert_eq!(
            value["stride"].to_string(),
            "[[512,1],[[16,8]]]",
            "the one stride that does not fit its shape"
        );
        Layout::new(shape, IntTuple::parse("((512,1),(16,8))").unwrap())
    })
}

fn element(cpp: &str) -> &str {
    match cpp {
        "signed char" => "s8",
        "unsigned char" => "u8",
        "short" => "s16",
        "int" => "s32",
        "float" => "f32",
        "double" => "f64",
        "cutlass::half_t" => "f16",
        "cutlass::bfloat16_t" => "bf16",
        "cutlass::tfloat32_t" => "tf32",
        "cutlass::float_e4m3_t" => "e4m3",
        "cutlass::float_e5m2_t" => "e5m2",
        "cutlass::integer_subbyte<4, true>" => "s4",
        "cutlass::integer_subbyte<4, false>" => "u4",
        "cutlass::integer_subbyte<1, false>" => "b1",
        "cutlass::complex<double>" => "c64",
        "cute::SM80_8x8x4_GC64C64C64GC64_TN::GaussComplex" => "gc64",
        other => panic!("an element type that the tests do not know: {other}"),
    }
}

#[test]
fn every_atom_of_cute_is_there_with_cutes_layouts() {
    let cute = cute();
    assert_eq!(cute.len(), 86, "atoms of CuTe");
    for (name, line) in &cute {
        let atom = atom(name);
        assert_eq!(Some(u64::from(atom.arch)), line["arch"].as_u64(), "{name}");
        assert_eq!(Value::from(atom.shape_mnk.to_vec()), line["shape_mnk"], "{name}");
        assert_eq!(atom.thr_id, layout(&line["thr_id"]), "{name}: threads");
        for (side, operand) in [("a", &atom.a), ("b", &atom.b), ("c", &atom.c), ("d", &atom.d)] {
            // CuTe treats both operands of dp2a as 16-bit values, for which there is no
            // instruction.
            if (name.as_str(), side) != ("SM61_DP2A", "b") {
                assert_eq!(
                    operand.element,
                    element(line[format!("val_{side}")].as_str().unwrap()),
                    "{name}: {side}"
                );
            }
            if side == "d" {
                continue;
            }
            assert_eq!(operand.layout, layout(&line[side.to_uppercase()]), "{name}: {side}");
            assert_eq!(
                Some(operand.words as u64),
                line[format!("reg_{side}")].as_u64(),
                "{name}: registers of {side}"
            );
        }
    }
}

#[test]
fn what_cute_does_not_have_are_the_mixed_forms_of_sm_70() {
    let cute = cute();
    let others: BTreeSet<_> =
        MMA_ATOMS.iter().map(|atom| atom.name).filter(|name| !cute.contains_key(*name)).collect();
    let mixed = ["NN", "NT", "TN", "TT"].map(|order| format!("SM70_8x8x4_F32F16F16F16_{order}"));
    assert_eq!(others, mixed.iter().map(String::as_str).collect());
    for name in &mixed {
        // D is as in the form with f32 alone, C as in the form with f16 alone.
        let (wide, narrow) =
            (name.replace("F16F16F16", "F16F16F32"), name.replace("F32F16F16F16", "F16F16F16F16"));
        assert_eq!(atom(name).d.layout, atom(&wide).d.layout, "{name}");
        assert_eq!(atom(name).c.layout, atom(&narrow).c.layout, "{name}");
        assert_eq!(
            (atom(name).a.layout, atom(name).b.layout),
            (atom(&wide).a.layout, atom(&wide).b.layout),
            "{name}"
        );
    }
}

#[test]
fn all_51_operations_of_moye_are_there() {
    let mut expected = BTreeSet::new();
    let mut add = |name: String| assert!(expected.insert(format!("MMAOP_{name}")));
    add("8x8x4_F64F64F64F64_TN".into());
    for k in [4, 8] {
        add(format!("16x8x{k}_F32TF32TF32F32_TN"));
    }
    for k in [8, 16] {
        add(format!("16x8x{k}_F32BF16BF16F32_TN"));
        add(format!("16x8x{k}_F16F16F16F16_TN"));
        add(format!("16x8x{k}_F32F16F16F32_TN"));
    }
    for order in ["TT", "NT", "TN", "NN"] {
        for types in ["F16F16F16F16", "F32F16F16F16", "F32F16F16F32"] {
            add(format!("8x8x4_{types}_{order}"));
        }
    }
    for shape in ["8x8x16", "16x8x16", "16x8x32"] {
        for types in ["S8S8", "S8U8", "U8S8", "U8U8"] {
            add(format!("{shape}_S32{types}S32_TN"));
            add(format!("{shape}_S32{types}S32_TN_SATURATE"));
        }
    }
    for shape in ["8x8x128", "16x8x128", "16x8x256"] {
        add(format!("{shape}_S32B1B1S32_TN_XORPOPC"));
        add(format!("{shape}_S32B1B1S32_TN_ANDPOPC"));
    }
    assert_eq!(expected.len(), 51, "MoYe's list");
    let ours: BTreeSet<_> = MMA_ATOMS.iter().filter_map(|atom| atom.moye_name).map(str::to_owned).collect();
    assert_eq!(ours, expected);
}

/// Whether each of `size` elements belongs to exactly one thread and value.
fn covers(operand: &MmaOperandInfo, size: i64) -> bool {
    let mut held = vec![0; size as usize];
    for index in 0..operand.layout.size() {
        match held.get_mut(operand.layout.at(index) as usize) {
            Some(times) => *times += 1,
            None => return false,
        }
    }
    held.iter().all(|&times| times == 1)
}

#[test]
fn every_element_of_every_tile_has_one_thread_and_value() {
    for atom in MMA_ATOMS {
        let [m, n, k] = atom.shape_mnk;
        for (side, operand, size) in
            [("A", &atom.a, m * k), ("B", &atom.b, n * k), ("C", &atom.c, m * n), ("D", &atom.d, m * n)]
        {
            assert!(
                covers(operand, size),
                "{} {side}: {} is not a bijection onto {size}",
                atom.name,
                operand.layout
            );
            assert_eq!(operand.layout.extent(0), atom.thr_id.size(), "{} {side}: threads", atom.name);
            let bits = operand.layout.extent(1) as usize * operand.bits;
            // dp2a reads half of B's register.
            let unused = if (atom.name, side) == ("SM61_DP2A", "B") { 16 } else { 0 };
            assert_eq!(bits + unused, operand.words * 32, "{} {side}: values fill the registers", atom.name);
        }
    }
}
