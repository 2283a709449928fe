//! Models compared with a float64 reference, on files that the tests write.

mod attend;
mod files;
mod gpus;
mod model;
mod program;
mod reference;
mod synthetic;
mod vocabulary;
