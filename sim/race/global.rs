//! The shadow of global memory during a launch, shared by blocks on several OS threads.

use super::cell::{Entry, Kind, PAGE, Page};
use super::clock::{Foreign, add_foreign};
use super::place::{Place, Places, place};
use super::spin::Spin;
use crate::Dim3;
use crate::block::{RawFault, WARP_SIZE};
use crate::fault::{Access, FaultKind, RaceAccess};
use crate::memory::Snapshot;
use std::collections::HashMap;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The accessed pages of an allocation.
struct Pages {
    base: u64,
    /// Each null or an owned box.
    pages: Box<[AtomicPtr<Spin<Page>>]>,
}

impl Pages {
    #[inline(always)]
    fn page(&self, number: usize) -> &Spin<Page> {
        let present = self.pages[number].load(Ordering::Acquire);
        if present.is_null() {
            return self.new_page(number);
        }
        // SAFETY: a page that is present stays until all are dropped.
        unsafe { &*present }
    }

    #[cold]
    #[inline(never)]
    fn new_page(&self, number: usize) -> &Spin<Page> {
        let slot = &self.pages[number];
        let new = Box::into_raw(Box::default());
        match slot.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it is present from now on.
            Ok(_) => unsafe { &*new },
            Err(present) => {
                // SAFETY: only this code knows the box from above; the page that preceded it is
                // present.
                unsafe {
                    drop(Box::from_raw(new));
                    &*present
                }
            }
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        for slot in &mut self.pages {
            let page = *slot.get_mut();
            if !page.is_null() {
                // SAFETY: created by `Box::into_raw`, and owned by the slot.
                drop(unsafe { Box::from_raw(page) });
            }
        }
    }
}

/// Calls `act(address, bytes)` for the part of a range in each page of an allocation, until it
/// returns `Some`.
fn for_each_page<R>(
    base: u64,
    address: u64,
    bytes: usize,
    mut act: impl FnMut(u64, usize) -> Option<R>,
) -> Option<R> {
    let mut at = 0;
    while at < bytes {
        let start = address + at as u64;
        let part = (bytes - at).min(PAGE - (start - base) as usize % PAGE);
        if let Some(result) = act(start, part) {
            return Some(result);
        }
        at += part;
    }
    None
}

/// The order of accesses of one thread.
struct Alone;

impl super::cell::Ordering for Alone {
    fn is_known_to_all(&self, _: &Entry) -> bool {
        true
    }

    fn is_of_block(&self, _: &Entry) -> bool {
        true
    }

    fn unordered(&self, _: &Entry) -> Option<(u32, u32)> {
        None
    }
}

/// The accesses that the blocks of a launch share.
pub(crate) struct GlobalRaces {
    /// The extents of the grid in clusters, of a cluster in blocks, of a block in threads.
    extents: [Dim3; 3],
    /// By the index of the allocation in the launch's snapshot.
    allocations: Vec<Pages>,
    /// Whether a thread has released anything to the whole GPU.
    releases: AtomicBool,
    /// The knowledge that atomic operations have released to the whole GPU, by address.
    released: Mutex<HashMap<u64, Foreign>>,
    /// The epochs of threads, by cluster, that a later proxy fence for global memory covers.
    fenced: Mutex<Foreign>,
    /// The reported writes of the same value by several threads, with the block, one for each pair
    /// of lines.
    warnings: Option<Mutex<Vec<(Dim3, RawFault)>>>,
    /// Whether a block with a deferred race reached a limit: no other is run to find a wider one.
    given_up: AtomicBool,
}

/// The most warnings of a launch.
const MOST_WARNINGS: usize = 64;

impl GlobalRaces {
    /// The accesses of a launch: the extents of the grid in clusters, of a cluster in blocks, and
    /// of a block in threads. `tells_values` enables reports of writes of the same value.
    pub(crate) fn new(memory: &Snapshot, [clusters, cluster, block]: [Dim3; 3], tells_values: bool) -> Self {
        let pages = |bytes: u64| (0..bytes.div_ceil(PAGE as u64)).map(|_| AtomicPtr::new(ptr::null_mut()));
        Self {
            extents: [clusters, cluster, block],
            allocations: memory
                .spans()
                .iter()
                .map(|span| Pages { base: span.base, pages: pages(span.len).collect() })
                .collect(),
            releases: AtomicBool::new(false),
            released: Mutex::default(),
            fenced: Mutex::default(),
            warnings: tells_values.then(Mutex::default),
            given_up: AtomicBool::new(false),
        }
    }

    /// A block with a deferred race has reached a limit: no other is run to find a wider one.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether a block with a deferred race has reached a limit.
    pub(crate) fn has_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Whether writes of the same value are reported.
    pub(crate) fn tells_values(&self) -> bool {
        self.warnings.is_some()
    }

    /// Records a warning of a block, unless one of the same lines exists.
    pub(crate) fn warn(&self, block: Dim3, warning: RawFault) {
        let Some(warnings) = &self.warnings else { return };
        let lines = |fault: &RawFault| match &fault.kind {
            FaultKind::Race(race) => (fault.location, race.other.location),
            other => unreachable!("warnings are of races alone, not of {other}"),
        };
        let mut warnings = warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if warnings.len() < MOST_WARNINGS && warnings.iter().all(|(_, other)| lines(other) != lines(&warning))
        {
            warnings.push((block, warning));
        }
    }

    /// Takes the warnings.
    pub(crate) fn take_warnings(&self) -> Vec<(Dim3, RawFault)> {
        let take = |warnings: &Mutex<Vec<_>>| {
            std::mem::take(&mut *warnings.lock().unwrap_or_else(PoisonError::into_inner))
        };
        self.warnings.as_ref().map(take).unwrap_or_default()
    }

    /// Calls `act` with the page of an address in an allocation, given by its index in the
    /// snapshot, and the offset in the page.
    #[inline(always)]
    pub(crate) fn with_page<R>(
        &self,
        allocation: usize,
        address: u64,
        act: impl FnOnce(&mut Page, usize) -> R,
    ) -> R {
        let pages = &self.allocations[allocation];
        let offset = (address - pages.base) as usize;
        pages.page(offset / PAGE).with(|page| act(page, offset % PAGE))
    }

    /// Records an access to bytes of an allocation by work of a single thread: a stream's copy.
    pub(crate) fn note_alone(
        &self,
        allocation: Option<usize>,
        address: u64,
        bytes: usize,
        kind: Kind,
        (location, access): Place,
    ) {
        let Some(allocation) = allocation else { return };
        let entry = Entry::new(0, 0, Places::default().number(location, access), 1, 1);
        for_each_page(self.allocations[allocation].base, address, bytes, |address, bytes| {
            self.with_page(allocation, address, |page, offset| {
                page.access(offset, bytes, kind, entry, &Alone, |_, _| false)
            });
            None::<()>
        });
    }

    /// Records a proxy fence for global memory by a thread of a cluster. It covers the accesses of
    /// its own and of other clusters that the thread knows to have ended.
    pub(crate) fn fence_proxies(&self, cluster: u32, epochs: &Arc<[u32]>, foreign: Option<&Foreign>) {
        let mut fenced = self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        add_foreign(&mut fenced, cluster, epochs);
        for (other, epochs) in foreign.into_iter().flatten() {
            add_foreign(&mut fenced, *other, epochs);
        }
    }

    /// A write of threads of this launch to these bytes without a later proxy fence, and its first
    /// byte.
    pub(crate) fn find_unfenced(&self, address: u64, bytes: usize) -> Option<(u64, RaceAccess)> {
        let number = self.allocations.partition_point(|pages| pages.base <= address).checked_sub(1)?;
        let fenced = self.fenced.lock().unwrap_or_else(PoisonError::into_inner);
        let is_unfenced = |entry: &Entry| {
            let known = fenced.iter().find(|(cluster, _)| *cluster == entry.cluster());
            let epoch_of = |lane: u32| {
                let thread = (entry.warp() * WARP_SIZE + lane) as usize;
                known.and_then(|(_, epochs)| epochs.get(thread).copied()).unwrap_or(0)
            };
            let mut lanes = (0..WARP_SIZE).filter(|lane| entry.lanes >> lane & 1 != 0);
            place(entry.place()).1 != Access::BulkDestination
                && lanes.any(|lane| epoch_of(lane) < entry.epoch)
        };
        for_each_page(self.allocations[number].base, address, bytes, |address, bytes| {
            let find = |page: &mut Page, offset| page.find_write(offset, bytes, is_unfenced);
            let (byte, entry) = self.with_address(address, find).flatten()?;
            Some((address + byte as u64, self.access_of(&entry)))
        })
    }

    /// The access of an entry.
    fn access_of(&self, entry: &Entry) -> RaceAccess {
        let (location, access) = place(entry.place());
        let (block, thread) = self.thread(entry);
        RaceAccess { access, kernel: None, block: Some(block), thread, location }
    }

    /// An access that conflicts with an unordered access of this kind to these bytes, and the first
    /// byte of both.
    pub(crate) fn find(&self, kind: Kind, address: u64, bytes: usize) -> Option<(u64, RaceAccess)> {
        let number = self.allocations.partition_point(|pages| pages.base <= address).checked_sub(1)?;
        for_each_page(self.allocations[number].base, address, bytes, |address, bytes| {
            let find = |page: &mut Page, offset| page.conflict(kind, offset, bytes);
            let (byte, entry) = self.with_address(address, find).flatten()?;
            Some((address + byte as u64, self.access_of(&entry)))
        })
    }

    /// Same as [`with_page`](Self::with_page), for any address; `None` if nothing was accessed.
    pub(crate) fn with_address<R>(&self, address: u64, act: impl FnOnce(&mut Page, usize) -> R) -> Option<R> {
        let number = self.allocations.partition_point(|pages| pages.base <= address).checked_sub(1)?;
        let pages = &self.allocations[number];
        let offset = (address - pages.base) as usize;
        let slot = pages.pages.get(offset / PAGE)?;
        if slot.load(Ordering::Acquire).is_null() {
            return None;
        }
        Some(pages.page(offset / PAGE).with(|page| act(page, offset % PAGE)))
    }

    /// The block and the thread of an entry.
    pub(crate) fn thread(&self, entry: &Entry) -> (Dim3, Dim3) {
        let [clusters, cluster, block] = self.extents;
        let warps = (block.count() as u32).div_ceil(WARP_SIZE);
        let (index, within) =
            (clusters.index_of(entry.cluster().into()), cluster.index_of((entry.warp() / warps).into()));
        let thread = entry.warp() % warps * WARP_SIZE + entry.lanes.trailing_zeros();
        let at = |clusters: u32, blocks: u32, within: u32| clusters * blocks + within;
        let block_index = Dim3::new(
            at(index.x, cluster.x, within.x),
            at(index.y, cluster.y, within.y),
            at(index.z, cluster.z, within.z),
        );
        (block_index, block.index_of(thread.into()))
    }

    /// Whether a thread has released anything to the whole GPU, at any address.
    #[inline]
    pub(crate) fn has_releases(&self) -> bool {
        self.releases.load(Ordering::SeqCst)
    }

    /// The knowledge released to the whole GPU. While it is locked, no atomic operation releases or
    /// acquires.
    pub(crate) fn released(&self) -> Releases<'_> {
        Releases(self.released.lock().unwrap_or_else(PoisonError::into_inner), &self.releases)
    }
}

/// The knowledge released to the whole GPU.
pub(crate) struct Releases<'a>(MutexGuard<'a, HashMap<u64, Foreign>>, &'a AtomicBool);

impl Releases<'_> {
    /// Adds, at an address, a thread's knowledge of its cluster and of others.
    pub(crate) fn add(&mut self, address: u64, cluster: u32, epochs: &Arc<[u32]>, foreign: Option<&Foreign>) {
        self.1.store(true, Ordering::SeqCst);
        let released = self.0.entry(address).or_default();
        add_foreign(released, cluster, epochs);
        for (other, epochs) in foreign.into_iter().flatten() {
            add_foreign(released, *other, epochs);
        }
    }

    /// The knowledge released at an address.
    pub(crate) fn at(&self, address: u64) -> Option<&Foreign> {
        self.0.get(&address)
    }
}
