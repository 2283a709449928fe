//! The claims of docs/guide/debugging.md about faults, and of docs/guide/profile.md about
//! rooflines.

use moye_sim::intrinsics::{count_instruction, load_global, shared_base, store_shared, thread_idx};
use moye_sim::profile::{Card, Profiler};
use moye_sim::{GlobalMemory, Launch};
use std::fs;
use std::path::Path;

/// A file of the checkout.
fn text(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The names of the kinds of faults.
fn kinds() -> Vec<String> {
    let source = text("fault/kind.rs");
    let (_, body) = source.split_once("pub enum FaultKind {\n").unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let name = |line: &str| {
        let name = line.strip_prefix("    ")?.split(['{', '(', ',']).next()?.trim();
        name.starts_with(|first: char| first.is_ascii_uppercase()).then(|| name.to_owned())
    };
    body.lines().filter_map(name).collect()
}

#[test]
fn each_kind_of_fault_has_a_row_with_cause_and_fix_in_the_guide_and_no_row_has_another() {
    let kinds = kinds();
    assert!(kinds.len() > 25 && kinds.iter().any(|kind| kind == "Race"), "{kinds:?}");
    let guide = text("../docs/guide/debugging.md");
    let (_, table) = guide.split_once("| fault | cause | fix |\n").unwrap();
    let rows: Vec<Vec<_>> = table
        .lines()
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let mut named: Vec<_> = rows.iter().flat_map(|row| row[0].split(", ")).collect();
    let mut expected: Vec<_> = kinds.iter().map(|kind| format!("`{kind}`")).collect();
    named.sort_unstable();
    expected.sort_unstable();
    assert_eq!(named, expected);
    for row in rows {
        assert!(row.len() == 3 && row.iter().all(|cell| !cell.is_empty()), "{row:?}");
    }
}

#[test]
fn the_guide_names_each_unit_of_a_roofline() {
    let (profiler, memory) = (Profiler::new(), GlobalMemory::new());
    let words = memory.upload(&[1_u32; 32], "words").unwrap();
    let from = words.address();
    // An instruction of each unit.
    let kernel = || {
        let at = 4 * thread_idx().x;
        store_shared(shared_base() + at, load_global::<u32>(from + u64::from(at)));
        count_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
    };
    Launch::new("k", 1, 32, &memory).shared_bytes(128).profiler(&profiler).run(&kernel).unwrap();
    let profile = profiler.take();
    let roofline = Card::named("H100").unwrap().roofline(profile.kernel("k").unwrap());
    let guide = text("../docs/guide/profile.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, knows) =
        guide.split_once("A roofline is a lower bound on the time, not a prediction. It knows ").unwrap();
    let (knows, _) = knows.split_once('.').unwrap();
    let mut said: Vec<_> = knows.split(", ").flat_map(|units| units.split(" and ")).collect();
    let mut units: Vec<_> = roofline.times.iter().map(|(unit, _)| *unit).collect();
    said.sort_unstable();
    units.sort_unstable();
    assert_eq!(said, units);
}
