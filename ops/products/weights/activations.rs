//! 8-bit activations are converted to f16 or bf16, times the scale of their row, before a product.

use super::codes::Rows;
use moye_device::arch::overlap_launches;
use moye_device::number::F8E4M3;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// An activation of 8 bits.
pub trait Byte: Element {
    /// The value, which f16 and bf16 represent exactly.
    fn value(self) -> f32;
}
impl Byte for i8 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.into()
    }
}
impl Byte for F8E4M3 {
    #[inline(always)]
    fn value(self) -> f32 {
        self.to_f32()
    }
}

/// `y = x * scale` of `m` rows of `k` elements, contiguous rows of `padded` elements, with
/// zeros past `k`. Grid: `ceil(m * padded / THREADS)`.
///
/// # Safety
/// `x` has the rows, and `scales` an element for each; `y` has room, and overlaps neither.
#[kernel(
    threads = THREADS,
    instances = linear_activations<f16 | bf16, i8 | F8E4M3>,
    table = ActivationKernels
)]
pub unsafe fn activations<T: Element, X: Byte>(
    x: u64,
    scales: Global<f32>,
    y: GlobalMut<T>,
    m: u32,
    k: u32,
    padded: u32,
    of_x: Rows,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let i = block_idx().x * THREADS + thread_idx().x;
    let (row, column) = (i / padded, i % padded);
    if row >= m {
        return;
    }
    let at = i64::from(row) * of_x.row + i64::from(column) * of_x.element;
    let value = Global::<X>::from_address(x).offset(at).read_if(column < k).value();
    y.write(i, (value * scales.read(row)).convert());
}
