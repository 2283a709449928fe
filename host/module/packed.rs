//! PTX packed kernel by kernel: a program carries a tenth of the text, and unpacks what it
//! launches.

use miniz_oxide::inflate::decompress_to_vec_with_limit;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// A packed text, as `moye_build::PtxSet::pack` writes it: architecture, packed bytes, what stands
/// in front of the entry points, and these.
pub(crate) type PackedImage = (&'static str, &'static [u8], Part, &'static [Entry]);
/// The name of an entry point, what it declares up to its body, and where it is.
pub(crate) type Entry = (&'static str, &'static str, Part);
/// Where something is in the packed bytes, from and to, and the length of its text.
pub(crate) type Part = (usize, usize, usize);

/// The text of a part.
fn unpack(bytes: &[u8], (start, end, length): Part) -> String {
    // The build script of this crate packed it.
    let text = decompress_to_vec_with_limit(&bytes[start..end], length).expect("it was packed");
    String::from_utf8(text).expect("it was text")
}

/// The text with one of its entry points alone, and what that one declares; `None` where it has
/// none of that name.
pub(crate) fn only(
    (_, bytes, preamble, entries): &PackedImage,
    kernel: &str,
) -> Option<(String, &'static str)> {
    let (_, head, entry) = entries.iter().find(|(name, ..)| *name == kernel)?;
    Some((format!("{}{}\n", unpack(bytes, *preamble), unpack(bytes, *entry)), *head))
}

/// The whole texts, which are unpacked once in a process.
pub(crate) fn whole(images: &'static [PackedImage]) -> &'static [(&'static str, &'static str)] {
    type Texts = &'static [(&'static str, &'static str)];
    /// By where the images are.
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
