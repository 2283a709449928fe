//! `moye matmul` on every element type, with each epilogue, compared with float64.

use crate::common::gpu;
use crate::{command, failed, moye, names, save, succeeded};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2, Scalar};
use ndarray::{Array1, Array2, ShapeBuilder};
use ndarray_npy::{ReadNpyExt, ReadableElement, WritableElement};
use std::fs::{self, File};
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

/// Small integers: products and sums are exact in every type.
fn whole(rows: usize, cols: usize, fortran: bool) -> Array2<f64> {
    Array2::from_shape_fn((rows, cols).set_f(fortran), |(i, j)| ((5 * i + 3 * j) % 7) as f64 - 3.0)
}

/// Elements of files: how they are written and read, with and without `ndarray-npy`.
trait OfFile: Sized {
    const NAME: &'static str;
    fn save(folder: &Path, name: &str, matrix: &Array2<f64>);
    fn load(folder: &Path, name: &str) -> Array2<f64>;
}

fn save_as<T: WritableElement>(folder: &Path, name: &str, matrix: &Array2<f64>, narrow: impl Fn(f64) -> T) {
    save(folder, name, &matrix.map(|&x| narrow(x)));
}

fn load_as<T: ReadableElement + Copy>(folder: &Path, name: &str, wide: impl Fn(T) -> f64) -> Array2<f64> {
    let read = Array2::<T>::read_npy(File::open(folder.join(name)).unwrap());
    read.unwrap_or_else(|error| panic!("{name}: {error}")).mapv(wide)
}

macro_rules! known {
    ($($t:ty: $name:literal),*) => { $(
        impl OfFile for $t {
            const NAME: &'static str = $name;
            fn save(folder: &Path, name: &str, matrix: &Array2<f64>) {
                save_as(folder, name, matrix, |x| x as $t);
            }
            fn load(folder: &Path, name: &str) -> Array2<f64> {
                load_as::<$t>(folder, name, f64::from)
            }
        }
    )* };
}
known!(f32: "float32", f64: "float64", i8: "int8", i32: "int32");

/// A file of unsigned 16-bit integers under another type descriptor of the same length.
fn relabelled(folder: &Path, name: &str, matrix: &Array2<u16>, descriptor: &str) {
    save(folder, name, matrix);
    relabel(folder, name, "<u2", descriptor);
}

fn relabel(folder: &Path, name: &str, from: &str, to: &str) {
    let mut bytes = fs::read(folder.join(name)).unwrap();
    let text = String::from_utf8_lossy(&bytes[..128]).into_owned();
    let at = text.find(from).unwrap_or_else(|| panic!("{name} has the type {from}: {text}"));
    // The first bytes of a file are not text, but each becomes one character of the conversion.
    let at = at - (text.len() - 128);
    bytes[at..at + from.len()].copy_from_slice(to.as_bytes());
    fs::write(folder.join(name), bytes).unwrap();
}

macro_rules! halves {
    ($($t:ty: $name:literal, $descriptor:literal),*) => { $(
        impl OfFile for $t {
            const NAME: &'static str = $name;
            fn save(folder: &Path, name: &str, matrix: &Array2<f64>) {
                relabelled(folder, name, &matrix.map(|&x| <$t>::from_f64(x).to_bits()), $descriptor);
            }
            fn load(folder: &Path, name: &str) -> Array2<f64> {
                // NumPy reads the type that the header states.
                relabel(folder, name, $descriptor, "<u2");
                load_as::<u16>(folder, name, |bits| <$t>::from_bits(bits).to_f64())
            }
        }
    )* };
}
halves!(f16: "float16", "<f2", bf16: "bfloat16", "<V2");

macro_rules! of_8_bits {
    ($($t:ty: $name:literal, $descriptor:literal),*) => { $(
        impl OfFile for $t {
            const NAME: &'static str = $name;
            fn save(folder: &Path, name: &str, matrix: &Array2<f64>) {
                save(folder, name, &matrix.map(|&x| <$t>::nearest(x).to_bits()));
                relabel(folder, name, "|u1", $descriptor);
            }
            fn load(_: &Path, _: &str) -> Array2<f64> {
                unreachable!("no product is of 8 bits")
            }
        }
    )* };
}
// As ml_dtypes 0.6 writes them.
of_8_bits!(F8E4M3: "float8_e4m3fn", "<V1", F8E5M2: "float8_e5m2", "<f1");

/// Multiplies files of `T` and asserts that the result, of type `U`, is exact.
fn exact<T: OfFile, U: OfFile>(options: &[&str], run: impl Fn(&Path, &[&str]) -> Output) {
    for (m, n, k, fortran) in
        [(33, 41, 17, [false, false]), (8, 16, 24, [true, false]), (65, 3, 40, [false, true])]
    {
        let folder = TempDir::new().unwrap();
        let folder = folder.path();
        let (a, b) = (whole(m, k, fortran[0]), whole(k, n, fortran[1]));
        T::save(folder, "a.npy", &a);
        T::save(folder, "b.npy", &b);
        let said = succeeded(&run(folder, &[&["matmul", "a.npy", "b.npy", "-o", "c.npy"], options].concat()));
        for word in [T::NAME, U::NAME, "0.0e0 relative to a float64 reference", &format!("{m} x {n} x {k}")] {
            assert!(said.contains(word), "{word} is missing: {said}");
        }
        assert_eq!(U::load(folder, "c.npy"), a.dot(&b), "{} to {} {options:?}", T::NAME, U::NAME);
    }
}

fn all_types(run: impl Fn(&Path, &[&str]) -> Output) {
    exact::<f16, f16>(&[], &run);
    exact::<f16, f32>(&["--f32-output"], &run);
    exact::<f16, f16>(&["--f16-accumulators"], &run);
    exact::<bf16, f32>(&["--f32-output"], &run);
    exact::<f32, f32>(&["--tf32"], &run);
    exact::<f32, f32>(&["--dtype", "f32"], &run);
    exact::<f64, f64>(&[], &run);
    exact::<i8, i32>(&[], &run);
    exact::<F8E4M3, f32>(&["--dtype", "e4m3", "--f32-output"], &run);
    exact::<F8E5M2, f32>(&["--f32-output"], &run);
    exact::<f16, f16>(&["--tile", "64x64", "--split-k", "2"], &run);
}

#[test]
fn products_of_every_type_are_those_of_float64() {
    all_types(moye);
}

#[test]
fn products_of_every_type_on_a_gpu_are_those_of_float64() {
    if gpu().is_some() {
        all_types(|folder, arguments| command(folder, arguments).env("MOYE_DEVICE", "gpu").output().unwrap());
    }
}

#[test]
fn bfloat16_is_known_by_what_ml_dtypes_writes_or_by_the_option() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let one = bf16::ONE.to_bits();
    let matrix = Array2::from_elem((4, 4), one);
    save(folder, "u2.npy", &matrix);
    relabelled(folder, "void.npy", &matrix, "|V2");
    // NumPy's header, with a name that is longer than a descriptor.
    let text = "{'descr': 'bfloat16', 'fortran_order': False, 'shape': (4, 4), }";
    let mut named = [&b"\x93NUMPY\x01\x00\x76\x00"[..], format!("{text:<117}\n").as_bytes()].concat();
    named.extend(one.to_le_bytes().repeat(16));
    fs::write(folder.join("named.npy"), named).unwrap();
    for file in ["void.npy", "named.npy"] {
        let said = succeeded(&moye(folder, &["matmul", file, "named.npy", "-o", "c.npy", "--force"]));
        assert!(said.contains("bfloat16"), "{file}: {said}");
        assert_eq!(bf16::load(folder, "c.npy"), Array2::from_elem((4, 4), 4.0), "{file}");
    }
    let said = failed(&moye(folder, &["matmul", "u2.npy", "u2.npy", "-o", "d.npy"]));
    assert!(said.starts_with("u2.npy holds uint16; if it stores bfloat16, add --dtype bf16"), "{said}");
    succeeded(&moye(folder, &["matmul", "u2.npy", "void.npy", "--dtype", "bf16", "-o", "d.npy"]));
    assert_eq!(bf16::load(folder, "d.npy"), Array2::from_elem((4, 4), 4.0));
}

#[test]
fn floats_of_8_bits_are_known_by_what_ml_dtypes_writes_or_by_the_option() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let ones = Array2::from_elem((4, 4), 1.0);
    F8E4M3::save(folder, "e4m3.npy", &ones);
    F8E5M2::save(folder, "e5m2.npy", &ones);
    save(folder, "bytes.npy", &ones.map(|&x| F8E5M2::nearest(x).to_bits()));
    for (files, option, name) in [
        (["e4m3.npy", "e4m3.npy"], "e4m3", "float8_e4m3fn to bfloat16"),
        (["e5m2.npy", "bytes.npy"], "e5m2", "float8_e5m2 to bfloat16"),
    ] {
        let arguments = ["matmul", files[0], files[1], "--dtype", option, "-o", "c.npy", "--force"];
        let said = succeeded(&moye(folder, &arguments));
        assert!(said.contains(name), "{said}");
        assert_eq!(bf16::load(folder, "c.npy"), Array2::from_elem((4, 4), 4.0), "{files:?}");
    }
    for (file, expected) in [
        (
            "e4m3.npy",
            "e4m3.npy holds bytes without a type; if they are float8_e4m3fn of ml_dtypes, add --dtype e4m3",
        ),
        ("bytes.npy", "bytes.npy holds uint8, and products take float16, bfloat16, "),
    ] {
        let said = failed(&moye(folder, &["matmul", file, file, "-o", "d.npy"]));
        assert!(said.starts_with(expected), "{said}");
    }
    // In declared operations bytes without a type are e4m3, as the program writes it.
    succeeded(&moye(folder, &["copy", "e4m3.npy", "-o", "copied.npy"]));
    let [copied, given] = ["copied.npy", "e4m3.npy"].map(|file| fs::read(folder.join(file)).unwrap());
    assert!(copied.ends_with(&given[given.len() - 16..]), "the elements");
    assert!(String::from_utf8_lossy(&copied).contains("V1"), "the element type");
    save(folder, "u2.npy", &Array2::from_elem((2, 2), 1_u16));
    let said = failed(&moye(folder, &["transpose", "u2.npy", "-o", "d.npy"]));
    assert!(said.contains("if it stores bfloat16, add --dtype bf16"), "{said}");
    succeeded(&moye(folder, &["transpose", "u2.npy", "--dtype", "bf16", "-o", "d.npy"]));
}

#[test]
fn scales_of_8_bit_floats_are_factors_of_rows_and_columns() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let (a, b) = (whole(20, 30, false), whole(30, 10, true));
    F8E5M2::save(folder, "a.npy", &a);
    F8E5M2::save(folder, "b.npy", &b);
    let (rows, columns) = (
        Array1::from_iter((0..20).map(|i| 2f32.powi(i % 5 - 2))),
        Array1::from_iter((0..10).map(|j| 2f32.powi(j % 3))),
    );
    save(folder, "rows.npy", &rows);
    save(folder, "columns.npy", &columns);
    save(folder, "half.npy", &Array1::from_elem(1, 0.5f32));
    let product = a.dot(&b);
    let of_rows = rows.mapv(f64::from).into_shape_with_order((20, 1)).unwrap();
    let of_columns = columns.mapv(f64::from);
    for (options, expected) in [
        (&["--scale-a", "rows.npy"][..], &product * &of_rows),
        (&["--scale-b", "columns.npy", "--alpha", "3"], 3.0 * &product * &of_columns),
        (&["--scale-a", "half.npy", "--scale-b", "columns.npy"], 0.5 * &product * &of_columns),
        (&["--scale-a", "rows.npy", "--scale-b", "half.npy", "--split-k", "2"], 0.5 * &product * &of_rows),
    ] {
        let arguments =
            [&["matmul", "a.npy", "b.npy", "--f32-output", "-o", "c.npy", "--force"], options].concat();
        let said = succeeded(&moye(folder, &arguments));
        assert_eq!(f32::load(folder, "c.npy"), expected, "{options:?}");
        assert!(said.contains("0.0e0 relative to a float64 reference"), "{options:?}: {said}");
    }
}

#[test]
fn each_option_of_the_epilogue_is_applied() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let (a, b, before) = (whole(20, 30, false), whole(30, 10, true), whole(20, 10, true));
    f64::save(folder, "a.npy", &a);
    f64::save(folder, "b.npy", &b);
    f64::save(folder, "before.npy", &before);
    let (columns, rows) =
        (Array1::from_iter((0..10).map(f64::from)), Array1::from_iter((0..20).map(f64::from)));
    save(folder, "columns.npy", &columns);
    save(folder, "rows.npy", &rows);
    let product = a.dot(&b);
    let column = rows.clone().into_shape_with_order((20, 1)).unwrap();
    let silu = |x: f64| x / (1.0 + (-x).exp());
    let gelu = |x: f64| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2);
    let gelu_tanh =
        |x: f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    for (options, expected) in [
        (&["--alpha", "-0.5"][..], -0.5 * &product),
        (&["--c", "before.npy"], &product + &before),
        (&["--c", "before.npy", "--beta", "-2", "--alpha", "3"], 3.0 * &product - 2.0 * &before),
        (&["--bias", "columns.npy"], &product + &columns),
        (&["--bias-rows", "rows.npy", "--activation", "relu"], (&product + &column).mapv(|x| x.max(0.0))),
        (&["--alpha", "0.01", "--activation", "gelu"], (0.01 * &product).mapv(gelu)),
        (&["--alpha", "0.01", "--activation", "gelu_tanh"], (0.01 * &product).mapv(gelu_tanh)),
        (&["--alpha", "0.01", "--activation", "silu", "--split-k", "2"], (0.01 * &product).mapv(silu)),
    ] {
        let arguments = [&["matmul", "a.npy", "b.npy", "-o", "c.npy", "--force"], options].concat();
        let said = succeeded(&moye(folder, &arguments));
        let c = f64::load(folder, "c.npy");
        let off = (&c - &expected).mapv(f64::abs).fold(0.0, |most: f64, &x| most.max(x));
        // The device's exponential of f64 is as accurate as the type; sums of integers are exact.
        assert!(off <= 1e-12 * 200.0, "{options:?}: off by {off}: {said}");
        let told = said.lines().find_map(|line| line.strip_prefix("error")).unwrap_or_default().trim();
        let told: f64 = told.split(' ').next().unwrap().parse().unwrap();
        assert!(told < 1e-12, "{options:?}: the reference has it too: {said}");
    }
}

#[test]
fn an_alpha_of_zero_leaves_the_matrices_out() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let before = whole(20, 10, true);
    f64::save(folder, "a.npy", &Array2::from_elem((20, 30), f64::NAN));
    f64::save(folder, "b.npy", &Array2::from_elem((30, 10), f64::INFINITY));
    f64::save(folder, "before.npy", &before);
    for (alpha, expected) in [("0", 2.0 * &before), ("-0.0", 2.0 * &before)] {
        let said = succeeded(&moye(
            folder,
            &[
                "matmul",
                "a.npy",
                "b.npy",
                "--alpha",
                alpha,
                "--c",
                "before.npy",
                "--beta",
                "2",
                "-o",
                "c.npy",
                "--force",
            ],
        ));
        assert_eq!(f64::load(folder, "c.npy"), expected, "{said}");
        assert!(said.contains("none"), "no kernel multiplies: {said}");
    }
}

#[test]
fn options_that_do_not_fit_are_refused_with_the_values() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    f16::save(folder, "f16.npy", &whole(4, 4, false));
    bf16::save(folder, "bf16.npy", &whole(4, 4, false));
    f32::save(folder, "f32.npy", &whole(4, 4, false));
    f64::save(folder, "f64.npy", &whole(4, 4, false));
    i8::save(folder, "i8.npy", &whole(4, 4, false));
    F8E5M2::save(folder, "e5m2.npy", &whole(4, 4, false));
    f32::save(folder, "wide.npy", &whole(4, 5, false));
    save(folder, "three.npy", &Array1::from_elem(3, 1f32));
    let before = names(folder);
    for (arguments, expected) in [
        (
            &["f16.npy", "bf16.npy"][..],
            "f16.npy holds float16 and bf16.npy holds bfloat16; both must have one type, such as float32; \
             f16.npy: convert it with a.astype('float32'); \
             bf16.npy: convert it with a.view(ml_dtypes.bfloat16).astype('float32')",
        ),
        (
            &["f32.npy", "f64.npy"],
            "f32.npy holds float32 and f64.npy holds float64; both must have one type, such as float64; \
             f32.npy: convert it with a.astype('float64')",
        ),
        (
            &["f16.npy", "f16.npy", "--dtype", "bf16"],
            "f16.npy holds float16, but --dtype is bfloat16; leave --dtype out",
        ),
        (
            &["f64.npy", "f64.npy", "--f32-output"],
            "--f32-output is for float16, bfloat16 and 8-bit floats, and these matrices are float64",
        ),
        (&["f64.npy", "f64.npy", "--tf32"], "--tf32 is for float32, and these matrices are float64"),
        (
            &["f32.npy", "f32.npy", "--f16-accumulators"],
            "--f16-accumulators is for float16, and these matrices are float32",
        ),
        (&["f16.npy", "f16.npy", "--tf32"], "--tf32 is for float32, and these matrices are float16"),
        (
            &["i8.npy", "i8.npy", "--alpha", "0.5"],
            "alpha is 0.5, and products of int8 take a whole number of 32 bits",
        ),
        (
            &["f32.npy", "f32.npy", "--alpha", "1e39"],
            "alpha is 1e39, and products of float32 take a float of 32 bits, which is 0 or from 1.4e-45 to 3.4e38 in magnitude; scale the \
             matrices instead, or convert them to floats of 64 bits",
        ),
        (
            &["f16.npy", "f16.npy", "--alpha", "-1e39"],
            "alpha is -1e39, and products of float16 take a float of 32 bits",
        ),
        (
            &["f32.npy", "f32.npy", "--alpha", "1e-50"],
            "alpha is 1e-50, and products of float32 take a float of 32 bits",
        ),
        (
            &["e5m2.npy", "e5m2.npy", "--alpha", "1e-50"],
            "alpha is 1e-50, and products of float8_e5m2 take a float of",
        ),
        (
            &["f32.npy", "f32.npy", "--c", "f32.npy", "--beta", "1e-50"],
            "beta is 1e-50, and products of float32 take a float of 32 bits",
        ),
        (&["i8.npy", "i8.npy", "--activation", "gelu"], "are for floats, and the product of int8 is int32"),
        (&["f32.npy", "f32.npy", "--c", "wide.npy"], "wide.npy is 4x5, but the product is 4x4"),
        (&["f32.npy", "f32.npy", "--c", "f16.npy"], "f16.npy holds float16, not float32; convert it"),
        (
            &["i8.npy", "i8.npy", "--c", "i8.npy"],
            "i8.npy holds int8, not int32; convert it with a.astype('int32')",
        ),
        (
            &["f32.npy", "f32.npy", "--bias", "three.npy"],
            "three.npy has 3 elements, but the product has 4 columns",
        ),
        (
            &["f32.npy", "f32.npy", "--bias-rows", "three.npy"],
            "three.npy has 3 elements, but the product has 4 rows",
        ),
        (&["f32.npy", "f32.npy", "--bias", "wide.npy"], "wide.npy holds a 2-dimensional array, not a vector"),
        (
            &["f32.npy", "f32.npy", "--scale-a", "three.npy"],
            "--scale-a and --scale-b are for 8-bit floats, and f32.npy holds float32; use --alpha for other types",
        ),
        (
            &["e5m2.npy", "e5m2.npy", "--scale-b", "three.npy"],
            "three.npy has 3 elements, and e5m2.npy has 4 columns; give one scale, or one for each",
        ),
        (
            &["e5m2.npy", "e5m2.npy", "--dtype", "e4m3"],
            "e5m2.npy holds float8_e5m2, but --dtype is float8_e4m3fn; leave --dtype out",
        ),
        (&["e5m2.npy", "e5m2.npy", "--tf32"], "--tf32 is for float32, and these matrices are float8_e5m2"),
        (
            &["f16.npy", "f16.npy", "--tile", "7x9"],
            "no kernel for f16 in Full precision has a tile of 7 x 9 and fits into the ",
        ),
    ] {
        let said = failed(&moye(folder, &[&["matmul", "-o", "c.npy"], arguments].concat()));
        assert!(said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(names(folder), before, "{arguments:?}: nothing is left");
    }
    for (arguments, expected) in [
        (
            &["f32.npy", "f32.npy", "--tile", "64"][..],
            "`64` is not a tile: expected MxN without spaces, such as 64x64",
        ),
        (&["f32.npy", "f32.npy", "--beta", "2"], "--c <C.npy>"),
        (&["f32.npy", "f32.npy", "--dtype", "f8"], "f16, bf16, f32, f64, i8, e4m3, e5m2"),
        (&["f32.npy", "f32.npy", "--split-k", "0"], "0 is not in 1.."),
        (
            &["f64.npy", "f64.npy", "--alpha", "1e400"],
            "`1e400` is too large: the largest 64-bit float is 1.8e308",
        ),
        (&["f64.npy", "f64.npy", "--c", "f64.npy", "--beta", "1e-400"], "`1e-400` is too small"),
    ] {
        let output = moye(folder, &[&["matmul"], arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?}: {said}");
    }
}

#[test]
fn random_products_of_every_type_are_right() {
    let folder = TempDir::new().unwrap();
    for (options, kernel) in [
        (&["--dtype", "f16"][..], "_f16_"),
        (&["--dtype", "f16", "--f16-accumulators"], "_f16_acc_"),
        (&["--dtype", "bf16", "--f32-output"], "_bf16_"),
        (&["--tf32"], "_tf32_"),
        (&["--dtype", "f64"], "_f64_"),
        (&["--dtype", "i8"], "_s8_"),
        (&["--dtype", "e4m3"], "_e4m3_"),
        (&["--dtype", "e5m2", "--f32-output"], "_e5m2_"),
    ] {
        let said = succeeded(&moye(folder.path(), &[&["matmul"], options].concat()));
        assert!(said.contains(kernel) && said.contains("256 x 256 x 64"), "{options:?}: {said}");
    }
}
