//! Products of tensors of [candle](candle_core) 0.11.
//!
//! [`Product`] is a custom operation of two tensors; [`ProductInto`] writes its result into a
//! tensor.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use moye::interop::candle::{Declared, Product};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let a = Tensor::ones((2, 5, 3), candle_core::DType::F32, &Device::Cpu)?;
//! let b = Tensor::full(2.0f32, (2, 3, 4), &Device::Cpu)?;
//! let c = a.apply_op2(&b, Product::new())?;
//! assert_eq!(c.to_vec3::<f32>()?, vec![vec![vec![6.0; 4]; 5]; 2]);
//! let transposed = Declared::new(&moye::TRANSPOSE).run(&[Some(&c)])?;
//! assert_eq!(transposed[0].dims(), [2, 4, 5]);
//! # Ok(())
//! # }
//! ```
//!
//! Keep a [`Product`] and pass clones: it owns its workspaces.
//!
//! Tensors on a GPU stay there and are used on their device's stream; this needs the feature
//! `candle-cuda`, which builds candle's kernels by `nvcc`. Tensors on the host are copied to the
//! device of [`Product::on`], by default the simulator.

use super::{Matmul, Operand, Output};
use crate::kernels::mma::Activation;
use candle_core::{CpuStorage, CustomOp2, Error, InplaceOp3, Layout, Result, Shape, Tensor, WithDType};
use half::{bf16, f16};
#[cfg(feature = "candle-cuda")]
use moye_runtime::interop::candle::Streams;
use moye_runtime::interop::candle::reach;
use moye_runtime::{Buffer, BufferSlice, BufferSliceMut, Device, Matrix, MatrixMut, Stream};

/// `activation(alpha * a @ b)` of tensors (..., M, K) and (..., K, N) of f16, bf16, f32 or f64 with
/// equal batch extents.
///
/// Any strides are allowed. Without an activation it has gradients.
#[derive(Clone, Debug)]
pub struct Product {
    alpha: f64,
    activation: Activation,
    host: Device,
    #[cfg(feature = "candle-cuda")]
    streams: Streams,
}

/// `c = alpha * a @ b + beta * c`, in place: `c.inplace_op3(&a, &b,
/// &ProductInto::new().beta(1.0))`.
#[derive(Clone, Debug)]
pub struct ProductInto {
    product: Product,
    beta: f64,
}

impl Default for Product {
    fn default() -> Self {
        Self::new()
    }
}

impl Product {
    /// `a @ b`.
    pub fn new() -> Self {
        Self {
            alpha: 1.0,
            activation: Activation::None,
            host: Device::sim(),
            #[cfg(feature = "candle-cuda")]
            streams: Streams::default(),
        }
    }

    /// The factor of the product.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Self {
        Self { alpha, ..self }
    }

    /// Activation applied to the result.
    #[must_use]
    pub fn activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }

    /// The device to which tensors on the host are copied and from which the result returns; by
    /// default the simulator.
    #[must_use]
    pub fn on(self, host: Device) -> Self {
        Self { host, ..self }
    }
}

impl Default for ProductInto {
    fn default() -> Self {
        Self::new()
    }
}

impl ProductInto {
    /// `c = a @ b`.
    pub fn new() -> Self {
        Self { product: Product::new(), beta: 0.0 }
    }

    /// The factor of the product.
    #[must_use]
    pub fn alpha(self, alpha: f64) -> Self {
        Self { product: self.product.alpha(alpha), ..self }
    }

    /// The factor of the tensor's previous values.
    #[must_use]
    pub fn beta(self, beta: f64) -> Self {
        Self { beta, ..self }
    }

    /// See [`Product::on`].
    #[must_use]
    pub fn on(self, host: Device) -> Self {
        Self { product: self.product.on(host), ..self }
    }
}

/// A tensor as candle passes it: its storage and layout.
#[derive(Clone, Copy)]
struct Laid<'l, S> {
    elements: S,
    layout: &'l Layout,
}

/// The arguments of a [`ProductInto`].
struct IntoCall<'l, S> {
    beta: f64,
    c: Laid<'l, &'l mut S>,
    operands: [Laid<'l, &'l S>; 2],
}

/// The matrices along the last batch mode.
struct Batch {
    /// The offsets of the matrices along all other batch modes.
    offsets: Vec<usize>,
    count: usize,
    stride: usize,
}

/// The matrices of a tensor, with the extents and strides of its batch modes.
struct Matrices<'l> {
    batches: &'l [usize],
    batch_strides: &'l [usize],
    shape: [usize; 2],
    strides: [usize; 2],
}

impl<'l> Matrices<'l> {
    fn of(name: &str, layout: &'l Layout) -> Result<Self> {
        let (dims, strides) = (layout.dims(), layout.stride());
        let Some(outer) = dims.len().checked_sub(2) else {
            candle_core::bail!("{name} has shape {dims:?}, and must have two modes at least; reshape it");
        };
        Ok(Self {
            batches: &dims[..outer],
            batch_strides: &strides[..outer],
            shape: [dims[outer], dims[outer + 1]],
            strides: [strides[outer], strides[outer + 1]],
        })
    }

    fn batch(&self) -> Batch {
        let (Some((&count, outer)), Some((&stride, strides))) =
            (self.batches.split_last(), self.batch_strides.split_last())
        else {
            return Batch { offsets: vec![0], count: 1, stride: 0 };
        };
        let mut offsets = vec![0];
        for (&extent, &stride) in outer.iter().zip(strides) {
            offsets = offsets.iter().flat_map(|at| (0..extent).map(move |i| at + i * stride)).collect();
        }
        Batch { offsets, count, stride }
    }
}

/// The shape of a product.
fn shape_of_product(a: &Layout, b: &Layout) -> Result<Shape> {
    let (from_a, from_b) = (Matrices::of("a", a)?, Matrices::of("b", b)?);
    if from_a.batches != from_b.batches || from_a.shape[1] != from_b.shape[0] {
        candle_core::bail!(
            "a has shape {:?} and b {:?}: a must have as many columns as b has rows, and both the same batch extents",
            a.dims(),
            b.dims()
        );
    }
    let ends = [from_a.shape[0], from_b.shape[1]];
    Ok(Shape::from_dims(&[from_a.batches, &ends].concat()))
}

/// An element type of both libraries.
trait Both: WithDType + Operand + Output<Self> {
    fn elements(storage: &mut CpuStorage) -> Option<&mut [Self]>;
}

macro_rules! both {
    ($($ty:ident $variant:ident),+) => {
        $(impl Both for $ty {
            fn elements(storage: &mut CpuStorage) -> Option<&mut [Self]> {
                match storage {
                    CpuStorage::$variant(elements) => Some(elements),
                    _ => None,
                }
            }
        })+

        /// Calls a generic function with the type of a `DType`.
        macro_rules! with_type {
            ($dtype:expr, $call:ident $arguments:tt) => {
                match $dtype {
                    $(candle_core::DType::$variant => with_type!(@ $call $ty $arguments),)+
                    other => candle_core::bail!("products are of f16, bf16, f32 and f64, and not of {}", other.as_str()),
                }
            };
            (@ $call:ident $t:ident ($self:ident, $argument:expr)) => { $self.$call::<$t>($argument) };
        }
    };
}
both!(f16 F16, bf16 BF16, f32 F32, f64 F64);

impl Product {
    /// Launches the products of all batches. The buffers begin with the first element of each
    /// layout.
    ///
    /// # Safety
    /// Same contract as [`Matmul::run_on`].
    unsafe fn launch<T: Both>(
        &self,
        beta: f64,
        stream: &Stream,
        a: Laid<'_, &Buffer<T>>,
        b: Laid<'_, &Buffer<T>>,
        c: Laid<'_, &mut Buffer<T>>,
    ) -> Result<()> {
        let (of_a, of_b, of_c) =
            (Matrices::of("a", a.layout)?, Matrices::of("b", b.layout)?, Matrices::of("c", c.layout)?);
        if c.layout.dims().contains(&0) {
            return Ok(());
        }
        let (a, b, c) = (a.elements, b.elements, c.elements);
        let [batch_a, batch_b, batch_c] = [of_a.batch(), of_b.batch(), of_c.batch()];
        for ((&at_a, &at_b), &at_c) in batch_a.offsets.iter().zip(&batch_b.offsets).zip(&batch_c.offsets) {
            let view = |buffer: &'_ Buffer<T>, at: usize, of: &Matrices<'_>| -> moye_runtime::Result<_> {
                // An empty layout has no first element.
                let at = at.min(buffer.len());
                Ok((at, of.shape, (of.strides[0], of.strides[1])))
            };
            let ((at_a, [m, k], strides_a), (at_b, [_, n], strides_b)) =
                (view(a, at_a, &of_a).map_err(Error::wrap)?, view(b, at_b, &of_b).map_err(Error::wrap)?);
            let slice_a: BufferSlice<'_, T> = a.slice(at_a..).map_err(Error::wrap)?;
            let slice_b: BufferSlice<'_, T> = b.slice(at_b..).map_err(Error::wrap)?;
            let slice_c: BufferSliceMut<'_, T> = c.slice_mut(at_c..).map_err(Error::wrap)?;
            let a = Matrix::new(slice_a, m, k, strides_a).map_err(Error::wrap)?;
            let b = Matrix::new(slice_b, k, n, strides_b).map_err(Error::wrap)?;
            let mut c =
                MatrixMut::new(slice_c, m, n, (of_c.strides[0], of_c.strides[1])).map_err(Error::wrap)?;
            let product = Matmul::<T>::new(a, b)
                .activation(self.activation)
                .batch(batch_a.count, [batch_a.stride, batch_b.stride, batch_c.stride])
                .try_alpha(self.alpha)
                .and_then(|product| product.try_beta(beta))
                .map_err(Error::wrap)?;
            // SAFETY: until the work is complete, no other stream writes the operands or uses C.
            unsafe { product.run_on(stream, &mut c) }.map_err(Error::wrap)?;
        }
        Ok(())
    }

    /// The product of tensors on the host.
    fn on_host<T: Both>(&self, [a, b]: [Laid<'_, &CpuStorage>; 2]) -> Result<(CpuStorage, Shape)> {
        let shape = shape_of_product(a.layout, b.layout)?;
        let mut c = self.host.alloc_uninit::<T>(shape.elem_count()).map_err(Error::wrap)?;
        let layout_c = Layout::contiguous(shape.clone());
        let (from_a, from_b) = (uploaded::<T>(&self.host, a)?, uploaded::<T>(&self.host, b)?);
        let a = Laid { elements: &from_a, layout: a.layout };
        let b = Laid { elements: &from_b, layout: b.layout };
        let stream = self.host.default_stream();
        // SAFETY: the default stream runs its work in order, and no other stream uses the buffers.
        unsafe { self.launch(0.0, &stream, a, b, Laid { elements: &mut c, layout: &layout_c })? };
        Ok((T::to_cpu_storage_owned(c.download().map_err(Error::wrap)?), shape))
    }

    /// [`ProductInto`] of tensors on the host.
    fn add_on_host<T: Both>(&self, call: IntoCall<'_, CpuStorage>) -> Result<()> {
        let IntoCall { beta, c, operands: [a, b] } = call;
        check_result(a.layout, b.layout, c.layout)?;
        let (from_a, from_b) = (uploaded::<T>(&self.host, a)?, uploaded::<T>(&self.host, b)?);
        let mut result = uploaded::<T>(&self.host, Laid { elements: &*c.elements, layout: c.layout })?;
        let a = Laid { elements: &from_a, layout: a.layout };
        let b = Laid { elements: &from_b, layout: b.layout };
        let stream = self.host.default_stream();
        // SAFETY: as in `on_host`.
        unsafe { self.launch(beta, &stream, a, b, Laid { elements: &mut result, layout: c.layout })? };
        let start = c.layout.start_offset();
        let Some(elements) = T::elements(c.elements) else {
            candle_core::bail!("c must have the elements of a")
        };
        let result = result.download().map_err(Error::wrap)?;
        elements[start..start + result.len()].copy_from_slice(&result);
        Ok(())
    }
}

/// Rejects a result whose shape is not the product's.
fn check_result(a: &Layout, b: &Layout, c: &Layout) -> Result<()> {
    let shape = shape_of_product(a, b)?;
    if shape.dims() != c.dims() {
        candle_core::bail!("the product of a and b has shape {:?}, and c {:?}", shape.dims(), c.dims());
    }
    Ok(())
}

/// The elements that a layout spans in a storage, uploaded.
fn uploaded<T: Both>(device: &Device, of: Laid<'_, &CpuStorage>) -> Result<Buffer<T>> {
    let start = of.layout.start_offset();
    let elements = &of.elements.as_slice::<T>()?[start..start + reach(of.layout)];
    device.upload(elements).map_err(Error::wrap)
}

impl CustomOp2 for Product {
    fn name(&self) -> &'static str {
        "moye-matmul"
    }

    fn cpu_fwd(
        &self,
        a: &CpuStorage,
        layout_a: &Layout,
        b: &CpuStorage,
        layout_b: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        use candle_core::backend::BackendStorage;
        let operands = [Laid { elements: a, layout: layout_a }, Laid { elements: b, layout: layout_b }];
        with_type!(a.dtype(), on_host(self, operands))
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(
        &self,
        a: &candle_core::CudaStorage,
        layout_a: &Layout,
        b: &candle_core::CudaStorage,
        layout_b: &Layout,
    ) -> Result<(candle_core::CudaStorage, Shape)> {
        use candle_core::backend::BackendStorage;
        let operands = [Laid { elements: a, layout: layout_a }, Laid { elements: b, layout: layout_b }];
        with_type!(a.dtype(), on_gpu(self, operands))
    }

    fn bwd(
        &self,
        a: &Tensor,
        b: &Tensor,
        _: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        if self.activation != Activation::None {
            return Err(Error::BackwardNotSupported { op: self.name() });
        }
        let last = a.rank() - 2;
        let turned = |x: &Tensor| x.transpose(last, last + 1);
        let grad_a = grad.apply_op2(&turned(b)?, self.clone())?;
        let grad_b = turned(a)?.apply_op2(grad, self.clone())?;
        Ok((Some(grad_a), Some(grad_b)))
    }
}

impl InplaceOp3 for ProductInto {
    fn name(&self) -> &'static str {
        "moye-matmul-into"
    }

    fn cpu_fwd(
        &self,
        c: &mut CpuStorage,
        layout_c: &Layout,
        a: &CpuStorage,
        layout_a: &Layout,
        b: &CpuStorage,
        layout_b: &Layout,
    ) -> Result<()> {
        use candle_core::backend::BackendStorage;
        let operands = [Laid { elements: a, layout: layout_a }, Laid { elements: b, layout: layout_b }];
        let c = Laid { elements: c, layout: layout_c };
        let (product, call) = (&self.product, IntoCall { beta: self.beta, c, operands });
        with_type!(a.dtype(), add_on_host(product, call))
    }

    #[cfg(feature = "candle-cuda")]
    fn cuda_fwd(
        &self,
        c: &mut candle_core::CudaStorage,
        layout_c: &Layout,
        a: &candle_core::CudaStorage,
        layout_a: &Layout,
        b: &candle_core::CudaStorage,
        layout_b: &Layout,
    ) -> Result<()> {
        use candle_core::backend::BackendStorage;
        let operands = [Laid { elements: a, layout: layout_a }, Laid { elements: b, layout: layout_b }];
        let c = Laid { elements: c, layout: layout_c };
        let (product, call) = (&self.product, IntoCall { beta: self.beta, c, operands });
        with_type!(a.dtype(), into_gpu(product, call))
    }
}

#[cfg(feature = "candle-cuda")]
mod cuda {
    //! Tensors on a GPU.

    use super::{Both, IntoCall, Laid, Product, check_result, reach, shape_of_product};
    use candle_core::backend::BackendStorage;
    use candle_core::cuda_backend::CudaDType;
    use candle_core::{CudaStorage, Error, Layout, Result, Shape};
    use cudarc::driver::DeviceRepr;

    impl Product {
        pub(super) fn on_gpu<T: Both + CudaDType + DeviceRepr>(
            &self,
            [a, b]: [Laid<'_, &CudaStorage>; 2],
        ) -> Result<(CudaStorage, Shape)> {
            let (layout_a, layout_b) = (a.layout, b.layout);
            let (device, shape) = (a.elements.device().clone(), shape_of_product(layout_a, layout_b)?);
            // SAFETY: the product writes every element.
            let mut c = unsafe { device.alloc::<T>(shape.elem_count())? };
            let layout_c = Layout::contiguous(shape.clone());
            let stream = self.streams.of(&device.cuda_stream())?;
            let (a, b) = (a.elements.as_cuda_slice::<T>()?, b.elements.as_cuda_slice::<T>()?);
            let (a, b) = (
                a.slice(layout_a.start_offset()..layout_a.start_offset() + reach(layout_a)),
                b.slice(layout_b.start_offset()..layout_b.start_offset() + reach(layout_b)),
            );
            // SAFETY: the views are used only on this stream.
            unsafe {
                let (a, b) = (stream.read(&a).map_err(Error::wrap)?, stream.read(&b).map_err(Error::wrap)?);
                let mut c = stream.write(&mut c).map_err(Error::wrap)?;
                let (a, b) =
                    (Laid { elements: &*a, layout: layout_a }, Laid { elements: &*b, layout: layout_b });
                self.launch(0.0, &stream, a, b, Laid { elements: &mut *c, layout: &layout_c })?;
            }
            Ok((CudaStorage::wrap_cuda_slice(c, device), shape))
        }

        pub(super) fn into_gpu<T: Both + CudaDType + DeviceRepr>(
            &self,
            call: IntoCall<'_, CudaStorage>,
        ) -> Result<()> {
            let IntoCall { beta, c, operands: [a, b] } = call;
            let (layout_a, layout_b, layout_c) = (a.layout, b.layout, c.layout);
            check_result(layout_a, layout_b, layout_c)?;
            let stream = self.streams.of(&a.elements.device().cuda_stream())?;
            let (a, b) = (a.elements.as_cuda_slice::<T>()?, b.elements.as_cuda_slice::<T>()?);
            let (a, b) = (
                a.slice(layout_a.start_offset()..layout_a.start_offset() + reach(layout_a)),
                b.slice(layout_b.start_offset()..layout_b.start_offset() + reach(layout_b)),
            );
            let start = layout_c.start_offset();
            let mut c = c.elements.as_cuda_slice_mut::<T>()?.slice_mut(start..start + reach(layout_c));
            // SAFETY: the views are used only on this stream. candle rejects an in-place operation
            // whose tensors share a storage.
            unsafe {
                let (a, b) = (stream.read(&a).map_err(Error::wrap)?, stream.read(&b).map_err(Error::wrap)?);
                let mut c = stream.write(&mut c).map_err(Error::wrap)?;
                let (a, b) =
                    (Laid { elements: &*a, layout: layout_a }, Laid { elements: &*b, layout: layout_b });
                self.launch(beta, &stream, a, b, Laid { elements: &mut *c, layout: layout_c })
            }
        }
    }
}
