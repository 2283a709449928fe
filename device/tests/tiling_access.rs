//! The cost of tiled copies in memory: the coalesced and uncoalesced copies of MoYe's page on tiled
//! products cost what the page says, padding and swizzles remove bank conflicts, and the report
//! agrees with counting.

use half::f16;
use moye_device::analysis::{AccessReport, BANKS, SECTOR_BYTES};
use moye_device::atom::copy::*;
use moye_device::atom::mma::{SM80_16x8x8_F32TF32TF32F32_TN, SM80_16x8x16_F32F16F16F32_TN, UniversalFma};
use moye_device::atom::{Operand, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::{ComposedLayout, Layout, Swizzle, layout, tuple};
use moye_device::memory::Storable;

/// A tile of 128 x 8 of a column-major matrix of 2048 rows.
const IN_MATRIX: Layout = layout!((128, 8):(1, 2048));

type Doubles = TiledCopy<UniversalCopy<f64>, f32>;
type Vectors = TiledCopy<UniversalCopy<u128>, f32>;

/// "Vectorized copy": f32, moved as f64, four values per thread. Adjacent threads start 16 bytes
/// apart, and each accesses 8.
const UNCOALESCED: Doubles = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
/// Two values per thread: each starts where the previous thread ended.
const COALESCED_2: Doubles = TiledCopy::new(layout!((32, 8)), layout!((2, 1)));
/// Four values per thread, moved at once.
const COALESCED_4: Vectors = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));

const _: () = assert!(!UNCOALESCED.is_coalesced(IN_MATRIX));
const _: () = assert!(COALESCED_2.is_coalesced(IN_MATRIX));
const _: () = assert!(COALESCED_4.is_coalesced(IN_MATRIX));

fn plain(layout: Layout) -> ComposedLayout {
    ComposedLayout::plain(layout)
}

#[test]
fn the_vectorized_copies_are_coalesced_as_moye_says() {
    let bad = UNCOALESCED.access_s(plain(IN_MATRIX));
    // Threads 0 and 1 (MoYe: 1 and 2) read elements 0, 1 and 4, 5 first: half of every sector.
    assert_eq!(
        (bad.requests, bad.sectors_per_request(), bad.sectors, bad.fewest_sectors),
        (16, 16, 256, 128)
    );
    let good = COALESCED_2.access_s(plain(IN_MATRIX));
    assert_eq!((good.requests, good.sectors_per_request(), good.sectors), (16, 8, 128));
    let best = COALESCED_4.access_s(plain(IN_MATRIX));
    assert_eq!((best.requests, best.sectors_per_request(), best.sectors), (8, 16, 128));
    // Along a row of a column-major matrix, every element is in a different sector.
    let across = TiledCopy::<UniversalCopy<f32>, f32>::new(layout!((8, 32):(32, 1)), layout!((1, 1)));
    let report = across.access_s(plain(layout!((32, 32):(1, 2048))));
    assert_eq!((report.sectors_per_request(), report.is_coalesced()), (32, false));
}

#[test]
fn the_copy_of_4x9_is_coalesced_in_its_vector_form_alone() {
    let one = TiledCopy::<UniversalCopy<f64>, f64>::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2)));
    let two = TiledCopy::<UniversalCopy<u128>, f64>::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2)));
    // Rows 0 and 2 of columns 0, 3 and 6: 48 bytes in three sectors. With the rows below them, 96
    // bytes in three.
    assert_eq!(one.access_s(plain(layout!((4, 9)))).sectors_per_request(), 3);
    assert!(!one.is_coalesced(layout!((4, 9))) && two.is_coalesced(layout!((4, 9))));
    assert_eq!(two.access_s(plain(layout!((4, 9)))).requests, 3);
}

#[test]
fn padding_frees_a_transpose_of_conflicts() {
    let rows = TiledCopy::<UniversalCopy<f32>, f32>::new(layout!((8, 32):(32, 1)), layout!((1, 1)));
    assert_eq!(rows.access_s(plain(layout!((32, 32)))).conflict_degree(), 32);
    assert!(rows.access_s(plain(layout!((32, 32):(1, 33)))).is_conflict_free());
    // MoYe's page on copies pads with a stride of 31, which lets the columns overlap; 33 is meant,
    // as in its transpose.
    assert!(layout!((32, 32):(1, 31)).cosize() < 32 * 32);
    // Stores down the columns conflict in neither.
    let columns = TiledCopy::<UniversalCopy<f32>, f32>::new(layout!((32, 8)), layout!((1, 1)));
    for tile in [layout!((32, 32)), layout!((32, 32):(1, 33))] {
        assert!(columns.access_d(plain(tile)).is_conflict_free(), "{tile}");
    }
}

#[test]
fn padding_by_one_element_takes_no_vectors_and_the_error_says_so() {
    let padded = plain(layout!((128, 8):(1, 129)));
    let error = COALESCED_4.try_access_d(padded).unwrap_err().to_string();
    for part in ["UniversalCopy", "4 elements of 32 bits", "(128,8):(1,129)", "multiples of 4"] {
        assert!(error.contains(part), "{error}");
    }
    let by_four = COALESCED_4.access_d(plain(layout!((128, 8):(1, 132))));
    assert!(by_four.is_conflict_free());
    let along_k =
        Vectors::new(layout!((128, 2)), layout!((1, 4))).try_access_s(plain(IN_MATRIX)).unwrap_err();
    assert!(along_k.text().contains("elements 0 and 2048"), "{along_k}");
}

type LdmatrixA = TiledCopy<SM75_U32x4_LDSM_N, f16>;

const A_F16: LdmatrixA =
    make_tiled_copy_a(&TiledMma::<SM80_16x8x16_F32F16F16F32_TN>::tiled(layout!((2, 2, 1)), [32, 32, 16]));

const SWIZZLED: ComposedLayout =
    ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((128, 64)));

// The form in which a kernel asserts it.
const _: () = assert!(A_F16.access_s(SWIZZLED).is_conflict_free());

#[test]
fn ldmatrix_conflicts_eightfold_unless_swizzled_or_padded() {
    // K-major rows of 64 f16, 128 bytes: the eight rows of a matrix start in one bank.
    let tile = A_F16.access_s(plain(layout!((128, 64):(64, 1))));
    assert_eq!((tile.conflict_degree(), tile.requests), (8, 4 * 4 * 4), "4 warps, 4 x 4 tiles of 32 x 16");
    assert_eq!((tile.wavefronts, tile.fewest_wavefronts), (8 * 4 * 64, 4 * 64));
    let swizzled = A_F16.access_s(SWIZZLED);
    assert_eq!((swizzled.conflict_degree(), swizzled.wavefronts), (1, 4 * 64));
    assert!(A_F16.access_s(plain(layout!((128, 64):(72, 1)))).is_conflict_free());
    // A swizzle of two bits leaves pairs.
    let two = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((128, 64):(64, 1)));
    assert_eq!(A_F16.access_s(two).conflict_degree(), 2);
    // M-major rows are no rows of ldmatrix.
    let error = A_F16.try_access_s(plain(layout!((128, 64)))).unwrap_err().to_string();
    assert!(error.contains("SM75_U32x4_LDSM_N") && error.contains("elements 0 and 128"), "{error}");
    // The destination is in registers.
    let error = A_F16.try_access_d(plain(layout!((128, 64)))).unwrap_err().to_string();
    assert!(error.contains("registers"), "{error}");
}

#[test]
fn the_tiles_of_moyes_tf32_product_conflict() {
    type Mma = TiledMma<SM80_16x8x8_F32TF32TF32F32_TN>;
    let mma = Mma::tiled(layout!((2, 2, 1)), [32, 32, 8]);
    let b: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_b(&mma);
    // MoYe's page has B K-major in rows of 16 or 32 f32: 64 bytes apart every second row shares
    // banks, 128 all do.
    assert_eq!(b.access_s(plain(layout!((128, 16):(16, 1)))).conflict_degree(), 4);
    assert_eq!(b.access_s(plain(layout!((128, 32):(32, 1)))).conflict_degree(), 8);
    let swizzled = ComposedLayout::new(Swizzle::new(3, 2, 3), 0, layout!((8, 32):(32, 1)));
    assert!(b.access_s(swizzled.tile_to_shape(tuple!((128, 32)))).is_conflict_free());
    // x2 of one warp: lanes 16 to 31 pass no rows.
    let x2: TiledCopy<SM75_U32x2_LDSM_N, f32> = make_tiled_copy_b(&Mma::new(layout!((1, 1, 1))));
    let report = x2.access_s(plain(layout!((8, 8):(8, 1))));
    assert_eq!((report.requests, report.fewest_wavefronts, report.conflict_degree()), (1, 2, 2));
}

#[test]
fn stmatrix_is_judged_by_its_destination() {
    let copy = TiledCopy::<SM90_U32x4_STSM_N, f16>::new(layout!((32, 1)), layout!((1, 8)));
    let tile = layout!((32, 8):(64, 1));
    // The four matrices are side by side in no K-major tile of this copy: its rows run down the
    // column.
    assert!(copy.try_access_d(plain(layout!((32, 64):(64, 1)))).is_err());
    assert!(copy.try_access_s(plain(tile)).is_err(), "its source is in registers");
    let rows = make_tiled_copy_a::<SM90_U32x4_STSM_N, f16, SM80_16x8x16_F32F16F16F32_TN>(&TiledMma::new(
        layout!((1, 1, 1)),
    ));
    let report = rows.access_d(plain(layout!((16, 64):(64, 1))));
    assert_eq!((report.requests, report.conflict_degree()), (4, 8));
}

#[test]
fn an_atom_without_a_width_has_no_report() {
    let copy = TiledCopy::<AutoVectorizingCopy, f32>::new(layout!((32, 8)), layout!((4, 1)));
    let error = copy.try_access_s(plain(IN_MATRIX)).unwrap_err().to_string();
    assert!(error.contains("UniversalCopy of a type"), "{error}");
}

/// The requests of a tiled copy's source, counted one by one from each thread's partition.
fn counted<A: CopyAtom, T: Storable>(
    copy: &TiledCopy<A, T>,
    tensor: ComposedLayout,
    bytes: i64,
) -> AccessReport {
    let per = bytes * 8 / T::BITS;
    let parts = copy.tidfrg_s(tensor.layout);
    let (threads, part) = (parts.mode(0), copy.partition_s(tensor.layout));
    let mut report = AccessReport::default();
    for warp in (0..threads.size()).step_by(32) {
        let lanes = warp..threads.size().min(warp + 32);
        for value in (0..part.size()).step_by(per as usize) {
            let starts: Vec<i64> = lanes
                .clone()
                .map(|lane| tensor.swizzle.apply(threads.at(lane) + part.at(value)) * T::BITS / 8)
                .collect();
            let blocks = |block: i64| {
                let mut blocks: Vec<i64> = starts.iter().map(|start| start / block).collect();
                blocks.sort_unstable();
                blocks.dedup();
                blocks.len() as u32
            };
            let sectors = blocks(SECTOR_BYTES);
            let fewest = (i64::from(blocks(bytes)) * bytes + SECTOR_BYTES - 1) / SECTOR_BYTES;
            let phase = if bytes < 8 { 32 } else { (128 / bytes) as usize };
            let degrees = starts.chunks(phase).map(|phase| {
                let mut words: Vec<i64> =
                    phase.iter().flat_map(|start| start / 4..=(start + bytes - 1) / 4).collect();
                words.sort_unstable();
                words.dedup();
                (0..BANKS)
                    .map(|bank| words.iter().filter(|word| *word % BANKS == bank).count() as u32)
                    .max()
                    .unwrap()
            });
            report.requests += 1;
            report.sectors += sectors;
            report.most_sectors = report.most_sectors.max(sectors);
            report.fewest_sectors += fewest as u32;
            report.wavefronts += degrees.clone().sum::<u32>();
            report.fewest_wavefronts += starts.chunks(phase).len() as u32;
            report.degree = report.degree.max(degrees.max().unwrap());
        }
    }
    report
}

#[test]
fn the_report_is_what_counting_finds() {
    let mut checked = 0;
    let threads =
        [layout!((32, 8)), layout!((8, 32):(32, 1)), layout!((16, 4):(4, 1)), layout!((2, 3):(3, 1))];
    let values = [layout!((4, 1)), layout!((4, 2)), layout!((1, 4)), layout!((8, 1)), layout!((4, 2):(2, 1))];
    let leading = [0, 1, 4, 8];
    let swizzles =
        [None, Some(Swizzle::new(3, 3, 3)), Some(Swizzle::new(2, 2, 3)), Some(Swizzle::new(3, 4, 3))];
    for (threads, values) in threads.iter().flat_map(|t| values.iter().map(move |v| (*t, *v))) {
        for (pad, swizzle) in leading.iter().flat_map(|p| swizzles.iter().map(move |s| (*p, *s))) {
            let mut check = |copy: &dyn Fn(ComposedLayout) -> Option<(AccessReport, AccessReport)>,
                             shape: (i64, i64)| {
                let (m, n) = (2 * shape.0, 3 * shape.1);
                for tensor in [
                    Layout::parse(&format!("({m},{n}):(1,{})", m + pad)).unwrap(),
                    Layout::parse(&format!("({m},{n}):({},1)", n + pad)).unwrap(),
                ] {
                    let tensor = match swizzle {
                        Some(swizzle) => ComposedLayout::new(swizzle, 0, tensor),
                        None => ComposedLayout::plain(tensor),
                    };
                    if let Some((got, want)) = copy(tensor) {
                        assert_eq!(got, want, "{threads} {values} {tensor}");
                        checked += 1;
                    }
                }
            };
            macro_rules! check {
                ($atom:ty, $element:ty, $bytes:literal) => {
                    if let Ok(copy) = TiledCopy::<UniversalCopy<$atom>, $element>::try_new(threads, values) {
                        let shape = (copy.tile().mode(0).size(), copy.tile().mode(1).size());
                        check(
                            &|tensor| {
                                copy.try_access_s(tensor)
                                    .ok()
                                    .map(|got| (got, counted(&copy, tensor, $bytes)))
                            },
                            shape,
                        );
                    }
                };
            }
            check!(u8, u8, 1);
            check!(u32, u8, 4);
            check!(f16, f16, 2);
            check!(u64, f16, 8);
            check!(u128, f16, 16);
            check!(f32, f32, 4);
            check!(u128, f32, 16);
            check!(u128, f64, 16);
        }
    }
    assert!(checked > 2000, "{checked}");
}

#[test]
fn a_tiled_mma_and_the_copy_made_of_it_have_the_same_accesses() {
    const MMA: TiledMma<SM80_16x8x8_F32TF32TF32F32_TN> =
        TiledMma::tiled(layout!((2, 2, 1):(2, 1, 1)), [32, 32, 8]);
    const A: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_a(&MMA);
    const B: TiledCopy<UniversalCopy<f32>, f32> = make_tiled_copy_b(&MMA);
    for tile in [layout!((128, 16)), layout!((128, 16):(1, 136)), layout!((128, 16):(16, 1))] {
        let degrees = |operand| MMA.access::<f32>(operand, plain(tile)).conflict_degree();
        assert_eq!(degrees(Operand::A), A.access_s(plain(tile)).conflict_degree(), "A in {tile}");
        assert_eq!(degrees(Operand::B), B.access_s(plain(tile)).conflict_degree(), "B in {tile}");
    }
    let odd = MMA.try_access::<f32>(Operand::A, plain(layout!((100, 16)))).unwrap_err().to_string();
    assert!(odd.contains("does not divide the tensor (100,16)"), "{odd}");
}

#[test]
fn an_expectation_that_is_broken_names_its_numbers_and_the_way_out() {
    let message = |check: fn()| *std::panic::catch_unwind(check).unwrap_err().downcast::<String>().unwrap();
    let uncoalesced = message(|| UNCOALESCED.access_s(plain(IN_MATRIX)).expect_coalesced());
    assert!(uncoalesced.contains("move 256 sectors of global memory where 128 hold"), "{uncoalesced}");
    assert!(uncoalesced.contains("along the contiguous axis"), "{uncoalesced}");
    let conflict = message(|| {
        const MMA: TiledMma<UniversalFma<f32>> = TiledMma::new(layout!((32, 8, 1)));
        MMA.access::<f32>(Operand::A, plain(layout!((128, 8):(8, 1)))).expect_conflict_free();
    });
    assert!(conflict.contains("needs 8 words of one bank"), "{conflict}");
    assert!(conflict.contains("pad or swizzle the tile"), "{conflict}");
    COALESCED_4.access_s(plain(IN_MATRIX)).expect_coalesced();
    COALESCED_4.access_d(plain(layout!((128, 8):(1, 132)))).expect_conflict_free();
}
