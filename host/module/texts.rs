//! The texts of a PTX that run on an architecture, taken apart by entry points: a kernel is looked up in one after the other.
//!
//! A text may so leave out what an older architecture's has just as well: compiling it again would take the build time for nothing.

use super::entry::EntryParams;
use super::ptx::{Ptx, can_wait};
use super::split::Split;
use crate::device::Arch;
use std::sync::OnceLock;

/// The texts that run on an architecture, the one that fits best in front.
pub(crate) struct Texts(Vec<Text>);

/// One of them.
struct Text {
    image: &'static str,
    text: &'static str,
    /// Taken apart when a kernel is looked up here for the first time, which for all but the first text may be never. `None` where
    /// it cannot be.
    split: OnceLock<Option<Split>>,
}

/// A kernel by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KernelText {
    /// The architecture of the text that it is from.
    pub image: &'static str,
    /// That text without the other kernels.
    pub text: String,
    /// What it takes.
    pub params: EntryParams,
}

impl Texts {
    /// The texts of `ptx` that run on `arch` and have kernels; `None` where none does, or where the best one cannot be taken apart.
    pub fn of(ptx: &Ptx, arch: Arch) -> Option<Self> {
        let images = ptx.images_for(arch).into_iter().filter(|(_, text)| text.contains(".entry"));
        let texts: Vec<_> = images.map(Text::new).collect();
        texts.first()?.split()?;
        Some(Self(texts))
    }

    /// The kernel of this name, from the first text that has it.
    pub fn kernel(&self, name: &str) -> Option<KernelText> {
        self.0.iter().find_map(|text| text.kernel(name))
    }
}

impl Text {
    fn new((image, text): (&'static str, &'static str)) -> Self {
        Self { image, text, split: OnceLock::new() }
    }

    fn split(&self) -> Option<&Split> {
        self.split.get_or_init(|| Split::of(self.text)).as_ref()
    }

    fn kernel(&self, name: &str) -> Option<KernelText> {
        let text = self.split()?.only(self.text, name)?;
        let params = EntryParams::of(&text, name)?;
        Some(KernelText { image: self.image, text, params })
    }
}

impl KernelText {
    /// Whether it can wait for the kernels in front of it: by the text that it is from, whatever runs it.
    pub fn waits(&self) -> bool {
        can_wait(self.image)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "\
.version 7.0
.target sm_80
.visible .entry both(.param .u32 both_param_0) { ret; }
.visible .entry old(.param .f64 old_param_0) { ret; }
";
    const NEW: &str = "\
.version 8.0
.target sm_90a
.visible .entry both(.param .u64 both_param_0) { ret; }
.visible .entry new() { ret; }
";
    const TWO: Ptx = Ptx::new("two", &[("sm_80", OLD), ("sm_90a", NEW)]);

    /// Of the kernel on a GPU: the text that it is from, what it takes, and whether it waits.
    fn found(ptx: &Ptx, gpu: Arch, kernel: &str) -> Option<(&'static str, String, bool)> {
        let kernel = Texts::of(ptx, gpu).expect("a text that runs there").kernel(kernel)?;
        assert!(kernel.text.contains(&format!(".target {}\n", kernel.image)), "{}", kernel.text);
        assert_eq!(kernel.text.matches(".entry").count(), 1, "{}", kernel.text);
        Some((kernel.image, kernel.params.to_string(), kernel.waits()))
    }

    #[test]
    fn a_kernel_is_taken_from_the_best_text_that_has_it_and_waits_where_that_one_can() {
        let hopper = Arch::new(9, 0);
        assert_eq!(found(&TWO, hopper, "both"), Some(("sm_90a", ".u64".to_owned(), true)));
        assert_eq!(found(&TWO, hopper, "new"), Some(("sm_90a", String::new(), true)));
        assert_eq!(found(&TWO, hopper, "old"), Some(("sm_80", ".f64".to_owned(), false)));
        assert_eq!(found(&TWO, hopper, "neither"), None);
    }

    #[test]
    fn a_kernel_of_a_text_that_does_not_run_is_not_found() {
        for gpu in [Arch::new(8, 0), Arch::new(10, 0)] {
            assert_eq!(found(&TWO, gpu, "both"), Some(("sm_80", ".u32".to_owned(), false)), "{gpu}");
            assert_eq!(found(&TWO, gpu, "new"), None, "{gpu}");
        }
        assert!(Texts::of(&TWO, Arch::new(7, 5)).is_none());
    }

    #[test]
    fn where_the_best_text_cannot_be_taken_apart_none_is() {
        const CALLS: &str = ".entry a() { ret; }\n.func f() { ret; }\n";
        const FIRST: Ptx = Ptx::new("first", &[("sm_80", OLD), ("sm_90a", CALLS)]);
        assert!(Texts::of(&FIRST, Arch::new(9, 0)).is_none());
        assert!(Texts::of(&FIRST, Arch::new(8, 0)).is_some(), "there it is not looked at");
        const LAST: Ptx = Ptx::new("last", &[("sm_80", CALLS), ("sm_90a", NEW)]);
        let texts = Texts::of(&LAST, Arch::new(9, 0)).unwrap();
        assert!(texts.kernel("new").is_some() && texts.kernel("a").is_none());
    }

    #[test]
    fn a_shipped_kernel_is_found_on_all_gpus_that_one_of_its_texts_runs_on() {
        let mut seen = 0;
        for gpu in [Arch::new(8, 0), Arch::new(9, 0), Arch::new(10, 0)] {
            for (image, text) in crate::SHIPPED_PTX.images() {
                let texts = Texts::of(&crate::SHIPPED_PTX, gpu).expect("sm_80 is the oldest there is");
                for line in text.lines().filter_map(|line| line.strip_prefix(".visible .entry ")) {
                    let name = line.trim_end_matches(['(', ')']);
                    let found = texts.kernel(name).map(|kernel| kernel.image);
                    assert!(found.is_some() || gpu.fit(image).is_none(), "{name} of {image} on {gpu}");
                    seen += 1;
                }
            }
        }
        let entries = |text: &str| text.matches("\n.visible .entry ").count();
        let shipped: usize = crate::SHIPPED_PTX.images().iter().map(|(_, text)| entries(text)).sum();
        assert_eq!(seen, 3 * shipped, "each of them was looked for");
    }
}
