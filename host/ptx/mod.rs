//! PTX in a program.
//!
//! - [`entry`]: the parameters of an entry point;
//! - [`linked`]: the PTX of the crates that a program has been linked with;
//! - [`packed`]: images that are packed kernel by kernel;
//! - [`texts`]: the packed images that run on an architecture.

mod differences;
mod entry;
mod linked;
mod packed;
mod texts;

pub(crate) use entry::EntryParams;
pub use entry::PtxParam;
pub use linked::Linked;
pub(crate) use linked::of_package;
pub(crate) use packed::Only;
pub(crate) use texts::Texts;

use crate::arch::Arch;
use packed::PackedImage;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The PTX of one crate with kernels: an image for each architecture for which it was compiled.
///
/// [`include_ptx!`](crate::include_ptx) builds one from the output of a build script.
#[derive(Clone, Copy)]
pub struct Ptx {
    name: &'static str,
    /// Plain images.
    images: &'static [(&'static str, &'static str)],
    /// Packed images; one of the two lists is empty.
    packed: &'static [PackedImage],
}

impl Ptx {
    /// PTX images with their architecture: `("sm_80", ".version 7.0 ...")`. `name` is for messages.
    pub const fn new(name: &'static str, images: &'static [(&'static str, &'static str)]) -> Self {
        Self { name, images, packed: &[] }
    }

    /// Packed and plain images, of which one list is empty: see
    /// [`include_ptx!`](crate::include_ptx).
    #[doc(hidden)]
    pub const fn built(
        name: &'static str,
        (packed, images): (&'static [PackedImage], &'static [(&'static str, &'static str)]),
    ) -> Self {
        Self { name, images, packed }
    }

    /// Whether there are no images.
    pub(crate) const fn is_empty(&self) -> bool {
        self.images.is_empty() && self.packed.is_empty()
    }

    /// Whether they are the same images.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && std::ptr::eq(self.images, other.images)
            && std::ptr::eq(self.packed, other.packed)
    }

    /// The name in messages.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Pairs of architecture and PTX. The first call unpacks all packed images.
    pub fn images(&self) -> &'static [(&'static str, &'static str)] {
        if self.packed.is_empty() { self.images } else { packed::whole(self.packed) }
    }

    /// The image that fits `arch` best: the newest that runs on it, and an image for exactly this
    /// architecture (`sm_90a`) before one that also runs on later ones (`sm_90`).
    ///
    /// Kernels of packed images are looked up one by one; if this image lacks one, the next best
    /// image is used.
    pub fn image_for(&self, arch: Arch) -> Option<(&'static str, &'static str)> {
        self.images_for(arch).first().copied()
    }

    /// The images that run on `arch`, the best one first.
    pub(crate) fn images_for(&self, arch: Arch) -> Vec<(&'static str, &'static str)> {
        fitting(self.images(), arch, |image| image.0)
    }

    /// The packed images that run on `arch`, the best one first.
    pub(crate) fn packed_for(&self, arch: Arch) -> Vec<PackedImage> {
        fitting(self.packed, arch, |image| image.0)
    }

    /// The PTX that contains a kernel and fits `arch` best.
    pub fn text_of(&self, kernel: &str, arch: Arch) -> Option<String> {
        let packed = self.packed_for(arch);
        if let Some(only) = packed.iter().find_map(|image| packed::only(image, kernel)) {
            return Some(only.text());
        }
        let mut images = fitting(self.images, arch, |image| image.0).into_iter();
        images.find(|(_, text)| declared(text).contains_key(kernel)).map(|(_, text)| text.to_owned())
    }

    /// The architectures, for messages: `sm_80, sm_90a`.
    pub(crate) fn architectures(&self) -> String {
        let archs = self.images.iter().map(|image| image.0).chain(self.packed.iter().map(|image| image.0));
        let archs = archs.collect::<Vec<_>>();
        if archs.is_empty() { "no architecture".to_owned() } else { archs.join(", ") }
    }

    /// The parameters of the entry point of this name, if an image declares it. All images that
    /// declare it agree; some kernels exist for some architectures only.
    pub(crate) fn entry(&self, kernel: &str) -> Option<EntryParams> {
        let mut packed = self.packed.iter().flat_map(|(_, _, _, entries)| *entries);
        match packed.find(|(name, ..)| *name == kernel) {
            Some((_, head, ..)) => EntryParams::of(head, kernel),
            None => self.images.iter().find_map(|(_, text)| declared(text).get(kernel).cloned()),
        }
    }
}

impl fmt::Debug for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptx({} for {})", self.name, self.architectures())
    }
}

/// The `images` that run on `arch`, the best one first.
fn fitting<I: Copy>(images: &[I], arch: Arch, of: impl Fn(&I) -> &'static str) -> Vec<I> {
    let mut fitting: Vec<_> =
        images.iter().filter_map(|image| Some((arch.fit(of(image))?, *image))).collect();
    // The later one of two images for the same architecture counts.
    fitting.reverse();
    fitting.sort_by_key(|(fit, _)| Reverse(*fit));
    fitting.into_iter().map(|(_, image)| image).collect()
}

/// The parameters of all entry points of a PTX module, which is parsed once: every launch on the
/// simulator needs them, and a module may have megabytes.
fn declared(text: &'static str) -> Arc<HashMap<String, EntryParams>> {
    type Declared = Arc<HashMap<String, EntryParams>>;
    /// By the address and the length of the PTX.
    static READ: Mutex<BTreeMap<(usize, usize), Declared>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    read.entry((text.as_ptr().addr(), text.len()))
        .or_insert_with(|| Arc::new(EntryParams::of_all(text)))
        .clone()
}

/// The [`Ptx`](crate::Ptx) that this crate's build script compiled with `moye_build::PtxBuilder`
/// or `Operations`, by the name of the crate with kernels (with `_` for `-`).
///
/// Each kernel is packed separately, and loaded alone at its first launch. Kernels that share a
/// variable are one module.
///
/// ```ignore
/// static KERNELS: moye::Ptx = moye::include_ptx!("my_kernels");
/// ```
#[macro_export]
macro_rules! include_ptx {
    ($name:literal) => {
        $crate::Ptx::built($name, include!(concat!(env!("OUT_DIR"), "/", $name, ".packed.rs")))
    };
}

/// Makes a static [`Ptx`](crate::Ptx) of this crate known to the program:
/// [`Device::launch`](crate::Device::launch) launches the crate's kernels without their module.
///
/// The entry is made when the program or the library that contains the crate is loaded.
///
/// ```ignore
/// pub static PTX: moye::Ptx = moye::include_ptx!("my_kernels");
/// moye::link_ptx!(PTX);
/// ```
#[macro_export]
macro_rules! link_ptx {
    ($ptx:path) => {
        const _: () = {
            static LINKED: $crate::Linked = $crate::Linked::new(env!("CARGO_PKG_NAME"), &$ptx);

            extern "C" fn link() {
                LINKED.link();
            }

            // SAFETY: the loader calls the functions of this section, which take no arguments that
            // `link` reads, and `link` needs nothing of the standard library's start.
            #[used]
            #[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
            #[cfg_attr(
                target_vendor = "apple",
                unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs")
            )]
            #[cfg_attr(not(any(windows, target_vendor = "apple")), unsafe(link_section = ".init_array"))]
            static AT_LOAD: extern "C" fn() = link;
        };
    };
}

/// Whether kernels compiled for `image`, such as `sm_90a`, can wait for earlier ones (PDL).
pub(crate) fn can_wait(image: &str) -> bool {
    Arch::of_target(image).is_some_and(|(compiled, _)| compiled.can_wait())
}

/// The `.version` of PTX, such as `8.0`.
pub(crate) fn version(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(".version"))?;
    let (major, minor) = line.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The first CUDA version whose driver accepts PTX of a version, from the release history in
/// NVIDIA's "PTX ISA".
pub(crate) fn cuda_for(version: (u32, u32)) -> (u32, u32) {
    match version {
        (7, minor) => (11, minor),
        (8, minor @ 0..=5) => (12, minor),
        // 12.6 has no new PTX version.
        (8, minor) => (12, minor + 1),
        (major, minor) => (major + 4, minor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Ptx = Ptx::new(
        "two",
        &[
            ("sm_80", ".version 7.0\n.target sm_80\n.visible .entry copy(\n)\n{}"),
            ("sm_90a", "//\n.version 8.0\n.target sm_90a\n"),
        ],
    );

    #[test]
    fn the_newest_image_that_runs_is_taken() {
        assert_eq!(TWO.image_for(Arch::new(9, 0)).map(|i| i.0), Some("sm_90a"));
        assert_eq!(TWO.image_for(Arch::new(10, 0)).map(|i| i.0), Some("sm_80"), "sm_90a runs on 9.0 only");
        assert_eq!(TWO.image_for(Arch::new(7, 5)), None);
    }

    #[test]
    fn all_images_that_run_are_ordered_by_how_well_they_fit() {
        const MANY: Ptx =
            Ptx::new("many", &[("sm_90", ""), ("sm_80", ""), ("sm_100", ""), ("sm_90a", ""), ("sm_86", "")]);
        let order = |arch| MANY.images_for(arch).iter().map(|i| i.0).collect::<Vec<_>>();
        assert_eq!(order(Arch::new(9, 0)), ["sm_90a", "sm_90", "sm_86", "sm_80"]);
        assert_eq!(order(Arch::new(10, 3)), ["sm_100", "sm_90", "sm_86", "sm_80"], "sm_90a runs on 9.0 only");
        assert_eq!(order(Arch::new(7, 5)), [] as [&str; 0]);
    }

    #[test]
    fn kernels_can_wait_by_what_they_are_compiled_for_and_not_by_where_they_run() {
        for (image, waits) in
            [("sm_80", false), ("sm_89", false), ("sm_90", true), ("sm_90a", true), ("sm_120a", true)]
        {
            assert_eq!(can_wait(image), waits, "{image}");
        }
        // Newer GPUs run the image for sm_80.
        let (image, _) = TWO.image_for(Arch::new(10, 0)).unwrap();
        assert!(!can_wait(image), "{image}");
    }

    #[test]
    fn versions_are_read_and_known_to_cuda() {
        assert_eq!(
            TWO.images().iter().map(|(_, text)| version(text)).collect::<Vec<_>>(),
            [Some((7, 0)), Some((8, 0))]
        );
        for (ptx, cuda) in
            [((7, 8), (11, 8)), ((8, 5), (12, 5)), ((8, 7), (12, 8)), ((8, 8), (12, 9)), ((9, 0), (13, 0))]
        {
            assert_eq!(cuda_for(ptx), cuda, "PTX {ptx:?}");
        }
    }
}
