//! The workspace of a product: its regions and their layout.

use super::descriptor::{Descriptor, OPERATION, ROW_ALIGN};
use super::element::Operand;
use super::operand::{LINE, View};
use super::plan::{Accumulators, Plan};
use super::tma;
use moye_device::layout::Major;
use moye_device::memory::Element;
use moye_runtime::{Error, Result};

/// Alignment of the regions, in bytes.
const REGION_ALIGN: u64 = 256;

/// The offset in bytes, or the address, of each region of the workspace.
#[derive(Clone, Copy, Default)]
pub(super) struct Regions {
    /// Rearranged operands.
    pub operands: [Option<u64>; 2],
    /// The accumulators of all slices.
    pub accumulators: Option<u64>,
    /// Partial accumulators of stream-K tiles.
    pub pieces: Option<u64>,
    /// A row-major C.
    pub c: Option<u64>,
    pub bytes: u64,
}

impl Regions {
    /// The layout for a product's plan with results `U`.
    pub fn of<T: Operand, U: Element>(product: &Descriptor<T::Scalar>, plan: &Plan<T>) -> Result<Self> {
        let ([m, n, k], batches) = (product.extents, u128::from(product.batches));
        let mut layout = Self::default();
        if k > 0 {
            for (i, extent) in [m, n].into_iter().enumerate() {
                if plan.sources[i].leading.is_none() {
                    let view = rearranged(&product.operands[i], plan.sources[i].major, extent, k, 0);
                    let batches = if view.batch == 0 { 1 } else { batches };
                    let (_, across) = along_and_across(plan.sources[i].major, extent, k);
                    let row = view.mn.max(view.k) as u128 * u128::from(view.bytes);
                    layout.operands[i] = Some(layout.take(u128::from(across) * row * batches)?);
                }
            }
            if plan.accumulators == Accumulators::Workspace {
                let [rows, columns] = plan.padded_extents([m, n]);
                let bytes = rows_bytes::<T::Scalar>(rows, columns);
                layout.accumulators = Some(layout.take(bytes * u128::from(plan.slices) * batches)?);
            }
            if plan.cut.tiles > 0 {
                let ([tile_m, tile_n, _], cluster) = (plan.variant.tile, plan.variant.schedule.cluster());
                let pieces = plan.cut.tiles * plan.cut.most_pieces(plan.stages(k));
                layout.pieces =
                    Some(layout.take(tma::bytes_of_pieces(pieces, cluster, tile_m, tile_n).into())?);
            }
        }
        if product.scattered {
            layout.c = Some(layout.take(rows_bytes::<U>(m, n) * batches)?);
        }
        Ok(layout)
    }

    /// The same regions in memory that starts at this address.
    pub fn at(self, base: u64) -> Self {
        let at = |offset: Option<u64>| offset.map(|offset| base + offset);
        let Self { operands, accumulators, pieces, c, bytes } = self;
        let (accumulators, pieces, c) = (at(accumulators), at(pieces), at(c));
        Self { operands: operands.map(at), accumulators, pieces, c, bytes }
    }

    fn take(&mut self, bytes: u128) -> Result<u64> {
        let start = self.bytes;
        let end = u128::from(start) + bytes.next_multiple_of(u128::from(REGION_ALIGN));
        self.bytes = u64::try_from(end).ok().filter(|&end| end <= i64::MAX as u64).ok_or_else(|| {
            let detail =
                format!("the workspace needs {end} bytes, more than can be addressed; split the matrices");
            Error::Unsupported { operation: OPERATION, detail }
        })?;
        Ok(start)
    }
}

/// Bytes of rows of elements `U`.
fn rows_bytes<U>(rows: u32, columns: u32) -> u128 {
    u128::from(rows) * u128::from(row_of::<U>(columns)) * size_of::<U>() as u128
}

/// Elements `U` of a workspace's row; rows start at multiples of 16 bytes.
pub(super) fn row_of<U>(extent: u32) -> u64 {
    u64::from(extent).next_multiple_of((ROW_ALIGN / size_of::<U>() as u64).max(1))
}

/// The extents along the contiguous mode and along the other.
pub(super) fn along_and_across(major: Major, extent: u32, k: u32) -> (u32, u32) {
    match major {
        Major::K => (k, extent),
        Major::Mn => (extent, k),
    }
}

/// An operand that is rearranged to an address with this contiguous mode. Its rows start at L2
/// cache lines, so that whole lines are read.
pub(super) fn rearranged(from: &View, major: Major, extent: u32, k: u32, address: u64) -> View {
    let (along, across) = along_and_across(major, extent, k);
    let row = u64::from(along).next_multiple_of((LINE / from.bytes).max(1)) as i64;
    let (mn, k) = if major == Major::K { (row, 1) } else { (1, row) };
    View { address, mn, k, batch: if from.batch == 0 { 0 } else { row * i64::from(across) }, ..*from }
}
