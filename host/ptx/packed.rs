//! PTX packed kernel by kernel: a program carries a tenth of the bytes, and unpacks the kernels
//! that it launches.

use super::differences;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A packed image, as `moye_build::PtxSet::pack` writes it: architecture, packed bytes, the PTX
/// before the entry points, and the entry points.
pub(crate) type PackedImage = (&'static str, &'static [u8], Part, &'static [Entry]);
/// The name of an entry point, its declaration up to its body, its range, and the range of its
/// machine code.
pub(crate) type Entry = (&'static str, &'static str, Part, Option<Part>);
/// A range of the packed bytes, start and end, and the unpacked length.
pub(crate) type Part = (usize, usize, usize);

/// The unpacked bytes of a range.
fn unpacked(bytes: &[u8], (start, end, length): Part) -> Vec<u8> {
    // The bytes were packed by a build script.
    decompress_to_vec_with_limit(&bytes[start..end], length).expect("it was packed")
}

/// The unpacked PTX of a range.
fn unpack(bytes: &[u8], part: Part) -> String {
    differences::undone(&String::from_utf8(unpacked(bytes, part)).expect("it was text"))
}

/// One entry point of an image.
#[derive(Clone, Copy)]
pub(crate) struct Only {
    image: PackedImage,
    entry: &'static Entry,
}

/// The entry point of this name; `None` if the image lacks the kernel.
pub(crate) fn only(image: &PackedImage, kernel: &str) -> Option<Only> {
    let (_, _, _, entries) = *image;
    let entry = entries.iter().find(|(name, ..)| *name == kernel)?;
    Some(Only { image: *image, entry })
}

impl Only {
    /// The architecture of its image.
    pub fn arch(&self) -> &'static str {
        self.image.0
    }

    /// Its declaration.
    pub fn head(&self) -> &'static str {
        self.entry.1
    }

    /// The PTX without other entry points.
    pub fn text(&self) -> String {
        let (_, bytes, preamble, _) = self.image;
        format!("{}{}\n", unpack(bytes, preamble), unpack(bytes, self.entry.2))
    }

    /// Its machine code for the image's architecture.
    pub fn cubin(&self) -> Option<Vec<u8>> {
        self.entry.3.map(|part| unpacked(self.image.1, part))
    }
}

/// The complete PTX of each image, unpacked once in a process.
pub(crate) fn whole(images: &'static [PackedImage]) -> &'static [(&'static str, &'static str)] {
    type Texts = &'static [(&'static str, &'static str)];
    /// By the address of the images.
    static UNPACKED: Mutex<BTreeMap<usize, Texts>> = Mutex::new(BTreeMap::new());
    let mut unpacked = UNPACKED.lock().unwrap_or_else(PoisonError::into_inner);
    unpacked.entry(images.as_ptr().addr()).or_insert_with(|| {
        let texts = images.iter().map(|(arch, bytes, preamble, entries)| {
            let mut text = unpack(bytes, *preamble);
            for (_, _, entry, _) in *entries {
                text += &unpack(bytes, *entry);
                text.push('\n');
            }
            let text: &'static str = text.leak();
            (*arch, text)
        });
        texts.collect::<Vec<_>>().leak()
    })
}
