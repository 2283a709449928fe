//! Sectors and bank conflicts of accesses whose answers are known.

use moye_device::analysis::*;
use moye_device::layout::*;

/// Offsets in shared memory by `(thread, value)`: `tv` maps to coordinates of a tile whose layout
/// is `memory`.
fn in_memory(memory: Layout, tv: Layout) -> ComposedLayout {
    ComposedLayout::plain(composition(memory, tv))
}

/// The conflict degree of one 4-byte access of a warp in which lane `i` accesses element
/// `element(i)`.
fn degree_of_words(element: impl Fn(i64) -> i64) -> u32 {
    let addresses: Vec<i64> = (0..32).map(|lane| 4 * element(lane)).collect();
    WarpAccess::new(&addresses, 4).conflict_degree()
}

#[test]
fn a_row_of_a_column_major_tile_is_one_bank_and_padding_frees_it() {
    let column = layout!((32, 1):(1, 32));
    let row = layout!((32, 1):(32, 1));
    let plain = layout!((32, 32):(1, 32));
    let padded = layout!((32, 32):(1, 33));
    assert!(
        shared_access(in_memory(plain, column), 32, 1).is_conflict_free(),
        "a column is 32 consecutive words"
    );
    assert_eq!(shared_access(in_memory(plain, row), 32, 1).conflict_degree(), 32, "a row is one bank");
    assert!(shared_access(in_memory(padded, column), 32, 1).is_conflict_free());
    let row = shared_access(in_memory(padded, row), 32, 1);
    assert!(row.is_conflict_free(), "a padded row takes each bank once: {row:?}");
    assert_eq!((row.wavefronts, row.fewest_wavefronts), (1, 1));
}

#[test]
fn words_conflict_by_the_common_divisor_of_stride_and_banks() {
    for stride in 1..=64 {
        let divisor = (1..=32).rev().find(|d| stride % d == 0 && 32 % d == 0).unwrap();
        assert_eq!(degree_of_words(|lane| lane * stride), divisor as u32, "stride {stride}");
    }
    assert_eq!(degree_of_words(|_| 5), 1, "one word is given to all lanes");
    assert_eq!(degree_of_words(|lane| lane / 2 * 32), 16, "16 words of one bank, each for two lanes");
}

#[test]
fn narrow_accesses_share_words() {
    let bytes: Vec<i64> = (0..32).collect();
    assert_eq!(WarpAccess::new(&bytes, 1).conflict_degree(), 1, "four lanes share a word");
    let halves: Vec<i64> = (0..32).map(|lane| 2 * 64 * lane).collect();
    assert_eq!(WarpAccess::new(&halves, 2).conflict_degree(), 32, "each lane's word is in bank 0");
}

#[test]
fn wide_accesses_go_in_phases() {
    let wide = |bytes: i64, stride: i64| {
        let addresses: Vec<i64> = (0..32).map(|lane| lane * stride).collect();
        let access = WarpAccess::new(&addresses, bytes);
        (access.phases(), access.wavefronts(), access.conflict_degree())
    };
    assert_eq!(wide(8, 8), (2, 2, 1), "half a warp fills the banks with 8 bytes a lane");
    assert_eq!(wide(16, 16), (4, 4, 1), "a quarter of a warp fills them with 16");
    assert_eq!(wide(16, 128), (4, 32, 8), "rows of 128 bytes: all lanes of a phase ask the same four banks");
    assert_eq!(wide(8, 256), (2, 32, 16));
    assert_eq!(wide(16, 144), (4, 4, 1), "rows padded by 16 bytes");
    assert_eq!(wide(16, 0), (4, 4, 1), "one address for all");
}

#[test]
fn rows_of_ldmatrix_conflict_unless_swizzled_or_padded() {
    // A tile of 8 or 32 rows of 64 f16, K-major: lane i passes the start of row i.
    for rows in [layout!(8:64), layout!(16:64), layout!(32:64)] {
        assert_eq!(matrix_access(ComposedLayout::plain(rows), 16).conflict_degree(), 8, "{rows}");
        let swizzled = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, rows);
        assert!(matrix_access(swizzled, 16).is_conflict_free(), "{swizzled}");
    }
    assert!(
        matrix_access(ComposedLayout::plain(layout!(32:72)), 16).is_conflict_free(),
        "padded by 8 elements"
    );
    let half = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!(8:64));
    assert_eq!(matrix_access(half, 16).conflict_degree(), 2, "two bits of swizzle leave pairs");
    // Swizzle<3,4,3> of bytes is Swizzle<3,3,3> of f16 and Swizzle<3,2,3> of f32.
    let words = ComposedLayout::new(Swizzle::new(3, 2, 3), 0, layout!(32:32));
    assert!(matrix_access(words, 32).is_conflict_free());
}

#[test]
fn every_shared_memory_atom_is_read_by_ldmatrix_without_conflicts() {
    for swizzle in [SwizzleBytes::None, SwizzleBytes::B32, SwizzleBytes::B64, SwizzleBytes::B128] {
        for bits in [8, 16, 32] {
            let atom = shared_memory_atom(Major::K, swizzle, bits);
            // Column `p` of 16 bytes in each of the 8 rows.
            for piece in 0..swizzle.bytes() / 16 {
                let rows: Vec<i64> =
                    (0..8).map(|row| atom.at_coord([row, piece * 128 / bits]) * bits / 8).collect();
                let access = WarpAccess::new(&rows, 16);
                assert_eq!(access.conflict_degree(), 1, "{swizzle:?}, {bits} bits, piece {piece}: {rows:?}");
            }
        }
    }
}

#[test]
fn coalesced_copies_move_each_sector_once() {
    // 256 threads over a column-major tile of 128 x 8 f32.
    let consecutive = layout!((256, 4):(1, 256));
    let report = global_access(consecutive, 32, 1);
    assert!(report.is_coalesced());
    assert_eq!((report.requests, report.sectors_per_request()), (32, 4), "32 words of 4 bytes are 4 sectors");
    let vectors = global_access(layout!((256, 4):(4, 1)), 32, 4);
    assert!(vectors.is_coalesced());
    assert_eq!(
        (vectors.requests, vectors.sectors_per_request()),
        (8, 16),
        "32 vectors of 16 bytes are 16 sectors"
    );
    // The same elements one by one: adjacent lanes are 16 bytes apart.
    let strided = global_access(layout!((256, 4):(4, 1)), 32, 1);
    assert!(!strided.is_coalesced());
    assert_eq!((strided.sectors_per_request(), strided.fewest_sectors), (16, 128));
    // A row of a column-major matrix: a sector for every element.
    let row = global_access(layout!((32, 1):(1024, 1)), 32, 1);
    assert_eq!((row.sectors, row.fewest_sectors), (32, 4));
    // Half a warp.
    let half = global_access(layout!((16, 1):(1, 0)), 32, 1);
    assert_eq!((half.requests, half.sectors), (1, 2));
}

#[test]
fn what_is_no_access_is_refused_with_its_numbers() {
    let text = |layout, bits, per| try_global_access(layout, bits, per).unwrap_err().to_string();
    assert!(text(layout!(32), 32, 1).contains("rank is 1"));
    let values = text(layout!((32, 6)), 32, 4);
    assert!(
        values.contains("6 values, not a multiple of the 4 of an access; a divisor of 6 would work"),
        "{values}"
    );
    assert!(text(layout!((32, 8):(8, 1)), 32, 8).contains("256 bits; an access has 8, 16, 32, 64 or 128"));
    assert!(text(layout!((32, 8):(8, 1)), -32, -1).contains("-1 of an access"));
    assert!(text(layout!((32, 8):(8, 1)), i64::MAX, 8).contains("an access has 8, 16"));
    assert!(text(layout!((2, 1):(4611686018427387904, 0)), 32, 1).contains("64 bits"));
    assert!(text(layout!((32, 2):(-2, 1)), 32, 2).contains("negative"));
    let scattered = text(layout!((32, 4):(1, 32)), 32, 4);
    assert!(scattered.contains("element 0") && scattered.contains("element 32"), "{scattered}");
    let misaligned = text(layout!((32, 2):(3, 1)), 32, 2);
    assert!(misaligned.contains("thread 1"), "{misaligned}");
}

#[test]
fn what_is_no_request_is_refused_with_its_numbers_and_panics_with_the_same_text() {
    let rows = |layout, bits| try_matrix_access(ComposedLayout::plain(layout), bits).unwrap_err().to_string();
    assert_eq!(rows(layout!(24:8), 16), "24 rows; ldmatrix and stmatrix take 8, 16 or 32");
    let row = "row 1 starts at element 36 of 16 bits; a row of ldmatrix or stmatrix starts at a multiple of 16 bytes";
    assert_eq!(rows(layout!(8:36), 16), row);
    assert!(rows(layout!(8:8), 0).contains("0 bits"));
    assert!(rows(layout!(8:1152921504606846976), 128).contains("64 bits"));
    let lanes = |addresses: &[i64], bytes| WarpAccess::try_new(addresses, bytes).unwrap_err().to_string();
    assert_eq!(lanes(&[0; 33], 4), "33 addresses for a warp of 32 lanes; at most 32 would work");
    assert_eq!(lanes(&[0], 3), "a lane's access of 3 bytes; 1, 2, 4, 8 or 16 would work");
    let address = "the address 6 of lane 1 is negative or not a multiple of the 4 bytes of the access; a multiple from 0 on \
                   would work";
    assert_eq!(lanes(&[0, 6], 4), address);
    assert!(lanes(&[-4], 4).contains("-4 of lane 0"));

    fn panic<T>(plain: impl FnOnce() -> T + std::panic::UnwindSafe) -> Option<String> {
        let panic = std::panic::catch_unwind(plain).err()?;
        panic.downcast_ref::<String>().cloned().or(panic.downcast_ref::<&str>().map(|text| text.to_string()))
    }
    assert_eq!(panic(|| matrix_access(ComposedLayout::plain(layout!(8:36)), 16)).as_deref(), Some(row));
    assert_eq!(panic(|| WarpAccess::new(&[0, 6], 4)).as_deref(), Some(address));
    let values = panic(|| global_access(layout!((32, 6)), 32, 4));
    assert!(values.is_some_and(|text| text.contains("6 values, not a multiple of the 4")));
}

#[test]
fn the_report_of_random_accesses_is_what_counting_finds() {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as i64
    };
    for bytes in [1, 2, 4, 8, 16] {
        for _ in 0..200 {
            let range = [8, 64, 1024][next() as usize % 3];
            let addresses: Vec<i64> = (0..32).map(|_| next() % range * bytes).collect();
            let access = WarpAccess::new(&addresses, bytes);
            let count = |block: i64| {
                let mut blocks: Vec<i64> = addresses.iter().map(|a| a / block).collect();
                blocks.sort_unstable();
                blocks.dedup();
                blocks.len() as u32
            };
            assert_eq!(access.sectors(), count(SECTOR_BYTES));
            let degrees: Vec<u32> = addresses
                .chunks(if bytes < 8 { 32 } else { 128 / bytes as usize })
                .map(|phase| {
                    let mut words: Vec<i64> =
                        phase.iter().flat_map(|a| a / 4..=(a + bytes - 1) / 4).collect();
                    words.sort_unstable();
                    words.dedup();
                    let in_bank = |bank| words.iter().filter(|w| *w % BANKS == bank).count() as u32;
                    (0..BANKS).map(in_bank).max().unwrap()
                })
                .collect();
            assert_eq!(
                access.conflict_degree(),
                *degrees.iter().max().unwrap(),
                "{bytes} bytes at {addresses:?}"
            );
            assert_eq!(access.wavefronts(), degrees.iter().sum::<u32>(), "{bytes} bytes at {addresses:?}");
        }
    }
}
