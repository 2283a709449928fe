//! Patterns of groups that stress the kernels, and benchmark cases.

use moye_runtime::operation::{Case, Value};

const fn tile(tile: &'static str) -> (&'static str, Value) {
    ("tile", Value::Choice(tile, super::call::TILES))
}

/// Groups that follow each other: none, one row, all rows in one group, empty ones; and padded
/// groups.
pub const CASES: &[Case] = &[
    Case::new(&[Some(&[200, 40]), Some(&[4, 136, 40]), Some(&[4])])
        .values(&[("ends", &[3.0, 3.0, 150.0, 200.0])]),
    Case::new(&[Some(&[1, 8]), Some(&[1, 1, 8]), Some(&[1])]).values(&[("ends", &[1.0])]),
    Case::new(&[Some(&[140, 72]), Some(&[3, 264, 72]), Some(&[3])])
        .values(&[("ends", &[0.0, 140.0, 140.0])])
        .options(&[tile("128x256 pairs")]),
    Case::new(&[Some(&[258, 16]), Some(&[2, 24, 16]), Some(&[2])])
        .values(&[("ends", &[129.0, 258.0])])
        .options(&[tile("128x256")]),
    Case::new(&[Some(&[3, 70, 24]), Some(&[3, 40, 24]), Some(&[3])]).values(&[("ends", &[70.0, 0.0, 5.0])]),
    Case::new(&[Some(&[5, 0]), Some(&[2, 9, 0]), Some(&[2])]).values(&[("ends", &[2.0, 5.0])]),
    Case::new(&[Some(&[0, 16]), Some(&[2, 9, 16]), Some(&[2])]).values(&[("ends", &[0.0, 0.0])]),
];

/// Lists: of whole tiles, ragged ones and none; of one product; with a gap.
pub const PAIRS: &[Case] = &[
    Case::new(&[
        Some(&[200, 72]),
        Some(&[264, 72]),
        Some(&[1, 8]),
        Some(&[9, 8]),
        Some(&[0, 16]),
        Some(&[5, 16]),
        Some(&[65, 130]),
        Some(&[40, 130]),
    ]),
    Case::new(&[Some(&[3, 20]), Some(&[17, 20]), None, None, None, None, None, None]),
    Case::new(&[Some(&[2, 0]), Some(&[9, 0]), None, None, Some(&[130, 264]), Some(&[24, 264]), None, None]),
];

/// Four layers of adapters of different ranks, and the projections of a layer.
pub const BENCH_PAIRS: &[Case] = &[Case::new(&[
    Some(&[4096, 4096]),
    Some(&[4096, 4096]),
    Some(&[4096, 4096]),
    Some(&[1024, 4096]),
    Some(&[4096, 4096]),
    Some(&[1024, 4096]),
    Some(&[512, 14_336]),
    Some(&[4096, 14_336]),
])];

/// The experts of models: 8 even ones, and 64 and 128 uneven ones.
pub const BENCH: &[Case] = &[
    Case::new(&[Some(&[8192, 4096]), Some(&[8, 4096, 4096]), Some(&[8])]).values(&[("ends", &EVEN)]),
    Case::new(&[Some(&[8192, 4096]), Some(&[64, 2048, 4096]), Some(&[64])]).values(&[("ends", &UNEVEN_64)]),
    Case::new(&[Some(&[16_384, 2048]), Some(&[128, 1536, 2048]), Some(&[128])])
        .values(&[("ends", &UNEVEN_128)]),
];

const EVEN: [f64; 8] = ends::<8>(8192, false);
pub const UNEVEN_64: [f64; 64] = ends::<64>(8192, true);
const UNEVEN_128: [f64; 128] = ends::<128>(16_384, true);

/// The ends of groups with `rows` rows in all: of equal sizes, or of sizes with weights from 1 to
/// 16 in an order without a pattern.
const fn ends<const GROUPS: usize>(rows: u64, uneven: bool) -> [f64; GROUPS] {
    let (mut ends, mut weights, mut total, mut g) = ([0.0; GROUPS], [1; GROUPS], 0, 0);
    while g < GROUPS {
        if uneven {
            weights[g] = 1 + ((g as u64 * 2_654_435_761) >> 7) % 16;
        }
        total += weights[g];
        g += 1;
    }
    let mut sum = 0;
    g = 0;
    while g < GROUPS {
        sum += weights[g];
        ends[g] = (sum * rows / total) as f64;
        g += 1;
    }
    ends
}
