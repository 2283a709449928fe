//! A kernel for sm_90a and its launch, with the kernel's shape erased from the type.

use crate::Result;
use crate::stream::Stream;
use moye_device::memory::Element;
use moye_kernels::attention::Arguments;
use moye_kernels::attention::e4m3::Scales;
use moye_kernels::attention::hopper_config::Config;
use moye_sim::TensorMap as Fields;

/// A kernel for sm_90a that loads by `MAPS` tensor maps.
#[derive(Clone, Copy, Debug)]
pub struct HopperVariant<T: Element, const MAPS: usize> {
    pub name: &'static str,
    pub d: usize,
    /// Query rows and keys of a tile.
    pub tile: (u32, u32),
    /// The fields of the tensor maps; `None` if TMA cannot load the tensors.
    pub fields: fn(&Arguments<T>, KeyTensor) -> Option<[Fields; MAPS]>,
    launch: LaunchFn<T, MAPS>,
}

/// Launches a kernel.
///
/// # Safety
/// As [`HopperLaunch::run`].
type LaunchFn<T, const MAPS: usize> = unsafe fn(&Stream, &HopperLaunch<T, MAPS>, Arguments<T>) -> Result<()>;

impl<T: Element, const MAPS: usize> HopperVariant<T, MAPS> {
    /// The kernel `name` of the configuration `C`.
    pub const fn of<C: Config>(
        name: &'static str,
        fields: fn(&Arguments<T>, KeyTensor) -> Option<[Fields; MAPS]>,
        launch: LaunchFn<T, MAPS>,
    ) -> Self {
        Self { name, d: C::D as usize, tile: (64 * C::WARPGROUPS, C::BLK_N), fields, launch }
    }
}

/// A launch of such a kernel.
#[derive(Clone, Copy, Debug)]
pub struct HopperLaunch<T: Element, const MAPS: usize> {
    pub variant: HopperVariant<T, MAPS>,
    /// The fields of the tensor maps.
    pub fields: [Fields; MAPS],
    pub blocks: u64,
    /// Query heads in a tile, and splits of the keys.
    pub pack: u32,
    pub splits: u32,
    /// Persistent kernels: the heads whose keys and values stay in L2 at a time.
    pub section: u32,
    /// The scale factors of 8-bit floats.
    pub scales: Scales,
}

impl<T: Element, const MAPS: usize> HopperLaunch<T, MAPS> {
    /// The query rows of a tile.
    pub fn rows(&self) -> u32 {
        self.variant.tile.0
    }

    /// # Safety
    /// As for the kernel: the tensors of `arguments` are in the device's memory, with their extents
    /// and strides.
    pub unsafe fn run(&self, stream: &Stream, mut arguments: Arguments<T>) -> Result<()> {
        let _ = arguments.grid(self.rows());
        // SAFETY: the caller's contract.
        unsafe { (self.variant.launch)(stream, self, arguments) }
    }
}

/// The extents of K and V that the arguments do not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyTensor {
    /// Tokens of a sequence, of all sequences with variable lengths, or of a page.
    pub rows: u32,
    /// Sequences or pages.
    pub batches: u32,
}
