//! The file of tuned plans.

use super::{Plans, TunedPlan};
use crate::{Error, Result};
use etcetera::BaseStrategy;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The version of the file format that is written and read.
const FORMAT: u32 = 2;

/// The file of `moye tune`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    format: u32,
    plans: Vec<TunedPlan>,
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
            .map_err(|error| wrong(format!("cannot be read: {error}; `moye tune` writes one")))?;
        let other = |format| format!("is of format {format}, and this version reads {FORMAT}; tune again");
        let file: File = serde_json::from_str(&text).map_err(|error| {
            // A file of another version may have other fields, so the version is read first.
            match serde_json::from_str::<serde_json::Value>(&text).map(|file| file["format"].as_u64()) {
                Ok(Some(format)) if format != u64::from(FORMAT) => wrong(other(format)),
                _ => wrong(format!("is not a file of `moye tune`: {error}; tune again")),
            }
        })?;
        if file.format != FORMAT {
            return Err(wrong(other(file.format.into())));
        }
        let mut plans = Self::default();
        file.plans.into_iter().for_each(|plan| plans.insert(plan));
        Ok(plans)
    }

    /// The default path of `moye tune`'s file: `moye/tuning.json` in the user's configuration
    /// folder (`$XDG_CONFIG_HOME` or `~/.config` on Unix); `None` if the user has no home folder.
    pub fn default_path() -> Option<PathBuf> {
        let folder = etcetera::choose_base_strategy().ok()?.config_dir();
        Some(folder.join("moye").join("tuning.json"))
    }

    /// Writes a file atomically; creates its folder if necessary.
    ///
    /// # Errors
    /// [`Error::TuningFile`] if it cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        let wrong = |error: std::io::Error| Error::TuningFile {
            path: path.to_owned(),
            detail: format!("cannot be written: {error}"),
        };
        let file = File { format: FORMAT, plans: self.iter().cloned().collect() };
        let text = serde_json::to_string_pretty(&file).map_err(|error| wrong(error.into()))? + "\n";
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
            explained: text("softmax_f32_warp"),
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
        let left = fs::read_dir(folder.path().join("new")).unwrap().count();
        assert_eq!(left, 1, "nothing but the file is left");
        fs::write(&file, "{}").unwrap();
        let said = Plans::load(&file).unwrap_err().to_string();
        assert!(said.contains("is not a file of `moye tune`") && said.ends_with("tune again"), "{said}");
        for text in ["{\"format\": 1, \"entries\": []}", "{\"format\": 1, \"plans\": []}"] {
            fs::write(&file, text).unwrap();
            let said = Plans::load(&file).unwrap_err().to_string();
            assert!(said.contains("is of format 1, and this version reads 2; tune again"), "{said}");
        }
        let said = Plans::load(folder.path().join("none")).unwrap_err().to_string();
        assert!(said.contains("cannot be read") && said.contains("`moye tune` writes one"), "{said}");
    }
}
