//! The simulator names the fault of each kernel in every order, with both threads, both lines and
//! the way out, and reports no kernel that has none.

use moye_device::memory::GlobalMut;
use moye_kernels_races::{BLOCKS, Raced, WORDS, all};
use moye_sim::Access::{self, Atomic, BulkDestination, CpAsyncDestination, Read, Write};
use moye_sim::RaceThreads::{self, Block, Cluster, Grid, Warp};
use moye_sim::{Dim3, Fault, FaultKind, GlobalMemory, Launch, LaunchError};

/// The fault that a kernel is to have.
enum Told {
    /// A race of such threads, by these two kinds of access in any order, and a part of the
    /// way out.
    Race(RaceThreads, [Access; 2], &'static str),
    /// Another fault, and a part of its text.
    Fault(fn(&FaultKind) -> bool, &'static str),
}

const BARRIER: &str = "`sync_threads`";
const WARP: &str = "`sync_warp`";
const FENCE: &str = "`fence_gpu`";

macro_rules! fault {
    ($kind:ident, $part:literal) => {
        Told::Fault(|kind| matches!(kind, FaultKind::$kind { .. }), $part)
    };
}

fn told(name: &str) -> Told {
    use Told::Race;
    match name {
        "two_warps_write_one_word" | "cleared_by_other_threads" => Race(Block, [Write, Write], BARRIER),
        "histogram_without_atomics" => Race(Block, [Read, Write], BARRIER),
        "atomic_and_plain_read" => Race(Block, [Atomic, Read], "atomic"),
        "full_not_awaited" => Race(Block, [Write, Read], "mbarrier"),
        "tile_never_filled" => fault!(SharedUnwritten, "no thread of the block has written"),
        "barrier_of_half_a_block" => fault!(BarrierIncomplete, "32 of 64 threads arrived"),
        "shuffle_is_no_barrier"
        | "vote_is_no_barrier"
        | "ldmatrix_without_barrier"
        | "reduction_is_no_barrier"
        | "list_read_back_behind_a_sum"
        | "accumulators_read_in_rows"
        | "levels_of_a_tree" => Race(Warp, [Write, Read], WARP),
        "counter_reset_before_a_vote" => Race(Warp, [Write, Atomic], "atomic"),
        "row_behind_the_end" => fault!(GlobalOutOfBounds, "byte"),
        "blocks_write_one_word" | "tiles_overlap" => Race(Grid, [Write, Write], FENCE),
        "flag_without_fences" | "fences_of_the_block" | "count_without_barrier" | "stencil_in_place" => {
            Race(Grid, [Write, Read], FENCE)
        }
        "atomic_of_the_block" => Race(Grid, [Atomic, Atomic], "use GPU scope"),
        "counter_reset_too_early" => Race(Grid, [Atomic, Write], "make both accesses atomic"),
        "counter_read_plainly" => Race(Grid, [Atomic, Read], "make both accesses atomic"),
        "copied_tile_without_barrier" => Race(Block, [CpAsyncDestination, Read], "cp_async_wait"),
        "stage_copied_over" => Race(Block, [CpAsyncDestination, Read], "cp_async_wait"),
        "one_group_too_few" => fault!(SharedInFlight, "has not waited for it"),
        "bulk_copy_not_awaited" => Told::Fault(
            |kind| matches!(kind, FaultKind::SharedInFlight { .. } | FaultKind::SharedNotAwaited { .. }),
            "waited",
        ),
        // Whichever comes second: the copy, or the read of the other warp, before the bytes arrive
        // or behind that.
        "bulk_copy_over_what_is_read" => Told::Fault(
            |kind| match kind {
                FaultKind::Race(race) => race.threads == Block && race.remedy().contains("mbarrier"),
                kind => matches!(kind, FaultKind::SharedInFlight { .. } | FaultKind::SharedNotAwaited { .. }),
            },
            "bulk copy",
        ),
        "bulk_store_without_fence" => fault!(SharedUnfenced, "no fence.proxy.async since"),
        "bulk_source_overwritten" => fault!(SharedBeingRead, "cp.async.bulk"),
        "bulk_store_read_back_too_early" => Race(Block, [BulkDestination, Read], "bulk_wait_group"),
        "bulk_copy_of_a_result" => fault!(GlobalUnfenced, "`fence_proxy_async_global`"),
        "bulk_store_left_behind" => fault!(BulkCopiesLeft, "cp.async.bulk.wait_group.read 0"),
        "peer_read_without_barrier" | "peer_written_while_read" | "relaxed_arrival" => {
            Race(Cluster, [Write, Read], "`sync_cluster`")
        }
        "blocks_write_one_shared_word" => Race(Cluster, [Write, Write], "`sync_cluster`"),
        "operands_without_fence" => fault!(SharedUnfenced, "no fence.proxy.async since"),
        "operand_refilled_too_early" => fault!(SharedBeingRead, "wgmma"),
        "registers_without_fence" => fault!(InvalidOperand, "wgmma.fence"),
        _ => Race(Block, [Write, Read], BARRIER),
    }
}

/// The files of kernels, with their texts.
const SOURCES: [(&str, &str); 6] = [
    ("block.rs", include_str!("../block.rs")),
    ("warp.rs", include_str!("../warp.rs")),
    ("grid.rs", include_str!("../grid.rs")),
    ("copies.rs", include_str!("../copies.rs")),
    ("cluster.rs", include_str!("../cluster.rs")),
    ("product.rs", include_str!("../product.rs")),
];

/// The file and the lines that a kernel's fault is to name.
fn lines(name: &str) -> (&'static str, Vec<u32>) {
    let (kernel, mark) = (format!("    {name}("), format!("// {name}"));
    let (file, text) =
        SOURCES.iter().find(|(_, text)| text.contains(&kernel)).expect("a file has the kernel");
    let lines = text.lines().zip(1..).filter(|(line, _)| line.ends_with(&mark));
    (file, lines.map(|(_, number)| number).collect())
}

fn run(Raced { kernel, threads, cluster }: Raced, right: bool, order: Option<u64>) -> Option<Fault> {
    let memory = GlobalMemory::new();
    let data = memory.upload(&vec![0_u32; WORDS], "data").unwrap();
    let parameters = (GlobalMut::from_address(data.address()), right);
    let launch = Launch::new(kernel.name(), BLOCKS, threads, &memory);
    let launch = launch.races(true).cluster(cluster).shared_bytes(kernel.shared_bytes());
    let launch = if let Some(seed) = order { launch.order(seed) } else { launch };
    // SAFETY: the buffer and the grid are what the kernels expect; what a faulty one does is
    // a fault.
    match launch.run(&|| unsafe { kernel.call(parameters) }) {
        Ok(_) => None,
        Err(LaunchError::Fault(fault)) => Some(*fault),
        Err(other) => panic!("{other}"),
    }
}

/// Whether two accesses are of these kinds, in any order.
fn are(kinds: [Access; 2], both: [Access; 2]) -> bool {
    both == kinds || both == [kinds[1], kinds[0]]
}

/// Checks all that a fault says.
fn check(raced: Raced, fault: &Fault, order: Option<u64>) {
    let name = raced.kernel.name();
    let said = format!("{name} in order {order:?}: {fault}");
    let is_thread = |thread: Dim3| thread.x < raced.threads && (thread.y, thread.z) == (0, 0);
    let is_block = |block: Dim3| block.x < BLOCKS && (block.y, block.z) == (0, 0);
    assert_eq!(fault.kernel, name);
    assert!(is_block(fault.block) && is_thread(fault.thread), "{said}");
    let (file, lines) = lines(name);
    let is_marked = |location: &std::panic::Location<'_>| {
        location.file().ends_with(&format!("kernels-races/{file}")) && lines.contains(&location.line())
    };
    match (told(name), &fault.kind) {
        (Told::Race(threads, accesses, remedy), FaultKind::Race(race)) => {
            assert_eq!(race.threads, threads, "{said}");
            let both = [race.access, race.other.access];
            assert!(are(accesses, both), "{both:?} of {said}");
            assert!(
                is_marked(fault.location.unwrap()) && is_marked(race.other.location),
                "{lines:?}: {said}"
            );
            let others_block = race.other.block.unwrap_or(fault.block);
            assert!(is_thread(race.other.thread) && is_block(others_block), "{said}");
            assert!((fault.block, fault.thread) != (others_block, race.other.thread), "two threads: {said}");
            assert!(race.remedy().contains(remedy), "{said}");
        }
        (Told::Fault(is_it, part), kind) => {
            assert!(is_it(kind) && said.contains(part), "{said}");
            // A return belongs to no line.
            assert!(fault.location.map_or(lines.is_empty(), is_marked), "{lines:?}: {said}");
        }
        _ => panic!("{said}"),
    }
}

#[test]
fn each_fault_is_named_in_eleven_orders_and_no_right_kernel_is() {
    let mut wrong = Vec::new();
    for raced in all() {
        let checks = || each_order(raced);
        wrong.extend(std::panic::catch_unwind(checks).err().map(|_| raced.kernel.name()));
    }
    assert!(wrong.is_empty(), "{wrong:?}: see above");
}

fn each_order(raced: Raced) {
    for order in [None].into_iter().chain((1..=10).map(Some)) {
        if let Some(fault) = run(raced, true, order) {
            panic!("{} is right, in order {order:?}: {fault}", raced.kernel.name());
        }
        let Some(fault) = run(raced, false, order) else {
            panic!("{} has no fault in order {order:?}", raced.kernel.name());
        };
        check(raced, &fault, order);
    }
}

#[test]
fn a_race_of_other_accesses_than_the_expected_is_refused() {
    assert!(are([Write, Read], [Write, Read]) && are([Write, Read], [Read, Write]));
    for both in [[Write, Write], [Read, Read], [Atomic, Read], [Write, Atomic]] {
        assert!(!are([Write, Read], both), "{both:?} is not a write and a read");
    }
    // Nor is the fault of a kernel taken for that of another.
    let find = |name| all().find(|raced| raced.kernel.name() == name).unwrap();
    let fault = run(find("two_warps_write_one_word"), false, None).unwrap();
    let taken = std::panic::catch_unwind(|| check(find("reversal"), &fault, None));
    assert!(taken.is_err());
}

#[test]
fn there_are_fifty_faulty_kernels() {
    let mut names: Vec<_> = all().map(|raced| raced.kernel.name()).collect();
    assert!(names.len() >= 50, "{}", names.len());
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "each has a name of its own");
}
