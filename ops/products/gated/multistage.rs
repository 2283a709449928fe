//! Gated products by `cp.async` and `mma.sync`: a block computes its tile of the gate's product,
//! keeps the accumulators, and computes the same tile of the up projection's.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::moe::join::{Join, Part, SwiGlu, store};
use core::marker::PhantomData;
use moye_device::arch::overlap_launches;
use moye_device::atom::Permutation;
use moye_device::collective::*;
use moye_device::layout::{layout, tuple};
use moye_device::memory::SharedStorage;
use moye_device::prelude::*;

const ATOM: ComposedLayout = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)));
swizzled_layout! {
    /// (BLK, BLK_K, PIPE)
    pub Stages<const ROWS: i64> = ATOM.tile_to_shape(tuple!((ROWS, 64, 3)));
}
tiled_mma! {
    /// Eight warps: 128 x 128 in parts of 16 x 64.
    pub Large<T: Half>: TiledMma<T::Atom> = TiledMma::permuted(
        layout!((4, 2, 1)),
        [Permutation::Tile(64), Permutation::Layout(layout!((8, 2, 8):(1, 64, 8))), Permutation::Tile(16)],
    );
    /// Four warps: 64 x 64 in parts of 16 x 32.
    pub Small<T: Half>: TiledMma<T::Atom> = TiledMma::permuted(
        layout!((2, 2, 1)),
        [Permutation::Tile(32), Permutation::Layout(layout!((8, 2, 4):(1, 32, 8))), Permutation::Tile(16)],
    );
}
tiled_copy! {
    /// The copy of 256 threads.
    pub LoadLarge<T: Half>: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, T> =
        TiledCopy::new(layout!((32, 8):(8, 1)), layout!((1, 8)));
    /// The copy of 128 threads.
    pub LoadSmall<T: Half>: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>, T> =
        TiledCopy::new(layout!((16, 8):(8, 1)), layout!((1, 8)));
    /// Fragments of A.
    pub ReadA<T: Half, M: StaticTiledMma>: TiledCopy<SM75_U32x4_LDSM_N, T> = make_tiled_copy_a(&M::MMA);
    /// Fragments of B.
    pub ReadB<T: Half, M: StaticTiledMma>: TiledCopy<SM75_U32x4_LDSM_N, T> = make_tiled_copy_b(&M::MMA);
}

/// Strides of operands: K is contiguous, and rows begin at multiples of 16 bytes.
type Rows = Aligned<UnitStride<1>, 16>;

/// Square tiles of `BLK` rows and columns, loaded by `L` and multiplied by `M`.
pub struct Square<T, L, M, const BLK: i64>(PhantomData<(T, L, M)>);

macro_rules! config {
    ($($blk:literal $load:ident $mma:ident;)+) => { $(
        impl<T: Half + 'static> MultistageConfig for Square<T, $load<T>, $mma<T>, $blk> {
            type Element = T;
            type StridesA = Rows;
            type StridesB = Rows;
            type SmemA = Stages<$blk>;
            type SmemB = Stages<$blk>;
            type LoadA = $load<T>;
            type LoadB = $load<T>;
            type ReadA = ReadA<T, $mma<T>>;
            type ReadB = ReadB<T, $mma<T>>;
            type Mma = $mma<T>;
        }
    )+ };
}
config! {
    128 LoadLarge Large;
    64 LoadSmall Small;
}
/// The mainloop of tiles of 128 x 128.
pub type Loop128<T> = Multistage<Square<T, LoadLarge<T>, Large<T>, 128>>;
/// The mainloop of tiles of 64 x 64.
pub type Loop64<T> = Multistage<Square<T, LoadSmall<T>, Small<T>, 64>>;

/// The addresses and strides of the operands.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct Operands<T: Element> {
    /// (M, K).
    pub a: Global<T>,
    /// The gate's (N, K).
    pub b: Global<T>,
    /// Stride between the rows of A.
    pub row_a: i64,
    /// Stride between the rows of B.
    pub row_b: i64,
    /// Offset from the gate's first row to that of the up projection.
    pub up: i64,
    /// Rows of A.
    pub m: u32,
    /// Elements of a row.
    pub k: u32,
}

/// Operands of a mainloop.
type Matrices<T> = (Batches<Global<T>, Rows>, Batches<Global<T>, Rows>);

/// `c = J(a gate^T, a up^T)`, a block for each tile.
///
/// # Safety
/// The operands are readable, their rows begin at multiples of 16 bytes and `k` is a multiple of 8;
/// `target` has `m` rows, which overlap no operand.
#[kernel(
    threads = <M as Mainloop>::THREADS,
    min_blocks = 1,
    shared = <M as Mainloop>::Storage,
    instances = (
        linear_gated_bf16_mma_128<bf16, SwiGlu, Loop128<bf16>>,
        linear_gated_bf16_mma_64<bf16, SwiGlu, Loop64<bf16>>,
        linear_gated_f16_mma_128<f16, SwiGlu, Loop128<f16>>,
        linear_gated_f16_mma_64<f16, SwiGlu, Loop64<f16>>
    ),
    table = MultistageKernels
)]
pub unsafe fn linear_gated_mma<T, J, M>(operands: Operands<T>, target: Target<T>)
where
    T: Half + Paired,
    J: Join,
    M: Mainloop<Operands = Matrices<T>, Accumulator = f32>,
    f32: Convert<T>,
{
    let Operands { a, b, row_a, row_b, up, m, k } = operands;
    let (n, thread) = (target.columns, thread_idx().x);
    overlap_launches();
    let rows = |row: i64| Aligned(UnitStride(row));
    let matrices = (Batches::new(a, (m, k), rows(row_a), 0), Batches::new(b, (n, k), rows(row_b), up));
    let mut mainloop = M::start(matrices, <M::Storage as SharedStorage>::take(), thread, 0);
    let mut scheduler = OneTile::new(M::tiles((m, n, k), 1), M::worker(), const { 2048 / M::TILE.0 });
    let Some(tile) = scheduler.next_tile() else { return };
    let (mut gates, mut ups) = (Fragment::uninit(), Fragment::uninit()); // (MMA, MMA_M, MMA_N)
    mainloop.issue(&tile, &mut gates);
    mainloop.complete(&mut gates);
    mainloop.issue(&WorkTile { batch: 1, ..tile }, &mut ups);
    mainloop.complete(&mut ups);
    // The warps' parts of the tile: two of them beside each other.
    let (warp, warps) = (thread / 32, const { M::THREADS / 32 });
    let (of_m, columns) = (const { M::TILE.0 / 2 / 16 }, const { M::TILE.1 / 2 });
    let (down, right) = (warp % (warps / 2), warp / (warps / 2));
    for i in 0..2 {
        let first = (tile.m * M::TILE.0 + 16 * (i * of_m + down), tile.n * M::TILE.1 + right * columns);
        let values = |block: u32, below: u32| {
            let at = (4 * (i + 2 * block) + 2 * below) as usize;
            J::join([gates[at], gates[at + 1]], [ups[at], ups[at + 1]])
        };
        store(&target, Part { first, rows: m, blocks: columns / 8 }, values);
    }
}
