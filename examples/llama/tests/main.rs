//! Models compared with a float64 reference, on files that the tests write.

mod attend;
mod files;
mod gpus;
mod model;
#[allow(dead_code, reason = "each test uses some of it")]
#[path = "../../../ops/attention/host/oracle.rs"]
mod oracle;
mod program;
mod reference;
mod synthetic;
mod vocabulary;
