//! PTX packed kernel by kernel: a program carries a tenth of the text, and unpacks the kernels that
//! it launches.

use super::differences;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A packed image, as `moye_build::PtxSet::pack` writes it: architecture, packed bytes, the text
/// before the entry points, and the entry points.
pub(crate) type PackedImage = (&'static str, &'static [u8], Part, &'static [Entry]);
/// The name of an entry point, its declaration up to its body, its place, and that of its machine
/// code.
pub(crate) type Entry = (&'static str, &'static str, Part, Option<Part>);
/// A place in the packed bytes, from and to, and the length of what is packed.
pub(crate) type Part = (usize, usize, usize);

/// What a part has.
fn unpacked(bytes: &[u8], (start, end, length): Part) -> Vec<u8> {
    // A build script packed it.
    decompress_to_vec_with_limit(&bytes[start..end], length).expect("it was packed")
}

/// The text of a part.
fn unpack(bytes: &[u8], part: Part) -> String {
    differences::undone(&String::from_utf8(unpacked(bytes, part)).expect("it was text"))
}

/// One entry point of an image.
#[derive(Clone, Copy)]
pub(crate) struct Only {
    image: PackedImage,
    entry: &'static Entry,
}

/// The entry of an image with this name; `None` if the image lacks the kernel.
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

    /// The text without other entry points.
    pub fn text(&self) -> String {
        let (_, bytes, preamble, _) = self.image;
        format!("{}{}\n", unpack(bytes, preamble), unpack(bytes, self.entry.2))
    }

    /// Its machine code for the image's architecture.
    pub fn cubin(&self) -> Option<Vec<u8>> {
        self.entry.3.map(|part| unpacked(self.image.1, part))
    }
}

/// The complete texts, which are unpacked once in a process.
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
