//! The program's check of its result accepts right products, also at the limits of a type's range.

use crate::{load, moye, save, stdout, succeeded};
use ndarray::{Array2, array};
use std::path::Path;
use tempfile::TempDir;

/// The relative error that a run on these files reports.
fn error(folder: &Path, arguments: &[&str]) -> String {
    let all = [&["matmul", "a.npy", "b.npy", "-o", "out.npy", "--force"], arguments].concat();
    let said = succeeded(&moye(folder, &all));
    said.lines().find(|line| line.starts_with("error")).unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn random_products_at_the_ends_of_the_range_are_right() {
    let folder = TempDir::new().unwrap();
    for arguments in [
        &["--alpha", "1e-44"][..],
        &["--alpha", "3e38"],
        &["--alpha", "-inf"],
        &["--dtype", "f16", "--alpha", "1e-9"],
        &["--dtype", "f16", "--alpha", "3e-8"],
        &["--dtype", "f16", "--alpha", "1e5"],
        // Only sums near 0 are finite, and rounding affects those most.
        &["--dtype", "f16", "--alpha", "1e9"],
        &["--dtype", "f16", "--alpha", "-3e9", "--split-k", "3"],
        &["--dtype", "f16", "--f16-accumulators", "--alpha", "1e7"],
        &["--dtype", "f16", "--alpha", "1e5", "--activation", "gelu"],
        &["--dtype", "f16", "--alpha", "1e4", "--activation", "silu"],
        &["--dtype", "bf16", "--alpha", "1e38"],
        &["--dtype", "bf16", "--alpha", "1e-40"],
        &["--dtype", "f64", "--alpha", "1e308"],
        &["--dtype", "f64", "--alpha", "1e-323"],
        &["--dtype", "i8", "--alpha", "100000"],
        &["--dtype", "i8", "--alpha", "-2147483648", "--activation", "relu"],
        &["--dtype", "f16", "--f32-output", "--alpha", "1e38"],
    ] {
        let output = moye(folder.path(), &[&["matmul"], arguments].concat());
        let said = stdout(&output);
        assert!(output.status.success(), "{arguments:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
        assert!(!said.contains("NaN") && !said.contains("one side"), "{arguments:?}: {said}");
    }
}

#[test]
fn an_alpha_that_float32_does_not_hold_never_ends_with_a_wrong_product() {
    let folder = TempDir::new().unwrap();
    let output = moye(folder.path(), &["matmul", "--alpha", "1e39"]);
    assert!(!String::from_utf8_lossy(&output.stderr).contains("the product is wrong"), "{output:?}");
}

#[test]
fn c_does_not_count_where_beta_is_0() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    save(folder, "a.npy", &Array2::from_elem((4, 4), 1f32));
    save(folder, "b.npy", &Array2::from_elem((4, 4), 2f32));
    for left_out in [f32::NAN, f32::INFINITY] {
        save(folder, "c.npy", &Array2::from_elem((4, 4), left_out));
        let said = error(folder, &["--c", "c.npy", "--beta", "0"]);
        assert!(said.contains("0.0e0 relative"), "{said}");
        assert_eq!(load(folder, "out.npy"), Array2::from_elem((4, 4), 8.0));
    }
}

#[test]
fn equal_infinities_and_nans_are_no_errors() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    save(folder, "a.npy", &array![[f32::INFINITY, 1.0], [f32::NAN, 1.0], [2.0, 3.0]]);
    save(folder, "b.npy", &array![[1f32, -1.0], [1.0, 1.0]]);
    let said = error(folder, &[]);
    assert!(said.contains("0.0e0 relative") && !said.contains("one side"), "{said}");
}

#[test]
fn squares_that_float64_does_not_hold_are_compared() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    save(folder, "b.npy", &array![[1.1f64, 0.3], [0.7, 1.9]]);
    for scale in [1e180, 1e-180] {
        save(folder, "a.npy", &(scale * array![[1f64, 2.0], [3.0, 4.0]]));
        let said = error(folder, &[]);
        let error: f64 = said.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(error < 1e-15, "{said}");
    }
}

#[test]
fn a_sum_beyond_float32_is_the_infinity_that_it_is() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    save(folder, "a.npy", &Array2::from_elem((2, 4), 3e38f32));
    save(folder, "b.npy", &Array2::from_elem((4, 2), 1f32));
    let said = error(folder, &[]);
    assert!(said.contains("0.0e0 relative") && !said.contains("one side"), "{said}");
    assert_eq!(load(folder, "out.npy"), Array2::from_elem((2, 2), f32::INFINITY));
}
