//! `moye draw`: the program, and the pictures of the documentation.

#[path = "draw/cli.rs"]
mod cli;
#[path = "draw/pictures.rs"]
mod pictures;
