//! What is said of a driver or a GPU that cannot serve, each with the way out. A stand-in for the driver's library has
//! the faults, so that no GPU is needed.
#![cfg(target_os = "linux")]

mod common;

use common::say_once;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use tempfile::TempDir;

/// Compiles the stand-in into a folder; `None` where there is no compiler.
fn driver(flags: &[&str]) -> Option<TempDir> {
    let folder = TempDir::new().unwrap();
    let compiled = Command::new("rustc")
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "cdylib",
            "-A",
            "warnings",
            "--check-cfg",
            "cfg(lacks_a_function)",
        ])
        .args(flags)
        .arg("-o")
        .arg(folder.path().join("libcuda.so.1"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_driver/driver.rs"))
        .output();
    match compiled {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(folder)
        }
        Err(reason) => {
            static SAID: Once = Once::new();
            say_once(
                &SAID,
                &format!("tests with a stand-in for the driver are skipped: rustc cannot be run: {reason}"),
            );
            None
        }
    }
}

/// Multiplies random matrices with this driver, on GPU `index`.
fn matmul(driver: &Path, fault: &str, index: u32) -> Output {
    matmul_of(driver, fault, index, &[])
}

/// The same, with these options.
fn matmul_of(driver: &Path, fault: &str, index: u32, options: &[&str]) -> Output {
    let program = std::env::var_os("MOYE_BUNDLE").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_moye")),
        |bundle| Path::new(&bundle).join("bin/moye"),
    );
    Command::new(program)
        .args(["matmul", "--device", &format!("gpu:{index}")])
        .args(options)
        .env("LD_LIBRARY_PATH", driver)
        .env("FAKE_DRIVER_LOADS", driver.join("loads"))
        .env("FAKE_DRIVER", fault)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_fault_is_told_with_the_way_out() {
    let Some(folder) = driver(&[]) else { return };
    for (fault, expected) in [
        (
            "no gpu",
            &["the NVIDIA driver reports no GPU", "nvidia-smi", "MOYE_DEVICE=sim, or --device sim"][..],
        ),
        ("old gpu", &["GPU 0 (Fake GPU, sm_75) is too old", "sm_80", "MOYE_DEVICE=gpu:N, or --device gpu:N"]),
        ("memory", &["GPU 0 (Fake GPU) has no memory for 2097152 bytes: 1000 of 1073741824 bytes are free"]),
        (
            "ptx version",
            &["driver (CUDA 11.4) is too old for the kernels of `moye_device`, which are PTX", "update"],
        ),
        (
            "ptx",
            &["the driver refused the PTX of `moye_device` for sm_80", "(218)", "ptx input, line 9; error"],
        ),
        ("no kernel", &["module `moye_device` has no kernel `pack_u32` (of package `moye-device`)"]),
        ("registers", &["256 threads in a block: its registers allow 128"]),
        ("launch", &["`cuLaunchKernel` failed with CUDA_ERROR_FAKE (701): something fake"]),
        (
            "kernel fault",
            &[
                "a kernel failed on Fake GPU",
                "(700)",
                "the last one launched was `sgemm_",
                "compute-sanitizer",
            ],
        ),
    ] {
        let output = matmul(folder.path(), fault, 0);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(1), "{fault}: {text}");
        assert_eq!(text.lines().count(), 1, "{fault}: {text}");
        for part in expected {
            assert!(text.contains(part), "{fault}: `{part}` is missing: {text}");
        }
    }
}

#[test]
fn a_gpu_that_is_not_there_is_told_with_those_that_are() {
    let Some(folder) = driver(&[]) else { return };
    let output = matmul(folder.path(), "", 3);
    assert!(said(&output).contains("there is no GPU 3: the only one here is GPU 0"), "{}", said(&output));
}

#[test]
fn a_function_that_the_driver_lacks_is_named() {
    let Some(folder) = driver(&["--cfg", "lacks_a_function"]) else { return };
    let output = matmul(folder.path(), "", 0);
    let expected = "the NVIDIA driver is too old: it has no `cuLaunchKernel`; update the driver";
    assert!(said(&output).contains(expected), "{}", said(&output));
}

#[test]
fn elements_that_a_gpu_cannot_multiply_are_told_with_those_that_it_can() {
    let Some(folder) = driver(&[]) else { return };
    let output = matmul_of(folder.path(), "", 0, &["--dtype", "e4m3"]);
    let expected = "e4m3 is multiplied by `wgmma` alone, which GPUs of sm_90 (Hopper) have, and Fake GPU is sm_80; convert the \
                    matrices to f16, or take such a GPU";
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains(expected), "{}", said(&output));
}

#[test]
fn a_wrong_product_is_an_error() {
    let Some(folder) = driver(&[]) else { return };
    // Nothing computes, so the product stays what the memory held.
    let output = matmul(folder.path(), "", 0);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the product is wrong: its relative error is"), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("median of 10"), "the launches went through");
    let loads = std::fs::read_to_string(folder.path().join("loads")).unwrap();
    let mut loaded: Vec<_> = loads.lines().collect();
    assert!(loaded.iter().all(|names| !names.contains(' ')), "a kernel is loaded by itself: {loads}");
    assert!(loaded.iter().any(|&name| name.starts_with("sgemm")), "{loads}");
    let launched = loaded.len();
    loaded.sort_unstable();
    loaded.dedup();
    assert_eq!(loaded.len(), launched, "a kernel is loaded once, however often it is launched: {loads}");
}
