//! The sink: stores a warpgroup's part of a tile.
//!
//! Results are stored through boxes in shared memory, by TMA or by the warps (`store.rs`), or from
//! registers in 16-byte vectors ([`store_vectors`]). If C is read (`beta`), rows are staged in
//! shared memory, finished and stored.
//!
//! A block with a single small tile stores a few kilobytes and exits, so latency counts more than
//! bytes: boxes cost two barriers, shared memory, and the code of every option. Large tiles are
//! stored through boxes, by TMA while the next tile is multiplied, if elements have 2 bytes and the
//! block has more tiles. Otherwise the block would wait for the stores: see
//! [`WgmmaConfig::PIECES`].

use super::config::{ArgumentsOf, BOX_C, BOXES_C, WARPGROUP, WgmmaConfig};
use super::epilogue::{Part, below};
use super::mainloop::Loop;
use super::schedule::{Sharing, job};
use super::store::{Destination, Staging, make_room, store, wait_for_stores};
use crate::kernels::mma::{Arguments, Convertible, Place, Scalar, Staged, write_rows};
use core::marker::PhantomData;
use moye_device::arch::{Convert, Fma as _, Word as _, opaque};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::collective::{
    Accumulators, Corner, Epilogue, Sink, Team, WorkTile, blocks_of_vectors, store_vectors,
};
use moye_device::layout::{Layout, Swizzle, layout};
use moye_device::memory::{Element, Shared, SharedStorage, TensorMap};
use moye_device::tensor::{StaticLayout, Tensor};

/// Columns of C that a warpgroup stages in shared memory at a time when it stores by rows.
pub(super) const COLUMNS: u32 = 64;

moye_device::static_layout! {
    /// `COLUMNS` columns of an instruction's tile.
    pub Chunk = layout!((64, 64));
}

/// The accumulators of a [`Chunk`] in shared memory, N-contiguous. Threads write pairs of adjacent
/// elements in four rows at a time; groups of eight are permuted by the row's index modulo 4, to
/// avoid bank conflicts.
#[derive(Clone, Copy)]
pub struct ChunkSums;

impl StaticLayout for ChunkSums {
    const LAYOUT: Layout = layout!((64, 64):(64, 1));
    const SWIZZLE: Swizzle = Swizzle::new(2, 3, 3);
}

/// A chunk as [`Staged`] accumulators: the same type for all tiles, so that the simulator's build
/// compiles the code for its rows once.
struct ChunkOf<T, S, O>(PhantomData<(T, S, O)>);

impl<T: Element, S: Scalar + Convertible<S> + Convert<O>, O: Convertible<S>> Staged for ChunkOf<T, S, O> {
    type Operand = T;
    type Sum = S;
    type Scalar = S;
    type Output = O;
    type TileC = Chunk;
    type Sums = ChunkSums;
    const THREADS: u32 = WARPGROUP;
}

/// Boxes of C in shared memory: [`BOXES_C`] for each consumer warpgroup.
pub struct BoxStorage<G>(PhantomData<G>);

impl<G: WgmmaConfig> SharedStorage for BoxStorage<G> {
    const BYTES: usize = (G::CONSUMERS * BOXES_C * BOX_C) as usize;
    /// The period of the 128-byte swizzle.
    const ALIGN: usize = 1024;

    type Tensors = Shared<u32>;

    #[inline(always)]
    unsafe fn at(base: u32) -> Shared<u32> {
        Shared::from_address(base)
    }
}

/// Stores C as specified by the arguments. `E` is the kernel's epilogue, with which C is not read.
pub struct Store<'a, G: WgmmaConfig, E> {
    /// The map of C; without one C is written through its address.
    pub(super) map: Option<&'a TensorMap>,
    pub(super) arguments: &'a ArgumentsOf<G>,
    pub(super) sharing: &'a Sharing<G::Sum>,
    pub(super) own: PhantomData<E>,
}

impl<G: WgmmaConfig, E> Clone for Store<'_, G, E> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<G: WgmmaConfig, E> Copy for Store<'_, G, E> {}

impl<G: WgmmaConfig, E: Epilogue<G::Sum>> Store<'_, G, E> {
    /// Whether C is stored from registers.
    #[inline(always)]
    fn has_pieces(&self) -> bool {
        // Computed at each use: hoisted out of the loop over tiles it would take registers.
        G::PIECES && has_pieces::<E, _, _, _>(self.arguments, opaque(self.arguments.n))
    }

    /// The boxes of a warpgroup.
    #[inline(always)]
    fn boxes(staging: &Shared<u32>, team: &Team) -> u32 {
        staging.address() + (team.number + team.warpgroup()) * (BOXES_C * BOX_C)
    }
}

impl<'a, G, E, const CLUSTER: u32, const STAGES: u32> Sink<Loop<'a, G, CLUSTER, STAGES>> for Store<'a, G, E>
where
    G: WgmmaConfig,
    E: Epilogue<G::Sum>,
{
    type Storage = BoxStorage<G>;

    #[inline(always)]
    fn borrows_stage(&self) -> bool {
        G::SPARE_BOXES > 0 && !self.has_pieces()
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn prepare(&self, _: &Shared<u32>, team: &Team) {
        make_room(team);
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn store(
        &self,
        tCrC: &Accumulators<Loop<'a, G, CLUSTER, STAGES>>, // (MMA, MMA_M, 1)
        staging: &Shared<u32>,
        tile: &WorkTile,
        team: &Team,
        mainloop: &mut Loop<'a, G, CLUSTER, STAGES>,
    ) {
        let arguments = self.arguments;
        let part = Part::new::<G>(arguments, tile, team.warpgroup());
        // The code below must not take registers while the accumulators are computed.
        let thread = opaque(team.within_warpgroup());
        let values = tCrC.values();
        if E::IS_IDENTITY && arguments.beta != G::Sum::ZERO {
            store_rows::<G>(values, arguments, part, Self::boxes(staging, team), thread, team);
        } else if self.has_pieces() {
            let count = values.len() / G::MMA_M as usize;
            write_finished::<G>(&values[..count], arguments, part, thread);
            if G::MMA_M == 2 {
                write_finished::<G>(&values[count..], arguments, part.below::<G>(1), thread);
            }
        } else {
            let wide = is_wide(arguments);
            let to = Destination {
                mapped: self.map.is_some() && arguments.tensor_c != 0,
                map: self.map,
                start: [part.first.0 as i32, part.first.1 as i32, tile.batch as i32],
                corner: corner(arguments, part, wide),
                boxes: Self::boxes(staging, team),
                spare: mainloop.boxes() + team.warpgroup() * const { G::SPARE_BOXES * BOX_C },
                // Warpgroups that share a tile along K have synchronised in the scheduler's fix-up.
                met: job::<G>(arguments, self.sharing).is_piece(tile),
                team: *team,
                thread,
            };
            if wide {
                store::<G, G::Sum>(values, &to);
            } else {
                store::<G, G::Output>(values, &to);
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn finish(&self, team: &Team) {
        wait_for_stores::<0>(team.within_warpgroup());
    }
}

/// Stages some columns at a time in shared memory, at `base`, and stores them by rows.
///
/// # Safety
/// Same contract as [`Sink::store`]; the memory belongs to the warpgroup.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn store_rows<G: WgmmaConfig>(
    values: &[G::Sum],
    arguments: &ArgumentsOf<G>,
    part: Part,
    base: u32,
    thread: u32,
    team: &Team,
) {
    let offset = offset(arguments, part);
    // `opaque` bounds keep these loops: their body is long and rarely runs.
    let mut m = 0;
    while m < if G::MMA_M > 1 { opaque(G::MMA_M) } else { 1 } {
        let (first_m, first_n) = (part.first.0 + m * below::<G>(), part.first.1);
        let left = if first_m < arguments.m { arguments.n - first_n } else { 0 };
        let columns = if left < G::BLK_N { left } else { G::BLK_N };
        let mut chunk = 0;
        while chunk * COLUMNS < columns {
            // The chunk's memory belongs to the warpgroup, whose threads synchronise before each
            // write and each read of it; each pair belongs to one thread.
            team.sync_warpgroup();
            let mut this = 0;
            while this < const { G::MMA_M * G::BLK_N.div_ceil(COLUMNS) } {
                let (this_m, this_chunk) = (this % G::MMA_M, this / G::MMA_M);
                // Registers cannot be indexed at run time: each chunk has a branch.
                if this_m == m && this_chunk == chunk {
                    let of_instruction = this_m as usize * (values.len() / G::MMA_M as usize);
                    leave_columns(&values[of_instruction..], const { G::BLK_N }, this_chunk, base, thread);
                }
                this += 1;
            }
            team.sync_warpgroup();
            let sC = Tensor::shared(Shared::from_address(base)); // (64, 64)
            let first = (first_m, first_n + chunk * COLUMNS);
            let thread = opaque(thread);
            write_rows::<ChunkOf<G::Operand, G::Sum, G::Output>>(
                arguments,
                sC,
                Place { first, offset, thread },
            );
            chunk += 1;
        }
        m += 1;
    }
}

/// Stores a chunk of an instruction's accumulators in shared memory, with the layout of
/// [`ChunkSums`].
///
/// # Safety
/// The memory at `base` belongs to the warpgroup. All of its threads call it; `thread` is the
/// caller's index.
#[inline(always)]
pub(super) unsafe fn leave_columns<S: Staging<S>>(
    sums: &[S],
    columns: u32,
    chunk: u32,
    base: u32,
    thread: u32,
) {
    let (warp, lane) = (thread / 32, thread % 32);
    let row = 16 * warp + accumulator_row(lane);
    let mut j = 0;
    while j < 8 && chunk * COLUMNS + 8 * j < columns {
        let at = ((chunk * COLUMNS + 8 * j) / 2) as usize;
        let column = 8 * j + accumulator_column(lane);
        let address = |row: u32| base + 4 * ChunkSums::SWIZZLE.apply((row * COLUMNS + column) as i64) as u32;
        let pair = |at: usize| S::pair(sums[at], sums[at + 1]);
        // Each pair belongs to one thread.
        u64::store_shared(address(row), pair(at));
        u64::store_shared(address(row + 8), pair(at + 2));
        j += 1;
    }
}

/// Whether C can be stored from registers: it is not read, which a caller's epilogue `E` never
/// does, and its rows of `n` elements are whole 16-byte vectors, aligned to their size.
#[inline(always)]
pub(super) fn has_pieces<E: Epilogue<S>, T: Element, O: Element, S: Scalar>(
    arguments: &Arguments<T, O, S>,
    n: u32,
) -> bool {
    let bytes = if is_wide(arguments) { size_of::<S>() } else { size_of::<O>() } as u64;
    let strides = (arguments.ldc | arguments.batch_c | arguments.split_c) as u64 | u64::from(n);
    let begins = arguments.c.address() | strides.wrapping_mul(bytes);
    (!E::IS_IDENTITY || arguments.beta == S::ZERO) && begins.is_multiple_of(16)
}

/// Stores an instruction's results from registers.
///
/// # Safety
/// All lanes of a warp call it together. `thread` is the thread's index in its warpgroup, and
/// `part` the instruction's part of the tile. C [has whole vectors](has_pieces) and is writable,
/// and no other thread writes these elements, or only with the same values.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub(super) unsafe fn write_finished<G: WgmmaConfig>(
    sums: &[G::Sum],
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) {
    let wide = is_wide(arguments);
    let corner = corner(arguments, part, wide);
    // The element types match.
    if wide {
        write_as::<G, G::Sum>(sums, &corner, thread);
    } else {
        write_as::<G, G::Output>(sums, &corner, thread);
    }
}

/// [`write_finished`] as elements `O`.
///
/// # Safety
/// Same contract as [`write_finished`], for a C with elements of `O`.
#[inline(always)]
unsafe fn write_as<G: WgmmaConfig, O: Staging<G::Sum>>(sums: &[G::Sum], corner: &Corner, thread: u32) {
    const { assert!(G::BLK_N.is_multiple_of(8 * blocks_of_vectors::<O>()), "lanes have vectors of all blocks") };
    let pair = |block: u32, below: u32| {
        let at = (4 * block + 2 * below) as usize;
        O::pair(sums[at], sums[at + 1])
    };
    store_vectors::<O>(pair, const { G::BLK_N / 8 }, corner, 16 * (thread / 32), thread % 32);
}

/// The offset in elements of a batch and a slice of K from C's first element.
#[inline(always)]
pub(super) fn offset<T: Element, O: Element, S: Element>(arguments: &Arguments<T, O, S>, part: Part) -> i64 {
    i64::from(part.batch) * arguments.batch_c + i64::from(part.split) * arguments.split_c
}

/// Whether elements of C have the accumulator's type although `O` is another.
#[inline(always)]
pub(super) fn is_wide<T: Element, O: Element, S: Element>(arguments: &Arguments<T, O, S>) -> bool {
    size_of::<O>() != size_of::<S>() && arguments.wide != 0
}

/// The address in C of a part, with elements of `S` if they are `wide`.
#[inline(always)]
pub(super) fn corner<T: Element, O: Element, S: Element>(
    arguments: &Arguments<T, O, S>,
    part: Part,
    wide: bool,
) -> Corner {
    let bytes = if wide { size_of::<S>() } else { size_of::<O>() } as i64;
    let (row, column) = part.first;
    let element = offset(arguments, part) + i64::from(row) * arguments.ldc + i64::from(column);
    Corner {
        address: arguments.c.address().wrapping_add_signed(element * bytes),
        row: arguments.ldc * bytes,
        left: (arguments.m.saturating_sub(row), arguments.n - column),
    }
}
