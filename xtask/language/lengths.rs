//! The length of the shipped kernels' files.

use super::Fault;

/// The most lines of a kernel, its documentation and comments included.
const MOST: usize = 450;
/// Where the shipped kernels are.
const KERNELS: &str = "device/kernels/";
/// Their tests, which have files of their own.
const TESTS: &str = "device/kernels/tests/";
/// The line that begins a file's tests, which are not counted.
const OWN_TESTS: &str = "#[cfg(test)]";

/// The file of a kernel that is too long.
pub fn check(name: &str, text: &str, faults: &mut Vec<Fault>) {
    if !name.starts_with(KERNELS) || name.starts_with(TESTS) || !name.ends_with(".rs") {
        return;
    }
    let lines = text.lines().take_while(|line| *line != OWN_TESTS).count();
    if lines > MOST {
        let what = format!("{lines} lines without tests, and {MOST} is the most of a kernel's file");
        faults.push(Fault::new(name, MOST + 1, what));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernels_file_may_have_450_lines_and_its_tests_more() {
        let faults = |name: &str, lines: usize, end: &str| {
            let mut faults = Vec::new();
            check(name, &("\n".repeat(lines) + end), &mut faults);
            faults.iter().map(|fault| fault.what.clone()).collect::<Vec<_>>()
        };
        let tests = format!("{OWN_TESTS}\n{}", "\n".repeat(MOST));
        assert!(faults("device/kernels/attention/a.rs", MOST, &tests).is_empty());
        let more = faults("device/kernels/attention/a.rs", MOST + 1, &tests);
        assert_eq!(more.len(), 1, "{more:?}");
        assert!(more[0].starts_with("451 lines without tests"), "{more:?}");
        assert!(faults("device/kernels/tests/a.rs", MOST + 1, "").is_empty());
        assert!(faults("device/layout/a.rs", MOST + 1, "").is_empty());
    }
}
