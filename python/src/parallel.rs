//! Products over several GPUs, with one rank per process.

use crate::arguments::{self, taken};
use crate::device::{Place, named, target};
use crate::grouped::{matrix, matrix_mut};
use crate::operand::Operand;
use crate::tensor::Tensor;
use crate::{error, work};
use moye::half::{bf16, f16};
use moye::{Device, Stream};
use moye_parallel::{Group, Operands, ParallelElement, ParallelMatmul, Rendezvous};
use pyo3::prelude::*;
use std::time::Duration;

/// A rank of a group.
#[pyclass(frozen, module = "moye._moye")]
pub struct ParallelGroup {
    /// Until it is dropped.
    group: Option<Group>,
    device: Device,
    /// For arrays on the host: ranks may be threads that share a simulator.
    stream: Stream,
}

#[pymethods]
impl ParallelGroup {
    /// Connects to the other ranks at an address where rank 0 listens.
    #[new]
    fn new(
        py: Python<'_>,
        rank: usize,
        world: usize,
        address: &str,
        device: Option<&str>,
        timeout: f64,
    ) -> PyResult<Self> {
        let device = named(device)?;
        let timeout = Duration::try_from_secs_f64(timeout)
            .map_err(|reason| error::value(format!("timeout is {timeout}: {reason}")))?;
        let meet = || Group::join(&device, Rendezvous::tcp(address, rank, world), timeout);
        let group = py.detach(meet).map_err(error::raised)?;
        let stream = device.new_stream().map_err(error::raised)?;
        Ok(Self { group: Some(group), device, stream })
    }

    fn explain(&self) -> String {
        self.group().explain()
    }

    /// Waits for the work on a stream.
    fn wait(&self, py: Python<'_>, stream: Option<u64>) -> PyResult<()> {
        let stream = match self.device.index() {
            None => self.stream.clone(),
            Some(index) => target(Place::Gpu(index), None, stream)?.1,
        };
        py.detach(|| self.group().wait(&[&stream])).map_err(error::raised)
    }
}

impl ParallelGroup {
    fn group(&self) -> &Group {
        self.group.as_ref().expect("taken by `drop` alone")
    }
}

impl Drop for ParallelGroup {
    /// Waits for the other ranks, which may be threads that need the GIL.
    fn drop(&mut self) {
        let group = self.group.take();
        Python::attach(|py| py.detach(|| drop(group)));
    }
}

enum Built {
    F16(ParallelMatmul<'static, f16>),
    Bf16(ParallelMatmul<'static, bf16>),
}

/// A product of all ranks.
#[pyclass(frozen, module = "moye._moye")]
pub struct ParallelProduct {
    // Dropped before the group, to which it refers.
    product: Built,
    group: Py<ParallelGroup>,
}

#[pymethods]
impl ParallelProduct {
    /// All ranks create the same products in the same order.
    #[new]
    fn new(
        py: Python<'_>,
        group: Py<ParallelGroup>,
        form: &str,
        extents: [usize; 3],
        dtype: &str,
        shards: Option<Vec<usize>>,
    ) -> PyResult<Self> {
        // SAFETY: the class is frozen, so the group stays in place, and `group` keeps it until the
        // product is dropped.
        let of: &'static Group = unsafe { &*std::ptr::from_ref(group.get().group()) };
        let builder = match form {
            "all_gather" => ParallelMatmul::all_gather(of, extents),
            "reduce_scatter" => ParallelMatmul::reduce_scatter(of, extents),
            "all_reduce" => ParallelMatmul::all_reduce(of, extents),
            _ => {
                return Err(error::value(format!(
                    "form is {form:?}; it must be all_gather, reduce_scatter or all_reduce"
                )));
            }
        };
        let builder = shards.iter().fold(builder, |builder, shards| builder.shards(shards));
        let build = || match dtype {
            "float16" => builder.build().map(Built::F16),
            _ => builder.build().map(Built::Bf16),
        };
        if !["float16", "bfloat16"].contains(&dtype) {
            return Err(error::kind(format!("dtype is {dtype}; it must be float16 or bfloat16")));
        }
        let product = py.detach(build).map_err(error::raised)?;
        Ok(Self { product, group })
    }

    fn explain(&self) -> String {
        match &self.product {
            Built::F16(product) => product.explain(),
            Built::Bf16(product) => product.explain(),
        }
    }

    /// The product of this rank's operands; rows of b are columns of the product.
    fn run(
        &self,
        py: Python<'_>,
        a: &Operand,
        b: &Operand,
        out: &Operand,
        stream: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let stream: Option<u64> = taken(stream, "stream", arguments::STREAM, |stream| stream.extract())?;
        let dtype = match &self.product {
            Built::F16(_) => "float16",
            Built::Bf16(_) => "bfloat16",
        };
        for (name, operand) in [("a", a), ("b", b), ("out", out)] {
            operand.expect_dtype(name, dtype)?;
            operand.expect_place(name, "a", a.place)?;
        }
        out.expect_writable("out")?;
        let device = &self.group.get().device;
        if device.index().map_or(Place::Host, Place::Gpu) != a.place {
            return Err(error::value(format!("a is on {}, and the rank on {}", a.place, device.name())));
        }
        let stream = match a.place {
            Place::Host => self.group.get().stream.clone(),
            Place::Gpu(_) => target(a.place, None, stream)?.1,
        };
        match &self.product {
            Built::F16(product) => multiply(py, product, device, &stream, [a, b, out]),
            Built::Bf16(product) => multiply(py, product, device, &stream, [a, b, out]),
        }
    }
}

fn multiply<T: ParallelElement>(
    py: Python<'_>,
    product: &ParallelMatmul<'_, T>,
    device: &Device,
    stream: &Stream,
    [a, b, out]: [&Operand; 3],
) -> PyResult<()> {
    let (of_a, of_b, of_out) = (a.matrix("a")?, b.matrix("b")?, out.matrix("out")?);
    let (a, b) = (Tensor::<T>::read(device, a, "a")?, Tensor::<T>::read(device, b, "b")?);
    let mut result = Tensor::<T>::written(device, out, "out")?;
    work::run(py, device, || {
        let (a, b) = (matrix(&a, of_a)?, matrix(&b, of_b)?);
        let mut calls = [Operands { stream, a, b, c: matrix_mut(&mut result, of_out)? }];
        // SAFETY: on a GPU the library of the arrays launches what uses them on this stream.
        unsafe { product.run(&mut calls) }
    })?;
    result.give_back(out)
}
