//! Messages about a driver or a GPU that cannot be used, each with the way out. A stand-in for the
//! driver's library produces the faults, so that no GPU is needed.
#![cfg(target_os = "linux")]

#[path = "../../../../tests/fixtures/common/mod.rs"]
mod common;

mod borrowed;

#[path = "cudarc.rs"]
mod cudarc_slices;

mod graphs;

mod steady;

use common::{PTX, SCALE, one_thread, say_once};
use moye::{Device, Grid, kernels};
use rstest::rstest;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Once;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Compiles the stand-in into a folder; `None` without a compiler.
fn driver(flags: &[&str]) -> Option<TempDir> {
    let folder = TempDir::new().unwrap();
    let compiled = Command::new("rustc")
        .args("--edition 2024 --crate-type cdylib -A warnings --check-cfg cfg(lacks_a_function)".split(' '))
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

/// [`matmul`] with these options.
fn matmul_of(driver: &Path, fault: &str, index: u32, options: &[&str]) -> Output {
    moye(driver, fault).args(["matmul", "--device", &format!("gpu:{index}")]).args(options).output().unwrap()
}

/// The program `moye` with this driver.
fn moye(driver: &Path, fault: &str) -> Command {
    let program = std::env::var_os("MOYE_BUNDLE").map_or_else(
        || PathBuf::from(env!("CARGO_BIN_EXE_moye")),
        |bundle| Path::new(&bundle).join("bin/moye"),
    );
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", driver)
        .env("FAKE_DRIVER_LOADS", driver.join("loads"))
        .env("FAKE_DRIVER", fault);
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn each_fault_of_the_driver_is_an_error_with_the_way_out() {
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
            &["driver (CUDA 11.4) is too old for the kernels of `moye_movement`, which are PTX", "update"],
        ),
        (
            "ptx",
            &["the driver refused the PTX of `moye_movement` for sm_80", "(218)", "ptx input, line 9; error"],
        ),
        (
            "no kernel",
            &["module `moye_movement` has no kernel `repack_transposed_u32` (of package `moye-movement`)"],
        ),
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
fn a_missing_gpu_is_an_error_that_lists_the_present_ones() {
    let Some(folder) = driver(&[]) else { return };
    let output = matmul(folder.path(), "", 3);
    assert!(said(&output).contains("there is no GPU 3: the only one here is GPU 0"), "{}", said(&output));
}

#[test]
fn products_over_gpus_are_not_measured_on_one() {
    let Some(folder) = driver(&[]) else { return };
    for form in [&[][..], &["--json"]] {
        let output = moye(folder.path(), "").args(["bench", "parallel"]).args(form).output().unwrap();
        let expected = "`moye bench parallel` needs two GPUs at least, and this machine has 1";
        assert!(said(&output).contains(expected), "{}", said(&output));
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    }
}

#[test]
fn a_function_that_the_driver_lacks_is_named() {
    let Some(folder) = driver(&["--cfg", "lacks_a_function"]) else { return };
    let output = matmul(folder.path(), "", 0);
    let expected = "the NVIDIA driver is too old: it has no `cuLaunchKernel`; update the driver";
    assert!(said(&output).contains(expected), "{}", said(&output));
}

#[test]
fn an_element_that_a_gpu_cannot_multiply_is_an_error_that_lists_the_others() {
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
    // The stand-in computes nothing, so the product keeps the memory's previous contents.
    let output = matmul(folder.path(), "", 0);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("the product is wrong: its relative error is"), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).contains("median of 10"), "the launches went through");
    let loads = std::fs::read_to_string(folder.path().join("loads")).unwrap();
    let mut loaded: Vec<_> = loads.lines().collect();
    assert!(loaded.iter().all(|names| !names.contains(' ')), "kernels are loaded one by one: {loads}");
    assert!(loaded.iter().any(|&name| name.starts_with("sgemm")), "{loads}");
    let launched = loaded.len();
    loaded.sort_unstable();
    loaded.dedup();
    assert_eq!(loaded.len(), launched, "a kernel is loaded once, however often it is launched: {loads}");
}

/// The doctor's output with this driver: the line that begins with `name`, and its continuation
/// lines.
fn doctor(driver: &Path, fault: &str, name: &str) -> String {
    let output = moye(driver, fault).arg("doctor").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines().skip_while(|line| !line.starts_with(name));
    let first = lines.next().unwrap_or_else(|| panic!("{fault}: {name} is missing: {text}{}", said(&output)));
    let rest = lines.take_while(|line| line.starts_with(' ')).map(str::trim);
    std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n")
}

#[rstest]
#[case::a_gpu_that_serves("", "GPU 0", &["ok       Fake GPU, sm_80, 1 SMs, 1024 MiB of memory"])]
#[case::its_driver("", "driver", &["ok       for CUDA 11.4"])]
#[case::no_gpu("no gpu", "GPU", &[
    "missing  the NVIDIA driver reports no GPU",
    "\nWithout it the simulator is used.\nto fix it: see `nvidia-smi`",
    "CUDA_VISIBLE_DEVICES",
])]
#[case::a_gpu_too_old("old gpu", "GPU 0", &[
    "missing  GPU 0 (Fake GPU, sm_75) is too old: the kernels need sm_80",
    "\nWithout it the simulator is used.\nto fix it: use a GPU of sm_80 (Ampere) or newer",
])]
#[case::a_driver_too_old_for_the_kernels("ptx version", "GPU 0", &[
    "missing  the NVIDIA driver (CUDA 11.4) is too old for the kernels of `moye_movement`, which are PTX",
    "\nWithout it the simulator is used.\nto fix it: update the NVIDIA driver to one of CUDA ",
])]
#[case::a_driver_that_refuses_them("ptx", "GPU 0", &["missing  the driver refused the PTX of `moye_movement`", "line 9; error", "update the NVIDIA driver; if it still refuses"])]
#[case::one_that_does_not_say_why("ptx without a log", "GPU 0", &["missing  the driver refused the PTX of `moye_movement`", "\nto fix it: update the NVIDIA driver"])]
#[case::a_gpu_whose_memory_others_have("context", "GPU 0", &["missing  the driver's `cuDevicePrimaryCtxRetain` failed", "(2)", "free memory of the GPU: `nvidia-smi` lists"])]
#[case::a_gpu_whose_memory_is_gone_by_then("load memory", "GPU 0", &["missing  the driver's `cuModuleLoadDataEx` failed", "(2)", "free memory of the GPU"])]
#[case::a_gpu_that_faults("load", "GPU 0", &["missing  a kernel failed on Fake GPU", "(700)", "restart the program"])]
fn the_doctor_tells_what_is_wrong_with_a_gpu_and_how_to_mend_it(
    #[case] fault: &str,
    #[case] name: &str,
    #[case] expected: &[&str],
) {
    let Some(folder) = driver(&[]) else { return };
    let text = doctor(folder.path(), fault, name);
    for part in expected {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    assert_eq!(text.contains("its log above"), fault == "ptx", "{text}");
}

#[test]
fn the_doctor_tells_of_a_driver_that_cannot_be_opened() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("libcuda.so.1"), "this is no library").unwrap();
    let text = doctor(folder.path(), "", "driver");
    for part in [
        "missing  cannot open libcuda.so.1 (",
        "\nWithout it no GPU can be used; the simulator still runs.\nto fix it: install the NVIDIA driver",
    ] {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    assert_eq!(doctor(folder.path(), "", "GPU"), "GPU          unknown  no driver to ask");
}

/// Launches a kernel by name, on a separate buffer.
fn launch(device: &Device, kernel: &str) -> moye::Result<()> {
    launch_on(device, kernel, Grid::new((1, 1), 256))
}

/// [`launch`] on this grid.
fn launch_on(device: &Device, kernel: &str, grid: Grid) -> moye::Result<()> {
    let x = device.upload(&[1.0f32; 4])?;
    let mut y = device.alloc_uninit::<f32>(4)?;
    // SAFETY: the stand-in runs nothing.
    unsafe {
        match kernel {
            "copy" => device.launch(&kernels::copy, grid, (&x, &mut y, 2, 2, 1, 2, 1, 2)),
            "transpose" => device.launch(&kernels::transpose, grid, (&x, &mut y, 2, 2, 1, 2, 1, 2)),
            "ladder_tiled" => {
                let b = device.upload(&[1.0f32; 4])?;
                device.launch(&kernels::ladder::ladder_tiled, grid, (&x, &b, &mut y, 2, 2, 2, 2, 2, 2))
            }
            "scale" => device.load(&PTX)?.launch(&SCALE, one_thread(), (&x, &mut y, 2.0, 4)),
            other => panic!("there is no kernel {other} here"),
        }
    }
}

/// Attention of 64 queries to 128 keys in two splits, whose partial results need a workspace.
///
/// # Safety
/// Same contract as [`moye::Attention::run_on`].
unsafe fn attend_in_splits(
    stream: &moye::Stream,
    x: &moye::Buffer<half::f16>,
    y: &mut moye::Buffer<half::f16>,
) -> moye::Result<()> {
    use moye::{Attention, Heads, HeadsMut};
    let heads = |tokens: usize| Heads::head_first(x, [1, 1, tokens, 64]);
    let (q, k, v) = (heads(64)?, heads(128)?, heads(128)?);
    let mut o = HeadsMut::head_first(y, [1, 1, 64, 64])?;
    // SAFETY: no other stream uses the buffers until the work is complete.
    unsafe { Attention::new(q, k, v).splits(2).run_on(stream, &mut o) }
}

/// The records of the stand-in for the driver, with this fault and these settings, of `work`: the
/// lines of the file `notes`. The work runs in another process, because a process opens a driver
/// once: a copy of the calling test, whose name the thread has. `None` in the copy, and without a
/// compiler.
fn recorded(fault: &str, settings: &[(&str, &str)], notes: &str, work: impl FnOnce()) -> Option<Vec<String>> {
    if std::env::var_os("FAKE_DRIVER").is_some() {
        work();
        return None;
    }
    let folder = driver(&[])?;
    let mut copy = Command::new(std::env::current_exe().unwrap());
    copy.args(["--exact", std::thread::current().name().unwrap(), "--nocapture"]);
    copy.env("LD_LIBRARY_PATH", folder.path()).env("FAKE_DRIVER", fault);
    for file in ["all", "calls", "captures", "go", "launches", "loads"] {
        copy.env(format!("FAKE_DRIVER_{}", file.to_uppercase()), folder.path().join(file));
    }
    let output = copy.envs(settings.iter().copied()).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    let lines = std::fs::read_to_string(folder.path().join(notes)).unwrap_or_default();
    Some(lines.lines().map(str::to_owned).collect())
}

/// The calls and handles that the stand-in records of `work`.
fn calls(fault: &str, work: impl FnOnce()) -> Option<Vec<String>> {
    recorded(fault, &[], "calls", work)
}

/// Appends a line to a file of the stand-in's records.
fn note(variable: &str, line: &str) {
    use std::io::Write;
    let file = std::env::var_os(variable).expect("the copy of the test has it");
    writeln!(std::fs::OpenOptions::new().create(true).append(true).open(file).unwrap(), "{line}").unwrap();
}

/// Launches other kernels while the driver compiles `slow`, then lets the compilation end.
fn launches_beside_a_slow_one(slow: &str) {
    let file = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let (go, loads) = (file("FAKE_DRIVER_GO"), file("FAKE_DRIVER_LOADS"));
    let device = Device::gpu(0).unwrap();
    std::thread::scope(|scope| {
        // Two threads that need the same kernel: one has it compiled, and both wait for that.
        let waiting = [(); 2].map(|()| scope.spawn(|| launch(&device, slow)));
        let begun = Instant::now();
        while !std::fs::read_to_string(&loads).is_ok_and(|text| text.lines().any(|line| line == slow)) {
            assert!(begun.elapsed() < Duration::from_secs(10), "{slow} is not loaded");
            std::thread::sleep(Duration::from_millis(5));
        }
        for other in ["copy", "transpose", "scale"].into_iter().filter(|other| *other != slow) {
            for _ in 0..2 {
                launch(&device, other).unwrap();
            }
        }
        assert!(waiting.iter().all(|thread| !thread.is_finished()), "{slow} is still compiled");
        std::fs::write(&go, "").unwrap();
        for thread in waiting {
            thread.join().unwrap().unwrap();
        }
    });
}

#[rstest]
fn a_kernel_that_is_compiled_keeps_no_other_from_its_launch_and_is_compiled_once(
    #[values("transpose", "scale")] slow: &str,
) {
    let work = || launches_beside_a_slow_one(slow);
    let Some(mut loaded) = recorded("", &[("FAKE_DRIVER_SLOW", slow)], "loads", work) else { return };
    loaded.sort_unstable();
    assert_eq!(loaded, ["copy", "scale", "transpose"], "each once");
}

#[rstest]
fn a_kernel_that_the_driver_refused_is_compiled_again_at_the_next_launch(
    #[values("transpose", "scale")] kernel: &str,
) {
    // The driver refuses the kernel until a file exists.
    let work = || {
        let device = Device::gpu(0).unwrap();
        for _ in 0..2 {
            let error = launch(&device, kernel).unwrap_err();
            assert!(error.to_string().contains("the driver refused the PTX"), "{error}");
        }
        std::fs::write(std::env::var_os("FAKE_DRIVER_GO").unwrap(), "").unwrap();
        for _ in 0..2 {
            launch(&device, kernel).unwrap();
        }
    };
    let Some(loaded) = recorded("", &[("FAKE_DRIVER_REFUSED", kernel)], "loads", work) else { return };
    assert_eq!(loaded, [kernel], "taken once, and kept");
}

/// The shipped kernels are compiled for sm_80 and sm_90a, but the ladder's and `scale` for sm_80
/// alone.
#[rstest]
#[case::ampere("", ["cuLaunchKernel"; 4])]
#[case::hopper("hopper", ["cuLaunchKernelEx 6", "cuLaunchKernel", "cuLaunchKernel", "cuLaunchKernel"])]
#[case::newer_than_the_kernels("new gpu", ["cuLaunchKernel"; 4])]
fn a_kernel_begins_early_only_where_the_image_that_runs_can_wait(
    #[case] fault: &str,
    #[case] expected: [&str; 4],
) {
    // Three kernels that may start before earlier ones complete, and one that may not.
    let work = || {
        let device = Device::gpu(0).unwrap();
        launch_on(&device, "copy", Grid::new((1, 1), 256).dependent()).unwrap();
        launch_on(&device, "scale", one_thread().dependent()).unwrap();
        launch_on(&device, "ladder_tiled", Grid::new((1, 1), 256).dependent()).unwrap();
        launch(&device, "transpose").unwrap();
    };
    let Some(launched) = recorded(fault, &[], "launches", work) else { return };
    assert_eq!(launched, expected, "of copy, scale, ladder_tiled and transpose");
}

#[test]
fn a_refused_kernel_is_an_error_that_names_its_image() {
    // A kernel of sm_90a's image and one of sm_80's.
    let work = || {
        let device = Device::gpu(0).unwrap();
        for (kernel, family, image) in [("copy", "movement", "sm_90a"), ("ladder_tiled", "matmul", "sm_80")] {
            let error = launch(&device, kernel).unwrap_err().to_string();
            let expected = format!("refused the PTX of `moye_{family}` for {image} with");
            assert!(error.contains(&expected), "{kernel}: {error}");
            note("FAKE_DRIVER_LAUNCHES", kernel);
        }
    };
    let Some(refused) = recorded("hopper that refuses", &[], "launches", work) else { return };
    assert_eq!(refused, ["copy", "ladder_tiled"]);
}
