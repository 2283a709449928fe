//! Tiled copies over a grid of thread layouts, value layouts, atoms and element types, on the simulator: a block copies a
//! tile from global to shared memory, from there to registers, and back to global memory, and every element arrives once.

use half::{bf16, f16};
use moye_device::algorithm::{CopyDestination, CopySource, copy_if, copy_tiled, fill};
use moye_device::arch::{cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::copy::*;
use moye_device::atom::mma::SM80_16x8x8_F32TF32TF32F32_TN;
use moye_device::atom::{StaticTiledCopy, TiledCopy, TiledMma, make_tiled_copy_c};
use moye_device::layout::{ComposedLayout, IntTuple, Swizzle, Tiler, layout, make_col_major, tuple};
use moye_device::memory::{Element, Global, GlobalMut, GlobalPointer, Shared, SharedArray, SharedStorage};
use moye_device::tensor::{
    Aligned, GlobalTensor, IdentityOf, Matrix, Registers, StaticLayout, Strided, Strides, UnitStride,
};
use moye_device::{static_layout, swizzled_layout, tiled_copy};
use moye_sim::{GlobalMemory, Launch};

/// A combination: how a tile is copied in, and how it is copied through registers and out again.
trait Case: Sync {
    type Element: Element;
    /// Global to shared memory.
    type Load: StaticTiledCopy<Element = Self::Element>;
    /// Shared memory to registers, and registers to global memory.
    type Move: StaticTiledCopy<Element = Self::Element>;
    type Tile: StaticLayout;
    type Smem: StaticLayout;
    type Strides: Strides;
    /// The axis of stride 1.
    const AXIS: usize;

    fn strides(leading: i64) -> Self::Strides;
}

type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// A block's copies. The bounds that they need are met by every case, and stand here once.
trait Runs: Case {
    /// One block's tile: `source` of the first extents, to `destination` of the second.
    ///
    /// # Safety
    /// Both matrices lie inside their buffers.
    unsafe fn block(source: u64, destination: u64, extents: [(u32, u32); 2]);

    /// [`block`](Self::block) with a first copy of those atoms alone for which `predicate`, of thread and atom, holds, over
    /// elements that were all `marker`.
    ///
    /// # Safety
    /// As `block`.
    unsafe fn block_if(
        source: u64,
        destination: u64,
        extents: [(u32, u32); 2],
        predicate: fn(u32, usize) -> bool,
        marker: Self::Element,
    );
}

impl<K: Case> Runs for K
where
    Strided<Global<K::Element>, K::Strides>: CopySource<SourceOf<K::Load>>,
    Shared<K::Element>: CopyDestination<DestinationOf<K::Load>> + CopySource<SourceOf<K::Move>>,
    Registers<K::Element>: CopyDestination<DestinationOf<K::Move>> + CopySource<SourceOf<K::Move>>,
    Strided<GlobalMut<K::Element>, K::Strides>: CopyDestination<DestinationOf<K::Move>>,
{
    unsafe fn block(source: u64, destination: u64, [from, to]: [(u32, u32); 2]) {
        let load = K::Load::get_slice(thread_idx().x);
        // SAFETY: one block with the shared memory that it takes; it is read after the wait.
        unsafe {
            let t_g_in = load.partition_s(matrix::<_, K>(Global::from_address(source), from)); // (CPY, CPY_M, CPY_N)
            let mut t_s_in = load.partition_d(SharedArray::<K::Element, K::Smem>::take()); // (CPY, CPY_M, CPY_N)
            copy_tiled(K::Load::default(), &t_g_in, &mut t_s_in);
            through_registers::<K>(destination, to);
        }
    }

    unsafe fn block_if(
        source: u64,
        destination: u64,
        [from, to]: [(u32, u32); 2],
        predicate: fn(u32, usize) -> bool,
        marker: K::Element,
    ) {
        let thread = thread_idx().x;
        let load = K::Load::get_slice(thread);
        // SAFETY: as in `block`.
        unsafe {
            let t_g_in = load.partition_s(matrix::<_, K>(Global::from_address(source), from)); // (CPY, CPY_M, CPY_N)
            let mut t_s_in = load.partition_d(SharedArray::<K::Element, K::Smem>::take()); // (CPY, CPY_M, CPY_N)
            fill(&mut t_s_in, marker);
            copy_if(K::Load::default(), |i| predicate(thread, i), &t_g_in, &mut t_s_in);
            through_registers::<K>(destination, to);
        }
    }
}

/// The tile, in a matrix of these extents.
fn matrix<P: GlobalPointer<Element = K::Element>, K: Case>(
    pointer: P,
    extents: (u32, u32),
) -> GlobalTensor<P, K::Strides, IdentityOf<K::Tile>> {
    Matrix::new(pointer, extents, K::strides(leading::<K>())).local_tile::<K::Tile, _>((0, 0))
}

/// Shared memory to registers, and those to global memory.
///
/// # Safety
/// As [`Runs::block`].
unsafe fn through_registers<K: Case>(destination: u64, to: (u32, u32))
where
    Shared<K::Element>: CopySource<SourceOf<K::Move>>,
    Registers<K::Element>: CopyDestination<DestinationOf<K::Move>> + CopySource<SourceOf<K::Move>>,
    Strided<GlobalMut<K::Element>, K::Strides>: CopyDestination<DestinationOf<K::Move>>,
{
    let through = K::Move::get_slice(thread_idx().x);
    let g_out = matrix::<_, K>(GlobalMut::from_address(destination), to); // (BLK_M, BLK_N)
    // SAFETY: the tile is read after a barrier, the fragment after it was written.
    unsafe {
        cp_async_commit();
        cp_async_wait::<0>();
        sync_threads();
        let t_s_out = through.partition_s(SharedArray::<K::Element, K::Smem>::take()); // (CPY, CPY_M, CPY_N)
        let mut t_r_out = t_s_out.make_fragment_like(); // (CPY, CPY_M, CPY_N)
        let mut t_g_out = through.partition_d(g_out); // (CPY, CPY_M, CPY_N)
        copy_tiled(K::Move::default(), &t_s_out, &mut t_r_out);
        copy_tiled(K::Move::default(), &t_r_out, &mut t_g_out);
    }
}

fn extents<K: Case>() -> (usize, usize) {
    (K::Tile::LAYOUT.extent(0) as usize, K::Tile::LAYOUT.extent(1) as usize)
}

/// The stride of the slow axis: some multiple of 16 elements beyond the tile.
fn leading<K: Case>() -> i64 {
    let fast = if K::AXIS == 0 { K::Tile::LAYOUT.extent(0) } else { K::Tile::LAYOUT.extent(1) };
    (fast + 31) / 16 * 16
}

/// Where element `(i, j)` of a matrix lies, in elements.
fn place<K: Case>(i: usize, j: usize) -> usize {
    let leading = leading::<K>() as usize;
    if K::AXIS == 0 { i + leading * j } else { i * leading + j }
}

/// What is in the tile's place afterwards: bytes of the element, by (i, j).
struct Outcome<'a> {
    source: &'a [u8],
    result: Vec<u8>,
}

const POISON: u8 = 0xA5;

impl Outcome<'_> {
    fn expect<K: Case>(&self, what: &str, expected: impl Fn(usize, usize) -> Expected) {
        let bytes = K::Element::BYTES;
        let mut wanted = vec![POISON; self.result.len()];
        let (m, n) = extents::<K>();
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let at = bytes * place::<K>(i, j);
            match expected(i, j) {
                Expected::Copied => wanted[at..at + bytes].copy_from_slice(&self.source[at..at + bytes]),
                Expected::All(byte) => wanted[at..at + bytes].fill(byte),
            }
        }
        for (at, (got, want)) in self.result.iter().zip(&wanted).enumerate() {
            assert_eq!(got, want, "{what}: byte {at}, of element {} in memory", at / bytes);
        }
    }
}

enum Expected {
    Copied,
    /// Every byte of the element.
    All(u8),
}

/// Runs `kernel`, of the source's and the destination's addresses, as one block.
fn run<K: Case>(kernel: impl Fn(u64, u64) + Sync, then: impl Fn(&Outcome)) {
    let memory = GlobalMemory::new();
    let (m, n) = extents::<K>();
    let bytes = K::Element::BYTES * (leading::<K>() as usize * if K::AXIS == 0 { n } else { m });
    let data: Vec<u8> = (0..bytes).map(|i| (i * 167 + i / 251 + 1) as u8).collect();
    let (source, destination) = (memory.alloc(bytes, "in").unwrap(), memory.alloc(bytes, "out").unwrap());
    source.write(0, &data).unwrap();
    destination.fill(0, bytes, POISON).unwrap();
    let (input, output) = (source.address(), destination.address());
    Launch::new("tiled_copy", 1, K::Load::COPY.threads() as u32, &memory)
        .shared_bytes(SharedArray::<K::Element, K::Smem>::BYTES)
        .run(&|| kernel(input, output))
        .unwrap();
    let mut result = vec![0; bytes];
    destination.read(0, &mut result).unwrap();
    then(&Outcome { source: &data, result });
}

/// [`run`] of a source and a destination of these extents.
fn run_whole<K: Runs>(from: (usize, usize), to: (usize, usize), then: impl Fn(&Outcome)) {
    let extents = [from, to].map(|(m, n)| (m as u32, n as u32));
    // SAFETY: both buffers hold a whole tile.
    run::<K>(|input, output| unsafe { K::block(input, output, extents) }, then);
}

/// Who copies which elements of the tile: for each thread and atom, the indices in the tile, down its columns.
fn atoms<C: StaticTiledCopy>(tile: IntTuple) -> Vec<(u32, usize, Vec<i64>)> {
    let parts = C::COPY.tidfrg_s(make_col_major(tile));
    let part = C::COPY.partition_s(make_col_major(tile));
    let per = C::COPY.atom_layouts().num_val_src();
    let mut atoms = Vec::new();
    for thread in 0..parts.extent(0) {
        for i in 0..part.size() / per {
            let elements = (0..per).map(|j| parts.mode(0).at(thread) + part.at(i * per + j)).collect();
            atoms.push((thread as u32, i as usize, elements));
        }
    }
    atoms
}

/// Every element of the tile belongs to one value of one thread.
fn covers_once<C: StaticTiledCopy>(tile: IntTuple) {
    let mut holders = vec![0; tile.size() as usize];
    for (_, _, elements) in atoms::<C>(tile) {
        for element in elements {
            holders[element as usize] += 1;
        }
    }
    assert!(holders.iter().all(|&count| count == 1), "{:?} over {tile}: {holders:?}", C::COPY);
}

fn every_element_arrives_once<K: Runs>() {
    covers_once::<K::Load>(K::Tile::LAYOUT.shape());
    covers_once::<K::Move>(K::Tile::LAYOUT.shape());
    let whole = extents::<K>();
    let (m, n) = whole;
    run_whole::<K>(whole, whole, |outcome| outcome.expect::<K>("whole", |_, _| Expected::Copied));
    for ragged in [(m - 1, n), (m, n - 1), (m / 2 + 1, n / 2 + 1), (1, 1), (3, 2), (0, 0)] {
        let inside = |i, j| i < ragged.0 && j < ragged.1;
        run_whole::<K>(ragged, whole, |outcome| {
            outcome.expect::<K>(&format!("source of {ragged:?}"), |i, j| {
                if inside(i, j) { Expected::Copied } else { Expected::All(0) }
            });
        });
        run_whole::<K>(whole, ragged, |outcome| {
            outcome.expect::<K>(&format!("destination of {ragged:?}"), |i, j| {
                if inside(i, j) { Expected::Copied } else { Expected::All(POISON) }
            });
        });
    }
}

const MARKER: u8 = 0x5C;

fn predicates_hold<K: Runs>() {
    let predicate: fn(u32, usize) -> bool = |thread, i| !(thread as usize + 2 * i).is_multiple_of(3);
    // SAFETY: any bits are a value of an element.
    let marker = unsafe { core::ptr::read_unaligned([MARKER; 16].as_ptr().cast::<K::Element>()) };
    let whole = extents::<K>();
    let (m, n) = whole;
    let mut holds = vec![false; m * n];
    for (thread, i, elements) in atoms::<K::Load>(K::Tile::LAYOUT.shape()) {
        for element in elements {
            holds[element as usize] = predicate(thread, i);
        }
    }
    let left_out = if <K::Load as StaticTiledCopy>::Atom::ZERO_FILLS { 0 } else { MARKER };
    for from in [whole, (m - 1, n / 2 + 1)] {
        let extents = [from, whole].map(|(m, n)| (m as u32, n as u32));
        // SAFETY: both buffers hold a whole tile.
        let kernel = |input, output| unsafe { K::block_if(input, output, extents, predicate, marker) };
        run::<K>(kernel, |outcome| {
            outcome.expect::<K>(&format!("predicates over {from:?}"), |i, j| {
                match (holds[i + m * j], i < from.0 && j < from.1) {
                    (false, _) => Expected::All(left_out),
                    (true, true) => Expected::Copied,
                    (true, false) => Expected::All(0),
                }
            });
        });
    }
}

macro_rules! cases {
    ($($predicates:ident $name:ident: $element:ty, $load:ty, $move:ty, $copy:expr, tile $tile:expr, $kind:ident $smem:expr, axis $axis:literal;)+) => { $(
        mod $name {
            use super::*;

            struct This;

            tiled_copy! {
                Load: TiledCopy<$load, $element> = $copy;
                Move: TiledCopy<$move, $element> = $copy;
            }
            static_layout! {
                Tile = make_col_major(tuple!($tile));
            }
            cases!(@ $kind $smem);

            impl Case for This {
                type Element = $element;
                type Load = Load;
                type Move = Move;
                type Tile = Tile;
                type Smem = Smem;
                type Strides = Aligned<UnitStride<$axis>, 16>;
                const AXIS: usize = $axis;

                fn strides(leading: i64) -> Self::Strides {
                    Aligned(UnitStride(leading))
                }
            }

            #[test]
            fn every_element_arrives_once() {
                super::every_element_arrives_once::<This>();
            }

            cases!(@ $predicates);
        }
    )+ };
    (@ case) => {
        #[test]
        fn predicates_hold() {
            super::predicates_hold::<This>();
        }
    };
    // `copy_if` does not compile for an atom that leaves its width to the tensors.
    (@ widest) => {};
    (@ shared $smem:expr) => { static_layout! { Smem = $smem; } };
    (@ swizzled $smem:expr) => { swizzled_layout! { Smem = $smem; } };
}

type TfMma = TiledMma<SM80_16x8x8_F32TF32TF32F32_TN>;

cases! {
    // Column-major tiles of f32, by every width of cp.async and of plain loads.
    case f32_async_16: f32, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((32, 8)), layout!((4, 1))), tile (256, 16), shared layout!((256, 16)), axis 0;
    case f32_async_16_zfill: f32, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((32, 8)), layout!((4, 1))), tile (128, 16), shared layout!((128, 16):(1, 132)), axis 0;
    case f32_async_8: f32, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<u32>,
        TiledCopy::new(layout!((16, 4)), layout!((2, 2))), tile (64, 8), shared layout!((64, 8):(1, 66)), axis 0;
    case f32_async_4_zfill: f32, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u32>, UniversalCopy<f32>,
        TiledCopy::new(layout!((32, 8)), layout!((1, 1))), tile (32, 32), shared layout!((32, 32):(1, 33)), axis 0;
    case f32_padded: f32, UniversalCopy<f32>, UniversalCopy<u32>,
        TiledCopy::new(layout!((32, 4)), layout!((4, 2))), tile (128, 8), shared layout!((128, 8):(1, 129)), axis 0;
    case f32_transposed: f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::new(layout!((32, 4)), layout!((1, 1))), tile (32, 32), shared layout!((32, 32):(33, 1)), axis 0;
    widest f32_widest: f32, AutoVectorizingCopy, AutoVectorizingCopy,
        TiledCopy::new(layout!((8, 8)), layout!((8, 1))), tile (64, 16), shared layout!((64, 16):(1, 68)), axis 0;
    widest f32_by_element: f32, DefaultCopy, DefaultCopy,
        TiledCopy::new(layout!((8, 8)), layout!((4, 1))), tile (64, 16), shared layout!((64, 16):(1, 65)), axis 0;
    // K-major tiles of 16-bit numbers, swizzled.
    case f16_swizzled_128: f16, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8))), tile (64, 64),
        swizzled ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((64, 64))), axis 1;
    case f16_swizzled_64: f16, SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((8, 4):(4, 1)), layout!((1, 8))), tile (32, 64),
        swizzled ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((32, 64))), axis 1;
    case bf16_swizzled_32: bf16, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<bf16>,
        TiledCopy::new(layout!((16, 4):(4, 1)), layout!((1, 4))), tile (32, 32),
        swizzled ComposedLayout::new(Swizzle::new(1, 3, 3), 0, layout!((8, 16):(16, 1))).tile_to_shape(tuple!((32, 32))), axis 1;
    // Blocks of several columns, whose values an access takes apart.
    case f16_blocks: f16, UniversalCopy<u64>, UniversalCopy<u32>,
        TiledCopy::new(layout!((4, 8)), layout!((4, 2))), tile (32, 32), shared layout!((32, 32):(1, 40)), axis 0;
    widest i16_widest: i16, AutoVectorizingCopy, DefaultCopy,
        TiledCopy::new(layout!((32, 2)), layout!((8, 1))), tile (256, 4), shared layout!((256, 4)), axis 0;
    case u8_async_16: u8, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((8, 4)), layout!((16, 1))), tile (128, 12), shared layout!((128, 12)), axis 0;
    case u8_words: u8, SM80_CP_ASYNC_CACHEALWAYS<u32>, UniversalCopy<u16>,
        TiledCopy::new(layout!((4, 8)), layout!((4, 2))), tile (32, 48), shared layout!((32, 48):(1, 36)), axis 0;
    case i8_row_major: i8, SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u64>, UniversalCopy<u8>,
        TiledCopy::new(layout!((8, 4):(4, 1)), layout!((2, 8):(8, 1))), tile (32, 32), shared layout!((32, 32):(40, 1)), axis 1;
    // The 4 x 9 copy of MoYe's page and its vector form, repeated, with elements of other sizes.
    case f64_4x9: f64, UniversalCopy<f64>, UniversalCopy<f64>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (8, 18), shared layout!((8, 18):(1, 9)), axis 0;
    case f64_4x9_vectors: f64, UniversalCopy<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (8, 18), shared layout!((8, 18):(1, 10)), axis 0;
    case f64_4x9_async: f64, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<u64>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (4, 18), shared layout!((4, 18):(18, 1)), axis 1;
    case u8_4x9: u8, UniversalCopy<u8>, UniversalCopy<u8>,
        TiledCopy::new(layout!((2, 3):(3, 1)), layout!((2, 3):(1, 2))), tile (8, 18), shared layout!((8, 18)), axis 0;
    // Threads and values whose numbers are no powers of two, or nest, or count across.
    case i32_odd: i32, UniversalCopy<i32>, UniversalCopy<u32>,
        TiledCopy::new(layout!((3, 5)), layout!((5, 1))), tile (30, 15), shared layout!((30, 15):(1, 31)), axis 0;
    case u64_odd_pairs: u64, UniversalCopy<u128>, UniversalCopy<u64>,
        TiledCopy::new(layout!((5, 7):(7, 1)), layout!((1, 6))), tile (10, 84), shared layout!((10, 84):(86, 1)), axis 1;
    case f32_nested: f32, SM80_CP_ASYNC_CACHEALWAYS<u64>, UniversalCopy<u64>,
        TiledCopy::new(layout!(((2, 4), (2, 2)):((1, 4), (2, 16))), layout!((2, 2))), tile (32, 16),
        shared layout!((32, 16):(1, 34)), axis 0;
    case f32_values_across: f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::new(layout!((4, 8):(8, 1)), layout!((4, 2):(2, 1))), tile (32, 16), shared layout!((32, 16)), axis 0;
    // From a thread-value layout: an accumulator's, in a tile of its own and in that of a tiled product.
    case f32_accumulator: f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::from_tv(layout!(((4, 8), (2, 2)):((32, 1), (16, 8))), Tiler::shape(tuple!((16, 8)))),
        tile (32, 32), shared layout!((32, 32):(36, 1)), axis 1;
    case f32_product: f32, UniversalCopy<f32>, UniversalCopy<f32>,
        make_tiled_copy_c(&TfMma::tiled(layout!((2, 2, 1)), [32, 32, 8])), tile (64, 64),
        shared layout!((64, 64):(1, 65)), axis 1;
    // A tiler that takes every second row.
    case f32_strided_tiler: f32, UniversalCopy<f32>, UniversalCopy<f32>,
        TiledCopy::from_tv(layout!((32, 4):(1, 32)), Tiler::by_mode(&[Tiler::layout(layout!(16:2)), Tiler::shape(tuple!(8))])),
        tile (32, 16), shared layout!((32, 16)), axis 0;
    case u128_each: u128, SM80_CP_ASYNC_CACHEGLOBAL<u128>, UniversalCopy<u128>,
        TiledCopy::new(layout!((4, 8)), layout!((1, 2))), tile (8, 32), shared layout!((8, 32):(1, 9)), axis 0;
}
