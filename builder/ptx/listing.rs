//! The instructions of a module in order, with their source lines.
//!
//! Lines are known if the module was compiled with `-Cdebuginfo=line-directives-only`, which names
//! the innermost inlined function, or with `-Cdebuginfo=line-tables-only`, which also names the
//! calls around it.

use super::ParseError;
use super::debug_info::{self, Position, Scope};
use super::module::{Source, for_each_function, function_name};
use super::tables::{Addresses, arrays};
use super::text::{Item, instruction, items, without_comments};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file as the compiler names it, usually an absolute path.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if it is unknown.
    pub column: u32,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.column > 0 { write!(f, ":{}", self.column) } else { Ok(()) }
    }
}

/// One instruction of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instruction {
    /// Its full name: `ld.global.v4.b32`.
    pub name: Box<str>,
    /// Its source lines: that of the innermost inlined function first, that of the kernel last.
    /// Empty if the module has none.
    pub places: Vec<Place>,
    /// Whether it is in an innermost loop: between a label and a branch back to that label, without
    /// another loop between them. A loop that only waits for an mbarrier does not count.
    pub in_loop: bool,
    /// Instructions with the same number run one after another: no label and no branch is between
    /// them.
    pub block: usize,
    /// The array of the module, in global or constant memory, from which it loads at an index that
    /// is known only at run time.
    pub table: Option<Box<str>>,
}

/// The instructions of all entries of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    kernels: BTreeMap<String, Vec<Instruction>>,
}

impl Listing {
    /// Reads a module.
    ///
    /// # Errors
    /// A function does not end.
    pub fn read(text: &str) -> Result<Self, ParseError> {
        let text = &without_comments(text);
        let (files, scopes) = (files(text), debug_info::functions(text));
        let (mut kernels, mut tables) = (BTreeMap::new(), BTreeSet::new());
        for_each_function(text, |Source { before, header, body }| {
            tables.extend(arrays(before));
            if header.starts_with(".entry") {
                let name = function_name(header).ok_or("this function has no name")?;
                kernels.insert(name, instructions(body, &files, &scopes, &tables));
            }
            Ok(())
        })?;
        Ok(Self { kernels })
    }

    /// The instructions of the entry `name`; empty if the module has no such entry.
    pub fn kernel(&self, name: &str) -> &[Instruction] {
        self.kernels.get(name).map_or(&[], Vec::as_slice)
    }
}

/// The files that `.loc` refers to by number.
fn files(text: &str) -> BTreeMap<u32, Arc<str>> {
    let of_line = |line: &str| {
        let (number, name) =
            line.trim_start().strip_prefix(".file")?.trim_start().split_once(char::is_whitespace)?;
        Some((number.parse().ok()?, name.trim().trim_matches('"').into()))
    };
    text.lines().filter_map(of_line).collect()
}

/// A range of instructions, and the call that was inlined there.
struct Inlined<'a> {
    from: usize,
    to: usize,
    scope: &'a Scope,
}

fn instructions<'a>(
    body: &'a str,
    files: &BTreeMap<u32, Arc<str>>,
    scopes: &BTreeMap<Arc<str>, Scope>,
    tables: &BTreeSet<&'a str>,
) -> Vec<Instruction> {
    let mut all: Vec<Instruction> = Vec::new();
    let mut labels: BTreeMap<&str, usize> = BTreeMap::new();
    let mut branches = Vec::new();
    let (mut position, mut function) = (None, None);
    let (mut block, mut addresses) = (0, Addresses::default());
    for item in items(body) {
        match item {
            Item::Label(name) => {
                labels.insert(name, all.len());
                function = function.or_else(|| scopes.get(name));
                // The labels of source positions are not targets.
                block += usize::from(!name.starts_with("$L__tmp"));
            }
            Item::Position(operands) => {
                let mut numbers = operands.split_whitespace().map(|word| word.parse::<u32>().unwrap_or(0));
                let mut next = || numbers.next().unwrap_or(0);
                let read = Position { file: next(), line: next(), column: next() };
                // Line 0 marks code without a line.
                position = (read.line > 0).then_some(read);
            }
            Item::Statement(statement) => {
                let Some(text) = instruction(statement) else { continue };
                let mut words = text.split_whitespace();
                let Some(name) = words.next() else { continue };
                if name.starts_with("bra") {
                    branches.push((all.len(), words.next().unwrap_or_default()));
                }
                let place = position.and_then(|position| position.place(files));
                let places = place.into_iter().collect();
                let table =
                    if tables.is_empty() { None } else { addresses.follow(text, tables).map(Into::into) };
                all.push(Instruction { name: name.into(), places, in_loop: false, block, table });
                block += usize::from(name.starts_with("bra"));
            }
        }
    }
    for (start, end) in innermost_loops(&all, &labels, &branches) {
        all[start..=end].iter_mut().for_each(|instruction| instruction.in_loop = true);
    }
    if let Some(function) = function {
        let whole = 0..all.len();
        add_calls(&mut all, &function.inner, whole, &labels, files);
    }
    all
}

/// The first and the last instruction of each loop that contains no other loop, except loops that
/// wait for an mbarrier.
fn innermost_loops(
    all: &[Instruction],
    labels: &BTreeMap<&str, usize>,
    branches: &[(usize, &str)],
) -> Vec<(usize, usize)> {
    let mut loops: Vec<(usize, usize)> = branches
        .iter()
        .filter_map(|&(at, target)| Some((*labels.get(target).filter(|&&start| start <= at)?, at)))
        .collect();
    let innermost = |loops: &[(usize, usize)]| -> Vec<(usize, usize)> {
        let around = |&(start, end): &(usize, usize)| {
            loops.iter().any(|&(other, last)| (other, last) != (start, end) && start <= other && last <= end)
        };
        loops.iter().copied().filter(|one| !around(one)).collect()
    };
    let waits = |&(start, end): &(usize, usize)| {
        let has = |names: &[&str], at: usize| names.iter().any(|name| all[at].name.starts_with(name));
        let polls = (start..=end).any(|at| has(&["mbarrier.try_wait", "mbarrier.test_wait"], at));
        polls && (start..=end).all(|at| has(&["mbarrier.", "setp.", "selp.", "mov.", "nanosleep", "bra"], at))
    };
    let waiting: Vec<_> = innermost(&loops).into_iter().filter(waits).collect();
    loops.retain(|one| !waiting.contains(one));
    // Branches back to one label form one loop.
    let mut merged = BTreeMap::new();
    for (start, end) in loops {
        let last = merged.entry(start).or_insert(end);
        *last = end.max(*last);
    }
    innermost(&merged.into_iter().collect::<Vec<_>>())
}

impl Position {
    fn place(self, files: &BTreeMap<u32, Arc<str>>) -> Option<Place> {
        Some(Place { file: files.get(&self.file)?.clone(), line: self.line, column: self.column })
    }
}

/// Adds to each instruction of a range the calls through which it was inlined, the innermost first.
fn add_calls(
    all: &mut [Instruction],
    scopes: &[Scope],
    Range { start: from, end: to }: Range<usize>,
    labels: &BTreeMap<&str, usize>,
    files: &BTreeMap<u32, Arc<str>>,
) {
    let at = |label: &str| labels.get(label).copied();
    let mut ranges: Vec<_> = scopes
        .iter()
        .filter_map(|scope| Some(Inlined { from: at(&scope.low)?, to: at(&scope.high)?, scope }))
        .collect();
    // The code of two calls may be interleaved, and each call has one range around all of its code,
    // so the narrower range wins.
    ranges.sort_by_key(|range| range.to.saturating_sub(range.from));
    let mut taken = vec![false; to.saturating_sub(from)];
    for Inlined { from: low, to: high, scope } in ranges {
        let mut at = low.max(from);
        while at < high.min(to) {
            if taken[at - from] {
                at += 1;
                continue;
            }
            let start = at;
            while at < high.min(to) && !taken[at - from] {
                taken[at - from] = true;
                at += 1;
            }
            add_calls(all, &scope.inner, start..at, labels, files);
            if let Some(call) = scope.call.place(files) {
                all[start..at].iter_mut().for_each(|instruction| instruction.places.push(call.clone()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
.version 7.0
.target sm_80
.visible .entry k()
{
\t.reg .b32 a;
$L__func_begin0:
\t.loc\t1 10 0
\tmov.b32 a, 1;
$L__BB0_1:
$L__tmp1:
\t.loc\t2 863 18
\tdiv.u32 a, b, c;
$L__tmp2:
\t.loc\t1 12 5
\t@p bra $L__BB0_1;
\tret;
$L__func_end0:
}
\t.section\t.debug_abbrev\t{\n.b8 1,46,1,17,1,18,1,0,0\n.b8 2,29,0,17,1,18,1,88,11,89,11,0,0\n.b8 0\n}
\t.section\t.debug_info\t{\n.b32 44\n.b8 2\n.b8 0\n.b32 .debug_abbrev\n.b8 8\n.b8 1
.b64 $L__func_begin0\n.b64 $L__func_end0\n.b8 2\n.b64 $L__tmp1\n.b64 $L__tmp2\n.b8 1\n.b8 11\n.b8 0\n}
\t.file\t1 \"/user/lib.rs\"
\t.file\t2 \"/core/num.rs\"
";

    #[test]
    fn an_instruction_knows_its_lines_from_the_innermost_function_to_the_kernel() {
        let listing = Listing::read(TEXT).unwrap();
        let [first, division, branch, ret] = listing.kernel("k") else { panic!("{listing:?}") };
        let lines = |instruction: &Instruction| {
            instruction.places.iter().map(|place| (place.file.to_string(), place.line)).collect::<Vec<_>>()
        };
        assert_eq!(lines(first), [("/user/lib.rs".into(), 10)]);
        assert_eq!(lines(division), [("/core/num.rs".into(), 863), ("/user/lib.rs".into(), 11)]);
        assert_eq!(lines(branch), [("/user/lib.rs".into(), 12)]);
        assert_eq!([first, division, branch, ret].map(|i| i.in_loop), [false, true, true, false]);
        assert!(division.block == branch.block && first.block != division.block && branch.block != ret.block);
    }

    #[test]
    fn innermost_loops_have_no_other_loop_in_them_but_one_that_waits() {
        let body = "\
$L_tile:
div.u32 a, b, c;
$L_k:
$L_wait:
mbarrier.try_wait.parity.shared.b64 p, [a], b;
@!p bra $L_wait;
rem.u32 a, b, c;
@q bra $L_k;
@r bra $L_tile;
$L_rows:
div.s32 a, b, c;
@s bra.uni $L_rows;
$L_polls:
mbarrier.test_wait.shared.b64 p, [a], b;
div.s32 a, b, c;
@p bra $L_polls;
ret;
";
        let text = format!(".version 8.0\n.target sm_90a\n.visible .entry k()\n{{\n{body}}}\n");
        let listing = Listing::read(&text).unwrap();
        let looped: Vec<_> =
            listing.kernel("k").iter().filter(|i| i.in_loop).map(|i| i.name.to_string()).collect();
        let wait = "mbarrier.try_wait.parity.shared.b64";
        let polls = ["mbarrier.test_wait.shared.b64", "div.s32", "bra"];
        assert_eq!(looped[..6], [wait, "bra", "rem.u32", "bra", "div.s32", "bra.uni"]);
        assert_eq!(looped[6..], polls, "a loop that also works");
    }
}
