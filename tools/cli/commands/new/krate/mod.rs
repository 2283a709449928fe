//! The crate that `moye new` and `cargo xtask new` write. `xtask` compiles this folder too, so it
//! uses nothing of the rest of the program, which takes minutes to build.

mod name;
mod place;

use anyhow::{Context, Result, bail};
use place::Dependencies;
use std::fs;
use std::path::{Path, PathBuf};

/// The crate's name in the template.
const NAME: &str = "new-kernels";

/// The files of the template, by their paths in the crate.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.in")),
    ("build.rs", include_str!("template/build.rs")),
    ("rust-toolchain.toml", include_str!("template/rust-toolchain.toml")),
    ("rustfmt.toml", include_str!("template/rustfmt.toml")),
    ("src/lib.rs", include_str!("template/lib.rs")),
    ("src/main.rs", include_str!("template/main.rs")),
    ("tests/simulator.rs", include_str!("template/simulator.rs")),
    (".cargo/config.toml", include_str!("template/cargo_config.toml")),
    (".github/workflows/ci.yml", include_str!("template/ci.yml")),
    (".gitignore", include_str!("template/gitignore")),
    ("rust-analyzer.toml", include_str!("template/rust-analyzer.toml")),
];

/// The files of the template with a function for Python.
const PYTHON_FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/python/Cargo.toml.in")),
    ("build.rs", include_str!("template/python/build.rs")),
    ("pyproject.toml", include_str!("template/python/pyproject.toml")),
    ("rust-toolchain.toml", include_str!("template/rust-toolchain.toml")),
    ("rustfmt.toml", include_str!("template/rustfmt.toml")),
    ("src/lib.rs", include_str!("template/python/lib.rs")),
    ("src/kernel.rs", include_str!("template/python/kernel.rs")),
    ("src/silu/mod.rs", include_str!("template/python/silu/mod.rs")),
    ("src/silu/call.rs", include_str!("template/python/silu/call.rs")),
    ("src/silu/oracle.rs", include_str!("template/python/silu/oracle.rs")),
    ("benches/silu.rs", include_str!("template/python/bench.rs")),
    ("tests/operations.rs", include_str!("template/python/operations.rs")),
    ("tests/test_functions.py", include_str!("template/python/test_functions.py")),
    (".gitignore", include_str!("template/gitignore")),
];

/// The request for a new crate.
pub struct New {
    /// The folder, whose last part is the crate's name.
    pub folder: PathBuf,
    /// The name, if it differs from the folder's.
    pub name: Option<String>,
    /// The checkout to depend on, if it is not the one in which the program was built.
    pub checkout: Option<PathBuf>,
    /// Whether it has an operation that is a Python function.
    pub python: bool,
}

impl New {
    /// Writes the crate. Returns the instructions for what to do next.
    ///
    /// # Errors
    /// Cargo refuses the name, the folder is not empty, the named folder is not a checkout, or a
    /// file cannot be written.
    pub fn write(&self, built_in: &Path) -> Result<String> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => name::of_folder(&self.folder)?,
        };
        name::check(&name, self.python)?;
        let dependencies = Dependencies::find(self.checkout.as_deref(), built_in)?;
        is_free(&self.folder)?;
        for (file, text) in if self.python { PYTHON_FILES } else { FILES } {
            write(&self.folder.join(file), &filled(text, &name, &dependencies))?;
        }
        if self.python {
            return Ok(format!(
                "{} is written: a kernel in src/kernel.rs, its declaration and builder in src/silu. In that folder\n  \
                 cargo test                  runs the operation on the simulator, beside its reference\n  \
                 cargo bench                 measures it on GPU 0\n  \
                 pip install .               installs it as a Python function: {}.silu(x)\n",
                self.folder.display(),
                name.replace('-', "_")
            ));
        }
        Ok(format!(
            "{} is written: a kernel in src/lib.rs, its tests in tests/simulator.rs. In that folder\n  \
             cargo test                  runs the kernel on the simulator\n  \
             cargo kernels               checks the kernels, their layouts too, as an editor does\n  \
             cargo run                   runs the program on the simulator\n  \
             cargo run --features gpu    compiles the kernel to PTX and runs it on GPU 0, where there is one\n",
            self.folder.display()
        ))
    }
}

/// A file of the template for this crate.
fn filled(text: &str, name: &str, dependencies: &Dependencies) -> String {
    // Each occurrence once: the new name may contain the template's, with - or with _.
    let (of_crate, krate) = (NAME.replace('-', "_"), name.replace('-', "_"));
    let parts: Vec<_> = text.split(NAME).map(|part| part.replace(&of_crate, &krate)).collect();
    dependencies.fill(&parts.join(name))
}

/// Rejects a path that exists.
fn is_free(folder: &Path) -> Result<()> {
    match fs::read_dir(folder).map(Iterator::count) {
        Ok(0) => Ok(()),
        Err(_) if !folder.exists() => Ok(()),
        Ok(_) => bail!("{} exists already and is not empty; name another folder", folder.display()),
        Err(_) => bail!("{} exists already and is no folder; name another one", folder.display()),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_crate_has_the_toolchain_of_this_one() {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut folders = package.ancestors().map(|folder| folder.join("rust-toolchain.toml"));
        let own = folders.find(|file| file.is_file()).unwrap();
        let (_, template) = FILES.iter().find(|(file, _)| *file == "rust-toolchain.toml").unwrap();
        assert_eq!(fs::read_to_string(own).unwrap(), *template);
    }

    #[test]
    fn a_name_that_has_the_templates_in_it_is_written_once() {
        let text = "new-kernels new_kernels";
        for (name, written) in [
            ("my-new_kernels", "my-new_kernels my_new_kernels"),
            ("new-kernels-2", "new-kernels-2 new_kernels_2"),
            ("new_kernels-new-kernels", "new_kernels-new-kernels new_kernels_new_kernels"),
        ] {
            assert_eq!(filled(text, name, &Dependencies::Published), written);
        }
    }

    #[test]
    fn nothing_of_the_templates_name_is_left() {
        for (file, text) in FILES.iter().chain(PYTHON_FILES) {
            let text = filled(text, "row-sums", &Dependencies::Published);
            for left in ["new-kernels", "new_kernels", "{moye"] {
                assert!(!text.contains(left), "{file} has {left}: {text}");
            }
        }
    }
}
