//! The demonstration's last lines on a machine without a GPU.

use std::process::Command;

#[test]
fn the_demonstration_says_what_it_computed_checked_and_watched_and_what_to_type_next() {
    let output = Command::new(env!("CARGO_BIN_EXE_moye-demo")).env("MOYE_DEVICE", "sim").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<_> = said.lines().collect();
    let [_, computed, compared, watched, next] = lines[..] else { panic!("{said}") };
    let (_, kernel) =
        computed.split_once("(200 x 100) * (100 x 300), by a kernel written in Rust: ").unwrap();
    assert!(!kernel.is_empty() && kernel != "none", "{said}");
    assert!(compared.starts_with("all 60000 elements are right"), "{said}");
    let numbers: Vec<u64> = watched.split_whitespace().flat_map(str::parse).collect();
    // Each element of A, B and C is accessed at least once, an access covers up to four elements,
    // and a thread computes several elements of C.
    let [threads, accesses] = numbers[..] else { panic!("{said}") };
    assert!((32..60_000).contains(&threads) && 4 * accesses >= 20_000 + 30_000 + 60_000, "{said}");
    assert!(watched.contains("all are in bounds"), "{said}");
    assert_eq!(watched.contains("no two of them race"), cfg!(debug_assertions), "{said}");
    assert!(next.ends_with("cargo xtask new ../my-kernels"), "{said}");
}
