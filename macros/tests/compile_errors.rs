//! What `#[kernel]` refuses, and the message that says how to mend it.

#[test]
fn a_misuse_of_kernel_does_not_compile_and_says_what_to_do() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/errors/*.rs");
}
