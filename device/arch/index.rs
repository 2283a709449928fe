//! Indices and dimensions of thread, block and grid.

/// Three extents or indices, with `x` fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dim3 {
    /// The fastest index.
    pub x: u32,
    /// The middle index.
    pub y: u32,
    /// The slowest index.
    pub z: u32,
}

macro_rules! special_register {
    ($(#[$doc:meta])* $name:ident, $x:ident, $y:ident, $z:ident) => {
        $(#[$doc])*
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub fn $name() -> Dim3 {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: reads special registers.
            unsafe {
                use core::arch::nvptx::{$x, $y, $z};
                Dim3 { x: $x() as u32, y: $y() as u32, z: $z() as u32 }
            }
            #[cfg(not(target_arch = "nvptx64"))]
            {
                let d = moye_sim::intrinsics::$name();
                Dim3 { x: d.x, y: d.y, z: d.z }
            }
        }
    };
}

special_register! {
    /// The thread's index in its block (`%tid`, CUDA's `threadIdx`).
    thread_idx, _thread_idx_x, _thread_idx_y, _thread_idx_z
}
special_register! {
    /// The block's index in the grid (`%ctaid`, CUDA's `blockIdx`).
    block_idx, _block_idx_x, _block_idx_y, _block_idx_z
}
special_register! {
    /// The number of threads in a block (`%ntid`, CUDA's `blockDim`).
    block_dim, _block_dim_x, _block_dim_y, _block_dim_z
}
special_register! {
    /// The number of blocks in the grid (`%nctaid`, CUDA's `gridDim`).
    grid_dim, _grid_dim_x, _grid_dim_y, _grid_dim_z
}

/// The thread's lane in its warp, 0 to 31 (`%laneid`).
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lane_id() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let lane: u32;
        // SAFETY: reads a special register.
        unsafe { core::arch::asm!("mov.u32 {}, %laneid;", out(reg32) lane, options(pure, nomem, nostack)) };
        lane
    }
    #[cfg(not(target_arch = "nvptx64"))]
    moye_sim::intrinsics::lane_id()
}
