//! Headers of .npy files as writers other than NumPy produce them.

use crate::{failed, load, moye, succeeded};
use ndarray::{Array2, array};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Writes a file with this version and header; the data is 1 to 6, float32.
fn written(folder: &Path, name: &str, version: [u8; 2], text: &str) {
    let len = u32::try_from(text.len()).unwrap().to_le_bytes();
    let len = if version[0] == 1 { &len[..2] } else { &len[..] };
    let data: Vec<u8> = (1..=6u8).flat_map(|number| f32::from(number).to_le_bytes()).collect();
    fs::write(folder.join(name), [b"\x93NUMPY", &version[..], len, text.as_bytes(), &data].concat()).unwrap();
}

/// The header of a 2 x 3 matrix with a part replaced.
fn text(from: &str, to: &str) -> String {
    "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n".replace(from, to)
}

#[test]
fn what_numpy_reads_is_read() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let transposed: Array2<f32> = array![[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]];
    for (from, to) in [
        ("(2, 3)", "(2L, 3L)"),
        ("\n", ""),
        (", '", ",\n'"),
        ("}", "} # written by hand"),
        ("'<f4'", "u'<f4'"),
        ("'<f4'", "'float32'"),
        ("'<f4'", "'f'"),
        ("'<f4'", "'=f4'"),
    ] {
        written(folder, "a.npy", [1, 0], &text(from, to));
        succeeded(&moye(folder, &["transpose", "a.npy", "-o", "t.npy", "--force"]));
        assert_eq!(load(folder, "t.npy"), transposed, "{to}");
    }
    for version in [[2, 0], [3, 0]] {
        written(folder, "a.npy", version, &text("", ""));
        succeeded(&moye(folder, &["transpose", "a.npy", "-o", "t.npy", "--force"]));
        assert_eq!(load(folder, "t.npy"), transposed, "{version:?}");
    }
}

#[test]
fn a_header_that_numpy_refuses_is_an_error_that_says_why() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for (version, from, to, expected) in [
        (
            [1, 0],
            "(2, 3)",
            "(184)",
            "'shape': (184), a number where a tuple must be, (184,) for one dimension",
        ),
        (
            [1, 0],
            "(2, 3)",
            "(np.int64(2), np.int64(3))",
            "'shape': (np.int64(2), np.int64(3)), where np.int64(2) is not an integer",
        ),
        ([1, 0], "False", "1", "'fortran_order': 1, which must be True or False"),
        (
            [1, 0],
            "'shape'",
            "'more': 1, 'shape'",
            "the key 'more' besides 'descr', 'fortran_order' and 'shape'",
        ),
        ([4, 0], "", "", "version 4.0, and there are 1.0, 2.0 and 3.0"),
    ] {
        written(folder, "a.npy", version, &text(from, to));
        let said = failed(&moye(folder, &["matmul", "a.npy", "a.npy", "-o", "c.npy"]));
        assert!(said.starts_with("a.npy ") && said.contains(expected), "{said}");
        assert!(said.ends_with("; write the array again with numpy.save"), "{said}");
    }
}

// `descriptor.rs` has the complete advice, each line of which was run in NumPy.
#[test]
fn advice_on_other_types_works_in_numpy() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    for (descr, held) in
        [("'<c8'", "complex64"), ("[('x', '<f4')]", "records"), ("'|V3'", "V3, bytes without a type")]
    {
        written(folder, "a.npy", [1, 0], &text("'<f4'", descr));
        let said = failed(&moye(folder, &["matmul", "a.npy", "a.npy", "-o", "c.npy"]));
        assert!(said.starts_with(&format!("a.npy holds {held}, and products take float16, ")), "{said}");
        let transposed = failed(&moye(folder, &["transpose", "a.npy", "-o", "c.npy"]));
        assert!(
            transposed.starts_with(&format!("a.npy holds {held}, and x takes float32, ")),
            "{transposed}"
        );
        for said in [said, transposed] {
            let expected = match held {
                "complex64" => {
                    "save its parts as two files, a.real.astype('float32') and a.imag.astype('float32')"
                }
                "records" => "save one field, a['x'].astype('float32')",
                _ => "give the bytes a type in NumPy, for example with a.view('uint8')",
            };
            assert!(said.ends_with(expected), "{said}");
        }
    }
    written(folder, "a.npy", [1, 0], &text("'<f4'", "'|V2'"));
    let said = failed(&moye(folder, &["run", "bincount", "a.npy", "-o", "c.npy"]));
    let view = "a.view(ml_dtypes.bfloat16).astype('int64')";
    assert!(said.starts_with("a.npy: x has elements of bfloat16, and must have int"), "{said}");
    assert!(said.ends_with(&format!("; convert it with {view}")), "{said}");
    // The bytes of bfloat16 are not those of float16.
    written(folder, "half.npy", [1, 0], &text("'<f4'", "'<f2'").replace("(2, 3)", "(12, 1)"));
    written(folder, "row.npy", [1, 0], &text("'<f4'", "'<f2'").replace("(2, 3)", "(1, 12)"));
    written(folder, "c.npy", [1, 0], &text("'<f4'", "'|V2'").replace("(2, 3)", "(1, 12)"));
    let said = failed(&moye(folder, &["matmul", "half.npy", "row.npy", "--c", "c.npy", "-o", "d.npy"]));
    assert!(
        said.starts_with("c.npy holds bfloat16, not float16; convert it with a.view(ml_dtypes"),
        "{said}"
    );
}
