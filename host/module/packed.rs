//! PTX packed kernel by kernel: a program carries a tenth of the text, and unpacks the kernels that
//! it launches.

use super::differences;
use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A packed image, as `moye_build::PtxSet::pack` writes it: architecture, packed bytes, the text
/// before the entry points, and the entry points.
pub(crate) type PackedImage = (&'static str, &'static [u8], Part, &'static [Entry]);
/// The name of an entry point, its declaration up to its body, and its place.
pub(crate) type Entry = (&'static str, &'static str, Part);
/// A place in the packed bytes, from and to, and the length of the text with differences.
pub(crate) type Part = (usize, usize, usize);

/// The text of a part.
fn unpack(bytes: &[u8], (start, end, length): Part) -> String {
    // This crate's build script packed it.
    let text = decompress_to_vec_with_limit(&bytes[start..end], length).expect("it was packed");
    differences::undone(&String::from_utf8(text).expect("it was text"))
}

/// The text with only one of its entry points, and that one's declaration; `None` if it has none of
/// that name.
pub(crate) fn only(
    (_, bytes, preamble, entries): &PackedImage,
    kernel: &str,
) -> Option<(String, &'static str)> {
    let (_, head, entry) = entries.iter().find(|(name, ..)| *name == kernel)?;
    Some((format!("{}{}\n", unpack(bytes, *preamble), unpack(bytes, *entry)), *head))
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
            for (_, _, entry) in *entries {
                text += &unpack(bytes, *entry);
                text.push('\n');
            }
            let text: &'static str = text.leak();
            (*arch, text)
        });
        texts.collect::<Vec<_>>().leak()
    })
}
