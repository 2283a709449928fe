//! The order of modules: a module imports those below it, and those on its floor.

use super::Fault;

/// The floors of a folder, the lowest first.
struct House {
    folder: &'static str,
    floors: &'static [&'static [&'static str]],
    /// Imports that point upwards, each for a public path.
    except: &'static [(&'static str, &'static str)],
}

/// The runtime. Errors name architectures and the driver's codes; a call of the driver is an error
/// of a capture, too.
const HOUSES: &[House] = &[House {
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
        &["operation"],
        &["movement"],
        &["attention", "matmul", "tuning"],
        &["interop"],
    ],
    except: &[],
}];

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
    for (line, number) in text.lines().zip(1..).take_while(|(line, _)| *line != OWN_TESTS) {
        let code = line.split("//").next().unwrap_or_default();
        // A macro is expanded where it is called.
        for used in code.replace("$crate::", "").split("crate::").skip(1) {
            let used = used.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            if house.floor(used).is_some_and(|above| above > own) && !house.except.contains(&(name, line)) {
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
    fn every_module_of_the_runtime_is_on_a_floor() {
        let root = crate::checkout::Checkout::find().unwrap().root;
        for entry in std::fs::read_dir(root.join("host")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let module = name.split('.').next().unwrap();
            let is_other = ["README", "lib"].contains(&module);
            assert!(is_other || HOUSES[0].floor(module).is_some(), "{name}");
        }
    }
}
