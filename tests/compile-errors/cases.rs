//! What must not compile, with what the compiler says of it. Launches are in `tests/launch-errors`.
//!
//! After a change of the compiler, `TRYBUILD=overwrite cargo test -p moye-compile-errors` writes
//! the messages anew.

#[test]
fn wrong_kernels_layouts_pipelines_and_tilings_do_not_compile() {
    // The tests compile the whole device side, and need no debug information.
    // SAFETY: the other test of this process reads no variable.
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

/// An error is read from its beginning: the line that its author can change is among the first
/// thirty.
#[test]
fn each_error_names_the_programs_own_line_in_its_first_thirty() {
    let mut seen = 0;
    for folder in ["kernels", "layouts", "pipelines", "tilings", "../launch-errors/launches"] {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "stderr") {
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap();
            let program = format!("{}.rs:", path.file_stem().unwrap().to_str().unwrap());
            let first = text.lines().position(|line| line.contains("--> ") && line.contains(&program));
            let first = first.unwrap_or_else(|| panic!("{} names no line of {program}", path.display()));
            assert!(first < 30, "{}: line {first} is the first that names {program}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 70, "{seen} messages were read");
}
