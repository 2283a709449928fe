//! Plain arithmetic of a kernel, counted in its PTX.

/// Instructions of a kernel's PTX that the simulator does not see. Each counts once, however often
/// it is executed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PtxCounts {
    /// Integer and bit arithmetic, comparisons and selections.
    pub integer: u64,
    /// Arithmetic of 16-bit floats, packed or not.
    pub half: u64,
    /// Arithmetic of f32.
    pub single: u64,
    /// Arithmetic of f64.
    pub double: u64,
    /// `ex2`, `rcp`, `rsqrt`, `sin`, ...
    pub special: u64,
    /// Conversions between types.
    pub conversion: u64,
    /// Branches, calls and returns.
    pub branch: u64,
}

const ARITHMETIC: &[&str] = &[
    "add", "addc", "sub", "subc", "mul", "mad", "madc", "fma", "div", "rem", "min", "max", "abs", "neg",
    "setp", "set", "selp", "slct", "and", "or", "xor", "not", "cnot", "shl", "shr", "shf", "lop3", "prmt",
    "bfe", "bfi", "bfind", "bmsk", "szext", "brev", "clz", "popc", "fns", "dp2a", "dp4a", "mul24", "mad24",
    "sad", "testp", "copysign",
];
const SPECIAL: &[&str] = &["ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"];
const BRANCHES: &[&str] = &["bra", "brx", "call", "ret", "exit"];

impl PtxCounts {
    /// The counts of a kernel in a PTX module; `None` if the module has no such kernel.
    pub fn of_kernel(module: &str, kernel: &str) -> Option<Self> {
        let body = body(module, kernel)?;
        let mut counts = Self::default();
        for line in body.lines() {
            let code = line.split("//").next().unwrap_or_default();
            for statement in code.split(';') {
                counts.add(mnemonic(statement));
            }
        }
        Some(counts)
    }

    /// The counts with their names.
    pub const fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("integer", self.integer),
            ("f16", self.half),
            ("f32", self.single),
            ("f64", self.double),
            ("special function", self.special),
            ("conversion", self.conversion),
            ("branch", self.branch),
        ]
    }

    fn add(&mut self, name: &str) {
        let mut parts = name.split('.');
        let operation = parts.next().unwrap_or_default();
        let is = |types: &[&str]| name.split('.').any(|part| types.contains(&part));
        let field = if operation == "cvt" {
            &mut self.conversion
        } else if BRANCHES.contains(&operation) {
            &mut self.branch
        } else if SPECIAL.contains(&operation) {
            &mut self.special
        } else if !ARITHMETIC.contains(&operation) {
            return;
        } else if is(&["f64"]) {
            &mut self.double
        } else if is(&["f32", "f32x2"]) {
            &mut self.single
        } else if is(&["f16", "f16x2", "bf16", "bf16x2"]) {
            &mut self.half
        } else {
            &mut self.integer
        };
        *field += 1;
    }
}

/// The body of a kernel, between the outer braces.
fn body<'a>(module: &'a str, kernel: &str) -> Option<&'a str> {
    let is_named = |after: &str| {
        let rest = after.trim_start().strip_prefix(kernel);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$'))
    };
    let entries = module.match_indices(".entry").map(|(at, word)| &module[at + word.len()..]);
    let after = entries.into_iter().find(|after| is_named(after))?;
    let from = after.find('{')?;
    let mut depth = 0;
    for (at, c) in after[from..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            return Some(&after[from + 1..from + at]);
        }
    }
    None
}

/// The instruction name of a statement, without label and predicate; empty if the statement has no
/// instruction.
fn mnemonic(statement: &str) -> &str {
    let mut words = statement.split_whitespace().filter(|word| !matches!(*word, "{" | "}"));
    let is_before = |word: &&str| word.ends_with(':') || word.starts_with('@');
    let name = words.find(|word| !is_before(word)).unwrap_or_default();
    if name.starts_with(|c: char| c.is_ascii_lowercase()) { name } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "
.version 8.0
.visible .entry other_kernel(.param .u64 a)
{
    fma.rn.f64 %fd1, %fd2, %fd3, %fd4;
}
.visible .entry kernel(.param .u64 a)
.maxntid 32, 1, 1
{
    .reg .b32 %r<9>;
$L__BB0_1:
    // add.s32 in a comment
    add.s32 %r1, %r2, 1;
    setp.lt.u32 %p1, %r1, 8; selp.b32 %r3, 1, 0, %p1;
    fma.rn.f32 %f1, %f2, %f3, %f4;
    fma.rn.bf16x2 %r4, %r5, %r6, %r7;
    { .reg .pred p; setp.ne.b32 p, %r1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2}, 1, 2, p; }
    cvt.rn.f16.f32 %h1, %f1;
    ex2.approx.ftz.f32 %f5, %f1;
    st.global.b32 [%rd1], %r1;
    @%p1 bra $L__BB0_1;
    ret;
}
";

    #[test]
    fn each_instruction_of_the_kernel_counts_once_by_its_type() {
        let counts = PtxCounts::of_kernel(MODULE, "kernel").unwrap();
        let expected =
            PtxCounts { integer: 4, half: 1, single: 1, double: 0, special: 1, conversion: 1, branch: 2 };
        assert_eq!(counts, expected);
        assert_eq!(PtxCounts::of_kernel(MODULE, "other_kernel").unwrap().double, 1);
        assert_eq!(PtxCounts::of_kernel(MODULE, "kern"), None);
    }
}
