//! `moye bench`: what it says where it cannot measure, and what it writes where it can.

use crate::common::gpu;
use crate::{command, failed, load_text, moye, names, succeeded};
use tempfile::TempDir;

#[test]
fn without_a_gpu_it_says_so_with_the_way_out_and_leaves_nothing() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for device in ["sim", ""] {
        let arguments = ["bench", "--sizes", "64", "--plot", "plot.svg", "--csv", "rows.csv"];
        let mut run = command(folder, &arguments);
        run.env("MOYE_DEVICE", device);
        if device.is_empty() && gpu().is_some() {
            continue;
        }
        let said = failed(&run.output().unwrap());
        let expected = match device {
            "sim" => "the simulator was asked for, whose times mean nothing; name a GPU (--device gpu:N)",
            _ => "run it on a machine with one and NVIDIA's driver (`moye doctor` looks)",
        };
        assert!(said.starts_with("`moye bench` ") && said.contains(expected), "{said}");
        assert!(!said.contains("MOYE_DEVICE=sim"), "the simulator is no way out: {said}");
        assert_eq!(names(folder), [""; 0], "no file is made");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    let folder = TempDir::new().unwrap();
    for (arguments, expected) in [
        (&["--sizes", "4096,64x4096"][..], "`64x4096` is no size: it must be N or MxNxK"),
        (&["--majors", "tn,xx"], "`xx` is no order of A and B: it must be tn, nt, nn or tt"),
        (&["--types", "f8"], "[possible values: f32, tf32, f16, f16-sums, bf16, f64, i8]"),
        (&["--against", "mkl"], "[possible values: cublas, cublaslt, none]"),
        (&["--rounds", "0"], "0 is not in 1.."),
        (&["sort"], "[possible values: matmul, copy, transpose]"),
    ] {
        let output = moye(folder.path(), &[&["bench"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn on_a_gpu_every_kind_is_checked_timed_and_told_in_every_form() {
    if gpu().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let on_gpu = |arguments: &[&str]| {
        succeeded(&command(folder, arguments).env("MOYE_DEVICE", "gpu").output().unwrap())
    };
    let all = "f32,tf32,f16,f16-sums,bf16,f64,i8";
    let quick = ["--rounds", "3", "--warm-up", "0"];
    let sizes = ["bench", "matmul", "--types", all, "--majors", "tn,nt,nn,tt", "--sizes", "64x72x80,128"];
    let said = on_gpu(&[&sizes[..], &quick, &["--json", "--plot", "plot.svg", "--csv", "rows.csv"]].concat());
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 7 * 4 * 2);
    for row in rows {
        assert!(row["moye"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(
            row["peer"].is_object() || row["no_peer"].is_string(),
            "another side, or why there is none: {row}"
        );
    }
    assert_eq!(load_text(folder, "rows.csv").lines().count(), 1 + rows.len());
    assert!(load_text(folder, "plot.svg").starts_with("<svg"));
    let said =
        on_gpu(&[&["bench", "copy", "transpose", "--sizes", "256", "--flush-l2"][..], &quick].concat());
    for word in ["copy 4 bytes 256 x 256", "transpose 4 bytes 256 x 256", "(device copy)", "L2 flushed"] {
        assert!(said.contains(word), "{word} is missing: {said}");
    }
}
