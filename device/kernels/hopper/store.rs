//! A warpgroup's sums as boxes of C in shared memory, which TMA stores, or warps write by words.
//!
//! Threads hold the sums of a 64 x N tile as `wgmma` leaves them: thread `t` of warp `w` has, for each eight columns `8 j`, the
//! pairs at row `16 w + t / 4` and at eight rows below, columns `8 j + 2 (t % 4)` and the next. A box is 64 rows of 128 bytes,
//! whose pieces of 16 bytes are exchanged by the row's number modulo 8.
//!
//! A warpgroup has two boxes of its own, and a share of B's part of its tile's last stage: one box of tiles of 128 x 128 and 128 x 192, two of 128 x 256.
//! 64 x 256 elements of 2 bytes are four boxes: all are filled at once, and TMA reads them while the next tile is multiplied, those in the
//! stage first, which is waited for. Of 4 bytes they are eight, in two rounds. In tiles of 256 x 128 a warpgroup has 64 x 128 twice, below
//! each other, and the other two boxes in A's part, where its own rows were. Warpgroups that take turns have their own two boxes alone,
//! since the other one's stages go on: of 128 x 128 elements there are two rounds, or of 4 bytes four.

use super::config::{ATOM_M, BOX_C, BOXES_C, OF_TILE, ROW, Sums as _, WARPGROUP, WgmmaConfig};
use super::words::{Corner, write_words};
use crate::mma::Convertible;
use half::{bf16, f16};
use moye_device::arch::wgmma::Accumulators;
use moye_device::arch::{
    self, FULL_WARP, Word as _, bulk_commit_group, bulk_wait_group_read, fence_proxy_async_shared,
    stmatrix_x4, sync_barrier, sync_warp, tensor_store,
};
use moye_device::memory::{Element, TensorMapPointer};

/// An element of C that pairs of results become: 2 or 4 bytes.
pub trait Staging<S>: Convertible<S> {
    /// The bits of two neighbours, the first in the lowest.
    fn pair(first: S, second: S) -> u64;
}

macro_rules! halves {
    ($($t:ty, $pack:ident);*) => { $(
        impl Staging<f32> for $t {
            #[inline(always)]
            fn pair(first: f32, second: f32) -> u64 {
                arch::$pack(first, second).to_bits().into()
            }
        }
    )* };
}
halves!(f16, f32x2_to_f16x2; bf16, f32x2_to_bf16x2);

impl Staging<Self> for f32 {
    #[inline(always)]
    fn pair(first: Self, second: Self) -> u64 {
        u64::from(first.to_bits()) | u64::from(second.to_bits()) << 32
    }
}

impl Staging<Self> for i32 {
    #[inline(always)]
    fn pair(first: Self, second: Self) -> u64 {
        u64::from(first as u32) | u64::from(second as u32) << 32
    }
}

/// Where a warpgroup's part of a tile goes.
#[derive(Clone, Copy)]
pub struct Destination {
    /// Whether by TMA.
    pub mapped: bool,
    /// Where so, the tensor map of C: columns, rows, batches and parts.
    pub map: TensorMapPointer,
    /// The first column and row of the part, and which batch or part of K.
    pub start: [i32; 3],
    /// Where not, its place in memory.
    pub corner: Corner,
    /// The warpgroup's own boxes in shared memory, and [`WgmmaConfig::SPARE_BOXES`] in the tile's last stage.
    pub boxes: u32,
    /// See `boxes`.
    pub spare: u32,
    /// Whether those who read the part of the tile's last stage in which boxes lie [have met](meet) since.
    pub met: bool,
    /// The barrier of the warpgroup.
    pub barrier: u32,
    /// The thread within the warpgroup.
    pub thread: u32,
}

impl Destination {
    /// Where a box of those that are filled at once lies: the own ones first.
    #[inline(always)]
    const fn place(&self, number: u32) -> u32 {
        if number < BOXES_C { self.boxes + number * BOX_C } else { self.spare + (number - BOXES_C) * BOX_C }
    }
}

/// Groups of stores that may still be read when the tile's last stage is released: the last one that [`store`] has begun is of the
/// warpgroup's own boxes alone, and those in front of it, of boxes in the stage, are behind a wait for all that earlier rounds have
/// begun. Where C is not stored by TMA, or not by this cluster, none was begun since [`make_room`] waited for all in front of the tile.
pub const OWN_GROUPS: u32 = 1;

/// Boxes of C beside each other, of elements `O`.
const fn across<G: WgmmaConfig, O: Element>() -> u32 {
    G::BLK_N * O::BYTES as u32 / ROW
}

/// The sums that a box of C has, by its number: of which instruction, and from which column on.
#[inline(always)]
const fn of_box<G: WgmmaConfig, O: Element>(number: u32) -> (u32, u32) {
    let across = across::<G, O>();
    (number / across, number % across * (ROW / O::BYTES as u32))
}

/// Stores the results as elements `O`. By TMA that may go on when the function returns: whoever writes to the boxes next waits for the
/// groups of stores, by [`bulk_wait_group_read`] in the first thread; who releases the tile's last stage, for all but [`OWN_GROUPS`].
///
/// # Safety
/// All threads of the warpgroup come together, and no instruction of theirs reads the tile's last stage any more. So do the others that
/// [meet](meet) them, where they have not met. The boxes are theirs, and not read; C may be written, as [`tensor_store`] says where it is mapped.
#[inline(always)]
pub unsafe fn store<G: WgmmaConfig, O: Staging<G::Scalar>>(sums: &G::Sums, to: &Destination) {
    let boxes = const { G::MMA_M * across::<G, O>() };
    let at_once = const {
        let at_once = BOXES_C + G::SPARE_BOXES;
        assert!(
            G::MMA_M == 1 || across::<G, O>().is_multiple_of(BOXES_C) && at_once.is_multiple_of(BOXES_C),
            "boxes that are written together are beside each other"
        );
        at_once
    };
    let mut first = 0;
    while first < boxes {
        let count = if boxes - first < at_once { boxes - first } else { at_once };
        let own = if count < BOXES_C { count } else { BOXES_C };
        // SAFETY: the caller's contract: in the first round all boxes are free. Later ones wait until TMA has read the round before, or the
        // warp itself, which writes no rows but those that it reads.
        unsafe {
            if !to.mapped {
                // Of the tile before, too, lanes may still read what others write now.
                sync_warp(FULL_WARP);
            } else if first > 0 {
                make_room(to.thread, to.barrier);
            }
            let mut b = 0;
            while b < count {
                if first == 0 && b == BOXES_C && !to.met {
                    meet::<G>(to.barrier);
                }
                let (m, column) = of_box::<G, O>(first + b);
                let sums = sums.of(m).as_slice();
                // Registers of a box: four for every eight columns.
                let from = (column / 2) as usize;
                fill::<O>(to.place(b), to.thread, |at| {
                    O::pair(sums[from + at].widen(), sums[from + at + 1].widen())
                });
                b += 1;
            }
            if to.mapped {
                fence_proxy_async_shared();
                sync_barrier(to.barrier, WARPGROUP);
                if to.thread == 0 {
                    // Those in the stage first: it is waited for.
                    if own < count {
                        send::<G, O>(to, first, (own, count));
                    }
                    send::<G, O>(to, first, (0, own));
                }
            } else {
                sync_warp(FULL_WARP);
                let mut b = 0;
                while b < count {
                    let these = if count - b < BOXES_C { count - b } else { BOXES_C };
                    let (m, column) = of_box::<G, O>(first + b);
                    let lane = (to.thread / 32, to.thread % 32);
                    write_words::<O>((to.place(b), these), column, &to.corner.below(m * ATOM_M), lane);
                    b += BOXES_C;
                }
                // The warp has read what it wrote, and the stage is TMA's again when it is released.
                fence_proxy_async_shared();
            }
        }
        first += count;
    }
}

/// Begins to store boxes `from` to `end` of the round that begins with C's box `first`, as one group.
///
/// # Safety
/// One thread of the warpgroup, which has filled them and met since; C may be written, as [`tensor_store`] says.
#[inline(always)]
unsafe fn send<G: WgmmaConfig, O: Element>(to: &Destination, first: u32, (from, end): (u32, u32)) {
    let mut b = from;
    while b < end {
        let [column, row, part] = to.start;
        let (m, beside) = of_box::<G, O>(first + b);
        let start = [column + beside as i32, row + (m * ATOM_M) as i32, part];
        // SAFETY: the caller's contract.
        unsafe { tensor_store(to.map, start, to.place(b), None) };
        b += 1;
    }
    bulk_commit_group();
}

/// Waits until whoever reads the part of the tile's last stage in which boxes of C lie has done so: all warpgroups of the tile, or, of
/// its own rows of A, the warpgroup whose barrier this is.
///
/// # Safety
/// All threads of these warpgroups come by.
#[inline(always)]
pub unsafe fn meet<G: WgmmaConfig>(barrier: u32) {
    // SAFETY: the caller's contract.
    unsafe {
        if const { G::MMA_M > 1 } {
            sync_barrier(barrier, WARPGROUP);
        } else if const { G::TOGETHER > 1 } {
            sync_barrier(OF_TILE, const { G::TOGETHER * WARPGROUP });
        }
    }
}

/// Waits until TMA has read what the warpgroup stores.
///
/// # Safety
/// All threads of the warpgroup come together, each with its number, and the first one has begun the stores.
#[inline(always)]
pub unsafe fn make_room(thread: u32, barrier: u32) {
    if thread == 0 {
        bulk_wait_group_read::<0>();
    }
    // SAFETY: the caller's contract.
    unsafe { sync_barrier(barrier, WARPGROUP) };
}

/// Fills a box: `pair` gives the bits of two neighbours, by the number of the first one's register.
///
/// # Safety
/// All threads of the warpgroup come together, each with its number. The box is theirs.
#[inline(always)]
unsafe fn fill<O: Element>(base: u32, thread: u32, pair: impl Fn(usize) -> u64) {
    let lane = thread % 32;
    let mut j = 0;
    while j < 4 {
        if const { O::BYTES == 2 } {
            // Lane `l` of a warp names row `l % 16` of the first or the second eight columns.
            let row = thread / 32 * 16 + lane % 16;
            let at = 8 * j;
            let piece = 2 * j as u32 + lane / 16;
            let address = base + row * ROW + ((piece ^ (row % 8)) << 4);
            let pairs = [pair(at), pair(at + 2), pair(at + 4), pair(at + 6)].map(|bits| bits as u32);
            // SAFETY: the caller's contract.
            unsafe { stmatrix_x4(address, pairs) };
        } else {
            let row = thread / 32 * 16 + lane / 4;
            let at = 4 * j;
            let piece = 2 * j as u32 + lane % 4 / 2;
            // Eight rows below, the same pieces are exchanged.
            let address = base + row * ROW + ((piece ^ (row % 8)) << 4) + lane % 2 * 8;
            // SAFETY: the caller's contract; each pair belongs to one thread.
            unsafe {
                u64::store_shared(address, pair(at));
                u64::store_shared(address + 8 * ROW, pair(at + 2));
            }
        }
        j += 1;
    }
}
