//! The steps of the ladder, and the guide's statements about them.

use super::{FMA, TF32, function, names};
use moye_build::report::KernelReport;
use std::collections::{BTreeMap, BTreeSet};

const LDMATRIX_X2: &str = "ldmatrix.sync.aligned.m8n8.x2.shared.b16";
const LDMATRIX_X4: &str = "ldmatrix.sync.aligned.m8n8.x4.shared.b16";
const CP_ASYNC: &str = "cp.async.ca.shared.global";
const CP_ASYNC_L2: &str = "cp.async.cg.shared.global";
const F16: &str = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";

/// The steps of the ladder in `kernels::ladder`: instructions with their counts.
pub const LADDER: &[(&str, &[(&str, usize)])] = &[
    // As `copy`, which is compiled for both architectures.
    (
        "ladder_plain_copy",
        &[
            ("ld.global.b32", 4),
            ("st.shared.b32", 4),
            ("ld.shared.b32", 4),
            ("st.global.b32", 4),
            ("bar.sync", 1),
        ],
    ),
    // 256 threads, each with 64 accumulators over 8 elements along K. 4 loads of A and 4 of B for
    // each thread and tile, before the loop and in it; 4 + 16 operands for 64 products.
    (
        "ladder_tiled",
        &[(FMA, 512), ("ld.global.b32", 16), ("st.shared.b32", 8), ("ld.shared.b32", 160), ("bar.sync", 2)],
    ),
    // Half of that, by pairs; single elements only where an edge crosses a pair.
    (
        "ladder_vectorized_64",
        &[(FMA, 512), ("ld.global.b64", 8), ("st.shared.b64", 4), ("st.shared", 4), ("ld.shared.b32", 160)],
    ),
    // A quarter, by fours.
    (
        "ladder_vectorized_128",
        &[
            (FMA, 512),
            ("ld.global.v4.b32", 4),
            ("st.shared.v4.b32", 2),
            ("st.shared", 2),
            ("ld.shared.b32", 160),
        ],
    ),
    // 2 + 2 copies of 8 bytes, before and in the loop, through no register; 8 + 8 operands for 64
    // products.
    (
        "ladder_overlapped",
        &[
            (FMA, 512),
            (CP_ASYNC, 8),
            ("ld.global", 0),
            ("st.shared", 0),
            ("ld.shared.b32", 128),
            ("cp.async.wait_group", 2),
            ("bar.sync", 2),
        ],
    ),
    // Two tiles before the loop and one in it, 2 + 2 copies each; one barrier before it, one for
    // each tile; the operands of a tile's first step, 4 + 16, once before and once in the loop.
    (
        "ladder_double_buffered",
        &[
            (FMA, 512),
            (CP_ASYNC, 3 * 4),
            ("ld.global", 0),
            ("ld.shared.b32", 160 + 20),
            ("cp.async.wait_group", 3),
            ("bar.sync", 2),
        ],
    ),
    ("ladder_tf32_tile", &[(TF32, 1), ("ld.shared.b32", 4 + 2), (CP_ASYNC, 4), (FMA, 0)]),
    (
        "ladder_tf32_ldmatrix",
        &[(TF32, 1), (LDMATRIX_X4, 1), (LDMATRIX_X2, 1), ("ld.shared", 0), (CP_ASYNC, 4)],
    ),
    // A warp computes 64 x 64, 4 x 8 atoms, in 2 steps; 4 + 4 copies of 16 bytes for each tile;
    // fragments of 2 steps, the first once more before the loop.
    (
        "ladder_tf32_nn",
        &[(TF32, 64), (LDMATRIX_X4, 3 * 4), ("ld.shared.b32", 3 * 16), (CP_ASYNC, 3 * 8), ("bar.sync", 2)],
    ),
    (
        "ladder_tf32_tn",
        &[(TF32, 64), (LDMATRIX_X4, 3 * (4 + 4)), ("ld.shared", 0), (CP_ASYNC, 3 * 8), ("bar.sync", 2)],
    ),
];

/// The steps whose kernels are elsewhere: the first, which is compiled for both architectures, and
/// the last.
const OTHERS: &[(&str, &[(&str, usize)])] = &[
    // 256 threads, each with 4 elements of a 32 x 32 tile.
    (
        "copy",
        &[
            ("ld.global.b32", 4),
            ("st.shared.b32", 4),
            ("ld.shared.b32", 4),
            ("st.global.b32", 4),
            ("bar.sync", 1),
        ],
    ),
    (
        "copy_async",
        &[
            (CP_ASYNC, 4),
            ("ld.global", 0),
            ("st.shared", 0),
            ("ld.shared.b32", 4),
            ("cp.async.wait_group", 1),
            ("bar.sync", 1),
        ],
    ),
    (
        "transpose",
        &[
            ("ld.global.b32", 4),
            ("st.shared.b32", 4),
            ("ld.shared.b32", 4),
            ("st.global.b32", 4),
            ("bar.sync", 1),
        ],
    ),
    // 4 copies of A and 4 of B; 8 + 8 operands for 64 products.
    (
        "matmul_f32_nt",
        &[
            (FMA, 512),
            (CP_ASYNC, 8),
            ("ld.global", 0),
            ("ld.shared.b32", 128),
            ("cp.async.wait_group", 1),
            ("bar.sync", 2),
        ],
    ),
    // A warp computes 64 x 64, 4 x 8 atoms, in 4 steps, and a step once more at an edge; fragments
    // of those and of the first step before the loop; 8 + 4 copies of 16 bytes for each tile, of
    // two before and of one in each loop.
    (
        "matmul_f16_tn",
        &[(F16, 4 * 32 + 32), (LDMATRIX_X4, 6 * (4 + 4)), (CP_ASYNC_L2, 4 * 12), ("st.global.v4.b32", 2)],
    ),
    (
        "matmul_tf32_tn",
        &[(TF32, 4 * 32 + 32), (LDMATRIX_X4, 6 * (4 + 4)), (CP_ASYNC_L2, 4 * 12), ("st.global.v4.b32", 1)],
    ),
];

#[test]
fn the_steps_of_the_ladder_have_the_instructions_that_they_exist_for() {
    for (name, counts) in LADDER.iter().chain(OTHERS) {
        let kernel = function("sm_80", name);
        for &(instruction, count) in *counts {
            assert_eq!(
                kernel.count(instruction),
                count,
                "{instruction} of {name}: {:?}",
                kernel.instructions
            );
        }
    }
    let steps = names("sm_80").iter().filter(|name| name.starts_with("ladder_")).count();
    assert_eq!(steps, LADDER.len(), "every step is in the table");
}

/// `16x32 4x128`: the number of accesses of each width in bits, in any order.
fn accesses(cell: &str) -> BTreeMap<usize, usize> {
    let number = |text: &str| text.parse::<usize>().unwrap();
    cell.split(' ')
        .filter_map(|part| part.split_once('x'))
        .map(|(n, bits)| (number(bits), number(n)))
        .collect()
}

#[test]
fn the_guide_to_the_ladder_has_the_numbers_of_the_ptx() {
    let guide = include_str!("../../../docs/guide/ladder.md");
    let head = "| kernel | registers | threads | shared | ld.global | st.shared | ld.shared | ldmatrix | cp.async | fma | mma | bar | st.global | all |";
    let table = guide.split(head).nth(1).expect("the guide has a table of the PTX");
    let rows: Vec<_> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    let steps: BTreeSet<_> = LADDER.iter().chain(OTHERS).map(|(name, _)| format!("`{name}`")).collect();
    let named: BTreeSet<_> =
        rows.iter().map(|row| row.trim_matches('|').split('|').next().unwrap().trim().to_owned()).collect();
    assert_eq!((&named, rows.len()), (&steps, steps.len()), "a row for each step");
    for row in rows {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [
            name,
            _,
            threads,
            shared,
            ld_global,
            st_shared,
            ld_shared,
            ldmatrix,
            cp_async,
            fma,
            mma,
            bar,
            st_global,
            all,
        ] = cells[..]
        else {
            panic!("{row}")
        };
        let kernel = function("sm_80", name.trim_matches('`'));
        let report = KernelReport { ptx: kernel.clone(), usage: None };
        let number = |cell: &str| cell.parse::<usize>().unwrap();
        assert_eq!(kernel.bounds.threads, Some(number(threads) as u32), "{row}");
        assert_eq!(kernel.bounds.shared, Some(number(shared) as u32), "{row}");
        for (instruction, cell) in [
            ("ld.global", ld_global),
            ("st.shared", st_shared),
            ("ld.shared", ld_shared),
            ("st.global", st_global),
        ] {
            assert_eq!(report.widths(instruction), accesses(cell), "{instruction}: {row}");
        }
        let copies = kernel.count_where(|name| name.starts_with("cp.async") && name.contains(".shared"));
        let counts = [
            kernel.count("ldmatrix"),
            copies,
            kernel.count("fma"),
            kernel.count("mma"),
            kernel.count("bar"),
            kernel.len(),
        ];
        assert_eq!(counts, [ldmatrix, cp_async, fma, mma, bar, all].map(number), "{row}");
    }
}
