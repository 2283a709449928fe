//! Kernels of one pattern each: a function over the elements of buffers.

/// `output[i] = function(input[i])` for `i < count`.
macro_rules! unary {
    ($($name:ident: $from:ty => $to:ty = $function:expr;)*) => { $(
        #[moye_device::kernel]
        pub unsafe fn $name(
            input: moye_device::memory::Global<$from>,
            output: moye_device::memory::GlobalMut<$to>,
            count: u32,
        ) {
            let i = crate::support::index();
            if i < count {
                let function = $function;
                // SAFETY: the buffers have `count` elements.
                unsafe { output.write(i64::from(i), function(input.read(i64::from(i)))) }
            }
        }
    )* };
}
pub(crate) use unary;

/// `output[i] = function(a[i], b[i])` for `i < count`.
macro_rules! binary {
    ($($name:ident: $from:ty => $to:ty = $function:expr;)*) => { $(
        #[moye_device::kernel]
        pub unsafe fn $name(
            a: moye_device::memory::Global<$from>,
            b: moye_device::memory::Global<$from>,
            output: moye_device::memory::GlobalMut<$to>,
            count: u32,
        ) {
            let i = crate::support::index();
            if i < count {
                let (at, function) = (i64::from(i), $function);
                // SAFETY: the buffers have `count` elements.
                unsafe { output.write(at, function(a.read(at), b.read(at))) }
            }
        }
    )* };
}
pub(crate) use binary;

/// `output[i] = function(a[i], b[i], c[i])` for `i < count`.
macro_rules! ternary {
    ($($name:ident: $from:ty = $function:expr;)*) => { $(
        #[moye_device::kernel]
        pub unsafe fn $name(
            a: moye_device::memory::Global<$from>,
            b: moye_device::memory::Global<$from>,
            c: moye_device::memory::Global<$from>,
            output: moye_device::memory::GlobalMut<$from>,
            count: u32,
        ) {
            let i = crate::support::index();
            if i < count {
                let (at, function) = (i64::from(i), $function);
                // SAFETY: the buffers have `count` elements.
                unsafe { output.write(at, function(a.read(at), b.read(at), c.read(at))) }
            }
        }
    )* };
}
pub(crate) use ternary;

use moye_device::arch::{block_dim, block_idx, thread_idx};

/// The thread's index in the grid.
#[inline(always)]
pub fn index() -> u32 {
    block_idx().x * block_dim().x + thread_idx().x
}

/// Where lane `lane` keeps its row of 16 bytes in shared memory, from `base` on: rows scattered and
/// apart, within [`ROW_BYTES`] bytes.
#[inline(always)]
pub fn row_address(base: u32, lane: u32) -> u32 {
    base + lane * 7 % 32 * 48
}

moye_device::static_layout! {
    /// Words of shared memory that the rows of a warp take.
    pub Rows = moye_device::layout!(384);
}

/// The rows of a warp, scattered.
pub type RowStorage = moye_device::memory::SharedArray<u32, Rows>;
