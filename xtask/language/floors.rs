//! The order of modules: a module imports those below it, and those on its floor.

use super::Fault;

/// The floors of a folder, the lowest first.
struct House {
    folder: &'static str,
    floors: &'static [&'static [&'static str]],
    /// Imports that point upwards, each for a public path.
    except: &'static [(&'static str, &'static str)],
}

/// The runtime, where errors name architectures and the driver's codes, and a call of the driver may
/// be an error of a capture; and the language, where elements, numbers, instructions and parameters
/// of kernels know each other: an access is an instruction, and an instruction has elements.
const HOUSES: &[House] = &[RUNTIME, LANGUAGE];

const RUNTIME: House = House {
    folder: "host/",
    floors: &[
        &["arch", "captures", "driver", "error", "mix"],
        &["grid", "ptx"],
        &["device"],
        &["stream"],
        &["event", "graph", "memory"],
        &["matrix", "module"],
        &["launch"],
        &["peer", "tensor_map"],
        &["array"],
        &["algorithm"],
        &["operation"],
        &["interop"],
    ],
    except: &[],
};

const LANGUAGE: House = House {
    folder: "device/",
    floors: &[
        &["layout"],
        &["tiling"],
        &["analysis"],
        &["arch", "kernel", "math", "memory", "number"],
        &["tensor"],
        &["atom"],
        &["algorithm"],
        &["pipeline"],
        &["collective"],
    ],
    except: &[("device/memory/mod.rs", "pub use crate::tensor::{SharedArray, SharedStorage};")],
};

/// The tests of a module may use the modules above.
const OWN_TESTS: &str = "#[cfg(test)]";

impl House {
    fn floor(&self, module: &str) -> Option<usize> {
        self.floors.iter().position(|modules| modules.contains(&module))
    }
}

/// Imports of a module above, and uses by the path.
pub fn check(name: &str, text: &str, faults: &mut Vec<Fault>) {
    let Some((house, path)) = HOUSES.iter().find_map(|house| Some((house, name.strip_prefix(house.folder)?)))
    else {
        return;
    };
    let module = path.split(['/', '.']).next().unwrap_or_default();
    let Some(own) = house.floor(module).filter(|_| name.ends_with(".rs") && !name.ends_with("/tests.rs"))
    else {
        return;
    };
    // `super` once for each module of the file's path is the crate.
    let depth = path.split('/').filter(|part| !["mod.rs", "lib.rs"].contains(part)).count();
    let code = code(text);
    for (at, used) in
        ["crate::".to_owned(), "super::".repeat(depth)].iter().flat_map(|root| uses(&code, root))
    {
        let number = 1 + code[..at].matches('\n').count();
        let line = text.lines().nth(number - 1).unwrap_or_default();
        if house.floor(used).is_some_and(|above| above > own) && !house.except.contains(&(name, line)) {
            let what = format!("`{module}` imports `{used}`, which is above it");
            faults.push(Fault::new(name, number, what));
        }
    }
}

/// A file without its comments and the items for its tests alone, in the same lines. An item ends
/// with its first line, or with the brace or semicolon at its indentation.
fn code(text: &str) -> String {
    let mut code = String::new();
    // The item that is skipped, with its indentation once its first line was read.
    let mut item: Option<Option<usize>> = None;
    for line in text.lines() {
        let kept = line.split("//").next().unwrap_or_default();
        let trimmed = kept.trim();
        let indentation = kept.len() - kept.trim_start().len();
        match item {
            None if trimmed == OWN_TESTS => item = Some(None),
            None => code += kept,
            // The other attributes of the item.
            Some(None) if trimmed.is_empty() || trimmed.starts_with("#[") => {}
            Some(begin) => {
                let is_last = match begin {
                    None => trimmed.ends_with([';', '}', ',']),
                    Some(begin) => {
                        indentation == begin && (trimmed.starts_with('}') || trimmed.ends_with(';'))
                    }
                };
                item = if is_last { None } else { Some(begin.or(Some(indentation))) };
            }
        }
        code.push('\n');
    }
    code
}

/// The modules that code names after `root`, alone or in braces, and where.
fn uses<'a>(code: &'a str, root: &str) -> Vec<(usize, &'a str)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(root) {
        // A macro is expanded where it is called; a path of more `super` begins with the first one.
        let before = &code[..at];
        if before.ends_with('$') || before.ends_with("super::") || before.ends_with(is_of_name) {
            continue;
        }
        let rest = code[at + root.len()..].trim_start_matches("super::");
        let begin = code.len() - rest.len();
        let mut starts = vec![begin];
        if rest.starts_with('{') {
            starts.clear();
            let mut depth = 0;
            for (at, c) in rest.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' => depth -= 1,
                    _ => {}
                }
                match c {
                    '{' | ',' if depth == 1 => starts.push(begin + at + 1),
                    _ if depth == 0 => break,
                    _ => {}
                }
            }
        }
        for start in starts {
            let start = code.len() - code[start..].trim_start().len();
            let name = code[start..].split(|c| !is_of_name(c)).next().unwrap_or_default();
            found.push((start, name));
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
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
    fn a_module_of_the_runtime_imports_no_module_above_it() {
        let text = "use crate::device::Device;\nuse crate::stream::Stream;\n";
        assert_eq!(said("host/device/gpu.rs", text), ["2: `device` imports `stream`, which is above it"]);
        assert_eq!(said("host/event.rs", text), [""; 0]);
        for fine in [
            "/// [`Stream`](crate::stream::Stream)",
            "$crate::matmul::a()",
            "#[cfg(test)]\nuse crate::graph;",
        ] {
            assert_eq!(said("host/device/gpu.rs", fine), [""; 0], "{fine}");
        }
    }

    #[test]
    fn a_module_of_the_language_imports_no_module_above_it() {
        let text = "use crate::layout::Layout;\nuse crate::algorithm::copy;\n";
        assert_eq!(said("device/atom/a.rs", text), ["2: `atom` imports `algorithm`, which is above it"]);
        assert_eq!(said("device/algorithm/a.rs", text), [""; 0]);
        assert_eq!(
            said("device/math.rs", "crate::tensor::b()"),
            ["1: `math` imports `tensor`, which is above it"]
        );
    }

    #[test]
    fn modules_in_braces_and_by_super_are_seen() {
        let told = |lines: &[usize]| {
            lines.iter().map(|line| format!("{line}: `memory` imports `tensor`, which is above it")).collect()
        };
        for (name, text, lines) in [
            ("device/memory/a.rs", "use crate::{tensor::A, layout};", &[1][..]),
            ("device/memory/a.rs", "use crate::{\n    layout::{A, tensor},\n    tensor::{B, C},\n};", &[3]),
            ("device/memory/a.rs", "use super::super::tensor;", &[1]),
            ("device/memory/mod.rs", "use super::tensor::A;", &[1]),
            ("device/memory/a.rs", "mod b {\n    use super::super::super::{layout, tensor::A};\n}", &[2]),
            ("device/memory/a.rs", "use super::tensor::A;", &[]),
            ("device/memory/a/mod.rs", "use super::{tensor::A, b::tensor};", &[]),
        ] {
            let told: Vec<String> = told(lines);
            assert_eq!(said(name, text), told, "{name}: {text}");
        }
    }

    #[test]
    fn only_the_item_of_the_tests_is_skipped() {
        for item in [
            "use crate::tensor::A;",
            "use crate::tensor::{\n    A,\n    B,\n};",
            "mod tests;",
            "#[path = \"a.rs\"]\nmod tests {\n    use crate::tensor::A;\n\n    fn f() {\n    }\n}",
            "fn f(\n    a: u32,\n) -> u32 {\n    crate::tensor::g(a)\n}",
            "pub(crate) fn f() {}",
        ] {
            let text = format!("#[cfg(test)]\n{item}\nuse crate::tensor::C;\n");
            let told = format!("{}: `math` imports `tensor`, which is above it", text.lines().count());
            assert_eq!(said("device/math.rs", &text), [told], "{text}");
        }
        let text = "impl A {\n    #[cfg(test)]\n    fn f() {\n        crate::tensor::g()\n    }\n}\ncrate::tensor::h()";
        assert_eq!(said("device/math.rs", text), ["7: `math` imports `tensor`, which is above it"]);
    }

    #[test]
    fn every_module_of_the_runtime_is_on_a_floor() {
        let root = crate::checkout::Checkout::find().unwrap().root;
        for entry in std::fs::read_dir(root.join("host")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let module = name.split('.').next().unwrap();
            let is_other =
                ["Cargo", "LICENSE-APACHE", "LICENSE-MIT", "README", "build", "lib"].contains(&module);
            assert!(is_other || RUNTIME.floor(module).is_some(), "{name}");
        }
    }
}
