//! The default measurements: the rows of the performance table, with their goals.

use super::Work;
use super::results::{Row, Verdict};
use crate::Size;
use crate::{Kind, Majors};
use anyhow::{Result, bail};
use std::time::Duration;

/// The goal of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// A ratio to the peer.
    OfPeer(f64),
    /// A rate.
    AtLeast(f64),
    /// A ratio to the same kind's product of 4096 x 4096 x 4096 with K contiguous in both operands.
    OfTn(f64),
}

/// The rest of the device before each batch of some products by `mma.sync`. Their goal is a
/// fraction of the instruction's rate at the full clock, which the power limit lowers within tens
/// of milliseconds (record 7).
pub const REST: Duration = Duration::from_millis(300);

/// The kernel by `mma.sync` of a kind, with K contiguous in both operands.
///
/// # Errors
/// The kind has none.
pub fn by_mma_sync(kind: Kind) -> Result<&'static str> {
    Ok(match kind {
        Kind::F16 => "matmul_f16_tn",
        Kind::Bf16 => "matmul_bf16_tn",
        _ => bail!("rows by mma.sync are for f16 and bf16, not for {kind}"),
    })
}

/// The rows: the tutorial's product and f32, then the other types, then shapes, then copies.
pub fn rows() -> Vec<(Work, Goal)> {
    let product = |kind, majors, size| Work::Matmul { kind, majors, size };
    let size = |m, n, k| Size { m, n, k };
    let (large, larger, largest) = (Size::cube(4096), Size::cube(8192), Size::cube(16384));
    let mut rows = Vec::new();
    for majors in Majors::ALL {
        rows.push((product(Kind::F32, majors, size(2048, 2048, 256)), Goal::OfPeer(1.10)));
    }
    for size in [large, larger] {
        rows.push((product(Kind::F32, Majors::NT, size), Goal::OfPeer(1.00)));
    }
    for kind in [Kind::F16, Kind::Bf16] {
        rows.push((product(kind, Majors::TN, Size::cube(2048)), Goal::OfPeer(1.00)));
        for size in [large, larger, largest] {
            rows.push((product(kind, Majors::TN, size), Goal::OfPeer(1.03)));
        }
        for size in [large, larger] {
            for majors in [Majors::NT, Majors::NN, Majors::TT] {
                rows.push((product(kind, majors, size), Goal::OfPeer(0.98)));
            }
        }
        rows.push((product(kind, Majors::TN, size(4095, 4097, 4103)), Goal::OfTn(0.9)));
        for rests in [false, true] {
            for size in [large, larger] {
                rows.push((Work::ByMmaSync { kind, size, rests }, Goal::AtLeast(500.0)));
            }
        }
    }
    rows.push((product(Kind::Tf32, Majors::TN, large), Goal::AtLeast(260.0)));
    rows.push((product(Kind::Tf32, Majors::TN, larger), Goal::OfPeer(1.00)));
    rows.push((product(Kind::I8, Majors::TN, larger), Goal::OfPeer(1.30)));
    rows.push((product(Kind::E4m3, Majors::TN, larger), Goal::OfPeer(1.00)));
    for size in [size(64, 4096, 4096), size(4096, 64, 4096)] {
        rows.push((product(Kind::F16, Majors::TN, size), Goal::OfPeer(1.00)));
    }
    let matrix = 16384;
    for bytes in [1, 2, 4, 8, 16] {
        rows.push((Work::Copy { bytes, rows: matrix, cols: matrix }, Goal::OfPeer(0.98)));
    }
    for bytes in [1, 2, 4, 8, 16] {
        rows.push((Work::Transpose { bytes, rows: matrix, cols: matrix }, Goal::OfPeer(0.90)));
    }
    rows
}

impl Goal {
    /// Whether a row meets it, among all measured rows.
    pub fn judge(self, row: &Row, all: &[Row]) -> Verdict {
        let peer = row.peer.map_or(if row.k.is_some() { "cuBLAS" } else { "device copy" }, |(name, _)| name);
        let (asked, reached) = match self {
            Self::OfPeer(factor) => {
                (format!("{factor:.2} x {peer}"), row.ratio().map(|ratio| ratio >= factor))
            }
            Self::AtLeast(rate) => (format!("{rate} {}", row.unit), Some(row.moye.median >= rate)),
            Self::OfTn(factor) => {
                let tn = all.iter().find(|other| {
                    other.kind == row.kind
                        && other.by.is_none()
                        && other.majors.as_deref() == Some("tn")
                        && (other.m, other.n, other.k) == (4096, 4096, Some(4096))
                });
                (format!("{factor} x tn"), tn.map(|tn| row.moye.median >= factor * tn.moye.median))
            }
        };
        Verdict { asked, reached }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Measure;
    use crate::results::tests::made_up;
    use crate::tests::on_simulator;
    use crate::timing::Plan;
    use std::time::Instant;

    #[test]
    fn goals_are_judged_by_the_row_the_other_side_and_the_row_of_tn() {
        let (_, rows) = made_up();
        // f16 of 4096^3: 400 tn, 360 nt, beside 534 and 524.
        let (tn, nt) = (&rows[9], &rows[10]);
        let reached = |goal: Goal, row| goal.judge(row, &rows).reached;
        assert_eq!(reached(Goal::AtLeast(400.0), tn), Some(true));
        assert_eq!(reached(Goal::AtLeast(401.0), tn), Some(false));
        assert_eq!(reached(Goal::OfPeer(0.74), tn), Some(true));
        assert_eq!(reached(Goal::OfPeer(1.0), tn), Some(false));
        assert_eq!(reached(Goal::OfTn(0.9), nt), Some(true));
        assert_eq!(reached(Goal::OfTn(0.91), nt), Some(false));
        assert_eq!(reached(Goal::OfTn(0.9), &rows[11]), None, "f32 was measured in another order");
        assert_eq!(reached(Goal::OfPeer(0.98), &rows[15]), None, "nothing was beside it");
        // A product by another instruction is not the one that ratios refer to.
        let mut by_other_means = rows.clone();
        by_other_means[9].by = Some("mma.sync".to_owned());
        assert_eq!(Goal::OfTn(0.9).judge(nt, &by_other_means).reached, None);
        assert_eq!(Goal::OfPeer(1.1).judge(tn, &rows).asked, "1.10 x cuBLAS");
        assert_eq!(Goal::OfPeer(0.98).judge(&rows[15], &rows).asked, "0.98 x device copy");
    }

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
        for (i, (work, _)) in rows.iter().enumerate() {
            assert!(!rows[..i].iter().any(|(other, _)| other == work), "{work:?} twice");
        }
        assert_eq!(rows.len(), 4 + 2 + 2 * (4 + 6 + 1 + 4) + 4 + 2 + 2 * 5);
    }
}
