//! The script `run` of a bundle: the programs that it runs, and its reports of failures. The
//! programs are stand-ins.
#![cfg(unix)]

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A bundle of two tests, an example and a benchmark; the test `second` exits with this code.
fn bundle(name: &str, second: u8) -> (PathBuf, MutexGuard<'static, ()>) {
    // One test at a time: a process that one test starts while another writes a program would keep
    // that program open for writing, and such a file cannot be executed.
    static ALONE: Mutex<()> = Mutex::new(());
    let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    let script = |file: PathBuf, text: &str| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    script(folder.join("run"), include_str!("../bundle_run.sh"));
    let mut list = String::new();
    for (kind, name, package, code) in [
        ("test", "first", ".", 0),
        ("test", "second", "device", second),
        ("example", "copy", ".", 0),
        ("bench", "ladder", ".", 0),
    ] {
        let text = format!(
            "#!/bin/sh\necho \"{name} in $PWD with $*; program $($MOYE_BUNDLE/bin/moye), tool $TOOL\"\nexit {code}\n"
        );
        // In two pieces, the first of which all programs share.
        let (first, rest) = text.split_at(10);
        packed(&folder.join("pieces"), "start", first);
        packed(&folder.join("pieces"), name, rest);
        fs::create_dir_all(folder.join("files/device")).unwrap();
        list += &format!("{kind} {name} {package} start.gz {name}.gz\n");
    }
    packed(&folder.join("pieces"), "moye", "#!/bin/sh\necho moye in $(dirname $0)\n");
    list += "bin moye . moye.gz\n";
    fs::write(folder.join("list"), list).unwrap();
    script(folder.join("tool"), "#!/bin/sh\nexport TOOL=$1\nshift\nexec \"$@\"\n");
    (folder, alone)
}

/// A piece of a program in the bundle's format.
fn packed(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).unwrap();
    let mut packed =
        GzEncoder::new(fs::File::create(folder.join(format!("{name}.gz"))).unwrap(), Compression::fast());
    packed.write_all(text.as_bytes()).unwrap();
    packed.finish().unwrap();
}

/// The script run from elsewhere, because the folder may be anywhere.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, .. } =
        Command::new(folder.join("run")).args(arguments).current_dir("/").output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap())
}

#[test]
fn tests_and_examples_run_in_the_folders_of_their_packages() {
    let (folder, _alone) = bundle("bundle-green", 0);
    let here = folder.display();
    let (code, said) = run(&folder, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains(&format!("first in {here}/files with ; program moye in /")), "{said}");
    let unpacked = said.split("program moye in ").nth(1).unwrap().split("/bin,").next().unwrap();
    assert!(!Path::new(unpacked).exists(), "{unpacked} goes with the script");
    assert!(said.contains(&format!("second in {here}/files/device with ;")), "{said}");
    assert!(said.contains("copy in ") && !said.contains("ladder in "), "benchmarks only on request: {said}");
    assert!(said.ends_with("== summary: 3 of 3 ok\n"), "{said}");
}

#[test]
fn what_failed_is_named_at_the_end_and_in_the_exit_code() {
    let (folder, _alone) = bundle("bundle-red", 101);
    let (code, said) = run(&folder, &[]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.ends_with("== summary: 2 of 3 ok\nFAILED  test second (exit code 101)\n"), "{said}");
}

#[test]
fn options_choose_programs_tools_and_arguments() {
    let (folder, _alone) = bundle("bundle-options", 0);
    let (_, said) = run(&folder, &["--list"]);
    assert_eq!(said, "test first\ntest second\nexample copy\n");
    let (_, said) = run(&folder, &["--bench", "--list"]);
    assert!(said.ends_with("bench ladder\n"), "{said}");
    let tool = format!("{} memcheck", folder.join("tool").display());
    let (code, said) = run(&folder, &["--wrap", &tool, "fir", "cop", "--", "a_test", "--nocapture"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("with a_test --nocapture; program ") && said.contains(", tool memcheck\n"),
        "{said}"
    );
    assert!(said.contains("files with ; program "), "the arguments are for tests, not for examples: {said}");
    assert!(said.ends_with("== summary: 2 of 2 ok\n"), "{said}");
    assert_eq!(run(&folder, &["nonesuch"]).0, Some(2), "a name that no program has is a mistake");
}
