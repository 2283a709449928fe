//! `moye attention` on files.

use crate::oracle::{dot, row};
use crate::{failed, in_fortran_order, moye, save, succeeded};
use half::{bf16, f16};
use moye::number::{F8E4M3, Scalar};
use ndarray::{Array1, Array2, Array4, s};
use ndarray_npy::ReadNpyExt;
use std::fs::{self, File};
use std::path::Path;
use tempfile::TempDir;

/// Replaces the type descriptor of a file by another of the same length.
fn relabel(folder: &Path, name: &str, from: &str, to: &str) {
    let mut bytes = fs::read(folder.join(name)).unwrap();
    let at = bytes.windows(3).position(|three| three == from.as_bytes()).unwrap();
    bytes[at..at + 3].copy_from_slice(to.as_bytes());
    fs::write(folder.join(name), bytes).unwrap();
}

/// Saves an array as float16: 16-bit words under the other type's descriptor.
fn save_half(folder: &Path, name: &str, array: &Array4<f64>) {
    save(folder, name, &array.map(|&x| f16::from_f64(x).to_bits()));
    relabel(folder, name, "<u2", "<f2");
}

/// Reads an array of 16-bit words with this descriptor.
fn load_bits(folder: &Path, name: &str, descriptor: &str, wide: fn(u16) -> f64) -> Array4<f64> {
    relabel(folder, name, descriptor, "<u2");
    Array4::<u16>::read_npy(File::open(folder.join(name)).unwrap()).unwrap().mapv(wide)
}

fn load_half(folder: &Path, name: &str) -> Array4<f64> {
    load_bits(folder, name, "<f2", |bits| f16::from_bits(bits).to_f64())
}

fn load_bf16(folder: &Path, name: &str) -> Array4<f64> {
    load_bits(folder, name, "<V2", |bits| bf16::from_bits(bits).to_f64())
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

/// Results and log-sum-exps; a query attends to the keys for which `sees(query, key)` is true.
fn reference(
    [q, k, v]: &[Array4<f64>; 3],
    scale: f64,
    sees: impl Fn(i64, i64) -> bool,
) -> (Array4<f64>, Array4<f64>) {
    let (mut o, mut lse) = (Array4::zeros((1, 2, 3, 64)), Array4::zeros((1, 2, 3, 1)));
    for head in 0..2 {
        for query in 0..3 {
            let seen = (0..5).filter(|&key| sees(query as i64, key as i64));
            let elements = |tensor: &Array4<f64>, head: usize, token: usize| {
                (0..64).map(|c| tensor[[0, head, token, c]]).collect::<Vec<_>>()
            };
            let q = elements(q, head, query);
            let scores = seen.map(|key| (key, dot(q.iter().copied(), elements(k, 0, key)) * scale));
            let row = row(scores, f64::NEG_INFINITY, 64, |key| elements(v, 0, key));
            lse[[0, head, query, 0]] = row.lse;
            row.values.into_iter().enumerate().for_each(|(c, x)| o[[0, head, query, c]] = x);
        }
    }
    (o, lse)
}

fn close(got: &Array4<f64>, want: &Array4<f64>) {
    within(2e-3, got, want);
}

fn within(bound: f64, got: &Array4<f64>, want: &Array4<f64>) {
    assert_eq!(got.shape(), want.shape());
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < bound, "{got}, expected {want}");
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
    let cases: [(&[&str], f64, Sees); 4] = [
        (&[], 0.125, |_, _| true),
        (&["--causal"], 0.125, |query, key| key <= query + 2),
        (&["--window", "1,0", "--scale", "0.5"], 0.5, |query, key| key <= query + 2 && key > query),
        (&["--window", "1,-", "--causal"], 0.125, |query, key| key <= query + 2 && key > query),
    ];
    for (arguments, scale, sees) in cases {
        let (o, lse) = run(arguments);
        let want = reference(&arrays, scale, sees);
        close(&o, &want.0);
        close(&lse, &want.1);
    }
}

#[test]
fn files_without_keys_queries_heads_or_batches_have_results() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for (q, kv) in [
        ((1, 2, 3, 64), (1, 1, 0, 64)),
        ((1, 2, 0, 64), (1, 1, 5, 64)),
        ((1, 0, 3, 64), (1, 0, 5, 64)),
        ((0, 2, 3, 64), (0, 1, 5, 64)),
    ] {
        for (name, shape) in [("q.npy", q), ("k.npy", kv), ("v.npy", kv)] {
            save_half(folder, name, &Array4::ones(shape));
        }
        succeeded(&moye(folder, &[&FILES[..], &["--lse", "lse.npy"]].concat()));
        assert_eq!(load_half(folder, "o.npy"), Array4::<f64>::zeros(q), "{q:?} and {kv:?}");
        let lse = Array4::<f32>::read_npy(File::open(folder.join("lse.npy")).unwrap()).unwrap();
        let rows = (q.0, q.1, q.2, 1);
        assert_eq!(lse, Array4::from_elem(rows, f32::NEG_INFINITY), "{q:?} and {kv:?}");
    }
}

#[test]
fn the_order_of_files_of_one_token_or_none_does_not_count() {
    let (folder, arrays) = files();
    let folder = folder.path();
    for tokens in [1, 0] {
        let one = arrays[0].slice(s![.., ..1, ..tokens, ..]).to_owned();
        for name in ["q.npy", "k.npy", "v.npy"] {
            save_half(folder, name, &one);
            in_fortran_order(folder, name);
        }
        succeeded(&moye(folder, &FILES));
        assert_eq!(load_half(folder, "o.npy"), one, "the value of the one key");
    }
}

const FILES: [&str; 7] = ["attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy", "--force"];

#[test]
fn attention_of_bfloat16_is_known_by_the_files_or_by_the_option() {
    let (folder, arrays) = files();
    let folder = folder.path();
    let (want, _) = reference(&arrays, 0.125, |_, _| true);
    for (descriptor, options) in [("<V2", &[][..]), ("<u2", &["--dtype", "bf16"])] {
        for (name, array) in FILES[1..4].iter().zip(&arrays) {
            save(folder, name, &array.map(|&x| bf16::from_f64(x).to_bits()));
            relabel(folder, name, "<u2", descriptor);
        }
        let told = succeeded(&moye(folder, &[&FILES[..], options].concat()));
        assert!(told.contains("_bf16_64"), "{told}");
        // Results of bf16 below 1, whose probabilities are rounded too.
        within(1.0 / 128.0, &load_bf16(folder, "o.npy"), &want);
    }
    let said = failed(&moye(folder, &FILES));
    assert!(said.contains("if it stores bfloat16, add --dtype bf16"), "{said}");
}

#[test]
fn attention_of_8_bit_floats_has_scale_factors_by_file() {
    let (folder, arrays) = files();
    let folder = folder.path();
    // The values of the files are eighths, which e4m3 represents.
    for (name, array) in FILES[1..4].iter().zip(&arrays) {
        save(folder, name, &array.map(|&x| F8E4M3::nearest(x).to_bits()));
        relabel(folder, name, "|u1", "<V1");
    }
    // One factor for each query head, one for the keys, one for each head of the values.
    save(folder, "sq.npy", &Array1::from_vec(vec![2.0f32, 0.5]));
    save(folder, "sk.npy", &Array1::from_vec(vec![1.5f32]));
    save(folder, "sv.npy", &Array1::from_vec(vec![3.0f32]));
    // The one type of 8 bits that attention takes.
    let options = ["--lse", "lse.npy", "--causal"];
    let scales = ["--scale-q", "sq.npy", "--scale-k", "sk.npy", "--scale-v", "sv.npy"];
    let [mut q, mut k, mut v] = arrays.clone();
    for (given, factors) in [(&[][..], [1.0, 1.0, 1.0, 1.0]), (&scales, [2.0, 0.5, 1.5, 3.0])] {
        q.slice_mut(s![0, 0, .., ..]).assign(&(&arrays[0].slice(s![0, 0, .., ..]) * factors[0]));
        q.slice_mut(s![0, 1, .., ..]).assign(&(&arrays[0].slice(s![0, 1, .., ..]) * factors[1]));
        k.assign(&(&arrays[1] * factors[2]));
        v.assign(&(&arrays[2] * factors[3]));
        let told = succeeded(&moye(folder, &[&FILES[..], &options, given].concat()));
        assert!(told.contains("hopper_e4m3_64"), "{told}");
        let want = reference(&[q.clone(), k.clone(), v.clone()], 0.125, |query, key| key <= query + 2);
        // Probabilities have e4m3's four significant bits, results bf16's eight.
        within(0.05 * factors[3], &load_bf16(folder, "o.npy"), &want.0);
        let lse = Array4::<f32>::read_npy(File::open(folder.join("lse.npy")).unwrap()).unwrap();
        within(5e-3, &lse.mapv(f64::from), &want.1);
    }

    save(folder, "sq.npy", &Array1::from_vec(vec![1.0f32; 3]));
    let said = failed(&moye(folder, &[&FILES[..], &options, &scales].concat()));
    assert!(said.contains("q_scale has shape (3,), and must have (1,) or (2,) or (1, 2)"), "{said}");
    save(folder, "sq.npy", &Array1::from_vec(vec![1.0f32, 0.0]));
    let said = failed(&moye(folder, &[&FILES[..], &options, &scales].concat()));
    assert!(said.contains("q_scale has 0, and its factors must be positive"), "{said}");
    let (half, _) = files();
    save(half.path(), "sq.npy", &Array1::from_vec(vec![1.0f32]));
    let said = failed(&moye(half.path(), &[&FILES[..], &["--scale-q", "sq.npy"]].concat()));
    assert!(said.contains("are for float8_e4m3fn, and q has elements of float16"), "{said}");
}

#[test]
fn files_that_do_not_fit_are_refused_and_nothing_is_written() {
    let (folder, arrays) = files();
    let folder = folder.path();
    save_half(folder, "k.npy", &arrays[0]);
    let said = failed(&moye(folder, &["attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy"]));
    assert!(said.contains("q [1, 2, 3, 64], k [1, 2, 3, 64], v [1, 1, 5, 64]"), "{said}");
    let flat = Array2::<f32>::zeros((3, 64));
    save(folder, "q.npy", &flat);
    let said = failed(&moye(folder, &["attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy"]));
    assert!(
        said.contains("q.npy: q has elements of float32, and must have bfloat16, float16 or float8_e4m3fn"),
        "{said}"
    );
    assert!(!folder.join("o.npy").exists());
}

/// Options that only the declaration has: lengths, offsets and pages by files.
#[test]
fn sequences_of_files_are_attended_to_each_by_itself_and_wrong_offsets_are_refused() {
    let (folder, [q, k, v]) = files();
    let folder = folder.path();
    save(folder, "q_offsets.npy", &Array1::from_vec(vec![0i32, 1, 3]));
    save(folder, "k_offsets.npy", &Array1::from_vec(vec![0i32, 4, 5]));
    let run = ["run", "attention", "q.npy", "k.npy", "v.npy", "-o", "o.npy", "--force"];
    let offsets = ["--q_offsets", "q_offsets.npy", "--k_offsets", "k_offsets.npy"];
    succeeded(&moye(folder, &[&run[..], &offsets].concat()));
    let got = load_half(folder, "o.npy");
    // The second sequence has two queries and one key, whose value is the result.
    for (head, query) in [(0, 1), (0, 2), (1, 1), (1, 2)] {
        for column in 0..64 {
            assert_eq!(got[[0, head, query, column]], v[[0, 0, 4, column]], "{head} {query} {column}");
        }
    }
    assert_eq!((q.shape()[2], k.shape()[2]), (3, 5));
    save(folder, "q_offsets.npy", &Array1::from_vec(vec![0i32, 1, 4]));
    let said = failed(&moye(folder, &[&run[..], &offsets].concat()));
    assert!(
        said.contains("q_offsets is [0, 1, 4]: it must ascend from 0 to at most the 3 tokens of q"),
        "{said}"
    );
    save(folder, "mask.npy", &Array2::from_shape_fn((3, 5), |(_, key)| key == 2));
    succeeded(&moye(folder, &[&run[..], &["--mask", "mask.npy"]].concat()));
    assert_eq!(load_half(folder, "o.npy")[[0, 1, 0, 7]], v[[0, 0, 2, 7]], "the one key that is not hidden");
}
