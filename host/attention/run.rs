//! The steps of attention: check, plan, launch.

use super::builder::Attention;
use super::e4m3;
use super::element::AttentionElement;
use super::explanation::AttentionExplanation;
use super::heads::{HeadsMut, OPERATION};
use super::model::MOST_SPLITS;
use super::plan::{Plan, Question, Sizes, plan};
use super::problem::Problem;
use super::variant::HopperLaunch;
use super::varied::Demand;
use super::{hopper, varied};
use crate::device::{Device, MAX_BLOCKS};
use crate::launch::Grid;
use crate::memory::Workspace;
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::kernel::Kernel;
use moye_device::memory::GlobalMut;
use moye_kernels::attention::{Arguments, rows_of_block};

/// The kernel to launch.
enum Choice<T: AttentionElement> {
    /// None: there is no query.
    Nothing,
    /// For sm_80, with the query rows of its tiles.
    Sm80(Kernel<(Arguments<T>,)>, u32),
    /// For sm_90a.
    Hopper(Box<HopperLaunch<T>>),
}

impl<T: AttentionElement> Choice<T> {
    fn name(&self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Sm80(kernel, _) => Some(kernel.name()),
            Self::Hopper(launch) => Some(launch.variant.name),
        }
    }

    fn rows(&self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Sm80(_, rows) => *rows,
            Self::Hopper(launch) => launch.rows(),
        }
    }
}

/// A launch.
struct Launch<T: AttentionElement> {
    choice: Choice<T>,
    arguments: Arguments<T>,
    blocks: u64,
    /// f32 elements of the splits' partial results.
    partial_o: usize,
    partial_sums: usize,
    dv: u32,
}

impl<T: AttentionElement> Launch<T> {
    fn of(call: &Attention<'_, T>, device: &Device, o: &HeadsMut<'_, T::Output>) -> Result<Self> {
        let Problem { variant, mut arguments, keys, chunked } = Problem::of(call, device, o)?;
        if call.splits.is_some_and(|splits| splits == 0 || splits > MOST_SPLITS) {
            let detail = format!("{:?} splits: there are 1 to {MOST_SPLITS}", call.splits.unwrap_or(0));
            return Err(Error::Unsupported { operation: OPERATION, detail });
        }
        let Some(variant) = variant else {
            let (choice, blocks) = match e4m3::launch(call, device, &arguments)? {
                Some(launch) => {
                    let _ = arguments.grid(launch.rows());
                    let blocks = launch.blocks;
                    (Choice::Hopper(Box::new(launch)), blocks)
                }
                None => (Choice::Nothing, 0),
            };
            return Ok(Self { choice, arguments, blocks, partial_o: 0, partial_sums: 0, dv: 0 });
        };
        if [arguments.batches, arguments.heads, arguments.q_length].contains(&0) {
            let choice = Choice::Nothing;
            return Ok(Self { choice, arguments, blocks: 0, partial_o: 0, partial_sums: 0, dv: 0 });
        }
        let general = arguments.is_general();
        let tile = if general { variant.general_tile } else { variant.tile };
        let sizes = Sizes::of(&arguments, (variant.d, variant.dv));
        let Plan { decode, pack, splits } = plan(&Question {
            sizes,
            tile,
            decode_tile: variant.decode_tile,
            shared_bytes: if general { variant.general } else { variant.plain }.shared_bytes(),
            decode_shared_bytes: variant.decode.shared_bytes(),
            decode_warps: variant.decode.bounds().threads.unwrap_or(128) / 32,
            rates: device.rates(),
            splits: call.splits,
        });
        (arguments.pack, arguments.splits) = (pack, splits);
        let mut choice = if decode {
            Choice::Sm80(variant.decode, variant.decode_tile.0)
        } else {
            Choice::Sm80(if general { variant.general } else { variant.plain }, tile.0)
        };
        let rows = choice.rows();
        let tiles = (u64::from(arguments.q_length) * u64::from(pack)).div_ceil(rows.into());
        let product = |factors: &[u32]| factors.iter().fold(tiles, |all, &f| all.saturating_mul(f.into()));
        let blocks = product(&[arguments.heads / pack, splits, arguments.batches]);
        at_most("thread blocks", blocks, MAX_BLOCKS[0].into())?;
        if blocks > 0 {
            at_most(
                "query rows of a tile's heads",
                u64::from(arguments.q_length) * u64::from(pack),
                MAX_ROWS,
            )?;
            let _ = arguments.grid(rows);
        }
        let (mut blocks, mut splits) = (blocks, splits);
        if blocks > 0 {
            let demand = Demand { sizes: (variant.d, variant.dv), keys, splits: call.splits, chunked };
            let served = if decode {
                decode_on_hopper(device, &demand, &mut arguments)
            } else {
                on_hopper(device, &demand, &mut arguments)
            };
            if let Some(hopper) = served {
                (choice, blocks) = hopper;
                splits = arguments.splits;
                at_most("thread blocks", blocks, MAX_BLOCKS[0].into())?;
            }
        }
        let rows_of_split = [arguments.heads, arguments.q_length]
            .iter()
            .fold(u64::from(arguments.batches), |all, &factor| all.saturating_mul(factor.into()));
        let (mut partial_o, mut partial_sums) = (0, 0);
        if splits > 1 {
            // The combine kernel has a warp for each row, and counts rows in u32.
            at_most("query rows of a call with splits", rows_of_split, MAX_ROWS)?;
            let rows = rows_of_split as usize * splits as usize;
            // A maximum and a sum for each row.
            (partial_o, partial_sums) = (rows * variant.dv, 2 * rows);
        }
        Ok(Self { choice, arguments, blocks, partial_o, partial_sums, dv: variant.dv as u32 })
    }

    fn workspace_bytes(&self) -> usize {
        4 * (self.partial_o + self.partial_sums)
    }
}

/// The kernel for sm_90a that serves a call, and its number of blocks. It sets packed heads, splits
/// and row tiles in `arguments`.
fn on_hopper<T: AttentionElement>(
    device: &Device,
    demand: &Demand,
    arguments: &mut Arguments<T>,
) -> Option<(Choice<T>, u64)> {
    let varied = varied::serves(device, demand, arguments);
    let plain = Arguments { pack: 1, splits: 1, ..*arguments };
    // A warpgroup's rows belong to one head: with shorter sequences some rows have no query.
    if demand.splits.is_none_or(|splits| splits == 1)
        && arguments.q_length >= 64
        && let Some(launch) = hopper::serves(T::HOPPER, device, demand.sizes, &plain)
        // If there are too few row tiles to fill the GPU, the keys are split.
        && (launch.blocks == u64::from(device.planned_multiprocessors())
            || varied.as_ref().map_or(arguments.splits, |varied| varied.splits) == 1)
    {
        *arguments = plain;
        return Some((Choice::Hopper(Box::new(launch)), launch.blocks));
    }
    Some(chosen(varied?, arguments))
}

/// As [`on_hopper`], for few query rows. Where the keys are split the kernel by `wgmma` takes 1 to
/// 11 % less time than that by `mma.sync`: measured on an H100 for heads of 128.
fn decode_on_hopper<T: AttentionElement>(
    device: &Device,
    demand: &Demand,
    arguments: &mut Arguments<T>,
) -> Option<(Choice<T>, u64)> {
    if demand.sizes.0 != 128 || arguments.changes_scores() {
        return None;
    }
    let launch = varied::serves(device, demand, arguments)?;
    (launch.splits > 1).then(|| chosen(launch, arguments))
}

/// A launch by `hopper_varied` as the choice; sets what it has in `arguments`.
fn chosen<T: AttentionElement>(launch: HopperLaunch<T>, arguments: &mut Arguments<T>) -> (Choice<T>, u64) {
    (arguments.pack, arguments.splits) = (launch.pack, launch.splits);
    let _ = arguments.grid(launch.rows());
    let blocks = launch.blocks;
    (Choice::Hopper(Box::new(launch)), blocks)
}

/// The largest number of query rows that the kernels count.
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
/// As for [`Attention::run_on`].
pub unsafe fn run<T: AttentionElement>(
    call: &Attention<'_, T>,
    stream: &Stream,
    o: &mut HeadsMut<'_, T::Output>,
) -> Result<()> {
    let mut launch = Launch::of(call, stream.device(), o)?;
    if launch.blocks == 0 {
        return Ok(());
    }
    let workspace = Workspace::new(stream, launch.workspace_bytes())?;
    if let Some(workspace) = &workspace {
        let base = workspace.address();
        launch.arguments.partial_o = GlobalMut::from_address(base);
        launch.arguments.partial_sums = GlobalMut::from_address(base + 4 * launch.partial_o as u64);
    }
    // SAFETY: `Problem::of` has checked bounds and alignment of all tensors. `o` and the
    // log-sum-exp are borrowed mutably and share no element with the operands; the workspace is
    // large enough for the splits. The caller answers for other streams, and for numbers in device
    // memory.
    unsafe {
        match &launch.choice {
            Choice::Nothing => {}
            Choice::Sm80(kernel, _) => {
                let threads = kernel.bounds().threads.unwrap_or(128);
                stream.launch(kernel, Grid::new(launch.blocks as u32, threads), (launch.arguments,))?;
            }
            Choice::Hopper(hopper) => hopper.run(stream, launch.arguments)?,
        }
        if launch.arguments.splits > 1
            && let Some(combine) = &T::COMBINE
        {
            let rows = launch.arguments.batches * launch.arguments.heads * launch.arguments.q_length;
            let of_block = rows_of_block(rows, launch.arguments.splits);
            let grid = Grid::new(rows.div_ceil(of_block), combine.bounds().threads.unwrap_or(256));
            stream.launch(combine, grid, (launch.arguments, launch.dv))?;
        }
    }
    Ok(())
}

/// The plan of [`run`].
pub fn explain<T: AttentionElement>(
    call: &Attention<'_, T>,
    device: &Device,
    o: &HeadsMut<'_, T::Output>,
) -> Result<AttentionExplanation> {
    let launch = Launch::of(call, device, o)?;
    Ok(AttentionExplanation {
        kernel: launch.choice.name().filter(|_| launch.blocks > 0),
        rows: launch.choice.rows(),
        pack: launch.arguments.pack,
        splits: launch.arguments.splits,
        blocks: launch.blocks as u32,
        workspace_bytes: launch.workspace_bytes(),
    })
}
