//! Bulk copies and tensor copies: what they move over an edge, when they arrive, and what is not
//! allowed meanwhile. `tests/device/hopper` tests the other copies.

use crate::common::{Words, fault};
use moye_sim::intrinsics::*;
use moye_sim::{
    Access, Allocation, FaultKind, GlobalMemory, Launch, TensorElement, TensorMap, TensorSwizzle,
};

/// A tensor map in global memory.
fn upload(memory: &GlobalMemory, map: &TensorMap) -> Allocation {
    map.check().unwrap();
    let bytes: Vec<u8> = map.encode().iter().flat_map(|word| word.to_le_bytes()).collect();
    let place = memory.alloc(bytes.len(), "tensor map").unwrap();
    place.write(0, &bytes).unwrap();
    place
}

/// 1, 2, 3, ...
fn counted(memory: &GlobalMemory, count: usize) -> Words {
    let words = Words::new(memory, count, 0);
    (0..count).for_each(|i| words.write(i, i as u32 + 1));
    words
}

const TILE: u32 = 128;

/// The address of the tile: after the mbarrier, at a multiple of 1,024.
fn tile() -> u32 {
    shared_base() + 1024
}

fn barrier() -> u32 {
    shared_base()
}

fn launch<'a>(memory: &GlobalMemory) -> Launch<'a> {
    Launch::new("k", 1, 32, memory).shared_bytes(8192)
}

/// The first thread initialises the mbarrier and issues `load` for `bytes`.
fn load_and_wait(bytes: u32, load: impl Fn()) {
    if thread_idx().x == 0 {
        mbarrier_init(barrier(), 1);
        mbarrier_arrive_expect_tx(barrier(), bytes);
        load();
    }
    sync_threads();
    mbarrier_wait_parity(barrier(), 0);
}

/// Rows of the swizzle's span, over the tensor's left and right edges and past its last row.
#[test]
fn a_swizzled_box_over_an_edge_is_loaded_with_zeros_outside_and_stored_only_inside() {
    for swizzle in [TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128] {
        let memory = GlobalMemory::new();
        let (source, target) = (counted(&memory, 20 * 10), Words::new(&memory, 20 * 10, 0));
        let columns = swizzle.span().unwrap() as u32 / 4;
        let maps = [&source, &target].map(|words| {
            let map = TensorMap::new(TensorElement::U32, words.address(), &[20, 10], &[80], &[columns, 9]);
            upload(&memory, &map.with_swizzle(swizzle))
        });
        let [from, to] = maps.each_ref().map(Allocation::address);
        for start in [[-4, -1], [16, 3]] {
            // Only loads begin below 0.
            let stores = start[0] >= 0;
            let kernel = || {
                load_and_wait(4 * columns * 9, || tensor_load(tile(), from, start, barrier(), None));
                if thread_idx().x != 0 {
                    return;
                }
                for (x, y) in (0..9).flat_map(|y| (0..columns).map(move |x| (x, y))) {
                    let (at_x, at_y) = (start[0] + x as i32, start[1] + y as i32);
                    let is_inside = (0..20).contains(&at_x) && (0..10).contains(&at_y);
                    let expected = if is_inside { (at_x + 20 * at_y) as u32 + 1 } else { 0 };
                    let got = load_shared::<u32>(swizzle.apply(tile() + 4 * (x + columns * y)));
                    assert_eq!(got, expected, "{swizzle:?} from {start:?}: ({x}, {y})");
                }
                if stores {
                    tensor_store(to, start, tile());
                    bulk_commit();
                    bulk_wait_group(0);
                }
            };
            launch(&memory).run(&kernel).unwrap();
            for (i, value) in target.read().into_iter().enumerate() {
                let (x, y) = (i as i32 % 20 - start[0], i as i32 / 20 - start[1]);
                let is_stored = stores && (0..columns as i32).contains(&x) && (0..9).contains(&y);
                assert_eq!(value, if is_stored { i as u32 + 1 } else { 0 }, "{swizzle:?} to {start:?}: {i}");
            }
        }
    }
}

/// The value of a word of shared memory before a copy.
const BEFORE: u32 = 0xABCD_0000;

/// A tensor map of boxes of `rows` rows of 64 bytes, which are 128 apart.
fn boxes_of_half_rows(memory: &GlobalMemory, words: &Words, rows: u32) -> Allocation {
    let map = TensorMap::new(TensorElement::U32, words.address(), &[16, 4], &[64], &[16, rows]);
    upload(memory, &map.with_swizzle(TensorSwizzle::B128))
}

#[test]
fn a_box_whose_rows_reach_past_shared_memory_by_their_pitch_is_out_of_bounds() {
    let memory = GlobalMemory::new();
    let words = counted(&memory, 64);
    // The memory after the tile's address holds 56 rows, or 112 dense ones.
    let run = |rows: u32, stores: bool| {
        let map = boxes_of_half_rows(&memory, &words, rows);
        let at = map.address();
        let kernel = move || {
            if stores && thread_idx().x == 0 {
                (0..56 * 32).for_each(|i| store_shared(tile() + 4 * i, i));
                fence_proxy_async();
                tensor_store(at, [0, 0], tile());
                bulk_commit();
                bulk_wait_group(0);
            } else if !stores {
                load_and_wait(64 * rows, || tensor_load(tile(), at, [0, 0], barrier(), None));
            }
        };
        launch(&memory).run(&kernel).map_err(|error| error.fault().unwrap().clone())
    };
    for (stores, told) in [(false, Access::BulkDestination), (true, Access::BulkSource)] {
        assert!(run(56, stores).is_ok(), "56 rows, stored: {stores}: {:?}", run(56, stores));
        let fault = run(57, stores).unwrap_err();
        let FaultKind::SharedOutOfBounds { access, offset, shared_bytes, .. } = fault.kind else {
            panic!("{fault}")
        };
        assert_eq!((access, offset, shared_bytes), (told, 8192, 8192), "{fault}");
    }
}

#[test]
fn gaps_between_short_rows_are_not_copied_and_the_last_row_is() {
    let memory = GlobalMemory::new();
    let words = counted(&memory, 64);
    let map = boxes_of_half_rows(&memory, &words, 4);
    let at = map.address();
    // Piece `x` of row 3 before the swizzle; dense rows would end at 256.
    let piece = |x: u32| TensorSwizzle::B128.apply(tile() + 3 * 128 + 16 * x);
    let run = |stores: bool, x: u32| {
        let kernel = move || {
            if thread_idx().x != 0 {
                return;
            }
            mbarrier_init(barrier(), 1);
            (0..128).for_each(|i| store_shared(tile() + 4 * i, i));
            fence_proxy_async();
            if stores {
                tensor_store(at, [0, 0], tile());
                bulk_commit();
            } else {
                mbarrier_arrive_expect_tx(barrier(), 256);
                tensor_load(tile(), at, [0, 0], barrier(), None);
            }
            store_shared(piece(x), 7_u32);
            assert_eq!(load_shared::<u32>(piece(x)), 7);
            if stores {
                bulk_wait_group(0);
            } else {
                mbarrier_wait_parity(barrier(), 0);
            }
        };
        launch(&memory).run(&kernel).map_err(|error| error.fault().unwrap().kind.clone())
    };
    for x in 0..8 {
        let (load, store) = (run(false, x), run(true, x));
        if x < 4 {
            assert!(matches!(load, Err(FaultKind::SharedInFlight { .. })), "piece {x}: {load:?}");
            assert!(matches!(store, Err(FaultKind::SharedBeingRead { .. })), "piece {x}: {store:?}");
        } else {
            assert!(load.is_ok() && store.is_ok(), "piece {x}: {load:?}, {store:?}");
        }
    }
}

#[test]
fn what_is_unwritten_between_short_rows_is_not_stored() {
    let memory = GlobalMemory::new();
    let (source, target) = (counted(&memory, 64), Words::new(&memory, 64, 0));
    let maps = [&source, &target].map(|words| boxes_of_half_rows(&memory, words, 4));
    let [from, to] = maps.each_ref().map(Allocation::address);
    let kernel = || {
        load_and_wait(256, || tensor_load(tile(), from, [0, 0], barrier(), None));
        if thread_idx().x == 0 {
            tensor_store(to, [0, 0], tile());
            bulk_commit();
            bulk_wait_group(0);
        }
    };
    launch(&memory).run(&kernel).unwrap();
    assert_eq!(target.read(), source.read());
}

/// Rows of 10 words, 16 apart: a store writes two words after each, which an addition leaves. It
/// writes nothing after the memory.
#[test]
fn a_row_that_ends_within_16_bytes_is_stored_up_to_their_end() {
    let memory = GlobalMemory::new();
    let run = |adds: bool, words: &Words| {
        let map = TensorMap::new(TensorElement::U32, words.address(), &[10, 4], &[64], &[8, 4]);
        let map = upload(&memory, &map);
        let at = map.address();
        let kernel = move || {
            if thread_idx().x != 0 {
                return;
            }
            (0..32).for_each(|i| store_shared(tile() + 4 * i, 100 + i));
            fence_proxy_async();
            for column in [0, 8] {
                if adds {
                    tensor_reduce_add(at, [column, 0], tile());
                } else {
                    tensor_store(at, [column, 0], tile());
                }
            }
            bulk_commit();
            bulk_wait_group(0);
        };
        launch(&memory).run(&kernel).unwrap();
        words.read()
    };
    for (adds, rest) in [(false, 12), (true, 10)] {
        let (whole, cut) = (Words::new(&memory, 64, 0), Words::new(&memory, 58, 0));
        let expected: Vec<u32> =
            (0..64).map(|i| if i % 16 < rest { 100 + i / 16 * 8 + i % 8 } else { 0 }).collect();
        assert_eq!(run(adds, &whole), expected, "adds: {adds}");
        assert_eq!(run(adds, &cut), expected[..58], "adds: {adds}, memory that ends with a row");
    }
}

/// The store writes the rest of the 16 bytes too.
#[test]
fn a_write_after_a_row_that_a_store_ends_is_a_race() {
    let memory = GlobalMemory::new();
    let words = Words::new(&memory, 64, 0);
    let map = upload(&memory, &TensorMap::new(TensorElement::U32, words.address(), &[10, 4], &[64], &[8, 4]));
    let at = map.address();
    let run = |column: u64| {
        let place = words.address() + 4 * column;
        let kernel = move || {
            if thread_idx().x != 0 {
            } else if block_idx().x == 1 {
                store_global(place, 1_u32);
            } else {
                (0..32).for_each(|i| store_shared(tile() + 4 * i, i));
                fence_proxy_async();
                tensor_store(at, [8, 0], tile());
                bulk_commit();
                bulk_wait_group(0);
            }
        };
        let launch = Launch::new("k", 2, 32, &memory).shared_bytes(8192);
        launch.races(true).run(&kernel).map_err(|error| error.fault().unwrap().clone())
    };
    for column in [10, 11] {
        let fault = run(column).unwrap_err();
        assert!(matches!(fault.kind, FaultKind::Race(_)), "column {column}: {fault}");
    }
    assert!(run(12).is_ok(), "column 12: {:?}", run(12));
}

#[test]
fn multicast_lays_short_rows_a_span_apart_in_each_block() {
    let memory = GlobalMemory::new();
    let words = counted(&memory, 64);
    let map = boxes_of_half_rows(&memory, &words, 4);
    let at = map.address();
    let kernel = || {
        if thread_idx().x == 0 {
            mbarrier_init(barrier(), 1);
            mbarrier_arrive_expect_tx(barrier(), 256);
            (0..128).for_each(|i| store_shared(tile() + 4 * i, BEFORE));
            fence_proxy_async();
        }
        cluster_arrive();
        cluster_wait();
        if thread_idx().x == 0 && cluster_rank() == 0 {
            tensor_load(tile(), at, [0, 0], barrier(), Some(0b11));
        }
        mbarrier_wait_parity(barrier(), 0);
        for i in 0..128 {
            let (x, y) = (i % 32, i / 32);
            let got = load_shared::<u32>(TensorSwizzle::B128.apply(tile() + 4 * i));
            let expected = if x < 16 { x + 16 * y + 1 } else { BEFORE };
            assert_eq!(got, expected, "({x}, {y}) in block {}", cluster_rank());
        }
        cluster_arrive();
        cluster_wait();
    };
    Launch::new("k", 2, 32, &memory).cluster(2).shared_bytes(8192).run(&kernel).unwrap();
}

/// Tensors whose last byte is past 2^64: by one dimension, and by a dimension or two whose reach is
/// 0 modulo 2^64, so that the tensor would seem to be its first row.
#[test]
fn tensors_that_reach_past_the_address_space_are_out_of_bounds() {
    for (extents, strides) in [
        (&[20, 1 << 32][..], &[(1 << 40) - 16][..]),
        (&[4, (1 << 26) + 1], &[1 << 38]),
        (&[4, (1 << 31) + 1, (1 << 31) + 1], &[1 << 32, 1 << 32]),
    ] {
        let memory = GlobalMemory::new();
        let source = counted(&memory, 20 * 10);
        let boxes = [4, 1, 1];
        let fields =
            TensorMap::new(TensorElement::U32, source.address(), extents, strides, &boxes[..extents.len()]);
        let map = upload(&memory, &fields);
        let at = map.address();
        for stores in [false, true] {
            let error = fault(launch(&memory), &|| {
                if thread_idx().x == 0 {
                    mbarrier_init(barrier(), 1);
                    (0..4).for_each(|i| store_shared(tile() + 4 * i, i));
                    fence_proxy_async();
                    match (extents.len(), stores) {
                        (2, true) => tensor_store(at, [0, 0], tile()),
                        (2, false) => tensor_load(tile(), at, [0, 0], barrier(), None),
                        (_, true) => tensor_store(at, [0, 0, 0], tile()),
                        (_, false) => tensor_load(tile(), at, [0, 0, 0], barrier(), None),
                    }
                }
            });
            let FaultKind::GlobalOutOfBounds { bytes, address, .. } = error.kind else { panic!("{error}") };
            assert_eq!((address, bytes as u64), (source.address(), u64::MAX), "{extents:?}: {error}");
        }
    }
}

#[test]
fn what_a_load_brings_may_not_be_touched_before_the_wait() {
    let memory = GlobalMemory::new();
    let source = counted(&memory, 64);
    let from = source.address();
    for writes in [false, true] {
        let error = fault(launch(&memory), &|| {
            if thread_idx().x == 0 {
                mbarrier_init(barrier(), 1);
                mbarrier_arrive_expect_tx(barrier(), TILE);
                bulk_load(tile(), from, TILE, barrier(), None);
                if writes {
                    store_shared(tile(), 1_u32)
                } else {
                    assert_ne!(load_shared::<u32>(tile() + 64), 0)
                }
            }
        });
        let FaultKind::SharedInFlight { what: "bulk copy", access, .. } = error.kind else {
            panic!("{error}")
        };
        assert_eq!(access, if writes { Access::Write } else { Access::Read });
    }
}

#[test]
fn a_load_over_the_mbarrier_of_another_load_is_a_fault() {
    let memory = GlobalMemory::new();
    let source = counted(&memory, 64);
    let from = source.address();
    let fault = fault(launch(&memory), &|| {
        load_and_wait(128, || {
            bulk_load(tile(), from, 64, barrier(), None);
            bulk_load(barrier(), from, 64, barrier(), None);
        });
    });
    // The second copy has not arrived when the first is counted.
    assert!(matches!(fault.kind, FaultKind::SharedInFlight { what: "bulk copy", .. }), "{fault}");
}

#[test]
fn a_load_without_expected_bytes_and_invalid_operands_are_faults() {
    let memory = GlobalMemory::new();
    let source = counted(&memory, 64);
    let from = source.address();
    let told = |issue: &(dyn Fn() + Sync)| {
        fault(launch(&memory), &|| {
            if thread_idx().x == 0 {
                mbarrier_init(barrier(), 1);
                mbarrier_arrive_expect_tx(barrier(), 128);
                issue();
                mbarrier_wait_parity(barrier(), 0);
            }
        })
        .to_string()
    };
    let text = told(&|| bulk_load(tile(), from, 64, barrier(), None));
    assert!(text.contains("still expects 0 arrivals and 64 bytes"), "{text}");
    let text = told(&|| bulk_load(tile(), from + 4, 64, barrier(), None));
    assert!(text.contains("the size must be a positive multiple of 16"), "{text}");
    let text = told(&|| bulk_load(tile() + 8, from, 64, barrier(), None));
    assert!(text.contains("is not a multiple of 16"), "{text}");
    let text = told(&|| bulk_load(tile(), from + 208, 64, barrier(), None));
    assert!(text.contains("from offset 208, 16 bytes over the end"), "{text}");
    let text = told(&|| bulk_load(tile(), from, 64, barrier(), Some(2)));
    assert!(text.contains("the multicast mask 0x0002 names"), "{text}");
    let text = told(&|| tensor_load(tile(), from, [0, 0], barrier(), None));
    assert!(text.contains("there is no tensor map at"), "{text}");
    let map = TensorMap::new(TensorElement::U32, from, &[8, 8], &[32], &[4, 4]);
    let map = upload(&memory, &map);
    let at = map.address();
    let text = told(&|| tensor_load(tile(), at, [0, 0, 0], barrier(), None));
    assert!(text.contains("the copy has 3 coordinates, and the tensor 2 dimensions"), "{text}");
    let text = told(&|| tensor_load(tile(), at, [5, 0], barrier(), None));
    assert!(text.contains("begins at element 5 of 4 bytes along dimension 0"), "{text}");
}

/// Same as [`a_line_is_not_stored_from_below_0_on_and_all_else_is`], along the second dimension.
#[test]
fn a_box_is_not_stored_from_below_0_on_along_any_dimension() {
    let memory = GlobalMemory::new();
    let words = Words::new(&memory, 128, 0);
    let fields = TensorMap::new(TensorElement::U32, words.address(), &[16, 8], &[64], &[16, 4]);
    let map = upload(&memory, &fields);
    let at = map.address();
    let run = |start: [i32; 2]| {
        let kernel = move || {
            load_and_wait(256, || tensor_load(tile(), at, [0, -2], barrier(), None));
            if thread_idx().x == 0 {
                (0..64).for_each(|i| store_shared(tile() + 4 * i, 1));
                fence_proxy_async();
                tensor_store(at, start, tile());
                bulk_commit();
                bulk_wait_group(0);
            }
        };
        launch(&memory).run(&kernel).map(|_| words.read())
    };
    assert_eq!(run([0, 6]).unwrap().iter().sum::<u32>(), 32, "two of four lines are in the tensor");
    let text = run([0, -1]).unwrap_err().to_string();
    assert!(text.contains("[0, -1]") && text.contains("illegal"), "{text}");
}

/// Exactly the illegal instructions of a GPU are faults here.
#[test]
fn a_line_is_not_stored_from_below_0_on_and_all_else_is() {
    let memory = GlobalMemory::new();
    let words = Words::new(&memory, 100, 0);
    let map = upload(&memory, &TensorMap::new(TensorElement::U32, words.address(), &[100], &[], &[64]));
    let at = map.address();
    type Issue = fn(u64, [i32; 1], u32);
    let run = |start: i32, issue: Issue| {
        (0..100).for_each(|i| words.write(i, 0));
        let kernel = move || {
            load_and_wait(256, || tensor_load(tile(), at, [-64], barrier(), None));
            if thread_idx().x == 0 {
                (0..64).for_each(|i| store_shared(tile() + 4 * i, 1));
                fence_proxy_async();
                issue(at, [start], tile());
                bulk_commit();
                bulk_wait_group(0);
            }
        };
        launch(&memory).run(&kernel).map(|_| words.read())
    };
    let store: Issue = |map, start, source| tensor_store(map, start, source);
    let add: Issue = |map, start, source| tensor_reduce_add(map, start, source);
    for (issue, operation) in
        [(store, "cp.async.bulk.tensor.global.shared::cta"), (add, "cp.reduce.async.bulk.tensor")]
    {
        for start in [0, 96, 100, 128] {
            let expected: Vec<u32> = (0..100).map(|i| u32::from((start..start + 64).contains(&i))).collect();
            assert_eq!(run(start, issue).unwrap(), expected, "{operation} from {start} on");
        }
        for start in [-4, -64, -300] {
            let text = run(start, issue).unwrap_err().to_string();
            let start = format!("[{start}]");
            for said in ["`k`", "thread (0,0,0)", file!(), operation, &start, "illegal", "at 0 or more"] {
                assert!(text.contains(said), "{said}: {text}");
            }
        }
    }
}

/// A thread that waits for a load sees its bytes; a thread that neither waits nor synchronises
/// faults, in any order.
#[test]
fn what_a_load_brought_is_read_by_who_knows_of_its_arrival() {
    let memory = GlobalMemory::new();
    let source = counted(&memory, 64);
    let from = source.address();
    let run = |meet: bool, cluster: bool, by_store: bool| {
        let kernel = move || {
            let t = thread_idx().x;
            if t == 0 {
                mbarrier_init(barrier(), 1);
                mbarrier_arrive_expect_tx(barrier(), TILE);
                bulk_load(tile(), from, TILE, barrier(), None);
                // In this order, the bytes have arrived for the other threads too.
                mbarrier_wait_parity(barrier(), 0);
            }
            if meet && cluster {
                cluster_arrive();
                cluster_wait();
            } else if meet {
                sync_threads();
            } else {
                (0..100_000).for_each(|_| _ = thread_idx());
            }
            if t == 40 && by_store {
                bulk_store(from, tile(), TILE);
                bulk_commit();
                bulk_wait_group(0);
            } else if t == 40 {
                assert_eq!(load_shared::<u32>(tile() + 4), 2);
                store_shared(tile() + 4, 3_u32);
                assert_eq!(load_shared::<u64>(tile() + 8), 3 | 4 << 32);
            }
        };
        let launch = Launch::new("k", 1, 64, &memory).shared_bytes(8192);
        launch.run(&kernel).map_err(|error| error.fault().unwrap().clone())
    };
    for by_store in [false, true] {
        run(true, false, by_store).unwrap();
        run(true, true, by_store).unwrap();
        let fault = run(false, false, by_store).unwrap_err();
        let access = if by_store { Access::BulkSource } else { Access::Read };
        assert!(
            matches!(fault.kind, FaultKind::SharedNotAwaited { access: told, mbarrier: 0, .. } if told == access),
            "{fault}"
        );
        assert_eq!(fault.thread.x, 40);
        assert!(
            fault
                .to_string()
                .contains("that completes on the mbarrier at offset 0; this thread has not waited on it")
        );
    }
}

#[test]
fn a_copy_that_another_block_has_not_received_when_its_block_ends_is_a_fault() {
    let memory = GlobalMemory::new();
    let kernel = |waits: bool| {
        if cluster_rank() == 1 {
            mbarrier_init(barrier(), 1);
            mbarrier_arrive_expect_tx(barrier(), 64);
        }
        (0..16).for_each(|i| store_shared(tile() + 4 * i, i));
        fence_proxy_async();
        cluster_arrive();
        cluster_wait();
        if cluster_rank() == 0 {
            bulk_copy_to_cluster(map_shared(tile() + 1024, 1), tile(), 64, map_shared(barrier(), 1));
            if !waits {
                return;
            }
        }
        if cluster_rank() == 1 {
            mbarrier_wait_parity(barrier(), 0);
        }
        cluster_arrive();
        cluster_wait();
    };
    let launch = || Launch::new("k", 2, 1, &memory).cluster(2).shared_bytes(8192);
    launch().run(&|| kernel(true)).unwrap();
    let error = fault(launch(), &|| kernel(false));
    assert!(matches!(error.kind, FaultKind::BulkLoadsLeft { copies: 1, .. }), "{error}");
    assert!(
        error.to_string().contains("1 bulk copies into or out of its shared memory were in flight"),
        "{error}"
    );
}

/// A thread's writes must be made visible to copies by that thread, or by the warp that issues
/// them.
#[test]
fn a_fence_of_another_thread_is_none() {
    let memory = GlobalMemory::new();
    let target = Words::new(&memory, 64, 0);
    let to = target.address();
    let run = |fences: u32| {
        let kernel = move || {
            let t = thread_idx().x;
            store_shared(tile() + 16 * t, u128::from(t));
            sync_threads();
            if t == fences {
                fence_proxy_async();
            }
            sync_threads();
            if t == 0 {
                bulk_store(to, tile() + 16 * 40, 16);
                bulk_commit();
                bulk_wait_group(0);
            }
        };
        Launch::new("k", 1, 96, &memory).shared_bytes(8192).run(&kernel)
    };
    // The writer, and the thread that issues the copy.
    for fences in [40, 0] {
        run(fences).unwrap();
        assert_eq!(target.read()[0], 40);
    }
    let error = run(70).unwrap_err().to_string();
    assert!(error.contains("which thread (40,0,0) wrote with no fence.proxy.async since"), "{error}");
}
