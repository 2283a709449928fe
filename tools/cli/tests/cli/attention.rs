//! `moye attention` on files.

use crate::{failed, moye, save, succeeded};
use half::f16;
use ndarray::{Array4, Ix4};
use ndarray_npy::ReadNpyExt;
use std::fs::{self, File};
use std::path::Path;
use tempfile::TempDir;

/// Saves an array as float16: numbers of 16 bits under the other type's descriptor, which has as
/// many letters.
fn save_half(folder: &Path, name: &str, array: &Array4<f64>) {
    save(folder, name, &array.map(|&x| f16::from_f64(x).to_bits()));
    let mut bytes = fs::read(folder.join(name)).unwrap();
    let at = bytes.windows(3).position(|three| three == b"<u2").unwrap();
    bytes[at..at + 3].copy_from_slice(b"<f2");
    fs::write(folder.join(name), bytes).unwrap();
}

fn load_half(folder: &Path, name: &str) -> Array4<f64> {
    let mut bytes = fs::read(folder.join(name)).unwrap();
    let at = bytes.windows(3).position(|three| three == b"<f2").unwrap();
    bytes[at..at + 3].copy_from_slice(b"<u2");
    let array = ndarray::Array::<u16, Ix4>::read_npy(bytes.as_slice()).unwrap();
    array.mapv(|bits| f16::from_bits(bits).to_f64())
}

/// Two query heads on one KV head, 3 queries of 5 keys.
fn files() -> (TempDir, [Array4<f64>; 3]) {
    let folder = TempDir::new().unwrap();
    let number = |seed: usize| {
        move |(b, h, t, c): (usize, usize, usize, usize)| {
            ((seed + 7 * b + 5 * h + 3 * t + c * c) % 13) as f64 / 8.0 - 0.75
        }
    };
    let arrays = [
        Array4::from_shape_fn((1, 2, 3, 64), number(1)),
        Array4::from_shape_fn((1, 1, 5, 64), number(2)),
        Array4::from_shape_fn((1, 1, 5, 64), number(3)),
    ];
    for (name, array) in ["q.npy", "k.npy", "v.npy"].iter().zip(&arrays) {
        save_half(folder.path(), name, array);
    }
    (folder, arrays)
}

/// Results and logarithms; a query sees the keys that `sees(query, key)`.
fn reference(
    [q, k, v]: &[Array4<f64>; 3],
    scale: f64,
    sees: impl Fn(i64, i64) -> bool,
) -> (Array4<f64>, Array4<f64>) {
    let (mut o, mut lse) = (Array4::zeros((1, 2, 3, 64)), Array4::zeros((1, 2, 3, 1)));
    for head in 0..2 {
        for query in 0..3 {
            let seen: Vec<usize> = (0..5).filter(|&key| sees(query as i64, key as i64)).collect();
            let score =
                |key: usize| (0..64).map(|c| q[[0, head, query, c]] * k[[0, 0, key, c]]).sum::<f64>() * scale;
            let total: f64 = seen.iter().map(|&key| score(key).exp()).sum();
            lse[[0, head, query, 0]] = total.ln();
            for c in 0..64 {
                o[[0, head, query, c]] =
                    seen.iter().map(|&key| score(key).exp() / total * v[[0, 0, key, c]]).sum();
            }
        }
    }
    (o, lse)
}

fn close(got: &Array4<f64>, want: &Array4<f64>) {
    assert_eq!(got.shape(), want.shape());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < 2e-3, "{got}, expected {want}");
    }
}

#[test]
fn attention_of_files_is_that_of_its_mask_and_scale() {
    let (folder, arrays) = files();
    let folder = folder.path();
    let run = |arguments: &[&str]| {
        let files = ["attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy", "--lse", "lse.npy", "--force"];
        let told = succeeded(&moye(folder, &[&files[..], arguments].concat()));
        assert!(told.contains("q [1, 2, 3, 64], k [1, 1, 5, 64]"), "{told}");
        let lse = Array4::<f32>::read_npy(File::open(folder.join("lse.npy")).unwrap()).unwrap();
        (load_half(folder, "o.npy"), lse.mapv(f64::from))
    };
    type Sees = fn(i64, i64) -> bool;
    let cases: [(&[&str], f64, Sees); 3] = [
        (&[], 0.125, |_, _| true),
        (&["--causal"], 0.125, |query, key| key <= query + 2),
        (&["--window", "1,0", "--scale", "0.5"], 0.5, |query, key| key <= query + 2 && key > query),
    ];
    for (arguments, scale, sees) in cases {
        let (o, lse) = run(arguments);
        let want = reference(&arrays, scale, sees);
        close(&o, &want.0);
        close(&lse, &want.1);
    }
}

#[test]
fn files_that_do_not_fit_are_refused_and_nothing_is_written() {
    let (folder, arrays) = files();
    let folder = folder.path();
    save_half(folder, "k.npy", &arrays[0]);
    let said = failed(&moye(folder, &["attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy"]));
    assert!(said.contains("q [1, 2, 3, 64], k [1, 2, 3, 64], v [1, 1, 5, 64]"), "{said}");
    let flat = ndarray::Array2::<f32>::zeros((3, 64));
    save(folder, "q.npy", &flat);
    let said = failed(&moye(folder, &["attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy"]));
    assert!(said.contains("float32; attention needs float16, bfloat16 or float8_e4m3fn"), "{said}");
    assert!(!folder.join("o.npy").exists());
}
