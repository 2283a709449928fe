//! Layouts that do not fit are compile errors that carry the values.

#[test]
fn layouts_that_do_not_fit_do_not_compile() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_errors/*.rs");
}
