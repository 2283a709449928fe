//! `moye report`: its output for a PTX file, and its error for other files.

use super::{command, failed, moye, succeeded};
use std::fs;

const PTX: &str = ".version 7.0
.target sm_80
.address_size 64
.visible .entry plain()
{
    ret;
}
.visible .entry divides(.param .u64 x)
{
    .reg .b64 %rd<4>;
    .reg .b32 %r<5>;
    ld.param.u64 %rd1, [x];
    ld.global.v2.b32 {%r1, %r2}, [%rd1];
    ld.global.b64 %rd2, [%rd1];
    div.u64 %rd3, %rd2, %rd1;
    st.global.b64 [%rd1], %rd3;
    ret;
}
";

#[test]
fn a_ptx_file_is_reported_with_widths_classes_and_what_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.ptx"), PTX).unwrap();
    let said = succeeded(&moye(folder.path(), &["report", "k.ptx"]));
    for part in [
        "2x64",
        "divides sm_80: 2 global load, 1 global store, 1 division",
        "1 slow divisions (div.u64), 0 of them in a loop [slow_division]",
    ] {
        assert!(said.contains(part), "`{part}` is in:\n{said}");
    }
    let said = succeeded(&moye(folder.path(), &["report", "k.ptx", "--json", "--kernel", "divides"]));
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["reports"][0]["kernels"].as_array().unwrap().len(), 1, "{said}");
    assert_eq!(json["findings"][0]["lint"], "slow_division", "{said}");
}

#[test]
fn a_denied_finding_and_what_is_no_kernel_are_errors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.ptx"), PTX).unwrap();
    for (arguments, part) in [
        (&["report", "k.ptx", "--deny", "all"][..], "1 findings are denied"),
        (
            &["report", "k.ptx", "--deny", "slowness"],
            "`slowness` is none of the warnings local_memory, spills",
        ),
        (&["report", "k.ptx", "--kernel", "absent"], "k.ptx has no kernel whose name contains absent"),
        (&["report", "absent.ptx"], "absent.ptx is neither a crate's folder nor a file of PTX"),
    ] {
        let output = moye(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(part), "{arguments:?}: {said}");
    }
    let kept = ["report", "k.ptx", "--deny", "local_memory"];
    assert!(moye(folder.path(), &kept).status.success(), "what is not found is not denied");
}

#[test]
fn what_ptxas_alone_tells_is_an_error_to_deny_where_there_is_no_ptxas() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("k.ptx"), PTX).unwrap();
    let report = |kind: &str| {
        let mut command = command(folder.path(), &["report", "k.ptx", "--deny", kind]);
        command.env("MOYE_PTXAS", "off").output().unwrap()
    };
    assert_eq!(
        failed(&report("spills")),
        "spills cannot be checked: no ptxas was found; the variable MOYE_PTXAS names one"
    );
    assert!(report("local_memory").status.success(), "the PTX tells local memory");
}

/// 48 values that are live at the same time, in 24 registers.
fn crowded() -> String {
    let load = |i: u32| format!("    ld.global.b32 %r{i}, [%rd1+{}];\n", 4 * i);
    let store = |i: u32| format!("    st.global.b32 [%rd1+{}], %r{i};\n", 4 * (47 - i));
    let (loads, stores): (String, String) = ((0..48).map(load).collect(), (0..48).map(store).collect());
    format!(
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry crowded(.param .u64 x)\n\
         .maxnreg 24\n{{\n    .reg .b64 %rd<2>;\n    .reg .b32 %r<48>;\n    ld.param.u64 %rd1, [x];\n\
         {loads}    bar.sync 0;\n{stores}    ret;\n}}\n"
    )
}

/// A call through a pointer while the accumulators of a `wgmma` are in flight.
const SERIALIZED: &str = ".version 8.0
.target sm_90a
.address_size 64
.func (.reg .f32 r) scaled(.reg .f32 a)
{
    mul.f32 r, a, a;
    ret;
}
.visible .entry serial(.param .u64 out)
{
    .reg .f32 %f<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [out];
    mov.b64 %rd2, 0;
    mov.b64 %rd3, 0;
    ld.global.f32 %f1, [%rd1];
    ld.global.f32 %f2, [%rd1];
    ld.global.f32 %f3, [%rd1];
    ld.global.f32 %f4, [%rd1];
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd2, %rd3, 1, 1, 1, 0, 0;
    ld.global.b64 %rd4, [%rd1+64];
    proto: .callprototype (.reg .f32 _) _ (.reg .f32 _);
    call (%f5), %rd4, (%f6), proto;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    st.global.f32 [%rd1], %f1;
    st.global.f32 [%rd1+4], %f3;
    st.global.f32 [%rd1+8], %f5;
    ret;
}
";

#[test]
fn spills_and_serialized_wgmma_of_a_ptx_file_are_reported_and_deny_makes_them_errors() {
    let Some(ptxas) = super::common::assembler::ptxas() else { return };
    let folder = tempfile::tempdir().unwrap();
    // ptxas is in the checkout, but the folder is not.
    let moye = |folder: &std::path::Path, arguments: &[&str]| {
        command(folder, arguments).env("MOYE_PTXAS", ptxas.path()).output().unwrap()
    };
    fs::write(folder.path().join("crowded.ptx"), crowded()).unwrap();
    fs::write(folder.path().join("serial.ptx"), SERIALIZED).unwrap();
    for (file, lint, part) in [
        ("crowded.ptx", "spills", "bytes of spilled registers are stored and"),
        ("serial.ptx", "serialized_wgmma", "wgmma.mma_async instructions are serialized"),
    ] {
        let said = succeeded(&moye(folder.path(), &["report", file]));
        assert!(said.contains(part) && said.contains(&format!("[{lint}]")), "{file}: {said}");
        let said = failed(&moye(folder.path(), &["report", file, "--deny", lint]));
        assert!(said.contains("1 findings are denied"), "{file}: {said}");
    }
}

/// A crate whose kernel indexes an array at run time, which moves it to local memory, and divides
/// in a loop.
const CRATE: &str = "\
#![no_std]
#![feature(abi_ptx, asm_experimental_arch)]

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    loop {}
}

#[unsafe(no_mangle)]
pub unsafe extern \"ptx-kernel\" fn indexed(x: *const f32, y: *mut f32, n: u32) {
    let mut all = [0.0_f32; 256];
    for i in 0..256 {
        all[i] = unsafe { *x.add(i) };
    }
    for i in 0..n {
        let value = all[(7 * i % 256) as usize]; // run-time index
        unsafe { *y.add(i as usize) = value };
    }
}

#[unsafe(no_mangle)]
pub unsafe extern \"ptx-kernel\" fn promoted(x: *const f32, y: *mut f32) {
    unsafe { *y = (f64::from(*x) * 0.1 + 1.0) as f32 }; // promotion
}
";

#[test]
fn a_crates_folder_is_compiled_and_reported_with_the_source_lines() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("src")).unwrap();
    let manifest = "[workspace]\n\n[package]\nname = \"slow\"\nversion = \"0.1.0\"\nedition = \"2024\"\n";
    fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
    fs::write(folder.path().join("src/lib.rs"), CRATE).unwrap();
    let said = succeeded(&moye(folder.path(), &["report", ".", "--arch", "sm_80"]));
    for (lint, comment) in [("local_memory", "// run-time index"), ("double_precision", "// promotion")] {
        let line = CRATE.lines().position(|line| line.ends_with(comment)).unwrap() + 1;
        let place = format!("--> src/lib.rs:{line}:");
        assert!(said.contains(&format!("[{lint}]")) && said.contains(&place), "{lint}: {said}");
    }
    let denied = ["report", ".", "--arch", "sm_80", "--deny", "local_memory"];
    assert!(failed(&moye(folder.path(), &denied)).contains("1 findings are denied"));
}
