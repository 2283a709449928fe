//! What must not be launched, with what the compiler says of it.
//!
//! After a change of the compiler, `TRYBUILD=overwrite cargo test -p moye-launch-errors` writes the
//! messages anew.

#[test]
fn wrong_launches_do_not_compile() {
    trybuild::TestCases::new().compile_fail("launches/*.rs");
}
