//! GPUs by name: how many blocks fit on an SM, and what would limit a kernel.

use super::KernelProfile;
use super::tensor::{TensorInstruction, tensor_instructions};
use std::collections::BTreeSet;

const CARDS: &str = include_str!("cards.csv");
/// Registers of an SM, on every GPU since sm_50.
const REGISTERS: u64 = 64 * 1024;
/// The unit of register allocation of a warp.
const REGISTER_UNIT: u64 = 256;
/// Shared memory that the system reserves per block, since sm_80.
const SYSTEM_SHARED: u64 = 1024;
/// Warp schedulers of an SM, each of which issues one instruction per cycle.
const SCHEDULERS: f64 = 4.0;

/// A GPU's rates and capacities, from its vendor's documents (listed in `cards.csv` beside this
/// file).
#[derive(Clone, Debug, PartialEq)]
pub struct Card {
    /// Its name: `H100`, `H200`, `A100`, `RTX 4090`.
    pub name: &'static str,
    /// Its architecture by compute capability: 9 and 0 for sm_90.
    pub capability: (u32, u32),
    /// The number of SMs.
    pub multiprocessors: u64,
    /// The boost clock in MHz.
    pub clock_mhz: f64,
    /// The rate of its memory in GB/s.
    pub memory_gb_s: f64,
    /// The rates of its tensor cores in 10^12 operations per second: f16 and bf16 with f32
    /// accumulators, f16 with f16 accumulators, tf32, fp8 with f32 accumulators and with f16
    /// accumulators, int8, f64; 0 if it has none.
    pub tensor_tops: [f64; 7],
    /// Shared memory of an SM in KiB.
    pub shared_kib: u64,
    /// The most shared memory of one block in KiB.
    pub shared_block_kib: u64,
    /// The most threads of an SM.
    pub threads: u64,
    /// The most blocks of an SM.
    pub blocks: u64,
}

/// The occupancy of an SM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Occupancy {
    /// Blocks per SM; 0 if none fits.
    pub blocks: u64,
    /// Warps of these blocks.
    pub warps: u64,
    /// The most warps of an SM.
    pub most_warps: u64,
    /// The limiting resource: `threads`, `blocks`, `shared memory` or `registers`.
    pub limit: &'static str,
}

impl Occupancy {
    /// Resident warps over the maximum, 0 to 1.
    pub fn fraction(&self) -> f64 {
        self.warps as f64 / self.most_warps as f64
    }
}

/// The least time that each unit of a GPU needs for a kernel if it never stalls.
#[derive(Clone, Debug, PartialEq)]
pub struct Roofline {
    /// The units with their times in seconds, the slowest first.
    pub times: Vec<(&'static str, f64)>,
    /// Types of operands and accumulators for which the card's tensor cores have no known rate:
    /// `e4m3 to f32`. Their operations are not included in the times.
    pub no_rate: BTreeSet<String>,
}

impl Roofline {
    /// The unit that limits the kernel.
    pub fn limit(&self) -> &'static str {
        self.times.first().map_or("nothing", |(unit, _)| unit)
    }

    /// A lower bound of the kernel's time, in seconds; not a prediction.
    pub fn seconds(&self) -> f64 {
        self.times.first().map_or(0.0, |(_, seconds)| *seconds)
    }
}

impl Card {
    /// The card of this name; case is ignored, and `RTX 4090` equals `rtx4090`.
    pub fn named(name: &str) -> Option<Self> {
        let plain = |name: &str| name.replace([' ', '-', '_'], "").to_lowercase();
        Self::all().into_iter().find(|card| plain(card.name) == plain(name))
    }

    /// All cards of the file.
    pub fn all() -> Vec<Self> {
        CARDS.lines().filter(|line| !line.starts_with('#')).skip(1).filter_map(Self::read).collect()
    }

    fn read(row: &'static str) -> Option<Self> {
        let mut cells = row.split(',');
        let name = cells.next()?;
        let mut next = || cells.next()?.parse::<f64>().ok();
        Some(Self {
            name,
            capability: {
                let capability = next()? as u32;
                (capability / 10, capability % 10)
            },
            multiprocessors: next()? as u64,
            clock_mhz: next()?,
            memory_gb_s: next()?,
            tensor_tops: [next()?, next()?, next()?, next()?, next()?, next()?, next()?],
            shared_kib: next()? as u64,
            shared_block_kib: next()? as u64,
            threads: next()? as u64,
            blocks: next()? as u64,
        })
    }

    /// The number of blocks of this many threads, bytes of shared memory and registers per thread
    /// on an SM. Without registers, which `ptxas` decides, they are no limit.
    pub fn occupancy(&self, threads: u64, shared_bytes: u64, registers: Option<u64>) -> Occupancy {
        let warps = threads.div_ceil(32).max(1);
        let most_warps = self.threads / 32;
        let shared = if shared_bytes > self.shared_block_kib * 1024 {
            0
        } else {
            self.shared_kib * 1024 / (shared_bytes.next_multiple_of(128) + SYSTEM_SHARED)
        };
        let of_registers = registers.map_or(u64::MAX, |registers| {
            let of_warp = (32 * registers.max(1)).next_multiple_of(REGISTER_UNIT);
            // A warp's registers are in one of four register files.
            REGISTERS / 4 / of_warp * 4 / warps
        });
        let limits = [
            (most_warps / warps, "threads"),
            (self.blocks, "blocks"),
            (shared, "shared memory"),
            (of_registers, "registers"),
        ];
        let (blocks, limit) = limits.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, "threads"));
        Occupancy { blocks, warps: blocks * warps, most_warps, limit }
    }

    /// Its architecture, for example `sm_90`.
    pub fn arch(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }

    /// The rate of its tensor cores for these types of operands and accumulators, in operations per
    /// second; `None` if the card lacks such a product or its rate is not in `cards.csv`.
    ///
    /// ```
    /// use moye_sim::profile::Card;
    /// let card = Card::named("RTX 4090").unwrap();
    /// assert_eq!(card.tensor_rate("f16", "f16"), Some(330.3e12));
    /// assert_eq!(card.tensor_rate("f16", "f32"), Some(165.2e12));
    /// assert_eq!(card.tensor_rate("f64", "f64"), None);
    /// ```
    pub fn tensor_rate(&self, operand: &str, accumulator: &str) -> Option<f64> {
        let [f16, f16_f16, tf32, fp8, fp8_f16, int8, f64] = self.tensor_tops;
        let rate = match (operand, accumulator) {
            ("f16", "f16") => f16_f16,
            ("f16" | "bf16", "f32") => f16,
            ("tf32", "f32") => tf32,
            ("e4m3" | "e5m2", "f16") => fp8_f16,
            ("e4m3" | "e5m2", "f32") => fp8,
            ("s8" | "u8", "s32") => int8,
            ("f64", "f64") => f64,
            _ => 0.0,
        };
        (rate > 0.0).then_some(rate * 1e12)
    }

    /// The limits of a launch of a kernel.
    ///
    /// Memory transfers each sector that a launch reads or writes once, as with a large enough L2
    /// that starts empty. Shared memory completes one wavefront per cycle. Only the instructions
    /// that the simulator counts are included, without plain arithmetic. If the grid has fewer
    /// blocks than the card has SMs, the other SMs are idle.
    pub fn roofline(&self, kernel: &KernelProfile) -> Roofline {
        let total = kernel.total();
        let launches = kernel.launches.max(1) as f64;
        let busy = self.multiprocessors.min(kernel.grid.count() as u64).max(1) as f64;
        let cycles = busy * self.clock_mhz * 1e6;
        let (mut tensor, mut no_rate) = (0.0, BTreeSet::new());
        for (TensorInstruction { operations, operand, accumulator }, count) in tensor_instructions(&total) {
            let part = busy / self.multiprocessors as f64;
            match self.tensor_rate(operand, accumulator) {
                Some(rate) => tensor += (operations * count) as f64 / (rate * part),
                None => _ = no_rate.insert(format!("{operand} to {accumulator}")),
            }
        }
        let mut times = vec![
            ("memory", kernel.memory_bytes() as f64 / (self.memory_gb_s * 1e9)),
            ("L1 sectors", total.global().sectors as f64 / launches / (4.0 * cycles)),
            ("shared memory", total.shared().wavefronts as f64 / launches / cycles),
            ("tensor cores", tensor / launches),
            ("instruction issue", total.warp_instructions() as f64 / launches / (SCHEDULERS * cycles)),
        ];
        times.retain(|(_, seconds)| *seconds > 0.0);
        times.sort_by(|first, second| second.1.total_cmp(&first.1));
        Roofline { times, no_rate }
    }

    /// An instruction of a kernel that the card lacks, with the architecture that has it: the card
    /// cannot run this kernel.
    pub fn lacks(&self, kernel: &KernelProfile) -> Option<(&'static str, &'static str)> {
        let total = kernel.total();
        let mut needs = total.instructions.keys().map(|name| (*name, architecture_of(name)));
        needs.find_map(|(name, (arch, capability))| {
            let runs = if arch.ends_with('a') {
                self.capability == capability
            } else {
                self.capability >= capability
            };
            (!runs).then_some((name, arch))
        })
    }
}

/// Prefixes of instructions that sm_80 lacks, with the architectures that have them.
const NEWER: &[(&str, &str, (u32, u32))] = &[
    ("wgmma", "sm_90a", (9, 0)),
    ("setmaxnreg", "sm_90a", (9, 0)),
    ("cp.async.bulk", "sm_90", (9, 0)),
    ("cp.reduce.async.bulk", "sm_90", (9, 0)),
    ("st.async", "sm_90", (9, 0)),
    ("stmatrix", "sm_90", (9, 0)),
    ("barrier.cluster", "sm_90", (9, 0)),
    ("ld.shared::cluster", "sm_90", (9, 0)),
    ("st.shared::cluster", "sm_90", (9, 0)),
    ("mbarrier.arrive.expect_tx", "sm_90", (9, 0)),
    ("mbarrier.expect_tx", "sm_90", (9, 0)),
    ("mbarrier.arrive.shared::cluster", "sm_90", (9, 0)),
    ("fence.proxy.async", "sm_90", (9, 0)),
    ("fence.mbarrier_init", "sm_90", (9, 0)),
    ("fence.acq_rel.cluster", "sm_90", (9, 0)),
    ("elect", "sm_90", (9, 0)),
];

/// The first architecture that has an instruction.
fn architecture_of(name: &str) -> (&'static str, (u32, u32)) {
    let newer = NEWER.iter().find(|(beginning, ..)| name.starts_with(beginning));
    let is_fp8 = name.starts_with("mma") && name.split('.').any(|part| matches!(part, "e4m3" | "e5m2"));
    match newer {
        Some((_, arch, capability)) => (arch, *capability),
        None if is_fp8 => ("sm_89", (8, 9)),
        None => ("sm_80", (8, 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cards_are_found_by_name_with_their_rates() {
        let names: Vec<_> = Card::all().iter().map(|card| card.name).collect();
        assert_eq!(names, ["H100", "H200", "A100", "RTX 4090"]);
        let card = Card::named("rtx4090").unwrap();
        assert_eq!((card.multiprocessors, card.memory_gb_s, card.threads), (128, 1008.0, 1536));
        assert_eq!((card.arch(), card.capability), ("sm_89".to_owned(), (8, 9)));
        assert_eq!(Card::named("GT 710"), None);
    }

    #[test]
    fn an_instruction_is_had_by_the_architectures_that_the_ptx_manual_names() {
        for (name, arch) in [
            ("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", "sm_90a"),
            ("cp.async.bulk.commit_group", "sm_90"),
            ("barrier.cluster.wait", "sm_90"),
            ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_89"),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "sm_80"),
            ("cp.async.commit_group", "sm_80"),
            ("mbarrier.test_wait", "sm_80"),
        ] {
            assert_eq!(architecture_of(name).0, arch, "{name}");
        }
    }

    #[test]
    fn occupancy_is_what_the_scarcest_resource_allows() {
        let h100 = Card::named("H100").unwrap();
        for (threads, shared, registers, blocks, limit) in [
            (256, 0, None, 8, "threads"),
            (32, 0, None, 32, "blocks"),
            (128, 48 * 1024, None, 4, "shared memory"),
            (256, 0, Some(128), 2, "registers"),
            (384, 0, Some(168), 1, "registers"),
            (128, 228 * 1024, None, 0, "shared memory"),
        ] {
            let found = h100.occupancy(threads, shared, registers);
            assert_eq!(
                (found.blocks, found.limit),
                (blocks, limit),
                "{threads} threads, {shared} bytes, {registers:?} registers"
            );
        }
        assert_eq!(h100.occupancy(256, 0, Some(128)).fraction(), 0.25);
    }
}
