//! Writes a warpgroup's accumulators to shared memory as boxes of C, which TMA or the warps store.
//!
//! Threads hold the accumulators of a 64 x N tile as `wgmma` leaves them: thread `t` of warp `w`
//! holds, for each group of eight columns `8 j`, the pairs at row `16 w + t / 4` and at eight rows
//! below, columns `8 j + 2 (t % 4)` and the next. A box is 64 rows of 128 bytes, whose 16-byte
//! vectors are permuted by the row's index modulo 8.
//!
//! A warpgroup owns two boxes, and uses a share of B's part of its tile's last stage: one box for
//! tiles of 128 x 128 and 128 x 192, two for 128 x 256. 64 x 256 elements of 2 bytes are four
//! boxes: all are written at once, and TMA reads them while the next tile is multiplied, the boxes
//! in the stage first, since the stage is needed. Elements of 4 bytes take eight boxes, in two
//! rounds. In tiles of 256 x 128 a warpgroup computes 64 x 128 twice, and the other two boxes are
//! in A's part, the larger one. Ping-pong warpgroups have only their own two boxes, since the other
//! warpgroup uses the stages: 128 x 128 elements take two rounds, or four with 4 bytes.

use super::config::{ATOM_M, BOX_C, BOXES_C, ROW, WgmmaConfig};
use super::epilogue::below;
use crate::kernels::mma::Convertible;
use half::{bf16, f16};
use moye_device::arch::{
    self, FULL_WARP, bulk_commit_group, bulk_wait_group_read, fence_proxy_async_shared, sync_warp,
};
use moye_device::atom::tma::TmaCopy;
use moye_device::collective::{Corner, Team, fill_box, store_words};
use moye_device::layout::{IntTuple, Major, SwizzleBytes, shared_memory_atom};
use moye_device::memory::{Element, Shared, TensorMap};
use moye_device::swizzled_layout;
use moye_device::tensor::{SharedTensor, Tensor};

swizzled_layout! {
    /// A box of C in shared memory: 64 rows of 128 bytes.
    pub BoxOf<O: Element> = shared_memory_atom(Major::K, SwizzleBytes::B128, 8 * O::BYTES as i64)
        .tile_to_shape(IntTuple::flat(&[ATOM_M as i64, (ROW / O::BYTES as u32) as i64]));
}

/// The TMA store of a box of C with elements `O`: a tile of a tensor (M, N, batch).
pub type StoreBox<O> = TmaCopy<O, BoxOf<O>, 3>;

/// An element of C, to which pairs of results are converted: 2 or 4 bytes.
pub trait Staging<S>: Convertible<S> {
    /// The bits of two adjacent elements, the first in the low bits.
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

/// The destination of a warpgroup's part of a tile.
#[derive(Clone, Copy)]
pub struct Destination<'a> {
    /// Whether TMA stores it.
    pub mapped: bool,
    /// With TMA, the tensor map of C, by [`StoreBox`].
    pub map: Option<&'a TensorMap>,
    /// The first row and column of the part, and its batch or slice of K.
    pub start: [i32; 3],
    /// Without TMA, its address in C.
    pub corner: Corner,
    /// The warpgroup's own boxes in shared memory, and [`WgmmaConfig::SPARE_BOXES`] in the tile's
    /// last stage.
    pub boxes: u32,
    /// See `boxes`.
    pub spare: u32,
    /// Whether the readers of the tile's last stage have already synchronised.
    pub met: bool,
    /// The warpgroups that share the tile.
    pub team: Team,
    /// The thread's index in its warpgroup.
    pub thread: u32,
}

impl Destination<'_> {
    /// The address of box `number` of those filled at once: the warpgroup's own boxes first.
    #[inline(always)]
    const fn place(&self, number: u32) -> u32 {
        if number < BOXES_C { self.boxes + number * BOX_C } else { self.spare + (number - BOXES_C) * BOX_C }
    }
}

/// Groups of stores that may still read when the tile's last stage is released. The last group that
/// [`store`] commits has only the warpgroup's own boxes; earlier groups, with boxes in the stage,
/// precede a wait for all earlier rounds. If TMA does not store C, or this cluster does not, no
/// group was committed since [`make_room`] waited for all groups of earlier tiles.
pub const OWN_GROUPS: u32 = 1;

/// Boxes of C along a row, of elements `O`.
const fn across<G: WgmmaConfig, O: Element>() -> u32 {
    G::BLK_N * O::BYTES as u32 / ROW
}

/// The accumulators of box `number` of C: the instruction, and the first column.
#[inline(always)]
const fn of_box<G: WgmmaConfig, O: Element>(number: u32) -> (u32, u32) {
    let across = across::<G, O>();
    (number / across, number % across * (ROW / O::BYTES as u32))
}

/// Stores the results as elements of `O`. TMA may still read when the function returns. Before the
/// boxes are reused, the first thread waits for the groups of stores by [`bulk_wait_group_read`];
/// before the tile's last stage is released, for all but [`OWN_GROUPS`].
///
/// # Safety
/// All threads of the warpgroup call it together, and none of their instructions reads the tile's
/// last stage any more. The same holds for the other warpgroup of the team; unless `to.met`, they
/// synchronise here. The boxes belong to them and are not read; C is writable.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub unsafe fn store<G: WgmmaConfig, O: Staging<G::Sum>>(values: &[G::Sum], to: &Destination<'_>) {
    let boxes = const { G::MMA_M * across::<G, O>() };
    let at_once = const {
        let at_once = BOXES_C + G::SPARE_BOXES;
        assert!(
            G::MMA_M == 1 || across::<G, O>().is_multiple_of(BOXES_C) && at_once.is_multiple_of(BOXES_C),
            "boxes that are written together are adjacent"
        );
        at_once
    };
    let mut first = 0;
    while first < boxes {
        let count = if boxes - first < at_once { boxes - first } else { at_once };
        let own = if count < BOXES_C { count } else { BOXES_C };
        // In the first round all boxes are free. Later rounds wait until TMA has read the previous
        // one, or the warp itself has; a warp only writes rows that it reads.
        if !to.mapped {
            // Other lanes may still read the rows of the previous tile that this lane writes now.
            sync_warp(FULL_WARP);
        } else if first > 0 {
            make_room(&to.team);
        }
        let mut b = 0;
        while b < count {
            if first == 0 && b == BOXES_C && !to.met {
                to.team.sync();
            }
            let (m, column) = of_box::<G, O>(first + b);
            // Four registers of a box for every eight columns.
            let from = m as usize * (values.len() / G::MMA_M as usize) + (column / 2) as usize;
            fill_box::<O>(to.place(b), to.thread, |at| O::pair(values[from + at], values[from + at + 1]));
            b += 1;
        }
        if to.mapped {
            fence_proxy_async_shared();
            to.team.sync_warpgroup();
            if to.thread == 0 {
                // The boxes in the stage first: the stage is needed.
                if own < count {
                    send::<G, O>(to, first, own..count);
                }
                send::<G, O>(to, first, 0..own);
            }
        } else {
            sync_warp(FULL_WARP);
            let mut b = 0;
            while b < count {
                let these = if count - b < BOXES_C { count - b } else { BOXES_C };
                let (m, column) = of_box::<G, O>(first + b);
                let corner = to.corner.below(m * below::<G>());
                store_words::<O>(to.place(b), these, column, &corner, to.thread / 32, to.thread % 32);
                b += BOXES_C;
            }
            // The warp has read what it wrote; TMA may write the stage again when it is released.
            fence_proxy_async_shared();
        }
        first += count;
    }
}

/// Starts to store these boxes of the round that starts with C's box `first`, as one group.
///
/// # Safety
/// One thread of the warpgroup, which has filled the boxes and synchronised since; C has a map, and
/// is writable.
#[inline(always)]
unsafe fn send<G: WgmmaConfig, O: Element>(to: &Destination<'_>, first: u32, boxes: core::ops::Range<u32>) {
    const { assert!(StoreBox::<O>::BYTES == BOX_C, "boxes of C have 64 rows of 128 bytes") };
    let Some(map) = to.map else { return };
    let gC = StoreBox::<O>::tensor(map).offset(to.start); // (m, n, batch)
    let mut b = boxes.start;
    while b < boxes.end {
        let (m, beside) = of_box::<G, O>(first + b);
        let sC: SharedTensor<O, BoxOf<O>> = Tensor::shared(Shared::from_address(to.place(b))); // (64, columns)
        let below = (m * below::<G>()) as i32;
        StoreBox::<O>::get_slice().store(sC, gC.offset([below, beside as i32, 0]));
        b += 1;
    }
    bulk_commit_group();
}

/// Waits until TMA has read the warpgroup's stores. All threads of the warpgroup call it together;
/// the first thread has issued the stores.
#[inline(always)]
pub fn make_room(team: &Team) {
    if team.within_warpgroup() == 0 {
        bulk_wait_group_read::<0>();
    }
    team.sync_warpgroup();
}

/// Waits until all of the warp's groups of stores, except the last `PENDING`, have read their
/// source: [`OWN_GROUPS`] before a stage with boxes of C is released, 0 before the block exits.
///
/// All lanes of the warp call it together, each with its index in the warpgroup. The first warp
/// issues all stores of a warpgroup; the other warps need not wait, because a stage is free only
/// when all warps have released it.
#[inline(always)]
pub fn wait_for_stores<const PENDING: u32>(thread: u32) {
    if thread == 0 {
        bulk_wait_group_read::<PENDING>();
    }
    sync_warp(FULL_WARP);
}
