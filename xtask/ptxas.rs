//! Fetches `ptxas` for the tests if a machine has none: NVIDIA's packages on PyPI, through pip,
//! into `.toolchain`.

use crate::checkout::Checkout;
use crate::steps::quietly;
use anyhow::{Context, Result, bail};
use moye_build::report::Ptxas;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A package, and the program's path in it.
struct Package {
    name: &'static str,
    size: &'static str,
    program: &'static str,
}

/// The assembler of all published figures.
const NEWEST: Package =
    Package { name: "nvidia-cuda-nvcc==13.0.88", size: "37 MB", program: "nvidia/cu13/bin/ptxas" };

/// The last version that supports architectures before sm_75, for tests of older GPUs.
const OLDER: Package =
    Package { name: "nvidia-cuda-nvcc-cu12==12.9.86", size: "41 MB", program: "nvidia/cuda_nvcc/bin/ptxas" };

/// The path of a package's assembler, if it is installed.
type Find<'a> = &'a dyn Fn() -> Option<Ptxas>;

/// Installs the package of this name into the folder.
type Install<'a> = &'a dyn Fn(&Path, &str) -> Result<()>;

/// Ensures that `ptxas` is found: one for new architectures and one for those before sm_75.
pub fn ensure(checkout: &Checkout) -> Result<()> {
    let older = || Ptxas::find_for("sm_50".parse().expect("an architecture's name"));
    ensure_each(checkout, &[(NEWEST, &Ptxas::find), (OLDER, &older)], &pip)
}

fn ensure_each(checkout: &Checkout, wanted: &[(Package, Find)], install: Install) -> Result<()> {
    // If one cannot be installed, the other still is.
    let missing: Vec<_> = wanted
        .iter()
        .filter(|(_, found)| found().is_none())
        .filter_map(|(package, found)| {
            let fetched = fetch(package, checkout, install).and_then(|()| match found() {
                Some(_) => Ok(()),
                None => bail!("it was fetched but is not found"),
            });
            fetched.err().map(|error| format!("{}: {error:#}", package.name))
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    bail!(
        "{}\nAny one of these helps: install the package by pip, or CUDA's toolkit; set MOYE_PTXAS to a ptxas; or copy \
         .toolchain/ptxas from a checkout that has it to {}",
        missing.join("\n"),
        checkout.toolchain().display()
    )
}

/// Unpacks a package's program into `.toolchain/ptxas`.
fn fetch(package: &Package, checkout: &Checkout, install: Install) -> Result<()> {
    eprintln!("setup: fetching ptxas ({} from PyPI, {})", package.name, package.size);
    let work = checkout.toolchain().join(format!("ptxas-{}", std::process::id()));
    let fetched = fetch_into(&work, package, checkout, install);
    let _ = fs::remove_dir_all(&work);
    fetched
}

fn fetch_into(work: &Path, package: &Package, checkout: &Checkout, install: Install) -> Result<()> {
    install(work, package.name)?;
    // Only the assembler is kept.
    let kept = checkout.toolchain().join("ptxas").join(package.program);
    let folder = kept.parent().expect("it was just joined");
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::rename(work.join(package.program), &kept)
        .with_context(|| format!("cannot move ptxas to {}", kept.display()))
}

fn pip(folder: &Path, package: &str) -> Result<()> {
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--disable-pip-version-check"]);
    pip.args(["--root-user-action=ignore", "--target"]).arg(folder).arg(package);
    quietly(&mut pip).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// A folder that serves as a checkout, and the packages installed for it.
    struct Case {
        checkout: Checkout,
        installed: RefCell<Vec<String>>,
    }

    impl Case {
        fn new(name: &str) -> Self {
            let root = std::env::temp_dir().join(format!("moye-ptxas-{name}-{}", std::process::id()));
            fs::create_dir_all(&root).unwrap();
            let checkout = Checkout { target: root.join("target"), root };
            Self { checkout, installed: RefCell::default() }
        }

        fn kept(&self, package: &Package) -> Option<Ptxas> {
            let file = self.checkout.toolchain().join("ptxas").join(package.program);
            file.is_file().then(|| Ptxas::at(file))
        }

        /// [`ensure_each`] for both packages, searched only in their install paths; pip has the
        /// ones that `has` accepts.
        fn ensure(&self, has: impl Fn(&str) -> bool) -> Result<()> {
            let wanted: [(Package, Find); 2] =
                [(NEWEST, &|| self.kept(&NEWEST)), (OLDER, &|| self.kept(&OLDER))];
            ensure_each(&self.checkout, &wanted, &|folder, name| {
                self.installed.borrow_mut().push(name.to_owned());
                if !has(name) {
                    bail!("no network");
                }
                for (package, _) in wanted.iter().filter(|(package, _)| package.name == name) {
                    let program = folder.join(package.program);
                    fs::create_dir_all(program.parent().unwrap()).unwrap();
                    fs::write(program, name).unwrap();
                    fs::write(folder.join("unwanted"), "").unwrap();
                }
                Ok(())
            })
        }

        fn in_toolchain(&self) -> Vec<String> {
            let Ok(folder) = fs::read_dir(self.checkout.toolchain()) else { return Vec::new() };
            folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
        }
    }

    impl Drop for Case {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.checkout.root);
        }
    }

    #[test]
    fn each_is_fetched_once_and_only_the_program_is_kept() {
        let case = Case::new("fetched");
        case.ensure(|_| true).unwrap();
        for package in [NEWEST, OLDER] {
            let kept = case.kept(&package).unwrap();
            assert_eq!(fs::read_to_string(kept.path()).unwrap(), package.name);
        }
        assert_eq!(case.in_toolchain(), ["ptxas"]);
        // An installed assembler is used, whether or not it could be fetched.
        case.ensure(|_| false).unwrap();
        assert_eq!(case.installed.take(), [NEWEST.name, OLDER.name]);
    }

    #[test]
    fn a_ptxas_that_cannot_be_fetched_is_an_error_with_the_ways_out_and_the_other_is_kept() {
        let case = Case::new("missing");
        let error = case.ensure(|name| name == OLDER.name).unwrap_err().to_string();
        for said in [&format!("{}: no network", NEWEST.name), "MOYE_PTXAS", "pip", "copy .toolchain/ptxas"] {
            assert!(error.contains(said), "{said}: {error}");
        }
        assert!(!error.contains(OLDER.name), "{error}");
        assert!(case.kept(&NEWEST).is_none() && case.kept(&OLDER).is_some());
        assert_eq!(case.in_toolchain(), ["ptxas"]);
    }

    #[test]
    fn a_package_that_brings_no_program_is_an_error() {
        let case = Case::new("empty");
        let wanted: [(Package, Find); 1] = [(NEWEST, &|| None)];
        let error = ensure_each(&case.checkout, &wanted, &|_, _| Ok(())).unwrap_err().to_string();
        assert!(error.contains("cannot move ptxas to"), "{error}");
        let brings = |folder: &Path, _: &str| {
            let program = folder.join(NEWEST.program);
            fs::create_dir_all(program.parent().unwrap()).unwrap();
            Ok(fs::write(program, "")?)
        };
        let error = ensure_each(&case.checkout, &wanted, &brings).unwrap_err().to_string();
        assert!(error.contains("it was fetched but is not found"), "{error}");
    }
}
