//! The tiles that a scheduler assigns to clusters.

extern crate std;
use super::*;
use std::collections::HashMap;
use std::vec::Vec;

/// A tile's coordinates along M and N, its batch and its slice of K.
type Tile = (u32, u32, u32, u32);

/// Each tile's pieces: the first stage, and the number of stages.
fn dealt(clusters: u32, job: Job) -> HashMap<Tile, Vec<(u32, u32)>> {
    let mut tiles: HashMap<_, Vec<_>> = HashMap::new();
    for cluster in 0..clusters {
        let job = Job { cluster, clusters, ..job };
        let mut next = cluster;
        let mut behind = false;
        while let Some(tile) = job.take_next(&mut next) {
            let is_shared = job.is_piece(&tile);
            assert!(is_shared || !behind, "cluster {cluster} has a whole tile after a piece, {job:?}");
            behind = is_shared;
            let (m, n, part) = job.place(tile.number);
            let key = (m, n, part / job.splits, part % job.splits);
            tiles.entry(key).or_default().push((tile.k, tile.k_tiles()));
        }
        assert_eq!(job.take_next(&mut next), None, "there is no tile after the last");
    }
    tiles
}

fn job(extents: (u32, u32)) -> Job {
    Job {
        cluster: 0,
        clusters: 1,
        extents,
        tile: (128, 256),
        stages: (10, 10),
        splits: 1,
        batches: 1,
        cut: Cut::NONE,
    }
}

#[test]
fn clusters_share_all_tiles_and_no_tile_twice() {
    for (m, n, clusters) in [(1, 1, 1), (128, 256, 7), (1000, 3000, 132), (4096, 4096, 132), (2049, 255, 5)] {
        for (splits, batches, chunk) in [(1, 1, 10), (3, 1, 4), (2, 4, 6)] {
            let job = Job { splits, batches, stages: (10, chunk), ..job((m, n)) };
            let tiles = dealt(clusters, job);
            assert_eq!(tiles.len() as u32, m.div_ceil(128) * n.div_ceil(256) * splits * batches, "{job:?}");
            for (&(tm, tn, batch, split), pieces) in &tiles {
                assert!(tm * 128 < m && tn * 256 < n && batch < batches && split < splits, "{job:?}");
                let stages = chunk.min(10 - split * chunk);
                assert_eq!(pieces[..], [(split * chunk, stages)], "({tm}, {tn}) of {job:?}");
            }
        }
    }
}

/// Cuts of `rest` tiles for this many clusters: into even pieces, and into these and runs.
fn cuts(rest: u32, clusters: u32, all: u32) -> Vec<Cut> {
    let mut cuts = Vec::new();
    for even in 1..=(clusters / rest).min(8) {
        for stages in 1..=all.div_ceil(even) {
            let (left, tails) = (clusters - rest * even, rest * all.saturating_sub(even * stages));
            let run = if tails > 0 && left > 0 { tails.div_ceil(left) } else { 0 };
            if (tails == 0) == (run == 0) && (even - 1) * stages < all {
                cuts.push(Cut { tiles: rest, even, stages, run });
            }
        }
    }
    cuts
}

#[test]
fn whole_tiles_are_first_and_the_pieces_of_a_shared_tile_cover_k() {
    for (extents, clusters) in [((384, 512), 7), ((1536, 1536), 66), ((4095, 4097), 66), ((100, 100), 7)] {
        let tiles = u32::div_ceil(extents.0, 128) * u32::div_ceil(extents.1, 256);
        for (batches, stages) in [(1, 8), (3, 9), (1, 65)] {
            let rest = tiles * batches % clusters;
            for cut in cuts(rest, clusters, stages) {
                let job = Job { batches, stages: (stages, stages), cut, ..job(extents) };
                let dealt = dealt(clusters, job);
                assert_eq!(dealt.len() as u32, tiles * batches, "{job:?}");
                let whole = dealt.values().filter(|of| of[..] == [(0, stages)]).count() as u32;
                let shared_by_one = if cut.even == 1 && cut.run == 0 { rest } else { 0 };
                assert_eq!(whole, tiles * batches - rest + shared_by_one, "{job:?}");
                for (tile, mut of) in dealt {
                    of.sort_unstable();
                    let mut next = 0;
                    for &(first, count) in &of {
                        assert_eq!(first, next, "{tile:?} of {job:?} has {of:?}");
                        next += count;
                    }
                    assert_eq!(next, stages, "{tile:?} of {job:?} has {of:?}");
                }
            }
        }
    }
}
