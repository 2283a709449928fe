//! Declared operations on tensors.

#[cfg(feature = "candle-cuda")]
use super::cuda::Streams;
use super::reach;
use crate::operation::{Array, ArrayType, Call, Declaration, Dtype, OperandOf, Options, Role, Value};
use crate::{Device, Stream};
use candle_core::backend::BackendDevice;
use candle_core::cpu_backend::CpuDevice;
use candle_core::op::BackpropOp;
use candle_core::{CpuStorage, DType, Error, Layout, Result, Shape, Storage, StorageRef, Tensor};

/// An operation by its [`Declaration`], with its options, on tensors of any strides.
///
/// The results are new tensors, without gradients.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use moye::interop::candle::Declared;
///
/// # fn main() -> candle_core::Result<()> {
/// let x = Tensor::arange(0u8, 6, &Device::Cpu)?.reshape((2, 3))?;
/// let y = &Declared::new(&moye::TRANSPOSE).run(&[Some(&x)])?[0];
/// assert_eq!(y.to_vec2::<u8>()?, [[0, 3], [1, 4], [2, 5]]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Declared {
    declaration: &'static Declaration,
    options: Options,
    /// The optional results to compute.
    kept: Vec<&'static str>,
    host: Device,
    #[cfg(feature = "candle-cuda")]
    streams: Streams,
}

/// A tensor that is read.
struct Input<'t> {
    storage: StorageRef<'t>,
    layout: &'t Layout,
    ty: ArrayType,
}

impl Input<'_> {
    /// The bytes of the storage that the layout reaches.
    fn bytes(&self) -> std::ops::Range<usize> {
        let (start, size) = (self.layout.start_offset(), self.ty.dtype.bytes());
        start * size..(start + reach(self.layout)) * size
    }

    /// The array in memory whose first element is at `address`.
    fn array(&self, address: u64) -> Array {
        let ArrayType { dtype, shape } = self.ty.clone();
        let strides = self.layout.stride().iter().map(|&stride| stride as i64).collect();
        Array { dtype, shape, strides, address }
    }
}

impl Declared {
    /// The operation with its default options, without its optional results.
    pub fn new(declaration: &'static Declaration) -> Self {
        Self {
            declaration,
            options: Options::of(declaration),
            kept: Vec::new(),
            host: Device::sim(),
            #[cfg(feature = "candle-cuda")]
            streams: Streams::default(),
        }
    }

    /// Sets an option.
    ///
    /// # Errors
    /// Same as [`Options::set`].
    pub fn option(mut self, name: &str, value: Value) -> Result<Self> {
        self.options.set(self.declaration.name, name, value).map_err(Error::wrap)?;
        Ok(self)
    }

    /// Sets an option that is one of several names.
    ///
    /// # Errors
    /// Same as [`Options::choose`].
    pub fn choose(mut self, name: &str, chosen: &str) -> Result<Self> {
        self.options.choose(self.declaration.name, name, chosen).map_err(Error::wrap)?;
        Ok(self)
    }

    /// Computes an optional result, too.
    ///
    /// # Errors
    /// The operation has no optional result of this name.
    pub fn keep(mut self, name: &str) -> Result<Self> {
        let optional = self.declaration.operands.iter().filter(|of| of.role == Role::OptionalResult);
        let names: Vec<_> = optional.map(|of| of.name).collect();
        let Some(name) = names.iter().find(|known| **known == name) else {
            let of = self.declaration.name;
            candle_core::bail!("{of} has no optional result {name}; there are {}", names.join(", "));
        };
        self.kept.push(name);
        Ok(self)
    }

    /// The device for tensors on the host, which are copied there and back; the simulator by
    /// default.
    #[must_use]
    pub fn on(self, host: Device) -> Self {
        Self { host, ..self }
    }

    /// Computes the operation: `inputs` in the order of the declaration, `None` for those left out.
    /// Returns the results in that order, optional ones only if [`Declared::keep`] names them.
    ///
    /// # Errors
    /// Tensors that the declaration does not take, tensors of different devices, and the errors of
    /// the operation.
    pub fn run(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>> {
        let name = self.declaration.name;
        let read: Vec<_> = self.declaration.operands.iter().filter(|of| of.role.is_input()).collect();
        if inputs.len() > read.len() {
            candle_core::bail!("{name} takes {} tensors, and has {}", read.len(), inputs.len());
        }
        let Some(first) = inputs.iter().flatten().next() else {
            candle_core::bail!("{name} has no tensor; give {}", read[0].name);
        };
        let mut held = Vec::with_capacity(read.len());
        for (index, of) in read.into_iter().enumerate() {
            let Some(tensor) = inputs.get(index).copied().flatten() else {
                if !of.role.is_optional() {
                    candle_core::bail!("{name}: {} is left out; it is not optional", of.name);
                }
                held.push(None);
                continue;
            };
            if !tensor.device().same_device(first.device()) {
                let (device, other) = (tensor.device(), first.device());
                candle_core::bail!("{name}: {} is on {device:?}, and others on {other:?}", of.name);
            }
            held.push(Some(input(of, tensor)?));
        }
        let types: Vec<_> = held.iter().map(|input| Some(input.as_ref()?.ty.clone())).collect();
        let results = (self.declaration.results)(&types, &self.options).map_err(Error::wrap)?;
        let written = self.declaration.operands.iter().filter(|of| !of.role.is_input());
        let is_kept = |of: &OperandOf| of.role == Role::Result || self.kept.contains(&of.name);
        let results: Vec<_> = written.zip(results).map(|(of, ty)| is_kept(of).then_some(ty)).collect();
        results.iter().flatten().try_for_each(|ty| of_candle(ty.dtype).map(drop))?;
        let storages = match first.device() {
            candle_core::Device::Cpu => self.on_host(&held, &results)?,
            #[cfg(feature = "candle-cuda")]
            candle_core::Device::Cuda(device) => self.on_gpu(device, &held, &results)?,
            other => candle_core::bail!("{name}: there are no kernels for tensors on {other:?}"),
        };
        let tensor = |(storage, ty): (Storage, &ArrayType)| {
            Tensor::from_storage(storage, ty.shape.as_slice(), BackpropOp::none(), false)
        };
        Ok(storages.into_iter().zip(results.iter().flatten()).map(tensor).collect())
    }

    /// Checks the call of arrays in the order of the declaration, and computes it.
    ///
    /// # Safety
    /// Same contract as [`Declaration::run`].
    unsafe fn launch(&self, stream: &Stream, operands: &[Option<Array>]) -> crate::Result<()> {
        let call = Call { operands, options: &self.options };
        self.declaration.check(&call)?;
        // SAFETY: the call was checked; the arrays are on the stream's device.
        unsafe { (self.declaration.run)(stream, &call) }
    }

    /// The results of tensors on the host.
    fn on_host(&self, inputs: &[Option<Input<'_>>], results: &[Option<ArrayType>]) -> Result<Vec<Storage>> {
        let (mut memory, mut operands) = (Vec::new(), Vec::new());
        for input in inputs {
            let Some(input) = input else {
                operands.push(None);
                continue;
            };
            let Storage::Cpu(storage) = &*input.storage else { unreachable!("it is on the host") };
            let buffer = self.host.upload(&bytes(storage)?[input.bytes()]).map_err(Error::wrap)?;
            operands.push(Some(input.array(buffer.address())));
            memory.push(buffer);
        }
        let mut written = Vec::new();
        for ty in results {
            let Some(ty) = ty else {
                operands.push(None);
                continue;
            };
            let count = ty.shape.iter().product::<usize>() * ty.dtype.bytes();
            let buffer = self.host.alloc_uninit::<u8>(count).map_err(Error::wrap)?;
            operands.push(Some(Array::row_major(ty, buffer.address())));
            written.push((buffer, ty));
        }
        // SAFETY: the arrays are in `memory` and `written`, on this device, and its default stream
        // has its work in order.
        unsafe { self.launch(&self.host.default_stream(), &operands) }.map_err(Error::wrap)?;
        let storage = |(buffer, ty): (crate::Buffer<u8>, &ArrayType)| {
            let shape = Shape::from_dims(&ty.shape);
            let mut storage = CpuDevice.zeros_impl(&shape, of_candle(ty.dtype)?)?;
            bytes_mut(&mut storage)?.copy_from_slice(&buffer.download().map_err(Error::wrap)?);
            Ok(Storage::Cpu(storage))
        };
        written.into_iter().map(storage).collect()
    }
}

/// A tensor as an operand.
fn input<'t>(of: &OperandOf, tensor: &'t Tensor) -> Result<Input<'t>> {
    let dtype = [
        (DType::F32, Dtype::F32),
        (DType::F16, Dtype::F16),
        (DType::BF16, Dtype::Bf16),
        (DType::I32, Dtype::I32),
        (DType::I64, Dtype::I64),
        (DType::U8, Dtype::U8),
        (DType::F8E4M3, Dtype::E4m3),
        (DType::F64, Dtype::F64),
    ]
    .iter()
    .find(|(theirs, _)| *theirs == tensor.dtype());
    let name = dtype.map_or(tensor.dtype().as_str(), |(_, ours)| ours.name());
    let dtype = of.dtype(name).map_err(|is| Error::Msg(is + "; convert it by `to_dtype`"))?;
    let (storage, layout) = tensor.storage_and_layout();
    let ty = ArrayType { dtype, shape: layout.dims().to_vec() };
    Ok(Input { storage, layout, ty })
}

/// candle's name of an element type.
fn of_candle(dtype: Dtype) -> Result<DType> {
    Ok(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::Bf16 => DType::BF16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::U8 => DType::U8,
        Dtype::E4m3 => DType::F8E4M3,
        Dtype::F64 => DType::F64,
        Dtype::I8 | Dtype::E5m2 | Dtype::C128 | Dtype::Bool => {
            candle_core::bail!("candle has no tensors of {dtype}; choose another type")
        }
    })
}

/// Calls a generic function with the elements of a storage, whose types are those of operands.
macro_rules! with_elements {
    ($storage:expr, $of:ident, $variants:ident) => {
        match $storage {
            $variants::U8(elements) => Ok($of(elements)),
            $variants::I32(elements) => Ok($of(elements)),
            $variants::I64(elements) => Ok($of(elements)),
            $variants::BF16(elements) => Ok($of(elements)),
            $variants::F16(elements) => Ok($of(elements)),
            $variants::F32(elements) => Ok($of(elements)),
            $variants::F64(elements) => Ok($of(elements)),
            $variants::F8E4M3(elements) => Ok($of(elements)),
            _ => Err(Error::Msg("there are no kernels for these elements".to_owned())),
        }
    };
}

/// The bytes of the elements.
fn bytes(storage: &CpuStorage) -> Result<&[u8]> {
    fn of<T: Copy>(elements: &Vec<T>) -> &[u8] {
        // SAFETY: the elements have no padding.
        unsafe { std::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements.as_slice())) }
    }
    with_elements!(storage, of, CpuStorage)
}

/// The bytes of the elements, to write.
fn bytes_mut(storage: &mut CpuStorage) -> Result<&mut [u8]> {
    fn of<T: Copy>(elements: &mut Vec<T>) -> &mut [u8] {
        let count = size_of_val(elements.as_slice());
        // SAFETY: the elements have no padding, and any bytes are a valid element.
        unsafe { std::slice::from_raw_parts_mut(elements.as_mut_ptr().cast(), count) }
    }
    with_elements!(storage, of, CpuStorage)
}

#[cfg(feature = "candle-cuda")]
mod on_gpu {
    //! Tensors on a GPU.

    use super::{Declared, Input, of_candle};
    use crate::operation::{Array, ArrayType};
    use candle_core::backend::BackendDevice;
    use candle_core::cuda_backend::CudaStorageSlice;
    use candle_core::{CudaDevice, CudaStorage, Error, Result, Shape, Storage};
    use cudarc::driver::{CudaSlice, CudaView, CudaViewMut, DeviceSlice};

    /// The bytes of the elements.
    fn bytes(storage: &CudaStorage) -> Result<CudaView<'_, u8>> {
        fn of<T>(elements: &CudaSlice<T>) -> CudaView<'_, u8> {
            // SAFETY: the elements have no padding.
            unsafe { elements.transmute(elements.len() * size_of::<T>()) }.expect("as many bytes")
        }
        with_elements!(&storage.slice, of, CudaStorageSlice)
    }

    /// The bytes of the elements, to write.
    fn bytes_mut(storage: &mut CudaStorage) -> Result<CudaViewMut<'_, u8>> {
        fn of<T>(elements: &mut CudaSlice<T>) -> CudaViewMut<'_, u8> {
            let count = elements.len() * size_of::<T>();
            // SAFETY: the elements have no padding, and any bytes are a valid element.
            unsafe { elements.transmute_mut(count) }.expect("as many bytes")
        }
        with_elements!(&mut storage.slice, of, CudaStorageSlice)
    }

    impl Declared {
        /// The results of tensors on a GPU, where they are.
        pub(super) fn on_gpu(
            &self,
            device: &CudaDevice,
            inputs: &[Option<Input<'_>>],
            results: &[Option<ArrayType>],
        ) -> Result<Vec<Storage>> {
            let stream = self.streams.of(&device.cuda_stream())?;
            let mut read = Vec::new();
            for input in inputs.iter().flatten() {
                let Storage::Cuda(storage) = &*input.storage else { unreachable!("it is on the GPU") };
                read.push(bytes(storage)?.slice(input.bytes()));
            }
            let mut written = Vec::new();
            for ty in results.iter().flatten() {
                let shape = Shape::from_dims(&ty.shape);
                // SAFETY: the operation writes all of it.
                written.push(unsafe { device.alloc_uninit(&shape, of_candle(ty.dtype)?)? });
            }
            {
                let mut into = written.iter_mut().map(bytes_mut).collect::<Result<Vec<_>>>()?;
                // SAFETY: the views are used only on this stream, until the end of this block.
                let reading = read.iter().map(|view| unsafe { stream.read(view) });
                let reading = reading.collect::<crate::Result<Vec<_>>>().map_err(Error::wrap)?;
                // SAFETY: the views are used only on this stream, until the end of this block.
                let writing = into.iter_mut().map(|view| unsafe { stream.write(view) });
                let writing = writing.collect::<crate::Result<Vec<_>>>().map_err(Error::wrap)?;
                let (mut reading, mut writing) = (reading.iter(), writing.iter());
                let read = |input: &Option<Input<'_>>| Some(input.as_ref()?.array(reading.next()?.address()));
                let written =
                    |ty: &Option<ArrayType>| Some(Array::row_major(ty.as_ref()?, writing.next()?.address()));
                let operands: Vec<_> = inputs.iter().map(read).chain(results.iter().map(written)).collect();
                // SAFETY: the arrays are in the views, which cudarc orders before later uses on
                // other streams.
                unsafe { self.launch(&stream, &operands) }.map_err(Error::wrap)?;
            }
            Ok(written.into_iter().map(Storage::Cuda).collect())
        }
    }
}
