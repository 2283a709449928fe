//! `cargo xtask ptx`: the table of the shipped kernels.

use moye_build::report::Ptxas;
use std::process::Command;

/// The command. With attention's kernels it reuses the compilation of the tests' build.
fn xtask_ptx(arguments: &[&str]) -> Command {
    let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
    xtask.args(["ptx", "--attention"]).args(arguments);
    xtask
}

fn ptx(arguments: &[&str]) -> String {
    let output = xtask_ptx(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_table_has_a_row_for_each_kernel_and_architecture() {
    let table = ptx(&["copy", "matmul_f32_nt"]);
    let cells =
        |line: &str| line.split("  ").map(|cell| cell.trim().to_owned()).filter(|c| !c.is_empty()).collect();
    let rows: Vec<Vec<String>> = table.lines().take_while(|line| !line.is_empty()).map(cells).collect();
    let cell = |kernel: &str, arch: &str, column: &str| {
        let column =
            rows[0].iter().position(|name| name == column).unwrap_or_else(|| panic!("{column}: {table}"));
        let row = rows.iter().find(|row| row[0] == kernel && row[1] == arch);
        row.unwrap_or_else(|| panic!("{kernel} for {arch}: {table}"))[column].clone()
    };
    assert_eq!(
        rows.len(),
        1 + 5 * 2 + 1,
        "copy, copy_async, copy_lines, copy_long_lines and matmul_f32_nt, for both architectures; \
         ladder_plain_copy for one: {table}"
    );
    for arch in ["sm_80", "sm_90a"] {
        // 32 columns of 33 elements; a thread copies 4 elements of each tile.
        for (column, value) in [
            ("threads", "256"),
            ("shared", "4220"),
            ("local", "0"),
            ("ld.global", "4x32"),
            ("cp.async", "0"),
            ("bar", "1"),
        ] {
            assert_eq!(cell("copy", arch, column), value, "{column} of copy for {arch}");
        }
        assert_eq!(
            (cell("copy_async", arch, "ld.global"), cell("copy_async", arch, "cp.async")),
            ("0".into(), "4".into())
        );
        assert_eq!(cell("matmul_f32_nt", arch, "fma"), "512");
        let by_ptxas = ["regs", "stack", "spills"].map(|column| cell("matmul_f32_nt", arch, column));
        match Ptxas::find() {
            Some(_) => {
                assert!((64..=128).contains(&by_ptxas[0].parse().unwrap()), "registers: {}", by_ptxas[0]);
                assert_eq!(by_ptxas[1..], ["0", "0"]);
            }
            None => assert_eq!(by_ptxas, ["?", "?", "?"]),
        }
    }
}

#[test]
fn json_holds_every_instruction() {
    let all: serde_json::Value =
        serde_json::from_str(&ptx(&["transpose", "--arch", "sm_80", "--json"])).unwrap();
    let text = all.to_string();
    assert!(text.contains("\"transpose\"") && text.contains("bar.sync"), "{text}");
    assert!(!text.contains("\"copy\"") && !text.contains("sm_90a"), "only the requested ones: {text}");
}

#[test]
fn a_name_that_no_kernel_has_is_an_error() {
    let output = xtask_ptx(&["nonesuch", "--arch", "sm_80"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no kernel's name contains nonesuch"), "{said}");
}
