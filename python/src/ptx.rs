//! Kernels of a PTX module, launched by name with arguments from Python.

use crate::arguments::{self, taken};
use crate::device::target;
use crate::device::{self, Place};
use crate::operand::Operand;
use crate::{error, work};
use moye::{Grid, Ptx, PtxParam};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

/// The kernels of a PTX module.
#[pyclass(frozen, module = "moye._moye")]
pub struct PtxModule(Ptx);

/// The valid extents, for messages.
const EXTENT: &str = "an integer, or up to three of them";

#[pymethods]
impl PtxModule {
    /// `name` is for messages. The PTX is kept for the life of the process.
    #[new]
    fn new(name: &str, text: &str) -> PyResult<Self> {
        let target = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"));
        let arch =
            target.and_then(|rest| rest.split([',', ' ', '/']).map(str::trim).find(|word| !word.is_empty()));
        let arch =
            arch.ok_or_else(|| error::value(format!("{name} is not PTX: it has no line `.target`")))?;
        let image: (&'static str, &'static str) = (arch.to_owned().leak(), text.to_owned().leak());
        let ptx = Ptx::new(name.to_owned().leak(), vec![image].leak());
        if ptx.entries().is_empty() {
            return Err(error::value(format!("{name} has no kernel: there is no `.entry` in it")));
        }
        Ok(Self(ptx))
    }

    /// The parameters of each kernel.
    fn kernels<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for name in self.0.entries() {
            let params = self.0.params(&name).unwrap_or_default();
            all.set_item(name, PyTuple::new(py, params.iter().map(ToString::to_string))?)?;
        }
        Ok(all)
    }

    #[pyo3(signature = (kernel, blocks, threads, given, *, shared_bytes, cluster, device, stream))]
    #[allow(clippy::too_many_arguments, reason = "they are those of Python's method")]
    fn launch(
        &self,
        py: Python<'_>,
        kernel: &str,
        blocks: &Bound<'_, PyAny>,
        threads: &Bound<'_, PyAny>,
        given: Vec<Bound<'_, PyAny>>,
        shared_bytes: usize,
        cluster: &Bound<'_, PyAny>,
        device: &Bound<'_, PyAny>,
        stream: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let device: Option<String> = taken(device, "device", arguments::DEVICE, |device| device.extract())?;
        let stream = taken(stream, "stream", arguments::STREAM, |stream| stream.extract())?;
        let extent = |value: &Bound<'_, PyAny>, name| taken(value, name, EXTENT, extents);
        let grid = Grid::new(extent(blocks, "blocks")?, extent(threads, "threads")?);
        let grid = grid.clusters(extent(cluster, "cluster")?);
        let params = self.0.params(kernel).ok_or_else(|| {
            error::value(format!("there is no kernel {kernel}; there are {}", self.0.entries().join(", ")))
        })?;
        if params.len() != given.len() {
            let takes = params.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(error::kind(format!(
                "{kernel} takes ({takes}), and {} arguments are given",
                given.len()
            )));
        }
        let mut first: Option<Place> = None;
        let mut parameters = Vec::with_capacity(given.len());
        for (at, (param, value)) in params.iter().zip(&given).enumerate() {
            let name = format!("argument {at} of {kernel}");
            let Ok(operand) = value.cast::<Operand>() else {
                parameters.push(scalar(param, value, &name)?);
                continue;
            };
            let operand = operand.get();
            if let Place::Host = operand.place {
                return Err(error::value(format!(
                    "{name} is on the host, and a GPU runs PTX; copy it to the GPU (the simulator runs kernels whose Rust is compiled \
                     into the package)"
                )));
            }
            if param.size() != 8 || param.kind == 'f' {
                return Err(error::kind(format!("{name} is {param}, which takes no array")));
            }
            operand.expect_place(&name, "another array", *first.get_or_insert(operand.place))?;
            parameters.push((operand.address as u64).to_le_bytes().to_vec());
        }
        let (device, stream) = match first {
            Some(place) => target(place, device.as_deref(), stream)?,
            None => {
                let device = device::named(device.as_deref())?;
                (device.clone(), device.default_stream())
            }
        };
        let module = device.load(&self.0).map_err(error::raised)?;
        let parameters: Vec<&[u8]> = parameters.iter().map(Vec::as_slice).collect();
        work::run(py, &device, || {
            // SAFETY: the caller of Python's method guarantees that the kernel stays within its
            // arrays.
            unsafe { module.launch_entry(&stream, kernel, grid, shared_bytes, &parameters) }
        })
    }
}

/// One to three extents.
fn extents(value: &Bound<'_, PyAny>) -> PyResult<(u32, u32, u32)> {
    if let Ok(x) = value.extract::<u32>() {
        return Ok((x, 1, 1));
    }
    match *value.extract::<Vec<u32>>()?.as_slice() {
        [x] => Ok((x, 1, 1)),
        [x, y] => Ok((x, y, 1)),
        [x, y, z] => Ok((x, y, z)),
        _ => Err(error::value("it has another length")),
    }
}

/// The bytes of a scalar, or of a struct that is passed as bytes.
fn scalar(param: &PtxParam, value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<u8>> {
    let size = param.size();
    if param.count.is_some() {
        let wanted = format!("{size} bytes for {param}");
        let bytes: Vec<u8> =
            taken(value, name, &wanted, |value| value.cast::<pyo3::types::PyBytes>()?.extract())?;
        return match bytes.len() == size {
            true => Ok(bytes),
            false => Err(error::value(format!("{name} is {} bytes, and must be {wanted}", bytes.len()))),
        };
    }
    if param.kind == 'f' {
        let number: f64 = taken(value, name, &format!("a number for {param}"), |value| value.extract())?;
        return match size {
            4 => Ok((number as f32).to_le_bytes().to_vec()),
            8 => Ok(number.to_le_bytes().to_vec()),
            _ => Err(error::kind(format!("{name} is {param}, which has no number of Python"))),
        };
    }
    // PTX does not say whether an integer is signed.
    let bits = 8 * size as u32;
    let wanted = format!("an array or an integer of {bits} bits for {param}");
    let number: i128 = taken(value, name, &wanted, |value| {
        value.extract::<i64>().map(i128::from).or_else(|_| value.extract::<u64>().map(i128::from))
    })?;
    let fits = (1..=64).contains(&bits) && (-(1i128 << (bits - 1))..1i128 << bits).contains(&number);
    if !fits {
        return Err(error::value(format!("{name} is {number}, and must be {wanted}")));
    }
    Ok(number.to_le_bytes()[..size].to_vec())
}
