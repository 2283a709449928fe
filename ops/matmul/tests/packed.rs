//! The packed PTX of this crate, beside what its build script compiled.

/// The build script's output, which a bundle lacks.
#[test]
fn shipped_texts_are_what_was_compiled_but_for_comments() {
    for (arch, text) in moye_matmul::PTX.images() {
        let file = format!("{}/moye_matmul.{arch}.ptx", env!("OUT_DIR"));
        let Ok(compiled) = std::fs::read_to_string(file) else { continue };
        let lines = |text| {
            str::lines(text).filter(|line| {
                let line = line.trim();
                !line.is_empty() && !line.starts_with("//")
            })
        };
        let (mut shipped, mut compiled) = (lines(text), lines(&compiled));
        loop {
            let (one, other) = (shipped.next(), compiled.next());
            assert_eq!(one, other, "{arch}");
            if one.is_none() {
                break;
            }
        }
    }
}
