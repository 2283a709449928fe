//! The packed images that run on an architecture. A kernel is looked up in the best image first,
//! then in images for older architectures.
//!
//! An image may therefore omit a kernel whose PTX for an older architecture is as fast: compiling
//! it twice would only take build time.

use super::Ptx;
use super::packed::{Only, PackedImage, only};
use crate::arch::Arch;

/// The packed images that run on an architecture, the best one first.
pub(crate) struct Texts(Vec<PackedImage>);

impl Texts {
    /// The packed images of `ptx` that run on `arch`; `None` if no image does.
    pub fn of(ptx: &Ptx, arch: Arch) -> Option<Self> {
        let texts = ptx.packed_for(arch);
        (!texts.is_empty()).then_some(Self(texts))
    }

    /// The kernel of this name, from the first image that has it.
    pub fn kernel(&self, name: &str) -> Option<Only> {
        self.0.iter().find_map(|image| only(image, name))
    }
}

#[cfg(test)]
mod tests {
    use super::super::can_wait;
    use super::super::entry::EntryParams;
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

    /// The images, packed as by a build script.
    fn packed(texts: &[(&'static str, &str)]) -> Ptx {
        let images = texts.iter().map(|(arch, text)| -> PackedImage {
            let packed = moye_build::ptx::Packed::of(text, arch.parse().unwrap(), None).unwrap();
            let packed = packed.expect("its entry points are independent");
            let part = |part: moye_build::ptx::Part| (part.start, part.end, part.length);
            let entries = packed.entries.into_iter();
            let entries =
                entries.map(|entry| (&*entry.name.leak(), &*entry.head.leak(), part(entry.part), None));
            (*arch, packed.bytes.leak(), part(packed.preamble), entries.collect::<Vec<_>>().leak())
        });
        Ptx::built("packed", (images.collect::<Vec<_>>().leak(), &[]))
    }

    fn two() -> Ptx {
        packed(&[("sm_80", OLD), ("sm_90a", NEW)])
    }

    /// The kernel's image on a GPU, its parameters, and whether it waits.
    fn found(ptx: &Ptx, gpu: Arch, kernel: &str) -> Option<(&'static str, String, bool)> {
        let only = Texts::of(ptx, gpu).expect("a text that runs there").kernel(kernel)?;
        let text = only.text();
        assert!(text.contains(&format!(".target {}\n", only.arch())), "{text}");
        assert_eq!(text.matches(".entry").count(), 1, "{text}");
        let params = EntryParams::of(only.head(), kernel).expect("its declaration");
        Some((only.arch(), params.to_string(), can_wait(only.arch())))
    }

    #[test]
    fn a_kernel_is_taken_from_the_best_image_that_has_it_and_waits_where_that_one_can() {
        let hopper = Arch::new(9, 0);
        assert_eq!(found(&two(), hopper, "both"), Some(("sm_90a", ".u64".to_owned(), true)));
        assert_eq!(found(&two(), hopper, "new"), Some(("sm_90a", String::new(), true)));
        assert_eq!(found(&two(), hopper, "old"), Some(("sm_80", ".f64".to_owned(), false)));
        assert_eq!(found(&two(), hopper, "neither"), None);
    }

    #[test]
    fn a_kernel_of_an_image_that_does_not_run_is_not_found() {
        for gpu in [Arch::new(8, 0), Arch::new(10, 0)] {
            assert_eq!(found(&two(), gpu, "both"), Some(("sm_80", ".u32".to_owned(), false)), "{gpu}");
            assert_eq!(found(&two(), gpu, "new"), None, "{gpu}");
        }
        assert!(Texts::of(&two(), Arch::new(7, 5)).is_none());
    }

    #[test]
    fn unpacked_images_have_all_kernels_and_declare_what_the_packed_ones_do() {
        let (texts, packed) = (two().images(), two());
        assert_eq!(texts.iter().map(|image| image.0).collect::<Vec<_>>(), ["sm_80", "sm_90a"]);
        for ((_, text), whole) in texts.iter().zip([OLD, NEW]) {
            assert_eq!(text.trim_end(), whole.trim_end());
        }
        for kernel in ["both", "old", "new"] {
            let expected = texts.iter().find_map(|(_, text)| EntryParams::of(text, kernel));
            assert!(expected.is_some() && packed.entry(kernel) == expected, "{kernel}");
        }
        assert_eq!(packed.entry("neither"), None);
    }

    #[test]
    fn every_register_number_is_unpacked_and_only_marks_of_inline_assembly_are_left_out() {
        let body = "{
\t.reg .b32 %r<30>;
\tmov.b32 %r16, %r9;
\t// begin inline asm
\tadd.s32 %r17, %r8, %tid.x; // begin inline asm of it
\t// end inline asm
\t@%p1 bra $L__BB0_2; @!%p22 bra $L__BB0_3;
\tadd.s32 %r2, %r999999999, %r0;
\tadd.s32 %r007, %r1234567890, %SP, %r~ %r^ %r#1 %r!2 %r'~ %p% %%r4
\tadd.s32 %rd1, 5;

}
";
        let text = format!(".version 8.0\n.target sm_80\n.visible .entry all()\n{body}");
        let expected: String = text
            .split_inclusive('\n')
            .filter(|line| !["// begin inline asm", "// end inline asm"].contains(&line.trim()))
            .collect();
        assert_eq!(packed(&[("sm_80", text.as_str())]).images()[0].1, expected);
    }
}
