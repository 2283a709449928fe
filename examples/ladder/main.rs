//! The steps of the ladder (`docs/guide/ladder.md`): `cargo run --release --example ladder tiled`
//! runs one of them, and without a name all of them, one after the other. Each prints what its
//! layouts say, launches its kernel, and compares the result.

mod copy;
mod double_buffered;
mod matmul;
mod multistage;
mod overlapped;
mod plain_copy;
mod support;
mod tf32_double_buffered;
mod tf32_ldmatrix;
mod tf32_tile;
mod tiled;
mod transpose;
mod vectorized;

use moye::{Device, Result};

const STEPS: [(&str, fn(&Device) -> Result<()>); 12] = [
    ("plain_copy", plain_copy::run),
    ("copy", copy::run),
    ("transpose", transpose::run),
    ("matmul", matmul::run),
    ("tiled", tiled::run),
    ("vectorized", vectorized::run),
    ("overlapped", overlapped::run),
    ("double_buffered", double_buffered::run),
    ("tf32_tile", tf32_tile::run),
    ("tf32_ldmatrix", tf32_ldmatrix::run),
    ("tf32_double_buffered", tf32_double_buffered::run),
    ("multistage", multistage::run),
];

fn main() -> Result<()> {
    let name = std::env::args().nth(1);
    let steps = STEPS.iter().filter(|step| name.as_deref().is_none_or(|name| name == step.0));
    if steps.clone().next().is_none() {
        eprintln!("usage: ladder [STEP], where STEP is one of {}", STEPS.map(|step| step.0).join(", "));
        std::process::exit(2);
    }
    let device = Device::open()?;
    steps.into_iter().try_for_each(|(_, run)| run(&device))
}
