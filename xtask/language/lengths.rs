//! The length of kernels, pages and examples that must be short.

use super::Fault;

/// The line that starts a file's tests, which are not counted.
const OWN_TESTS: &str = "#[cfg(test)]";

/// The maximum lines of a file, or of each Rust file of a folder and its subfolders, including
/// documentation and comments. The first matching entry applies.
#[rustfmt::skip] // A table.
const MOST: &[(&str, usize)] = &[
    // Kernels of one page.
    ("examples/pages/src/attention.rs", 120),
    ("examples/pages/src/softmax.rs", 50),
    ("examples/pages/src/rmsnorm.rs", 40),
    // The ladder: a kernel, and its host side.
    ("ops/matmul/ladder/", 100),
    ("ops/movement/ladder/", 100),
    ("examples/ladder/support.rs", usize::MAX),
    ("examples/ladder/main.rs", 50),
    ("examples/ladder/", 40),
    // The steps of the guide to Hopper.
    ("examples/hopper-steps/src/step1.rs", 60),
    ("examples/hopper-steps/src/step2.rs", 60),
    ("examples/hopper-steps/src/step3.rs", 80),
    ("examples/hopper-steps/src/step4.rs", 80),
    ("examples/hopper-steps/src/step5.rs", 80),
    ("examples/hopper-steps/src/step6.rs", 90),
    ("examples/hopper-steps/src/step7.rs", 40),
    // The shipped kernels; their tests are in separate files.
    ("ops/attention/kernels/", 450),
    ("ops/matmul/kernels/", 450),
    ("ops/movement/kernels/", 450),
];

/// The maximum lines of all Rust files of a folder together.
const SUMS: [(&str, usize); 1] = [("ops/matmul/kernels/hopper/", 3695)];

/// The lines that count.
fn lines(text: &str) -> usize {
    text.lines().take_while(|line| *line != OWN_TESTS).count()
}

/// A file that is too long.
pub fn check(name: &str, text: &str, faults: &mut Vec<Fault>) {
    let Some(&(_, most)) = MOST.iter().find(|(start, _)| name.starts_with(start) && name.ends_with(".rs"))
    else {
        return;
    };
    let lines = lines(text);
    if lines > most {
        let what = format!("{lines} lines without tests, and {most} is the most of this file");
        faults.push(Fault::new(name, most + 1, what));
    }
}

/// Counts the lines of the folders in [`SUMS`].
#[derive(Default)]
pub struct Sums([usize; SUMS.len()]);

impl Sums {
    pub fn add(&mut self, name: &str, text: &str) {
        for ((folder, _), sum) in SUMS.iter().zip(&mut self.0) {
            if name.starts_with(folder) && name.ends_with(".rs") {
                *sum += lines(text);
            }
        }
    }

    /// The folders that are too long.
    pub fn faults(&self) -> Vec<Fault> {
        let too_long = SUMS.iter().zip(self.0).filter(|((_, most), sum)| sum > most);
        let fault = |(&(folder, most), sum): (&(&str, usize), usize)| {
            let what = format!("{sum} lines without tests in all, and {most} is the most of this folder");
            Fault::new(folder, 1, what)
        };
        too_long.map(fault).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkout::Checkout;

    /// The faults of a file with `lines` lines followed by `end`.
    fn said(name: &str, lines: usize, end: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(name, &("\n".repeat(lines) + end), &mut faults);
        faults.iter().map(|fault| fault.what.clone()).collect()
    }

    #[test]
    fn a_kernels_file_may_have_450_lines_and_its_tests_more() {
        let tests = format!("{OWN_TESTS}\n{}", "\n".repeat(450));
        assert!(said("ops/attention/kernels/a.rs", 450, &tests).is_empty());
        let more = said("ops/attention/kernels/a.rs", 451, &tests);
        assert_eq!(more, ["451 lines without tests, and 450 is the most of this file"]);
        assert!(said("ops/attention/tests/a.rs", 451, "").is_empty());
        assert!(said("device/layout/a.rs", 451, "").is_empty());
    }

    #[test]
    fn each_file_of_the_table_may_have_its_limit_and_no_line_more() {
        for &(start, most) in MOST.iter().filter(|(_, most)| *most < usize::MAX) {
            let name = if start.ends_with('/') { format!("{start}a.rs") } else { start.to_owned() };
            assert!(said(&name, most, "").is_empty(), "{name}");
            assert_eq!(said(&name, most + 1, "").len(), 1, "{name}");
        }
        assert!(said("examples/ladder/support.rs", 41, "").is_empty());
        assert!(said("examples/ladder/README.md", 41, "").is_empty());
    }

    #[test]
    fn the_files_of_a_folder_count_together() {
        let (folder, most) = SUMS[0];
        let mut sums = Sums::default();
        sums.add(&format!("{folder}a.rs"), &"\n".repeat(most - 1));
        sums.add(&format!("{folder}b/c.rs"), &format!("\n{OWN_TESTS}\n\n"));
        sums.add("ops/matmul/kernels/mma/a.rs", "\n");
        assert!(sums.faults().is_empty(), "exactly the limit");
        sums.add(&format!("{folder}d.rs"), "\n");
        let faults: Vec<_> = sums.faults().iter().map(ToString::to_string).collect();
        let text = format!(
            "{folder}:1: {} lines without tests in all, and {most} is the most of this folder",
            most + 1
        );
        assert_eq!(faults, [text]);
    }

    #[test]
    fn what_has_a_limit_is_there() {
        let root = Checkout::find().unwrap().root;
        for (name, _) in MOST.iter().chain(&SUMS) {
            assert!(root.join(name).exists(), "{name}");
        }
    }
}
