//! The commands that run no operation, in a program with or without the feature `operations`.

mod draw;
mod eval;
mod new_crate;
mod pictures;

use std::fs;
use std::process::{Command, Output};

fn moye(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_moye")).args(arguments).output().unwrap()
}

#[test]
fn tools_need_no_shipped_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("k.ptx");
    let text = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry empty()\n{\n    ret;\n}\n";
    fs::write(&file, text).unwrap();
    let (file, krate) = (file.display().to_string(), folder.path().join("rows").display().to_string());
    for (arguments, part) in [
        (&["report", &file][..], "empty"),
        (&["new", &krate], "rows is written"),
        (&["draw", "--layout", "(4,2):(2,1)", "--format", "cute"], "(4,2):(2,1)"),
        (&["eval", "complement(4:2, 24)"], "(2,3):(1,8)"),
        (&["atoms"], "SM80_16x8x16_F32F16F16F32_TN"),
        (&["doctor"], "simulator"),
    ] {
        let output = moye(arguments);
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(said.contains(part), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[cfg(not(feature = "operations"))]
#[test]
fn a_program_without_operations_says_so() {
    let help = String::from_utf8(moye(&["--help"]).stdout).unwrap();
    assert!(help.contains("This program was built without the feature `operations`"), "{help}");
    assert_eq!(moye(&["matmul"]).status.code(), Some(2));
}
