//! `moye draw`: the program, and the pictures of the documentation.

mod cli;
mod pictures;
