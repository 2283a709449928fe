//! The default measurements: the rows of the performance table.

use super::Work;
use crate::Size;
use crate::{Kind, Majors};
use anyhow::{Result, bail};
use std::time::Duration;

/// The idle time before each batch of some products with `mma.sync`, so that they run at the full
/// clock: the power limit lowers it within tens of milliseconds (record 7).
pub const REST: Duration = Duration::from_millis(300);

/// The `mma.sync` kernel of a kind, with K contiguous in both operands.
///
/// # Errors
/// The kind has no such kernel.
pub fn by_mma_sync(kind: Kind) -> Result<&'static str> {
    Ok(match kind {
        Kind::F16 => "matmul_f16_tn",
        Kind::Bf16 => "matmul_bf16_tn",
        _ => bail!("rows by mma.sync are for f16 and bf16, not for {kind}"),
    })
}

/// The rows: the tutorial's product and f32, then the other types, shapes, and copies.
pub fn rows() -> Vec<Work> {
    let product = |kind, majors, size| Work::Matmul { kind, majors, size };
    let size = |m, n, k| Size { m, n, k };
    let (large, larger, largest) = (Size::cube(4096), Size::cube(8192), Size::cube(16384));
    let mut rows = Vec::new();
    for majors in Majors::ALL {
        rows.push(product(Kind::F32, majors, size(2048, 2048, 256)));
    }
    for size in [large, larger] {
        rows.push(product(Kind::F32, Majors::NT, size));
    }
    for kind in [Kind::F16, Kind::Bf16] {
        rows.push(product(kind, Majors::TN, Size::cube(2048)));
        for size in [large, larger, largest] {
            rows.push(product(kind, Majors::TN, size));
        }
        for size in [large, larger] {
            for majors in [Majors::NT, Majors::NN, Majors::TT] {
                rows.push(product(kind, majors, size));
            }
        }
        rows.push(product(kind, Majors::TN, size(4095, 4097, 4103)));
        for rests in [false, true] {
            for size in [large, larger] {
                rows.push(Work::ByMmaSync { kind, size, rests });
            }
        }
    }
    rows.push(product(Kind::Tf32, Majors::TN, large));
    rows.push(product(Kind::Tf32, Majors::TN, larger));
    rows.push(product(Kind::I8, Majors::TN, larger));
    rows.push(product(Kind::E4m3, Majors::TN, larger));
    for size in [size(64, 4096, 4096), size(4096, 64, 4096)] {
        rows.push(product(Kind::F16, Majors::TN, size));
    }
    let matrix = 16384;
    for bytes in [1, 2, 4, 8, 16] {
        rows.push(Work::Copy { bytes, rows: matrix, cols: matrix });
    }
    for bytes in [1, 2, 4, 8, 16] {
        rows.push(Work::Transpose { bytes, rows: matrix, cols: matrix });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measure;
    use crate::tests::on_simulator;
    use crate::timing::Plan;
    use std::time::Instant;

    #[test]
    fn rows_by_mma_sync_rest_where_they_say_so() {
        on_simulator(|measure| {
            let size = Size { m: 16, n: 24, k: 32 };
            let timed = |measure: &Measure<'_>, rests| {
                let begun = Instant::now();
                let row = measure.row(&Work::ByMmaSync { kind: Kind::F16, size, rests }).unwrap();
                (row, begun.elapsed())
            };
            let (row, took) = timed(measure, true);
            assert_eq!(row.what(), "f16 tn 16 x 24 x 32 by mma.sync, rests of 300 ms");
            assert!(row.kernel.starts_with("matmul_f16_tn"), "{}", row.kernel);
            assert!(row.rest_ms == 300 && took >= REST, "{} ms, {took:?}", row.rest_ms);
            let (row, _) = timed(measure, false);
            assert_eq!((row.what().as_str(), row.rest_ms), ("f16 tn 16 x 24 x 32 by mma.sync", 0));
            // A longer rest on the command line is kept.
            let longer = Plan { rest: REST + Duration::from_millis(50), ..measure.plan };
            let (row, took) = timed(&Measure { plan: longer, ..measure.clone() }, true);
            assert!(row.rest_ms == 350 && took >= longer.rest, "{} ms, {took:?}", row.rest_ms);
            let refused = Work::ByMmaSync { kind: Kind::I8, size, rests: true };
            let refused = measure.row(&refused).unwrap_err().to_string();
            assert!(refused.contains("for f16 and bf16, not for i8"), "{refused}");
        });
    }

    #[test]
    fn every_row_is_measured_once() {
        let rows = rows();
        for (i, work) in rows.iter().enumerate() {
            assert!(!rows[..i].contains(work), "{work:?} twice");
        }
        assert_eq!(rows.len(), 4 + 2 + 2 * (4 + 6 + 1 + 4) + 4 + 2 + 2 * 5);
    }
}
