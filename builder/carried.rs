//! PTX inside a package, with a record of its sources.

use crate::files::{create_dir, io_error, write_if_changed};
use crate::report::Ptxas;
use crate::{BuildError, PtxSet, core_source, packaged};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// The variable that, set to 1, compiles a package's kernels from its sources.
pub const VARIABLE: &str = "MOYE_BUILD_PTX";

/// The folder of a package that contains its PTX.
pub const FOLDER: &str = "ptx";

/// The record of what the PTX was compiled from: a word and its value in each line.
const RECORD: &str = "built.txt";

/// Folders of a crate that contain no kernels.
const WITHOUT_KERNELS: [&str; 5] = ["benches", "examples", "ptx", "target", "tests"];

/// Whether [`VARIABLE`] requests that kernels are compiled.
pub fn is_refused() -> bool {
    env::var_os(VARIABLE).is_some_and(|value| value == "1")
}

/// Copies the PTX inside the package in `krate` to `out_dir`. Returns `false` for the folder of a
/// checkout, which has no PTX.
///
/// # Errors
/// A package has no PTX, or PTX of other sources.
pub fn take(krate: &Path, out_dir: &Path) -> Result<bool, BuildError> {
    let folder = krate.join(FOLDER);
    let record = folder.join(RECORD);
    if !record.is_file() && !krate.join(packaged::ORIGINAL).is_file() {
        return Ok(false);
    }
    println!("cargo::rerun-if-changed={}", krate.display());
    let fail = |reason: String| BuildError::Carried { krate: krate.to_owned(), reason };
    let text = fs::read_to_string(&record).map_err(|_| fail("it has no PTX".into()))?;
    let of = |word: &str| text.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    let (was, is) = (of("sources").unwrap_or("none"), hash(krate)?);
    if was != is {
        return Err(fail(format!("its PTX was compiled from other sources, of hash {was}; these have {is}")));
    }
    for file in files(&folder)?.iter().filter(|file| **file != record) {
        let bytes = fs::read(file).map_err(io_error(file))?;
        write_if_changed(&out_dir.join(file.file_name().expect("it is a file in a folder")), bytes)?;
    }
    Ok(true)
}

/// Writes the PTX of a set into its package's folder, and replaces earlier PTX.
pub fn write(set: &PtxSet, package: &Path, ptxas: Option<&Ptxas>) -> Result<(), BuildError> {
    let folder = package.join(FOLDER);
    create_dir(&folder)?;
    set.pack(&folder, ptxas)?;
    for file in set.files.iter().map(|file| &file.path).chain([&set.include]) {
        fs::remove_file(file).map_err(io_error(file))?;
    }
    let archs: Vec<_> = set.files.iter().map(|file| file.arch.to_string()).collect();
    let record = format!(
        "library {}\narchitectures {}\nsources {}\ncompiler rustc {}\nassembler {}\n",
        set.name,
        archs.join(" "),
        hash(package)?,
        core_source::compiler_version()?,
        ptxas.map_or_else(|| "none".to_owned(), Ptxas::version),
    );
    write_if_changed(&folder.join(RECORD), record)
}

/// The files of a folder, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let entries = fs::read_dir(folder).map_err(io_error(folder))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()).map_err(io_error(folder)));
    let mut paths = paths.collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// A hash of a crate's sources that does not depend on the compiler: 128-bit FNV-1a over the paths
/// and contents of its Rust files.
fn hash(krate: &Path) -> Result<String, BuildError> {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    let mut folders = vec![krate.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in files(&folder)? {
            let own = path.strip_prefix(krate).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            if path.is_dir() {
                if !own.starts_with('.') && !WITHOUT_KERNELS.contains(&&*own) {
                    folders.push(path);
                }
            } else if own.ends_with(".rs") && own != "build.rs" {
                let text = fs::read(&path).map_err(io_error(&path))?;
                for byte in own.bytes().chain([0]).chain(text).chain([0]) {
                    hash = (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b);
                }
            }
        }
    }
    Ok(format!("{hash:032x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PtxFile;

    const TEXT: &str = ".version 8.0\n.target sm_80\n.visible .entry a() { ret; }\n";

    #[test]
    fn a_package_gives_the_ptx_of_its_sources_and_no_other() {
        let root = env::temp_dir().join(format!("moye-carried-{}", std::process::id()));
        let (krate, out) = (root.join("rows"), root.join("out"));
        let write = |file: &Path, text: &str| {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write(&krate.join("softmax/kernel.rs"), "// a kernel\n");
        write(&krate.join("tests/own.rs"), "// a test\n");
        fs::create_dir_all(&out).unwrap();
        let in_checkout = take(&krate, &out);
        write(&krate.join(packaged::ORIGINAL), "");
        let without = take(&krate, &out).map_err(|error| error.to_string());

        let (ptx, include) = (krate.join("ptx/rows.sm_80.ptx"), krate.join("ptx/rows.rs"));
        write(&ptx, TEXT);
        write(&include, "");
        let arch = "sm_80".parse().unwrap();
        let file = PtxFile { arch, path: ptx, text: TEXT.to_owned() };
        let set = PtxSet {
            name: "rows".into(),
            files: vec![file],
            include,
            warnings: Vec::new(),
            findings: Vec::new(),
            guard: None,
            unchecked: Vec::new(),
        };
        super::write(&set, &krate, None).unwrap();
        // A package has no tests.
        fs::remove_dir_all(krate.join("tests")).unwrap();
        let taken = take(&krate, &out);
        let copied: Vec<_> = files(&out).unwrap();
        let record = fs::read_to_string(krate.join("ptx").join(RECORD)).unwrap();
        write(&krate.join("softmax/kernel.rs"), "// another kernel\n");
        let changed = take(&krate, &out).map_err(|error| error.to_string());
        fs::remove_dir_all(&root).unwrap();

        assert!(!in_checkout.unwrap(), "a checkout compiles its kernels");
        assert!(without.is_err_and(|text| text.contains("has no PTX") && text.contains(VARIABLE)));
        assert!(taken.unwrap());
        assert_eq!(copied, ["rows.packed.rs", "rows.sm_80.z"].map(|name| out.join(name)));
        assert!(record.starts_with("library rows\narchitectures sm_80\nsources "), "{record}");
        assert!(record.contains("\ncompiler rustc 1."), "{record}");
        assert!(changed.is_err_and(|text| text.contains("other sources")));
    }
}
