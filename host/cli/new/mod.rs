//! `moye new`: a crate with kernels of its own.

mod name;
mod place;

use super::report;
use anyhow::{Context, Result, bail};
use clap::Args;
use place::Dependencies;
use std::fs;
use std::path::{Path, PathBuf};

/// What the crate is called in the template.
const NAME: &str = "new-kernels";

/// The files of the template, by where they belong in the crate.
const FILES: &[(&str, &str)] = &[
    ("Cargo.toml", include_str!("template/Cargo.toml.in")),
    ("build.rs", include_str!("template/build.rs")),
    ("rust-toolchain.toml", include_str!("template/rust-toolchain.toml")),
    ("rustfmt.toml", include_str!("template/rustfmt.toml")),
    ("src/lib.rs", include_str!("template/lib.rs")),
    ("src/main.rs", include_str!("template/main.rs")),
    ("tests/simulator.rs", include_str!("template/simulator.rs")),
    (".cargo/config.toml", include_str!("template/cargo_config.toml")),
    (".cargo/cuda/lib64/.gitkeep", ""),
    (".github/workflows/ci.yml", include_str!("template/ci.yml")),
    (".gitignore", include_str!("template/gitignore")),
];

/// Writes a crate with a kernel, its tests on the simulator, and a program that runs it.
#[derive(Args)]
pub struct New {
    /// Folder to write, whose last part is the crate's name: `my-kernels`.
    #[arg(value_name = "NAME")]
    folder: PathBuf,
    /// Name of the crate (default: the folder's).
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Checkout of moye that the crate depends on (default: the one that this program was built in,
    /// where that still exists, or else the packages of crates.io).
    #[arg(long, value_name = "CHECKOUT")]
    path: Option<PathBuf>,
}

impl New {
    pub fn run(self) -> Result<()> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => name::of_folder(&self.folder)?,
        };
        name::check(&name)?;
        let dependencies = Dependencies::find(self.path.as_deref())?;
        is_free(&self.folder)?;
        for (file, text) in FILES {
            write(&self.folder.join(file), &filled(text, &name, &dependencies))?;
        }
        report::print(&format!(
            "{} is written: a kernel in src/lib.rs, its tests in tests/simulator.rs. In that folder\n  \
             cargo test                  runs the kernel on the simulator\n  \
             cargo run                   runs the program on the simulator\n  \
             cargo run --features gpu    compiles the kernel to PTX and runs it on GPU 0, where there is one\n",
            self.folder.display()
        ));
        Ok(())
    }
}

/// A file of the template for this crate.
fn filled(text: &str, name: &str, dependencies: &Dependencies) -> String {
    let text = text.replace(NAME, name).replace(&NAME.replace('-', "_"), &name.replace('-', "_"));
    dependencies.fill(&text)
}

/// Refuses a place where something is.
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
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust-toolchain.toml");
        let (_, template) = FILES.iter().find(|(file, _)| *file == "rust-toolchain.toml").unwrap();
        assert_eq!(fs::read_to_string(own).unwrap(), *template);
    }

    #[test]
    fn nothing_of_the_templates_name_is_left() {
        for (file, text) in FILES {
            let text = filled(text, "row-sums", &Dependencies::Published);
            for left in ["new-kernels", "new_kernels", "{moye"] {
                assert!(!text.contains(left), "{file} has {left}: {text}");
            }
        }
    }
}
