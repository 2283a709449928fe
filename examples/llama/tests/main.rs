//! Models against a reference in float64, on files that the tests write.

mod attend;
mod files;
mod gpus;
mod model;
mod program;
mod reference;
mod synthetic;
mod vocabulary;
