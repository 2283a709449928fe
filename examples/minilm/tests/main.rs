//! Vectors compared with a float64 reference, on models that the tests write.

#[path = "../../../tests/fixtures/common/assembler.rs"]
mod assembler;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "../../../ops/attention/host/oracle.rs"]
mod oracle;
mod program;
mod ptxas;
mod reference;
mod synthetic;
mod vectors;
