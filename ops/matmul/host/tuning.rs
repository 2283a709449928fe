//! Measured choices for products, kept in a file.

use super::{Operand, Output, Precision};
use etcetera::BaseStrategy;
use moye_runtime::operation::{Shape, write_json};
use moye_runtime::{Device, Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The version of the file format that is written and read.
const FORMAT: u32 = 1;

/// The fastest tile and number of split-K slices by problem and device, measured and written by
/// `moye tune`.
///
/// Only [`Matmul::tuned`](crate::Matmul::tuned) uses it.
///
/// ```
/// use moye::{TunedProduct, Device, Matmul, Matrix, MatrixMut, Tuning};
/// let device = Device::sim();
/// let (a, b) = (device.upload(&[1.0f64; 64 * 96])?, device.upload(&[1.0f64; 96 * 32])?);
/// let mut c = device.alloc_uninit::<f64>(64 * 32)?;
/// let (a, b) = (Matrix::row_major(&a, 64, 96)?, Matrix::col_major(&b, 96, 32)?);
/// let mut c = MatrixMut::row_major(&mut c, 64, 32)?;
///
/// let product = Matmul::<f64>::new(a, b);
/// let mut tuning = Tuning::default();
/// tuning.insert(&device, product.problem(&c), TunedProduct { tile: (64, 64), splits: 3, seconds: 1e-5 });
/// # let folder = std::env::temp_dir().join(format!("moye-doc-{}", std::process::id()));
/// let file = folder.join("tuning.json");
/// tuning.save(&file)?;
///
/// let tuning = Tuning::load(&file)?;
/// let product = product.tuned(&tuning);
/// assert_eq!(product.explain(&device, &mut c)?.splits, 3);
/// product.run(&device, &mut c)?;
/// # std::fs::remove_dir_all(folder).unwrap();
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuning {
    devices: BTreeMap<String, BTreeMap<Problem, TunedProduct>>,
    /// The plans of operations in the same file, which `operation::Plans` reads.
    plans: Vec<serde_json::Value>,
}

/// The properties of a product that determine the fastest choice. A product and its transpose have
/// the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Problem {
    /// The operands' element type: `f16`, ...
    operands: String,
    /// The result's element type.
    result: String,
    precision: Summing,
    /// The majors of A and B, for a C with N contiguous.
    a: Contiguous,
    b: Contiguous,
    /// Whether C has no contiguous mode.
    #[serde(default)]
    scattered: bool,
    m: usize,
    n: usize,
    k: usize,
    batches: usize,
}

/// The precision of the accumulators: [`Precision`] in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Summing {
    Full,
    Tf32,
    F16Accumulators,
}

/// The contiguous mode of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Contiguous {
    K,
    /// M or N.
    Mn,
    Neither,
}

/// The fastest candidate for a problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TunedProduct {
    /// The tile of C, as for [`Matmul::tile`](crate::Matmul::tile).
    pub tile: (u32, u32),
    /// The split-K slices, as for [`Matmul::split_k`](crate::Matmul::split_k).
    pub splits: u32,
    /// The median time of a product, in seconds.
    pub seconds: f64,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    #[serde(default)]
    entries: Vec<Entry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plans: Vec<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    device: String,
    problem: Problem,
    choice: TunedProduct,
}

impl Problem {
    /// The product of an M x K and a K x N matrix.
    pub(crate) fn new<T: Operand, U: Output<T>>(
        [a, b, c]: [Shape; 3],
        batches: usize,
        precision: Precision,
    ) -> Self {
        let contiguous = |mn: usize, k: usize| match (mn, k) {
            (_, 1) => Contiguous::K,
            (1, _) => Contiguous::Mn,
            _ => Contiguous::Neither,
        };
        let (of_a, of_b) = (contiguous(a.row_stride, a.col_stride), contiguous(b.col_stride, b.row_stride));
        // An M-contiguous C is computed as the transposed product.
        let turned = c.col_stride != 1 && c.row_stride == 1;
        let ((a_lies, b_lies), (m, n)) =
            if turned { ((of_b, of_a), (c.cols, c.rows)) } else { ((of_a, of_b), (c.rows, c.cols)) };
        Self {
            operands: T::NAME.to_owned(),
            result: U::NAME.to_owned(),
            precision: match precision {
                Precision::Full => Summing::Full,
                Precision::Tf32 => Summing::Tf32,
                Precision::F16Accumulators => Summing::F16Accumulators,
            },
            a: a_lies,
            b: b_lies,
            scattered: c.col_stride != 1 && c.row_stride != 1,
            m,
            n,
            k: a.cols,
            batches,
        }
    }
}

impl Tuning {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::TuningFile`] if it cannot be read, is not a tuning file, or has another format
    /// version.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |detail: String| Error::TuningFile { path: path.to_owned(), detail };
        let text = fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot be read: {error}; `moye tune` writes one")))?;
        let file: File = serde_json::from_str(&text).map_err(|error| {
            // A file of another version may have other fields, so the version is read first.
            match serde_json::from_str::<serde_json::Value>(&text).map(|file| file["format"].as_u64()) {
                Ok(Some(format)) if format != u64::from(FORMAT) => wrong(other_format(format)),
                _ => wrong(format!("is not a file of `moye tune`: {error}; tune again")),
            }
        })?;
        if file.format != FORMAT {
            return Err(wrong(other_format(file.format.into())));
        }
        let mut tuning = Self { plans: file.plans, ..Self::default() };
        for Entry { device, problem, choice } in file.entries {
            tuning.devices.entry(device).or_default().insert(problem, choice);
        }
        Ok(tuning)
    }

    /// Writes a file atomically; creates its folder if necessary.
    ///
    /// # Errors
    /// [`Error::TuningFile`] if it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let entries = self.devices.iter().flat_map(|(device, choices)| {
            choices.iter().map(|(problem, &choice)| Entry {
                device: device.clone(),
                problem: problem.clone(),
                choice,
            })
        });
        let file = File { format: FORMAT, entries: entries.collect(), plans: self.plans.clone() };
        write_json(path.as_ref(), &file)
    }

    /// The default path of `moye tune`'s file: `moye/tuning.json` in the user's configuration
    /// folder (`$XDG_CONFIG_HOME` or `~/.config` on Unix); `None` if the user has no home folder.
    pub fn default_path() -> Option<PathBuf> {
        let folder = etcetera::choose_base_strategy().ok()?.config_dir();
        Some(folder.join("moye").join("tuning.json"))
    }

    /// Stores the choice for a problem on devices of this name; replaces an older one.
    pub fn insert(&mut self, device: &Device, problem: Problem, choice: TunedProduct) {
        self.devices.entry(device.name().to_owned()).or_default().insert(problem, choice);
    }

    /// The choice for a problem on devices of this name.
    pub fn get(&self, device: &Device, problem: &Problem) -> Option<TunedProduct> {
        self.devices.get(device.name())?.get(problem).copied()
    }

    /// The number of entries for all devices.
    pub fn len(&self) -> usize {
        self.devices.values().map(BTreeMap::len).sum()
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn other_format(format: u64) -> String {
    format!("is of format {format}, and this version reads {FORMAT}; tune again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Matmul;
    use half::f16;
    use moye_runtime::{Matrix, MatrixMut};
    use tempfile::TempDir;

    const fn shape(rows: usize, cols: usize, row_stride: usize, col_stride: usize) -> Shape {
        Shape { rows, cols, row_stride, col_stride }
    }

    fn problem(shapes: [Shape; 3]) -> Problem {
        Problem::new::<f16, f16>(shapes, 1, Precision::Full)
    }

    #[test]
    fn a_product_and_its_transposed_one_are_one_problem() {
        let (m, n, k) = (64, 32, 16);
        let straight = problem([shape(m, k, k, 1), shape(k, n, n, 1), shape(m, n, n, 1)]);
        let turned = problem([shape(n, k, 1, n), shape(k, m, 1, k), shape(n, m, 1, n)]);
        assert_eq!(straight, turned);
        assert_eq!((straight.a, straight.b), (Contiguous::K, Contiguous::Mn));
        let other = problem([shape(m, k, k, 1), shape(k, n, 1, k), shape(m, n, n, 1)]);
        assert_ne!(straight, other, "B lies otherwise");
        assert!(problem([shape(m, k, k, 1), shape(k, n, 1, k), shape(m, n, 2 * n, 2)]).scattered);
    }

    #[test]
    fn what_is_saved_is_loaded_and_replaced_whole() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("new/tuning.json");
        let device = Device::sim();
        let mut tuning = Tuning::default();
        for (m, splits) in [(64, 1), (128, 2), (64, 4)] {
            let of = problem([shape(m, 16, 16, 1), shape(16, 32, 1, 16), shape(m, 32, 32, 1)]);
            tuning.insert(&device, of.clone(), TunedProduct { tile: (64, 64), splits, seconds: 2.5e-6 });
            tuning.save(&file).unwrap();
            let loaded = Tuning::load(&file).unwrap();
            assert_eq!(loaded, tuning);
            assert_eq!(loaded.get(&device, &of).unwrap().splits, splits);
        }
        assert_eq!(tuning.len(), 2, "the third replaced the first");
        let left: Vec<_> = fs::read_dir(folder.path().join("new")).unwrap().collect();
        assert_eq!(left.len(), 1, "nothing but the file is left");
    }

    #[test]
    fn files_that_are_none_are_told_with_the_way_out() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("tuning.json");
        let told = |text: Option<&str>| {
            if let Some(text) = text {
                fs::write(&file, text).unwrap();
            }
            Tuning::load(&file).unwrap_err().to_string()
        };
        assert!(told(None).contains("tuning.json cannot be read: No such file"), "{}", told(None));
        let said = told(Some("{"));
        assert!(said.contains("is not a file of `moye tune`: EOF") && said.ends_with("tune again"), "{said}");
        for text in ["{\"format\": 2, \"entries\": []}", "{\"format\": 2, \"all\": 1}"] {
            assert!(
                told(Some(text)).contains("is of format 2, and this version reads 1; tune again"),
                "{text}"
            );
        }
        let said = Tuning::default().save(folder.path()).unwrap_err().to_string();
        assert!(said.contains("cannot be written"), "{said}");
    }

    #[test]
    fn a_product_obeys_a_choice_only_where_it_is_told_to_and_can() {
        let device = Device::sim();
        let (m, n, k) = (40, 24, 512);
        let ones = |len| device.upload(&vec![f16::ONE; len]).unwrap();
        let (a, b, mut c) = (ones(m * k), ones(k * n), ones(m * n));
        let view =
            Matmul::<f16>::new(Matrix::row_major(&a, m, k).unwrap(), Matrix::col_major(&b, k, n).unwrap());
        let mut c = MatrixMut::row_major(&mut c, m, n).unwrap();
        let of = view.problem(&c);
        let mut plan = |call: Matmul<'_, f16>| {
            let plan = call.explain(&device, &mut c).unwrap();
            (plan.tile, plan.splits)
        };
        let alone = plan(view.clone());
        let largest = *view.tiles(&device).last().unwrap();
        for (tile, splits) in [(largest, 2), ((64, 64), 8), ((64, 64), 1)] {
            let mut tuning = Tuning::default();
            tuning.insert(&device, of.clone(), TunedProduct { tile, splits, seconds: 1.0 });
            assert_eq!(plan(view.clone()), alone, "it is not asked");
            assert_eq!(plan(view.clone().tuned(&tuning)), (tile, splits));
            assert_eq!(plan(view.clone().tuned(&tuning).split_k(4)).1, 4, "what the caller forces stays");
            let other = view.clone().batch(1, [0; 3]).alpha(2.0).tuned(&tuning);
            assert_eq!(plan(other), (tile, splits), "factors are no other problem");
        }
        let mut stale = Tuning::default();
        stale.insert(&device, of, TunedProduct { tile: (7, 9), splits: 1, seconds: 1.0 });
        assert_eq!(plan(view.tuned(&stale)), alone, "a tile that no kernel has any more");
    }
}
