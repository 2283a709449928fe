//! The files above a crate that determine how cargo compiles it: its workspace's manifest and
//! cargo's configuration.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The settings for the crate in `krate`, a member of the workspace in `workspace`, and for its
/// path dependencies: a manifest may inherit versions, features and dependencies from its
/// workspace's.
pub fn of(krate: &Path, workspace: &Path, manifests: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    // Cargo reads configuration from its working directory and all folders above.
    let configuration = krate
        .ancestors()
        .flat_map(|folder| ["config.toml", "config"].map(|name| folder.join(".cargo").join(name)));
    let workspaces = manifests.iter().filter_map(|manifest| workspace_of(manifest));
    let all = configuration.chain(workspaces).chain([workspace.join("Cargo.toml")]);
    all.filter(|file| file.is_file()).collect()
}

/// The manifest of a manifest's workspace: the nearest one, including itself, with a table
/// `[workspace]`.
fn workspace_of(manifest: &Path) -> Option<PathBuf> {
    let folders = manifest.parent()?.ancestors();
    folders.map(|folder| folder.join("Cargo.toml")).find(|file| is_of_workspace(file))
}

fn is_of_workspace(manifest: &Path) -> bool {
    // `[workspace]`, or one of its tables alone.
    let opens = |line: &str| {
        line.trim_start().strip_prefix("[workspace").is_some_and(|rest| rest.starts_with([']', '.']))
    };
    fs::read_to_string(manifest).is_ok_and(|text| text.lines().any(opens))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_depends_on_its_workspace_the_workspaces_of_its_dependencies_and_the_configuration_above_it() {
        let root = std::env::temp_dir().join(format!("moye-settings-{}", std::process::id()));
        let write = |file: &str, text: &str| {
            let file = root.join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, text).unwrap();
            file
        };
        let own = write("own/Cargo.toml", "[workspace]\nmembers = [\"kernels\"]\n");
        let kernels = write("own/kernels/Cargo.toml", "[package]\nname = \"kernels\"\n");
        let other = write("other/Cargo.toml", "[workspace.dependencies]\n");
        let library = write("other/deep/library/Cargo.toml", "[package]\nversion.workspace = true\n");
        let alone = write("alone/Cargo.toml", "[package]\n# [workspace]\n");
        let near = write("own/kernels/.cargo/config.toml", "");
        let far = write(".cargo/config", "");
        write("other/.cargo/config.toml", "");
        let manifests = BTreeSet::from([kernels.clone(), library, alone]);
        let mut found = of(kernels.parent().unwrap(), own.parent().unwrap(), &manifests);
        found.retain(|file| file.starts_with(&root));
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, BTreeSet::from([own, other, near, far]));
    }
}
