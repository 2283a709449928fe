//! `moye report`: what it says of a PTX file, and of what is none.

use super::{moye, succeeded};
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
    let kept = ["report", "k.ptx", "--deny", "spills"];
    assert!(moye(folder.path(), &kept).status.success(), "what is not found is not denied");
}
