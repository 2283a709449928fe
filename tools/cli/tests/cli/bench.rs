//! `moye bench`: its messages when it cannot measure, and its output when it can.

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
            "sim" => "the device is the simulator, which cannot time kernels; name a GPU (--device gpu:N)",
            _ => "run it on a machine with a GPU and NVIDIA's driver (`moye doctor` checks both)",
        };
        assert!(said.starts_with("`moye bench` ") && said.contains(expected), "{said}");
        assert!(!said.contains("MOYE_DEVICE=sim"), "the simulator is no way out: {said}");
        assert_eq!(names(folder), [""; 0], "no file is made");
    }
}

#[test]
fn products_over_gpus_are_refused_on_the_simulator_and_beside_other_work() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let simulated = "`moye bench` measures a GPU, and the device is the simulator, which cannot time kernels";
    let alone = "`parallel` has a separate table: name it alone";
    for (arguments, expected) in [
        (&["parallel"][..], simulated),
        (&["parallel", "--json"], simulated),
        (&["parallel", "--device", "sim"], simulated),
        (&["parallel", "copy"], alone),
        (&["softmax", "parallel", "--json"], alone),
    ] {
        let output = moye(folder, &[&["bench"], arguments].concat());
        let said = failed(&output);
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(output.stdout, b"", "{arguments:?}");
    }
    let help = succeeded(&moye(folder, &["bench", "--help"]));
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let expected = "parallel: Products over all GPUs of this machine with their collectives";
    assert!(help.contains(expected), "{help}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_what_can() {
    let folder = TempDir::new().unwrap();
    for (arguments, expected) in [
        (&["--sizes", "4096,64x4096"][..], "`64x4096` is not a size: expected N or MxNxK"),
        (&["--majors", "tn,xx"], "`xx` is not a pair of majors: expected tn, nt, nn or tt"),
        (&["--types", "f8"], "[possible values: f32, tf32, f16, f16-accumulators, bf16, f64, i8, e4m3]"),
        (&["--against", "mkl"], "[possible values: cublas, cublaslt, cublaslt-default, none]"),
        (&["--rounds", "0"], "0 is not in 1.."),
        (&["sort"], "[possible values: matmul, host, parallel, copy, transpose"),
    ] {
        let output = moye(folder.path(), &[&["bench"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn on_a_gpu_every_kind_is_checked_timed_and_printed_in_every_form() {
    let Some(device) = gpu() else { return };
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let on_gpu = |arguments: &[&str]| {
        succeeded(&command(folder, arguments).env("MOYE_DEVICE", "gpu").output().unwrap())
    };
    let everywhere = "f32,tf32,f16,f16-accumulators,bf16,f64,i8";
    // Only Hopper multiplies 8-bit floats.
    let (all, kinds) = match device.arch() == moye::Arch::new(9, 0) {
        true => (format!("{everywhere},e4m3"), 8),
        false => (everywhere.to_owned(), 7),
    };
    let quick = ["--rounds", "3", "--warm-up", "0"];
    let sizes = ["bench", "matmul", "--types", &all, "--majors", "tn,nt,nn,tt", "--sizes", "64x72x80,128"];
    let said = on_gpu(&[&sizes[..], &quick, &["--json", "--plot", "plot.svg", "--csv", "rows.csv"]].concat());
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), kinds * 4 * 2);
    for row in rows {
        assert!(row["moye"]["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(
            row["peer"].is_object() || row["no_peer"].is_string(),
            "another side, or why there is none: {row}"
        );
    }
    assert_eq!(load_text(folder, "rows.csv").lines().count(), 1 + rows.len());
    assert!(load_text(folder, "plot.svg").starts_with("<svg"));
    #[cfg(target_os = "linux")]
    for form in [&["--json"][..], &[]] {
        let arguments =
            [&["bench", "copy", "--sizes", "256", "--csv", "full.csv", "--force"], &quick[..], form].concat();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut run = command(folder, &arguments);
        run.env("MOYE_DEVICE", "gpu").stdout(full).stderr(std::process::Stdio::piped());
        let output = run.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let expected = "moye: cannot write to standard output: No space left on device (os error 28)\n";
        assert!(output.status.code() == Some(1) && said.ends_with(expected), "{said}");
        assert_eq!(load_text(folder, "full.csv").lines().count(), 2, "the file is still written");
    }
    let said =
        on_gpu(&[&["bench", "copy", "transpose", "--sizes", "256", "--flush-l2"][..], &quick].concat());
    for word in ["copy 4 bytes 256 x 256", "transpose 4 bytes 256 x 256", "(device copy)", "L2 flushed"] {
        assert!(said.contains(word), "{word} is missing: {said}");
    }
}

#[test]
fn tuning_needs_a_gpu_and_sizes_and_a_file_that_is_one() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let said = failed(&moye(folder, &["tune", "--sizes", "64", "--file", "tuning.json"]));
    assert!(said.starts_with("`moye tune` measures a GPU, and the device is the simulator"), "{said}");
    assert_eq!(names(folder), [""; 0], "no file is made");
    std::fs::write(folder.join("tuning.json"), "{}").unwrap();
    for command in [&["tune", "--sizes", "64", "--file"][..], &["matmul", "--tuning"], &["bench", "--tuning"]]
    {
        let said = failed(&moye(folder, &[command, &["tuning.json"]].concat()));
        assert!(
            said.starts_with("tuning.json is not a file of `moye tune`: missing field"),
            "{command:?}: {said}"
        );
    }
    let said = failed(&moye(folder, &["matmul", "--tuning", "none.json"]));
    assert!(
        said.starts_with("none.json cannot be read: ") && said.ends_with("`moye tune` writes one"),
        "{said}"
    );
    for (arguments, part) in
        [(&["tune"][..], "--sizes <SIZES>"), (&["tune", "softmax", "--sizes", "64"], "cannot be used with")]
    {
        let output = moye(folder, arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(part), "{said}");
    }
    let said = failed(&moye(folder, &["tune", "softmax", "--file", "plans.json"]));
    assert!(said.starts_with("`moye tune` measures a GPU"), "{said}");
    for command in [&["tune", "softmax", "--file"][..], &["bench", "softmax", "--tuning"]] {
        let said = failed(&moye(folder, &[command, &["tuning.json"]].concat()));
        let expected = "tuning.json is not a file of `moye tune`: missing field";
        assert!(said.starts_with(expected), "{command:?}: {said}");
    }
}

/// Commands that use the file treat the simulator like any device.
#[test]
fn a_product_of_files_takes_the_plan_for_its_problem() {
    use moye::operation::{Case, Dtype, Plans, TunedPlan, Value, tune};
    const CASE: Case = Case::new(&[Some(&[40, 256]), Some(&[256, 24]), None, None, None, None])
        .column_major(&["b"])
        .options(&[("precision", Value::Choice("tf32", &[]))])
        .within(2e-3);
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    crate::save(folder, "a.npy", &crate::matrix(40, 256, false));
    crate::save(folder, "b.npy", &crate::matrix(256, 24, true));
    let tuned = tune(&moye::MATMUL, &moye::Device::sim(), &CASE, Dtype::F32).unwrap();
    assert!(tuned.failed.is_empty(), "{:?}", tuned.failed);
    let [plan] = &tuned.plans[..] else { panic!("{tuned:?}") };
    let told = |arguments: &[&str]| {
        let said = succeeded(&moye(folder, &[&["matmul", "a.npy", "b.npy"], arguments].concat()));
        said.lines().find_map(|line| line.strip_prefix("kernel")).unwrap().trim().to_owned()
    };
    let mut seen = std::collections::BTreeSet::new();
    // Neighbouring candidates have the same kernel with other slices; another kernel is not taken.
    for candidate in plan.candidate.saturating_sub(4)..(plan.candidate + 5).min(plan.candidates) {
        let mut plans = Plans::default();
        plans.insert(TunedPlan { candidate, ..plan.clone() });
        plans.save(folder.join("tuning.json")).unwrap();
        seen.insert(told(&["--tf32", "--tuning", "tuning.json"]));
    }
    assert!(seen.contains(&plan.explained), "{seen:?}: {}", plan.explained);
    assert!(seen.len() > 1 && seen.iter().any(|plan| plan.contains(", K in ")), "{seen:?}");
    assert!(!told(&["--tuning", "tuning.json"]).contains("tf32"), "another problem");
}

#[test]
fn an_operation_of_files_takes_the_plan_of_a_file() {
    use moye::operation::{Case, Dtype, Plans, tune};
    const CASE: Case = Case::new(&[Some(&[1, 8]), Some(&[1, 8]), None]);
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    crate::save(folder, "x.npy", &crate::matrix(1, 8, false));
    let file = folder.join("tuning.json");
    let device = moye::Device::sim();
    let tuned = tune(&moye_products::few::LINEAR_FEW, &device, &CASE, Dtype::F32).unwrap();
    let [plan] = &tuned.plans[..] else { panic!("{tuned:?}") };
    let kernel = |arguments: &[&str]| {
        let run = ["run", "linear_few", "x.npy", "x.npy", "-o", "y.npy", "--force"];
        let said = succeeded(&moye(folder, &[&run[..], arguments].concat()));
        said.lines().find_map(|line| line.strip_prefix("kernel")).unwrap().trim().to_owned()
    };
    for (candidate, name) in ["linear_few_f32_4", "linear_few_f32_16"].into_iter().enumerate() {
        let mut plans = Plans::default();
        plans.insert(moye::operation::TunedPlan { candidate, kernel: name.to_owned(), ..plan.clone() });
        plans.save(&file).unwrap();
        assert_eq!(kernel(&["--tuning", "tuning.json"]), name);
    }
    // A command whose operation has one plan has no such option.
    let output = moye(folder, &["copy", "x.npy", "-o", "y.npy", "--tuning", "tuning.json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("unexpected argument '--tuning'"));
}

#[test]
fn a_declared_product_of_files_is_that_of_ndarray_with_its_epilogue() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let (a, b) = (crate::matrix(20, 30, false), crate::matrix(30, 10, true));
    let bias = ndarray::Array1::from_shape_fn(10, |j| j as f32);
    crate::save(folder, "a.npy", &a);
    crate::save(folder, "b.npy", &b);
    crate::save(folder, "bias.npy", &bias);
    let run = ["run", "matmul", "a.npy", "b.npy", "-o", "c.npy", "--force"];
    let options = ["--bias", "bias.npy", "--alpha", "2", "--tile", "128x128"];
    let said = succeeded(&moye(folder, &[&run[..], &options].concat()));
    assert!(said.contains("a [20, 30], b [30, 10], bias [10] float32"), "{said}");
    let expected = 2.0 * a.dot(&b) + &bias;
    let apart = (crate::load(folder, "c.npy") - &expected).mapv(f32::abs).sum();
    assert!(apart <= 1e-5 * expected.mapv(f32::abs).sum(), "{apart}");
    let said = failed(&moye(folder, &[&run[..], &["--beta", "2"]].concat()));
    assert!(said.contains("beta is 2, and there is no c"), "{said}");
}

#[test]
fn on_a_gpu_the_fastest_way_is_kept_and_obeyed() {
    if gpu().is_none() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let on_gpu = |arguments: &[&str]| {
        succeeded(&command(folder, arguments).env("MOYE_DEVICE", "gpu").output().unwrap())
    };
    let said = on_gpu(&[
        "tune",
        "--types",
        "f16,i8",
        "--majors",
        "tn,nt",
        "--sizes",
        "64x64x2048",
        "--file",
        "tuning.json",
    ]);
    assert_eq!(said.lines().filter(|line| line.starts_with("tuned")).count(), 4, "{said}");
    let file: serde_json::Value = serde_json::from_str(&load_text(folder, "tuning.json")).unwrap();
    let plans = file["plans"].as_array().unwrap();
    assert_eq!(plans.len(), 4);
    let quick = ["--rounds", "3", "--warm-up", "0", "--tuning", "tuning.json", "--json"];
    let said = on_gpu(&[&["bench", "--types", "f16", "--sizes", "64x64x2048"][..], &quick].concat());
    let told: serde_json::Value = serde_json::from_str(&said).unwrap();
    let kernel = told["rows"][0]["kernel"].as_str().unwrap();
    assert!(plans.iter().any(|plan| plan["explained"] == kernel), "{kernel}: {plans:?}");
}
