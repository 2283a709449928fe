//! The contents of a PTX module: its kernels with their parameters, bounds, memory and
//! instructions.

use super::bounds::{Bounds, entry_name};
use super::text::{block, instruction, statements, without_comments};
use std::collections::BTreeMap;
use std::fmt;

/// A module of PTX, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// The version of the PTX language: `(8, 0)`.
    pub version: (u32, u32),
    /// The architecture: `sm_90a`.
    pub target: String,
    /// The entry points.
    pub kernels: Vec<Function>,
    /// Functions that the entry points call. There are none if everything was inlined, as intended.
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
    /// How often each instruction occurs in the text, by its full name: `ld.global.v4.b32`.
    pub instructions: BTreeMap<String, usize>,
    /// Bytes of local memory that it declares: an array that is not in registers.
    pub local_bytes: usize,
    /// Bytes of shared memory that it declares itself, beside what the launch provides.
    pub shared_bytes: usize,
}

impl Function {
    /// How many instructions have a name that starts with these parts: `count("ld.global")` counts
    /// `ld.global.b32` and `ld.global.nc.v4.f32`, and not `ld.globalx`.
    pub fn count(&self, name: &str) -> usize {
        self.count_where(|full| {
            full.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with(['.', ':']))
        })
    }

    /// How many instructions have a name for which `wanted` holds.
    pub fn count_where(&self, wanted: impl Fn(&str) -> bool) -> usize {
        self.instructions.iter().filter(|(name, _)| wanted(name)).map(|(_, count)| count).sum()
    }

    /// How many instructions there are.
    pub fn len(&self) -> usize {
        self.instructions.values().sum()
    }

    /// Whether there is no instruction.
    pub fn is_empty(&self) -> bool {
        self.instructions.is_empty()
    }

    /// Whether it keeps anything in local memory: an array declared there, or an access.
    pub fn uses_local(&self) -> bool {
        self.local_bytes > 0 || self.count("ld.local") + self.count("st.local") > 0
    }
}

/// Why a text is not a module of PTX that can be read.
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
    /// Reads a module. Instructions are identified by their names and not checked.
    ///
    /// # Errors
    /// There is no `.version` or `.target`, or a function does not end.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // A kernel's shared memory is in a comment, so it is read before comments are removed.
        let shared = declared_shared(text);
        let text = &without_comments(text);
        let header = |name: &str| {
            text.lines()
                .find_map(|line| line.trim_start().strip_prefix(name)?.split_whitespace().next())
                .ok_or_else(|| ParseError { line: 1, reason: format!("there is no `{name}`") })
        };
        let version_text = header(".version")?;
        let version = version_text
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))
            .ok_or_else(|| ParseError { line: 1, reason: format!("`{version_text}` is not a version") })?;
        let target = header(".target")?.trim_end_matches(',').to_owned();

        let mut module = Self { version, target, kernels: Vec::new(), functions: Vec::new() };
        for_each_function(text, |header, body| {
            let mut function = Function::parse(header, body).ok_or("this function has no name")?;
            if header.contains(".entry") {
                function.bounds.shared = shared.get(&function.name).copied();
                module.kernels.push(function);
            } else {
                module.functions.push(function);
            }
            Ok(())
        })?;
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
        function.bounds.threads = directive(header, ".maxntid");
        function.bounds.min_blocks = directive(header, ".minnctapersm");
        for statement in statements(body) {
            if statement.starts_with('.') {
                if statement.starts_with(".local") {
                    function.local_bytes += declared_bytes(statement);
                } else if statement.starts_with(".shared") {
                    function.shared_bytes += declared_bytes(statement);
                }
                continue;
            }
            if let Some(name) = instruction(statement).and_then(|text| text.split_whitespace().next()) {
                *function.instructions.entry(name.to_owned()).or_default() += 1;
            }
        }
        Some(function)
    }
}

/// Calls `each` with header and body of every entry and function of a module without comments.
pub(super) fn for_each_function(
    text: &str,
    mut each: impl FnMut(&str, &str) -> Result<(), &'static str>,
) -> Result<(), ParseError> {
    let mut at = 0;
    while let Some(start) = next_function(text, at) {
        // Lines are counted for an error alone: each function would count those of all before it.
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
        each(&rest[..end], body).map_err(error)?;
    }
    Ok(())
}

/// Where the next line begins that starts a function.
fn next_function(text: &str, from: usize) -> Option<usize> {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let mut words =
            line.split_whitespace().skip_while(|w| matches!(*w, ".visible" | ".weak" | ".extern"));
        if matches!(words.next(), Some(".entry" | ".func")) {
            return Some(at);
        }
        at += line.len();
    }
    None
}

/// `NAME` of `.visible .entry NAME(...)` or of `.func (.param .b32 r) NAME(...)`.
pub(super) fn function_name(header: &str) -> Option<String> {
    let (_, rest) = header.split_once(".entry").or_else(|| header.split_once(".func"))?;
    let rest = rest.trim_start();
    // A function's results stand in parentheses before its name.
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

/// The first number after a directive.
fn directive(header: &str, name: &str) -> Option<u32> {
    let rest = header.split_once(name)?.1;
    rest.split(|c: char| c.is_whitespace() || c == ',').find(|word| !word.is_empty())?.parse().ok()
}

/// The size of `.local .align 8 .b8 name[64]` in bytes.
fn declared_bytes(declaration: &str) -> usize {
    let bits = declaration
        .split_whitespace()
        .filter_map(|word| word.strip_prefix(['.'])?.strip_prefix(['b', 'u', 's', 'f']))
        .find_map(|bits| bits.parse::<usize>().ok())
        .unwrap_or(8);
    let lengths = declaration
        .split('[')
        .skip(1)
        .filter_map(|part| part.split_once(']')?.0.trim().parse::<usize>().ok());
    bits / 8 * lengths.product::<usize>()
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
