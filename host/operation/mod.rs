//! An operation: its problems and their plans, and the launch of a plan.
//!
//! An operation implements [`Operation`]: the problem (all inputs of the choice of a plan), the
//! candidates for a problem on a card, their cost, and the launch of one. What is common to all
//! operations is written once, here: [`run`] plans and launches, and replays a call that a thread
//! has made before without planning it again. A [`Declaration`] is what the program, Python and the
//! test harness know about an operation: its operands, options, reference and cases, as data.

mod declaration;
pub mod harness;
mod macros;
mod measure;
mod on;
mod options;
#[cfg(feature = "tune")]
mod plans_file;
mod repeat;
mod tune;
mod typed;

pub use declaration::{Call, Case, Declaration, Known, KnownFn, MemoryLayout, OperandOf, Role};
pub use measure::{Measured, measure, measure_beside};
pub use on::{Launch, On, To};
pub use options::{OptionOf, Options, Value};
pub use tune::{FailedCandidate, Plans, Tuned, TunedPlan, tune};
pub use typed::{TypedCall, check_device};

pub use crate::algorithm::{RowInstance, RowPlan, RowProblem, broadcast_shape, map_grid, map_launches};
pub use crate::array::{Array, ArrayType, Axes, Dtype, offsets, shape_text};
pub use crate::matrix::{Shape, same_device};
pub use crate::memory::{Counters, Workspace};
#[doc(inline)]
pub use crate::{declare, of_floats, runs, setters};

use crate::device::Rates;
use crate::launch::{Grid, KernelArgs};
use crate::module::Ptx;
use crate::stream::Stream;
use crate::{Device, Error, Result};
use moye_device::kernel::{Kernel, Params};
use std::fmt::Debug;
use std::hash::Hash;

/// An operation whose kernels are compiled into a [`Ptx`].
pub trait Operation: 'static {
    /// Everything that determines the choice of a plan, except the card.
    type Problem: Copy + Debug + Eq + Hash + 'static;
    /// A kernel and its launch, without addresses.
    type Plan: Copy + 'static;
    /// The addresses and scalars of a call: with the problem, the key of a replayed launch.
    type Call: Copy + Eq + Hash + 'static;

    /// The name in messages.
    const NAME: &'static str;

    /// The kernels.
    fn ptx() -> &'static Ptx;

    /// The plans that compute the problem on a card; empty if there are none.
    fn candidates(problem: &Self::Problem, card: &Rates) -> Vec<Self::Plan>;

    /// The estimated time of a plan in microseconds; not used if there is at most one candidate.
    fn cost(_plan: &Self::Plan, _problem: &Self::Problem, _card: &Rates) -> f64 {
        0.0
    }

    /// Bytes of the workspace of a call by this plan; its address is [`Launcher::workspace`]. The
    /// memory comes from the stream or from the caller's allocator, and replayed calls reuse it.
    ///
    /// # Errors
    /// The error of a call that is too large.
    fn workspace(_plan: &Self::Plan, _problem: &Self::Problem, _call: &Self::Call) -> Result<usize> {
        Ok(0)
    }

    /// The name of the plan's kernel.
    fn kernel(plan: &Self::Plan) -> &'static str;

    /// Launches the plan.
    ///
    /// # Errors
    /// The errors of a launch.
    ///
    /// # Safety
    /// The addresses of the call are those of the problem's operands, on the stream's device, and
    /// stay accessible until the work is complete.
    unsafe fn launch(
        plan: &Self::Plan,
        problem: &Self::Problem,
        call: &Self::Call,
        on: &Launcher<'_>,
    ) -> Result<()>;
}

/// The stream, the module and the workspace with which an operation launches its kernels.
pub struct Launcher<'a> {
    stream: &'a Stream,
    ptx: &'static Ptx,
    workspace: u64,
}

impl<'a> Launcher<'a> {
    /// The stream.
    pub const fn stream(&self) -> &'a Stream {
        self.stream
    }

    /// The address of the workspace, aligned to 256 bytes; 0 if the call needs none.
    pub const fn workspace(&self) -> u64 {
        self.workspace
    }

    /// Launches a kernel of the operation's PTX on the stream.
    ///
    /// # Errors
    /// Same as [`Device::load`] and [`Module::launch`](crate::Module::launch).
    ///
    /// # Safety
    /// Same contract as [`Module::launch`](crate::Module::launch).
    pub unsafe fn launch<P: Params>(
        &self,
        kernel: &Kernel<P>,
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        // SAFETY: the caller keeps the kernel's contract.
        unsafe { self.ptx.launch(self.stream, kernel, grid, arguments) }
    }
}

/// The plan for a problem on a device, cached by the thread: the candidate with the lowest cost,
/// unless [`Plans`] with another one are applied.
///
/// # Errors
/// [`Error::Unsupported`] if no candidate computes the problem.
pub fn plan<O: Operation>(device: &Device, problem: &O::Problem) -> Result<O::Plan> {
    let card = device.rates();
    repeat::planned::<O>(device, problem, &card, || tune::choose::<O>(device, problem, &card)).ok_or_else(
        || {
            let detail = format!("no kernel for {} computes this problem", device.arch());
            Error::Unsupported { operation: O::NAME, detail }
        },
    )
}

/// Computes a problem on a stream: plans it, and launches the plan. On a GPU, a thread that has
/// made the same call twice replays its launches.
///
/// # Errors
/// Same as [`plan`], and the errors of the launches.
///
/// # Safety
/// Same contract as [`Operation::launch`].
pub unsafe fn run<O: Operation>(stream: &Stream, problem: &O::Problem, call: &O::Call) -> Result<()> {
    let launch = |here: Option<Workspace<'_>>| {
        let plan = plan::<O>(stream.device(), problem)?;
        let bytes = O::workspace(&plan, problem, call)?;
        // Held until everything has been launched.
        let workspace = match here.filter(|here| here.used().bytes >= bytes) {
            Some(here) => Some(here),
            None => Workspace::new(stream, bytes)?,
        };
        let used = workspace.as_ref().map(Workspace::used).unwrap_or_default();
        let on = Launcher { stream, ptx: O::ptx(), workspace: used.address };
        // SAFETY: the call's addresses are the problem's operands, on the stream's device.
        unsafe { O::launch(&plan, problem, call, &on) }.map(|()| used)
    };
    // SAFETY: the caller guarantees that the call's addresses are the problem's operands.
    unsafe { repeat::repeated::<O>(stream, problem, call, launch) }
}
