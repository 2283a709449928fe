//! The layouts of the copy atoms are CuTe's. `tests/device/copy_atoms` checks that the atoms move
//! the elements by these layouts.

use crate::golden::{Failures, layout, lines};
use moye_device::atom::copy::*;
use moye_device::layout::Layout;
use serde_json::Value;
use std::collections::BTreeMap;

/// The atoms by their C++ names.
fn atoms() -> BTreeMap<String, &'static CopyAtomInfo> {
    let cpp = |parameter: &str| match parameter {
        "u8" | "u16" | "u32" | "u64" | "u128" => format!("uint{}_t", &parameter[1..]),
        other => other.to_owned(),
    };
    let name = |atom: &CopyAtomInfo| match atom.parameter {
        Some(parameter) => format!("{}<{}>", atom.name, cpp(parameter)),
        None => atom.name.to_owned(),
    };
    copy_atoms().iter().map(|atom| (name(atom), atom)).collect()
}

/// Atoms that CuTe defines without a PTX instruction: `cp.async.cg` moves 16 bytes only.
const WITHOUT_INSTRUCTION: [&str; 4] = [
    "SM80_CP_ASYNC_CACHEGLOBAL<uint32_t>",
    "SM80_CP_ASYNC_CACHEGLOBAL<uint64_t>",
    "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint32_t>",
    "SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<uint64_t>",
];

/// The atom of a C++ name. An atom without an instruction has the layouts of the `cp.async.ca`
/// form.
fn find(atoms: &BTreeMap<String, &'static CopyAtomInfo>, name: &str) -> Option<&'static CopyAtomInfo> {
    if WITHOUT_INSTRUCTION.contains(&name) {
        return atoms.get(&name.replace("CACHEGLOBAL", "CACHEALWAYS")).copied();
    }
    atoms.get(name).copied()
}

#[test]
fn what_has_no_instruction_is_no_atom() {
    let atoms = atoms();
    let named: Vec<_> = WITHOUT_INSTRUCTION.iter().filter(|name| atoms.contains_key(**name)).collect();
    assert!(named.is_empty(), "{named:?}");
    // All other names of CuTe are defined here too.
    for line in of_kind("cute_cpp.jsonl", "copy_traits") {
        let name = line["name"].as_str().unwrap();
        assert_ne!(atoms.contains_key(name), WITHOUT_INSTRUCTION.contains(&name), "{name}");
    }
}

fn element_bits(name: &str) -> i64 {
    match name {
        "uint8_t" => 8,
        "half_t" => 16,
        "float" => 32,
        "double" => 64,
        other => panic!("an element type that the tests do not know: {other}"),
    }
}

fn of_kind(file: &str, kind: &str) -> Vec<Value> {
    lines(file).into_iter().filter(|line| line["kind"] == kind).collect()
}

fn compare(failures: &mut Failures, line: &Value, sides: [(&str, Layout); 4]) {
    for (side, got) in sides {
        let want = layout(&line[side]);
        if got != want {
            failures.add(line, format!("{} {side}: {got}, CuTe has {want}", line["name"]));
        }
    }
}

#[test]
fn every_atom_has_the_bit_layouts_of_cute() {
    let atoms = atoms();
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp.jsonl", "copy_traits") {
        failures.checked += 1;
        let Some(atom) = find(&atoms, line["name"].as_str().unwrap()) else {
            failures.add(&line, format!("there is no atom {}", line["name"]));
            continue;
        };
        if Some(u64::from(atom.arch)) != line["arch"].as_u64() {
            failures.add(&line, format!("sm_{}, CuTe has {}", atom.arch, line["arch"]));
        }
        let BitLayouts { thr_id, src, dst, reference } = atom.layouts;
        compare(&mut failures, &line, [("thr_id", thr_id), ("src", src), ("dst", dst), ("ref", reference)]);
    }
    failures.none(33);
}

#[test]
fn every_atom_has_the_value_layouts_of_cute() {
    let atoms = atoms();
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp.jsonl", "copy_atom") {
        failures.checked += 1;
        let atom = find(&atoms, line["name"].as_str().unwrap()).expect("there is the atom");
        match atom.layouts.try_values(element_bits(line["val"].as_str().unwrap())) {
            Err(error) => failures.add(&line, format!("refused: {error}")),
            Ok(values) => {
                let counts = (Some(values.num_val_src()), Some(values.num_val_dst()));
                if counts != (line["num_val_src"].as_i64(), line["num_val_dst"].as_i64()) {
                    failures.add(&line, format!("{counts:?} values"));
                }
                let ValueLayouts { thr_id, src, dst, reference, .. } = values;
                compare(
                    &mut failures,
                    &line,
                    [("thr_id", thr_id), ("src", src), ("dst", dst), ("ref", reference)],
                );
            }
        }
    }
    failures.none(67);
}

#[test]
fn what_cute_refuses_is_refused_with_the_numbers() {
    let atoms = atoms();
    let mut failures = Failures::default();
    for line in of_kind("cute_cpp_rejected.jsonl", "copy_atom") {
        failures.checked += 1;
        let atom = find(&atoms, line["name"].as_str().unwrap()).expect("there is the atom");
        let bits = element_bits(line["val"].as_str().unwrap());
        match atom.layouts.try_values(bits) {
            Ok(values) => failures.add(&line, format!("{} accepted with {:?}", line["name"], values)),
            Err(error @ AtomError::Torn { most, .. }) => {
                let text = error.to_string();
                let named = text.contains(&format!("{bits} bits")) && text.contains(&format!("{most} "));
                if !named || atom.layouts.try_values(most).is_err() {
                    failures.add(&line, format!("{}: {text}", line["name"]));
                }
            }
            Err(other) => failures.add(&line, format!("{}: {other}", line["name"])),
        }
    }
    failures.none(9);
}

#[test]
fn names_carry_their_parameter() {
    assert_eq!(name::<UniversalCopy<f64>>().to_string(), "UniversalCopy<f64>");
    assert_eq!(name::<SM75_U32x4_LDSM_N>().to_string(), "SM75_U32x4_LDSM_N");
    assert_eq!(name::<AutoVectorizingCopy>().to_string(), "AutoVectorizingCopyWithAssumedAlignment<128>");
    assert_eq!(copy_atoms()[2].to_string(), "UniversalCopy<u32>");
}

#[test]
fn bytes_of_a_thread_follow_from_the_layouts() {
    assert_eq!(
        (SM75_U32x2_LDSM_N::LAYOUTS.src_bytes(), SM75_U32x2_LDSM_N::LAYOUTS.dst_bytes()),
        (16, 8),
        "each lane names a row of 16 bytes and gets two registers"
    );
    assert_eq!(<SM80_CP_ASYNC_CACHEGLOBAL<u128>>::LAYOUTS.src_bytes(), 16);
    assert_eq!(DefaultCopy::LAYOUTS.src_bytes(), 0, "the tensors decide");
}
