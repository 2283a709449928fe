//! The program `moye`: its results from files, and its messages about bad ones.

mod attention;
mod bench;
#[path = "../../../../tests/fixtures/common/mod.rs"]
mod common;
mod devices;
mod doctor;
mod elements;
mod headers;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "../../../../ops/attention/host/oracle.rs"]
mod oracle;
mod profile;
#[cfg(unix)]
mod progress;
mod ptx_report;
mod verdict;

use ndarray::{Array, Array2, Axis, Dimension, ShapeBuilder};
use ndarray_npy::{ReadNpyExt, WritableElement, WriteNpyExt};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// The program on the simulator, in a folder.
fn moye(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn command(folder: &Path, arguments: &[&str]) -> Command {
    // In a bundle for machines without cargo, the program is beside the tests.
    let program = std::env::var_os("MOYE_BUNDLE").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_moye")),
        |bundle| Path::new(&bundle).join("bin/moye"),
    );
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).env("MOYE_DEVICE", "sim");
    if arguments.first() == Some(&"profile") {
        // ptxas takes seconds for each profile; one test reads registers.
        command.env("MOYE_PTXAS", "off");
    }
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Asserts that the program succeeded.
fn succeeded(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stdout(output)
}

/// Asserts that the program failed with exit code 1 and one line, and returns the line.
fn failed(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert_eq!(text.lines().count(), 1, "one line, not: {text}");
    text.strip_prefix("moye: ").unwrap_or_else(|| panic!("it says who speaks: {text}")).trim_end().to_owned()
}

fn save<A: WritableElement, D: Dimension>(folder: &Path, name: &str, array: &Array<A, D>) {
    array.write_npy(File::create(folder.join(name)).unwrap()).unwrap();
}

fn load(folder: &Path, name: &str) -> Array2<f32> {
    Array2::read_npy(File::open(folder.join(name)).unwrap()).unwrap()
}

fn load_text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Marks a file as Fortran order; with at most one extent above 1 its bytes are the same.
fn in_fortran_order(folder: &Path, name: &str) {
    let mut bytes = fs::read(folder.join(name)).unwrap();
    let at = bytes.windows(5).position(|five| five == b"False").unwrap();
    bytes[at..at + 5].copy_from_slice(b"True ");
    fs::write(folder.join(name), bytes).unwrap();
}

/// Small integers, so that products are exact.
fn matrix(rows: usize, cols: usize, fortran: bool) -> Array2<f32> {
    Array2::from_shape_fn((rows, cols).set_f(fortran), |(i, j)| ((7 * i + 3 * j) % 11) as f32 - 5.0)
}

/// A folder with `a.npy` (20x30) and `b.npy` (30x10).
fn two_files() -> (TempDir, Array2<f32>) {
    let folder = TempDir::new().unwrap();
    let (a, b) = (matrix(20, 30, false), matrix(30, 10, false));
    save(folder.path(), "a.npy", &a);
    save(folder.path(), "b.npy", &b);
    (folder, a.dot(&b))
}

/// The names of all files in a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn products_of_files_in_every_order_are_those_of_ndarray() {
    for (a_fortran, b_fortran) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = TempDir::new().unwrap();
        let (a, b) = (matrix(33, 17, a_fortran), matrix(17, 41, b_fortran));
        save(folder.path(), "a.npy", &a);
        save(folder.path(), "b.npy", &b);
        let said = succeeded(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "c.npy"]));
        for word in [
            "simulator",
            "sgemm_",
            "33 x 41 x 17",
            "time",
            "TFLOP/s",
            "0.0e0 relative to a float64 reference",
        ] {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
        assert_eq!(
            load(folder.path(), "c.npy"),
            a.dot(&b),
            "a in Fortran order: {a_fortran}, b: {b_fortran}"
        );
        assert_eq!(names(folder.path()), ["a.npy", "b.npy", "c.npy"], "nothing else is left");
    }
}

#[test]
fn empty_matrices_have_products() {
    let folder = TempDir::new().unwrap();
    for (m, n, k) in [(3, 4, 0), (0, 4, 5), (3, 0, 5), (0, 0, 0)] {
        save(folder.path(), "a.npy", &matrix(m, k, false));
        save(folder.path(), "b.npy", &matrix(k, n, false));
        succeeded(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "c.npy", "--force"]));
        assert_eq!(load(folder.path(), "c.npy"), Array2::<f32>::zeros((m, n)), "{m} x {n} x {k}");
    }
}

/// The strides of an extent of 0 or 1 depend on a file's order, but lead to no element.
#[test]
fn the_order_of_a_file_of_one_row_or_column_or_none_does_not_count() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for (m, n, k) in [(1, 4, 1), (3, 1, 1), (1, 1, 5), (3, 4, 0), (0, 1, 1)] {
        let (a, b) = (matrix(m, k, false), matrix(k, n, false));
        for (name, operand) in [("a.npy", &a), ("b.npy", &b)] {
            save(folder, name, operand);
            in_fortran_order(folder, name);
        }
        succeeded(&moye(folder, &["matmul", "a.npy", "b.npy", "-o", "c.npy", "--force"]));
        assert_eq!(load(folder, "c.npy"), a.dot(&b), "{m} x {n} x {k}");
    }
    for (rows, columns) in [(1, 5), (5, 1), (0, 5), (3, 0)] {
        let a = matrix(rows, columns, false);
        save(folder, "a.npy", &a);
        in_fortran_order(folder, "a.npy");
        succeeded(&moye(folder, &["transpose", "a.npy", "-o", "b.npy", "--force"]));
        assert_eq!(load(folder, "b.npy"), a.t(), "{rows} x {columns}");
        succeeded(&moye(folder, &["run", "softmax", "a.npy", "-o", "y.npy", "--force"]));
        let sums = load(folder, "y.npy").sum_axis(Axis(1));
        assert_eq!(sums.len(), rows, "{rows} x {columns}");
        assert!(columns == 0 || sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{sums}");
    }
}

#[test]
fn transposed_and_copied_files_are_those_of_ndarray() {
    for fortran in [false, true] {
        let folder = TempDir::new().unwrap();
        let a = matrix(35, 70, fortran);
        save(folder.path(), "a.npy", &a);
        let said = succeeded(&moye(folder.path(), &["transpose", "a.npy", "-o", "b.npy"]));
        for word in ["simulator", "x [35, 70] float32", "_u32", "time"] {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
        assert_eq!(load(folder.path(), "b.npy"), a.t(), "Fortran order: {fortran}");
        succeeded(&moye(folder.path(), &["copy", "a.npy", "-o", "c.npy"]));
        assert_eq!(load(folder.path(), "c.npy"), a, "Fortran order: {fortran}");
    }
    let folder = TempDir::new().unwrap();
    let batches = Array::from_shape_fn((2, 5, 7), |(b, i, j)| (100 * b + 10 * i + j) as i64);
    save(folder.path(), "a.npy", &batches);
    succeeded(&moye(folder.path(), &["transpose", "a.npy", "-o", "b.npy"]));
    let file = File::open(folder.path().join("b.npy")).unwrap();
    let transposed = Array::<i64, ndarray::Ix3>::read_npy(file).unwrap();
    assert_eq!(transposed, batches.permuted_axes([0, 2, 1]), "batches of int64");
}

#[test]
fn help_says_what_each_operation_computes() {
    let folder = TempDir::new().unwrap();
    let help = |arguments: &[&str]| succeeded(&moye(folder.path(), arguments));
    // Lines of help may break after that.
    let beginning = |summary: &str| summary.chars().take(20).collect::<String>();
    let all = help(&["run", "--help"]);
    let named: [&moye::operation::Declaration; 2] = [&moye::ATTENTION, &moye::MATMUL];
    for operation in moye_rows::OPERATIONS.iter().chain(moye_products::OPERATIONS).chain(&named) {
        assert!(all.contains(&beginning(operation.about().0)), "{}: {all}", operation.name);
        assert!(help(&["run", operation.name, "--help"]).starts_with(&beginning(operation.about().0)));
    }
    for operation in [&moye::ATTENTION, &moye::COPY, &moye::TRANSPOSE] {
        assert!(help(&[operation.name, "--help"]).starts_with(&beginning(operation.about().0)));
        assert!(help(&["--help"]).contains(&beginning(operation.about().0)), "{}", operation.name);
    }
}

#[test]
fn random_matrices_come_from_the_seed() {
    let folder = TempDir::new().unwrap();
    for (seed, name) in [("5", "one.npy"), ("5", "two.npy"), ("6", "three.npy")] {
        let said = succeeded(&moye(folder.path(), &["matmul", "--seed", seed, "-o", name]));
        assert!(said.contains("256 x 256 x 64"), "{said}");
    }
    let load = |name| load(folder.path(), name);
    assert_eq!(load("one.npy"), load("two.npy"), "the same seed makes the same matrices");
    assert_ne!(load("one.npy"), load("three.npy"), "another seed makes others");
}

#[test]
fn files_that_are_no_matrices_are_refused_with_what_to_do() {
    let (folder, _) = two_files();
    let folder = folder.path();
    save(folder, "vector.npy", &Array::<f32, _>::zeros(30));
    save(folder, "stack.npy", &Array::<f32, _>::zeros((2, 30, 30)));
    fs::write(folder.join("text.npy"), "1 2 3\n4 5 6\n").unwrap();
    fs::write(folder.join("empty.npy"), "").unwrap();
    let good = fs::read(folder.join("a.npy")).unwrap();
    fs::write(folder.join("short.npy"), &good[..good.len() - 5]).unwrap();
    fs::write(folder.join("header.npy"), &good[..20]).unwrap();
    fs::write(folder.join("long.npy"), [&good[..], b"..."].concat()).unwrap();
    let patched = |from: &str, to: &str| {
        let header = String::from_utf8_lossy(&good[10..128]).replace(from, to);
        let header = format!("{:<117}\n", header.trim_end());
        [&good[..10], header.as_bytes(), &good[128..]].concat()
    };
    fs::write(folder.join("big_endian.npy"), patched("<f4", ">f4")).unwrap();
    fs::write(folder.join("huge.npy"), patched("(20, 30)", "(4611686018427387904, 30)")).unwrap();
    fs::write(folder.join("larger.npy"), patched("(20, 30)", "(20000000000, 30)")).unwrap();
    for (name, shape) in [
        ("none_of_many.npy", "(0, 9223372036854775808)"),
        ("none_of_bytes.npy", "(2305843009213693952, 0)"),
        ("overflow.npy", "(9223372036854775808, 2)"),
        ("negative.npy", "(-20, 30)"),
        ("absurd.npy", "(123456789012345678901234567890, 0)"),
    ] {
        fs::write(folder.join(name), patched("(20, 30)", shape)).unwrap();
    }
    for (file, expected) in [
        ("none_of_many.npy", "shape [0, 9223372036854775808] is larger than any memory; save it again"),
        ("none_of_bytes.npy", "shape [2305843009213693952, 0] is larger than any memory; save it again"),
        ("overflow.npy", "shape [9223372036854775808, 2] is larger than any memory; save it again"),
        (
            "negative.npy",
            "negative.npy has a header with the shape (-20, 30), which no array has; write the array again",
        ),
        (
            "absurd.npy",
            "with the shape (123456789012345678901234567890, 0), which no array has; write the array again",
        ),
        ("big_endian.npy", "float32 of the other byte order; convert it with a.astype('float32')"),
        ("text.npy", "text.npy is not a .npy file; write one with numpy.save"),
        ("empty.npy", "is not a .npy file"),
        ("header.npy", "header.npy ends within its header, so it is incomplete; write the array again"),
        ("short.npy", "5 bytes shorter than its header says"),
        ("long.npy", "3 bytes longer than its header says"),
        ("huge.npy", "larger than any memory"),
        ("larger.npy", "bytes shorter than its header says"),
        ("missing.npy", "cannot read missing.npy: No such file"),
        (".", "cannot read .: it is a folder"),
    ] {
        let said = failed(&moye(folder, &["matmul", file, "b.npy", "-o", "c.npy"]));
        assert!(said.contains(expected), "{file}: {said}");
        let said = failed(&moye(folder, &["transpose", file, "-o", "c.npy"]));
        assert!(said.contains(expected), "{file}: {said}");
        assert!(!names(folder).iter().any(|name| name.starts_with('c') || name.contains("part")), "{file}");
    }
    for (file, expected) in [
        ("vector.npy", "1-dimensional array, not a matrix; give it two dimensions"),
        ("stack.npy", "3-dimensional array, not a matrix"),
    ] {
        let said = failed(&moye(folder, &["matmul", file, "b.npy", "-o", "c.npy"]));
        assert!(said.contains(expected), "{file}: {said}");
    }
    let said = failed(&moye(folder, &["transpose", "vector.npy", "-o", "c.npy"]));
    assert_eq!(said, "transpose: x has shape [30], and must have two or three modes; reshape it");
    assert!(!names(folder).iter().any(|name| name.starts_with('c')), "nothing is written");
}

#[test]
#[cfg(unix)]
fn what_is_no_matrix_is_refused_before_all_of_it_is_read() {
    let folder = TempDir::new().unwrap();
    // This file has no end.
    let said = failed(&moye(folder.path(), &["transpose", "/dev/zero", "-o", "c.npy"]));
    assert_eq!(said, "/dev/zero is not a .npy file; write one with numpy.save");
}

#[test]
fn types_that_a_command_has_no_kernel_for_are_refused_with_what_to_do() {
    let (folder, _) = two_files();
    let folder = folder.path();
    save(folder, "bool.npy", &Array2::from_elem((30, 30), true));
    save(folder, "integer.npy", &Array2::<i32>::zeros((30, 30)));
    save(folder, "long.npy", &Array2::<i64>::zeros((30, 30)));
    let said = failed(&moye(folder, &["transpose", "bool.npy", "-o", "c.npy"]));
    assert!(said.starts_with("bool.npy holds bool, and x takes float32, "), "{said}");
    assert!(said.ends_with("; convert it with a.astype('float32')"), "{said}");
    for (file, held) in [("integer.npy", "int32"), ("long.npy", "int64")] {
        let said = failed(&moye(folder, &["matmul", file, file, "-o", "c.npy"]));
        let all = "products take float16, bfloat16, float32, float64, int8, float8_e4m3fn or float8_e5m2";
        assert_eq!(said, format!("{file} holds {held}, and {all}; convert it with a.astype('float32')"));
    }
    assert!(!names(folder).iter().any(|name| name.starts_with('c') || name.contains("part")));
}

#[test]
fn shapes_that_do_not_fit_are_refused_with_the_values() {
    let (folder, _) = two_files();
    let said = failed(&moye(folder.path(), &["matmul", "b.npy", "a.npy", "-o", "c.npy"]));
    assert!(said.contains("b.npy is 30x10 and a.npy is 20x30"), "{said}");
    assert_eq!(names(folder.path()), ["a.npy", "b.npy"]);
}

#[test]
fn an_output_that_exists_is_replaced_only_by_force() {
    let (folder, product) = two_files();
    fs::write(folder.path().join("c.npy"), "precious").unwrap();
    let said = failed(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "c.npy"]));
    assert_eq!(said, "c.npy exists already; --force replaces it");
    assert_eq!(fs::read(folder.path().join("c.npy")).unwrap(), b"precious");
    succeeded(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "c.npy", "--force"]));
    assert_eq!(load(folder.path(), "c.npy"), product);
    // An input may be the output.
    succeeded(&moye(folder.path(), &["transpose", "c.npy", "-o", "c.npy", "--force"]));
    assert_eq!(load(folder.path(), "c.npy"), product.t());
    assert_eq!(names(folder.path()), ["a.npy", "b.npy", "c.npy"]);
}

#[test]
fn an_output_that_cannot_be_written_is_an_error_before_the_work() {
    let (folder, _) = two_files();
    let said = failed(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "none/c.npy"]));
    assert_eq!(said, "cannot write none/c.npy: there is no folder none");
    let said = failed(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "."]));
    assert_eq!(said, "cannot write .: it is a folder");
    if cfg!(target_os = "linux") {
        let said = failed(&moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "/proc/self/x.npy"]));
        assert_eq!(said, "cannot write /proc/self/x.npy: a file cannot be created in /proc/self");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_one_line() {
    let (folder, _) = two_files();
    let output = moye(folder.path(), &["transpose", "a.npy", "-o", "/dev/full"]);
    assert_eq!(output.status.code(), Some(1));
    // The report goes there too, because the result might go to standard output.
    let said = String::from_utf8(output.stderr).unwrap();
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("moye: cannot write /dev/full: No space left on device"), "{said}");
    assert!(fs::metadata("/dev/full").is_ok_and(|full| !full.is_file()), "the device is still one");
}

#[cfg(target_os = "linux")]
#[test]
fn a_report_that_cannot_be_written_is_one_line_and_a_closed_pipe_is_none() {
    let (folder, product) = two_files();
    let run = |output: &str, stdout: Stdio| {
        let mut command = command(folder.path(), &["matmul", "a.npy", "b.npy", "-o", output]);
        command.stdout(stdout).stderr(Stdio::piped()).output().unwrap()
    };
    let full = File::options().write(true).open("/dev/full").unwrap();
    let said = failed(&run("c.npy", full.into()));
    assert_eq!(said, "cannot write to standard output: No space left on device (os error 28)");
    assert_eq!(load(folder.path(), "c.npy"), product, "the work is still done");
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = run("d.npy", writer.into());
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    assert_eq!(load(folder.path(), "d.npy"), product);
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_that_cannot_be_printed_is_one_line_and_a_closed_pipe_is_none() {
    let folder = TempDir::new().unwrap();
    for arguments in [
        &["atoms"][..],
        &["atoms", "--json"],
        &["draw", "(4,8):(8,1)"],
        &["draw", "(4,8):(8,1)", "--format", "svg"],
        &["eval", "size((4,8))"],
    ] {
        let run = |stdout: Stdio| {
            command(folder.path(), arguments).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
        };
        let full = File::options().write(true).open("/dev/full").unwrap();
        let said = failed(&run(full.into()));
        let expected = "cannot write to standard output: No space left on device (os error 28)";
        assert_eq!(said, expected, "{arguments:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = run(writer.into());
        assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    }
    // If the failure cannot be printed either, the exit status reports it.
    let full = || File::options().write(true).open("/dev/full").unwrap();
    let status = command(folder.path(), &["atoms"]).stdout(full()).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_write_that_fails_half_way_leaves_nothing_behind() {
    let folder = TempDir::new().unwrap();
    // 160 kB, of which 100 KiB may be written.
    save(folder.path(), "a.npy", &matrix(200, 200, false));
    let whole = command(folder.path(), &["transpose", "a.npy", "-o"]);
    let limited = |output: &str, force: &str| {
        let mut command = Command::new("bash");
        // Past the limit the system sends a signal, which ends a process by default.
        command.args(["-c", "ulimit -f 100; exec \"$@\"", "bash"]).arg(whole.get_program());
        command.args(whole.get_args()).arg(output).args((!force.is_empty()).then_some(force));
        command.current_dir(folder.path()).env("MOYE_DEVICE", "sim").output().unwrap()
    };
    assert_eq!(failed(&limited("b.npy", "")), "cannot write b.npy: File too large (os error 27)");
    assert_eq!(names(folder.path()), ["a.npy"], "the part that was written is gone");
    fs::write(folder.path().join("b.npy"), "precious").unwrap();
    failed(&limited("b.npy", "--force"));
    assert_eq!(fs::read(folder.path().join("b.npy")).unwrap(), b"precious", "what was there stays");
    assert_eq!(names(folder.path()), ["a.npy", "b.npy"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_result_may_go_to_a_pipe() {
    let (folder, product) = two_files();
    let output = moye(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "/dev/stdout"]);
    assert!(output.status.success());
    assert_eq!(
        Array2::<f32>::read_npy(&output.stdout[..]).unwrap(),
        product,
        "nothing else is written there"
    );
}

#[cfg(unix)]
#[test]
fn a_link_stays_and_what_it_leads_to_is_replaced_with_its_mode() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let (folder, product) = two_files();
    let folder = folder.path();
    fs::write(folder.join("target.npy"), "old").unwrap();
    fs::set_permissions(folder.join("target.npy"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("target.npy", folder.join("link.npy")).unwrap();
    succeeded(&moye(folder, &["matmul", "a.npy", "b.npy", "-o", "link.npy", "--force"]));
    assert!(fs::symlink_metadata(folder.join("link.npy")).unwrap().is_symlink());
    assert_eq!(load(folder, "target.npy"), product);
    let mode = |name| fs::metadata(folder.join(name)).unwrap().mode() & 0o777;
    assert_eq!(mode("target.npy"), 0o640, "the mode is that of the file that was there");
    succeeded(&moye(folder, &["matmul", "a.npy", "b.npy", "-o", "new.npy"]));
    assert_eq!(mode("new.npy"), mode("a.npy"), "a new file's mode is that of any new file");
}

#[cfg(unix)]
#[test]
fn a_link_to_nothing_is_followed_only_by_force() {
    use std::os::unix::fs::symlink;
    let (folder, product) = two_files();
    let folder = folder.path();
    fs::create_dir(folder.join("sub")).unwrap();
    symlink("sub/second", folder.join("link.npy")).unwrap();
    symlink("c.npy", folder.join("sub/second")).unwrap();
    let said = failed(&moye(folder, &["matmul", "a.npy", "b.npy", "-o", "link.npy"]));
    assert_eq!(said, "link.npy exists already, a link to sub/c.npy; --force writes that file");
    succeeded(&moye(folder, &["matmul", "a.npy", "b.npy", "-o", "link.npy", "--force"]));
    assert!(fs::symlink_metadata(folder.join("link.npy")).unwrap().is_symlink());
    assert_eq!(load(folder, "sub/c.npy"), product);
    assert_eq!(names(&folder.join("sub")), ["c.npy", "second"], "nothing else is left");
    symlink("circle.npy", folder.join("circle.npy")).unwrap();
    let said = failed(&moye(folder, &["matmul", "a.npy", "b.npy", "-o", "circle.npy", "--force"]));
    assert!(said.starts_with("cannot write circle.npy: "), "{said}");
}

/// Starts minutes of work on the simulator in a folder, and waits until the result's file exists:
/// the signals are handled before that.
#[cfg(unix)]
fn long_work(folder: &Path, ignored: &str) -> std::process::Child {
    use std::os::unix::process::CommandExt;
    save(folder, "a.npy", &Array2::<f32>::zeros((2048, 2048)));
    let work = command(folder, &["matmul", "a.npy", "a.npy", "-o", "c.npy"]);
    let mut bash = Command::new("bash");
    // The test process may have inherited ignored signals, as a shell's background jobs ignore
    // Ctrl-C, and bash keeps them. SAFETY: between the fork and the new program only `signal` is
    // called, which is async-signal-safe.
    unsafe {
        bash.pre_exec(|| {
            for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
                libc::signal(signal, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    let mut child = bash
        .args(["-c", &format!("trap '' {ignored}; exec \"$@\""), "bash"])
        .arg(work.get_program())
        .args(work.get_args())
        .current_dir(folder)
        .env("MOYE_DEVICE", "sim")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = std::time::Instant::now();
    while names(folder).len() < 2 {
        assert!(begun.elapsed().as_secs() < 60, "no temporary file was made: {:?}", names(folder));
        assert!(child.try_wait().unwrap().is_none(), "it ended before the signal");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child
}

#[cfg(unix)]
fn signal(child: &std::process::Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[cfg(unix)]
#[test]
fn a_signal_ends_the_work_and_leaves_nothing_behind() {
    use std::os::unix::process::ExitStatusExt;
    for (name, number, listens) in
        [("-INT", 2, true), ("-QUIT", 3, true), ("-TERM", 15, true), ("-HUP", 1, true), ("-HUP", 1, false)]
    {
        let folder = TempDir::new().unwrap();
        let mut child = long_work(folder.path(), "USR1");
        if !listens {
            // The terminal is closed, so writing to it fails.
            drop(child.stderr.take());
        }
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(number), "{name}: {}", output.status);
        assert_eq!(names(folder.path()), ["a.npy"], "{name}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(said, if listens { "moye: interrupted\n" } else { "" }, "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_hang_up_that_is_ignored_stays_so() {
    let folder = TempDir::new().unwrap();
    // As under `nohup`.
    let mut child = long_work(folder.path(), "HUP");
    signal(&child, "-HUP");
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it continues");
    assert_eq!(names(folder.path()).len(), 2, "with its file");
    signal(&child, "-TERM");
    child.wait().unwrap();
    assert_eq!(names(folder.path()), ["a.npy"]);
}

#[test]
fn wrong_usage_has_exit_code_2() {
    let (folder, _) = two_files();
    for (arguments, expected) in [
        (&["matmul", "a.npy"][..], "<B.npy>"),
        (
            &["matmul", "--device", "cuda"],
            "`cuda` is not a device: expected `auto`, `gpu`, `gpu:N` (N from 0) or `sim`",
        ),
        (&["matmul", "--sede", "3"], "--seed"),
        (&["transpose", "a.npy"], "--output"),
        (&["multiply"], "unrecognized subcommand"),
        (&[], "Usage"),
    ] {
        let output = moye(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let folder = TempDir::new().unwrap();
    let said = failed(&moye(folder.path(), &["matmul", "--device", "gpu:4000000000"]));
    assert!(
        ["no NVIDIA driver", "reports no GPU", "there is no GPU 4000000000"].iter().any(|e| said.contains(e)),
        "{said}"
    );
    let said = failed(&command(folder.path(), &["matmul"]).env("MOYE_DEVICE", "gpux").output().unwrap());
    assert!(said.starts_with("MOYE_DEVICE: `gpux` is not a device"), "{said}");
}

#[test]
fn a_reader_that_goes_away_does_no_harm() {
    let (folder, product) = two_files();
    let mut child = command(folder.path(), &["matmul", "a.npy", "b.npy", "-o", "c.npy"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(load(folder.path(), "c.npy"), product);
}
