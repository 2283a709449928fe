//! Products with `wgmma`: the instruction, its operands, and data shared by blocks.

use super::{ORDERS, function, names};
use std::collections::BTreeSet;

const MULTICAST: &str =
    "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster";

#[test]
fn every_product_on_hopper_has_its_instruction_for_each_step_and_what_feeds_it() {
    let half = |t: &str, n: u32| format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t}");
    let mut family = vec![
        (
            "wgmma_tf32_tn".to_owned(),
            "wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32".to_owned(),
            [1, 1],
        ),
        (
            "wgmma_e4m3_tn".to_owned(),
            "wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3".to_owned(),
            [1, 1],
        ),
        (
            "wgmma_e5m2_tn".to_owned(),
            "wgmma.mma_async.sync.aligned.m64n256k32.f32.e5m2.e5m2".to_owned(),
            [1, 1],
        ),
        ("wgmma_s8_tn".to_owned(), "wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8".to_owned(), [1, 1]),
    ];
    for (t, sum) in [("e4m3", "f32"), ("e5m2", "f32"), ("s8", "s32")] {
        let instruction = format!("wgmma.mma_async.sync.aligned.m64n128k32.{sum}.{t}.{t}");
        if t != "s8" {
            for tile in ["256x128", "128x128"] {
                family.push((format!("wgmma_{t}_tn_{tile}_promoted"), instruction.clone(), [1, 1]));
            }
        }
        family.push((format!("wgmma_{t}_tn_128x128"), instruction, [1, 1]));
    }
    for t in ["f16", "bf16"] {
        for (order, a, b) in ORDERS {
            // One box for each 64 elements along M or N if these are contiguous; each block of a
            // pair loads half of B's 256.
            let boxes = [if a { 2 } else { 1 }, if b { 2 } else { 1 }];
            family.push((format!("wgmma_{t}_{order}"), half(t, 256), boxes));
            family.push((format!("wgmma_{t}_{order}_128x128"), half(t, 128), boxes));
        }
        family.push((format!("wgmma_{t}_tn_alone"), half(t, 256), [1, 1]));
        family.push((format!("wgmma_{t}_tn_256x128"), half(t, 128), [1, 1]));
    }
    family.push(("wgmma_f16_tn_128x192".to_owned(), half("f16", 192), [1, 1]));
    for (name, instruction, boxes) in &family {
        let kernel = function("sm_90a", name);
        // 128 bytes of K, for one instruction or two stacked along M; for 16-bit elements also the
        // stages in which K ends after one, two or three instructions.
        let of_8_bits = ["_e4m3_", "_e5m2_", "_s8_"].iter().any(|t| name.contains(t));
        let in_turn = of_8_bits && name.ends_with("_128x128");
        let two = name.contains("_256x128") || of_8_bits && in_turn;
        let of_16_bits = name.starts_with("wgmma_f16") || name.starts_with("wgmma_bf16");
        let steps = if of_16_bits { 4 + 3 + 2 + 1 } else { 4 } * if two { 2 } else { 1 };
        assert_eq!(kernel.count(instruction), steps, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("wgmma.mma_async"), steps, "{name} has no other: {:?}", kernel.instructions);
        let loads = kernel.count("cp.async.bulk.tensor.3d.shared");
        let of_stage: usize = boxes.iter().sum();
        assert!(
            loads > 0 && loads.is_multiple_of(of_stage),
            "{name} loads {of_stage} boxes a stage, in a loop that may be unrolled: {:?}",
            kernel.instructions
        );
        // In pairs of blocks, loads of B go to both.
        let pairs = in_turn || !["_128x128", "_256x128", "_alone"].iter().any(|alone| name.ends_with(alone));
        let to_both = if pairs { loads / of_stage * boxes[1] } else { 0 };
        assert_eq!(kernel.count(MULTICAST), to_both, "{name}: {:?}", kernel.instructions);
        assert_eq!(kernel.count("barrier.cluster.arrive.relaxed"), usize::from(pairs), "{name}");
        assert_eq!(kernel.count("barrier.cluster.arrive"), usize::from(pairs), "{name} has no other");
        // Pieces of shared tiles: a 16-byte word for four accumulators, stored once, and loaded in
        // a loop over all pieces. Ping-pong warpgroups share no tiles, and one passes the turn to
        // the other.
        let words = match name {
            _ if in_turn => 0,
            _ if name.contains("_128x128") => 16,
            _ if name.ends_with("_128x192") => 24,
            _ => 32,
        };
        assert!(kernel.count("st.global.v4.b32") >= words, "{name}: {:?}", kernel.instructions);
        assert!(kernel.count("ld.global.v4.b32") >= words, "{name}: {:?}", kernel.instructions);
        let (fences, turns) = if in_turn { (0, 1) } else { (3, 0) };
        // Blocks without clusters wait after they have computed their tile's coordinates, producers
        // and consumers.
        let (launches, waits) = (1, if pairs { 1 } else { 2 });
        for (what, count) in [
            ("setmaxnreg", 2),
            ("griddepcontrol.launch_dependents", launches),
            ("griddepcontrol.wait", waits),
            ("fence.acq_rel.gpu", fences),
            ("bar.arrive", turns),
        ] {
            assert_eq!(kernel.count(what), count, "{what}: {name}: {:?}", kernel.instructions);
        }
        assert!(kernel.count("cp.async.bulk.tensor.3d.global") > 0, "{name}: {:?}", kernel.instructions);
    }
    let shipped = names("sm_90a").iter().filter(|name| name.starts_with("wgmma")).count();
    assert_eq!(shipped, family.len() + kernels_of_parts().len(), "the kernels of this family");
    assert!(names("sm_80").iter().all(|name| !name.starts_with("wgmma")), "sm_80 has none");
}

#[test]
fn results_of_16_bits_go_to_shared_memory_by_stmatrix() {
    for name in [
        "wgmma_f16_tn",
        "wgmma_bf16_tn",
        "wgmma_f16_tn_256x128",
        "wgmma_bf16_tn_256x128",
        "wgmma_e4m3_tn",
        "wgmma_e4m3_tn_128x128",
        "wgmma_e5m2_tn_128x128",
    ] {
        let kernel = function("sm_90a", name);
        assert!(kernel.count("stmatrix") > 0, "{name}: {:?}", kernel.instructions);
    }
}

/// The kernels of small tiles: name, instruction, slices of K, stages' rows of 128 bytes along K,
/// dimensions of the maps of A and of B, and chunks of 64 x 64.
struct OfParts {
    name: String,
    instruction: String,
    parts: usize,
    depth: usize,
    maps: [&'static str; 2],
    chunks: usize,
}

fn kernels_of_parts() -> Vec<OfParts> {
    const BLOCKS: &str = "cp.async.bulk.tensor.4d.shared";
    const PLAIN: &str = "cp.async.bulk.tensor.3d.shared";
    let mut kernels = Vec::new();
    for t in ["f16", "bf16"] {
        let instruction = |n: usize| format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{t}.{t}");
        // If K is contiguous, the two rows of a stage are a dimension of the map.
        for (order, maps) in [("tn", [BLOCKS; 2]), ("nn", [PLAIN, BLOCKS]), ("tt", [BLOCKS, PLAIN])] {
            for (suffix, parts) in [("", 1), ("_k2", 2)] {
                let name = format!("wgmma_{t}_{order}_64x64{suffix}");
                kernels.push(OfParts {
                    name,
                    instruction: instruction(64),
                    parts,
                    depth: 2,
                    maps,
                    chunks: 1,
                });
            }
        }
        for (suffix, n, parts) in [
            ("64x128", 128, 1),
            ("64x128_k2", 128, 2),
            ("128x128_k2", 128, 2),
            ("128x192_k2", 192, 2),
            ("128x128_once", 128, 1),
            ("128x192_once", 192, 1),
            ("192x192_once", 192, 1),
        ] {
            let (name, instruction) = (format!("wgmma_{t}_tn_{suffix}"), instruction(n));
            kernels.push(OfParts { name, instruction, parts, depth: 1, maps: [PLAIN; 2], chunks: n / 64 });
        }
    }
    kernels
}

#[test]
fn small_tiles_are_loaded_by_boxes_of_a_stage_and_pairs_of_blocks_send_each_other_sums() {
    for OfParts { name, instruction, parts, depth, maps, chunks } in kernels_of_parts() {
        let kernel = function("sm_90a", &name);
        let products = kernel.count("wgmma.mma_async");
        assert!(
            products > 0 && products.is_multiple_of(4 * depth),
            "128 bytes of K, {depth} times: {name}: {:?}",
            kernel.instructions
        );
        assert_eq!(kernel.count(&instruction), products, "{name} has no other: {:?}", kernel.instructions);
        for map in maps {
            assert!(kernel.count(map) > 0, "{name} loads by {map}: {:?}", kernel.instructions);
        }
        let loads: usize = BTreeSet::from(maps).iter().map(|map| kernel.count(map)).sum();
        let all = kernel.count_where(|name| name.starts_with("cp.async.bulk.tensor"));
        assert_eq!(loads, all, "{name} has no other: {:?}", kernel.instructions);
        assert_eq!(kernel.count(MULTICAST), 0, "{name}: {:?}", kernel.instructions);
        // One cluster barrier at the start, on which producers and consumers wait. A thread that
        // sends has 32 accumulators a chunk, eight 16-byte words.
        let (arrivals, words) = if parts == 2 { (1, chunks * 8) } else { (0, 0) };
        for (what, count) in [
            ("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32", words),
            ("ld.shared::cluster", 0),
            ("barrier.cluster.arrive.relaxed", arrivals),
            ("barrier.cluster.arrive", arrivals),
            ("barrier.cluster.wait", 2 * arrivals),
            // The producer and the consumers wait, each after computing the tile.
            ("griddepcontrol.launch_dependents", 1),
            ("griddepcontrol.wait", 2),
            // The producer releases registers to two or three consumer warpgroups.
            ("setmaxnreg", if name.contains("_64x") { 0 } else { 2 }),
            // Lanes exchange the elements of 16 bytes of C: for a chunk four registers at a time,
            // four times with 2-byte elements, and two at a time, eight times, with 4-byte
            // elements.
            ("shfl.sync.bfly", chunks * (4 * 4 + 8 * 2)),
        ] {
            assert_eq!(kernel.count(what), count, "{what}: {name}: {:?}", kernel.instructions);
        }
    }
}

/// A scale for each column is one load for each of a thread's columns; no other kernel has any.
#[test]
fn scales_are_read_by_the_kernels_of_8_bit_floats_alone() {
    let loads = |name| function("sm_90a", name).count("ld.global");
    let plain = loads("wgmma_bf16_tn");
    // For one column of 64, for two rows, for all.
    for name in ["wgmma_e4m3_tn", "wgmma_e5m2_tn"] {
        assert_eq!(loads(name), plain + 64 + 2 + 1, "{name}");
    }
    // Two instructions stacked along M, each with separate 32 columns and two rows in a thread;
    // int8 has no second type of bias either, so there are more than these.
    let plain = loads("wgmma_s8_tn_128x128");
    for name in ["wgmma_e4m3_tn_128x128", "wgmma_e5m2_tn_128x128"] {
        assert!(loads(name) > plain + 2 * (32 + 2), "{name}: {}, and {plain} of int8", loads(name));
    }
}
