//! The profile of kernels whose counts are known by hand.

use moye_sim::intrinsics::*;
use moye_sim::profile::{Card, Profile, Profiler};
use moye_sim::{Allocation, GlobalMemory, Launch};

const BYTES: usize = 1 << 16;

fn filled(memory: &GlobalMemory) -> Allocation {
    let allocation = memory.alloc(BYTES, "a").unwrap();
    allocation.fill(0, BYTES, 0).unwrap();
    allocation
}

fn profile_of(grid: u32, block: u32, kernel: &(dyn Fn(u64) + Sync)) -> Profile {
    let (memory, profiler) = (GlobalMemory::new(), Profiler::new());
    let a = filled(&memory);
    let address = a.address();
    // Some of these kernels have races, which do not change what is counted.
    let launch = Launch::new("k", grid, block, &memory).shared_bytes(32768).races(false).profiler(&profiler);
    launch.run(&|| kernel(address)).unwrap();
    profiler.take()
}

#[test]
fn a_line_is_found_by_the_text_on_it_and_has_the_sectors_of_its_accesses() {
    let profile = profile_of(2, 64, &|a| {
        let t = u64::from(thread_idx().x);
        let near: u32 = load_global(a + 4 * t); // neighbours
        let far: u32 = load_global(a + 128 * t); // a column
        store_global(a + 16 * t, [near, far, 0, 0]); // quadruples
    });
    let near = profile.line("// neighbours");
    assert_eq!((near.global_loads.requests, near.global_loads.sectors, near.coalescing()), (4, 16, 1.0));
    let far = profile.line("// a column");
    assert_eq!((far.global_loads.requests, far.global_loads.sectors, far.coalescing()), (4, 128, 0.125));
    let stores = profile.line("// quadruples");
    assert_eq!((stores.global_stores.sectors, stores.count("st.global.b128")), (64, 4));
    assert!(profile.find_line("// no such line").is_none());
    let kernel = profile.kernel("k").unwrap();
    assert_eq!(
        (kernel.launches, kernel.sectors_read),
        (1, 8 + 62),
        "each sector that two lines read counts once"
    );
}

#[test]
fn bank_conflicts_are_the_wavefronts_above_those_that_the_bytes_need() {
    let profile = profile_of(1, 32, &|_| {
        let (t, shared) = (thread_idx().x, shared_base());
        store_shared::<u32>(shared + 4 * t, t); // row
        store_shared::<u32>(shared + 128 * t, t); // column
        store_shared::<u32>(shared + 132 * t, t); // padded column
        let _: u32 = load_shared(shared); // broadcast
    });
    let found = |text: &str| {
        let shared = profile.line(text).shared();
        (shared.requests, shared.wavefronts, shared.conflicts())
    };
    assert_eq!(found("// row"), (1, 1, 0));
    assert_eq!(found("// column"), (1, 32, 31));
    assert_eq!(found("// padded column"), (1, 1, 0));
    assert_eq!(found("// broadcast"), (1, 1, 0));
    assert_eq!(profile.line("// column").conflict_degree(), 32.0);
}

#[test]
fn ldmatrix_is_one_instruction_with_a_wavefront_for_each_matrix_that_has_no_conflict() {
    for (pitch, wavefronts) in [(16, 4), (128, 32), (144, 4)] {
        let profile = profile_of(1, 32, &|_| {
            let (t, shared) = (thread_idx().x, shared_base());
            for word in 0..4 {
                store_shared::<u32>(shared + pitch * t + 4 * word, 0);
            }
            sync_warp(u32::MAX);
            let _: [u32; 4] = ldmatrix(false, shared + pitch * t); // matrices
        });
        let counts = profile.line("// matrices");
        assert_eq!((counts.count("ldmatrix"), counts.count("ld.shared")), (1, 0), "rows of {pitch} bytes");
        assert_eq!(counts.shared_loads.wavefronts, wavefronts, "rows of {pitch} bytes");
    }
}

#[test]
fn lanes_that_take_no_part_lower_the_active_part_and_not_the_number_of_requests() {
    let profile = profile_of(1, 48, &|a| {
        let t = u64::from(thread_idx().x);
        for pass in 0..=t % 4 {
            let _: u32 = load_global(a + 4 * t + 256 * pass); // divergent
        }
        sync_threads(); // barrier
    });
    let divergent = profile.line("// divergent");
    assert_eq!(
        divergent.count("ld.global.b32"),
        2 * 4,
        "as many as the longest lane of each warp has passes"
    );
    assert_eq!(divergent.lanes, 48 / 4 * (1 + 2 + 3 + 4));
    assert!((divergent.active() - 120.0 / 192.0).abs() < 1e-9, "{}", divergent.active());
    let barrier = profile.line("// barrier");
    assert_eq!((barrier.count("bar.sync"), barrier.active()), (2, 1.0), "the block has no more lanes");
}

#[test]
fn asynchronous_copies_and_atomics_are_counted_apart() {
    let profile = profile_of(1, 32, &|a| {
        let (t, shared) = (thread_idx().x, shared_base());
        cp_async(shared + 16 * t, a + 16 * u64::from(t), 16, 16); // copy
        cp_async_wait_all();
        atomic_add::<u32>(a, 1); // counter
        let _ = shfl(ShuffleMode::Xor, u32::MAX, t, 1, 32); // shuffle
    });
    let copy = profile.line("// copy");
    assert_eq!((copy.count("cp.async"), copy.warp_instructions()), (1, 1));
    assert_eq!((copy.async_loads.sectors, copy.async_stores.wavefronts), (16, 4));
    let counter = profile.line("// counter");
    assert_eq!((counter.global_atomics.requests, counter.global_atomics.sectors), (1, 1));
    assert_eq!(profile.line("// shuffle").count("shfl.sync.bfly"), 1);
}

#[test]
fn without_a_profiler_a_launch_leaves_none() {
    let (memory, profiler) = (GlobalMemory::new(), Profiler::new());
    let a = filled(&memory);
    let address = a.address();
    Launch::new("k", 1, 32, &memory).run(&|| store_global::<u32>(address, 0)).unwrap();
    assert!(profiler.take().kernels.is_empty());
}

#[test]
fn text_json_and_html_hold_the_lines_with_their_figures_and_what_limits_the_kernel() {
    let profile = profile_of(4, 64, &|a| {
        store_global(a + 128 * u64::from(thread_idx().x), 1_u32); // a column of "quotes" & <tags>
    });
    let card = Card::named("H100").unwrap();
    let (text, json, html) =
        (profile.to_text(Some(&card)), profile.to_json(Some(&card)), profile.to_html(Some(&card)));
    for part in
        ["kernel `k`: 1 launches", "12.5%", "// a column of \"quotes\" & <tags>", "on H100:", "by L1 sectors"]
    {
        assert!(text.contains(part), "`{part}` is in:\n{text}");
    }
    for part in [
        "\"global_stores\":{\"requests\":8,\"lanes\":256,\"bytes\":1024,\"sectors\":256",
        "\"limit\":\"L1 sectors\"",
    ] {
        assert!(json.contains(part), "`{part}` is in:\n{json}");
    }
    for part in ["&amp; &lt;tags&gt;", "<tr class=\"bad\">", "12.5%"] {
        assert!(html.contains(part), "`{part}` is in:\n{html}");
    }
}
