//! Tensor maps: what kernels tell TMA of a tensor and of the boxes that it moves.

use crate::device::{Backend, Device};
use crate::launch::KernelArg;
use crate::{Error, Result, driver};
use moye_device::memory::TensorMap as Parameter;
use moye_sim::TensorMap as Fields;

/// A tensor map of a device: of a GPU in the driver's form, of the simulator in its own. A kernel takes it as a parameter
/// [`TensorMap`](moye_device::memory::TensorMap).
///
/// ```
/// use moye::{Device, TensorElement, TensorMap, TensorMapFields, TensorSwizzle};
///
/// let device = Device::sim();
/// let a = device.alloc_zeroed::<f32>(1000 * 512)?;
/// // Boxes of 32 x 128 of a row-major matrix of 1000 rows of 512, rows of 128 bytes in shared memory, swizzled.
/// let fields = TensorMapFields::new(TensorElement::F32, a.address(), &[512, 1000], &[4 * 512], &[32, 128]);
/// let map = TensorMap::new(&device, &fields.with_swizzle(TensorSwizzle::B128))?;
/// assert_eq!(map.fields().box_bytes(), 32 * 128 * 4);
/// # Ok::<(), moye::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TensorMap {
    device: Device,
    fields: Fields,
    words: [u64; 16],
}

impl TensorMap {
    /// The map with these fields, for kernels of `device`. The tensor's address is kept and not followed: that the memory is
    /// there is for the launch to promise.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the numbers where a limit is not kept; the driver's own.
    pub fn new(device: &Device, fields: &Fields) -> Result<Self> {
        fields.check().map_err(Error::TensorMap)?;
        let words = match &device.0 {
            Backend::Sim(_) => fields.encode(),
            Backend::Gpu(_) => driver::tensor_map::encode(fields)
                .map_err(|code| Error::of_code("cuTensorMapEncodeTiled", code))?,
        };
        Ok(Self { device: device.clone(), fields: *fields, words })
    }

    /// What it was made of.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }
}

impl KernelArg<Parameter> for &TensorMap {
    fn device(&self) -> Option<&Device> {
        Some(&self.device)
    }
    fn pass(self) -> Parameter {
        Parameter::from_words(self.words)
    }
}
