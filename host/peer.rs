//! Several devices: shared memory, copies between them, and flags.
//!
//! A *peer* is a device whose memory another one reads and writes. A *flag* is a word in memory
//! that a stream raises and that streams and kernels of any device wait for
//! ([`wait_flag`](moye_device::arch::wait_flag)). Flag values increase modulo 2^32 and are not
//! reset.

use crate::captures::not_captured;
use crate::device::simulator::Simulator;
use crate::device::{Backend, Device};
use crate::driver::{DriverCode, peer};
use crate::stream::Stream;
use crate::{Buffer, Element, Error, Result};
use std::sync::Arc;

impl Device {
    /// New simulators that can access each other's memory: peers in one process.
    ///
    /// ```
    /// let devices = moye::Device::sim_peers(2);
    /// let (source, target) = (devices[0].upload(&[1u32, 2])?, devices[1].upload(&[0u32; 3])?);
    /// assert!(devices[0].enable_peer(&devices[1])?);
    /// let (stream, other) = (devices[0].new_stream()?, devices[1].new_stream()?);
    /// // SAFETY: the buffers have these elements, and the other stream waits for the flag.
    /// unsafe {
    ///     stream.copy(target.address(), source.address(), 8)?;
    ///     stream.raise(target.address() + 8, 1)?;
    ///     other.wait_flag(target.address() + 8, 1)?;
    /// }
    /// assert_eq!(target.download()?, [1, 2, 1]);
    /// # Ok::<(), moye::Error>(())
    /// ```
    pub fn sim_peers(count: usize) -> Vec<Self> {
        let first = Simulator::new(None);
        let others: Vec<_> = (1..count).map(|_| first.peer()).collect();
        let all = std::iter::once(first).chain(others).take(count);
        all.map(|simulator| Self(Backend::Sim(Arc::new(simulator)))).collect()
    }

    /// The index of a GPU in the driver's order ([`Device::gpu`]); `None` for the simulator.
    pub fn index(&self) -> Option<u32> {
        match &self.0 {
            Backend::Gpu(gpu) => Some(gpu.index()),
            Backend::Sim(_) => None,
        }
    }

    /// The identifier of a GPU, or of its MIG instance: the same in all processes, as
    /// `nvidia-smi -L` prints it. `None` for the simulator.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn uuid(&self) -> Result<Option<[u8; 16]>> {
        let Backend::Gpu(gpu) = &self.0 else { return Ok(None) };
        let mut uuid = [0; 16];
        // SAFETY: the pointer to the identifier is writable; the driver returned the device.
        unsafe { peer::get_uuid(&mut uuid, gpu.raw_device()?) }
            .map_err(|code| gpu.error_of_code("cuDeviceGetUuid", code))?;
        Ok(Some(uuid))
    }

    /// Makes memory of `peer` accessible to this device. Returns whether it is: some pairs of GPUs
    /// have no peer access, and a simulator can access only simulators from the same call of
    /// [`sim_peers`](Self::sim_peers).
    ///
    /// # Errors
    /// An error of the driver.
    pub fn enable_peer(&self, peer: &Self) -> Result<bool> {
        /// `CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED`
        const ALREADY: i32 = 704;
        let (gpu, other) = match (&self.0, &peer.0) {
            (Backend::Gpu(gpu), Backend::Gpu(other)) => (*gpu, *other),
            (Backend::Sim(own), Backend::Sim(other)) => return Ok(own.memory().is(other.memory())),
            _ => return Ok(false),
        };
        if std::ptr::eq(gpu, other) {
            return Ok(true);
        }
        gpu.bind()?;
        let mut can = 0;
        // SAFETY: the pointer to the result is writable; the driver returned both devices.
        unsafe { peer::can_access_peer(&mut can, gpu.raw_device()?, other.raw_device()?) }
            .map_err(|code| gpu.error_of_code("cuDeviceCanAccessPeer", code))?;
        if can == 0 {
            return Ok(false);
        }
        gpu.bind()?;
        // SAFETY: the other GPU's context lives as long as the process.
        match unsafe { peer::enable_peer_access(other.context(), 0) } {
            Ok(()) => Ok(true),
            Err(code) if code.number() == ALREADY => Ok(true),
            Err(code) => Err(gpu.error_of_code("cuCtxEnablePeerAccess", code)),
        }
    }

    /// Maps an allocation of another process by the bytes that [`Buffer::share`] returned there.
    /// Returns the address of its first byte on this device; `None` if this GPU cannot access the
    /// memory. A simulator cannot access other processes.
    ///
    /// # Errors
    /// An error of the driver.
    pub fn open_shared(&self, handle: [u8; 64]) -> Result<Option<Shared>> {
        /// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`
        const ENABLE_PEER: u32 = 1;
        /// `CUDA_ERROR_PEER_ACCESS_UNSUPPORTED`
        const UNSUPPORTED: i32 = 217;
        let Backend::Gpu(gpu) = &self.0 else { return Ok(None) };
        gpu.bind()?;
        let mut address = 0;
        // SAFETY: the pointer to the address is writable; the driver checks the handle.
        match unsafe { peer::open_handle(&mut address, peer::Handle(handle), ENABLE_PEER) } {
            Ok(()) => Ok(Some(Shared { device: self.clone(), address })),
            Err(code) if code.number() == UNSUPPORTED => Ok(None),
            Err(code) => Err(gpu.error_of_code("cuIpcOpenMemHandle", code)),
        }
    }

    /// Reads a word without waiting for the work of any stream.
    ///
    /// # Errors
    /// An error of the driver.
    ///
    /// # Safety
    /// `address` is that of an aligned word in memory that the device can access.
    pub unsafe fn read_flag(&self, address: u64) -> Result<u32> {
        let mut word = [0; 4];
        match &self.0 {
            Backend::Sim(simulator) => simulator.memory().view(address, 4)?.read(0, &mut word)?,
            Backend::Gpu(gpu) => {
                let stream = Stream::for_capture(self, gpu)?;
                // SAFETY: the caller guarantees the word; the bytes are writable until the stream
                // is idle.
                unsafe { peer::copy_to_host(word.as_mut_ptr().cast(), address, 4, stream.raw(gpu)) }
                    .map_err(|code| gpu.error_of_code("cuMemcpyDtoHAsync", code))?;
                stream.synchronize()?;
            }
        }
        Ok(u32::from_le_bytes(word))
    }

    /// Raises a flag without waiting for any stream: it releases the work that waits for the flag.
    ///
    /// # Errors
    /// An error of the driver.
    ///
    /// # Safety
    /// Same contract as [`Stream::raise`].
    pub unsafe fn raise_now(&self, address: u64, value: u32) -> Result<()> {
        let stream = match &self.0 {
            Backend::Sim(_) => self.new_stream()?,
            Backend::Gpu(gpu) => Stream::for_capture(self, gpu)?,
        };
        // SAFETY: the caller guarantees the word, which is accessed only as a flag.
        unsafe { stream.write_flag(address, value)? };
        stream.synchronize()
    }
}

impl<T: Element> Buffer<T> {
    /// The handle by which another process of this host opens the buffer: [`Device::open_shared`].
    /// The buffer has a separate allocation of the driver, and stays alive while others use it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on the simulator and for an empty buffer, or an error of the driver.
    pub fn share(&self) -> Result<[u8; 64]> {
        let (Backend::Gpu(gpu), false) = (&self.device().0, self.is_empty()) else {
            let detail = "a buffer on the simulator, or without elements, has no handle".to_owned();
            return Err(Error::Unsupported { operation: "share", detail });
        };
        gpu.bind()?;
        let mut handle = peer::Handle([0; 64]);
        // SAFETY: the pointer to the handle is writable; the buffer is alive.
        unsafe { peer::get_handle(&mut handle, self.address()) }
            .map_err(|code| gpu.error_of_code("cuIpcGetMemHandle", code))?;
        Ok(handle.0)
    }
}

/// An allocation of another process, mapped by [`Device::open_shared`] until it is dropped.
#[derive(Debug)]
pub struct Shared {
    device: Device,
    address: u64,
}

impl Shared {
    /// The address of its first byte on the device that opened it.
    pub const fn address(&self) -> u64 {
        self.address
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Backend::Gpu(gpu) = &self.device.0
            && gpu.bind().is_ok()
        {
            // SAFETY: opened once, closed once. The driver waits for the work that uses the memory.
            let _ = unsafe { peer::close_handle(self.address) };
        }
    }
}

impl Stream {
    /// Copies bytes in stream order by the copy engine, between any memory that the device can
    /// access.
    ///
    /// # Errors
    /// The simulator's fault, or an error of the driver.
    ///
    /// # Safety
    /// The bytes are accessible until the work is complete. No other work writes what is read, or
    /// accesses what is written, unless events or flags order it.
    pub unsafe fn copy(&self, to: u64, from: u64, bytes: usize) -> Result<()> {
        self.not_recorded("a copy")?;
        match &self.device().0 {
            _ if bytes == 0 => Ok(()),
            Backend::Sim(simulator) => Ok(self.simulated(simulator).stream().copy(to, from, bytes)?),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                // SAFETY: the caller guarantees the bytes; the stream is alive.
                unsafe { peer::copy(to, from, bytes, self.raw(gpu)) }
                    .map_err(|code| gpu.error_of_code("cuMemcpyAsync", code))
            }
        }
    }

    /// Raises a flag in stream order: streams and kernels that observe it also see what the
    /// stream's earlier work wrote. The capture of a graph refuses it, because all launches of the
    /// graph would write the same value.
    ///
    /// # Errors
    /// [`Error::Captured`], the simulator's fault, or an error of the driver.
    ///
    /// # Safety
    /// `address` is that of an aligned word in memory that the device can access, and other work
    /// accesses it only as a flag.
    pub unsafe fn raise(&self, address: u64, value: u32) -> Result<()> {
        self.not_recorded("a write of a flag")?;
        // SAFETY: the caller guarantees the word, which is accessed only as a flag.
        unsafe { self.write_flag(address, value) }
    }

    /// # Safety
    /// Same contract as [`raise`](Self::raise).
    unsafe fn write_flag(&self, address: u64, value: u32) -> Result<()> {
        match &self.device().0 {
            Backend::Sim(simulator) => Ok(self.simulated(simulator).stream().raise(address, value)?),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                // SAFETY: the caller guarantees the word; the stream is alive. By default a
                // system-wide fence precedes the write.
                unsafe { peer::write_value(self.raw(gpu), address, value, 0) }
                    .map_err(|code| gpu.error_of_code("cuStreamWriteValue32", code))
            }
        }
    }

    /// Makes later work on this stream wait until a flag has reached `value`.
    ///
    /// # Errors
    /// [`Error::Captured`], on the simulator the fault that no work has raised the flag, or an
    /// error of the driver.
    ///
    /// # Safety
    /// Same contract as [`raise`](Self::raise).
    pub unsafe fn wait_flag(&self, address: u64, value: u32) -> Result<()> {
        /// `CU_STREAM_WAIT_VALUE_GEQ`
        const REACHED: u32 = 0;
        self.not_recorded("a wait for a flag")?;
        match &self.device().0 {
            Backend::Sim(simulator) => Ok(self.simulated(simulator).stream().wait_flag(address, value)?),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                // SAFETY: the caller guarantees the word; the stream is alive.
                unsafe { peer::wait_value(self.raw(gpu), address, value, REACHED) }
                    .map_err(|code| gpu.error_of_code("cuStreamWaitValue32", code))
            }
        }
    }

    /// Whether all work so far has completed. Does not wait.
    ///
    /// # Errors
    /// The fault of a kernel, or an error of the driver.
    pub fn is_idle(&self) -> Result<bool> {
        not_captured("a query of a stream")?;
        match &self.device().0 {
            Backend::Sim(_) => Ok(true),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                // SAFETY: the stream is alive, and its context is current.
                match unsafe { peer::query(self.raw(gpu)) } {
                    Ok(()) => Ok(true),
                    Err(DriverCode::NOT_READY) => Ok(false),
                    Err(code) => Err(gpu.error_of_code("cuStreamQuery", code)),
                }
            }
        }
    }

    /// Rejects a call while a graph is captured from this stream.
    fn not_recorded(&self, call: &'static str) -> Result<()> {
        let is_captured = match &self.device().0 {
            Backend::Sim(_) => self.recorded().is_some(),
            Backend::Gpu(gpu) => {
                gpu.bind()?;
                self.captures() || self.is_captured_elsewhere(gpu)?
            }
        };
        if is_captured { Err(Error::Captured { call }) } else { Ok(()) }
    }
}
