//! The `print_layout` forms, compared exactly with files in `tests/data`. After an intended change,
//! `UPDATE_EXPECT=1 cargo test -p moye-draw --test draw` rewrites the files.

use super::common::scenes;
use expect_test::{ExpectFile, expect_file};
use moye_draw::{Format, Style};

fn file(name: &str) -> ExpectFile {
    expect_file![format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"))]
}

const TEXT: [&str; 8] =
    ["row_major", "nested", "rank_0", "rank_1", "negative", "broadcast", "thread_value", "swizzle"];

#[test]
fn print_layout_is_cutes_to_the_letter() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| TEXT.contains(name)) {
        file(&format!("{name}.cute.txt")).assert_eq(&scene.render(Format::CuTe, &Style::default()));
    }
}

#[test]
fn print_layout_is_moyes_to_the_letter_from_0_and_from_1() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| TEXT.contains(name)) {
        file(&format!("{name}.moye.txt")).assert_eq(&scene.render(Format::MoYe, &Style::default()));
        let style = Style { one_based: true, ..Style::default() };
        file(&format!("{name}.moye_from_1.txt")).assert_eq(&scene.render(Format::MoYe, &style));
    }
}

#[test]
fn terminal_tables_are_as_they_were() {
    for (name, scene) in scenes().into_iter().filter(|(name, _)| *name != "thousand") {
        let style = Style { width: Some(80), ..Style::default() };
        file(&format!("{name}.table.txt")).assert_eq(&scene.render(Format::Table, &style));
    }
}
