//! The program on the best available device, and on a GPU.

use crate::common::gpu;
use crate::{command, load, matrix, save, succeeded};
use std::path::Path;
use tempfile::TempDir;

/// The program's output with this value of `MOYE_DEVICE`, or without the variable.
fn on(device: Option<&str>, folder: &Path, arguments: &[&str]) -> String {
    let mut command = command(folder, arguments);
    match device {
        Some(device) => command.env("MOYE_DEVICE", device),
        None => command.env_remove("MOYE_DEVICE"),
    };
    succeeded(&command.output().unwrap())
}

#[test]
fn without_a_choice_the_gpu_is_taken_or_the_simulator_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let said = on(None, folder.path(), &["matmul"]);
    let device = said.lines().next().filter(|line| line.starts_with("device"));
    let device = device.unwrap_or_else(|| panic!("the device comes first: {said}"));
    match gpu() {
        Some(gpu) => {
            assert!(device.contains(gpu.name()), "{said}");
            // CuTe's tutorial problem.
            assert!(said.contains("2048 x 2048 x 256") && said.contains("median of 10"), "{said}");
        }
        None => {
            assert!(device.contains("simulator ("), "the reason stands in brackets: {said}");
            assert!(said.contains("256 x 256 x 64"), "{said}");
        }
    }
    let told = |said: &str| said.lines().next().map(str::to_owned);
    assert_eq!(told(&said), told(&on(Some("auto"), folder.path(), &["matmul"])), "`auto` is the same");
}

#[test]
fn products_and_transposes_of_files_on_a_gpu_are_those_of_ndarray() {
    if gpu().is_none() {
        return;
    }
    for (a_fortran, b_fortran) in [(false, false), (false, true), (true, false), (true, true)] {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        let (a, b) = (matrix(133, 117, a_fortran), matrix(117, 241, b_fortran));
        save(folder, "a.npy", &a);
        save(folder, "b.npy", &b);
        let said = on(Some("gpu"), folder, &["matmul", "a.npy", "b.npy", "-o", "c.npy"]);
        for word in ["sgemm_", "133 x 241 x 117", "time", "TFLOP/s", "0.0e0 relative to a float64"] {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
        assert!(!said.contains("simulator"), "{said}");
        assert_eq!(load(folder, "c.npy"), a.dot(&b), "a in Fortran order: {a_fortran}, b: {b_fortran}");
        on(Some("gpu"), folder, &["transpose", "a.npy", "-o", "t.npy"]);
        assert_eq!(load(folder, "t.npy"), a.t(), "Fortran order: {a_fortran}");
    }
}

#[test]
fn the_kernel_that_the_simulator_runs_does_not_depend_on_the_hosts_cores() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    // Few tiles and a long K: the split depends on the number of SMs.
    save(folder, "a.npy", &matrix(64, 2048, false));
    save(folder, "b.npy", &matrix(2048, 100, false));
    let kernel = |threads: &str| {
        let mut command = command(folder, &["matmul", "a.npy", "b.npy"]);
        let said = succeeded(&command.env("RAYON_NUM_THREADS", threads).output().unwrap());
        let line = said.lines().find(|line| line.starts_with("kernel"));
        line.unwrap_or_else(|| panic!("it says which kernel: {said}")).to_owned()
    };
    assert_eq!(kernel("1"), kernel("9"));
}

#[cfg(target_os = "linux")]
#[test]
fn the_program_is_not_linked_to_the_driver() {
    let program = command(Path::new("."), &[]).get_program().to_owned();
    match std::process::Command::new("ldd").arg(program).output() {
        Ok(output) => {
            let needed = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(needed.contains("libc.so"), "it says what the program is linked to: {needed}");
            for library in ["libcuda", "libcublas", "libnvidia-ml"] {
                assert!(!needed.contains(library), "{needed}");
            }
        }
        Err(reason) => crate::common::say(&format!(
            "what the program is linked to is not tested: ldd cannot be run: {reason}"
        )),
    }
}
