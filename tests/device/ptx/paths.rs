//! The instructions that a kernel may execute before it waits for earlier kernels: the paths from
//! its entry through its branches.

use std::collections::{BTreeMap, BTreeSet};

const WAIT: &str = "griddepcontrol.wait";

/// The instructions of `body` that some path from the entry reaches without a
/// `griddepcontrol.wait`, in source order.
///
/// A predicated branch may go either way; a `brx.idx` may go to any label of its list.
pub fn reached_before_waiting(body: &str) -> Vec<&str> {
    let instructions = instructions(body);
    let labels = labels(&instructions);
    let place =
        |label: &str| *labels.get(label).unwrap_or_else(|| panic!("{label} is not a label of the kernel"));

    let mut reached = BTreeSet::new();
    let mut open = vec![instructions.iter().position(|line| *line == "{").expect("a kernel has a body")];
    while let Some(at) = open.pop() {
        let Some(line) = instructions.get(at).filter(|_| reached.insert(at)) else { continue };
        let (guarded, instruction) = unguarded(line);
        assert!(!(guarded && instruction.starts_with(WAIT)), "a wait that not all come to is none: {line}");
        assert!(!instruction.starts_with("call"), "a called function is not analysed: {line}");
        let (name, operands) = instruction.split_once(char::is_whitespace).unwrap_or((instruction, ""));
        let operands = operands.trim().trim_end_matches(';');
        let ends = match name.trim_end_matches(';') {
            "bra" | "bra.uni" => {
                open.push(place(operands));
                !guarded
            }
            "brx.idx" | "brx.idx.uni" => {
                let list = operands.rsplit(',').next().expect("a list is named").trim();
                open.extend(listed(&instructions, place(list)).map(place));
                !guarded
            }
            "ret" | "exit" | "trap" | WAIT => !guarded,
            _ => false,
        };
        if !ends {
            open.push(at + 1);
        }
    }
    reached.into_iter().map(|at| instructions[at]).collect()
}

/// The body line by line, with instructions that share a line separated, without comments.
fn instructions(body: &str) -> Vec<&str> {
    let lines = body.lines().map(|line| line.split_once("//").map_or(line, |(code, _)| code));
    let parts = lines.flat_map(|line| line.split_inclusive(';'));
    // Inline assembly of several instructions opens a separate block.
    let opened = parts
        .map(str::trim)
        .map(|part| if part.len() > 1 { part.trim_start_matches('{').trim_start() } else { part });
    opened.filter(|part| !part.is_empty()).collect()
}

/// An instruction without its predicate, and whether it has one.
pub fn unguarded(line: &str) -> (bool, &str) {
    match line.trim_start().strip_prefix('@') {
        Some(guarded) => {
            (true, guarded.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim_start()))
        }
        None => (false, line.trim_start()),
    }
}

/// The line of each label, including labels of lists.
fn labels<'a>(lines: &[&'a str]) -> BTreeMap<&'a str, usize> {
    let mut labels = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        let Some((label, rest)) = line.split_once(':') else { continue };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "_$%".contains(c);
        if !label.is_empty() && label.chars().all(is_name) && !rest.starts_with(':') {
            let before = labels.insert(label, at);
            assert_eq!(before, None, "{label} is the label of two lines");
        }
    }
    labels
}

/// The labels in the list that starts at a line.
fn listed<'a>(lines: &[&'a str], at: usize) -> impl Iterator<Item = &'a str> {
    assert!(lines[at].ends_with(".branchtargets"), "{} begins a list", lines[at]);
    let end = at + lines[at..].iter().position(|line| line.ends_with(';')).expect("a list ends");
    lines[at + 1..=end]
        .iter()
        .flat_map(|line| line.split([',', ';']))
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(lines: &[&str]) -> Vec<String> {
        let body = format!(".visible .entry k()\n{{\n\t{}\n}}\n", lines.join("\n\t"));
        let of_interest = |line: &&str| line.starts_with("ld.") || line.starts_with("st.");
        reached_before_waiting(&body).into_iter().filter(of_interest).map(str::to_owned).collect()
    }

    #[test]
    fn code_after_griddepcontrol_wait_is_not_reached() {
        assert_eq!(
            reached(&[
                "ld.param.u64 %rd1, [p];",
                "griddepcontrol.wait;",
                "ld.global.u32 %r1, [%rd1];",
                "ret;"
            ]),
            ["ld.param.u64 %rd1, [p];"]
        );
    }

    #[test]
    fn a_way_round_the_wait_is_found_though_the_wait_stands_before_it() {
        let way = [
            "@%p1 bra $L_2;",
            "griddepcontrol.wait;",
            "bra.uni $L_3;",
            "$L_2:",
            "ld.a;",
            "$L_3:",
            "st.b;",
            "ret;",
        ];
        assert_eq!(reached(&way), ["ld.a;", "st.b;"]);
    }

    #[test]
    fn the_other_arm_behind_a_branch_that_all_take_is_not_reached() {
        assert_eq!(
            reached(&["bra.uni $L_2;", "ld.a;", "$L_2:", "griddepcontrol.wait;", "st.b;", "ret;"]),
            [""; 0]
        );
    }

    #[test]
    fn loops_end_and_what_stands_above_is_reached_from_below() {
        let way =
            ["bra $L_2;", "$L_1:", "st.a;", "ret;", "$L_2:", "ld.b;", "@!%p1 bra $L_2;", "bra.uni $L_1;"];
        assert_eq!(reached(&way), ["st.a;", "ld.b;"]);
    }

    #[test]
    fn a_branch_by_a_list_goes_to_each_of_its_labels() {
        let way = [
            "$L_list: .branchtargets",
            "$L_1,",
            "$L_2;",
            "brx.idx %r1, $L_list;",
            "ld.a;",
            "$L_1:",
            "ld.b;",
            "ret;",
            "$L_2:",
            "griddepcontrol.wait;",
            "ld.c;",
            "ret;",
        ];
        assert_eq!(reached(&way), ["ld.b;"]);
    }

    #[test]
    fn what_ends_a_thread_ends_its_way() {
        assert_eq!(reached(&["@%p1 exit;", "ld.a;", "trap;", "ld.b;"]), ["ld.a;"]);
    }

    #[test]
    fn each_instruction_of_a_line_is_analysed() {
        let way = [
            "{ .reg .pred p; @p bra $L_2; griddepcontrol.wait; }",
            "ld.a;",
            "ret;",
            "$L_2: // a label",
            "st.b; ret;",
        ];
        assert_eq!(reached(&way), ["st.b;"]);
    }

    #[test]
    #[should_panic(expected = "a called function is not analysed: call.uni f, ();")]
    fn a_call_is_refused() {
        reached(&["call.uni f, ();", "ret;"]);
    }

    #[test]
    #[should_panic(expected = "a wait that not all come to is none")]
    fn a_guarded_wait_is_refused() {
        reached(&["@%p1 griddepcontrol.wait;", "ret;"]);
    }
}
