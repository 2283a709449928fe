//! Modules: PTX loaded on a device.

mod recalled;

pub use crate::device::loaded::KernelAttributes;
pub use crate::ptx::Ptx;

use crate::device::gpu::Gpu;
use crate::device::loaded::{GpuFunction, Loaded};
use crate::device::{Backend, Device};
use crate::ptx::{EntryParams, of_package};
use crate::{Error, Result};
use moye_device::kernel::{Kernel, Params};

/// The kernels of a crate, loaded on a device.
///
/// ```ignore
/// static KERNELS: moye::Ptx = moye::include_ptx!("my_kernels");
///
/// let module = device.load(&KERNELS)?;
/// // SAFETY: `x` and `y` have `n` elements each.
/// unsafe { module.launch(&my_kernels::saxpy, Grid::new(blocks, 256), (2.0, &x, &mut y, n))? };
/// ```
#[derive(Clone)]
pub struct Module {
    device: Device,
    ptx: Ptx,
    /// On a GPU.
    loaded: Option<&'static Loaded>,
}

impl Device {
    /// Loads the kernels of a crate.
    ///
    /// Kernels of [`include_ptx!`](crate::include_ptx) are loaded one by one, each at its first
    /// launch (or query of its attributes), and errors are reported then: a program launches few of
    /// them, and a driver without a cache takes over 10 s for all kernels of `moye`. Each is
    /// loaded from the best image that contains it: on Hopper from the one for sm_90a, or, if that
    /// lacks the kernel, from the one for sm_80. If a package contains machine code for the GPU,
    /// the driver compiles nothing.
    ///
    /// The image of [`Ptx::new`] that fits the GPU best is compiled whole, once in a process.
    ///
    /// # Errors
    /// No image of `ptx` fits the GPU, or the driver refuses it: [`Error::NoPtxForArch`],
    /// [`Error::PtxVersion`], [`Error::PtxRefused`].
    pub fn load(&self, ptx: &Ptx) -> Result<Module> {
        let loaded = match &self.0 {
            Backend::Sim(_) => None,
            Backend::Gpu(gpu) => Some(gpu.modules.load(gpu, ptx)?),
        };
        Ok(Module { device: self.clone(), ptx: *ptx, loaded })
    }

    /// The attributes of a compiled kernel whose PTX is linked ([`link_ptx!`](crate::link_ptx));
    /// `None` on the simulator.
    ///
    /// # Errors
    /// As for a launch.
    pub fn attributes<P: Params>(&self, kernel: &Kernel<P>) -> Result<Option<KernelAttributes>> {
        self.linked(kernel)?.attributes(kernel)
    }

    /// The module of the kernel's package, whose PTX is linked; on the simulator, which needs none,
    /// of any package.
    pub(crate) fn linked<P: Params>(&self, kernel: &Kernel<P>) -> Result<Module> {
        match of_package(kernel.package()).filter(|ptx| !ptx.is_empty()) {
            Some(ptx) => self.load(ptx),
            None if self.is_gpu() => {
                Err(Error::NeedsModule { kernel: kernel.name(), package: kernel.package() })
            }
            None => Ok(Module { device: self.clone(), ptx: Ptx::new("none", &[]), loaded: None }),
        }
    }
}

impl Module {
    /// The PTX from which it was loaded.
    pub(crate) const fn ptx(&self) -> &Ptx {
        &self.ptx
    }

    /// The module in the GPU's context; `None` on the simulator.
    pub(crate) const fn loaded(&self) -> Option<&'static Loaded> {
        self.loaded
    }

    /// The device on which it is loaded.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The attributes of a compiled kernel of this module; `None` on the simulator.
    ///
    /// # Errors
    /// The module has no such kernel, or an error of the driver.
    pub fn attributes<P: Params>(&self, kernel: &Kernel<P>) -> Result<Option<KernelAttributes>> {
        match &self.device.0 {
            Backend::Sim(_) => Ok(None),
            Backend::Gpu(gpu) => self.function(gpu, kernel).map(|function| Some(function.attributes)),
        }
    }

    /// The kernel in the context of `gpu`, the GPU of this module's device.
    pub(crate) fn function<P: Params>(
        &self,
        gpu: &'static Gpu,
        kernel: &Kernel<P>,
    ) -> Result<&'static GpuFunction> {
        let loaded = self.loaded.ok_or_else(|| self.no_such(kernel))?;
        recalled::function(loaded, kernel, || {
            let function = loaded.function(gpu, kernel.name(), kernel.package(), kernel.shared_bytes())?;
            self.check_params(kernel, &function.params)?;
            Ok(function)
        })
    }

    /// Whether the simulator may run the kernel. The program contains the kernel's body, but the
    /// PTX, if any, must contain it too, as on a GPU.
    pub(crate) fn check_declared<P: Params>(&self, kernel: &Kernel<P>) -> Result<()> {
        if self.ptx.is_empty() {
            return Ok(());
        }
        let entry = self.ptx.entry(kernel.name()).ok_or_else(|| self.no_such(kernel))?;
        self.check_params(kernel, &entry)
    }

    /// Checks that the entry point of the kernel's name has the kernel's parameters. The package is
    /// not checked, because a module also contains the kernels of the packages that it depends on.
    fn check_params<P: Params>(&self, kernel: &Kernel<P>, entry: &EntryParams) -> Result<()> {
        if entry.accept(kernel.params()) {
            return Ok(());
        }
        let params = kernel.params().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(Error::OtherParameters {
            kernel: kernel.name(),
            package: kernel.package(),
            params,
            module: self.ptx.name(),
            entry: entry.to_string(),
        })
    }

    fn no_such<P: Params>(&self, kernel: &Kernel<P>) -> Error {
        Error::NoSuchKernel { kernel: kernel.name(), package: kernel.package(), module: self.ptx.name() }
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({} on {:?})", self.ptx.name(), self.device)
    }
}
