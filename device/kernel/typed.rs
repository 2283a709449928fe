//! A kernel as the host sees it.

use super::{KernelParam, ParamType};
use alloc::format;
use alloc::string::String;
use core::ffi::c_void;
use moye_sim::profile::{Profile, Profiler};
use moye_sim::{Dim3, GlobalMemory, Launch, LaunchError, Report};

/// A kernel: its name in the PTX, its parameters, its launch bounds, and its body for the
/// simulator.
///
/// `#[kernel]` makes one under the name of the function; the host launches it. `P` is the tuple of
/// the parameter types, so a launch with other types does not compile.
// `P` is bound where it is used and not here: `#[kernel]` reports a wrong parameter type at the
// type itself, and once.
#[derive(Debug)]
pub struct Kernel<P> {
    name: &'static str,
    package: &'static str,
    bounds: LaunchBounds,
    shared_bytes: usize,
    entry: unsafe fn(P),
}

impl<P> Clone for Kernel<P> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<P> Copy for Kernel<P> {}

/// The launch bounds that a kernel was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchBounds {
    /// The most threads a block may have (`.maxntid`); `None`: no bound was declared, the device's
    /// limit holds.
    pub threads: Option<u32>,
    /// Whether a block must have exactly `threads`, because the kernel divides its work by that
    /// number.
    pub exact: bool,
    /// Blocks that must fit on one SM (`.minnctapersm`).
    pub min_blocks: Option<u32>,
}

impl LaunchBounds {
    /// Why a block cannot have this many threads.
    fn refusal(&self, threads: u128) -> Option<String> {
        let declared = self.threads?;
        if self.exact && threads != declared.into() {
            return Some(format!(
                "a block of {threads} threads; the kernel declares `threads = {declared}`, which is exact: launch it with \
                 {declared}, or declare `max_threads = {declared}` if it works with fewer"
            ));
        }
        (threads > declared.into())
            .then(|| format!("a block of {threads} threads, and its launch bounds allow {declared}"))
    }
}

impl<P> Kernel<P> {
    /// Written by `#[kernel]`; not for use by hand.
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        package: &'static str,
        bounds: LaunchBounds,
        shared_bytes: usize,
        entry: unsafe fn(P),
    ) -> Self {
        Self { name, package, bounds, shared_bytes, entry }
    }
}

impl<P: Params> Kernel<P> {
    /// The entry point's name in the PTX.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The cargo package that declares the kernel.
    pub const fn package(&self) -> &'static str {
        self.package
    }

    /// The declared launch bounds.
    pub const fn bounds(&self) -> LaunchBounds {
        self.bounds
    }

    /// Shared memory that the kernel declares, in bytes per block.
    pub const fn shared_bytes(&self) -> usize {
        self.shared_bytes
    }

    /// The parameter types, in order.
    pub const fn params(&self) -> &'static [ParamType] {
        P::TYPES
    }

    /// Runs the kernel on the simulator: `blocks` blocks of `threads` threads, with the shared
    /// memory that it declares.
    ///
    /// A crate of kernels needs nothing else for its tests: neither a GPU nor the compilation to
    /// PTX.
    ///
    /// ```
    /// use moye_device::arch::{block_idx, thread_idx};
    /// use moye_device::kernel;
    /// use moye_device::memory::{Global, GlobalMut};
    /// use moye_sim::GlobalMemory;
    ///
    /// /// `y[i] = 2 x[i]`, a thread for each.
    /// ///
    /// /// # Safety
    /// /// `x` and `y` have an element for each thread of the grid.
    /// #[kernel(threads = 32)]
    /// pub unsafe fn double(x: Global<f32>, y: GlobalMut<f32>) {
    ///     let i = i64::from(32 * block_idx().x + thread_idx().x);
    ///     // SAFETY: `x` and `y` have an element for each thread.
    ///     unsafe { y.write(i, 2.0 * x.read(i)) };
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn core::error::Error>> {
    /// let memory = GlobalMemory::new();
    /// let x = memory.upload(&[1.5f32; 64], "x")?;
    /// let y = memory.alloc(x.len(), "y")?;
    /// let arguments = (Global::from_address(x.address()), GlobalMut::from_address(y.address()));
    /// // SAFETY: both have 64 elements.
    /// unsafe { double.simulate(&memory, 2, 32, arguments)? };
    /// assert_eq!(y.download::<f32>(), [3.0; 64]);
    ///
    /// // `threads = 32` is exact: with 16, half of the elements would stay undone.
    /// // SAFETY: it is refused.
    /// let refused = unsafe { double.simulate(&memory, 2, 16, arguments) }.unwrap_err();
    /// assert!(refused.to_string().contains("a block of 16 threads; the kernel declares `threads = 32`"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Other threads than the kernel declares (`threads`), or more (`max_threads`), what
    /// [`Launch::run`](moye_sim::Launch::run) refuses, and faults of the kernel.
    ///
    /// # Safety
    /// The kernel's own contract holds for these parameters and this grid.
    pub unsafe fn simulate(
        &self,
        memory: &GlobalMemory,
        blocks: impl Into<Dim3>,
        threads: impl Into<Dim3>,
        parameters: P,
    ) -> Result<Report, LaunchError> {
        // SAFETY: the kernel's contract holds for these parameters and this grid.
        unsafe { self.run_simulated(memory, blocks.into(), threads.into(), parameters, None) }
    }

    /// As [`simulate`](Self::simulate), and takes a profile: sectors, wavefronts, barrier waits and
    /// instructions by source line.
    ///
    /// ```
    /// use moye_device::arch::{block_idx, thread_idx};
    /// use moye_device::kernel;
    /// use moye_device::memory::{Global, GlobalMut};
    /// use moye_sim::GlobalMemory;
    ///
    /// /// `y[i] = x[2 * i]`.
    /// ///
    /// /// # Safety
    /// /// `y` has 32 words for each block, `x` twice as many.
    /// #[kernel(threads = 32)]
    /// pub unsafe fn every_other(x: Global<u32>, y: GlobalMut<u32>) {
    ///     let i = i64::from(block_idx().x * 32 + thread_idx().x);
    ///     // SAFETY: the kernel's contract.
    ///     unsafe {
    ///         let value = x.read(2 * i); // load of X
    ///         y.write(i, value); // store of Y
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let memory = GlobalMemory::new();
    /// let (x, y) = (memory.alloc(512, "x")?, memory.alloc(256, "y")?);
    /// x.fill(0, 512, 1)?;
    /// let arguments = (Global::from_address(x.address()), GlobalMut::from_address(y.address()));
    /// // SAFETY: both have as many words as the kernel reads.
    /// let profile = unsafe { every_other.profile(&memory, 2, 32, arguments) }?;
    /// assert_eq!(profile.line("load of X").coalescing(), 0.5);
    /// assert_eq!(profile.line("store of Y").coalescing(), 1.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Same as [`simulate`](Self::simulate).
    ///
    /// # Safety
    /// The kernel's own contract holds for these parameters and this grid.
    pub unsafe fn profile(
        &self,
        memory: &GlobalMemory,
        blocks: impl Into<Dim3>,
        threads: impl Into<Dim3>,
        parameters: P,
    ) -> Result<Profile, LaunchError> {
        let profiler = Profiler::new();
        // SAFETY: the kernel's contract holds for these parameters and this grid.
        unsafe { self.run_simulated(memory, blocks.into(), threads.into(), parameters, Some(&profiler)) }?;
        Ok(profiler.take())
    }

    /// Runs the kernel on the simulator, with a profile if one is to be taken.
    ///
    /// # Safety
    /// Same contract as [`simulate`](Self::simulate).
    unsafe fn run_simulated(
        &self,
        memory: &GlobalMemory,
        blocks: Dim3,
        threads: Dim3,
        parameters: P,
        profiler: Option<&Profiler>,
    ) -> Result<Report, LaunchError> {
        if let Some(reason) = self.bounds.refusal(threads.count()) {
            return Err(LaunchError::Invalid { kernel: self.name.into(), reason });
        }
        let mut launch = Launch::new(self.name, blocks, threads, memory).shared_bytes(self.shared_bytes);
        if let Some(profiler) = profiler {
            launch = launch.profiler(profiler);
        }
        launch.run(&|| {
            // SAFETY: this is a simulated thread; the caller's contract.
            unsafe { self.call(parameters) }
        })
    }

    /// Runs the body as one thread of a grid.
    ///
    /// # Safety
    /// Call it only inside a simulated thread, and keep the kernel's own contract for `params`.
    pub unsafe fn call(&self, params: P) {
        // SAFETY: passed on to the caller.
        unsafe { (self.entry)(params) }
    }
}

/// A kernel's parameter list: a tuple of up to 16 [`KernelParam`]s.
pub trait Params: Copy + Send + Sync + 'static {
    /// The types, in order.
    const TYPES: &'static [ParamType];

    /// Calls `f` with the address of each parameter, in order, as the driver's launch call takes
    /// them.
    fn with_addresses<R>(&self, f: impl FnOnce(&[*mut c_void]) -> R) -> R;
}

macro_rules! params {
    ($($p:ident)*) => {
        #[allow(non_snake_case)]
        impl<$($p: KernelParam),*> Params for ($($p,)*) {
            const TYPES: &'static [ParamType] = &[$($p::TYPE),*];

            fn with_addresses<R>(&self, f: impl FnOnce(&[*mut c_void]) -> R) -> R {
                let ($($p,)*) = self;
                f(&[$(core::ptr::from_ref($p).cast_mut().cast()),*])
            }
        }
    };
}
params!();
params!(A);
params!(A B);
params!(A B C);
params!(A B C D);
params!(A B C D E);
params!(A B C D E F);
params!(A B C D E F G);
params!(A B C D E F G H);
params!(A B C D E F G H I);
params!(A B C D E F G H I J);
params!(A B C D E F G H I J K);
params!(A B C D E F G H I J K L);
params!(A B C D E F G H I J K L M);
params!(A B C D E F G H I J K L M N);
params!(A B C D E F G H I J K L M N O);
params!(A B C D E F G H I J K L M N O Q);
