//! How tiles are split among clusters.

extern crate std;
use super::*;
use std::vec::Vec;

/// Cuts of tiles with this many stages, with enough clusters: only even pieces, also of unequal
/// length; and runs that are shorter than a tail, equal, longer, and with a short last run.
fn cuts() -> impl Iterator<Item = (u32, Cut)> {
    let even = [(2, 4, 8), (3, 3, 7), (1, 8, 65), (5, 2, 2)];
    let even = even.into_iter().map(|(tiles, even, all): (u32, u32, u32)| {
        (all, Cut { tiles, even, stages: all.div_ceil(even), run: 0 })
    });
    let runs = [
        (34, 1, 68, 128, 60),
        (34, 1, 68, 128, 64),
        (34, 1, 70, 128, 62),
        (2, 1, 4, 9, 3),
        (3, 2, 2, 7, 1),
        (4, 1, 4, 6, 4),
        (1, 1, 5, 8, 2),
        (58, 1, 60, 64, 29),
    ];
    even.chain(
        runs.into_iter().map(|(tiles, even, stages, all, run)| (all, Cut { tiles, even, stages, run })),
    )
}

/// The pieces of all clusters with the cluster's number, in each cluster's order.
fn dealt(all: u32, cut: Cut) -> Vec<(u32, Piece)> {
    let runs = if cut.run > 0 { (cut.tiles * cut.tail(all)).div_ceil(cut.run) } else { 0 };
    let mut dealt = Vec::new();
    for cluster in 0..cut.of_even() + runs {
        let mut done = 0;
        while let Some(piece) = cut.piece(all, cluster, done) {
            assert!(piece.stages > 0, "{piece:?} of cluster {cluster}, {cut:?}");
            dealt.push((cluster, piece));
            done += piece.stages;
        }
        assert!(done > 0, "cluster {cluster} has nothing, {cut:?}");
    }
    let none = cut.of_even() + runs;
    assert_eq!(cut.piece(all, none, 0), None, "there are no more than {none} clusters with a piece, {cut:?}");
    dealt
}

#[test]
fn pieces_are_all_of_k_of_each_tile_in_the_order_of_their_numbers() {
    for (all, cut) in cuts() {
        let dealt = dealt(all, cut);
        for tile in 0..cut.tiles {
            let mut of: Vec<_> = dealt.iter().filter(|(_, piece)| piece.tile == tile).collect();
            of.sort_by_key(|(_, piece)| piece.first);
            assert_eq!(of.len() as u32, cut.pieces(all, tile), "tile {tile} of {cut:?} has {of:?}");
            let mut next = 0;
            for (i, &&(cluster, piece)) in of.iter().enumerate() {
                assert_eq!(piece.first, next, "tile {tile} of {cut:?} has {of:?}");
                assert_eq!(cut.number(all, cluster, tile), i as u32, "{piece:?} of {cut:?}");
                next += piece.stages;
            }
            assert_eq!(next, all, "tile {tile} of {cut:?} has {of:?}");
        }
        let most = (0..cut.tiles).map(|tile| cut.pieces(all, tile)).max().unwrap();
        let bound = cut.most_pieces(all);
        assert!(most <= bound && bound <= most + 1, "{most} and not {bound} pieces at most, {cut:?}");
    }
}

#[test]
fn no_cluster_has_more_than_its_even_piece_or_run() {
    for (all, cut) in cuts() {
        let dealt = dealt(all, cut);
        for cluster in 0..=dealt.last().unwrap().0 {
            let stages: u32 =
                dealt.iter().filter(|(of, _)| *of == cluster).map(|(_, piece)| piece.stages).sum();
            let most = if cluster < cut.of_even() { cut.stages } else { cut.run };
            assert!(stages <= most, "cluster {cluster} has {stages} stages, {cut:?}");
        }
    }
}

#[test]
fn where_no_tile_is_shared_no_cluster_has_a_piece() {
    for cluster in [0, 1, 65] {
        assert_eq!(Cut::NONE.piece(10, cluster, 0), None);
    }
}
