//! The text of source lines. The compiler names files relative to its workspace, which need not be
//! a test's working directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Source files that were read.
#[derive(Debug, Default)]
pub(super) struct Sources(Mutex<BTreeMap<String, Option<Vec<String>>>>);

impl Sources {
    /// A line of a file without its indentation; `None` if the file is not found.
    pub fn line(&self, file: &str, line: u32) -> Option<String> {
        self.with(file, |lines| Some(lines.get((line as usize).checked_sub(1)?)?.trim().to_owned()))
    }

    /// All lines of a file; none if it is not found.
    pub fn lines(&self, file: &str) -> Vec<String> {
        self.with(file, |lines| Some(lines.to_vec())).unwrap_or_default()
    }

    /// Sets the contents of a file, which is then not read.
    pub fn set(&self, file: &str, text: &str) {
        let lines = text.lines().map(str::to_owned).collect();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file.to_owned(), Some(lines));
    }

    fn with<T>(&self, file: &str, look: impl FnOnce(&[String]) -> Option<T>) -> Option<T> {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = files.entry(file.to_owned()).or_insert_with(|| {
            let text = std::fs::read_to_string(find(file)?).ok()?;
            Some(text.lines().map(str::to_owned).collect())
        });
        look(lines.as_ref()?)
    }
}

/// The file in the current folder or a folder above it, or above the crate that cargo runs.
fn find(file: &str) -> Option<PathBuf> {
    let here = std::env::current_dir().ok();
    let of_cargo = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let folders = [here, of_cargo].into_iter().flatten();
    let candidates = folders.flat_map(|folder| folder.ancestors().map(|f| f.join(file)).collect::<Vec<_>>());
    candidates.chain([Path::new(file).to_owned()]).find(|path| path.is_file())
}
