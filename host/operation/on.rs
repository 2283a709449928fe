//! Launches of a call: the target of its kernels, and launches as keys for repetition.

use super::{Launcher, Operation, Workspace};
use crate::device::Rates;
use crate::launch::{Grid, KernelArgs};
use crate::module::Ptx;
use crate::stream::Stream;
use crate::{Result, operation};
use moye_device::kernel::{Kernel, Params};
use std::cell::Cell;
use std::hash::Hash;
use std::marker::PhantomData;

/// The target of a call's kernels: a stream, or nothing if only the first kernel is named.
pub struct On<'a> {
    stream: &'a Stream,
    named: Option<Cell<Option<&'static str>>>,
}

impl<'a> On<'a> {
    /// The kernels are launched on a stream.
    pub const fn stream(stream: &'a Stream) -> Self {
        Self { stream, named: None }
    }

    /// The name of the first kernel of a call on a stream, "none" without a kernel. Nothing is
    /// launched.
    ///
    /// # Errors
    /// The errors of the call.
    pub fn name(stream: &'a Stream, call: impl FnOnce(&Self) -> Result<()>) -> Result<&'static str> {
        let on = Self { stream, named: Some(Cell::new(None)) };
        call(&on)?;
        Ok(on.named.and_then(Cell::into_inner).unwrap_or("none"))
    }

    /// Whether kernels are launched.
    pub const fn launches(&self) -> bool {
        self.named.is_none()
    }

    /// The rates of the stream's device.
    pub fn card(&self) -> Rates {
        self.stream.device().rates()
    }

    /// A workspace of the stream, to be held until everything is launched: none for 0 bytes, or if
    /// nothing is launched.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn workspace(&self, bytes: usize) -> Result<Option<Workspace<'a>>> {
        if self.launches() { Workspace::new(self.stream, bytes) } else { Ok(None) }
    }

    /// Launches the kernels of a [`Launch`].
    ///
    /// # Errors
    /// The errors of the launch.
    ///
    /// # Safety
    /// The arrays of the launch are on the stream's device until the work is complete.
    pub unsafe fn launch<L: Launch>(&self, launch: &L) -> Result<()> {
        // SAFETY: the arrays are on the stream's device until the work is complete.
        unsafe { self.run::<One<L>>(&(), launch, |to| launch.launch(to)) }
    }

    /// Launches the plan of a problem, or calls `name` where nothing is launched.
    ///
    /// # Errors
    /// The errors of the launches.
    ///
    /// # Safety
    /// Same contract as [`Operation::launch`].
    pub unsafe fn run<O: Operation>(
        &self,
        problem: &O::Problem,
        call: &O::Call,
        name: impl FnOnce(To<'_>) -> Result<()>,
    ) -> Result<()> {
        match &self.named {
            Some(named) => name(To::Name(named)),
            // SAFETY: the call's addresses are the problem's operands, on the stream's device.
            None => unsafe { operation::run::<O>(self.stream, problem, call) },
        }
    }

    /// The plan of a problem on the stream's device.
    ///
    /// # Errors
    /// No candidate computes the problem.
    pub fn plan<O: Operation>(&self, problem: &O::Problem) -> Result<O::Plan> {
        operation::plan::<O>(self.stream.device(), problem)
    }
}

/// The target of a kernel.
#[derive(Clone, Copy)]
pub enum To<'a> {
    /// A stream.
    Stream(&'a Launcher<'a>),
    /// Nothing: keeps the name of the first kernel.
    Name(&'a Cell<Option<&'static str>>),
}

impl To<'_> {
    /// Launches a kernel.
    ///
    /// # Errors
    /// The errors of the launch.
    ///
    /// # Safety
    /// Grid and arguments are as the kernel's contract requires.
    pub unsafe fn launch<P: Params>(
        self,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        if let Self::Name(named) = self {
            named.set(named.get().or(Some(kernel.name())));
        }
        // SAFETY: grid and arguments are as the kernel's contract requires.
        unsafe { self.prepare(kernel, grid, arguments) }
    }

    /// [`To::launch`] of a kernel that prepares memory for another one, which names the call.
    ///
    /// # Errors
    /// The errors of the launch.
    ///
    /// # Safety
    /// Grid and arguments are as the kernel's contract requires.
    pub unsafe fn prepare<P: Params>(
        self,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        match self {
            // SAFETY: grid and arguments are as the kernel's contract requires.
            Self::Stream(launcher) => unsafe { launcher.launch(kernel, grid, arguments) },
            Self::Name(_) => Ok(()),
        }
    }
}

/// A launch of kernels without a choice of plans: the addresses and scalars that determine it.
pub trait Launch: Copy + Eq + Hash + 'static {
    /// The PTX that has the kernels.
    fn ptx() -> &'static Ptx;

    /// Launches the kernels.
    ///
    /// # Errors
    /// The errors of the launches.
    ///
    /// # Safety
    /// The arrays are on the stream's device until the work is complete.
    unsafe fn launch(&self, to: To<'_>) -> Result<()>;
}

/// A [`Launch`] as an operation of one plan.
struct One<L>(PhantomData<L>);

impl<L: Launch> Operation for One<L> {
    type Problem = ();
    type Plan = ();
    type Call = L;
    const NAME: &'static str = "launch";

    fn ptx() -> &'static Ptx {
        L::ptx()
    }

    fn candidates((): &(), _: &Rates) -> Vec<()> {
        vec![()]
    }

    fn kernel((): &()) -> &'static str {
        Self::NAME
    }

    unsafe fn launch((): &(), (): &(), launch: &L, on: &Launcher<'_>) -> Result<()> {
        // SAFETY: the arrays are on the stream's device until the work is complete.
        unsafe { launch.launch(To::Stream(on)) }
    }
}
