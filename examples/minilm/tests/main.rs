//! Vectors against a reference in float64, on models that the tests write.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;
mod program;
mod ptxas;
mod reference;
mod synthetic;
mod vectors;
