//! The mainloop of lists of 8-bit floats with scales: like [`Promoted`], with stages that any
//! [`Fill`] loads and scales of a tile's matrices.
#![allow(non_snake_case, reason = "CuTe's names")]

use moye_device::algorithm::clear;
use moye_device::arch::{opaque, thread_idx};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::atom::{OfA, OfB};
use moye_device::collective::*;
use moye_device::prelude::*;

/// The scales of the matrices of a tile: of A for 1 x 128 elements, of B for 128 x 128.
#[derive(Clone, Copy, Debug)]
pub struct TileScales {
    /// The scales of A, and of B.
    pub of: [BlockScales; 2],
    /// Rows of A, and of B.
    pub rows: [u32; 2],
}

/// A [`Fill`] of 8-bit floats with scales, whose K tiles have 128 elements.
pub trait FillScaled<const STAGES: u32>: Fill<STAGES, 1> {
    /// The scales of a tile.
    ///
    /// # Safety
    /// Memory that it reads is readable.
    unsafe fn scales(&self, tile: &WorkTile) -> TileScales;
}

/// [`Filled`] with promotion like [`Promoted`]: the products of a K tile, times their scales, are
/// added in f32.
pub struct FilledPromoted<F: FillScaled<STAGES>, M: StaticTiledMma<Atom: WgmmaAtom>, const STAGES: u32> {
    fill: F,
    consumer: Consumer<STAGES, 1>,
    /// (1, MMA_M, MMA_K, PIPE)
    tCrA: DescriptorTensor<DescriptorsOf<F::StagesA, M, OfA>>,
    /// (1, MMA_N, MMA_K, PIPE)
    tCrB: DescriptorTensor<DescriptorsOf<F::StagesB, M, OfB>>,
    /// The first row of this thread in a tile.
    row: u32,
}

impl<F, M, const STAGES: u32> Mainloop for FilledPromoted<F, M, STAGES>
where
    F: FillScaled<STAGES>,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>,
{
    type Mma = M;
    type TileC = <Filled<F, M, STAGES> as Mainloop>::TileC;
    type Accumulator = f32;
    type Storage = <Filled<F, M, STAGES> as Mainloop>::Storage;
    type Operands = F::Operands;

    const THREADS: u32 = Filled::<F, M, STAGES>::THREADS;
    const TILE: (u32, u32, u32) = {
        let tile = Filled::<F, M, STAGES>::TILE;
        // One scale of B covers the columns of the tile, all of which an instruction computes.
        assert!(tile.1 == SCALED_K && tile.2 == SCALED_K && M::THREADS == 2 * tile.0);
        tile
    };

    #[inline(always)]
    unsafe fn start(operands: F::Operands, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self {
        let (sA, sB, pipeline) = stages; // (BLK_M, BLK_K, PIPE), (BLK_N, BLK_K, PIPE)
        let mma = M::get_slice(WARPGROUP * warpgroup);
        Self {
            fill: F::new(operands),
            consumer: pipeline.consumer(),
            tCrA: mma.descriptors_a(&mma.partition_a(sA)),
            tCrB: mma.descriptors_b(&mma.partition_b(sB)),
            row: 64 * warpgroup + thread % WARPGROUP / 32 * 16 + accumulator_row(thread % 32),
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let Self { fill, consumer, tCrA, tCrB, row: own } = self;
        // SAFETY: all threads of the warpgroups are here. A stage is read when it is full, and
        // released when its products are complete. Scales are read inside their extents.
        unsafe {
            clear(tCrC);
            let mut k = tile.k;
            if fill.rows(tile) <= *own / 64 * 64 {
                while k < tile.k_end {
                    let full = consumer.wait();
                    consumer.release(full);
                    k += 1;
                }
                return;
            }
            let TileScales { of: [of_a, of_b], rows: [rows, columns] } = fill.scales(tile);
            let mut partial = Accumulators::<Self>::uninit(); // (MMA, MMA_M, MMA_N)
            while k < tile.k_end {
                // Scales arrive while the products run.
                let row = opaque(*own) + tile.m * Self::TILE.0;
                let of_row = |row: u32| of_a.read(0, row.min(rows - 1), k);
                let of_rows = [of_row(row), of_row(row + 8)];
                let part = Columns {
                    first: opaque(tile.n) * Self::TILE.1,
                    end: columns,
                    eights: Self::TILE.1 / 8,
                    lane: accumulator_column(thread_idx().x % 32),
                };
                let of_columns = of_b.part(part, 0, k);
                let full = consumer.wait();
                let (tCrA, tCrB) = full.of((*tCrA, *tCrB));
                warpgroup_arrive();
                warpgroup_gemm(M::default(), &tCrA, &tCrB, &mut partial, ScaleOut::Zero);
                warpgroup_commit_batch();
                warpgroup_wait::<0>();
                warpgroup_fence_operand(M::default(), &mut partial);
                consumer.release(full);
                for i in 0..Accumulators::<Self>::SIZE {
                    let scale = of_rows[i / 2 % 2] * of_columns;
                    tCrC[i] = partial[i].fma(scale, tCrC[i]);
                }
                k += 1;
            }
        }
    }

    #[inline(always)]
    unsafe fn complete(&mut self, _: &mut Accumulators<Self>) {}
}

impl<F, M, const STAGES: u32> WarpSpecialised for FilledPromoted<F, M, STAGES>
where
    F: FillScaled<STAGES>,
    M: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>,
{
    type Producer = FillProducer<F, STAGES, 1>;

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier separates the two.
        unsafe { self.consumer.skip(tile.k_tiles()) };
    }
}
