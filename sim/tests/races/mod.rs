//! Kernels with one fault each, detected in every order of the run, and the same kernels without
//! it.
//!
//! A kernel receives whether it is `right`: then it does what its faulty twin omits. The lines that
//! a fault must name end with the name of the case as a comment.

mod asynchronous;
mod chains;
mod global;
mod others;
mod shared;
mod streams;
mod warp;

use moye_sim::{Access, Dim3, Fault, FaultKind, GlobalMemory, Launch, LaunchError, RaceThreads};

/// The words of global memory of a kernel, all 0.
pub const WORDS: usize = 4096;

/// The expected report of a faulty kernel.
#[derive(Clone, Copy)]
pub enum Told {
    /// A race of such threads, by these two kinds of access in either order.
    Race(RaceThreads, [Access; 2]),
    /// Another fault, at a line of the case.
    Fault(fn(&FaultKind) -> bool),
}

/// A kernel, its launch, and its fault.
pub struct Case {
    name: &'static str,
    kernel: fn(bool, u64),
    told: Told,
    blocks: u32,
    threads: u32,
    cluster: u32,
    shared: usize,
    accesses: u64,
}

impl Case {
    pub const fn new(name: &'static str, kernel: fn(bool, u64), told: Told) -> Self {
        Self { name, kernel, told, blocks: 1, threads: 64, cluster: 1, shared: 8192, accesses: 1 << 22 }
    }

    /// A race of such threads.
    pub const fn race(
        name: &'static str,
        kernel: fn(bool, u64),
        threads: RaceThreads,
        accesses: [Access; 2],
    ) -> Self {
        Self::new(name, kernel, Told::Race(threads, accesses))
    }

    pub const fn blocks(self, blocks: u32) -> Self {
        Self { blocks, ..self }
    }

    pub const fn threads(self, threads: u32) -> Self {
        Self { threads, ..self }
    }

    pub const fn cluster(self, cluster: u32) -> Self {
        Self { cluster, blocks: cluster, ..self }
    }

    fn run(&self, right: bool, order: Option<u64>) -> Result<(), Fault> {
        let memory = GlobalMemory::new();
        let data = memory.alloc(4 * WORDS, "data").unwrap();
        data.fill(0, 4 * WORDS, 0).unwrap();
        let address = data.address();
        let kernel = || (self.kernel)(right, address);
        let launch = Launch::new(self.name, self.blocks, self.threads, &memory)
            .cluster(self.cluster)
            .shared_bytes(self.shared)
            .access_budget(self.accesses);
        let launch = if let Some(seed) = order { launch.order(seed) } else { launch };
        match launch.races(true).run(&kernel) {
            Ok(_) => Ok(()),
            Err(LaunchError::Fault(fault)) => Err(*fault),
            Err(other) => panic!("{other}"),
        }
    }

    /// The lines of a source file that belong to the case.
    fn lines(&self, source: &str) -> Vec<u32> {
        let mark = format!("// {}", self.name);
        let lines = source.lines().zip(1..).filter(|(line, _)| line.ends_with(&mark));
        lines.map(|(_, number)| number).collect()
    }

    /// Runs the kernel with its fault and without, each in eleven orders.
    fn check(&self, source: &str) {
        let lines = self.lines(source);
        for order in [None].into_iter().chain((1..=10).map(Some)) {
            if let Err(fault) = self.run(true, order) {
                panic!("{} is right, in order {order:?}: {fault}", self.name);
            }
            let Err(fault) = self.run(false, order) else {
                panic!("{} has no fault in order {order:?}", self.name);
            };
            let told = format!("{} in order {order:?}: {fault}", self.name);
            let line = fault.location.map(|location| location.line());
            assert_eq!(fault.kernel, self.name);
            let exists = |block: Dim3, thread: Dim3| block.x < self.blocks && thread.x < self.threads;
            assert!(exists(fault.block, fault.thread), "{told}");
            match (self.told, &fault.kind) {
                (Told::Race(threads, accesses), FaultKind::Race(race)) => {
                    assert_eq!(race.threads, threads, "{told}");
                    let other = (race.other.block.unwrap_or(fault.block), race.other.thread);
                    assert!(exists(other.0, other.1) && other != (fault.block, fault.thread), "{told}");
                    assert!(told.ends_with(race.remedy()), "{told}");
                    let both = [race.access, race.other.access];
                    assert!(both == accesses || both == [accesses[1], accesses[0]], "{both:?} of {told}");
                    let mut named = vec![line.unwrap(), race.other.location.line()];
                    named.sort_unstable();
                    named.dedup();
                    assert_eq!(named, lines, "{told}");
                }
                (Told::Fault(is_it), kind) => {
                    assert!(is_it(kind), "{told}");
                    assert!(lines.contains(&line.unwrap()), "{lines:?} of {told}");
                }
                _ => panic!("{told}"),
            }
        }
    }
}

/// Checks all cases of a file.
pub fn check_all(cases: &[Case], source: &str) {
    for case in cases {
        case.check(source);
    }
}

/// The address of a word of the data.
pub fn word(data: u64, at: u32) -> u64 {
    data + 4 * u64::from(at)
}

/// `tests/fixtures/kernels-races` has further kernels, which `compute-sanitizer` runs too.
#[test]
fn there_are_sixty_faulty_kernels_and_as_many_right_ones() {
    let cases = [asynchronous::CASES, global::CASES, others::CASES, shared::CASES, warp::CASES];
    let mut names: Vec<_> = cases.iter().flat_map(|cases| cases.iter().map(|case| case.name)).collect();
    let count = names.len();
    assert!(count >= 60, "{count}");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each has a separate name");
}
