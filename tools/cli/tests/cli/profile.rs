//! `moye profile`: text, JSON and an HTML page of the program's operations, and the requests that
//! it refuses.

use super::{command, failed, moye, succeeded};
use std::fs;

#[test]
fn a_product_is_profiled_as_text_json_and_html() {
    let folder = tempfile::tempdir().unwrap();
    let profile = |more: &[&str]| {
        let arguments = [&["profile", "matmul", "128x128x32", "--type", "f16"], more].concat();
        succeeded(&moye(folder.path(), &arguments))
    };
    let text = profile(&[]);
    for part in [
        "kernel `",
        "card: H100 (sm_90)",
        "occupancy: ",
        "roofline: at least ",
        "bulk bytes",
        "all lines",
        "ops/matmul/kernels/",
    ] {
        assert!(text.contains(part), "`{part}` is in:\n{text}");
    }
    let json: serde_json::Value = serde_json::from_str(&profile(&["--json", "--card", "a100"])).unwrap();
    let operations: u64 = json["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kernel| {
            assert_eq!(kernel["card"], "A100", "{kernel}");
            let by_type = kernel["total"]["tensor_operations"].as_object().unwrap();
            by_type.values().map(|count| count.as_u64().unwrap()).sum::<u64>()
        })
        .sum();
    assert!(operations >= 2 * 128 * 128 * 32, "{operations} operations of tensor cores: {json}");
    assert_eq!(profile(&["--html", "profile.html"]), "");
    let page = fs::read_to_string(folder.path().join("profile.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<h3>ops/matmul/kernels/"), "{page}");
    // The folder is not a checkout.
    assert!(page.contains("</span>    "), "the sources are in it: {page}");
}

#[test]
fn a_profile_has_the_kernels_of_the_named_card() {
    let folder = tempfile::tempdir().unwrap();
    let profile = |card: &str, more: &[&str]| {
        let arguments = [&["profile", "matmul", "128x128x32", "--card", card], more].concat();
        succeeded(&moye(folder.path(), &arguments))
    };
    for card in ["A100", "RTX 4090"] {
        let json: serde_json::Value =
            serde_json::from_str(&profile(card, &["--type", "f16", "--json"])).unwrap();
        for kernel in json["kernels"].as_array().unwrap() {
            assert!(kernel["lacks"].is_null() && kernel["limit"].is_string(), "{card}: {kernel}");
            assert!(kernel["occupancy"]["fraction"].as_f64().unwrap() > 0.0, "{card}: {kernel}");
            assert_eq!(kernel["total"]["bulk_bytes"], 0, "{card} has no TMA: {kernel}");
        }
    }
    assert!(profile("H200", &["--type", "bf16"]).contains("cp.async.bulk.tensor"), "an H200 has");
    // Kernels of e4m3 exist for Hopper alone.
    let arguments = ["profile", "matmul", "128x128x32", "--card", "A100", "--type", "e4m3"];
    let said = failed(&moye(folder.path(), &arguments));
    for part in ["`wgmma`", "sm_90", "simulator of A100 is sm_80"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_product_of_each_operand_type_is_profiled() {
    let folder = tempfile::tempdir().unwrap();
    for (of, operands) in [
        ("f32", None),
        ("tf32", Some("tf32")),
        ("f16", Some("f16")),
        ("f16-accumulators", Some("f16")),
        ("bf16", Some("bf16")),
        ("f64", Some("f64")),
        ("i8", Some("s8")),
        ("e4m3", Some("e4m3")),
        ("e5m2", Some("e5m2")),
    ] {
        let said =
            succeeded(&moye(folder.path(), &["profile", "matmul", "64x64x32", "--type", of, "--json"]));
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        let operations: u64 = json["kernels"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|kernel| kernel["total"]["tensor_operations"].as_object().unwrap())
            .filter(|(types, _)| operands.is_some_and(|operands| types.starts_with(operands)))
            .map(|(_, count)| count.as_u64().unwrap())
            .sum();
        assert!(operands.is_none() || operations >= 2 * 64 * 64 * 32, "{of}: {said}");
    }
}

#[test]
fn a_copy_moves_each_byte_once_and_a_transpose_as_many() {
    let folder = tempfile::tempdir().unwrap();
    for operation in ["copy", "transpose"] {
        let said = succeeded(&moye(folder.path(), &["profile", operation, "64x96x1", "--json"]));
        let json: serde_json::Value = serde_json::from_str(&said).unwrap();
        let total = &json["kernels"][0]["total"];
        let bytes = |of: &str| total[of]["bytes"].as_u64().unwrap();
        let moved = (bytes("global_loads") + bytes("async_loads"), bytes("global_stores"));
        assert_eq!(moved, (4 * 64 * 96, 4 * 64 * 96), "{operation}: {said}");
        let said = failed(&moye(folder.path(), &["profile", operation, "64x96x1", "--type", "f16"]));
        assert_eq!(said, "copies and transposes are of f32, not of f16");
    }
}

#[test]
fn attention_is_profiled_with_its_exponentials_shuffles_and_copies_in_flight() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["profile", "attention", "64x128x64", "--type", "bf16", "--json"];
    let said = succeeded(&moye(folder.path(), &arguments));
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let sum = |of: &dyn Fn(&serde_json::Value) -> u64| {
        json["kernels"].as_array().unwrap().iter().map(|kernel| of(&kernel["total"])).sum::<u64>()
    };
    let class = |name: &str| sum(&|total| total["classes"][name].as_u64().unwrap_or(0));
    // Both products, of 64 queries and 128 keys with 64 columns.
    let operations = sum(&|total| total["tensor_operations"]["bf16"].as_u64().unwrap_or(0));
    assert!(operations >= 2 * 2 * 64 * 128 * 64, "{operations} operations: {said}");
    // One exponential for each score; an instruction computes 32.
    assert!(class("special function") >= 64 * 128 / 32, "{said}");
    assert!(class("warp") > 0 && class("barrier") > 0, "{said}");
    let most = |kernel: &serde_json::Value| kernel["total"]["in_flight"]["max_bytes"].as_u64().unwrap();
    let most = json["kernels"].as_array().unwrap().iter().map(most).max().unwrap();
    assert!(most >= 64 * 64 * 2, "a tile of keys is in flight: {said}");
    let said = failed(&moye(folder.path(), &["profile", "attention", "--type", "i8"]));
    assert_eq!(said, "attention is of f16, bf16 or e4m3, not of i8");
    let said = succeeded(&moye(folder.path(), &["profile", "attention", "64x128x64", "--type", "e4m3"]));
    assert!(said.contains("e4m3"), "{said}");
}

#[test]
fn a_profile_has_the_arithmetic_of_the_ptx_and_the_registers_of_ptxas() {
    let folder = tempfile::tempdir().unwrap();
    let ptxas = super::common::assembler::ptxas();
    let profile = |more: &[&str]| {
        let arguments = [&["profile", "copy", "64x64x1"], more].concat();
        let mut command = command(folder.path(), &arguments);
        // ptxas is in the checkout, but the folder is not.
        command.envs(ptxas.iter().map(|ptxas| ("MOYE_PTXAS", ptxas.path())));
        succeeded(&command.output().unwrap())
    };
    let said = profile(&["--json"]);
    let json: serde_json::Value = serde_json::from_str(&said).unwrap();
    let kernel = &json["kernels"][0];
    assert!(kernel["ptx"]["integer"].as_u64().unwrap() > 0, "{said}");
    let text = profile(&[]);
    assert!(text.contains("plain arithmetic, from the PTX, each instruction once: "), "{text}");
    match kernel["registers"].as_u64() {
        Some(registers) => assert!(text.contains(&format!("({registers} registers)")), "{text}"),
        None => {
            assert!(ptxas.is_none(), "ptxas tells registers: {said}");
            assert!(text.contains("(registers are not known)"), "{text}");
        }
    }
}

#[test]
fn a_card_or_size_that_does_not_exist_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let said = failed(&moye(folder.path(), &["profile", "copy", "--card", "GTX 1"]));
    assert_eq!(said, "`GTX 1` is not one of the cards H100, H200, A100, RTX 4090");
    let said = failed(&moye(folder.path(), &["profile", "copy", "--split-k", "2"]));
    assert!(
        said.starts_with("--tile and --split-k are for products; leave them out for other operations"),
        "{said}"
    );
    let size = usize::MAX.to_string();
    let said = failed(&moye(folder.path(), &["profile", "matmul", &size]));
    assert!(said.contains("is larger than any memory; use a smaller size"), "{said}");
    let output = moye(folder.path(), &["profile", "copy", "64by64"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("`64by64` is not a size"), "{output:?}");
}
