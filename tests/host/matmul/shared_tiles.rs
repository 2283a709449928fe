//! Stream-K tiles, each computed by several clusters.
//!
//! Operands are small integers, so every sum is exact in f32 and any two orders of summation
//! produce the same bits.

use crate::common::matrix::{dot, rng};
use crate::common::product::Number;
use crate::common::{devices, gpu, in_turn, say};
use half::f16;
use moye::kernels::hopper::{
    Cut, Sharing, wgmma_f16_tn, wgmma_f16_tn_128x128, wgmma_f16_tn_128x192, wgmma_f16_tn_256x128,
    wgmma_f16_tn_alone,
};
use moye::kernels::mma::Arguments;
use moye::number::{F8E4M3, F8E5M2};
use moye::{
    Buffer, Device, Global, GlobalMut, Grid, Kernel, Matmul, Matrix, MatrixMut, Operand, Output,
    TensorElement, TensorMap, TensorMapFields, TensorSwizzle,
};
use moye_device::memory::TensorMap as TensorMapParameter;
use rand::RngExt;
use rstest::rstest;

/// Integers from -4 to 4.
pub fn whole(count: usize, seed: usize) -> Vec<f16> {
    let mut rng = rng(&[count, seed]);
    (0..count).map(|_| f16::from_f32(rng.random_range(-4..=4) as f32)).collect()
}

/// Compares some rows of C, including the first and the last, with f64 accumulators.
pub fn compare<T: Number, U: Number>(
    what: &str,
    (a, b): (&[T], &[T]),
    c: &[U],
    (m, n, k): (usize, usize, usize),
    finish: impl Fn(f64, usize) -> f64,
) {
    let step = m.div_ceil(24);
    let columns: Vec<f64> = b.iter().map(|x| x.value()).collect();
    for i in (0..m).filter(|i| i % step == 0 || *i + 1 == m) {
        let row: Vec<f64> = a[i * k..(i + 1) * k].iter().map(|x| x.value()).collect();
        for j in 0..n {
            let sum = dot(&row, &columns[j * k..][..k]);
            let (got, want) = (c[i * n + j].value(), finish(sum, j));
            assert!(got == want, "{what}: element ({i}, {j}) is {got}, and not {want}");
        }
    }
}

/// M, N and K, and a kernel's tile.
pub type ShapeAndTile = ((usize, usize, usize), (u32, u32));

/// Shapes and tiles for which a device shares tiles.
fn shapes(device: &Device) -> Vec<ShapeAndTile> {
    if device.is_gpu() {
        vec![
            ((4095, 1100, 2056), (128, 256)),
            ((700, 500, 4096), (128, 256)),
            ((1536, 1536, 1536), (128, 128)),
            ((130, 200, 8000), (128, 128)),
            // 34 tiles of pairs for 66, after a full wave: even pieces, and runs.
            ((25_600, 256, 8192), (128, 256)),
        ]
    } else {
        // Three tiles, while 132 run concurrently.
        vec![((128 * 3, 96, 3224), (128, 128)), ((100, 128 * 3 - 30, 3152), (128, 128))]
    }
}

#[test]
fn shared_tiles_have_the_sums_of_all_their_pieces() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for ((m, n, k), tile) in shapes(&device) {
            let (a, b) = (whole(m * k, 1), whole(n * k, 2));
            let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
            let bias = whole(n, 3).iter().map(|x| x.to_f32()).collect::<Vec<_>>();
            let device_bias = device.upload(&bias).unwrap();
            let mut c = device.alloc_uninit::<f32>(m * n).unwrap();
            let product = Matmul::new(
                Matrix::row_major(&device_a, m, k).unwrap(),
                Matrix::col_major(&device_b, k, n).unwrap(),
            )
            .tile(tile.0, tile.1)
            .split_k(1);
            let plan = product.explain(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
            let what = format!("{m} x {n} x {k} by {plan} on {}", device.name());
            assert!(plan.shared_tiles > 0, "{what}: no tile is shared");
            // Twice: the counters of pieces are reset.
            for _ in 0..2 {
                c.fill_bytes(0xFF).unwrap();
                product.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
                compare(&what, (&a, &b), &c.download().unwrap(), (m, n, k), |sum, _| sum);
            }
            // The epilogue is applied once.
            let more = product.clone().alpha(2.0).bias(&device_bias).relu();
            c.fill_bytes(0xFF).unwrap();
            more.run(&device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
            compare(&what, (&a, &b), &c.download().unwrap(), (m, n, k), |sum, j| {
                (2.0 * sum + f64::from(bias[j])).max(0.0)
            });
        }
    }
}

/// Tiles of pairs with 34 left for 66, in one batch and in the last of two, also with integer
/// accumulators and scales. The simulator is too slow for as many.
#[test]
fn half_of_a_round_is_dealt_out_to_all_clusters() {
    fn check<T: Number + Operand, U: Number + Output<T>>(
        device: &Device,
        batches: usize,
        draw: fn(i32) -> T,
    ) {
        let (m, n, k) = (25_600 / batches, 256, 8192);
        let mut rng = rng(&[m, n, k]);
        let mut drawn = |count: usize| (0..count).map(|_| draw(rng.random_range(-2..=2))).collect::<Vec<T>>();
        let (a, b) = (drawn(batches * m * k), drawn(n * k));
        let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut c = device.alloc_uninit::<U>(batches * m * n).unwrap();
        c.fill_bytes(0xFF).unwrap();
        let product = Matmul::new(
            Matrix::row_major(&device_a, m, k).unwrap(),
            Matrix::col_major(&device_b, k, n).unwrap(),
        )
        .batch(batches, [m * k, 0, m * n])
        .tile(128, 256)
        .split_k(1);
        let plan = product.explain(device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
        let what = format!("{batches} x {m} x {n} x {k} of {} by {plan} on {}", T::NAME, device.name());
        assert_eq!(plan.shared_tiles, 34, "{what}");
        product.run(device, &mut MatrixMut::row_major(&mut c, m, n).unwrap()).unwrap();
        let got = c.download().unwrap();
        for batch in 0..batches {
            let a = &a[batch * m * k..][..m * k];
            compare(&what, (a, &b), &got[batch * m * n..][..m * n], (m, n, k), |sum, _| sum);
        }
    }
    let Some(device) = gpu() else { return };
    let multiprocessors = device.properties().multiprocessors;
    if !has_wgmma(&device) || multiprocessors != 132 {
        say(&format!("skipped: {} has {multiprocessors} SMs, and not Hopper's 132", device.name()));
        return;
    }
    for batches in [1, 2] {
        check::<f16, f32>(&device, batches, |x| f16::from_f32(x as f32));
        check::<i8, i32>(&device, batches, |x| x as i8);
        check::<F8E4M3, f32>(&device, batches, |x| F8E4M3::from_f32(x as f32));
        check::<F8E5M2, f32>(&device, batches, |x| F8E5M2::from_f32(x as f32));
    }
}

#[test]
fn products_of_two_streams_at_a_time_count_their_pieces_apart() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        let ((m, n, k), tile) = shapes(&device).remove(0);
        let (a, b) = (whole(m * k, 4), whole(n * k, 5));
        let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
        let mut results = [(); 2].map(|()| device.alloc_uninit::<f32>(m * n).unwrap());
        for _ in 0..3 {
            for (stream, c) in streams.iter().zip(&mut results) {
                let (a, b) = (Matrix::row_major(&device_a, m, k), Matrix::col_major(&device_b, k, n));
                let product = Matmul::new(a.unwrap(), b.unwrap()).tile(tile.0, tile.1).split_k(1);
                // SAFETY: each stream has a separate result, and no other work accesses the
                // operands.
                unsafe { product.run_on(stream, &mut MatrixMut::row_major(c, m, n).unwrap()) }.unwrap();
            }
        }
        for (stream, c) in streams.iter().zip(&results) {
            stream.synchronize().unwrap();
            compare("on two streams", (&a, &b), &c.download().unwrap(), (m, n, k), |sum, _| sum);
        }
    }
}

/// An f16 kernel that may share tiles.
type Shared = Kernel<(
    TensorMapParameter,
    TensorMapParameter,
    TensorMapParameter,
    Arguments<f16, f16, f32>,
    Sharing<f32>,
)>;

/// A kernel with its tile, and the blocks of its clusters.
#[derive(Clone, Copy)]
pub struct Tiled {
    kernel: &'static Shared,
    tile: (u32, u32),
    cluster: u32,
}

const TN: Tiled = Tiled { kernel: &wgmma_f16_tn, tile: (128, 256), cluster: 2 };
const TN_ALONE: Tiled = Tiled { kernel: &wgmma_f16_tn_alone, tile: (128, 256), cluster: 1 };
const TN_128X128: Tiled = Tiled { kernel: &wgmma_f16_tn_128x128, tile: (128, 128), cluster: 1 };
const TN_128X192: Tiled = Tiled { kernel: &wgmma_f16_tn_128x192, tile: (128, 192), cluster: 2 };
const TN_256X128: Tiled = Tiled { kernel: &wgmma_f16_tn_256x128, tile: (256, 128), cluster: 1 };

/// The stores of C.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// In f32, by words.
    Words,
    /// In f16, by words.
    NarrowWords,
    /// In f32, by TMA.
    Boxes,
    /// In f16, by TMA.
    NarrowBoxes,
}

/// A stage's extent along K.
const STAGE: u32 = 64;

/// Tiles in `pieces` pieces of equal length.
fn even(k: u32, tiles: u32, pieces: u32) -> Cut {
    Cut { tiles, even: pieces, stages: k.div_ceil(STAGE).div_ceil(pieces), run: 0 }
}

/// A direct launch of a kernel: with clusters, shared tiles and pieces that no device's plan has,
/// or none.
pub struct Launch<'d> {
    device: &'d Device,
    kernel: &'static Shared,
    grid: Grid,
    // The maps of A, B and C.
    maps: [TensorMap; 3],
    operands: [Vec<f16>; 2],
    // The buffers of the maps and arguments.
    buffers: [Buffer<f16>; 2],
    _sums: Buffer<f32>,
    c: Buffer<f32>,
    narrow: Option<Buffer<f16>>,
    counters: Buffer<u32>,
    arguments: Arguments<f16, f16, f32>,
    sharing: Sharing<f32>,
}

impl<'d> Launch<'d> {
    /// A launch for a product of this shape; the workspace and the counters are 0.
    pub fn new(
        device: &'d Device,
        Tiled { kernel, tile: (tile_m, tile_n), cluster }: Tiled,
        (m, n, k): (u32, u32, u32),
        clusters: u32,
        cut: Cut,
        written: Written,
    ) -> Self {
        let (a, b) = (whole((m * k) as usize, 6), whole((n * k) as usize, 7));
        let (device_a, device_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let map = |buffer: &Buffer<f16>, rows: u32, rows_of_box: u32| {
            let row = 2 * u64::from(k);
            let (extents, strides) = ([k.into(), rows.into(), 1], [row, row * u64::from(rows)]);
            let fields = TensorMapFields::new(
                TensorElement::F16,
                buffer.address(),
                &extents,
                &strides,
                &[64, rows_of_box, 1],
            );
            TensorMap::new(device, &fields.with_swizzle(TensorSwizzle::B128)).unwrap()
        };
        let c = device.alloc_uninit::<f32>((m * n) as usize).unwrap();
        let by_words = [Written::Words, Written::NarrowWords].contains(&written);
        let narrow = [Written::NarrowWords, Written::NarrowBoxes]
            .contains(&written)
            .then(|| device.alloc_uninit::<f16>((m * n) as usize).unwrap());
        let (element, address) = match &narrow {
            Some(narrow) => (TensorElement::F16, narrow.address()),
            None => (TensorElement::F32, c.address()),
        };
        let map_a = map(&device_a, m, tile_m);
        let map_c = if by_words {
            map_a.clone()
        } else {
            let row = u64::from(n) * element.bytes();
            let (extents, strides) = ([n.into(), m.into(), 1], [row, row * u64::from(m)]);
            let of_box = [128 / element.bytes() as u32, 64, 1];
            let fields = TensorMapFields::new(element, address, &extents, &strides, &of_box);
            TensorMap::new(device, &fields.with_swizzle(TensorSwizzle::B128)).unwrap()
        };
        let maps = [map_a, map(&device_b, n, tile_n / cluster), map_c];
        let held = cut.tiles * cut.most_pieces(k.div_ceil(STAGE)) * cluster * tile_m * tile_n;
        let sums = device.alloc_zeroed::<f32>(held.max(1) as usize).unwrap();
        let counters = device.alloc_zeroed::<u32>(1024).unwrap();
        let pointers = (
            Global::from_address(device_a.address()),
            Global::from_address(device_b.address()),
            GlobalMut::from_address(address),
        );
        let leading = (k.into(), k.into(), n.into());
        let sharing = Sharing {
            sums: GlobalMut::from_address(sums.address()),
            counters: GlobalMut::from_address(counters.address()),
            cut,
        };
        Self {
            device,
            kernel,
            grid: Grid::new(clusters * cluster, 384).clusters(cluster),
            maps,
            operands: [a, b],
            arguments: Arguments {
                wide: u32::from(narrow.is_none()),
                tensor_c: u32::from(!by_words),
                ..Arguments::product(pointers, (m, n, k), leading)
            },
            buffers: [device_a, device_b],
            _sums: sums,
            c,
            narrow,
            counters,
            sharing,
        }
    }

    /// Runs the kernel on a poisoned C, and returns C.
    pub fn run(&mut self) -> Vec<f32> {
        self.c.fill_bytes(0xFF).unwrap();
        if let Some(narrow) = &mut self.narrow {
            narrow.fill_bytes(0xFF).unwrap();
        }
        let [map_a, map_b, map_c] = &self.maps;
        let parameters = (map_a, map_b, map_c, self.arguments, self.sharing);
        // SAFETY: the maps are of the matrices, in the kernel's boxes; the buffers have the sizes
        // in `Sharing`.
        unsafe { self.device.launch(self.kernel, self.grid, parameters) }
            .unwrap_or_else(|error| panic!("{:?} of {}: {error}", self.grid, self.device.name()));
        match &self.narrow {
            Some(narrow) => narrow.download().unwrap().iter().map(|x| x.to_f32()).collect(),
            None => self.c.download().unwrap(),
        }
    }
}

/// The product twice, and the counters of the pieces.
pub fn launch(
    device: &Device,
    tiled: Tiled,
    shape: (u32, u32, u32),
    clusters: u32,
    cut: Cut,
    written: Written,
) {
    let what = format!("{shape:?}: {cut:?} by {clusters} clusters of {}", tiled.cluster);
    let mut launch = Launch::new(device, tiled, shape, clusters, cut, written);
    let mut first: Option<Vec<f32>> = None;
    for _ in 0..2 {
        let got = launch.run();
        let [a, b] = &launch.operands;
        let shape = (shape.0 as usize, shape.1 as usize, shape.2 as usize);
        compare(&what, (a, b), &got, shape, |sum, _| sum);
        assert!(first.get_or_insert_with(|| got.clone()) == &got, "{what}: another result the second time");
        assert!(
            launch.counters.download().unwrap().iter().all(|&count| count == 0),
            "{what}: a counter is not 0"
        );
    }
}

/// If two warpgroups share a tile, one may find its piece to be the last and write, while the other
/// stores its piece and ends.
#[test]
fn a_warpgroup_writes_its_rows_where_the_other_leaves_a_piece() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        for tiled in [TN_128X128, TN_256X128] {
            let (m, n, k) = (tiled.tile.0, 128, 512);
            let mut launch = Launch::new(&device, tiled, (m, n, k), 1, even(k, 1, 2), Written::Words);
            // The other piece of the second warpgroup's rows is present, with zeros.
            launch.counters.upload_from(&[&[0, 1][..], &[0; 1022]].concat()).unwrap();
            let got = launch.run();
            let (m, n, half) = (m as usize, n as usize, k as usize / 2);
            // Warpgroups alternate every 64 rows of the tile.
            let of_warpgroup = |which: usize| (0..m).filter(move |row| row / 64 % 2 == which);
            assert!(
                of_warpgroup(0).all(|row| got[row * n..][..n].iter().all(|x| x.is_nan())),
                "the first warpgroup's rows were written on {}",
                device.name()
            );
            let first_half =
                |x: &[f16]| x.chunks(k as usize).flat_map(|row| row[..half].to_vec()).collect::<Vec<_>>();
            let [a, b] = launch.operands.each_ref().map(|x| first_half(x));
            let a: Vec<_> = of_warpgroup(1).flat_map(|row| a[row * half..][..half].to_vec()).collect();
            let got: Vec<_> = of_warpgroup(1).flat_map(|row| got[row * n..][..n].to_vec()).collect();
            compare("the second's", (&a, &b), &got, (m / 2, n, half), |sum, _| sum);
            assert_eq!(launch.counters.download().unwrap()[..2], [1, 0], "what counts the pieces");
        }
    }
}

#[test]
fn pieces_of_any_number_of_clusters_are_added_up_by_the_last() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // Pairs of blocks: one tile of six stages in three pieces and in six; one of three in two;
        // all of four, in uneven pieces; two of two, with more clusters than pieces.
        for (shape, clusters, (tiles, pieces)) in [
            ((130, 48, 384), 3, (1, 3)),
            ((100, 256, 384), 6, (1, 6)),
            ((600, 72, 384), 2, (1, 2)),
            ((300, 300, 328), 12, (4, 3)),
            ((257, 72, 200), 5, (2, 2)),
        ] {
            let cut = even(shape.2, tiles, pieces);
            launch(&device, TN, shape, clusters, cut, Written::Words);
        }
        for (shape, clusters, (tiles, pieces)) in
            [((100, 40, 512), 4, (1, 4)), ((129, 130, 264), 8, (4, 2)), ((384, 128, 192), 2, (1, 2))]
        {
            let cut = even(shape.2, tiles, pieces);
            launch(&device, TN_128X128, shape, clusters, cut, Written::Words);
        }
        for (shape, clusters, (tiles, pieces)) in [((330, 40, 512), 4, (2, 2)), ((256, 130, 264), 6, (2, 3))]
        {
            let cut = even(shape.2, tiles, pieces);
            launch(&device, TN_256X128, shape, clusters, cut, Written::Words);
        }
    }
}

/// A cluster with a run computes pieces of one tile after another: it stores a piece and continues,
/// or, as the last, writes C and continues.
#[rstest]
fn clusters_with_runs_have_pieces_of_several_tiles(
    #[values(Written::Words, Written::NarrowWords, Written::Boxes, Written::NarrowBoxes)] written: Written,
) {
    let cut = |tiles, even, stages, run| Cut { tiles, even, stages, run };
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // Unaligned rows are written by words, and not in pieces.
        let odd = u32::from(written == Written::NarrowWords);
        let cuts = [
            // Four tiles: one whole tile each, then heads of four stages of six, and two runs of
            // two tails.
            (384, 6, cut(4, 1, 4, 4)),
            // Tails of four stages, runs of three: tiles of two and of three pieces.
            (584, 6, cut(2, 1, 6, 4)),
            (584, 5, cut(2, 1, 6, 3)),
            // Two even pieces of each; one run, of one stage of each.
            (320, 7, cut(3, 2, 2, 3)),
            // All tails of one stage.
            (192, 4, cut(3, 1, 2, 3)),
            // Runs that end within a tail: of three stages and two, and of one and three.
            (576, 5, cut(3, 1, 6, 5)),
        ];
        // The simulator takes seconds for all of them.
        let count = if device.is_gpu() || written == Written::Words { cuts.len() } else { 2 };
        for (k, clusters, cut) in cuts.into_iter().take(count) {
            let tiles_m = |rows: u32, tiles: u32| rows * (tiles - 1) + 40;
            // As many whole tiles as clusters before them.
            let all = clusters + cut.tiles;
            let n = 72 - odd;
            launch(&device, TN, (tiles_m(256, all), n, k), clusters, cut, written);
            // These always store 16-byte words where they can.
            if [Written::Boxes, Written::NarrowBoxes].contains(&written) {
                continue;
            }
            let shape = (tiles_m(128, cut.tiles), n, k);
            launch(&device, TN_ALONE, shape, clusters, cut, written);
            let shape = (tiles_m(256, cut.tiles), n, k);
            launch(&device, TN_256X128, shape, clusters, cut, written);
        }
    }
}

/// A cluster whose piece is not the last to arrive stores it and continues with the next one, in
/// any order of the clusters.
#[test]
fn a_cluster_that_leaves_a_piece_goes_on_with_its_run() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // Two tiles of six stages: four of each for a pair, and a run over the rest of both.
        let (m, n, k) = (512, 72, 384);
        let cut = Cut { tiles: 2, even: 1, stages: 4, run: 4 };
        for written in [Written::Words, Written::Boxes] {
            let mut launch = Launch::new(&device, TN, (m, n, k), 3, cut, written);
            // The first tile has four counters, of two blocks with two warpgroups each. They are
            // set so that its pieces expect one more.
            launch.counters.upload_from(&[&[u32::MAX; 4][..], &[0; 1020]].concat()).unwrap();
            let got = launch.run();
            let (rows, n, k) = (m as usize / 2, n as usize, k as usize);
            let (first, second) = got.split_at(rows * n);
            assert!(first.iter().all(|x| x.is_nan()), "the first tile was written on {}", device.name());
            let [a, b] = &launch.operands;
            compare("the second tile", (&a[rows * k..], b), second, (rows, n, k), |sum, _| sum);
            let counters = launch.counters.download().unwrap();
            assert_eq!(counters[..8], [1, 1, 1, 1, 0, 0, 0, 0], "what counts the pieces");
        }
    }
}

/// Inexact sums are reduced in K order, whichever cluster is the last to arrive: on a GPU the order
/// of clusters differs each time.
#[test]
fn tiles_of_three_pieces_have_the_same_bits_each_time() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // Tails of four stages, runs of three: tiles of two pieces and of three.
        let cut = Cut { tiles: 2, even: 1, stages: 6, run: 3 };
        let shape = (512, 256, 640);
        let mut launch = Launch::new(&device, TN, shape, 5, cut, Written::Words);
        let mut rng = rng(&[8]);
        for operand in &mut launch.buffers {
            let random = (0..operand.len()).map(|_| f16::from_f32(rng.random_range(-1.0..1.0)));
            operand.upload_from(&random.collect::<Vec<_>>()).unwrap();
        }
        let bits = |c: Vec<f32>| c.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let first = bits(launch.run());
        for _ in 0..if device.is_gpu() { 50 } else { 1 } {
            assert!(bits(launch.run()) == first, "another result on {}", device.name());
        }
    }
}

/// The boxes of C are in the last stage of a tile while the next tile's stages are loaded: with one
/// stage, with as many as the ring has, and with one more; and before a piece.
#[test]
fn tiles_that_follow_each_other_keep_c_in_their_last_stages() {
    for device in devices() {
        if !has_wgmma(&device) {
            continue;
        }
        // Unaligned rows are odd; other rows are written in pieces, without boxes, by kernels with
        // few rounds of tiles.
        for (turn, (written, odd)) in [
            (Written::Words, 0),
            (Written::Words, 1),
            (Written::NarrowWords, 1),
            (Written::Boxes, 0),
            (Written::NarrowBoxes, 0),
        ]
        .into_iter()
        .enumerate()
        {
            let kernels = [
                (TN, 264, 520),
                (TN_ALONE, 136, 520),
                (TN_128X128, 136, 264),
                (TN_128X192, 264, 392),
                (TN_256X128, 328, 264),
            ];
            for (i, (tiled, m, n)) in kernels.into_iter().enumerate() {
                for (j, (k, clusters)) in [(40, 1), (256, 2), (304, 1)].into_iter().enumerate() {
                    // On the simulator a kernel tests one K, and with other rows the others.
                    if in_turn(&device, turn + i + j, 3) {
                        launch(&device, tiled, (m, n - odd, k), clusters, Cut::NONE, written);
                    }
                }
            }
            // Four whole tiles, and one in two pieces; two whole, and one in two pieces; two whole;
            // only pieces.
            let of = |rows: u32| (rows, 72 - odd, 200);
            let (one, both) = (even(200, 1, 2), even(200, 2, 2));
            launch(&device, TN_ALONE, of(600), 2, one, written);
            launch(&device, TN_256X128, of(600), 2, one, written);
            launch(&device, TN, of(500), 1, Cut::NONE, written);
            launch(&device, TN_ALONE, of(200), 4, both, written);
            launch(&device, TN_256X128, of(400), 4, both, written);
        }
    }
}

/// Whether a device runs the kernels with persistent grids.
pub fn has_wgmma(device: &Device) -> bool {
    device.arch() == moye::Arch::new(9, 0)
}
