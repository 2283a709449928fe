//! Debian's package `rust-src`, which is the same for every architecture and unpacks anywhere. apt
//! fetches it with a separate state, so the system's package lists and packages do not change, and
//! root rights are not needed.

use crate::steps::quietly;
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's suites with the package: the newest release's backports first, then the later suites.
const SUITES: &[&str] = &["trixie-backports", "forky", "sid"];
const MIRROR: &str = "http://deb.debian.org/debian";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches the package into `work`, unpacks it, and returns its folder `library`.
pub fn fetch(work: &Path, version: &str) -> Result<PathBuf> {
    let package = download(work, version)?;
    let unpacked = work.join("unpacked");
    quietly(Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked))?;
    Ok(unpacked.join(format!("usr/src/rustc-{version}/library")))
}

/// Fetches the package into `work` and returns its path.
fn download(work: &Path, version: &str) -> Result<PathBuf> {
    quietly(Command::new("apt-get").arg("--version"))?;
    eprintln!("setup: fetching the source of Rust's `core` {version} (Debian's package rust-src, 45 MB)");
    let mirror = debian_mirror(Path::new("/etc/apt")).unwrap_or_else(|| MIRROR.to_owned());
    let mut tried = Vec::new();
    for suite in SUITES {
        let apt = Apt::new(work, &mirror, suite)?;
        if let Err(error) = quietly(apt.get().arg("update")) {
            tried.push(format!("{suite}: {error:#}"));
            continue;
        }
        let known = quietly(apt.cache().args(["madison", "rust-src"]))?;
        let Some(wanted) = newest(&known, version) else {
            tried.push(format!("{suite}: no version {version}, only {}", versions(&known).join(", ")));
            continue;
        };
        quietly(apt.get().current_dir(work).arg("download").arg(format!("rust-src={wanted}")))?;
        let is_package = |path: &PathBuf| path.extension().is_some_and(|e| e == "deb");
        let found = fs::read_dir(work)?.filter_map(|entry| Some(entry.ok()?.path())).find(is_package);
        return found.ok_or_else(|| anyhow!("apt-get download left no package"));
    }
    bail!("{mirror} has no package rust-src of version {version}:\n{}", tried.join("\n"))
}

/// apt with one source and a separate state.
struct Apt {
    options: Vec<String>,
}

impl Apt {
    fn new(work: &Path, mirror: &str, suite: &str) -> Result<Self> {
        let folder = work.join(suite);
        for part in ["state/lists/partial", "cache/archives/partial", "parts"] {
            fs::create_dir_all(folder.join(part))
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let sources = folder.join("sources.list");
        let signed =
            if Path::new(KEYRING).is_file() { format!("[signed-by={KEYRING}] ") } else { String::new() };
        fs::write(&sources, format!("deb {signed}{mirror} {suite} main\n"))
            .with_context(|| format!("cannot write {}", sources.display()))?;
        let at = |part: &str| folder.join(part).display().to_string();
        let options = vec![
            format!("Dir::State={}", at("state")),
            format!("Dir::State::Lists={}", at("state/lists")),
            // The system's list of installed packages is neither read nor needed.
            format!("Dir::State::Status={}", at("state/status")),
            format!("Dir::Cache={}", at("cache")),
            format!("Dir::Etc::SourceList={}", at("sources.list")),
            format!("Dir::Etc::SourceParts={}", at("parts")),
            // As root, apt fetches as a user that may have no access to this folder.
            "APT::Sandbox::User=".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::Retries=2".to_owned(),
            "Acquire::http::Timeout=20".to_owned(),
            // Without this, `update` succeeds if a list could not be fetched, and the package would
            // seem unknown.
            "APT::Update::Error-Mode=any".to_owned(),
        ];
        fs::write(folder.join("state/status"), "")?;
        Ok(Self { options })
    }

    fn get(&self) -> Command {
        self.command("apt-get")
    }

    fn cache(&self) -> Command {
        self.command("apt-cache")
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        for option in &self.options {
            command.arg("-o").arg(option);
        }
        command
    }
}

/// The mirror from which the machine itself fetches Debian's packages.
fn debian_mirror(etc: &Path) -> Option<String> {
    let mut files = vec![etc.join("sources.list")];
    if let Ok(folder) = fs::read_dir(etc.join("sources.list.d")) {
        files.extend(folder.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.sort();
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).find_map(|text| {
        text.lines()
            .filter(|line| line.starts_with("deb ") || line.starts_with("URIs:"))
            .flat_map(str::split_whitespace)
            .find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"))
            .map(|word| word.trim_end_matches('/').to_owned())
    })
}

/// The second column of `apt-cache madison`'s output: `rust-src | 1.95.0+dfsg1-2~bpo13+1 |
/// http://...`.
fn versions(madison: &str) -> Vec<&str> {
    madison.lines().filter_map(|line| Some(line.split('|').nth(1)?.trim())).collect()
}

/// The newest package of this version; apt lists the newest first.
fn newest<'a>(madison: &'a str, version: &str) -> Option<&'a str> {
    versions(madison)
        .into_iter()
        .find(|full| full.strip_prefix(version).is_some_and(|r| r.starts_with(['+', '-'])))
}
