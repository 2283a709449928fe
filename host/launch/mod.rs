//! Launches: a kernel, a grid and arguments, checked and run.

mod args;
mod named;
mod prepared;

pub use crate::grid::Grid;
pub use args::{KernelArg, KernelArgs};
pub(crate) use prepared::{Prepared, noting};

use crate::device::{Backend, Device};
use crate::driver;
use crate::driver::launch::Extents;
use crate::matrix::same_device;
use crate::module::{Module, Ptx};
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::kernel::{Kernel, Params};
use std::sync::OnceLock;

impl Device {
    /// Launches a kernel on the default stream. Returns while the kernel runs; on the simulator,
    /// after it has completed. The simulator runs any kernel; on a GPU, the kernel's crate is one
    /// of `moye`'s families of operations or has linked its PTX ([`link_ptx!`](crate::link_ptx)),
    /// and [`Module::launch`] launches kernels of other crates.
    ///
    /// The compiler checks the arguments against the kernel's parameters. The simulator returns a
    /// fault of the kernel from this call; a GPU returns it from the next call that waits for the
    /// kernel ([`Device::synchronize`], a download).
    ///
    /// # Errors
    /// A grid or block exceeds the limits of the device or the kernel's launch bounds, a buffer
    /// belongs to another device, or the kernel needs more shared memory than a block can have;
    /// errors of loading the kernels, and of the driver.
    ///
    /// # Safety
    /// The kernel's contract holds for these arguments: it accesses only the buffers it receives
    /// (lengths and strides are right), and is written for this grid.
    ///
    /// The call returns while the kernel runs, and its borrows end with it. Until the kernel has
    /// completed, no other stream may write what it reads, or read or write what it writes. This
    /// holds for launches and for safe calls, such as a copy on the default stream.
    /// Transfers wait for the kernel, and so does the drop of a buffer.
    pub unsafe fn launch<P: Params>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        // SAFETY: the kernel's contract holds, and no other stream interferes until it completes.
        unsafe { self.default_stream().launch(kernel, grid, arguments) }
    }
}

impl Module {
    /// Launches a kernel of this module on the device's default stream, and returns while it runs
    /// (on the simulator, when it has completed).
    ///
    /// # Errors
    /// Same as [`Device::launch`]; also if the module has no such kernel.
    ///
    /// # Safety
    /// Same contract as [`Device::launch`].
    pub unsafe fn launch<P: Params>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        // SAFETY: the kernel's contract holds, and no other stream interferes until it completes.
        unsafe { self.launch_on(&self.device().default_stream(), kernel, grid, arguments) }
    }

    /// Launches a kernel of this module on a stream of the device.
    ///
    /// # Errors
    /// Same as [`Device::launch`]; also if the module has no such kernel, or the stream belongs to
    /// another device.
    ///
    /// # Safety
    /// Same contract as [`Device::launch`].
    pub unsafe fn launch_on<P: Params>(
        &self,
        stream: &Stream,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        // SAFETY: the kernel's contract holds, and no other stream interferes until it completes.
        unsafe { launch(self, stream, kernel, grid, arguments) }
    }
}

impl Stream {
    /// [`Device::launch`] on this stream.
    ///
    /// # Errors
    /// Same as [`Device::launch`].
    ///
    /// # Safety
    /// Same contract as [`Device::launch`].
    pub unsafe fn launch<P: Params>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        let module = self.device().linked(kernel)?;
        // SAFETY: the kernel's contract holds, and no other stream interferes until it completes.
        unsafe { launch(&module, self, kernel, grid, arguments) }
    }
}

impl Ptx {
    /// Launches one of these kernels on a stream, whose device loads it at the first launch.
    ///
    /// # Errors
    /// Same as [`Device::load`] and [`Module::launch`].
    ///
    /// # Safety
    /// Same contract as [`Device::launch`].
    pub unsafe fn launch<P: Params>(
        &self,
        stream: &Stream,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        let module = stream.device().load(self)?;
        // SAFETY: the kernel's contract holds, and no other stream interferes until it completes.
        unsafe { launch(&module, stream, kernel, grid, arguments) }
    }
}

/// Whether PDL launches can be captured: from CUDA 12.3 on.
fn takes_dependent_launches() -> bool {
    static TAKES: OnceLock<bool> = OnceLock::new();
    *TAKES.get_or_init(|| driver::version().is_ok_and(|version| version >= (12, 3)))
}

/// Checks a launch and performs it.
///
/// # Safety
/// Same contract as [`Device::launch`].
pub(crate) unsafe fn launch<P: Params>(
    module: &Module,
    stream: &Stream,
    kernel: &Kernel<P>,
    grid: Grid,
    arguments: impl KernelArgs<P>,
) -> Result<()> {
    let (name, device) = (kernel.name(), module.device());
    grid.check(name, kernel.bounds())?;
    let limit = device.properties().shared_bytes_per_block;
    if kernel.shared_bytes() > limit {
        return Err(Error::SharedMemory {
            kernel: name,
            asked: kernel.shared_bytes(),
            limit,
            device: device.label(),
        });
    }
    if stream.device() != device {
        return Err(Error::StreamOfOtherDevice { stream: stream.device().label(), device: device.label() });
    }
    let parameters = arguments.pass(&mut |argument, buffer| same_device(name, argument, buffer, device))?;
    match &device.0 {
        Backend::Sim(simulator) => {
            if !moye_device::kernel::SIMULATED {
                let detail =
                    "this program has no code of kernels for the simulator; enable the feature `simulator` \
                              of moye, or run it on a GPU"
                        .to_owned();
                return Err(Error::Unsupported { operation: name, detail });
            }
            module.check_declared(kernel)?;
            let stream = stream.simulated(simulator);
            // SAFETY: a launch in the graph has the same contract as this one.
            if unsafe { stream.add(kernel, grid, parameters) }? {
                return Ok(());
            }
            simulator.run(stream.stream(), name, grid, kernel.shared_bytes(), &|| {
                // SAFETY: this runs inside a simulated thread, and the caller keeps the kernel's
                // contract.
                unsafe { kernel.call(parameters) }
            })?;
            simulator.profile_ptx(name, module.ptx());
            Ok(())
        }
        Backend::Gpu(gpu) => {
            let function = module.function(gpu, kernel)?;
            let threads = grid.threads.count() as u64;
            let limit = u64::from(function.attributes.max_threads);
            if threads > limit {
                let reason = "its registers allow";
                return Err(Error::TooManyThreads { kernel: name, threads, limit, reason });
            }
            let (b, t, c) = (grid.blocks, grid.threads, grid.cluster);
            let can_depend = || !stream.captures() || takes_dependent_launches();
            let extents = Extents {
                grid: [b.x, b.y, b.z],
                block: [t.x, t.y, t.z],
                cluster: [c.x, c.y, c.z],
                dependent: grid.dependent && function.waits && can_depend(),
                shared_bytes: kernel.shared_bytes() as u32,
            };
            let function = function.function.0;
            prepared::note(|| prepared::Prepared::new(name, function, extents, &parameters));
            gpu.bind()?;
            let stream = stream.raw(gpu);
            // SAFETY: the addresses are those of the declared parameters, in order. The caller
            // keeps the kernel's contract.
            parameters.with_addresses(|addresses| unsafe {
                prepared::launch(gpu, name, function, &extents, stream, addresses)
            })
        }
    }
}
