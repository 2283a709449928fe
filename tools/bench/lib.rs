//! Measurements of `moye` on a GPU: products, attention, copies and transposes, beside cuBLAS and
//! the driver's copy.
//!
//! Both sides run in one process, in turn, on random data, and each result is checked before it is
//! timed. The command `moye bench` of the package `moye-cli` prints the measurements of
//! [`Measure::row`].
//!
//! ```no_run
//! use moye_bench::{Kind, Majors, Measure, Plan, Size, Work};
//!
//! let device = moye::Device::gpu(0)?;
//! let measure = Measure::new(&device, Plan::default());
//! let work = Work::Matmul { kind: Kind::F16, majors: Majors::TN, size: Size::cube(4096) };
//! let row = measure.row(&work)?;
//! println!("{}: {:.1} {}", row.what(), row.moye.median, row.unit);
//! # Ok::<(), anyhow::Error>(())
//! ```
#![deny(missing_docs)]

pub mod activation;
#[cfg(feature = "attention")]
pub mod attention;
pub mod cublas;
mod epilogue;
pub mod host;
mod kind;
mod limits;
mod member;
mod monitor;
mod movement;
pub mod plot;
pub mod product;
pub mod results;
mod sizes;
pub mod suite;
pub mod timing;

pub use epilogue::Epilogue;
pub use kind::{Kind, Majors};
pub use limits::Facts;
pub use member::Member;
pub use monitor::{Monitor, Seen};
pub use sizes::Size;
pub use timing::Plan;

#[doc(hidden)]
pub use moye;

use anyhow::Result;
use cublas::Peer;
use moye::Device;
use results::Row;
use std::time::Duration;

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Work {
    /// A product.
    Matmul {
        /// The element types.
        kind: Kind,
        /// The majors of A and B.
        majors: Majors,
        /// M, N and K.
        size: Size,
    },
    /// A product with `mma.sync`, with K contiguous in both operands.
    ByMmaSync {
        /// The element types.
        kind: Kind,
        /// M, N and K.
        size: Size,
        /// Whether the device [rests](suite::REST) before each batch.
        rests: bool,
    },
    /// A copy of a column-major matrix.
    Copy {
        /// Bytes of an element.
        bytes: usize,
        /// The rows.
        rows: usize,
        /// The columns.
        cols: usize,
    },
    /// A transpose of a column-major matrix.
    Transpose {
        /// Bytes of an element.
        bytes: usize,
        /// The rows.
        rows: usize,
        /// The columns.
        cols: usize,
    },
    /// Attention.
    #[cfg(feature = "attention")]
    Attention(attention::Case),
}

/// The peer of a product, or the reason for a missing one.
struct Beside<'a> {
    peer: Option<&'a Peer>,
    missing: Option<String>,
}

/// The state that all measurements share.
#[derive(Clone)]
pub struct Measure<'a> {
    /// The device.
    pub device: &'a Device,
    /// The number and the duration of rounds.
    pub plan: Plan,
    /// The peer of products.
    pub peer: Option<&'a Peer>,
    /// The reason for a missing peer.
    pub no_peer: Option<String>,
    /// If the peer is cuBLAS, the peer for kinds that it lacks.
    pub lt: Option<&'a Result<Peer>>,
    /// The epilogue of products.
    pub epilogue: Epilogue,
    /// The properties that determine peak rates.
    pub facts: Option<Facts>,
    /// The source of clocks and temperatures.
    pub monitor: Option<&'a Monitor>,
    /// The requested kernel.
    pub kernel: Option<&'a str>,
}

/// Whether cuBLAS has products of this kind with this epilogue; cuBLASLt has them.
pub fn cublas_has(kind: Kind, epilogue: Epilogue) -> bool {
    kind != Kind::E4m3 && epilogue.is_nothing()
}

impl<'a> Measure<'a> {
    /// Measurements on a device without a peer.
    pub fn new(device: &'a Device, plan: Plan) -> Self {
        Self {
            device,
            plan,
            peer: None,
            no_peer: None,
            lt: None,
            epilogue: Epilogue::default(),
            facts: None,
            monitor: None,
            kernel: None,
        }
    }

    /// The peer of a product.
    fn beside(&self, kind: Kind) -> Beside<'_> {
        match self.lt {
            Some(lt) if !cublas_has(kind, self.epilogue) => match lt {
                Ok(lt) => Beside { peer: Some(lt), missing: None },
                Err(reason) => Beside { peer: None, missing: Some(format!("cuBLASLt: {reason:#}")) },
            },
            _ => Beside { peer: self.peer, missing: self.no_peer.clone() },
        }
    }

    /// Checks and times one measurement.
    ///
    /// # Errors
    /// A wrong result, ours or the peer's, or an error of the device.
    pub fn row(&self, work: &Work) -> Result<Row> {
        match *work {
            Work::Matmul { kind, majors, size } => product::row(self, kind, majors, size),
            Work::ByMmaSync { kind, size, rests } => {
                let kernel = Some(suite::by_mma_sync(kind)?);
                let rest = if rests { suite::REST } else { Duration::ZERO };
                let plan = Plan { rest: self.plan.rest.max(rest), ..self.plan };
                let row = product::row(&Measure { kernel, plan, ..self.clone() }, kind, Majors::TN, size)?;
                let limit = self.facts.as_ref().and_then(|facts| facts.limit_by_mma_sync(kind));
                Ok(Row { by: Some("mma.sync".to_owned()), limit, ..row })
            }
            Work::Copy { bytes, rows, cols } => movement::row(self, false, bytes, (rows, cols)),
            Work::Transpose { bytes, rows, cols } => movement::row(self, true, bytes, (rows, cols)),
            #[cfg(feature = "attention")]
            Work::Attention(ref case) => attention::row(self, case),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Measurements on the simulator, whose times are meaningless, with one short round.
    pub fn on_simulator(test: impl FnOnce(&Measure<'_>)) {
        let plan =
            Plan { warm_up: Duration::ZERO, rounds: 1, batch: Duration::from_nanos(1), ..Plan::default() };
        let device = Device::sim();
        test(&Measure { no_peer: Some("a test".to_owned()), ..Measure::new(&device, plan) });
    }
}
