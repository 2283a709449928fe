//! Copy atoms: their layouts are CuTe's, and the simulator moves what the layouts say.

use crate::golden::{Failures, layout, lines};
use moye_device::atom::copy::*;
use moye_device::layout::Layout;
use moye_sim::intrinsics::{lane_id, load_shared, shared_base, store_global, store_shared, sync_threads};
use moye_sim::{GlobalMemory, Launch};
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

/// Runs `kernel` in one warp with 2 KiB of shared memory, and returns the `words` of each lane.
fn by_lane<const N: usize>(kernel: impl Fn() -> [u32; N] + Sync) -> Vec<[u32; N]> {
    let memory = GlobalMemory::new();
    let out = memory.alloc(32 * N * 4, "out").unwrap();
    let address = out.address();
    Launch::new("atom", 1, 32, &memory)
        .shared_bytes(2048)
        .run(&|| {
            let words = kernel();
            for (i, word) in words.into_iter().enumerate() {
                store_global(address + 4 * (lane_id() as u64 * N as u64 + i as u64), word);
            }
        })
        .unwrap();
    let mut bytes = vec![0; out.len()];
    out.read(0, &mut bytes).unwrap();
    let words: Vec<u32> = bytes.chunks_exact(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
    words.chunks_exact(N).map(|lane| lane.try_into().unwrap()).collect()
}

/// The tag of the 16 bits at a bit offset of the reference order.
fn tag(bit: i64) -> u16 {
    assert_eq!(bit % 16, 0, "16-bit elements are at multiples of 16 bits");
    (bit / 16) as u16 ^ 0xA500
}

/// The registers of each lane according to a layout of bits.
fn registers<const N: usize>(layout: &Layout) -> Vec<[u32; N]> {
    let at = |lane: i64, bit: i64| u32::from(tag(layout.at_coord([lane, bit])));
    let register = |lane, i: usize| at(lane, 32 * i as i64) | at(lane, 32 * i as i64 + 16) << 16;
    (0..32).map(|lane| std::array::from_fn(|i| register(lane, i))).collect()
}

/// The start of row `lane` of an `ldmatrix` or `stmatrix`; rows are scattered.
fn row_address(lane: u32) -> u32 {
    shared_base() + lane * 7 % 32 * 48
}

fn check_load<A, const N: usize>()
where
    A: CopyAtom<Source = SharedMemory, Destination = RegisterFile<N>>,
{
    let got = by_lane(|| {
        let lane = lane_id();
        if lane < 8 * N as u32 {
            for element in 0..8 {
                let bit = A::SRC.at_coord([i64::from(lane), 16 * i64::from(element)]);
                store_shared(row_address(lane) + 2 * element, tag(bit));
            }
        }
        sync_threads();
        // Lanes past the rows pass an address that must not be read.
        let address = if lane < 8 * N as u32 { row_address(lane) } else { 1 };
        // SAFETY: all lanes call it, with rows in shared memory.
        unsafe { A::call(address, ()) }
    });
    for (lane, (got, want)) in got.iter().zip(registers::<N>(&A::DST)).enumerate() {
        assert_eq!(got, &want, "{}: lane {lane} has {got:08x?}, its layout says {want:08x?}", A::NAME);
    }
}

#[test]
fn ldmatrix_moves_what_its_layouts_say() {
    check_load::<SM75_U32x1_LDSM_N, 1>();
    check_load::<SM75_U32x2_LDSM_N, 2>();
    check_load::<SM75_U32x4_LDSM_N, 4>();
    check_load::<SM75_U16x2_LDSM_T, 1>();
    check_load::<SM75_U16x4_LDSM_T, 2>();
    check_load::<SM75_U16x8_LDSM_T, 4>();
}

fn check_store<A, const N: usize>()
where
    A: CopyAtom<Source = RegisterFile<N>, Destination = SharedMemory>,
{
    let sources = registers::<N>(&A::SRC);
    let got = by_lane::<4>(|| {
        let lane = lane_id();
        let address = if lane < 8 * N as u32 { row_address(lane) } else { 1 };
        // SAFETY: all lanes call it, with rows in shared memory.
        unsafe { A::call(sources[lane as usize], address) };
        sync_threads();
        std::array::from_fn(|i| {
            if lane < 8 * N as u32 { load_shared(row_address(lane) + 4 * i as u32) } else { 0 }
        })
    });
    for (lane, got) in got.iter().enumerate().take(8 * N) {
        let at = |i: i64| u32::from(tag(A::DST.at_coord([lane as i64, 16 * i])));
        let want: [u32; 4] = std::array::from_fn(|i| at(2 * i as i64) | at(2 * i as i64 + 1) << 16);
        assert_eq!(got, &want, "{}: row {lane} is {got:08x?}, its layout says {want:08x?}", A::NAME);
    }
}

#[test]
fn stmatrix_moves_what_its_layouts_say() {
    check_store::<SM90_U32x1_STSM_N, 1>();
    check_store::<SM90_U32x2_STSM_N, 2>();
    check_store::<SM90_U32x4_STSM_N, 4>();
    check_store::<SM90_U16x2_STSM_T, 1>();
    check_store::<SM90_U16x4_STSM_T, 2>();
    check_store::<SM90_U16x8_STSM_T, 4>();
}
