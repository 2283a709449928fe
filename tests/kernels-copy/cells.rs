//! Kernels whose 64 threads share four cells of memory.

use moye_device::memory::SharedArray;
use moye_device::{layout, static_layout};

static_layout! {
    /// The cells in shared memory.
    pub Cells = layout!(4);
}

/// Shared memory for the cells.
pub type CellStorage<T> = SharedArray<T, Cells>;

/// Thread `i` applies the operation with `values[i]` to cell `i % 4` of `cells`, in global memory.
macro_rules! global {
    ($($name:ident $t:ty: $function:path;)*) => { $(
        #[moye_device::kernel(threads = 64)]
        pub unsafe fn $name(values: moye_device::memory::Global<$t>, cells: moye_device::memory::GlobalMut<$t>) {
            let i = i64::from(crate::support::index());
            // SAFETY: 64 values and 4 cells.
            unsafe {
                let _ = $function(cells.offset(i % 4).address(), values.read(i));
            }
        }
    )* };
}
pub(crate) use global;

/// As [`global`], in shared memory: the cells are copied there and back by the first four threads.
macro_rules! shared {
    ($($name:ident $t:ty: $function:path;)*) => { $(
        #[moye_device::kernel(threads = 64, shared = crate::cells::CellStorage<$t>)]
        pub unsafe fn $name(values: moye_device::memory::Global<$t>, cells: moye_device::memory::GlobalMut<$t>) {
            let i = crate::support::index();
            // SAFETY: 64 values and 4 cells; the kernel declares `CellStorage`.
            unsafe {
                let shared = moye_device::memory::Shared::<$t>::from_address(moye_device::arch::shared_base());
                if i < 4 {
                    shared.write(i as i32, cells.read(i64::from(i)));
                }
                moye_device::arch::sync_threads();
                let _ = $function(shared.offset((i % 4) as i32).address(), values.read(i64::from(i)));
                moye_device::arch::sync_threads();
                if i < 4 {
                    cells.write(i64::from(i), shared.read(i as i32));
                }
            }
        }
    )* };
}
pub(crate) use shared;
