//! The valid names of a crate.

use anyhow::{Context, Result, bail};
use std::path::Path;

/// Names that cargo refuses, or that would hide a crate which the template, rustc or cargo uses.
const TAKEN: &[&str] = &[
    "moye",
    "moye-attention",
    "moye-build",
    "moye-device",
    "moye-macros",
    "moye-matmul",
    "moye-movement",
    "moye-python-support",
    "moye-runtime",
    "moye-sim",
    // The crates of the toolchain, some of which rustc finds by name alone.
    "alloc",
    "compiler-builtins",
    "core",
    "panic-abort",
    "panic-unwind",
    "proc-macro",
    "profiler-builtins",
    "rustc-std-workspace-alloc",
    "rustc-std-workspace-core",
    "rustc-std-workspace-std",
    "std",
    "std-detect",
    "sysroot",
    "test",
    "unwind",
    // Folders of a target directory, and cargo's name for a build script.
    "build",
    "build-script-build",
    "deps",
    "doc",
    "examples",
    "incremental",
    "package",
    "tmp",
];

/// Types that a crate of the same name would hide in the template's program and tests.
const TYPES: &[&str] = &[
    "bool", "char", "f128", "f16", "f32", "f64", "i128", "i16", "i32", "i64", "i8", "isize", "str", "u128",
    "u16", "u32", "u64", "u8", "usize",
];

/// Rust's keywords, which cannot name crates.
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Python's keywords that are not Rust's: a module of such a name cannot be imported.
const PYTHON_KEYWORDS: &[&str] = &[
    "and", "assert", "class", "def", "del", "elif", "except", "finally", "from", "global", "import", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "with",
];

/// The last part of a folder's path.
pub fn of_folder(folder: &Path) -> Result<String> {
    let last =
        folder.file_name().with_context(|| format!("{} has no name; give --name", folder.display()))?;
    let name = last.to_str().with_context(|| format!("{} is not UTF-8; give --name", folder.display()))?;
    Ok(name.to_owned())
}

/// Refuses names that cargo would refuse, and, for a crate that is a module of Python (`python`),
/// names that cannot be imported.
pub fn check(name: &str, python: bool) -> Result<()> {
    let way_out = "give a name such as `my-kernels`, by --name where the folder has another";
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        bail!("`{name}` is not a valid crate name: it does not start with a letter from a to z; {way_out}");
    }
    if let Some(wrong) = name.chars().find(|c| !c.is_ascii_alphanumeric() && !"-_".contains(*c)) {
        bail!(
            "`{name}` is not a valid crate name: it has a {wrong:?}, and only letters, digits, - and _ are allowed; {way_out}"
        );
    }
    if name.contains(|c: char| c.is_ascii_uppercase()) {
        bail!("`{name}` has an upper-case letter, and rustc warns of crates that have one; {way_out}");
    }
    let krate = name.replace('-', "_");
    if krate.contains("__") {
        bail!("`{name}` has two of - and _ in a row, and rustc warns of crates that do; {way_out}");
    }
    if KEYWORDS.contains(&name) {
        bail!("`{name}` is not a valid crate name: it is a keyword of Rust; {way_out}");
    }
    if python && PYTHON_KEYWORDS.contains(&name) {
        bail!("`{name}` is not a valid name of a Python module: it is a keyword of Python; {way_out}");
    }
    if TYPES.contains(&name) {
        bail!("`{name}` is a type of Rust, which a crate of this name would hide; {way_out}");
    }
    if TAKEN.contains(&name.replace('_', "-").as_str()) {
        bail!("`{name}` is the name of another crate or folder that the build uses; {way_out}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cargo_refuses_are_refused_with_a_way_out() {
        for name in ["my-kernels", "a", "k2_x", "my-new_kernels", "kernels-2", "half", "union"] {
            check(name, false).unwrap();
        }
        for (name, why) in [
            ("", "does not start with a letter"),
            ("2d", "does not start with a letter"),
            ("a.b", "it has a '.'"),
            ("kernels ", "it has a ' '"),
            ("größe", "it has a 'ö'"),
            ("fn", "a keyword"),
            ("moye_sim", "another crate"),
            ("panic_unwind", "another crate"),
            ("compiler-builtins", "another crate"),
            ("Self", "an upper-case letter"),
            ("Kernels", "an upper-case letter"),
            ("a-_b", "two of - and _ in a row"),
            ("f32", "a type of Rust"),
        ] {
            let error = check(name, false).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("`my-kernels`"), "{name}: {error}");
        }
        check("class", false).unwrap();
        let error = check("class", true).unwrap_err().to_string();
        assert!(error.contains("a keyword of Python") && error.contains("`my-kernels`"), "{error}");
        assert_eq!(of_folder(Path::new("some/where/kernels/")).unwrap(), "kernels");
        assert!(of_folder(Path::new("..")).is_err());
    }
}
