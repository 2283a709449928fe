//! Limits on `unsafe` in kernels and examples, and on comments that refer to the caller's contract
//! without a condition. Limits may only decrease, except for a new kernel or example.
//!
//! A kernel's contract is stated once. Its body, and the functions of which it is composed, rely on
//! the documented contract and have no `unsafe` blocks.

use super::Fault;
use super::source::pieces;

/// The number of times a folder may say `unsafe`, not counting comments and string literals.
struct Limit {
    folder: &'static str,
    /// Blocks: exceptions to a contract, launches, and tests.
    blocks: usize,
    /// Functions and implementations: each states a contract.
    declarations: usize,
}

/// A file counts for the first folder that it is in.
const LIMITS: [Limit; 11] = [
    Limit { folder: "ops/attention/kernels/", blocks: 1, declarations: 77 },
    Limit { folder: "ops/matmul/kernels/", blocks: 1, declarations: 75 },
    Limit { folder: "ops/matmul/ladder/", blocks: 0, declarations: 9 },
    Limit { folder: "ops/movement/kernels/", blocks: 0, declarations: 6 },
    Limit { folder: "ops/movement/ladder/", blocks: 0, declarations: 4 },
    Limit { folder: "examples/pages/", blocks: 10, declarations: 8 },
    // A launch for each example.
    Limit { folder: "examples/ladder/", blocks: 4, declarations: 0 },
    // A graph and a pass over a chunk, rows of an embedding, a test's launch and the measured
    // ones; the passes, the parts of a layer, the sum of ranks and its kernels have contracts.
    Limit { folder: "examples/llama/", blocks: 10, declarations: 13 },
    // Two launches; the kernels have contracts.
    Limit { folder: "examples/minilm/", blocks: 2, declarations: 3 },
    Limit { folder: "examples/", blocks: 8, declarations: 14 },
    // Counted but not limited: tests of single instructions need blocks.
    Limit { folder: "tests/fixtures/", blocks: usize::MAX, declarations: usize::MAX },
];

/// The ends of comments that state no condition, and the allowed number of such comments.
const NO_CONDITION: [&str; 3] =
    ["SAFETY: the caller's contract.", "the caller's contract is the same.", "SAFETY: as above."];
const WITHOUT_CONDITION: usize = 0;

/// Counts `unsafe` and comments without a condition in the given files.
#[derive(Default)]
pub struct Contracts {
    /// Comments that state no condition.
    without_condition: usize,
    /// Blocks and declarations of each folder in [`LIMITS`].
    found: [(usize, usize); LIMITS.len()],
}

impl Contracts {
    pub fn add(&mut self, name: &str, text: &str) {
        let states_none = |line: &&str| NO_CONDITION.iter().any(|end| line.ends_with(end));
        self.without_condition += text.lines().filter(states_none).count();
        let Some(folder) = LIMITS.iter().position(|limit| name.starts_with(limit.folder)) else { return };
        if name.ends_with(".rs") {
            let (blocks, declarations) = count(name, text);
            self.found[folder].0 += blocks;
            self.found[folder].1 += declarations;
        }
    }

    /// The counts of each folder, in one line.
    pub fn counts(&self) -> String {
        let counts = LIMITS.iter().zip(&self.found).map(|(limit, (blocks, declarations))| {
            format!("{} {blocks} blocks, {declarations} functions", limit.folder)
        });
        counts.collect::<Vec<_>>().join("; ")
    }

    /// The limits that are exceeded.
    pub fn faults(&self) -> Vec<Fault> {
        let mut faults = Vec::new();
        if self.without_condition > WITHOUT_CONDITION {
            let found = self.without_condition;
            let what = format!(
                "{found} comments name the caller's contract without a condition, and {WITHOUT_CONDITION} is the most; \
                 state the condition"
            );
            faults.push(Fault::new("device/", 1, what));
        }
        for (limit, &(blocks, declarations)) in LIMITS.iter().zip(&self.found) {
            for (what, found, most) in
                [("blocks", blocks, limit.blocks), ("functions", declarations, limit.declarations)]
            {
                if found > most {
                    faults.push(Fault::new(
                        limit.folder,
                        1,
                        format!(
                            "{found} unsafe {what}, and {most} is the most; state the contract once, \
                             on the function or where a value is made"
                        ),
                    ));
                }
            }
        }
        faults
    }
}

/// The blocks and the declarations of a file that are `unsafe`.
fn count(name: &str, text: &str) -> (usize, usize) {
    let (blocks, all) = words(text);
    let quoted = pieces(name, text)
        .iter()
        .map(|piece| words(&piece.text))
        .fold((0, 0), |sum, (b, a)| (sum.0 + b, sum.1 + a));
    let (blocks, all) = (blocks - quoted.0, all - quoted.1);
    (blocks, all - blocks)
}

/// The number of `unsafe {`, and of `unsafe` in total.
fn words(text: &str) -> (usize, usize) {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    let whole = text.match_indices("unsafe").filter(|(at, word)| {
        let (before, after) = (&text[..*at], &text[at + word.len()..]);
        !before.ends_with(part_of_word) && !after.starts_with(part_of_word)
    });
    whole.fold((0, 0), |(blocks, all), (at, word)| {
        let is_block = text[at + word.len()..].trim_start().starts_with('{');
        (blocks + usize::from(is_block), all + 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_functions_are_counted_and_what_is_written_about_them_is_not() {
        let text = "
            // unsafe { comment }
            /// An unsafe function.
            pub unsafe fn f() { g(\"unsafe {\"); unsafe { h() } }
            unsafe impl T for U {}
            #![allow(unsafe_op_in_unsafe_fn)]
        ";
        assert_eq!(count("a.rs", text), (1, 2));
    }

    #[test]
    fn comments_that_state_no_condition_are_counted_and_others_are_not() {
        let faults = |comment: &str| {
            let mut contracts = Contracts::default();
            contracts.add("host/a.rs", &format!("    // {comment}\n"));
            contracts.faults().iter().map(|fault| fault.what.clone()).collect::<Vec<_>>()
        };
        assert!(faults("SAFETY: the caller's contract. `a` is readable.").is_empty());
        for comment in ["SAFETY: the caller's contract.", "SAFETY: the caller's contract is the same."] {
            let more = faults(comment);
            assert!(more.len() == 1 && more[0].contains("state the condition"), "{comment}: {more:?}");
        }
    }

    #[test]
    fn a_folder_with_more_than_it_may_is_a_fault_and_one_with_as_much_is_not() {
        let faults = |blocks: usize| {
            let mut contracts = Contracts::default();
            contracts.add("examples/a.rs", &"unsafe { a() };\n".repeat(blocks));
            contracts.add("host/a.rs", "unsafe { elsewhere() }");
            contracts.faults().iter().map(|fault| fault.what.clone()).collect::<Vec<_>>()
        };
        let most = LIMITS.iter().find(|limit| limit.folder == "examples/").unwrap().blocks;
        assert!(faults(most).is_empty());
        let more = faults(most + 1);
        assert_eq!(more.len(), 1, "{more:?}");
        assert!(more[0].contains("is the most"), "{more:?}");
    }

    #[test]
    fn the_counts_of_each_folder_are_told_and_a_page_is_not_another_example() {
        let mut contracts = Contracts::default();
        contracts.add("examples/a.rs", "unsafe { a() };");
        contracts.add("examples/pages/src/b.rs", "pub unsafe fn b() {}\npub unsafe fn c() {}");
        let counts = contracts.counts();
        assert!(counts.contains("examples/pages/ 0 blocks, 2 functions; "), "{counts}");
        assert!(counts.contains("; examples/ 1 blocks, 0 functions; "), "{counts}");
    }
}
