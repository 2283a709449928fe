//! Launches that must not compile, with what the compiler says of them.
//!
//! After a change of the compiler, `TRYBUILD=overwrite cargo test --test compile_errors` writes the messages anew.

#[test]
fn wrong_launches_do_not_compile() {
    trybuild::TestCases::new().compile_fail("tests/compile_errors/*.rs");
}
