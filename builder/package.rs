//! Cargo's metadata of a crate with kernels, and its build folder.

use crate::files::is_target_dir;
use crate::{BuildError, environment};
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// Cargo's metadata of the crate.
pub struct Package {
    /// Its library's name, in rustc's form.
    pub library: String,
    /// The folder of its workspace.
    pub workspace: PathBuf,
    pub target_dir: PathBuf,
    /// Its features, and the features that each of them enables.
    pub features: Features,
    /// The features with which no kernel is compiled: see [`Operations`](crate::Operations).
    pub host_features: Vec<String>,
}

/// Features by name, with the features that each enables.
pub type Features = BTreeMap<String, Vec<String>>;

impl Package {
    pub fn of(krate: &Path) -> Result<Self, BuildError> {
        let fail = |reason: String| BuildError::Crate { krate: krate.to_owned(), reason };
        let manifest = krate.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(fail("there is no Cargo.toml in it".into()));
        }
        let output = environment::clean(&environment::cargo())
            .current_dir(krate)
            .args(["metadata", "--no-deps", "--format-version=1", "--color=never"])
            .output()
            .map_err(|e| BuildError::Tool { command: "cargo metadata".into(), reason: e.to_string() })?;
        if !output.status.success() {
            return Err(fail(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)
            .map_err(|e| BuildError::Tool { command: "cargo metadata".into(), reason: e.to_string() })?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let package = metadata["packages"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|p| p["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest))
            .ok_or_else(|| fail("its Cargo.toml names no package".into()))?;
        let library = package["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|target| target["doctest"] == true || is_library(&target["kind"]))
            .ok_or_else(|| fail("its package has no library; kernels live in one (src/lib.rs)".into()))?;
        Ok(Self {
            library: text(&library["name"]).replace('-', "_"),
            workspace: PathBuf::from(text(&metadata["workspace_root"])),
            target_dir: PathBuf::from(text(&metadata["target_directory"])),
            features: features_in(&package["features"]),
            host_features: names_in(&package["metadata"]["moye"]["host-features"]),
        })
    }

    /// Whether the crate is compiled with its default features. A crate without any is compiled in
    /// the same way with and without them.
    pub fn default_features(&self, wanted: bool) -> bool {
        wanted || self.features.get("default").is_none_or(Vec::is_empty)
    }
}

fn features_in(metadata: &Value) -> Features {
    let features = metadata.as_object().into_iter().flatten();
    features.map(|(name, value)| (name.clone(), names_in(value))).collect()
}

fn names_in(metadata: &Value) -> Vec<String> {
    metadata.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn is_library(kind: &Value) -> bool {
    kind.as_array()
        .into_iter()
        .flatten()
        .any(|k| matches!(k.as_str(), Some("lib" | "rlib" | "cdylib" | "dylib")))
}

/// The folder `ptx` in the target directory of the build to which this build script belongs;
/// `OUT_DIR` is in that directory. It is `own` if `OUT_DIR` is anywhere inside it (`--target` and
/// `trybuild` use subfolders), otherwise the nearest folder that cargo marked. Other workspaces may
/// build into the same target directory. Each has a separate folder there, because their versions
/// of dependencies differ, and each build would recompile the shared ones.
pub fn target_dir_of(out_dir: Option<PathBuf>, own: &Path, workspace: &Path) -> PathBuf {
    let marked = out_dir
        .as_deref()
        .filter(|out_dir| !out_dir.starts_with(own))
        .and_then(|out_dir| out_dir.ancestors().find(|folder| is_target_dir(folder)));
    let target = marked.unwrap_or(own);
    let folder = target.join("ptx");
    if target.starts_with(workspace) {
        return folder;
    }
    let mut hasher = DefaultHasher::new();
    workspace.hash(&mut hasher);
    folder.join(format!("of-{:016x}", hasher.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::create_dir;
    use std::{env, fs};

    #[test]
    fn builds_in_a_workspaces_own_folder_share_it_and_others_have_one_for_each_workspace() {
        let root = env::temp_dir().join(format!("moye-target-dir-{}", std::process::id()));
        let own = root.join("workspace/target");
        for marked in [&own, &own.join("x86_64-unknown-linux-gnu"), &root.join("elsewhere")] {
            create_dir(marked).unwrap();
            fs::write(marked.join("CACHEDIR.TAG"), "# This file is a tag created by cargo.\n").unwrap();
        }
        let of = |workspace: &str, own: &str, out_dir: &str| {
            target_dir_of(Some(root.join(out_dir)), &root.join(own), &root.join(workspace))
        };
        let seen = [
            of("workspace", "workspace/target", "workspace/target/debug/build/a/out"),
            of(
                "workspace",
                "workspace/target",
                "workspace/target/x86_64-unknown-linux-gnu/debug/build/a/out",
            ),
            target_dir_of(None, &own, &root.join("workspace")),
        ];
        let elsewhere = "elsewhere/debug/build/a/out";
        let others = [
            of("workspace", "workspace/target", elsewhere),
            of("third", "third/target", elsewhere),
            // A common folder for all, as cargo's configuration allows.
            of("fourth", "elsewhere", elsewhere),
        ];
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(seen, [0; 3].map(|_| own.join("ptx")));
        for (i, folder) in others.iter().enumerate() {
            assert_eq!(folder.parent(), Some(&*root.join("elsewhere/ptx")), "{}", folder.display());
            assert!(!others[..i].contains(folder), "two workspaces that are built into one folder");
        }
    }
}
