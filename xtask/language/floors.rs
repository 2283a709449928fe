//! The order of the language's modules: a module imports those below it, and those on its floor.

use super::Fault;

/// The floors of `device/`, the lowest first. Elements, numbers, instructions and parameters of
/// kernels know each other: an access is an instruction, and an instruction has elements.
const FLOORS: &[&[&str]] = &[
    &["layout"],
    &["tiling"],
    &["analysis"],
    &["arch", "kernel", "math", "memory", "number"],
    &["tensor"],
    &["atom"],
    &["algorithm"],
    &["pipeline"],
    &["collective"],
];

/// Imports that point upwards, each for a public path.
const EXCEPT: &[(&str, &str)] =
    &[("device/memory/mod.rs", "pub use crate::tensor::{SharedArray, SharedStorage};")];

/// The tests of a module may use the modules above.
const OWN_TESTS: &str = "#[cfg(test)]";

fn floor(module: &str) -> Option<usize> {
    FLOORS.iter().position(|modules| modules.contains(&module))
}

/// Imports of a module above, and uses by the path.
pub fn check(name: &str, text: &str, faults: &mut Vec<Fault>) {
    let module = name.strip_prefix("device/").and_then(|path| path.split(['/', '.']).next());
    let Some((module, own)) = module.and_then(|module| Some((module, floor(module)?))) else { return };
    if !name.ends_with(".rs") || name.ends_with("/tests.rs") {
        return;
    }
    for (line, number) in text.lines().zip(1..).take_while(|(line, _)| *line != OWN_TESTS) {
        let code = line.split("//").next().unwrap_or_default();
        // A macro is expanded where it is called.
        for used in code.replace("$crate::", "").split("crate::").skip(1) {
            let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if floor(used).is_some_and(|above| above > own) && !EXCEPT.contains(&(name, line)) {
                let what = format!("`{module}` imports `{used}`, which is above it");
                faults.push(Fault::new(name, number, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(name: &str, text: &str) -> Vec<String> {
        let mut faults = Vec::new();
        check(name, text, &mut faults);
        faults.into_iter().map(|fault| format!("{}: {}", fault.line, fault.what)).collect()
    }

    #[test]
    fn a_module_imports_no_module_above_it() {
        let text = "use crate::layout::Layout;\nuse crate::algorithm::copy;\n";
        assert_eq!(said("device/atom/a.rs", text), ["2: `atom` imports `algorithm`, which is above it"]);
        assert_eq!(said("device/algorithm/a.rs", text), [""; 0]);
        assert_eq!(
            said("device/math.rs", "crate::tensor::b()"),
            ["1: `math` imports `tensor`, which is above it"]
        );
        for fine in [
            "/// [`copy`](crate::algorithm::copy())",
            "$crate::tensor::a()",
            "#[cfg(test)]\nuse crate::atom;",
        ] {
            assert_eq!(said("device/memory/a.rs", fine), [""; 0], "{fine}");
        }
    }
}
