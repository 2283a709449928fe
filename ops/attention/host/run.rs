//! Attention as an operation: checks, plans and launches a call.

use super::builder::Attention;
use super::e4m3;
use super::element::AttentionElement;
use super::explanation::AttentionExplanation;
use super::heads::{HeadsMut, OPERATION};
use super::plan::{self, Code, Plan, blocks};
use super::problem::{Problem, words};
use super::variant::{HopperLaunch, KeyTensor};
use crate::PTX;
use crate::kernels::hopper::Scales;
use crate::kernels::{Arguments, rows_of_block};
use moye_device::memory::{Element, GlobalMut};
use moye_runtime::operation::{self, Counters, Launcher, Operation};
use moye_runtime::{Device, Error, Grid, MAX_BLOCKS, Ptx, Rates, Result, Stream};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// Attention of elements `T`.
struct Attend<T>(PhantomData<T>);

/// A checked call: everything that determines its launches.
#[derive(Clone, Copy, Debug)]
struct Call<T: Element> {
    arguments: Arguments<T>,
    keys: KeyTensor,
    /// The scale factors of 8-bit floats.
    scales: Scales,
}

impl<T: Element> PartialEq for Call<T> {
    fn eq(&self, other: &Self) -> bool {
        let factors = |call: &Self| {
            let Scales { q, k, v } = call.scales;
            [q, k, v].map(|scale| (scale.factors.address(), scale.batch, scale.head))
        };
        words(&self.arguments) == words(&other.arguments)
            && self.keys == other.keys
            && factors(self) == factors(other)
    }
}

impl<T: Element> Eq for Call<T> {}

impl<T: Element> Hash for Call<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Arguments { q, k, o, .. } = self.arguments;
        (q.address(), k.address(), o.address()).hash(state);
    }
}

impl<T: AttentionElement> Operation for Attend<T> {
    type Problem = Problem<T>;
    type Plan = Plan<T>;
    type Call = Call<T>;

    const NAME: &'static str = OPERATION;

    fn ptx() -> &'static Ptx {
        &PTX
    }

    fn candidates(problem: &Problem<T>, card: &Rates) -> Vec<Plan<T>> {
        let plan = plan::plan(problem, card);
        let in_last_block = plan
            .filter(|plan| plan.splits > 1 && plan.code.combines())
            .filter(|plan| plan.blocks / u64::from(plan.splits) <= Counters::COUNT.into())
            .map(|plan| Plan { in_last_block: true, ..plan });
        plan.into_iter().chain(in_last_block).collect()
    }

    fn cost(plan: &Plan<T>, _: &Problem<T>, _: &Rates) -> f64 {
        // Only tuning tries a reduction by the last block to arrive (record 17).
        f64::from(u8::from(plan.in_last_block))
    }

    fn kernel(plan: &Plan<T>) -> &'static str {
        plan.code.name()
    }

    fn workspace(plan: &Plan<T>, problem: &Problem<T>, _: &Call<T>) -> Result<usize> {
        workspace(plan, problem)
    }

    unsafe fn launch(
        plan: &Plan<T>,
        problem: &Problem<T>,
        &Call { arguments, keys, scales }: &Call<T>,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let (stream, blocks) = (on.stream(), plan.blocks as u32);
        let sums = on.workspace() + 4 * partial(plan, problem)[0] as u64;
        let counters = plan.in_last_block.then(|| Counters::of(stream)).transpose()?;
        let arguments = Arguments {
            pack: plan.pack,
            splits: plan.splits,
            row_tiles: (arguments.q_length * plan.pack).div_ceil(plan.code.rows()),
            partial_o: GlobalMut::from_address(on.workspace()),
            partial_sums: GlobalMut::from_address(sums),
            counters: GlobalMut::from_address(counters.as_ref().map_or(0, Counters::address)),
            ..arguments
        };
        // SAFETY: the tensors of the arguments are in the device's memory until the work is
        // complete.
        unsafe {
            match plan.code {
                Code::Sm80(kernel, _) => {
                    let threads = kernel.bounds().threads.unwrap_or(128);
                    PTX.launch(stream, &kernel, Grid::new(blocks, threads), (arguments,))?;
                }
                Code::Hopper(variant) => {
                    let fields = (variant.fields)(&arguments, keys).ok_or_else(not_by_tma)?;
                    let launch = HopperLaunch { fields, blocks, section: plan.section, scales };
                    (variant.launch)(stream, &launch, arguments)?;
                }
            }
            if plan.splits > 1
                && !plan.in_last_block
                && let Some(combine) = &T::COMBINE
            {
                let rows = arguments.batches * arguments.heads * arguments.q_length;
                let of_block = rows_of_block(rows, plan.splits);
                let grid = Grid::new(rows.div_ceil(of_block), combine.bounds().threads.unwrap_or(256));
                PTX.launch(stream, combine, grid, (arguments, problem.sizes.dv as u32))?;
            }
        }
        Ok(())
    }
}

/// The error if TMA takes the tensors of a plan's problem, but not those of the call.
fn not_by_tma() -> Error {
    let detail = "TMA cannot load these tensors; copy them to contiguous buffers".to_owned();
    Error::Unsupported { operation: OPERATION, detail }
}

/// f32 elements of the splits' partial results, and of their rows' maxima and sums.
fn partial<T: Element>(plan: &Plan<T>, problem: &Problem<T>) -> [usize; 2] {
    if plan.splits == 1 {
        return [0; 2];
    }
    let rows = blocks(&problem.arguments, 1, 1, plan.splits) as usize;
    [rows * problem.sizes.dv, 2 * rows]
}

/// Bytes of the workspace of a plan, or an error if it is too large.
fn workspace<T: Element>(plan: &Plan<T>, problem: &Problem<T>) -> Result<usize> {
    at_most("thread blocks", plan.blocks, MAX_BLOCKS[0].into())?;
    let rows = u64::from(problem.arguments.q_length) * u64::from(plan.pack);
    at_most("query rows of a tile's heads", rows, MAX_ROWS)?;
    if plan.splits > 1 {
        // The combine kernel computes one row per warp, and counts rows in u32.
        let rows = blocks(&problem.arguments, 1, 1, 1);
        at_most("query rows of a call with splits", rows, MAX_ROWS)?;
    }
    Ok(4 * partial(plan, problem).iter().sum::<usize>())
}

/// The problem and the call, checked; `None` if there is no query.
fn checked<T: AttentionElement>(
    call: &Attention<'_, T>,
    device: &Device,
    o: &HeadsMut<'_, T::Output>,
) -> Result<Option<(Problem<T>, Call<T>)>> {
    let problem = Problem::of(call, device, o)?;
    let scales =
        if T::VARIANTS.is_empty() { e4m3::scales(call, device, &problem.arguments)? } else { Scales::NONE };
    let Arguments { batches, heads, q_length, .. } = problem.arguments;
    if [batches, heads, q_length].contains(&0) {
        return Ok(None);
    }
    let call = Call { arguments: problem.arguments, keys: problem.keys, scales };
    Ok(Some((problem.anywhere(), call)))
}

/// The plan for a problem on a device.
fn planned<T: AttentionElement>(
    call: &Attention<'_, T>,
    device: &Device,
    problem: &Problem<T>,
) -> Result<Plan<T>> {
    operation::plan::<Attend<T>>(device, problem)
        .map_err(|error| if T::VARIANTS.is_empty() { e4m3::not_by_tma(call) } else { error })
}

/// The largest number of query rows that the kernels can count.
const MAX_ROWS: u64 = i32::MAX as u64;

/// An error if `value` is above `limit`.
fn at_most(what: &'static str, value: u64, limit: u64) -> Result<()> {
    if value <= limit {
        return Ok(());
    }
    Err(Error::MatrixTooLarge { operation: OPERATION, what, value: value as usize, limit })
}

/// Computes attention.
///
/// # Safety
/// Same contract as [`Attention::run_on`].
pub unsafe fn run<T: AttentionElement>(
    call: &Attention<'_, T>,
    stream: &Stream,
    o: &mut HeadsMut<'_, T::Output>,
) -> Result<()> {
    let device = stream.device();
    let Some((problem, checked)) = checked(call, device, o)? else { return Ok(()) };
    // SAFETY: `Problem::of` has checked bounds and alignment of all tensors. `o` and the
    // log-sum-exp are borrowed mutably and share no element with the operands. The caller is
    // responsible for other streams, and for lengths, offsets and page numbers in device memory.
    unsafe { operation::run::<Attend<T>>(stream, &problem, &checked) }
        .map_err(|error| planned(call, device, &problem).err().unwrap_or(error))
}

/// The plan of [`run`].
pub fn explain<T: AttentionElement>(
    call: &Attention<'_, T>,
    device: &Device,
    o: &HeadsMut<'_, T::Output>,
) -> Result<AttentionExplanation> {
    let Some((problem, _)) = checked(call, device, o)? else {
        return Ok(AttentionExplanation {
            kernel: None,
            rows: 0,
            pack: 1,
            splits: 1,
            blocks: 0,
            workspace_bytes: 0,
        });
    };
    let plan = planned(call, device, &problem)?;
    let workspace_bytes = workspace(&plan, &problem)?;
    let Plan { code, pack, splits, blocks, .. } = plan;
    Ok(AttentionExplanation {
        kernel: Some(code.name()),
        rows: code.rows(),
        pack,
        splits,
        blocks: blocks as u32,
        workspace_bytes,
    })
}
