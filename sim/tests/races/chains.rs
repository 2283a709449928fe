//! Chains of launches that overlap: which earlier launch a wait is for.

use super::word;
use moye_sim::intrinsics::*;
use moye_sim::{
    Access, Allocation, Fault, FaultKind, GlobalMemory, Launch, LaunchError, RaceThreads, Stream,
};

/// The start of a launch, before it accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    /// It does not overlap the previous launch.
    Apart,
    /// It overlaps, and neither waits nor allows the next launch.
    Nothing,
    /// It allows the next launch and does not wait.
    Allow,
    /// It waits and does not allow the next launch.
    Wait,
    AllowThenWait,
    WaitThenAllow,
    /// One thread of the grid waits, no other does.
    OneWaits,
    /// One thread of each block waits and allows the next launch; a barrier of the block follows.
    OneForAll,
}
use Begin::*;

struct Chain {
    memory: GlobalMemory,
    data: Allocation,
    stream: Stream,
}

impl Chain {
    /// A chain whose first launch, `a`, has written words 0 to 63.
    fn new() -> Self {
        let memory = GlobalMemory::new();
        let data = memory.alloc(4096, "data").unwrap();
        data.fill(0, 4096, 0).unwrap();
        let stream = memory.new_stream();
        let chain = Self { memory, data, stream };
        let address = chain.data.address();
        chain.run("a", Apart, |t| store_global(word(address, t), t)).unwrap();
        chain
    }

    /// Runs a launch of two blocks of 32 threads: `act` with the thread's index in the grid.
    fn run(&self, name: &str, begin: Begin, act: impl Fn(u32) + Sync) -> Result<(), Fault> {
        let launch = Launch::new(name, 2, 32, &self.memory).races(true).stream(&self.stream);
        let ran = launch.overlapping(begin != Apart).run(&|| {
            let (block, thread) = (block_idx().x, thread_idx().x);
            match begin {
                Apart | Nothing => {}
                Allow => launch_dependents(),
                Wait => wait_for_prior_launch(),
                AllowThenWait => {
                    launch_dependents();
                    wait_for_prior_launch();
                }
                WaitThenAllow => {
                    wait_for_prior_launch();
                    launch_dependents();
                }
                OneWaits => {
                    if (block, thread) == (1, 7) {
                        wait_for_prior_launch();
                    }
                }
                OneForAll => {
                    if thread == 5 {
                        wait_for_prior_launch();
                        launch_dependents();
                    }
                    sync_threads();
                }
            }
            act(32 * block + thread);
        });
        match ran {
            Ok(_) => Ok(()),
            Err(LaunchError::Fault(fault)) => Err(*fault),
            Err(other) => panic!("{other}"),
        }
    }

    /// Runs a launch that reads what `a` has written, and returns the launch that it races with.
    fn reads_a(&self, begin: Begin) -> Option<(String, RaceThreads)> {
        let address = self.data.address();
        let fault = self.run("reader", begin, |t| _ = load_global::<u32>(word(address, 63 - t))).err()?;
        let FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
        assert_eq!((race.access, race.other.access), (Access::Read, Access::Write), "{fault}");
        Some((race.other.kernel.clone().unwrap(), race.threads))
    }
}

#[test]
fn a_wait_reaches_the_launch_before_the_last_only_if_the_last_has_waited() {
    for (between, last, expected) in [
        // The last waits for the one between, which waited for the first.
        (AllowThenWait, Wait, None),
        (WaitThenAllow, Wait, None),
        (Wait, Wait, None),
        (OneWaits, Wait, None),
        (OneForAll, OneForAll, None),
        (Apart, Nothing, None),
        (Nothing, Apart, None),
        (Allow, Apart, None),
        // The one between has not waited: it may end before the first.
        (Nothing, Wait, Some(RaceThreads::Chain)),
        (Allow, WaitThenAllow, Some(RaceThreads::Chain)),
        (Allow, Nothing, Some(RaceThreads::Chain)),
        // The last does not wait. It begins before the first has ended if the one between allows it
        // before its own wait.
        (AllowThenWait, Nothing, Some(RaceThreads::Launches)),
        (WaitThenAllow, Nothing, None),
        (OneForAll, Nothing, None),
        (Wait, Allow, None),
        (OneWaits, Nothing, None),
    ] {
        let chain = Chain::new();
        chain.run("between", between, |_| ()).unwrap();
        let found = chain.reads_a(last);
        let expected = expected.map(|threads| ("a".to_owned(), threads));
        assert_eq!(found, expected, "the launch between does {between:?}, the last {last:?}");
    }
}

#[test]
fn a_launch_that_does_not_wait_races_with_the_one_before_also_if_that_one_waited() {
    for last in [Nothing, Allow, Wait] {
        let chain = Chain::new();
        let address = chain.data.address();
        chain.run("b", WaitThenAllow, |t| store_global(word(address, 512 + t), t)).unwrap();
        let read = |t| _ = load_global::<u32>(word(address, 512 + t));
        let ran = chain.run("c", last, read);
        assert_eq!(ran.is_ok(), last == Wait, "{last:?}");
        if let Err(fault) = ran {
            let told = fault.to_string();
            assert!(told.contains("of kernel `b`") && told.contains("`wait_for_prior_kernels`"), "{told}");
        }
    }
}

#[test]
fn in_a_chain_of_four_each_launch_that_has_not_waited_leaves_those_before_it_running() {
    for (second, third, last, expected) in [
        (AllowThenWait, AllowThenWait, Wait, None),
        (AllowThenWait, AllowThenWait, Nothing, Some(RaceThreads::Launches)),
        (AllowThenWait, WaitThenAllow, Nothing, None),
        (Allow, AllowThenWait, Wait, Some(RaceThreads::Chain)),
        (AllowThenWait, Allow, Wait, Some(RaceThreads::Chain)),
        (WaitThenAllow, Allow, Wait, None),
        (Allow, Allow, Wait, Some(RaceThreads::Chain)),
        (Allow, Apart, Nothing, None),
    ] {
        let chain = Chain::new();
        chain.run("b", second, |_| ()).unwrap();
        chain.run("c", third, |_| ()).unwrap();
        let found = chain.reads_a(last);
        let expected = expected.map(|threads| ("a".to_owned(), threads));
        assert_eq!(found, expected, "{second:?}, {third:?}, {last:?}");
    }
}

#[test]
fn a_write_over_what_the_first_launch_of_a_chain_reads_is_a_race_with_the_way_out() {
    let chain = Chain::new();
    let address = chain.data.address();
    chain.run("reads", AllowThenWait, |t| _ = load_global::<u32>(word(address, 512 + t))).unwrap();
    chain.run("forgets", Allow, |_| ()).unwrap();
    let line = line!() + 1;
    let write = |t| store_global(word(address, 512 + t), 1_u32);
    let fault = chain.run("writes", Wait, write).unwrap_err();
    let told = fault.to_string();
    let place = format!("{}:{line}", file!());
    for part in ["kernel `writes`, block (", "of kernel `reads`", &place, "in each kernel of the chain"] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_wait_of_the_host_ends_the_launches_before_it() {
    let chain = Chain::new();
    let event = chain.stream.record();
    chain.run("b", Allow, |_| ()).unwrap();
    event.synchronize();
    assert_eq!(chain.reads_a(Wait), None, "the host has waited for the first launch");
    let chain = Chain::new();
    chain.run("b", Allow, |_| ()).unwrap();
    chain.stream.synchronize();
    assert_eq!(chain.reads_a(Nothing), None, "the host has waited for both launches");
}
