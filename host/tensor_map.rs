//! Tensor maps: the description of a tensor and of its boxes for TMA.

use crate::device::gpu::Gpu;
use crate::device::{Backend, Device};
use crate::launch::KernelArg;
use crate::memory::Buffer;
use crate::mix::place;
use crate::{Error, Result, driver};
use moye_device::atom::tma::{TmaCopy, TmaElement, TmaMap, TmaTile};
use moye_device::layout::Layout;
use moye_device::memory::TensorMap as Parameter;
use moye_device::tensor::StaticLayout;
use moye_sim::{TensorMap as Fields, TensorPromotion};
use std::cell::RefCell;
use std::marker::PhantomData;

/// A tensor map for a device: in the driver's form for a GPU, in the simulator's otherwise. A
/// kernel receives it as a parameter [`TensorMap`](moye_device::memory::TensorMap).
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
    /// The map with these fields, for kernels of `device`. It stores the tensor's address without
    /// accessing the memory: the launch's contract covers that.
    ///
    /// # Errors
    /// [`Error::TensorMap`] with the values if a limit is violated, or an error of the driver.
    pub fn new(device: &Device, fields: &Fields) -> Result<Self> {
        let words = match &device.0 {
            Backend::Sim(_) => {
                fields.check().map_err(Error::TensorMap)?;
                fields.encode()
            }
            Backend::Gpu(gpu) => encoded(gpu, fields)?,
        };
        Ok(Self { device: device.clone(), fields: *fields, words })
    }

    /// The map for copies of tiles of a tensor in `buffer`: `tile` is the tile in shared memory,
    /// `tensor` the tensor's layout in the buffer, from its first element on.
    ///
    /// ```
    /// use moye::{Device, TensorMap};
    /// use moye::layout::{ComposedLayout, Major, SwizzleBytes, layout, shared_memory_atom, tuple};
    /// use moye_device::atom::tma::TmaTile;
    ///
    /// const A: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 32).tile_to_shape(tuple!((128, 32)));
    /// const TILE: TmaTile = TmaTile::new(A, 32);
    ///
    /// let device = Device::sim();
    /// let a = device.alloc_zeroed::<f32>(1000 * 512)?;
    /// let map = TensorMap::of_tile(&device, &TILE, &a, &layout!((1000, 512):(512, 1)))?;
    /// assert_eq!(map.fields().box_bytes(), u64::from(TILE.bytes()));
    /// # Ok::<(), moye::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TensorOfTile`] for a tensor that does not match the tile or that TMA does not
    /// support, [`Error::TensorBeyondBuffer`] for one that is larger than the buffer, or an error
    /// of the driver.
    pub fn of_tile<T: TmaElement>(
        device: &Device,
        tile: &TmaTile,
        buffer: &Buffer<T>,
        tensor: &Layout,
    ) -> Result<Self> {
        // First, because this rejects layouts without a cosize and with negative indices.
        let fields = tile.tensor_map(T::ELEMENT, buffer.address(), tensor).map_err(Error::TensorOfTile)?;
        let elements = tensor.cosize();
        if usize::try_from(elements).is_ok_and(|elements| elements <= buffer.len()) {
            return Self::new(device, &fields);
        }
        Err(Error::TensorBeyondBuffer { elements, len: buffer.len() })
    }

    /// The fields.
    pub fn fields(&self) -> &Fields {
        &self.fields
    }
}

/// The number of slots for a thread's maps. Two maps with the same slot replace each other.
const PLACES: usize = 64;

/// Maps by GPU and fields.
type Encoded = [Option<(*const Gpu, Fields, [u64; 16])>; PLACES];

thread_local! {
    static ENCODED: RefCell<Box<Encoded>> = RefCell::new(Box::new([None; PLACES]));
}

/// The map in the driver's form: this thread's cached one for the same fields, or a new one. It
/// stores the tensor's address as an integer, so it stays right for any memory at this address.
fn encoded(gpu: &'static Gpu, fields: &Fields) -> Result<[u64; 16]> {
    let gpu: *const Gpu = gpu;
    let Fields { address, extents, strides, box_extents, .. } = fields;
    let shape = [extents[0], extents[1], strides[0], u64::from(box_extents[0]), u64::from(box_extents[1])];
    ENCODED.with_borrow_mut(|maps| {
        let slot = &mut maps[place::<PLACES>([*address].into_iter().chain(shape))];
        if let Some((of, known, words)) = slot
            && (*of, &*known) == (gpu, fields)
        {
            return Ok(*words);
        }
        fields.check().map_err(Error::TensorMap)?;
        let words = driver::tensor_map::encode(fields)
            .map_err(|code| Error::of_code("cuTensorMapEncodeTiled", code))?;
        *slot = Some((gpu, *fields, words));
        Ok(words)
    })
}

/// A tensor map for the copy `C` of a kernel with a parameter
/// [`TmaMap<C>`](moye_device::atom::tma::TmaMap). It is built from the copy's tile, so that host
/// and kernel agree.
///
/// ```
/// use moye::layout::{ComposedLayout, Major, SwizzleBytes, layout, shared_memory_atom, tuple};
/// use moye::{Device, TensorMapOf};
/// use moye_device::atom::tma::TmaCopy;
/// use moye_device::swizzled_layout;
///
/// const A: ComposedLayout = shared_memory_atom(Major::K, SwizzleBytes::B128, 32).tile_to_shape(tuple!((128, 32)));
/// swizzled_layout! { SmemA = A; }
/// type LoadA = TmaCopy<f32, SmemA, 2>;
///
/// let device = Device::sim();
/// let a = device.alloc_zeroed::<f32>(1000 * 512)?;
/// let map = TensorMapOf::<LoadA>::new(&a, &layout!((1000, 512):(512, 1)))?;
/// assert_eq!(map.fields().box_bytes(), 128 * 32 * 4);
/// # Ok::<(), moye::Error>(())
/// ```
pub struct TensorMapOf<C> {
    map: TensorMap,
    copy: PhantomData<fn() -> C>,
}

impl<C> std::fmt::Debug for TensorMapOf<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.map.fmt(f)
    }
}

impl<C> TensorMapOf<C> {
    /// The map with these fields, which are those of the copy.
    ///
    /// # Errors
    /// Same as [`TensorMap::new`].
    pub fn of_fields(device: &Device, fields: &Fields) -> Result<Self> {
        Ok(Self { map: TensorMap::new(device, fields)?, copy: PhantomData })
    }

    /// The fields.
    pub fn fields(&self) -> &Fields {
        &self.map.fields
    }

    /// The same map with another L2 promotion: the number of bytes that L2 fetches for a row of a
    /// box.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn with_promotion(&self, promotion: TensorPromotion) -> Result<Self> {
        let map = TensorMap::new(&self.map.device, &Fields { promotion, ..self.map.fields })?;
        Ok(Self { map, copy: PhantomData })
    }
}

impl<T: TmaElement, L: StaticLayout, const R: usize, const CLUSTER: u32>
    TensorMapOf<TmaCopy<T, L, R, CLUSTER>>
{
    /// The map of a tensor in `buffer`, whose layout counts elements from the buffer's first.
    ///
    /// # Errors
    /// Same as [`TensorMap::of_tile`].
    pub fn new(buffer: &Buffer<T>, tensor: &Layout) -> Result<Self> {
        let map = TensorMap::of_tile(buffer.device(), &TmaCopy::<T, L, R, CLUSTER>::TILE, buffer, tensor)?;
        Ok(Self { map, copy: PhantomData })
    }
}

impl<C: 'static> KernelArg<TmaMap<C>> for &TensorMapOf<C> {
    fn device(&self) -> Option<&Device> {
        Some(&self.map.device)
    }
    fn pass(self) -> TmaMap<C> {
        TmaMap::from_words(self.map.words)
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
