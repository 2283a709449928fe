//! Profiles of kernels whose counts are known by hand.

use moye_sim::intrinsics::*;
use moye_sim::profile::{BarrierWaits, Card, Class, InFlight, Profile, Profiler};
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
    // Some of these kernels have races, which do not change the counts.
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
fn bank_conflicts_are_the_wavefronts_beyond_what_the_bytes_need() {
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
    for part in [
        "kernel `k`: 1 launch, grid",
        "12.5%",
        "// a column of \"quotes\" & <tags>",
        "card: H100 (sm_90)",
        "by L1 sectors",
    ] {
        assert!(text.contains(part), "`{part}` is in:\n{text}");
    }
    for part in [
        "\"global_stores\":{\"requests\":8,\"lanes\":256,\"bytes\":1024,\"sectors\":256",
        "\"limit\":\"L1 sectors\"",
    ] {
        assert!(json.contains(part), "`{part}` is in:\n{json}");
    }
    for part in [
        "&amp; &lt;tags&gt;",
        "<tr class=\"bad\">",
        "12.5%",
        "<th>occupancy</th>",
        "<th>roofline</th>",
        "by L1 sectors",
    ] {
        assert!(html.contains(part), "`{part}` is in:\n{html}");
    }
}

#[test]
fn barrier_waits_are_counted_by_kind_at_their_lines() {
    let profile = profile_of(2, 64, &|_| {
        sync_threads(); // whole block
        barrier_sync(1 + thread_idx().x / 32, 32); // each warp
        if thread_idx().x == 0 {
            mbarrier_init(shared_base(), 64); // one thread
        }
        sync_threads(); // whole block
        mbarrier_arrive(shared_base()); // arrival
        mbarrier_wait_parity(shared_base(), 0); // phase
        cluster_arrive();
        cluster_wait(); // cluster
    });
    let of = |text: &str| profile.line(text).barrier_waits();
    assert_eq!(of("// whole block"), BarrierWaits { block: 8, ..BarrierWaits::default() });
    assert_eq!(of("// each warp"), BarrierWaits { named: 4, ..BarrierWaits::default() });
    assert_eq!(of("// arrival").total(), 0, "an arrival waits for nothing");
    assert_eq!(of("// phase"), BarrierWaits { mbarrier: 4, ..BarrierWaits::default() });
    assert_eq!(of("// cluster"), BarrierWaits { cluster: 4, ..BarrierWaits::default() });
    let total = profile.kernel("k").unwrap().total();
    assert_eq!(total.barrier_waits(), BarrierWaits { block: 8, named: 4, mbarrier: 4, cluster: 4 });
    assert_eq!(total.of_class(Class::Barrier), 20 + 4 + 4 + 2, "arrivals and the initialisation besides");
    let init = profile.line("// one thread");
    assert_eq!((init.count("mbarrier.init"), init.divergent), (2, 2), "31 lanes took no part");
}

#[test]
fn copies_in_flight_are_those_of_all_threads_at_the_nth_wait() {
    const STEPS: u32 = 6;
    let profile = profile_of(3, 64, &|a| {
        let t = thread_idx().x;
        let copy = |step: u32| {
            if step < STEPS {
                cp_async(shared_base() + 1024 * (step % 4) + 16 * t, a + u64::from(16 * t), 16, 16);
            }
            cp_async_commit();
        };
        (0..3).for_each(copy);
        for step in 0..STEPS {
            cp_async_wait_group(2); // oldest stage
            sync_threads();
            copy(step + 3);
        }
    });
    let flight = profile.line("// oldest stage").in_flight;
    // Three stages are outstanding at the first four waits, two and one at the last two.
    let stage = 64 * 16;
    assert_eq!((flight.max_bytes, flight.max_groups), (3 * stage, 3));
    assert_eq!(flight, InFlight { waits: 18, bytes: 3 * 15 * stage, groups: 3 * 15, ..flight });
    assert_eq!(flight.mean_bytes(), 2.5 * stage as f64);
    assert_eq!(profile.kernel("k").unwrap().total().in_flight, flight, "no other line waits for copies");
}

#[test]
fn bulk_loads_in_flight_are_those_of_the_block_at_its_waits() {
    let profile = profile_of(1, 32, &|a| {
        let (barriers, bytes) = (shared_base() + 16384, 2048);
        if thread_idx().x == 0 {
            (0..4).for_each(|stage| mbarrier_init(barriers + 8 * stage, 1));
        }
        sync_threads();
        if thread_idx().x == 0 {
            for stage in 0..4 {
                mbarrier_arrive_expect_tx(barriers + 8 * stage, bytes);
                bulk_load(shared_base() + bytes * stage, a, bytes, barriers + 8 * stage, None); // load
            }
        }
        (0..4).for_each(|stage| mbarrier_wait_parity(barriers + 8 * stage, 0)); // arrival
        if thread_idx().x == 0 {
            fence_proxy_async();
            bulk_store(a, shared_base(), 4096);
            bulk_commit();
            bulk_wait_group(0); // written
        }
    });
    let flight = profile.line("// arrival").in_flight;
    let expected = InFlight { waits: 4, bytes: 10 * 2048, max_bytes: 4 * 2048, groups: 10, max_groups: 4 };
    assert_eq!(flight, expected);
    assert_eq!(profile.line("// load").bulk_bytes, 4 * 2048);
    let flight = profile.line("// written").in_flight;
    assert_eq!((flight.waits, flight.max_bytes, flight.max_groups), (1, 4096, 1));
    let total = profile.kernel("k").unwrap().total();
    assert_eq!((total.bulk_bytes, total.bulk_stored_bytes), (4 * 2048 + 4096, 4096));
}

#[test]
fn instructions_are_counted_by_class_also_if_they_are_plain_rust_on_the_simulator() {
    let profile = profile_of(1, 64, &|a| {
        let t = thread_idx().x;
        count_instruction("ex2.approx.ftz.f32"); // special
        count_instruction("cvt.rn.bf16x2.f32"); // conversion
        let _ = vote_all(u32::MAX, t > 3); // vote
        fence(); // fence
        reduce_update::<u32>(a, |old| old + 1); // sum
        let _: u32 = load_global_read_only(a + 8 + 4 * u64::from(t)); // read-only
    });
    for (text, class, name) in [
        ("// special", Class::Special, "ex2"),
        ("// conversion", Class::Convert, "cvt"),
        ("// vote", Class::Warp, "vote.sync.all"),
        ("// fence", Class::Fence, "fence.acq_rel.gpu"),
        ("// sum", Class::Atomic, "red.global"),
        ("// read-only", Class::GlobalLoad, "ld.global.b32"),
    ] {
        let counts = profile.line(text);
        assert_eq!((counts.of_class(class), counts.count(name)), (2, 2), "{text}");
        assert_eq!(counts.warp_instructions(), 2, "{text}");
    }
    let classes = profile.kernel("k").unwrap().total().classes();
    assert_eq!(classes.values().sum::<u64>(), 12);
    assert_eq!(classes.get(&Class::TensorCore), None);
}

#[test]
fn divergence_is_the_part_of_instructions_that_some_lanes_sit_out() {
    let profile = profile_of(1, 64, &|a| {
        let t = thread_idx().x;
        if t.is_multiple_of(2) {
            store_global(a + 4 * u64::from(t), t); // even lanes
        }
        if t < 32 {
            store_global(a + 4 * u64::from(t), t + 1); // one warp
        }
    });
    let even = profile.line("// even lanes");
    assert_eq!((even.divergent, even.divergence(), even.active()), (2, 1.0, 0.5));
    let warp = profile.line("// one warp");
    assert_eq!((warp.divergent, warp.divergence(), warp.active()), (0, 0.0, 1.0));
    assert_eq!(profile.kernel("k").unwrap().total().divergence(), 2.0 / 3.0);
}

#[test]
fn sectors_of_a_large_launch_are_counted_by_a_sample_and_the_profile_says_so() {
    let (memory, profiler) = (GlobalMemory::new(), Profiler::new().keeping_sectors(256));
    let a = memory.alloc(1 << 22, "a").unwrap();
    let address = a.address();
    let kernel = || {
        let i = u64::from(block_idx().x * 128 + thread_idx().x);
        store_global(address + 32 * i, 0_u32);
    };
    Launch::new("k", 1024, 128, &memory).profiler(&profiler).run(&kernel).unwrap();
    let profile = profiler.take();
    let kernel = profile.kernel("k").unwrap();
    assert!(kernel.sector_sample >= 512, "one of {}", kernel.sector_sample);
    let error = kernel.sectors_written as f64 / (1024.0 * 128.0) - 1.0;
    assert!(error.abs() < 0.25, "{} sectors of 131072", kernel.sectors_written);
    assert_eq!(kernel.total().global_stores.sectors, 1024 * 128, "sectors of requests are always exact");
    let said = format!("by a sample of one in {}", kernel.sector_sample);
    assert!(profile.to_text(None).contains(&said) && profile.to_html(None).contains(&said));
    assert!(profile.to_json(None).contains(&format!("\"sector_sample\":{}", kernel.sector_sample)));
}

#[test]
fn registers_limit_the_blocks_that_fit_and_text_and_page_say_whether_they_are_known() {
    let mut profile = profile_of(1, 256, &|a| store_global(a + 4 * u64::from(thread_idx().x), 1_u32));
    let card = Card::named("H100").unwrap();
    let before = profile.kernel("k").unwrap().occupancy(&card);
    assert_eq!((before.blocks, before.limit), (6, "shared memory"));
    let text = profile.to_text(Some(&card));
    let bound = "occupancy: at most 75%, 48 of 64 warps: 6 blocks on an SM by shared memory (registers are not known)";
    assert!(text.contains(bound) && text.contains("plain arithmetic not counted"), "{text}");
    let unknown = "<p>Registers are not known: they may allow fewer blocks on an SM.</p>";
    let head = |page: &str| page.split("<table>").next().unwrap().contains(unknown);
    assert!(head(&profile.to_html(Some(&card))) && head(&profile.to_html(None)));
    profile.set_registers("k", 128);
    assert!(!head(&profile.to_html(Some(&card))) && !head(&profile.to_html(None)));
    let after = profile.kernel("k").unwrap().occupancy(&card);
    assert_eq!((after.blocks, after.limit, after.fraction()), (2, "registers", 0.25));
    assert!(
        profile
            .to_text(Some(&card))
            .contains("occupancy: 25%, 16 of 64 warps: 2 blocks on an SM by registers (128 registers")
    );
    assert!(profile.to_json(Some(&card)).contains("\"registers\":128"));
}

#[test]
fn the_roofline_of_each_card_names_the_unit_that_limits_the_kernel() {
    // Each of 1024 blocks reads 64 KiB once, and in one variant multiplies it by 256 MMAs.
    let run = |products: u64| {
        let (memory, profiler) = (GlobalMemory::new(), Profiler::new());
        let a = memory.alloc(1 << 24, "a").unwrap();
        a.fill(0, 1 << 24, 0).unwrap();
        let address = a.address();
        let kernel = || {
            let i = u64::from(block_idx().x * 32 + thread_idx().x);
            for at in 0..16 {
                let _: [u32; 4] = load_global(address + 16 * (i + 8192 * at));
            }
            (0..products)
                .for_each(|_| count_instruction("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"));
        };
        Launch::new("k", 256, 32, &memory).profiler(&profiler).run(&kernel).unwrap();
        profiler.take()
    };
    let (reads, multiplies) = (run(0), run(2000));
    for name in ["H100", "H200", "A100", "RTX 4090"] {
        let card = Card::named(name).unwrap();
        let limit = |profile: &Profile| card.roofline(profile.kernel("k").unwrap()).limit();
        assert_eq!(limit(&reads), "memory", "{name}");
        assert_eq!(limit(&multiplies), "tensor cores", "{name}");
    }
    // 2 MiB at 3352 GB/s.
    let h100 = Card::named("H100").unwrap().roofline(reads.kernel("k").unwrap());
    assert!((h100.seconds() / (2097152.0 / 3352e9) - 1.0).abs() < 1e-9, "{} s", h100.seconds());
}

#[test]
fn every_figure_is_in_the_text_the_json_and_the_page() {
    let mut profile = profile_of(1, 64, &|a| {
        let t = thread_idx().x;
        cp_async(shared_base() + 16 * t, a + u64::from(16 * t), 16, 16);
        cp_async_wait_all(); // wait
        sync_threads(); // barrier
        let _ = shfl(ShuffleMode::Xor, u32::MAX, t, 1, 32);
        count_instruction("rsqrt.approx.ftz.f32");
        count_instruction("cvt.rni.sat.s8.f32");
        fence();
        if t < 3 {
            atomic_add::<u32>(a, 1);
        }
    });
    profile.add_ptx(".entry k()\n{\n add.s32 %r1, %r2, %r3;\n mul.f64 %fd1, %fd2, %fd3;\n ret;\n}\n");
    let (text, json, html) = (profile.to_text(None), profile.to_json(None), profile.to_html(None));
    for column in [
        "divergent",
        "barrier waits",
        "bytes in flight",
        "groups in flight",
        "warp",
        "special",
        "conversions",
        "fences",
        "atomics",
    ] {
        assert!(text.contains(column), "`{column}` is in:\n{text}");
        assert!(html.contains(&format!("<th>{column}</th>")), "`{column}` is in:\n{html}");
    }
    for column in ["tensor core", "bulk bytes"] {
        assert!(!html.contains(&format!("<th>{column}</th>")), "nothing is in column {column}");
    }
    for part in ["1024.0 (most 1024)", "2 special function\n  2 rsqrt.approx.ftz.f32\n"] {
        assert!(text.contains(part), "`{part}` is in:\n{text}");
    }
    let from_ptx = "plain arithmetic, from the PTX, each instruction once: 1 integer, 0 f16, 0 f32, 1 f64,";
    assert!(text.contains(from_ptx) && html.contains(from_ptx), "{text}");
    for part in [
        "\"classes\":{\"asynchronous copy\":2,",
        "\"divergent\":1,\"divergence\":0.",
        "\"coalescing\":1,\"conflict_degree\":1,\"l2_bytes\":",
        "\"barrier_waits\":{\"block\":2,\"named\":0,\"mbarrier\":0,\"cluster\":0}",
        "\"in_flight\":{\"waits\":1,\"mean_bytes\":1024,\"max_bytes\":1024,\"mean_groups\":1,\"max_groups\":1}",
        "\"ptx\":{\"integer\":1,\"f16\":0,\"f32\":0,\"f64\":1,",
    ] {
        assert!(json.contains(part), "`{part}` is in:\n{json}");
    }
}

#[test]
fn memory_moves_what_a_launch_touches_once_and_the_l2_cache_what_it_requests() {
    // Each of 8 blocks loads the same 4 KiB by a bulk copy and writes its own 128 bytes; twice.
    let (memory, profiler) = (GlobalMemory::new(), Profiler::new());
    let a = filled(&memory);
    let address = a.address();
    let kernel = || {
        let (t, barrier) = (thread_idx().x, shared_base() + 8192);
        if t == 0 {
            mbarrier_init(barrier, 1);
            mbarrier_arrive_expect_tx(barrier, 4096);
            bulk_load(shared_base(), address, 4096, barrier, None);
        }
        sync_threads();
        mbarrier_wait_parity(barrier, 0);
        store_global(address + 8192 + 4 * u64::from(32 * block_idx().x + t), t);
    };
    for _ in 0..2 {
        Launch::new("k", 8, 32, &memory).shared_bytes(16384).profiler(&profiler).run(&kernel).unwrap();
    }
    let profile = profiler.take();
    let kernel = profile.kernel("k").unwrap();
    assert_eq!((kernel.launches, kernel.total().bulk_global_bytes), (2, 2 * 8 * 4096));
    assert_eq!((kernel.sectors_read, kernel.sectors_written), (2 * 128, 2 * 32), "of both launches");
    assert_eq!(kernel.memory_bytes(), 4096 + 8 * 128, "of one launch, each byte once");
    assert_eq!(kernel.l2_bytes(), 8 * 4096 + 8 * 128, "of one launch, each copy");
    let h100 = Card::named("H100").unwrap();
    let times = h100.roofline(kernel).times;
    let of_memory = times.iter().find(|(unit, _)| *unit == "memory").unwrap().1;
    assert!((of_memory / (5120.0 / 3352e9) - 1.0).abs() < 1e-9, "{of_memory} s");
    let line = "traffic: memory at least 5120 bytes a launch, L2 cache at most 33792 bytes";
    assert!(profile.to_text(Some(&h100)).contains(line), "{}", profile.to_text(Some(&h100)));
    assert!(profile.to_json(None).contains("\"memory_bytes\":5120,\"l2_bytes\":33792,"));
}

#[test]
fn a_card_that_lacks_an_instruction_of_the_kernel_is_said_not_to_run_it() {
    let profile = profile_of(1, 32, &|_| {
        count_instruction("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16");
    });
    let text = |name: &str| profile.to_text(Some(&Card::named(name).unwrap()));
    let page = |name: &str| profile.to_html(Some(&Card::named(name).unwrap()));
    for name in ["A100", "RTX 4090"] {
        let said = "no: `wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16` needs sm_90a";
        assert!(text(name).contains(&format!("runs: {said}")), "{}", text(name));
        assert!(page(name).contains(said) && !page(name).contains("roofline"), "{}", page(name));
        let json = profile.to_json(Some(&Card::named(name).unwrap()));
        assert!(json.contains("\"needs\":\"sm_90a\"") && !json.contains("\"seconds\""), "{json}");
    }
    assert!(text("H100").contains("roofline: at least"), "{}", text("H100"));
}

#[test]
fn a_type_without_a_rate_is_named_and_left_out_of_the_roofline() {
    let run = |instruction: &'static str| profile_of(1, 32, &|_| count_instruction(instruction));
    // An A100 has this instruction, but the file of cards has no rate for it.
    let bits = run("mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc");
    let a100 = Card::named("A100").unwrap();
    let roofline = a100.roofline(bits.kernel("k").unwrap());
    assert!(roofline.seconds().is_finite() && roofline.limit() != "tensor cores", "{roofline:?}");
    assert_eq!(roofline.no_rate.iter().collect::<Vec<_>>(), ["b1 to s32"]);
    let said = "left out: no rate known of its tensor cores for b1 to s32";
    assert!(bits.to_text(Some(&a100)).contains(said), "{}", bits.to_text(Some(&a100)));
    assert!(bits.to_html(Some(&a100)).contains("for b1 to s32"));
    assert!(bits.to_json(Some(&a100)).contains("\"no_rate\":[\"b1 to s32\"]"));
    // The rate depends on the operands: fp8 with accumulators of f16 is not f16.
    let time = |instruction, card| {
        let profile = run(instruction);
        let roofline = Card::named(card).unwrap().roofline(profile.kernel("k").unwrap());
        let of_cores = roofline.times.iter().find(|(unit, _)| *unit == "tensor cores");
        of_cores.unwrap_or_else(|| panic!("{instruction}: {roofline:?}")).1
    };
    let fp8 = time("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", "RTX 4090");
    let f16 = time("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", "RTX 4090");
    let f16_to_f32 = time("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", "RTX 4090");
    assert!((fp8 / f16 - 1.0).abs() < 1e-3, "twice the operations at twice the rate");
    assert!((f16_to_f32 / f16 - 2.0).abs() < 1e-3, "half the rate on a GeForce");
}

#[test]
fn a_page_has_the_sum_under_its_columns_lines_shaded_by_share_and_the_limit_in_the_head() {
    let data = GlobalMemory::new();
    let all = filled(&data);
    let from = all.address();
    let profiler = Profiler::new();
    let kernel = || {
        let t = u64::from(thread_idx().x);
        load_global::<u32>(from + 4 * t); // one row
        load_global::<u32>(from + 128 * t); // one column
    };
    Launch::new("k", 1, 32, &data).profiler(&profiler).run(&kernel).unwrap();
    let mut profile = profiler.take();
    let h100 = Card::named("H100").unwrap();
    let kernel = profile.kernel("k").unwrap();
    let limit = h100.roofline(kernel).limit();
    let page = profile.to_html(Some(&h100));
    assert!(page.contains("<h2>kernel `k`: 1 launch, grid"), "{page}");
    let head = page.split("<table").next().unwrap();
    assert!(head.contains(&format!("<p>Limited by <b>{limit}</b> on H100.</p>")), "{head}");
    // The figures are one table with equal rows; the last row is the sum.
    let table = page.split("<table>").nth(1).unwrap().split("</table>").next().unwrap();
    assert_eq!(page.matches("<table>").count(), 1, "{page}");
    let rows: Vec<_> =
        table.lines().filter(|row| row.starts_with("<tr") && !row.contains("colspan")).collect();
    let cells = |row: &str| row.matches("<td").count() + row.matches("<th").count();
    assert!(rows.iter().all(|row| cells(row) == cells(rows[0])), "{table}");
    assert!(rows.last().unwrap().contains("<td>all lines</td>"), "{table}");
    // 4 of 36 sectors, and 32.
    let share = |comment: &str| {
        let row = rows.iter().find(|row| row.contains(comment)).unwrap_or_else(|| panic!("{table}"));
        let (_, rest) = row.split_once(" title=\"").unwrap_or_else(|| panic!("not shaded: {row}"));
        rest.split_once('%').unwrap().0.parse::<u32>().unwrap()
    };
    assert_eq!((share("// one row"), share("// one column")), (11, 89), "of {limit}: {table}");
    // If the sources are not found, the given text is shown.
    let (file, _) = profile.kernels[0].lines.keys().next().unwrap().clone();
    profile.add_source(&file, &"    embedded();\n".repeat(1000));
    assert!(profile.to_html(None).contains("</span>    embedded();"), "{}", profile.to_html(None));
    assert!(profile.to_html(None).contains("shaded by its share of instruction issue"));
}
