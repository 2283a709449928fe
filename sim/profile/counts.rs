//! The counts of a source line, and the sectors and wavefronts of a request.

use super::class::Class;
use super::flight::InFlight;
use super::tensor::tensor_instructions;
use std::collections::BTreeMap;

/// Bytes of a sector, the unit of transfers from L2 to L1.
pub(super) const SECTOR: u64 = 32;
/// Banks of shared memory, each of 4-byte words.
const BANKS: usize = 32;

/// Requests to global memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobalCounts {
    /// Warp instructions.
    pub requests: u64,
    /// Lanes that took part in them.
    pub lanes: u64,
    /// Bytes that the lanes of each request access; bytes of several lanes count once.
    pub bytes: u64,
    /// Sectors of 32 bytes that contain them.
    pub sectors: u64,
}

impl GlobalCounts {
    /// The fraction of transferred bytes that were requested, 0 to 1; 1 if nothing was transferred.
    pub fn coalescing(&self) -> f64 {
        if self.sectors == 0 { 1.0 } else { self.bytes as f64 / (self.sectors * SECTOR) as f64 }
    }

    /// The mean number of sectors per request.
    pub fn sectors_per_request(&self) -> f64 {
        self.sectors as f64 / self.requests.max(1) as f64
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.bytes += other.bytes;
        self.sectors += other.sectors;
    }
}

/// Requests to shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SharedCounts {
    /// Warp instructions; `ldmatrix` and `stmatrix` of one matrix among them.
    pub requests: u64,
    /// Lanes that took part in them.
    pub lanes: u64,
    /// Cycles that the banks need: in each, a bank delivers one word.
    pub wavefronts: u64,
    /// The wavefronts without conflicts: one per 128 bytes of the lanes.
    pub ideal: u64,
}

impl SharedCounts {
    /// Additional wavefronts due to bank conflicts.
    pub fn conflicts(&self) -> u64 {
        self.wavefronts - self.ideal
    }

    /// The ratio of wavefronts to wavefronts without conflicts: 1 without conflicts, 32 at worst.
    pub fn conflict_degree(&self) -> f64 {
        if self.ideal == 0 { 1.0 } else { self.wavefronts as f64 / self.ideal as f64 }
    }

    fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.lanes += other.lanes;
        self.wavefronts += other.wavefronts;
        self.ideal += other.ideal;
    }
}

/// The counts of a source line or a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Warp instructions by name: `ld.global.b128`, `bar.sync`, `shfl.sync.bfly`.
    pub instructions: BTreeMap<&'static str, u64>,
    /// Lanes that took part in them, summed.
    pub lanes: u64,
    /// Lanes that could have taken part: lanes that had not exited.
    pub live_lanes: u64,
    /// Instructions in which lanes that had not returned did not take part.
    pub divergent: u64,
    /// `ld.global`.
    pub global_loads: GlobalCounts,
    /// `st.global`.
    pub global_stores: GlobalCounts,
    /// The reads of `cp.async` from global memory.
    pub async_loads: GlobalCounts,
    /// Atomic operations on global memory.
    pub global_atomics: GlobalCounts,
    /// `ld.shared` and `ldmatrix`.
    pub shared_loads: SharedCounts,
    /// `st.shared` and `stmatrix`.
    pub shared_stores: SharedCounts,
    /// The writes of `cp.async` to shared memory.
    pub async_stores: SharedCounts,
    /// Atomic operations on shared memory.
    pub shared_atomics: SharedCounts,
    /// Bytes of bulk and tensor copies.
    pub bulk_bytes: u64,
    /// The part of these bytes that goes from shared to global memory.
    pub bulk_stored_bytes: u64,
    /// Bytes of global memory that bulk and tensor copies read or write: excluding copies between
    /// the blocks of a cluster, and out-of-bounds parts of tensors.
    pub bulk_global_bytes: u64,
    /// Outstanding copies where threads wait for them.
    pub in_flight: InFlight,
}

/// Waits at barriers, in warp instructions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierWaits {
    /// `bar.sync`: all threads of the block.
    pub block: u64,
    /// `barrier.sync` with an id and a thread count.
    pub named: u64,
    /// `mbarrier.try_wait` and `mbarrier.test_wait`.
    pub mbarrier: u64,
    /// `barrier.cluster.wait`.
    pub cluster: u64,
}

impl BarrierWaits {
    /// The total.
    pub const fn total(&self) -> u64 {
        self.block + self.named + self.mbarrier + self.cluster
    }
}

impl Counts {
    /// Counts a warp instruction that `lanes` took part in, out of the `live` lanes.
    pub(super) fn instruction(&mut self, name: &'static str, lanes: u32, live: u32) {
        *self.instructions.entry(name).or_default() += 1;
        self.lanes += u64::from(lanes.count_ones());
        self.live_lanes += u64::from(live.count_ones());
        self.divergent += u64::from(lanes != live);
    }

    /// Warp instructions of a class.
    pub fn of_class(&self, class: Class) -> u64 {
        self.instructions.iter().filter(|(name, _)| Class::of(name) == class).map(|(_, count)| count).sum()
    }

    /// Warp instructions by class, for the classes that occur.
    pub fn classes(&self) -> BTreeMap<Class, u64> {
        let mut classes = BTreeMap::new();
        for (name, count) in &self.instructions {
            *classes.entry(Class::of(name)).or_default() += count;
        }
        classes
    }

    /// Waits at barriers.
    pub fn barrier_waits(&self) -> BarrierWaits {
        BarrierWaits {
            block: self.count("bar.sync"),
            named: self.count("barrier.sync"),
            mbarrier: self.count("mbarrier.try_wait") + self.count("mbarrier.test_wait"),
            cluster: self.count("barrier.cluster.wait"),
        }
    }

    /// The fraction of instructions in which some lanes did not take part although they had not
    /// returned, 0 to 1.
    pub fn divergence(&self) -> f64 {
        self.divergent as f64 / self.warp_instructions().max(1) as f64
    }

    /// Warp instructions whose names begin with `name`.
    pub fn count(&self, name: &str) -> u64 {
        self.instructions.iter().filter(|(full, _)| full.starts_with(name)).map(|(_, count)| count).sum()
    }

    /// All warp instructions that the simulator sees.
    pub fn warp_instructions(&self) -> u64 {
        self.instructions.values().sum()
    }

    /// The threads' loads, stores and copies of global memory together.
    pub fn global(&self) -> GlobalCounts {
        let mut all = self.global_loads;
        for other in [&self.global_stores, &self.async_loads, &self.global_atomics] {
            all.add(other);
        }
        all
    }

    /// Bytes between the SMs and L2 if L1 caches nothing: sectors of requests, and what bulk and
    /// tensor copies read or write.
    pub fn l2_bytes(&self) -> u64 {
        self.global().sectors * SECTOR + self.bulk_global_bytes
    }

    /// Loads and stores of shared memory together.
    pub fn shared(&self) -> SharedCounts {
        let mut all = self.shared_loads;
        for other in [&self.shared_stores, &self.async_stores, &self.shared_atomics] {
            all.add(other);
        }
        all
    }

    /// The fraction of bytes transferred from and to global memory that were requested, 0 to 1.
    pub fn coalescing(&self) -> f64 {
        self.global().coalescing()
    }

    /// The ratio of wavefronts of shared memory to wavefronts without bank conflicts.
    pub fn conflict_degree(&self) -> f64 {
        self.shared().conflict_degree()
    }

    /// The fraction of lanes that took part in instructions, 0 to 1: below 1 if lanes diverge.
    pub fn active(&self) -> f64 {
        if self.live_lanes == 0 { 1.0 } else { self.lanes as f64 / self.live_lanes as f64 }
    }

    /// Multiplications and additions of tensor cores, by the type of A in the instruction's name.
    pub fn tensor_operations(&self) -> BTreeMap<&'static str, u64> {
        let mut all = BTreeMap::new();
        for (instruction, count) in tensor_instructions(self) {
            *all.entry(instruction.operand).or_default() += instruction.operations * count;
        }
        all
    }

    /// Adds the counts of another line.
    pub fn add(&mut self, other: &Self) {
        for (name, count) in &other.instructions {
            *self.instructions.entry(name).or_default() += count;
        }
        self.lanes += other.lanes;
        self.live_lanes += other.live_lanes;
        self.divergent += other.divergent;
        self.global_loads.add(&other.global_loads);
        self.global_stores.add(&other.global_stores);
        self.async_loads.add(&other.async_loads);
        self.global_atomics.add(&other.global_atomics);
        self.shared_loads.add(&other.shared_loads);
        self.shared_stores.add(&other.shared_stores);
        self.async_stores.add(&other.async_stores);
        self.shared_atomics.add(&other.shared_atomics);
        self.bulk_bytes += other.bulk_bytes;
        self.bulk_stored_bytes += other.bulk_stored_bytes;
        self.bulk_global_bytes += other.bulk_global_bytes;
        self.in_flight.add(&other.in_flight);
    }
}

/// The addresses of the lanes of a request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub mask: u32,
    pub addresses: [u64; 32],
}

impl Request {
    fn lanes(&self) -> impl Iterator<Item = (usize, u64)> {
        (0..32).filter(|lane| self.mask >> lane & 1 != 0).map(|lane| (lane, self.addresses[lane]))
    }

    /// The units of `unit` bytes that accesses of `bytes` bytes overlap, each once.
    pub fn units(&self, bytes: u64, unit: u64) -> Vec<u64> {
        let mut units: Vec<u64> = self
            .lanes()
            .flat_map(|(_, address)| address / unit..=(address + bytes.max(1) - 1) / unit)
            .collect();
        units.sort_unstable();
        units.dedup();
        units
    }

    pub fn global(&self, bytes: u64) -> GlobalCounts {
        // No access is smaller than the unit in which bytes are counted, nor misaligned to it.
        let unit = bytes.clamp(1, 4);
        GlobalCounts {
            requests: 1,
            lanes: self.mask.count_ones().into(),
            bytes: unit * self.units(bytes, unit).len() as u64,
            sectors: self.units(bytes, SECTOR).len() as u64,
        }
    }

    pub fn shared(&self, bytes: u64) -> SharedCounts {
        // 128 bytes are transferred at a time: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16.
        let group = if bytes <= 4 { 32 } else { 128 / bytes.min(16) as u32 };
        self.by_groups(bytes, (0..32 / group).map(|at| lanes_from(at * group, group)))
    }

    /// Same as [`shared`](Self::shared), for `ld.shared`. For a load of 8 bytes, the halves of the
    /// warp share a wavefront if adjacent lanes, or all lanes two apart, load the same; for 16
    /// bytes, the quarters of each half do. An inactive lane matches any other. Observed on an
    /// H100; stores do not share.
    pub fn shared_load(&self, bytes: u64) -> SharedCounts {
        if bytes <= 4 {
            return self.shared(bytes);
        }
        let pair = 256 / bytes.min(16) as u32;
        let parts = (0..32 / pair).flat_map(|at| {
            let both = lanes_from(at * pair, pair);
            let halves = [lanes_from(at * pair, pair / 2), lanes_from(at * pair + pair / 2, pair / 2)];
            if self.agree(both, 1) || self.agree(both, 2) { [both, 0] } else { halves }
        });
        self.by_groups(bytes, parts)
    }

    /// Whether, among these lanes, lanes whose indices differ in the bit `apart` load the same
    /// address.
    fn agree(&self, lanes: u32, apart: usize) -> bool {
        let takes_part = |lane: usize| self.mask & lanes & (1 << lane) != 0;
        (0..32_usize).filter(|lane| lane & apart == 0).all(|lane| {
            let other = lane | apart;
            !takes_part(lane) || !takes_part(other) || self.addresses[lane] == self.addresses[other]
        })
    }

    /// The wavefronts of groups of lanes, one for each group.
    fn by_groups(&self, bytes: u64, groups: impl Iterator<Item = u32>) -> SharedCounts {
        let (mut wavefronts, mut ideal) = (0, 0);
        for lanes in groups {
            let part = Self { mask: self.mask & lanes, addresses: self.addresses };
            if part.mask == 0 {
                continue;
            }
            let mut words = [0_u64; BANKS];
            for word in part.units(bytes, 4) {
                words[word as usize % BANKS] += 1;
            }
            wavefronts += words.into_iter().max().unwrap_or(0);
            ideal += 1;
        }
        SharedCounts { requests: 1, lanes: self.mask.count_ones().into(), wavefronts, ideal }
    }
}

/// The mask of `count` lanes starting at `first`.
const fn lanes_from(first: u32, count: u32) -> u32 {
    u32::MAX >> (32 - count) << first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(address: impl Fn(u64) -> u64) -> Request {
        Request { mask: u32::MAX, addresses: std::array::from_fn(|lane| address(lane as u64)) }
    }

    #[test]
    fn each_sector_with_a_byte_that_a_lane_requests_is_counted() {
        for (name, bytes, sectors, coalescing, request) in [
            ("neighbours", 4, 4, 1.0, request(|lane| 4 * lane)),
            ("neighbours of 16 bytes", 16, 16, 1.0, request(|lane| 16 * lane)),
            ("every other word", 4, 8, 0.5, request(|lane| 8 * lane)),
            ("a column", 4, 32, 0.125, request(|lane| 128 * lane)),
            ("one word for all", 4, 1, 0.125, request(|_| 64)),
            ("shifted by one word", 4, 5, 0.8, request(|lane| 4 + 4 * lane)),
            ("bytes", 1, 1, 1.0, request(|lane| lane)),
        ] {
            let counts = request.global(bytes);
            assert_eq!((counts.sectors, counts.coalescing()), (sectors, coalescing), "{name}");
        }
    }

    #[test]
    fn lanes_conflict_that_want_other_words_of_one_bank() {
        for (name, bytes, wavefronts, ideal, request) in [
            ("neighbours", 4, 1, 1, request(|lane| 4 * lane)),
            ("one word for all", 4, 1, 1, request(|_| 16)),
            ("every other word", 4, 2, 1, request(|lane| 8 * lane)),
            ("a column of 32", 4, 32, 1, request(|lane| 128 * lane)),
            ("a column of 33", 4, 1, 1, request(|lane| 132 * lane)),
            ("two halves of a word", 2, 1, 1, request(|lane| 2 * lane)),
            ("neighbours of 8 bytes", 8, 2, 2, request(|lane| 8 * lane)),
            ("neighbours of 16 bytes", 16, 4, 4, request(|lane| 16 * lane)),
            ("rows of 128 bytes", 16, 32, 4, request(|lane| 128 * lane)),
            ("rows of 144 bytes", 16, 4, 4, request(|lane| 144 * lane)),
        ] {
            let counts = request.shared(bytes);
            assert_eq!((counts.wavefronts, counts.ideal), (wavefronts, ideal), "{name}");
        }
    }

    #[test]
    fn halves_of_a_load_go_together_where_neighbours_want_the_same_as_on_an_h100() {
        let even = |bytes: u64| Request {
            mask: 0x5555_5555,
            addresses: std::array::from_fn(|lane| bytes * lane as u64),
        };
        for (name, bytes, wavefronts, conflicts, request) in [
            ("neighbours", 8, 2, 0, request(|lane| 8 * lane)),
            ("one word for all", 8, 1, 0, request(|_| 64)),
            ("pairs", 8, 1, 0, request(|lane| 8 * (lane / 2))),
            ("lanes two apart", 8, 2, 1, request(|lane| 8 * (lane & !2))),
            ("quads", 8, 1, 0, request(|lane| 8 * (lane / 4))),
            ("both halves the same", 8, 2, 0, request(|lane| 8 * (lane % 16))),
            ("even lanes", 8, 2, 1, even(8)),
            ("neighbours", 16, 4, 0, request(|lane| 16 * lane)),
            ("one word for all", 16, 2, 0, request(|_| 64)),
            ("pairs", 16, 2, 0, request(|lane| 16 * (lane / 2))),
            ("lanes two apart", 16, 4, 2, request(|lane| 16 * (lane & !2))),
            ("eights", 16, 2, 0, request(|lane| 16 * (lane / 8))),
            ("even lanes", 16, 4, 2, even(16)),
        ] {
            let counts = request.shared_load(bytes);
            let found = (counts.wavefronts, counts.conflicts());
            assert_eq!(found, (wavefronts, conflicts), "{bytes} bytes: {name}");
        }
        let stored = even(8).shared(8);
        assert_eq!((stored.wavefronts, stored.conflicts()), (2, 0), "stores share no wavefront");
    }
}
