//! The file of tuned plans.

use super::{Plans, TunedPlan};
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The version of the file format that is written and read.
const FORMAT: u32 = 1;

/// The file of `moye tune`: plans of operations, and the choices for products.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    #[serde(default)]
    plans: Vec<TunedPlan>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    entries: Vec<serde_json::Value>,
}

impl Plans {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::TuningFile`] if it cannot be read or is not a file of this format.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let wrong = |detail: String| Error::TuningFile { path: path.to_owned(), detail };
        let text = fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot be read: {error}; `moye tune OPERATION` writes one")))?;
        let file: File = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("is not a file of `moye tune OPERATION`: {error}; tune again")))?;
        if file.format != FORMAT {
            return Err(wrong(format!(
                "is of format {}, and this version reads {FORMAT}; tune again",
                file.format
            )));
        }
        let mut plans = Self::default();
        plans.entries = file.entries;
        file.plans.into_iter().for_each(|plan| plans.insert(plan));
        Ok(plans)
    }

    /// Writes a file atomically; creates its folder if necessary.
    ///
    /// # Errors
    /// [`Error::TuningFile`] if it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let (plans, entries) = (self.iter().cloned().collect(), self.entries.clone());
        let file = File { format: FORMAT, plans, entries };
        write_json(path.as_ref(), &file)
    }
}

/// Writes a value as JSON, atomically; creates the folder if necessary.
///
/// # Errors
/// [`Error::TuningFile`] if it cannot be written.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let wrong = |error: std::io::Error| Error::TuningFile {
        path: path.to_owned(),
        detail: format!("cannot be written: {error}"),
    };
    let text = serde_json::to_string_pretty(value).map_err(|error| wrong(error.into()))? + "\n";
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(wrong)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.part", std::process::id()));
    let part = path.with_file_name(name);
    fs::write(&part, text).and_then(|()| fs::rename(&part, path)).map_err(|error| {
        let _ = fs::remove_file(&part);
        wrong(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    #[test]
    fn saved_plans_are_loaded_and_files_of_another_kind_are_refused() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("new/plans.json");
        let text = str::to_owned;
        let plan = |candidate| TunedPlan {
            device: text("card"),
            operation: text("Softmax"),
            problem: text("(3, 4)"),
            kernel: text("softmax_f32_warp"),
            candidate,
            candidates: 3,
            us: 2.5,
            untuned_us: 3.0,
        };
        let mut plans = Plans::default();
        plans.insert(plan(1));
        plans.insert(plan(2));
        plans.save(&file).unwrap();
        let loaded = Plans::load(&file).unwrap();
        assert_eq!(
            (loaded.iter().len(), loaded.iter().next()),
            (1, Some(&plan(2))),
            "the second replaced the first"
        );
        // Products' choices in the same file stay.
        let text =
            fs::read_to_string(&file).unwrap().replacen("{", "{\"entries\": [{\"device\": \"card\"}],", 1);
        fs::write(&file, &text).unwrap();
        Plans::load(&file).unwrap().save(&file).unwrap();
        let saved: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(
            (&saved["entries"][0]["device"], saved["plans"].as_array().unwrap().len()),
            (&"card".into(), 1)
        );
        fs::write(&file, "{}").unwrap();
        let said = Plans::load(&file).unwrap_err().to_string();
        assert!(
            said.contains("is not a file of `moye tune OPERATION`") && said.ends_with("tune again"),
            "{said}"
        );
        fs::write(&file, "{\"format\": 2, \"plans\": []}").unwrap();
        let said = Plans::load(&file).unwrap_err().to_string();
        assert!(said.contains("is of format 2, and this version reads 1"), "{said}");
        let said = Plans::load(folder.path().join("none")).unwrap_err().to_string();
        assert!(
            said.contains("cannot be read") && said.contains("`moye tune OPERATION` writes one"),
            "{said}"
        );
    }
}
