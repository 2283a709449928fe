//! Executables packed in pieces: the PTX of all kernels, which most of them contain, is stored
//! once.

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use memchr::memmem;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// A folder of pieces: a program is its pieces, concatenated with `cat` and unpacked.
pub struct Pieces {
    folder: PathBuf,
    /// The shared parts of programs, longest first.
    shared: Vec<Vec<u8>>,
    /// The names of the written pieces.
    written: BTreeMap<u64, String>,
}

impl Pieces {
    /// A folder for pieces, with the PTX below `built`, where build scripts write it.
    pub fn new(folder: PathBuf, built: &Path) -> Result<Self> {
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let mut texts = BTreeSet::new();
        ptx_below(built, &mut texts)?;
        let mut shared: Vec<_> = texts.into_iter().collect();
        shared.sort_by_key(|text| std::cmp::Reverse(text.len()));
        Ok(Self { folder, shared, written: BTreeMap::new() })
    }

    /// Packs a program, and returns the names of its pieces in order.
    pub fn pack(&mut self, executable: &Path) -> Result<Vec<String>> {
        let program =
            fs::read(executable).with_context(|| format!("cannot read {}", executable.display()))?;
        let parts = split(&program, &self.shared);
        parts.into_iter().map(|part| self.write(part)).collect()
    }

    fn write(&mut self, part: &[u8]) -> Result<String> {
        let mut hasher = DefaultHasher::new();
        part.hash(&mut hasher);
        let hash = hasher.finish();
        if let Some(name) = self.written.get(&hash) {
            return Ok(name.clone());
        }
        let name = format!("{hash:016x}.gz");
        let path = self.folder.join(&name);
        let cannot = || format!("cannot write {}", path.display());
        let file = File::create(&path).with_context(cannot)?;
        let mut packed = GzEncoder::new(file, Compression::best());
        packed.write_all(part).with_context(cannot)?;
        packed.finish().with_context(cannot)?;
        self.written.insert(hash, name.clone());
        Ok(name)
    }
}

/// The PTX files, packed or not, in a folder and its subfolders.
fn ptx_below(folder: &Path, texts: &mut BTreeSet<Vec<u8>>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            ptx_below(&path, texts)?;
        } else if path.extension().is_some_and(|extension| extension == "ptx" || extension == "z") {
            // A shorter part saves nothing.
            let text = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            if text.len() >= 1 << 16 {
                texts.insert(text);
            }
        }
    }
    Ok(())
}

/// A program, cut before and after each of its shared parts.
fn split<'a>(program: &'a [u8], shared: &[Vec<u8>]) -> Vec<&'a [u8]> {
    let mut parts = vec![program];
    let mut whole = vec![false];
    for text in shared {
        for i in (0..parts.len()).rev() {
            if whole[i] {
                continue;
            }
            let Some(start) = memmem::find(parts[i], text) else { continue };
            let (before, rest) = parts[i].split_at(start);
            let (found, behind) = rest.split_at(text.len());
            parts.splice(i..=i, [before, found, behind]);
            whole.splice(i..=i, [false, true, false]);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_program_is_its_pieces_and_what_two_have_is_kept_once() {
        let folder = std::env::temp_dir().join(format!("moye-pieces-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("built/deep")).unwrap();
        let text = |seed: u8| (0..1 << 17).map(|i: u32| (i % 251) as u8 ^ seed).collect::<Vec<_>>();
        let (one, two) = (text(1), text(2));
        fs::write(folder.join("built/deep/a.ptx"), &one).unwrap();
        fs::write(folder.join("built/b.ptx"), &two).unwrap();
        fs::write(folder.join("built/short.ptx"), "of").unwrap();
        let mut pieces = Pieces::new(folder.join("pieces"), &folder.join("built")).unwrap();
        let programs = [
            [b"first".as_slice(), &one, b"of", &two, b"end"].concat(),
            [two.as_slice(), b"second", &one].concat(),
            b"third, of nothing else".to_vec(),
        ];
        let mut names = BTreeSet::new();
        for (program, count) in programs.iter().zip([5, 3, 1]) {
            let path = folder.join("program");
            fs::write(&path, program).unwrap();
            let parts = pieces.pack(&path).unwrap();
            assert_eq!(parts.len(), count);
            let mut whole = Vec::new();
            for part in &parts {
                let packed = File::open(folder.join("pieces").join(part)).unwrap();
                flate2::read::GzDecoder::new(packed).read_to_end(&mut whole).unwrap();
            }
            assert!(whole == *program, "the pieces are the program");
            names.extend(parts);
        }
        assert_eq!(names.len(), 5 + 3 + 1 - 2);
        fs::remove_dir_all(&folder).unwrap();
    }
}
