//! The contents of the published packages.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The published packages, with a file that each must have.
const PACKAGES: [(&str, &str); 17] = [
    ("moye", "src/lib.rs"),
    ("moye-attention", "kernels/forward.rs"),
    ("moye-bench", "lib.rs"),
    ("moye-build", "lib.rs"),
    ("moye-cli", "main.rs"),
    ("moye-device", "guide/layouts.md"),
    ("moye-draw", "lib.rs"),
    ("moye-eval", "lib.rs"),
    ("moye-macros", "lib.rs"),
    ("moye-matmul", "kernels/hopper/mod.rs"),
    ("moye-movement", "kernels/copy.rs"),
    ("moye-parallel", "kernel.rs"),
    ("moye-products", "weights/kernel.rs"),
    ("moye-python-support", "_arrays.py"),
    ("moye-rows", "softmax/kernel.rs"),
    ("moye-runtime", "operation/mod.rs"),
    ("moye-sim", "lib.rs"),
];

/// The families of operations that `moye` re-exports by name.
const FAMILIES: [&str; 3] = ["moye-attention", "moye-matmul", "moye-movement"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The files of a package.
fn files(package: &str) -> Vec<String> {
    let list = cargo(&["package", "--list", "--allow-dirty", "--offline", "--package", package]);
    list.lines().map(|line| line.replace('\\', "/")).collect()
}

#[test]
fn packages_hold_their_sources_and_neither_tests_nor_examples() {
    for (package, needed) in PACKAGES {
        let files = files(package);
        assert!(files.iter().any(|file| file == needed), "{package} lacks {needed}: {files:?}");
        let wrong = files.iter().find(|file| {
            let top = file.split('/').next().unwrap();
            ["tests", "examples", "benches", "docs", "target", ".ci", "xtask", "python", "tools"]
                .contains(&top)
                || file.ends_with("Cargo.toml") && file.contains('/')
        });
        assert_eq!(wrong, None, "{package}: {files:?}");
    }
}

#[test]
fn what_sources_include_is_in_their_package() {
    for (package, folder) in [
        ("moye", ""),
        ("moye-build", "builder"),
        ("moye-cli", "tools/cli"),
        ("moye-device", "device"),
        ("moye-matmul", "ops/matmul"),
        ("moye-runtime", "host"),
    ] {
        let files = files(package);
        for file in files.iter().filter(|file| file.ends_with(".rs")) {
            let text = std::fs::read_to_string(root().join(folder).join(file)).unwrap();
            for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                // Files that only doctests include are outside the package.
                let Some((_, rest)) = line.split_once("include_str!(\"") else { continue };
                let Some((path, _)) = rest.split_once('"') else { continue };
                if path.contains('{') || path.starts_with("../README") || path.starts_with("../docs/") {
                    continue;
                }
                let included = Path::new(file).parent().unwrap().join(path);
                let included = included.to_string_lossy().into_owned();
                assert!(files.contains(&included), "{package}: {file} includes {included}");
            }
        }
    }
}

#[test]
fn published_packages_have_what_a_registry_shows() {
    let metadata = cargo(&["metadata", "--no-deps", "--offline", "--format-version=1"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let is_published = PACKAGES.iter().any(|(published, _)| *published == name);
        // An empty list means `publish = false`.
        let may_be = package["publish"].as_array().is_none_or(|registries| !registries.is_empty());
        assert_eq!(may_be, is_published, "{name}: `publish = false` where it is not for a registry");
        if is_published {
            for field in ["description", "license", "rust_version"] {
                assert!(package[field].is_string(), "{name} has no {field}");
            }
            assert!(package["metadata"]["docs"]["rs"].is_object(), "{name} has no settings for docs.rs");
            for field in ["keywords", "categories"] {
                assert!(!package[field].as_array().unwrap().is_empty(), "{name} has no {field}");
            }
            let readme = package["readme"].as_str().unwrap_or_else(|| panic!("{name} has no README"));
            assert!(files(name).iter().any(|file| file == readme), "{name} does not hold {readme}");
            let manifest = Path::new(package["manifest_path"].as_str().unwrap());
            let text = std::fs::read_to_string(manifest.parent().unwrap().join(readme)).unwrap();
            assert_eq!(relative_targets(&text), Vec::<&str>::new(), "{name}: {readme}");
        }
    }
}

/// Targets of links and pictures that crates.io drops: without a `repository` it resolves no
/// relative ones.
fn relative_targets(text: &str) -> Vec<&str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.starts_with("https://")).collect()
}

#[test]
fn a_link_into_the_checkout_is_found() {
    let text = "![a](docs/a.svg) [b](https://docs.rs/moye) [c](../c.md)";
    assert_eq!(relative_targets(text), ["docs/a.svg", "../c.md"]);
}

/// The build script of `cust` needs a CUDA toolkit.
#[test]
fn a_crate_with_the_dependencies_that_the_pages_show_builds_without_cuda() {
    let folder = std::env::temp_dir().join(format!("moye-dependencies-{}", std::process::id()));
    for page in ["README.md", "src/README.md", "src/lib.rs"] {
        let text = std::fs::read_to_string(root().join(page)).unwrap().replace("//! ", "");
        let (_, block) = text.split_once("```toml\n").unwrap_or_else(|| panic!("{page} has no dependencies"));
        let block = block.split_once("```").unwrap().0;
        assert!(block.starts_with("[dependencies]\nmoye = "), "{page}: {block}");
        // The published packages are those of this checkout.
        let path = root().display().to_string();
        let block =
            block.replace("moye = \"0.1\"", "moye = { path = \"../moye\" }").replace("../moye", &path);
        std::fs::create_dir_all(folder.join("src")).unwrap();
        std::fs::write(folder.join("src/main.rs"), "fn main() {}\n").unwrap();
        let package = "[workspace]\n\n[package]\nname = \"user\"\nedition = \"2024\"\n\n";
        std::fs::write(folder.join("Cargo.toml"), package.to_owned() + &block).unwrap();
        // The versions that are already downloaded.
        std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).unwrap();
        let manifest = folder.join("Cargo.toml").display().to_string();
        let tree = ["tree", "--offline", "--edges", "normal,build", "--prefix", "none"];
        let tree = cargo(&[&tree[..], &["--manifest-path", &manifest]].concat());
        assert!(tree.contains("\nmoye v") && tree.contains("\nmoye-matmul v"), "{page}: {tree}");
        assert!(!tree.contains("\ncust"), "{page}: {tree}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A crate with custom kernels depends on `moye` for devices, buffers and launches.
#[test]
fn the_library_without_operations_depends_on_no_shipped_kernel() {
    let tree = |features: &[&str]| {
        let options =
            ["tree", "--offline", "--package", "moye", "--edges", "normal,build", "--prefix", "none"];
        cargo(&[&options, features].concat())
    };
    let has_kernels = |tree: &str| {
        FAMILIES.iter().any(|family| tree.lines().any(|line| line.starts_with(&format!("{family} "))))
    };
    for features in [&["--no-default-features"][..], &["--no-default-features", "--features", "cust,cudarc"]]
    {
        let tree = tree(features);
        assert!(tree.starts_with("moye ") && tree.contains("\nmoye-runtime "), "{tree}");
        assert!(!has_kernels(&tree), "{features:?}: {tree}");
    }
    assert!(
        has_kernels(&tree(&["--no-default-features", "--features", "movement"])),
        "an operation has kernels"
    );
}

/// `moye new`, `doctor`, `report`, `draw` and `eval` are built without the minutes of compiling
/// PTX.
#[test]
fn the_program_without_operations_depends_on_no_shipped_kernel() {
    let tree = |features: &[&str]| {
        let options =
            ["tree", "--offline", "--package", "moye-cli", "--edges", "normal,build", "--prefix", "none"];
        cargo(&[&options, features].concat())
    };
    let small = tree(&["--no-default-features"]);
    for needed in ["moye v", "moye-build v", "moye-draw v", "moye-eval v"] {
        assert!(small.contains(needed), "{needed}: {small}");
    }
    for heavy in FAMILIES.iter().chain(&["moye-bench"]) {
        let heavy = format!("{heavy} v");
        assert!(!small.contains(&heavy), "{heavy}: {small}");
        assert!(tree(&[]).contains(&heavy), "{heavy} belongs to the operations");
    }
}

/// Crates that always compile kernels search for the source of `core` before their builder is
/// compiled; the others need none.
#[test]
fn what_compiles_kernels_looks_for_the_source_of_core_before_its_builder_is_compiled() {
    let looks = |package: &str, features: &[&str]| {
        let options = [
            "tree",
            "--offline",
            "--package",
            package,
            "--edges",
            "features,normal,build",
            "--invert",
            "moye-build",
        ];
        cargo(&[&options, features].concat()).contains("moye-build feature \"core-source\"")
    };
    for package in ["moye", "moye-cli", "moye-matmul", "moye-products", "moye-rows"] {
        assert!(looks(package, &[]), "{package} has kernels");
    }
    for package in ["moye", "moye-cli"] {
        assert!(!looks(package, &["--no-default-features"]), "{package} has none without its features");
    }
}

/// The first command of the transcript builds `xtask`.
#[test]
fn cargo_xtask_shows_what_it_builds() {
    let config = std::fs::read_to_string(root().join(".cargo/config.toml")).unwrap();
    let alias = config.lines().find_map(|line| line.strip_prefix("xtask = ")).expect("the alias");
    assert!(alias.starts_with("\"run "), "{alias}");
    assert!(!alias.contains("quiet") && !alias.contains(" -q"), "{alias}");
    assert!(!config.contains("quiet ="), "cargo's own option: {config}");
}

/// The step `docs` runs rustdoc on the same packages, with the same variable.
#[test]
fn the_command_of_the_first_screen_for_the_api_reference_names_packages_of_this_checkout() {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let line = readme.lines().find(|line| line.starts_with("The API reference: `")).expect("the command");
    let command = line.split('`').nth(1).unwrap();
    let arguments =
        command.strip_prefix("DOCS_RS=1 cargo doc --no-deps --open ").unwrap_or_else(|| panic!("{command}"));
    let words: Vec<_> = arguments.split(' ').collect();
    for package in words.chunks(2) {
        let [option, name] = package else { panic!("an option without its value: {command}") };
        assert_eq!(*option, "-p", "{command}");
        assert!(PACKAGES.iter().any(|(package, _)| package == name), "{name} is not published: {command}");
        cargo(&["pkgid", "--offline", "--package", name]);
    }
    assert!(words.len() >= 6, "the library, the language and the simulator: {command}");
}
