//! Vectors compared with a float64 reference, on models that the tests write.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;
mod program;
mod ptxas;
mod reference;
mod synthetic;
mod vectors;
