//! A kernel for sm_90a and its launch, with the kernel's shape erased from the type.

use crate::kernels::Arguments;
use crate::kernels::hopper::{HopperConfig, Scales};
use moye_device::memory::Element;
use moye_runtime::{Result, Stream};
use moye_sim::TensorMap as Fields;

/// Head sizes of keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeadSizes {
    pub d: usize,
    pub dv: usize,
}

/// A kernel for sm_90a: for whole tensors, with maps of Q, K, V and O, or for pages, variable
/// lengths, packed heads and splits, with maps of K and V by boxes and by small boxes.
#[derive(Clone, Copy, Debug)]
pub struct HopperVariant<T: Element> {
    pub name: &'static str,
    pub sizes: HeadSizes,
    /// Query rows and keys of a tile.
    pub tile: (u32, u32),
    /// Whether it writes the log-sum-exp if the call has memory for it.
    pub writes_lse: bool,
    /// The fields of the tensor maps; `None` if TMA cannot load the tensors.
    pub fields: fn(&Arguments<T>, KeyTensor) -> Option<[Fields; 4]>,
    /// Launches the kernel.
    pub launch: LaunchFn<T>,
}

/// Launches a kernel.
///
/// # Safety
/// As for the kernel: the tensors of the arguments are in the device's memory, with their extents
/// and strides.
type LaunchFn<T> = unsafe fn(&Stream, &HopperLaunch, Arguments<T>) -> Result<()>;

impl<T: Element> HopperVariant<T> {
    /// The kernel `name` of the configuration `C`.
    pub const fn of<C: HopperConfig>(
        name: &'static str,
        fields: fn(&Arguments<T>, KeyTensor) -> Option<[Fields; 4]>,
        launch: LaunchFn<T>,
    ) -> Self {
        let sizes = HeadSizes { d: C::D as usize, dv: C::DV as usize };
        Self { name, sizes, tile: (64 * C::WARPGROUPS, C::BLK_N), writes_lse: true, fields, launch }
    }

    /// The kernel `name` of the configuration `C`, which writes the log-sum-exp or not.
    pub const fn writes_lse(self, writes_lse: bool) -> Self {
        Self { writes_lse, ..self }
    }
}

/// The parameters of a launch besides the arguments.
#[derive(Clone, Copy, Debug)]
pub struct HopperLaunch {
    /// The fields of the tensor maps.
    pub fields: [Fields; 4],
    pub blocks: u32,
    /// Persistent kernels: the heads whose keys and values stay in L2 at a time.
    pub section: u32,
    /// The scale factors of 8-bit floats.
    pub scales: Scales,
}

/// The extents of K and V that the arguments do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyTensor {
    /// Tokens of a sequence, of all sequences with variable lengths, or of a page.
    pub rows: u32,
    /// Sequences or pages.
    pub batches: u32,
}
