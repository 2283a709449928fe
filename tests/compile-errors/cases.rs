//! What must not compile, with what the compiler says of it. Launches are in `tests/launch-errors`.
//!
//! After a change of the compiler, `TRYBUILD=overwrite cargo test -p moye-compile-errors` writes
//! the messages anew.

#[test]
fn wrong_kernels_layouts_pipelines_and_tilings_do_not_compile() {
    // The cases compile all of the device side, without debug information. SAFETY: the only test of
    // its process.
    unsafe { std::env::set_var("CARGO_PROFILE_DEV_DEBUG", "0") };
    // One set of cases: each set is a run of cargo.
    let cases = trybuild::TestCases::new();
    cases.compile_fail("kernels/*.rs");
    cases.compile_fail("layouts/*.rs");
    cases.compile_fail("pipelines/*.rs");
    // What a generic function asserts of its layouts is found when it is compiled for them. A case
    // that passes makes all be compiled to the end, where they would only be checked otherwise.
    cases.pass("fits.rs");
    cases.compile_fail("tilings/*.rs");
}
