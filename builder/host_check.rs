//! Leaves errors of device code to the build of the same crate for the host.
//!
//! rust-analyzer and other editors show the compiler's errors at their lines, but not a build
//! script's output. A crate that compiles its kernels is compiled for the host too, by the same
//! `cargo check`. So if its device code has errors, the build script succeeds and leaves them to
//! that compilation:
//!
//! - rustc reports nearly all of them on the host too;
//! - constants of generic code, such as checks of layouts, are evaluated only during code
//!   generation. The attribute `#[kernel]` reports their errors at the kernel's tokens: it reads
//!   them from a file in `OUT_DIR`;
//! - in place of the PTX the crate includes a `compile_error!`, so that no program is built without
//!   its kernels.

use crate::diagnostic::Diagnostic;
use crate::files::{remove_if_there, write_if_changed};
use crate::{Arch, BuildError};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Whether the crate in this folder is the package whose build script this is.
pub fn is_own(krate: &Path) -> bool {
    env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|own| fs::canonicalize(own).ok())
        .is_some_and(|own| own == krate && crate::environment::in_build_script())
}

/// Whether the host compilation or the attribute `#[kernel]` reports all of these errors.
pub fn meets(diagnostics: &[Diagnostic]) -> bool {
    !diagnostics.is_empty() && diagnostics.iter().all(|diagnostic| !diagnostic.places.is_empty())
}

/// The file that `#[kernel]` reads, for the crate `library` and its first architecture, `arch`.
fn file(out_dir: &Path, library: &str, arch: Arch) -> PathBuf {
    out_dir.join(format!("{library}.{arch}.kernel-errors"))
}

/// Removes the errors of an earlier build.
pub fn forget(library: &str, arch: Arch) -> Result<(), BuildError> {
    match env::var_os("OUT_DIR") {
        Some(out_dir) => remove_if_there(&file(Path::new(&out_dir), library, arch)),
        None => Ok(()),
    }
}

/// Writes the errors for `#[kernel]`, one a line: the message, and file, line and column of each
/// position, separated by tabs.
pub fn record(library: &str, arch: Arch, diagnostics: &[Diagnostic]) -> Result<(), BuildError> {
    let out_dir = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(BuildError::NoOutDir)?;
    let mut text = String::new();
    for diagnostic in diagnostics.iter().filter(|diagnostic| diagnostic.is_of_a_constant()) {
        let message = diagnostic.message.trim_start_matches("evaluation panicked: ");
        text += &message.replace('\\', "\\\\").replace('\n', "\\n").replace('\t', " ");
        for place in &diagnostic.places {
            text += &format!("\t{}\t{}\t{}", place.file.display(), place.line, place.column);
        }
        text.push('\n');
    }
    write_if_changed(&file(&out_dir, library, arch), &text)?;
    // A file of this name never exists, so cargo runs the build script again.
    println!("cargo::rerun-if-changed={}", out_dir.join("kernels-without-errors").display());
    Ok(())
}

/// The expression in place of the PTX. It says where the errors are reported, and lists them if the
/// host compilation might not find them.
pub fn guard(library: &str, krate: &Path, arch: Arch, diagnostics: &[Diagnostic], same_code: bool) -> String {
    let mut text = format!("the device code of `{library}` does not compile for {arch}");
    for diagnostic in diagnostics {
        let Some(place) = diagnostic.places.first() else { continue };
        let is_said = if diagnostic.is_of_a_constant() {
            diagnostic.places.iter().any(|place| is_in_a_kernel(&place.file, place.line))
        } else {
            // Attributes of a crate (`#![`) nearly always name the target.
            let for_the_gpu = fs::read_to_string(&place.file).is_ok_and(|text| {
                text.lines().any(|line| line.contains("nvptx") && !line.starts_with("#!["))
            });
            diagnostic.code.is_some() && same_code && !for_the_gpu
        };
        text += &format!("\n{}: ", place.within(krate));
        if is_said {
            text += "see the error there";
        } else {
            text += &plain(&diagnostic.rendered);
        }
    }
    format!("compile_error!({text:?})\n")
}

/// Whether a line of a file is inside an item with the attribute `#[kernel]`. The source must be
/// formatted by rustfmt: the item ends at a brace in the attribute's column.
fn is_in_a_kernel(file: &Path, line: usize) -> bool {
    let Ok(text) = fs::read_to_string(file) else { return false };
    let mut end = None;
    for (number, text) in (1..).zip(text.lines()) {
        let indent = &text[..text.len() - text.trim_start().len()];
        if text.trim_start().starts_with("#[kernel") {
            end = Some(format!("{indent}}}"));
        }
        if number == line {
            return end.is_some();
        }
        if end.as_deref() == Some(text) {
            end = None;
        }
    }
    false
}

/// The string without terminal colours.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("\u{1b}[") {
        plain += &rest[..start];
        rest = rest[start..].split_once('m').map_or("", |(_, rest)| rest);
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Place;

    #[test]
    fn a_line_is_in_a_kernel_from_the_attribute_to_its_last_brace() {
        let file = env::temp_dir().join(format!("moye-kernel-lines-{}.rs", std::process::id()));
        let source = "fn f() {\n}\nmod m {\n    #[kernel]\n    unsafe fn k() {\n        if x {\n        }\n    }\n    fn g() {}\n}\n";
        fs::write(&file, source).unwrap();
        let inside: Vec<_> = (1..=10).filter(|&line| is_in_a_kernel(&file, line)).collect();
        fs::remove_file(&file).unwrap();
        assert_eq!(inside, [4, 5, 6, 7, 8]);
    }

    #[test]
    fn what_stands_for_the_ptx_says_what_the_host_does_not_meet() {
        let krate = Path::new("/src/kernels");
        let place = Place { file: krate.join("src/lib.rs"), line: 12, column: 30 };
        let typed = Diagnostic {
            message: "mismatched types".into(),
            code: Some("E0308".into()),
            places: vec![place],
            rendered: "\u{1b}[1merror[E0308]\u{1b}[0m: mismatched types".into(),
        };
        let arch = "sm_80".parse().unwrap();
        let text = |same| guard("kernels", krate, arch, std::slice::from_ref(&typed), same);
        assert!(text(true).contains("src/lib.rs:12:30: see the error there"), "{}", text(true));
        assert!(text(false).contains("src/lib.rs:12:30: error[E0308]: mismatched types"), "{}", text(false));
        assert!(meets(std::slice::from_ref(&typed)));
        assert!(!meets(&[Diagnostic { places: Vec::new(), ..typed }]), "an error in a dependency");
    }
}
