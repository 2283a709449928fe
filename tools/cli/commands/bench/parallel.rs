//! `moye bench parallel`: products over all GPUs of this machine.

use crate::commands::report;
use anyhow::{Result, bail};
use moye::half::bf16;
use moye::{Device, Matmul, Matrix, MatrixMut, Stream};
use moye_parallel::measure::{feed_forward, link, measure};

/// Tokens, hidden and intermediate elements of a feed-forward part; if the number of GPUs does
/// not divide the intermediate elements, they are slightly more, as the table says.
const FEED_FORWARD: [usize; 3] = [4096, 8192, 28_672];

/// The product of one GPU, with the plan that `moye::Matmul` chooses.
fn plain(
    stream: &Stream,
    a: Matrix<'_, bf16>,
    b: Matrix<'_, bf16>,
    mut c: MatrixMut<'_, bf16>,
) -> moye::Result<()> {
    // SAFETY: no other stream uses the matrices that are measured.
    unsafe { Matmul::new(a, b.t()).run_on(stream, &mut c) }
}

/// Measures the products, then a feed-forward part and the link, and prints a row for each.
pub fn run(json: bool) -> Result<()> {
    let devices = (0..Device::gpu_count()?).map(Device::gpu).collect::<moye::Result<Vec<_>>>()?;
    if devices.len() < 2 {
        bail!("`moye bench parallel` needs two GPUs at least, and this machine has {}", devices.len());
    }
    if !json {
        report::print("| form | M x N x K | `Matmul` alone us | us | alone / us | kernels |\n");
        report::print("| --- | --- | --- | --- | --- | --- |\n");
    }
    let mut rows = Vec::new();
    measure(&devices, &plain, |row| {
        let ([m, n, k], share) = (row.extents, row.alone / row.time);
        if json {
            rows.push(serde_json::json!({
                "form": format!("{:?}", row.form), "extents": row.extents, "ranks": devices.len(),
                "alone_us": row.alone, "us": row.time, "kernels": row.kernels,
            }));
        } else {
            report::print(&format!(
                "| {:?} | {m} x {n} x {k} | {:.1} | {:.1} | {share:.2} | {} |\n",
                row.form, row.alone, row.time, row.kernels
            ));
        }
    })?;
    let (part, extents) = feed_forward(&devices, FEED_FORWARD)?;
    let rate = link(&devices)? / 1e9;
    if json {
        let all = serde_json::json!({
            "products": rows, "feed_forward": {"extents": extents, "us": part}, "link_gb_s": rate,
        });
        report::print(&format!("{all:#}\n"));
    } else {
        let [tokens, hidden, inner] = extents;
        report::print(&format!(
            "\nfeed-forward part of {tokens} tokens, {hidden} and {inner} elements: {part:.1} us\n\
             a copy from GPU 0 to GPU 1: {rate:.0} GB/s\n"
        ));
    }
    Ok(())
}
