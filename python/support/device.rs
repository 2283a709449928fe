//! The device and the stream of a call.

use crate::error;
use moye_runtime::{Device, DeviceChoice, Stream};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

/// Where an array is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Host,
    Gpu(u32),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Host => f.write_str("the host"),
            Self::Gpu(index) => write!(f, "GPU {index}"),
        }
    }
}

/// The device of a name: `auto`, `gpu`, `gpu:N` or `sim`; `cuda` and `cuda:N` are PyTorch's names
/// of GPUs. Without a name, the environment variable `MOYE_DEVICE` selects it.
///
/// The process has one simulator.
pub fn named(name: Option<&str>) -> PyResult<Device> {
    let choice = match name {
        None => DeviceChoice::from_env(),
        Some(name) => match name.strip_prefix("cuda") {
            Some(rest) => format!("gpu{rest}").parse(),
            None => name.parse(),
        },
    };
    static SIM: OnceLock<Device> = OnceLock::new();
    match choice.map_err(error::raised)? {
        DeviceChoice::Sim => Ok(SIM.get_or_init(Device::sim).clone()),
        DeviceChoice::Auto => match SIM_BY_DEFAULT.get() {
            Some(device) => Ok(device.clone()),
            None => {
                let device = Device::choose(DeviceChoice::Auto).map_err(error::raised)?;
                Ok(if device.is_gpu() { device } else { SIM_BY_DEFAULT.get_or_init(|| device).clone() })
            }
        },
        choice => Device::choose(choice).map_err(error::raised),
    }
}

/// The simulator in place of a missing GPU; it knows why.
static SIM_BY_DEFAULT: OnceLock<Device> = OnceLock::new();

/// The GPU of arrays on a GPU; the caller may name only that one.
///
/// It is the GPU's primary context, which PyTorch, CuPy and JAX use too.
pub fn of_gpu(index: u32, name: Option<&str>) -> PyResult<Device> {
    let device = Device::gpu(index).map_err(error::raised)?;
    match name {
        Some(name) if named(Some(name))? != device => Err(error::value(format!(
            "the arrays are on GPU {index}, and device is {name:?}; leave device out, or copy them to the host"
        ))),
        _ => Ok(device),
    }
}

/// A stream of another library by its handle. Its workspace is kept between calls.
///
/// # Safety
/// The stream is alive until the call for which it is used returns.
pub unsafe fn stream(device: &Device, index: u32, handle: u64) -> PyResult<Stream> {
    /// The per-thread default stream: this handle is another stream in each thread.
    const PER_THREAD: u64 = 2;
    /// The identity of a stream: its GPU, its handle, and for per-thread streams the thread.
    type Key = (u32, u64, Option<ThreadId>);
    // A destroyed stream stays here with its workspace. The driver reuses its handle for a new
    // stream only when its work has ended, so the new one may use that workspace.
    static KNOWN: OnceLock<Mutex<HashMap<Key, Stream>>> = OnceLock::new();
    let key = (index, handle, (handle == PER_THREAD).then(|| thread::current().id()));
    let mut known = KNOWN.get_or_init(Default::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(stream) = known.get(&key) {
        return Ok(stream.clone());
    }
    let raw = std::ptr::with_exposed_provenance_mut::<c_void>(handle as usize);
    // SAFETY: the stream is alive; handles in `KNOWN` are never dropped, so nothing uses the
    // stream after the call.
    let stream = unsafe { Stream::from_raw_handle(device, raw) }.map_err(error::raised)?;
    known.insert(key, stream.clone());
    Ok(stream)
}

/// The device that computes with arrays at a place, and the stream.
pub fn target(place: Place, device: Option<&str>, stream: Option<u64>) -> PyResult<(Device, Stream)> {
    match place {
        Place::Host => {
            if stream.is_some() {
                return Err(error::value(
                    "stream goes with arrays on a GPU, and these are on the host; leave it out",
                ));
            }
            let device = named(device)?;
            let stream = device.default_stream();
            Ok((device, stream))
        }
        Place::Gpu(index) => {
            let device = of_gpu(index, device)?;
            // SAFETY: the caller's handle, of a stream that its library keeps while this call runs;
            // 0 is the legacy default stream.
            let stream = unsafe { self::stream(&device, index, stream.unwrap_or(0))? };
            Ok((device, stream))
        }
    }
}

/// The name of a device: a GPU's, or `simulator`.
///
/// device: `auto`, `gpu`, `gpu:N` or `sim`; by default the value of the environment variable
/// MOYE_DEVICE, or `auto`.
#[pyfunction]
#[pyo3(signature = (device=None))]
pub fn device_name(device: Option<&str>) -> PyResult<String> {
    Ok(named(device)?.name().to_owned())
}

/// Why `auto` is the simulator; None if it is a GPU.
#[pyfunction]
pub fn why_simulated() -> PyResult<Option<String>> {
    Ok(named(Some("auto"))?.why_simulated().map(ToString::to_string))
}
