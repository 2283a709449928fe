//! A model of the time of a call, which chooses the number of splits of the keys.

use super::plan::Sizes;
use moye_runtime::{Arch, Rates};

/// The largest number of splits.
pub const MOST_SPLITS: u32 = 128;

/// Warps of a block that [`FEW_ROWS`] was measured with.
const WARPS: u32 = 4;
/// Shared memory of a block that the driver reserves.
const RESERVED: u32 = 1024;
/// Blocks of the kernels for sm_80 that run on an SM at the same time.
const BLOCKS: u32 = 2;

/// The rates of a kernel, measured on an H100: decoding at 1 to 16 sequences of 2k to 32k
/// tokens, chunks of 256 tokens on 4k and 8k. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Abilities {
    /// Blocks that run on an SM at the same time.
    blocks: u32,
    /// Bytes that a block loads, and operations that it executes, in a microsecond.
    bytes: f64,
    operations: f64,
    /// A block's prologue and epilogue.
    block: f64,
    /// The exponent of the norm that adds the time of the blocks and that of the memory: large
    /// where loads run far ahead of the products.
    overlap: f64,
}

/// The kernels for few rows, by blocks of four warps.
const FEW_ROWS: Abilities =
    Abilities { blocks: BLOCKS, bytes: 51e3, operations: 1e6, block: 1.5, overlap: 2.8 };
/// The other kernels for sm_80.
pub const MMA_SYNC: Abilities =
    Abilities { blocks: BLOCKS, bytes: 51e3, operations: 0.8e6, block: 1.5, overlap: 2.8 };
/// The kernels for sm_90a.
pub const HOPPER: Abilities =
    Abilities { blocks: 1, bytes: 59e3, operations: 5.9e6, block: 1.0, overlap: 4.0 };

impl Abilities {
    /// The rates of the kernels for few rows with blocks of `warps` warps: the number of concurrent
    /// warps is the same.
    pub fn few_rows(warps: u32) -> Self {
        let share = f64::from(warps) / f64::from(WARPS);
        Self {
            blocks: FEW_ROWS.blocks * WARPS / warps,
            bytes: FEW_ROWS.bytes * share,
            operations: FEW_ROWS.operations * share,
            ..FEW_ROWS
        }
    }

    /// The rates on a card, for blocks with `shared` bytes of shared memory: as many blocks as fit
    /// on an SM, loads and products at the card's clock, and products at most at the rate of its
    /// tensor cores.
    fn on(self, rates: &Rates, shared: usize) -> Self {
        let clock = rates.clock / Rates::H100.clock;
        let room = rates.shared_bytes / (shared as u32 + RESERVED);
        let blocks = self.blocks.min(room).max(1);
        let most = tensor_cores(rates.arch) * rates.clock / f64::from(blocks);
        Self { blocks, bytes: self.bytes * clock, operations: (self.operations * clock).min(most), ..self }
    }
}

/// Operations of an SM's tensor cores in a clock, of f16 and bf16 with accumulators of
/// f32. Professional cards of sm_86 and sm_89 are twice as fast (GA102 and Ada whitepapers).
fn tensor_cores(arch: Arch) -> f64 {
    match arch.capability() {
        (8, 0) => 2048.0,
        (8, _) => 512.0,
        (9, 0) => 4096.0,
        _ => f64::INFINITY,
    }
}

/// The time of a launch.
const LAUNCH: f64 = 5.0;
/// The time of the combine kernel besides its loads.
const COMBINE: f64 = 2.5;
/// Bytes of keys and values that an H100's memory delivers in a microsecond.
const MEMORY: f64 = 3.04e6;
/// Bytes of partial results that are written and read again in a microsecond on an H100, through
/// L2.
const PARTIAL: f64 = 1.87e6;
/// Bytes of an element of the operands, and of a partial result.
const BYTES: f64 = 2.0;
const PARTIAL_BYTES: f64 = 4.0;
/// The factor of memory time where the number of splits is not a power of two: 3 to 8 % were
/// measured, the cause is not known.
const UNEVEN: f64 = 1.06;
/// The fraction of the shortest time that more splits must save.
const WORTH: f64 = 0.015;

/// The bytes of keys and values that the memory of a card delivers in a microsecond.
fn memory(rates: &Rates) -> f64 {
    MEMORY * (rates.memory / Rates::H100.memory)
}

/// The bytes of partial results that are written and read again in a microsecond: SMs
/// and L2 have one clock.
fn partial(rates: &Rates) -> f64 {
    let clocks = |rates: &Rates| f64::from(rates.multiprocessors) * rates.clock;
    PARTIAL * (clocks(rates) / clocks(&Rates::H100))
}

/// A kernel whose keys may be split.
#[derive(Clone, Copy, Debug)]
pub struct Split<'a> {
    pub kernel: &'a Abilities,
    /// Shared memory of a block.
    pub shared_bytes: usize,
    /// Query rows and keys of a tile.
    pub tile: (u32, u32),
    /// Blocks of one split.
    pub blocks: u64,
    /// Tiles of keys of a block without splits.
    pub key_tiles: u32,
    /// The card.
    pub rates: Rates,
}

/// The number of splits that takes the least time; of nearly equal ones the fewest.
///
/// Splits shorten the blocks, until memory is the limit. Each writes partial results, which the
/// combine kernel reads.
#[must_use]
pub fn splits(sizes: &Sizes, split: &Split<'_>) -> u32 {
    let most = split.key_tiles.clamp(1, MOST_SPLITS);
    let time = |&splits: &u32| time(sizes, split, splits);
    let best = (1..=most).map(|splits| time(&splits)).fold(f64::INFINITY, f64::min);
    (1..=most).find(|splits| time(splits) <= best * (1.0 + WORTH)).unwrap_or(1)
}

fn time(sizes: &Sizes, split: &Split<'_>, splits: u32) -> f64 {
    let &Sizes { batches, heads, group, queries, keys, d, dv } = sizes;
    let &Split { kernel, shared_bytes, tile, blocks, key_tiles, ref rates } = split;
    let kernel = kernel.on(rates, shared_bytes);
    let product = |factors: &[u32]| factors.iter().map(|&factor| f64::from(factor)).product::<f64>();
    let columns = d + dv;
    let loads = product(&[tile.1, columns]) * BYTES / kernel.bytes;
    let products = 2.0 * product(&[tile.0, tile.1, columns]) / kernel.operations;
    let slots = u64::from(rates.multiprocessors * kernel.blocks).max(1);
    let waves = blocks.saturating_mul(splits.into()).div_ceil(slots) as f64;
    let of_blocks = waves * (f64::from(key_tiles.div_ceil(splits)) * loads.max(products) + kernel.block);
    let uneven = if splits.is_power_of_two() { 1.0 } else { UNEVEN };
    let of_memory = uneven * product(&[batches, heads / group.max(1), keys, columns]) * BYTES / memory(rates);
    let both = (of_blocks.powf(kernel.overlap) + of_memory.powf(kernel.overlap)).powf(kernel.overlap.recip());
    let of_partial = product(&[splits, batches, heads, queries, dv]) * PARTIAL_BYTES / partial(rates);
    LAUNCH + both + if splits > 1 { COMBINE + of_partial } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits of `batches` sequences with `queries` query tokens on `keys` keys, heads of 128, by
    /// the kernels for sm_90a with tiles of `rows` rows.
    fn splits_on(
        rates: Rates,
        batches: u32,
        [heads, group]: [u32; 2],
        [queries, keys]: [u32; 2],
        rows: u32,
        tiles: u64,
    ) -> u32 {
        let sizes = Sizes { batches, heads, group, queries, keys, d: 128, dv: 128 };
        let blocks = tiles * u64::from(batches * heads / group);
        let key_tiles = keys.div_ceil(128);
        let tile = (rows, 128);
        splits(&sizes, &Split { kernel: &HOPPER, shared_bytes: 0, tile, blocks, key_tiles, rates })
    }

    #[test]
    fn kernels_with_a_block_an_sm_are_split_into_one_wave() {
        let splits =
            |batches, heads, tokens, rows, tiles| splits_on(Rates::H100, batches, heads, tokens, rows, tiles);
        assert_eq!(splits(1, [8, 1], [256, 8448], 128, 2), 8, "a chunk of a prompt");
        assert_eq!(splits(1, [32, 1], [256, 8448], 128, 2), 2, "with more heads");
        assert_eq!(splits(1, [32, 4], [8, 8192], 64, 1), 16, "several query tokens");
        assert_eq!(splits(16, [32, 4], [8, 8192], 64, 1), 1, "16 sequences fill the GPU");
    }

    #[test]
    fn the_measured_card_has_the_measured_figures() {
        for kernel in [MMA_SYNC, HOPPER, Abilities::few_rows(4), Abilities::few_rows(2)] {
            assert_eq!(kernel.on(&Rates::H100, 55 << 10), kernel);
        }
        assert_eq!((memory(&Rates::H100), partial(&Rates::H100)), (MEMORY, PARTIAL));
    }

    #[test]
    fn a_card_with_slower_memory_is_split_less() {
        let of = |share: f64| {
            let rates = Rates { memory: share * Rates::H100.memory, ..Rates::H100 };
            splits_on(rates, 1, [32, 4], [8, 8192], 64, 1)
        };
        assert_eq!([0.25, 0.5, 1.0, 2.0].map(of), [4, 8, 16, 16]);
    }

    #[test]
    fn a_card_with_more_sms_is_split_more() {
        let of = |multiprocessors| {
            splits_on(Rates { multiprocessors, ..Rates::H100 }, 1, [8, 1], [256, 8448], 128, 2)
        };
        assert_eq!([33, 66, 132, 264].map(of), [2, 4, 8, 10]);
    }

    #[test]
    fn as_many_blocks_run_at_a_time_as_shared_memory_holds() {
        let of_ada = Rates { shared_bytes: 100 << 10, ..Rates::H100 };
        let blocks = |rates: &Rates, kib: usize| MMA_SYNC.on(rates, kib << 10).blocks;
        assert_eq!([blocks(&Rates::H100, 112), blocks(&of_ada, 69), blocks(&of_ada, 48)], [2, 1, 2]);
        assert_eq!(blocks(&of_ada, 200), 1, "the launch is refused");
    }

    #[test]
    fn products_are_no_faster_than_a_cards_tensor_cores() {
        let ada = Rates { arch: Arch::new(8, 9), clock: 2520.0, ..Rates::H100 };
        let kernel = MMA_SYNC.on(&ada, 0);
        assert_eq!(kernel.operations, 512.0 * 2520.0 / 2.0);
        assert!((kernel.bytes / 51e3 - 2520.0 / 1980.0).abs() < 1e-9, "{kernel:?}");
        let ampere = Rates { arch: Arch::new(8, 0), clock: 1410.0, ..Rates::H100 };
        let slower = MMA_SYNC.on(&ampere, 0).operations / MMA_SYNC.operations;
        assert!((slower - 1410.0 / 1980.0).abs() < 1e-9, "{slower}");
    }
}
