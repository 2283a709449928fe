//! The contents of a PTX module: its kernels with their parameters, bounds, memory and
//! instructions.

use super::bounds::{Bounds, entry_name};
use super::text::{block, instruction, statements, without_comments};
use super::variables::{self, Variable, bytes_of, shared_outside, variables};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A parsed PTX module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The version of the PTX language: `(8, 0)`.
    pub version: (u32, u32),
    /// The architecture: `sm_90a`.
    pub target: String,
    /// The entry points.
    pub kernels: Vec<Function>,
    /// Functions that the entry points call: none if everything was inlined, as intended.
    pub functions: Vec<Function>,
}

/// An entry point or a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Launch bounds, and the shared memory that a launch provides.
    pub bounds: Bounds,
    /// The types of its parameters, in order: `.u64 .ptr .align 1`, `.u32`.
    pub params: Vec<String>,
    /// The number of occurrences of each instruction, by its full name: `ld.global.v4.b32`.
    pub instructions: BTreeMap<String, usize>,
    /// Bytes of local memory that it declares: arrays that are not in registers.
    pub local_bytes: usize,
    /// Bytes of shared memory that it uses in addition to the launch's: variables declared in it
    /// and in the functions that it calls, and the module's variables that they use.
    pub shared_bytes: usize,
}

impl Function {
    /// The number of instructions whose name starts with these parts: `count("ld.global")` counts
    /// `ld.global.b32` and `ld.global.nc.v4.f32`, but not `ld.globalx`.
    pub fn count(&self, name: &str) -> usize {
        self.count_where(|full| {
            full.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with(['.', ':']))
        })
    }

    /// The number of instructions whose name satisfies `wanted`.
    pub fn count_where(&self, wanted: impl Fn(&str) -> bool) -> usize {
        self.instructions.iter().filter(|(name, _)| wanted(name)).map(|(_, count)| count).sum()
    }

    /// The number of instructions.
    pub fn len(&self) -> usize {
        self.instructions.values().sum()
    }

    /// Whether there are no instructions.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Whether it uses local memory: declares an array there, or accesses it.
    pub fn uses_local(&self) -> bool {
        self.local_bytes > 0 || self.count("ld.local") + self.count("st.local") > 0
    }
}

/// The reason why PTX cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the PTX: {}", self.line, self.reason)
    }
}

impl std::error::Error for ParseError {}

impl Module {
    /// Parses a module. Instructions are identified by name and not checked.
    ///
    /// # Errors
    /// There is no `.version` or `.target`, or a function does not end.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // A kernel's shared memory is in a comment, so it is read before comments are removed.
        let shared = declared_shared(text);
        let text = &without_comments(text);
        let header = |name: &str| {
            text.match_indices(name)
                .find(|&(at, _)| is_word(&text[at..], name))
                .and_then(|(at, _)| text[at + name.len()..].split_whitespace().next())
                .ok_or_else(|| ParseError { line: 1, reason: format!("there is no `{name}`") })
        };
        let version_text = header(".version")?;
        let version = version_text
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| ParseError { line: 1, reason: format!("`{version_text}` is not a version") })?;
        let target = header(".target")?.split(',').next().unwrap_or_default().to_owned();

        let mut module = Self { version, target, kernels: Vec::new(), functions: Vec::new() };
        let (mut outside, mut bodies, mut called) = (Vec::new(), Vec::new(), BTreeMap::new());
        for_each_function(text, |Source { before, header, body }| {
            let mut function = Function::parse(header, body).ok_or("this function has no name")?;
            outside.extend(shared_outside(before));
            if header.starts_with(".entry") {
                function.bounds.shared = shared.get(&function.name).copied();
                module.kernels.push(function);
                bodies.push(body);
            } else {
                called.insert(function.name.clone(), body);
                module.functions.push(function);
            }
            Ok(())
        })?;
        for (kernel, body) in module.kernels.iter_mut().zip(bodies) {
            kernel.shared_bytes = shared_bytes(body, &called, &outside);
        }
        for function in &mut module.functions {
            function.shared_bytes = shared_bytes(called[&function.name], &called, &outside);
        }
        Ok(module)
    }

    /// The kernel of this name.
    pub fn kernel(&self, name: &str) -> Option<&Function> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }
}

impl Function {
    fn parse(header: &str, body: &str) -> Option<Self> {
        let mut function = Self { name: function_name(header)?, params: params(header), ..Self::default() };
        // A block has at most, or exactly, the product of the extents.
        let threads = |name| directive(header, name)?.try_fold(1_u32, u32::checked_mul);
        function.bounds.threads = threads(".maxntid").or_else(|| threads(".reqntid"));
        function.bounds.min_blocks = directive(header, ".minnctapersm").and_then(|mut all| all.next());
        function.local_bytes = bytes_of(&declared(body, ".local"));
        for statement in statements(body) {
            if let Some(name) = instruction(statement).and_then(|text| text.split_whitespace().next()) {
                *function.instructions.entry(name.to_owned()).or_default() += 1;
            }
        }
        Some(function)
    }
}

/// An entry or a function of a module.
pub(super) struct Source<'a> {
    /// The source between the previous function and this one.
    pub before: &'a str,
    /// From `.entry` or `.func` to the body.
    pub header: &'a str,
    pub body: &'a str,
}

/// Calls `each` with every entry and function of a module without comments.
pub(super) fn for_each_function<'a>(
    text: &'a str,
    mut each: impl FnMut(Source<'a>) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    let (mut at, mut end_of_last) = (0, 0);
    while let Some(start) = next_function(text, at) {
        // Lines are counted only for an error: otherwise each function would count those before it.
        let error = |reason: &str| ParseError {
            line: 1 + text[..start].matches('\n').count(),
            reason: reason.to_owned(),
        };
        let rest = &text[start..];
        let end = rest.find(['{', ';']).ok_or_else(|| error("this function has no body and no end"))?;
        if rest[end..].starts_with(';') {
            // A declaration.
            at = start + end;
            continue;
        }
        let (body, after) = block(&rest[end..]).ok_or_else(|| error("this function's body does not end"))?;
        at = text.len() - after.len();
        each(Source { before: &text[end_of_last..start], header: &rest[..end], body }).map_err(error)?;
        end_of_last = at;
    }
    Ok(())
}

/// The start of the next `.entry` or `.func`.
fn next_function(text: &str, from: usize) -> Option<usize> {
    let mut dots = text[from..].match_indices('.').map(|(at, _)| from + at);
    dots.find(|&at| is_word(&text[at..], ".entry") || is_word(&text[at..], ".func"))
}

/// Whether `text` starts with this directive.
fn is_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_whitespace() || c == '('))
}

/// The variables that a body declares in a state space.
fn declared<'a>(body: &'a str, space: &str) -> Vec<Variable<'a>> {
    statements(body).filter(|statement| statement.starts_with(space)).flat_map(variables).collect()
}

/// The shared memory of a body: its variables, those of the `functions` that it calls, and the
/// variables `outside` that it and they name.
fn shared_bytes(body: &str, functions: &BTreeMap<String, &str>, outside: &[Variable]) -> usize {
    let mut own = Vec::new();
    let (mut seen, mut to_read) = (BTreeSet::new(), vec![body]);
    let mut is_used = vec![false; outside.len()];
    while let Some(body) = to_read.pop() {
        if !seen.insert(body.as_ptr()) {
            continue;
        }
        let inside = declared(body, ".shared");
        // Generated modules have neither, and are megabytes long.
        let words = if outside.is_empty() && functions.is_empty() { "" } else { body };
        for word in words.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%'))) {
            if let Some(called) = functions.get(word) {
                to_read.push(called);
            } else if !inside.iter().any(|variable| variable.name == word)
                && let Some(at) = outside.iter().position(|variable| variable.name == word)
            {
                is_used[at] = true;
            }
        }
        own.extend(inside);
    }
    let used = outside.iter().zip(is_used).filter_map(|(variable, is_used)| is_used.then_some(variable));
    bytes_of(used.chain(&own))
}

/// `NAME` of `.visible .entry NAME(...)` or of `.func (.param .b32 r) NAME(...)`.
pub(super) fn function_name(header: &str) -> Option<String> {
    let (_, rest) = header.split_once(".entry").or_else(|| header.split_once(".func"))?;
    let rest = rest.trim_start();
    // A function's results precede its name in parentheses.
    let rest = if rest.starts_with('(') { rest.split_once(')')?.1.trim_start() } else { rest };
    let name = rest.split(|c: char| c.is_whitespace() || c == '(').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

fn params(header: &str) -> Vec<String> {
    let Some(list) = header.rsplit_once('(').and_then(|(_, rest)| rest.split_once(')')) else {
        return Vec::new();
    };
    list.0
        .split(',')
        .filter_map(|param| {
            let (ty, _name) = param.trim().strip_prefix(".param")?.trim().rsplit_once(char::is_whitespace)?;
            Some(ty.trim_end().to_owned())
        })
        .collect()
}

/// The numbers after a directive: 32, 4 and 1 of `.reqntid 32, 4, 1`.
fn directive<'a>(header: &'a str, name: &str) -> Option<impl Iterator<Item = u32> + 'a> {
    let (_, rest) = header.split_once(name)?;
    let rest = rest.split('.').next().unwrap_or_default();
    Some(rest.split(',').map_while(variables::number))
}

/// `// shared BYTES` of each entry, as [`super::apply_bounds`] leaves it.
fn declared_shared(text: &str) -> BTreeMap<String, u32> {
    let mut all = BTreeMap::new();
    let mut name = None;
    for line in text.lines() {
        if let Some(entry) = entry_name(line) {
            name = Some(entry);
        }
        if let (Some(name), Some(bytes)) = (name, line.strip_prefix("// shared "))
            && let Ok(bytes) = bytes.trim().parse()
        {
            all.insert(name.to_owned(), bytes);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "\
// Generated
.version 8.0
.target sm_90a
.address_size 64

.extern .shared .align 1024 .b8 smem[];
.func helper
(
\t.param .b64 helper_param_0
)
.noreturn;

.visible .entry first(
\t.param .u64 .ptr .align 1 first_param_0,
\t.param .u32 first_param_1
)
.maxntid 256
.minnctapersm 2
// shared 4096
{
\t.local .align 4 .b8 \t__local_depot0[16];
\t.shared .align 4 .b32 tile[8];
\t.reg .pred \t%p<2>;

\tld.param.b64 \t%rd4, [first_param_0]; // a comment; with a semicolon
\t@!%p1 bra \t$L__BB0_2;
\tst.local.b32 \t[%rd2+4], 1073741824;
\t// begin inline asm
\t{ .reg .pred p; setp.ne.b32 p, %r1, 0; @p cp.async.cg.shared.global [%r1], [%rd1], 16; }
\tld.global.nc.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1]; ld.global.b32 %r5, [%rd1];
\t// end inline asm
$L__BB0_2:
\tcall.uni helper, (param0);
\tret;

}
.func  (.param .b32 func_retval0) helper(
\t.param .b64 helper_param_0
)
{
\ttrap; exit;
}
.entry second() { ret; }
";

    #[test]
    fn a_module_is_read_with_all_that_a_kernel_declares() {
        let module = Module::parse(MODULE).unwrap();
        assert_eq!((module.version, module.target.as_str()), ((8, 0), "sm_90a"));
        assert_eq!(module.kernels.iter().map(|k| k.name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
        let first = module.kernel("first").unwrap();
        assert_eq!(first.params, [".u64 .ptr .align 1", ".u32"]);
        assert_eq!(
            first.bounds,
            Bounds { threads: Some(256), min_blocks: Some(2), shared: Some(4096), constants: None }
        );
        assert_eq!((first.local_bytes, first.shared_bytes), (16, 32));
        assert!(first.uses_local());
        let second = module.kernel("second").unwrap();
        assert_eq!((second.bounds, second.params.len(), second.len()), (Bounds::default(), 0, 1));
        assert!(!second.uses_local());
        assert_eq!(
            module.functions.iter().map(|f| (f.name.as_str(), f.len())).collect::<Vec<_>>(),
            [("helper", 2)]
        );
    }

    #[test]
    fn instructions_are_counted_by_their_full_names() {
        let module = Module::parse(MODULE).unwrap();
        let first = module.kernel("first").unwrap();
        let expected = [
            ("bra", 1),
            ("call.uni", 1),
            ("cp.async.cg.shared.global", 1),
            ("ld.global.b32", 1),
            ("ld.global.nc.v4.b32", 1),
            ("ld.param.b64", 1),
            ("ret", 1),
            ("setp.ne.b32", 1),
            ("st.local.b32", 1),
        ];
        let found: Vec<_> = first.instructions.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        assert_eq!(found, expected);
        assert_eq!(
            (first.count("ld.global"), first.count("ld"), first.count("ld.glob"), first.len()),
            (2, 3, 0, 9)
        );
    }

    #[test]
    fn what_is_no_module_is_an_error_with_its_line() {
        assert!(Module::parse("").unwrap_err().reason.contains(".version"));
        assert!(Module::parse(".version 8.0\n").unwrap_err().reason.contains(".target"));
        let cut = MODULE.split_once("\tcall.uni").unwrap().0;
        assert_eq!(Module::parse(cut).unwrap_err().line, 13, "the entry that does not end begins on line 13");
    }
}
