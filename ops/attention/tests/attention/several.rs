//! Blocks with several tiles: the kernels support any tile scheduler.

use crate::attention::hopper::{
    self, HopperConfig as _, KeyMaps, SMALL_BOX, TmaKeyBox, TmaValueBox, VariedStorage,
};
use crate::attention::{Arguments, MmaConfig as _, Shape, Storage, Work, forward};
use crate::case::{Broadcast, Case};
use crate::check::{Entry, Kernels, check_by};
use crate::machine::Machine as _;
use crate::simulator;
use crate::varied::run;
use half::{bf16, f16};
use moye_device::arch::{block_idx, grid_dim};
use moye_device::atom::tma::TmaMap;
use moye_device::collective::{TileScheduler, WorkTile};
use moye_device::kernel;
use moye_device::memory::Element;

/// Block `b` of `n` takes works `b`, `b + n`, `b + 2 n`, ...
#[derive(Clone)]
struct EveryNth<'a, T: Element> {
    arguments: &'a Arguments<T>,
    next: u32,
}

impl<'a, T: Element> EveryNth<'a, T> {
    fn of_block(arguments: &'a Arguments<T>) -> Self {
        Self { arguments, next: block_idx().x }
    }
}

impl<T: Element> TileScheduler for EveryNth<'_, T> {
    fn next_tile(&mut self) -> Option<WorkTile> {
        let Arguments { row_tiles, heads, pack, splits, batches, .. } = *self.arguments;
        if self.next >= row_tiles * (heads / pack) * splits * batches {
            return None;
        }
        let Work { row_tile: m, head: n, batch, split: k, .. } = Work::of(self.arguments, self.next);
        self.next += grid_dim().x;
        Some(WorkTile { m, n, batch, k, k_end: k + 1, number: (batch * heads + n) * row_tiles + m })
    }
}

type Plain = Shape<bf16, 64, 64, 128, 128, false>;
type General = Shape<bf16, 64, 64, 64, 64, true>;
type Decode = Shape<f16, 64, 64, 16, 64, true>;

macro_rules! entries {
    ($($name:ident $config:ident $t:ty;)+) => { $(
        /// # Safety
        /// Same contract as [`forward`].
        #[kernel(threads = $config::THREADS, shared = Storage<$config>)]
        pub unsafe fn $name(arguments: Arguments<$t>) {
            forward::<$config, { 2 * $config::BLOCKS }>(&arguments, EveryNth::of_block(&arguments))
        }
    )+ };
}
entries! {
    plain Plain bf16;
    general General bf16;
    decode Decode f16;
}

type Bf16Varied = hopper::D64Varied<bf16>;
type Bf16Few = hopper::D64Few<bf16>;
type Bf16General = hopper::D64General<bf16>;

macro_rules! varied {
    ($($name:ident $config:ident;)+) => { $(
        /// # Safety
        /// Same contract as [`hopper::forward`].
        #[kernel(threads = $config::THREADS, shared = VariedStorage<$config>)]
        pub unsafe fn $name(
            k: TmaMap<TmaKeyBox<$config>>,
            v: TmaMap<TmaValueBox<$config>>,
            small_k: TmaMap<TmaKeyBox<$config, SMALL_BOX>>,
            small_v: TmaMap<TmaValueBox<$config, SMALL_BOX>>,
            arguments: Arguments<bf16>,
        ) {
            let tiles = || EveryNth::of_block(&arguments);
            let maps = KeyMaps { boxes: (&k, &v), small: (&small_k, &small_v) };
            hopper::forward::<$config, _, _>(maps, &arguments, tiles)
        }
    )+ };
}
varied! {
    hopper_varied Bf16Varied;
    hopper_few Bf16Few;
    hopper_general Bf16General;
}

/// Asserts that each of `blocks` blocks has several tiles of `rows` rows, and that some tiles do
/// not exist if lengths differ.
fn assert_several<T: Element>(case: &Case, mut arguments: Arguments<T>, rows: u32, blocks: u32) {
    let works = arguments.grid(rows);
    assert!(works > 2 * blocks, "{works} tiles of {blocks} blocks");
    let skipped = (0..works).filter(|&index| {
        let Work { row_tile, batch, .. } = Work::of(&arguments, index);
        row_tile * rows >= case.lengths_of(batch as usize).0 as u32 * arguments.pack
    });
    assert_eq!(skipped.count() > 0, case.lengths.is_some(), "tiles that do not exist");
}

/// Checks a case by a kernel for sm_80: one block takes all tiles, or several share them.
fn check<T: Kernels>(blocks: u32, case: &Case, (kernel, rows): Entry<T>) {
    let machine = simulator();
    check_by::<T, _>(&machine, case, blocks.into(), |arguments, _| {
        let _ = arguments.grid(rows);
        assert_several(case, *arguments, rows, blocks);
        machine.attend(&kernel, blocks, *arguments);
    });
}

/// Same as [`check`], by a kernel for Hopper.
macro_rules! check_on_hopper {
    ($blocks:literal, $case:expr, $config:ident $kernel:ident) => {
        let (blocks, case): (u32, &Case) = ($blocks, $case);
        let machine = simulator();
        check_by::<bf16, _>(&machine, case, blocks.into(), |arguments, operands| {
            assert_several(case, *arguments, 64 * $config::WARPGROUPS, blocks);
            run::<$config>(&machine, &$kernel, case, blocks, arguments, operands);
        });
    };
}

/// Sequences of one tile of `rows` rows, of two and of none, under a causal mask: with splits, some
/// are empty.
fn of_all_lengths(rows: usize, splits: u32, page: Option<usize>) -> Case {
    let mut case = Case::new(64, (3, 2, 2), (rows + 6, 290)).causal();
    case.lengths = Some(vec![(5, 70), (rows + 6, 290), (0, 40)]);
    (case.splits, case.page) = (splits, page);
    case
}

/// A mask of each score, and values in one of two sequences that it hides from some rows.
fn with_hidden_values(rows: usize, splits: u32) -> Case {
    let mut case = Case::new(64, (2, 2, 1), (rows + 6, 140));
    case.mask = Some(Broadcast { batch: false, head: true, row: false, transposed: false, padded: true });
    case.planted = vec![(0, 6, f32::INFINITY), (0, 41, f32::NAN)];
    case.splits = splits;
    case
}

#[test]
fn a_block_of_sm_80_computes_all_tiles_that_its_scheduler_gives() {
    check(1, &of_all_lengths(128, 1, None), (plain, 128));
    check(3, &of_all_lengths(128, 3, None), (plain, 128));
    let mut case = of_all_lengths(32, 3, Some(16));
    case.pack = true;
    check(3, &case, (general, 64));
    case.q_length = 8;
    case.lengths = Some(vec![(5, 70), (8, 290), (0, 40), (1, 3)]);
    case.batches = 4;
    check(1, &case, (decode, 16));
}

#[test]
fn a_block_on_hopper_computes_all_tiles_that_its_scheduler_gives() {
    check_on_hopper!(1, &of_all_lengths(192, 1, None), Bf16Varied hopper_varied);
    check_on_hopper!(3, &of_all_lengths(192, 3, Some(64)), Bf16Varied hopper_varied);
    check_on_hopper!(1, &of_all_lengths(64, 3, Some(16)), Bf16Few hopper_few);
}

#[test]
fn a_mask_hides_values_in_each_tile_of_a_block() {
    check(1, &with_hidden_values(64, 1), (general, 64));
    check(3, &with_hidden_values(64, 3), (general, 64));
    check_on_hopper!(1, &with_hidden_values(128, 1), Bf16General hopper_general);
    check_on_hopper!(3, &with_hidden_values(128, 3), Bf16General hopper_general);
}
