//! The counters that a GPU gave (`docs/results/*-ncu.csv`): they belong to the kernels as they are,
//! and each difference is the one that a reason of `ncu.py` predicts.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// The newest results.
fn results() -> PathBuf {
    let folder = Path::new(FOLDER).join("../../docs/results");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of_ncu = |path: &PathBuf| path.to_str().is_some_and(|path| path.ends_with("-ncu.csv"));
    files.filter(of_ncu).max().expect("there are results")
}

/// What `ncu.py judge` says of a file; `None` without Python.
fn judge(file: &Path) -> Option<Output> {
    let python = std::env::var_os("PYTHON").unwrap_or_else(|| "python3".into());
    Command::new(python).arg(Path::new(FOLDER).join("ncu.py")).arg("judge").arg(file).output().ok()
}

#[test]
fn the_measured_kernels_are_those_of_the_profile() {
    let output = Command::new(env!("CARGO_BIN_EXE_profiled")).arg("expect").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let ours: BTreeMap<_, _> = said.lines().skip(1).filter_map(|line| line.rsplit_once(',')).collect();
    let measured = std::fs::read_to_string(results()).unwrap();
    let rows = measured.lines().skip(1).filter(|line| !line.starts_with('#'));
    let mut kernels = BTreeSet::new();
    for row in rows {
        let cells: Vec<_> = row.splitn(4, ',').collect();
        let name = format!("{},{}", cells[0], cells[1]);
        assert_eq!(ours.get(name.as_str()), Some(&cells[2]), "{name}: run ncu.py again");
        kernels.insert(cells[0].to_owned());
    }
    let all: BTreeSet<_> = ours.keys().map(|name| name.split(',').next().unwrap().to_owned()).collect();
    assert_eq!(kernels, all, "each kernel has been measured");
}

#[test]
fn each_difference_from_the_gpu_is_the_one_that_a_reason_predicts() {
    let Some(output) = judge(&results()) else { return println!("there is no Python") };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.ends_with(", 0 differ\n"), "{said}");
}

#[test]
fn a_difference_other_than_the_predicted_one_has_no_reason() {
    let folder = std::env::temp_dir().join(format!("moye-ncu-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("changed.csv");
    for (kernel, counter, ours) in [
        // A reason of the kernel and the counter, and another figure.
        ("bulk_copy", "sass__inst_executed_per_opcode/UBLKCP", 4),
        ("atomic_one", "sass__inst_executed_per_opcode/SHFL", 0),
        // A reason of another kernel, and of another counter of the kernel.
        ("copy_to_column", "sass__inst_executed_per_opcode/STS", 0),
        ("load_neighbours", "sass__inst_executed_per_opcode/LDG", 16),
    ] {
        std::fs::write(&file, format!("kernel,counter,ours,ncu,verdict\n{kernel},{counter},{ours},17,\n"))
            .unwrap();
        let Some(output) = judge(&file) else { return println!("there is no Python") };
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(&format!("{kernel},{counter},{ours},17,DIFFERS")), "{said}");
        assert_eq!(output.status.code(), Some(1), "{said}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
