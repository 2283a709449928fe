//! An 8-bit result with its scales.

use super::kernel::{End, Extents};
use crate::block_scaled::sink::{Out, OutScales, Quantised, Tile8};
use moye_device::collective::*;
use moye_device::number::F8E4M3;
use moye_device::prelude::*;

/// The end of a product whose result is e4m3, with a scale for each 1 x 128 elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct Scaled8 {
    /// The address of the scales, f32: (rows, blocks).
    pub scales: u64,
    /// Elements from row to row of them, and from block to block.
    pub row: i64,
    /// See `row`.
    pub block: i64,
}

impl<T, M: Tile8> End<T, M> for Scaled8 {
    type Output = F8E4M3;
    type Epilogue = ();
    type Sink = Quantised;

    #[inline(always)]
    fn epilogue(&self, _: Extents) {}

    #[inline(always)]
    fn sink(&self, c: &TensorMap, target: Target<F8E4M3>, extents: Extents) -> Quantised {
        let scales = OutScales {
            scales: GlobalMut::from_address(self.scales),
            row: self.row,
            column: self.block,
            group: 0,
        };
        F8E4M3::sink::<M>(c, target, scales, Groups::one(extents.m))
    }
}
