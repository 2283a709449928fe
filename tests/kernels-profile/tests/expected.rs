//! The profile of each kernel is the one that `expected.csv` holds, whose figures follow from the
//! accesses by hand. Counters that are 0 have no row there.

use std::process::Command;

#[test]
fn the_profile_of_each_kernel_has_the_figures_that_its_accesses_make() {
    let output = Command::new(env!("CARGO_BIN_EXE_profiled")).arg("expect").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let said: Vec<_> = said.lines().filter(|line| !line.ends_with(",0")).collect();
    let expected: Vec<_> = include_str!("../expected.csv").lines().collect();
    for (said, expected) in said.iter().zip(&expected) {
        assert_eq!(said, expected);
    }
    assert_eq!(said.len(), expected.len());
}
