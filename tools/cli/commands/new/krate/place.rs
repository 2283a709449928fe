//! The source of a new crate's dependencies.

use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// The dependencies in the templates: the package's folder in a checkout, and the rest of the
/// dependency's specification.
const PACKAGES: [(&str, &str, &str); 7] = [
    ("moye", ".", ", default-features = false, optional = true"),
    ("moye-simulated", ".", ", default-features = false, features = [\"simulator\"]"),
    ("moye-build", "builder", ", optional = true"),
    ("moye-compiler", "builder", ""),
    ("moye-device", "device", ""),
    ("moye-python-support", "python/support", ""),
    ("moye-sim", "sim", ""),
];

/// The packages by version, or by path.
#[derive(Debug, PartialEq, Eq)]
pub enum Dependencies {
    /// From crates.io.
    Published,
    /// From a checkout in this folder.
    Checkout(PathBuf),
}

impl Dependencies {
    /// The packages of the named checkout, else of the checkout in which the program was built,
    /// else of crates.io.
    pub fn find(named: Option<&Path>, built_in: &Path) -> Result<Self> {
        match named {
            None if is_checkout(built_in) => Ok(Self::Checkout(built_in.to_owned())),
            None => Ok(Self::Published),
            Some(folder) if !is_checkout(folder) => {
                bail!(
                    "{} is not a checkout of moye: it has no device/Cargo.toml of moye-device; name one, or leave --path out",
                    folder.display()
                )
            }
            Some(folder) => {
                let absolute =
                    fs::canonicalize(folder).with_context(|| format!("where {} is", folder.display()))?;
                Ok(Self::Checkout(absolute))
            }
        }
    }

    /// The template's manifest with these dependencies filled in.
    pub fn fill(&self, text: &str) -> String {
        PACKAGES.iter().fold(text.to_owned(), |text, (package, folder, more)| {
            let source = match self {
                Self::Published => format!("version = {:?}", env!("CARGO_PKG_VERSION")),
                Self::Checkout(root) if *folder == "." => format!("path = {:?}", root.display().to_string()),
                Self::Checkout(root) => format!("path = {:?}", root.join(folder).display().to_string()),
            };
            text.replace(&format!("{{{package}}}"), &format!("{{ {source}{more} }}"))
        })
    }
}

/// Whether a folder contains the packages of moye.
fn is_checkout(folder: &Path) -> bool {
    let manifest = fs::read_to_string(folder.join("device/Cargo.toml")).unwrap_or_default();
    manifest.contains("name = \"moye-device\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_those_of_the_checkout_or_of_the_registry() {
        let line = "moye = {moye}\nmoye-sim = {moye-sim}\n";
        let version = env!("CARGO_PKG_VERSION");
        let published = Dependencies::Published.fill(line);
        assert_eq!(
            published,
            format!(
                "moye = {{ version = \"{version}\", default-features = false, optional = true }}\nmoye-sim = {{ version = \"{version}\" }}\n"
            )
        );
        let checkout = Dependencies::Checkout("/src/moye".into()).fill(line);
        assert!(
            checkout.contains("{ path = \"/src/moye\", default-features")
                && checkout.contains("\"/src/moye/sim\""),
            "{checkout}"
        );
    }

    #[test]
    fn a_folder_without_moye_is_no_checkout() {
        // The packages that compile this module are in folders of the checkout.
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.ancestors().find(|folder| is_checkout(folder)).unwrap();
        let error = Dependencies::find(Some(Path::new("/")), root).unwrap_err().to_string();
        assert!(error.contains("/ is not a checkout of moye"), "{error}");
        assert_eq!(Dependencies::find(None, root).unwrap(), Dependencies::Checkout(root.to_owned()));
        assert_eq!(Dependencies::find(None, Path::new("/")).unwrap(), Dependencies::Published);
    }
}
