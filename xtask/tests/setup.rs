//! `cargo xtask setup` on a machine without the source of `core`: where it fetches the source,
//! which sources it refuses, and that it does nothing twice. Also: the tools that `cargo xtask
//! test` does not fetch. Nothing is fetched from a network: the server is a folder, and apt's
//! programs are stand-ins.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A version that no folder above the test has.
const VERSION: &str = "1.94.77";

/// A machine: its programs, their recorded arguments, a server, and a checkout.
struct Machine {
    root: PathBuf,
    /// One test at a time: a process that one test starts while another writes a program would keep
    /// the program open for writing, and such a file cannot be executed.
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    /// A machine with a compiler and the programs that unpack an archive.
    fn new(name: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&root);
        for folder in ["bin", "checkout/xtask", "server/dist", "tree"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let machine = Self { root, _alone: alone };
        machine.stand_in(
            "rustc",
            &format!("case \"$*\" in *sysroot*) echo /nowhere ;; *) echo 'release: {VERSION}' ;; esac"),
        );
        for tool in ["tar", "gzip", "sha256sum", "cp"] {
            machine.own(tool);
        }
        machine
    }

    /// A program that records its arguments, then runs this script.
    fn stand_in(&self, name: &str, script: &str) {
        let file = self.root.join("bin").join(name);
        let log = self.root.join("log");
        fs::write(&file, format!("#!/bin/sh\necho \"{name} $*\" >> {log:?}\n{script}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A program of the machine that runs the test.
    fn own(&self, name: &str) {
        let path = std::env::var_os("PATH").unwrap();
        let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file());
        let found = found.unwrap_or_else(|| panic!("`{name}` is not in PATH; set-up needs it too"));
        symlink(found, self.root.join("bin").join(name)).unwrap();
    }

    /// A tree with the source in this folder.
    fn source(&self, folder: &str) -> PathBuf {
        let library = self.root.join("tree").join(folder).join("library");
        fs::create_dir_all(library.join("core/src")).unwrap();
        fs::write(library.join("core/src/lib.rs"), format!("// from {folder}\n")).unwrap();
        fs::write(library.join("Cargo.lock"), "").unwrap();
        self.root.join("tree")
    }

    /// Puts Rust's archive and its checksum on the server; the checksum may be wrong.
    fn serve(&self, right: bool) {
        let tree = self.source(&format!("rust-src-{VERSION}/rust-src/lib/rustlib/src/rust"));
        let archive = self.root.join(format!("server/dist/rust-src-{VERSION}.tar.gz"));
        run(Command::new("tar")
            .arg("-czf")
            .arg(&archive)
            .arg("-C")
            .arg(&tree)
            .arg(format!("rust-src-{VERSION}")));
        let of = if right { archive.clone() } else { self.root.join("log") };
        let sum = run(Command::new("sha256sum").arg(of));
        fs::write(archive.with_extension("gz.sha256"), sum).unwrap();
    }

    /// apt with the package in one of its suites; `apt-get update` may fail.
    fn apt(&self, works: bool) {
        let tree = self.source(&format!("usr/src/rustc-{VERSION}"));
        let get = match works {
            true => "case \"$*\" in *download*) : > rust-src.deb ;; esac",
            false => "case \"$*\" in *update*) echo no network >&2; exit 100 ;; esac",
        };
        self.stand_in("apt-get", get);
        self.stand_in(
            "apt-cache",
            &format!("echo ' rust-src | {VERSION}+dfsg1-1~bpo13+1 | http://deb.debian.org/debian'"),
        );
        self.stand_in("dpkg-deb", &format!("cp -r {tree:?} \"$3\""));
    }

    fn setup(&self) -> Output {
        self.xtask(&["setup"]).output().unwrap()
    }

    fn xtask(&self, arguments: &[&str]) -> Command {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask
            .args(arguments)
            .current_dir(self.root.join("checkout"))
            .env("CARGO_MANIFEST_DIR", self.root.join("checkout/xtask"))
            .env("PATH", self.root.join("bin"))
            .env("RUSTC", self.root.join("bin/rustc"))
            .env("RUSTUP_DIST_SERVER", format!("file://{}", self.root.join("server").display()))
            .env_remove("MOYE_RUST_SRC")
            .env_remove("MOYE_PTXAS");
        xtask
    }

    /// The recorded calls of the machine's programs.
    fn log(&self) -> String {
        fs::read_to_string(self.root.join("log")).unwrap_or_default()
    }

    /// The files that set-up left in the checkout.
    fn kept(&self) -> Vec<String> {
        let Ok(folder) = fs::read_dir(self.root.join("checkout/.toolchain")) else { return Vec::new() };
        folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The tree from which the source was set up, if it was.
    fn from(&self) -> String {
        let file = format!("checkout/.toolchain/rust-src-{VERSION}/library/core/src/lib.rs");
        fs::read_to_string(self.root.join(file)).unwrap()
    }
}

fn run(command: &mut Command) -> Vec<u8> {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    output.stdout
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Asserts that only the source was set up, and that the next run starts only the compiler.
fn assert_set_up(machine: &Machine, from: &str) {
    let output = machine.setup();
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(machine.from(), format!("// from {from}\n"));
    assert_eq!(machine.kept(), [format!("rust-src-{VERSION}")]);

    let before = machine.log().len();
    let second = machine.setup();
    assert!(second.status.success());
    assert_eq!(said(&second), "", "there was nothing to set up");
    let log = machine.log();
    assert!(log[before..].lines().all(|line| line.starts_with("rustc ")), "{}", &log[before..]);
}

#[test]
fn without_apt_it_comes_from_rusts_own_archive() {
    let machine = Machine::new("without-apt");
    machine.own("curl");
    machine.serve(true);
    assert_set_up(&machine, &format!("rust-src-{VERSION}/rust-src/lib/rustlib/src/rust"));
}

#[test]
fn where_apt_has_the_package_nothing_else_is_asked() {
    let machine = Machine::new("with-apt");
    machine.stand_in("curl", "exit 1");
    machine.apt(true);
    assert_set_up(&machine, &format!("usr/src/rustc-{VERSION}"));
    let log = machine.log();
    assert!(!log.contains("curl"), "{log}");
    let state = format!("-o Dir::State={}", machine.root.join("checkout/.toolchain/setup-").display());
    for call in log.lines().filter(|line| line.starts_with("apt") && !line.ends_with("--version")) {
        assert!(call.contains(&state), "the system's package lists stay as they are: {call}");
    }
}

#[test]
fn where_apt_fails_the_archive_is_next() {
    let machine = Machine::new("apt-fails");
    machine.own("curl");
    machine.apt(false);
    machine.serve(true);
    assert_set_up(&machine, &format!("rust-src-{VERSION}/rust-src/lib/rustlib/src/rust"));
    assert!(machine.log().contains("update"), "apt was asked first: {}", machine.log());
}

#[test]
fn an_archive_with_a_wrong_sum_is_refused_and_nothing_is_kept() {
    let machine = Machine::new("wrong-sum");
    machine.own("curl");
    fs::write(machine.root.join("log"), "not the archive\n").unwrap();
    machine.serve(false);
    let output = machine.setup();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let sums = said.lines().find(|line| line.contains("SHA-256")).unwrap_or_else(|| panic!("{said}"));
    let is_sum = |word: &str| word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let words = sums.split(|c: char| !c.is_ascii_alphanumeric());
    assert_eq!(words.filter(|word| is_sum(word)).count(), 2, "both sums are named: {sums}");
    assert_eq!(machine.kept(), [] as [String; 0]);
}

#[test]
fn where_no_place_has_it_each_is_named_with_its_reason_and_the_ways_out() {
    let machine = Machine::new("no-place");
    machine.own("curl");
    let output = machine.setup();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let at = |part: &str| said.find(part).unwrap_or_else(|| panic!("`{part}` is in: {said}"));
    let debian = at("Debian's package, by apt-get: cannot run apt-get");
    let own = at("Rust's own archive, by curl: ");
    assert!(debian < own, "in the order that they were tried: {said}");
    for way in ["rustup component add rust-src", "MOYE_RUST_SRC", "RUSTUP_DIST_SERVER", "copy .toolchain/"] {
        at(way);
    }
    assert_eq!(machine.kept(), [] as [String; 0]);
}

/// The tests' `ptxas`: with one in the path that supports every architecture, nothing is fetched.
#[test]
fn a_ptxas_that_is_there_is_taken_and_none_is_fetched() {
    let machine = Machine::new("with-ptxas");
    machine.stand_in("ptxas", "while read -r line; do :; done");
    machine.stand_in("python3", "exit 1");
    machine.stand_in("cargo", "exit 0");
    let mut test = machine.xtask(&["test", "format"]);
    test.env("MOYE_RUST_SRC", machine.source("there").join("there/library"));
    run(test.env("CARGO", machine.root.join("bin/cargo")));
    let log = machine.log();
    assert!(log.contains("ptxas -v --gpu-name sm_50"), "the one that was found is asked: {log}");
    assert!(!log.contains("python3"), "{log}");
    assert_eq!(machine.kept(), [] as [String; 0]);
}

/// The demonstration first prints what it builds, and that this takes long. PTX is compiled if
/// there is a GPU to run it.
#[test]
fn the_demonstration_says_what_it_builds_after_the_source_of_core_is_there() {
    let machine = Machine::new("demo");
    machine.stand_in("cargo", "echo DOCS_RS=$DOCS_RS MOYE_DEVICE=$MOYE_DEVICE >&2");
    let mut demo = machine.xtask(&["demo"]);
    let output =
        demo.env_remove("MOYE_DEVICE").env("CARGO", machine.root.join("bin/cargo")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "without the source of `core`: {said}");
    assert!(said.contains("building the demonstration for the simulator: about a minute"), "{said}");
    assert_eq!(said.matches("DOCS_RS=1 MOYE_DEVICE=sim").count(), 2, "built and run: {said}");

    machine.stand_in("nvidia-smi", "echo 'GPU 0: a GPU'");
    let mut demo = machine.xtask(&["demo"]);
    demo.env("MOYE_RUST_SRC", machine.source("there").join("there/library")).env_remove("MOYE_DEVICE");
    let output = demo.env("CARGO", machine.root.join("bin/cargo")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("building the demonstration: about two minutes on two cores the first time"),
        "{said}"
    );
    assert!(said.contains("compiles the kernels of f32 products to PTX"), "{said}");
    assert_eq!(said.matches("DOCS_RS= MOYE_DEVICE=\n").count(), 2, "{said}");

    // Without the source nothing is built.
    drop(machine);
    let machine = Machine::new("demo-without");
    machine.stand_in("cargo", "exit 0");
    machine.stand_in("curl", "exit 1");
    let mut demo = machine.xtask(&["demo"]);
    let output =
        demo.env("MOYE_DEVICE", "gpu").env("CARGO", machine.root.join("bin/cargo")).output().unwrap();
    assert!(!output.status.success());
    assert!(!machine.log().contains("cargo build"), "{}", machine.log());
}
