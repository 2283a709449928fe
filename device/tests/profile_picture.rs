//! The picture in docs/guide/profile.md: the text form of the profile of its kernel.
//! `UPDATE_EXPECT=1 cargo test -p moye-device profile_picture` regenerates it.

mod transpose;

use moye_sim::profile::{Card, Profiler};
use moye_sim::{GlobalMemory, Launch};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A file of the checkout.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// The text form of the profile with rows of 32 words, as `moye profile` prints it.
fn text() -> String {
    let memory = GlobalMemory::new();
    let (a, b) = (memory.alloc(16384, "a").unwrap(), memory.alloc(16384, "b").unwrap());
    a.fill(0, 16384, 1).unwrap();
    let (from, to) = (a.address(), b.address());
    let profiler = Profiler::new();
    let launch = Launch::new("transpose", 4, 32, &memory).shared_bytes(32 * 33 * 4).profiler(&profiler);
    launch.run(&|| transpose::transpose(from, to, 32)).unwrap();
    let text = profiler.take().to_text(Some(&Card::named("H100").unwrap()));
    // The picture has room for the file's name.
    text.replace("device/tests/profile_picture/", "")
}

/// The text as a picture; the line with the most conflicts is marked.
fn picture(text: &str) -> String {
    const FIRST: usize = 28;
    const STEP: usize = 20;
    let lines: Vec<_> = text.trim_end().lines().collect();
    // A letter of 13 pixels is 7.83 wide.
    let width = 40 + lines.iter().map(|line| 783 * line.chars().count() / 100).max().unwrap();
    let height = FIRST + STEP * lines.len();
    let mut svg = format!(
        r##"<svg class="moye" height="{height}" role="img" viewBox="0 0 {width} {height}" width="{width}" xmlns="http://www.w3.org/2000/svg">
<title>The profile of a transpose with a column in one bank</title>
<desc>The profile as text: what limits the kernel on an H100, and a row for each source line. The load of a column has 4096 wavefronts, 3968 of them conflicts, and is marked.</desc>
<style>
.moye text{{font-family:ui-monospace,"DejaVu Sans Mono","Liberation Mono",Menlo,Consolas,monospace;font-size:13px;fill:#1b1b1f;white-space:pre}}
.moye .title{{font-weight:bold}}
.moye .page{{fill:#ffffff}}
.moye .bad{{fill:#fdd8d5}}
</style>
<rect class="page" height="{height}" width="{width}" x="0" y="0"/>
"##
    );
    for (at, line) in lines.iter().enumerate() {
        let y = FIRST + STEP * at;
        if line.ends_with("// load of a column") {
            writeln!(
                svg,
                r#"<rect class="bad" height="{STEP}" width="{}" x="10" y="{}"/>"#,
                width - 20,
                y - 14
            )
            .unwrap();
        }
        let class =
            if line.starts_with("kernel ") || line.ends_with("  line") { r#" class="title""# } else { "" };
        let line = line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        writeln!(svg, r#"<text{class} x="20" xml:space="preserve" y="{y}">{line}</text>"#).unwrap();
    }
    svg + "</svg>\n"
}

#[test]
fn the_picture_of_the_guide_is_the_text_form_as_it_is() {
    let (file, now) = (path("docs/profile.svg"), picture(&text()));
    if std::env::var_os("UPDATE_EXPECT").is_some_and(|value| value == "1") {
        std::fs::write(&file, &now).unwrap();
    }
    let there = std::fs::read_to_string(&file).unwrap();
    assert_eq!(there, now, "UPDATE_EXPECT=1 writes the picture anew");
    assert_eq!(now.matches(r#"class="bad""#).count(), 1, "the line of most conflicts is marked");
}

#[test]
fn the_kernel_of_the_picture_is_that_of_the_guide() {
    let guide = std::fs::read_to_string(path("docs/guide/profile.md")).unwrap();
    let kernel = include_str!("profile_picture/transpose.rs").replace("pub fn", "fn");
    let (_, kernel) = kernel.split_once("use ").unwrap();
    assert!(guide.contains(kernel.split_once("\n\n").unwrap().1), "{kernel}");
}
