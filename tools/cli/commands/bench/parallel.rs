//! `moye bench parallel`: products over all GPUs of this machine.

use crate::commands::report;
use anyhow::{Result, bail};
use moye::Device;

/// Measures them, and prints each row when it is done.
pub fn run(json: bool) -> Result<()> {
    let devices = (0..Device::gpu_count()?).map(Device::gpu).collect::<moye::Result<Vec<_>>>()?;
    if devices.len() < 2 {
        bail!("`moye bench parallel` needs two GPUs at least, and this machine has {}", devices.len());
    }
    if !json {
        report::print("| form | M x N x K | alone us | us | alone / us | kernels |\n");
        report::print("| --- | --- | --- | --- | --- | --- |\n");
    }
    let mut rows = Vec::new();
    moye_parallel::measure::measure(&devices, None, |row| {
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
    if json {
        report::print(&format!("{:#}\n", serde_json::Value::from(rows)));
    }
    Ok(())
}
