//! What is measured where nothing is named: the rows of the table of figures, with what is asked of each.

use super::Work;
use super::kind::{Kind, Majors};
use super::results::{Row, Verdict};
use super::sizes::Size;

/// What is asked of a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Goal {
    /// So many times the other side.
    OfPeer(f64),
    /// So much.
    AtLeast(f64),
    /// So many times the same kind's product of 4096 x 4096 x 4096 with K contiguous in both operands.
    OfTn(f64),
}

/// The rows: those of the tutorial's product and of f32, then the other types, then shapes, then copies.
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
    /// Whether a row reaches it, among all that were measured.
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
    use crate::cli::bench::results::tests::made_up;

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
        assert_eq!(Goal::OfPeer(1.1).judge(tn, &rows).asked, "1.10 x cuBLAS");
        assert_eq!(Goal::OfPeer(0.98).judge(&rows[15], &rows).asked, "0.98 x device copy");
    }

    #[test]
    fn every_row_is_measured_once() {
        let rows = rows();
        for (i, (work, _)) in rows.iter().enumerate() {
            assert!(!rows[..i].iter().any(|(other, _)| other == work), "{work:?} twice");
        }
        assert_eq!(rows.len(), 4 + 2 + 2 * (4 + 6 + 1) + 4 + 2 + 2 * 5);
    }
}
