//! The mainloop of products by quantised weights on Hopper: `y^T = W x^T`, whose W is unpacked into
//! the registers that `wgmma` takes its operand A from.
//!
//! ```text
//! producer    TMA: 64 elements along K of 128 rows of W, packed, and of the rows of x
//! warpgroup   for 16 elements along K: codes to weights in 4 registers; wgmma; two run meanwhile
//! ```
//!
//! A tile of 16 rows of packed weights is a warp's. Its codes are in the order of `mma.sync` with
//! vectors of x along K; TMA keeps the order of x, so the lanes of a quad exchange codes.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::codes::{Code, CodeAs, E4m3, ROWS, Weights};
use core::marker::PhantomData;
use moye_device::algorithm::quad_transpose;
use moye_device::arch::{Bf16x2, F16x2, FULL_WARP, f32x2_to_bf16x2, f32x2_to_f16x2, prmt, shuffle};
use moye_device::atom::{OfB, StaticTiledMma};
use moye_device::collective::{
    Accumulators, Fill, FillProducer, LoadB, Mainloop, StagesOf, TileOf, WARPGROUP, WarpSpecialised, WarpsOf,
    WorkTile, Worker,
};
use moye_device::layout::{layout, tuple};
use moye_device::memory::Shared;
use moye_device::number::U4;
use moye_device::pipeline::{Filling, Full, PipelineStorage};
use moye_device::prelude::*;

/// Rows of W of a block: eight packed tiles, those of two warpgroups.
pub const BLK_M: u32 = 128;
/// Elements along K of a stage.
pub const BLK_K: u32 = 64;
/// Instructions along K of a stage.
const STEPS: usize = (BLK_K / 16) as usize;

/// f16 or bf16, with the `wgmma` of a tile of `N` rows of x.
pub trait Weight<const N: i64>: Half<Bits = u16> + PackPair {
    /// 64 x `N` x 16, with A in registers.
    type Rs: WgmmaAtom<OperandA = [u32; 4], D = f32>;

    /// `(code - bias) * scale + minimum` of two codes, a word.
    fn weights(codes: [Self; 2], bias: f32, scale: u32, minimum: u32) -> u32;

    /// Both halves of a word, f16, each twice as this type.
    fn twice(halves: F16x2) -> [u32; 2];
}

macro_rules! weight {
    ($t:ident $pair:ident $pack:ident $($n:literal $atom:ident),+; |$halves:ident| $twice:expr) => { $(
        impl Weight<$n> for $t {
            type Rs = $atom;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn weights([low, high]: [Self; 2], bias: f32, scale: u32, minimum: u32) -> u32 {
                let bias = $pack(bias, bias);
                let codes = $pair::new(low, high) - bias;
                codes.fma($pair::from_bits(scale), $pair::from_bits(minimum)).to_bits()
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn twice($halves: F16x2) -> [u32; 2] {
                $twice
            }
        }
    )+ };
}
weight! {
    f16 F16x2 f32x2_to_f16x2 64 SM90_64x64x16_F32F16F16_RS, 256 SM90_64x256x16_F32F16F16_RS;
    |halves| [prmt(halves.to_bits(), 0, 0x1010), prmt(halves.to_bits(), 0, 0x3232)]
}
weight! {
    bf16 Bf16x2 f32x2_to_bf16x2 64 SM90_64x64x16_F32BF16BF16_RS, 256 SM90_64x256x16_F32BF16BF16_RS;
    |halves| {
        let of_rows: [f32; 2] = halves.convert();
        of_rows.map(|of_row| f32x2_to_bf16x2(of_row, of_row).to_bits())
    }
}

/// Codes as the operand A of consecutive elements of x.
pub trait InOrder: Code {
    /// The words of unit `unit` of a lane's step, exchanged in its quad: those of an instruction
    /// are where [`CodeAs::operand`] has them, of the elements `2 (lane % 4)` and 8 more.
    fn exchanged(words: [u32; 4], unit: usize) -> [u32; 2];
}

impl InOrder for U4 {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn exchanged(words: [u32; 4], unit: usize) -> [u32; 2] {
        // A half of a word becomes two rows by two elements along K.
        let halves = |word: u32| prmt(word, 0, 0x3120);
        let [first, second] = quad_transpose([halves(words[2 * unit]), halves(words[2 * unit + 1])]);
        [halves(first), halves(second)]
    }
}

/// Codes of 8 bits: a word has those of two elements along K of both rows.
macro_rules! bytes_in_order {
    ($($code:ident),+) => { $(
        impl InOrder for $code {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn exchanged(words: [u32; 4], unit: usize) -> [u32; 2] {
                // Not a number from before the loop: `ptxas` then makes each `wgmma` wait for the
                // last.
                let (lane, [low, high]) = (lane_id(), [words[2 * unit], words[2 * unit + 1]]);
                let of = |of_quad: u32| {
                    let from = lane / 4 * 4 + of_quad + lane % 4 / 2;
                    let (low, high) = (shuffle(FULL_WARP, low, from), shuffle(FULL_WARP, high, from));
                    if lane % 2 == 1 { high } else { low }
                };
                [of(0), of(2)]
            }
        }
    )+ };
}
bytes_in_order!(u8, E4m3);

swizzled_layout! {
    /// Stages of x: (BLK_N, BLK_K, PIPE).
    pub SmemX<const N: i64, const PIPE: u32> =
        shared_memory_atom(Major::K, SwizzleBytes::B128, 16).tile_to_shape(tuple!((N, BLK_K as i64, PIPE as i64)));
}
static_layout! {
    /// Words of codes of a packed tile for a stage, of a block's tiles: (tile, word, PIPE).
    pub SmemCodes<Q: Code, const PIPE: u32> = layout!(
        ({ (BLK_M / ROWS) as i64 }, { words::<Q>() as i64 }, PIPE as i64)
        :({ words::<Q>() as i64 }, 1, { (BLK_M / ROWS * words::<Q>()) as i64 })
    );
    /// A block's tile of W as the tiled MMA takes it: (BLK_M, BLK_K).
    pub TileW = layout!((BLK_M as i64, BLK_K as i64));
}
tiled_mma! {
    /// Two warpgroups, one below the other.
    pub Mma<A: WgmmaAtom>: TiledMma<A> = TiledMma::new(layout!((2, 1, 1)));
}

/// Words of a packed tile for a stage.
const fn words<Q: Code>() -> u32 {
    BLK_K / Q::STEP * 128
}

/// The tiled MMA of `N` rows of x.
pub type MmaOf<T, const N: i64> = Mma<<T as Weight<N>>::Rs>;
/// The copy of a stage of codes.
pub type CopyCodes<Q, const PIPE: u32> = TmaCopy<u32, OneStage<SmemCodes<Q, PIPE>>, 2>;
/// The copy of a stage of x, a part of it by each block of a cluster.
pub type CopyX<T, const N: i64, const PIPE: u32, const CLUSTER: u32> = LoadB<T, SmemX<N, PIPE>, 2, CLUSTER>;

/// The operands: codes (tiles, words) and x (m, k) by tensor maps.
pub struct Operands<T: Element, Q: Code, const N: i64, const STAGES: u32, const CLUSTER: u32> {
    /// The codes.
    pub codes: TmaTensor<CopyCodes<Q, STAGES>, 2>,
    /// x.
    pub x: TmaTensor<CopyX<T, N, STAGES, CLUSTER>, 2>,
    /// The factors, and what is known of the codes.
    pub weights: Weights,
}

impl<T: Element, Q: Code, const N: i64, const STAGES: u32, const CLUSTER: u32> Clone
    for Operands<T, Q, N, STAGES, CLUSTER>
{
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Element, Q: Code, const N: i64, const STAGES: u32, const CLUSTER: u32> Copy
    for Operands<T, Q, N, STAGES, CLUSTER>
{
}

/// The mainloop: 128 rows of W by `N` rows of x.
pub struct Unpacked<T: Weight<N>, Q: Code, const N: i64, const STAGES: u32, const CLUSTER: u32> {
    consumer: Consumer<STAGES, CLUSTER>,
    /// (tile, word, PIPE)
    codes: SharedTensor<u32, SmemCodes<Q, STAGES>>,
    /// (1, MMA_N, MMA_K, PIPE)
    tCrB: DescriptorTensor<DescriptorsOf<SmemX<N, STAGES>, MmaOf<T, N>, OfB>>,
    weights: Weights,
    /// The warp's packed tile in the block's, and the lane's row there.
    tile: u32,
    row: u32,
    /// The last stage that was issued, which is not released yet.
    held: Option<Full>,
    elements: PhantomData<T>,
}

/// Words of factors of a lane for a stage: scales and minima of each unit.
type Words = [[u32; 2]; STEPS];

impl<T, Q, const N: i64, const STAGES: u32, const CLUSTER: u32> Unpacked<T, Q, N, STAGES, CLUSTER>
where
    T: Weight<N>,
    Q: CodeAs<T> + InOrder,
{
    /// The units of a stage.
    const UNITS: usize = (BLK_K / Q::UNIT) as usize;

    /// The factors of the lane's rows for a stage.
    ///
    /// # Safety
    /// The factors are readable.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn factors(&self, tile: u32, k: u32) -> Words {
        let mut words = [[0; 2]; STEPS];
        #[allow(clippy::needless_range_loop, reason = "an index is a constant once it is unrolled")]
        for unit in 0..Self::UNITS {
            let step = k * const { BLK_K / Q::STEP } + unit as u32 / 2;
            let from = self.weights.place_of_factors(tile, step, unit as u32 % 2, self.row);
            // SAFETY: a group has factors; the place is clamped to the last one's.
            unsafe {
                words[unit][0] = from.read(0u32);
                words[unit][1] = from.offset(1).read_if(self.weights.minima);
            }
        }
        words
    }

    /// Writes the operand of instruction `mma` of a unit.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    fn unpack(
        &self,
        codes: [u32; 2],
        mma: usize,
        [scales, minima]: [u32; 2],
        to: usize,
        tCrA: &mut Fragment<T, OperandOf<TileW, MmaOf<T, N>>>,
    ) {
        let (scales, minima) = (T::twice(F16x2::from_bits(scales)), T::twice(F16x2::from_bits(minima)));
        let pairs = Q::operand([codes[0], codes[1], 0, 0], 0, mma);
        for register in 0..4 {
            let (bias, row) = (Q::BIASES[register] + self.weights.offset, register % 2);
            let word = T::weights(pairs[register], bias, scales[row], minima[row]);
            tCrA[8 * to + 2 * register] = T::from_bits(word as u16);
            tCrA[8 * to + 2 * register + 1] = T::from_bits((word >> 16) as u16);
        }
    }
}

impl<T, Q, const N: i64, const STAGES: u32, const CLUSTER: u32> Mainloop
    for Unpacked<T, Q, N, STAGES, CLUSTER>
where
    T: Weight<N>,
    Q: CodeAs<T> + InOrder,
{
    type Mma = MmaOf<T, N>;
    type TileC = TileOf<TileW, SmemX<N, STAGES>>;
    type Accumulator = f32;
    type Storage = (
        SharedArray<T, SmemX<N, STAGES>>,
        SharedArray<u32, SmemCodes<Q, STAGES>>,
        PipelineStorage<STAGES, WarpsOf<MmaOf<T, N>>, CLUSTER>,
    );
    type Operands = Operands<T, Q, N, STAGES, CLUSTER>;

    const THREADS: u32 = 3 * WARPGROUP;
    const TILE: (u32, u32, u32) = (BLK_M, N as u32, BLK_K);
    const CLUSTER: u32 = CLUSTER;
    // Warps wait for codes of other lanes and for products. Stages of 8-bit codes are larger: two
    // blocks have five each, and take 1.15 times as long as one with ten.
    const BLOCKS_OF_SM: u32 = if N <= 64 && Q::BITS == 4 { 2 } else { 1 };

    #[inline(always)]
    fn worker() -> Worker {
        Worker::cluster(CLUSTER)
    }

    #[inline(always)]
    unsafe fn start(operands: Self::Operands, stages: StagesOf<Self>, thread: u32, warpgroup: u32) -> Self {
        let (x, codes, pipeline) = stages;
        let mma = MmaOf::<T, N>::get_slice(WARPGROUP * warpgroup);
        Self {
            consumer: pipeline.consumer(),
            codes,
            tCrB: mma.descriptors_b(&mma.partition_b(x)),
            weights: operands.weights,
            tile: thread / 32,
            row: thread % 32 / 4,
            held: None,
            elements: PhantomData,
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn issue(&mut self, tile: &WorkTile, tCrC: &mut Accumulators<Self>) {
        let steps = const { (BLK_K / Q::STEP) as usize };
        let lane = thread_idx().x % 32;
        // Packed tiles past the last are it, with codes 0 by TMA: their rows are not stored.
        let packed = tile.m * const { BLK_M / ROWS } + self.tile;
        let packed = packed.min(self.weights.n.div_ceil(ROWS) - 1);
        // SAFETY: all threads of the warpgroups are here. A stage is read when it is full, and
        // released when its products are complete. An operand A is written when at most two
        // instructions run, which are later than the one that read it.
        unsafe {
            let mut tCrA = Fragment::<T, OperandOf<TileW, MmaOf<T, N>>>::uninit(); // (MMA, 1, MMA_K)
            let mut next = self.factors(packed, tile.k);
            let mut k = tile.k;
            while k < tile.k_end {
                let factors = next;
                // A lane for each block will release the stage before: it follows all lanes' reads.
                sync_warp(FULL_WARP);
                let full = self.consumer.wait();
                // Factors arrive while the products run.
                next = self.factors(packed, (k + 1).min(tile.k_end - 1));
                let vectors: Shared<[u32; 4]> = full.of(self.codes).pointer().cast();
                let tCrB = full.of(self.tCrB); // (1, 1, MMA_K)
                let mut mma = 0;
                for step in 0..steps {
                    let at = (self.tile * steps as u32 + step as u32) * 32 + lane;
                    let words = vectors.read(at);
                    for unit in 0..2 {
                        let codes = Q::exchanged(words, unit);
                        for of_unit in 0..const { Q::MMAS as usize } {
                            self.unpack(codes, of_unit, factors[2 * step + unit], mma, &mut tCrA);
                            warpgroup_arrive();
                            let (tCrA, tCrB) = (tCrA.at((.., .., mma as u32)), tCrB.at((.., .., mma as u32)));
                            let scale = ScaleOut::One.unless(mma == 0 && k == tile.k);
                            warpgroup_gemm(MmaOf::<T, N>::default(), &tCrA, &tCrB, tCrC, scale);
                            warpgroup_commit_batch();
                            warpgroup_wait::<2>();
                            mma += 1;
                            // Now the instructions of the stage before are complete.
                            if mma == 2
                                && let Some(before) = self.held.take()
                            {
                                self.consumer.release(before);
                            }
                        }
                    }
                }
                self.held = Some(full);
                k += 1;
            }
        }
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn complete(&mut self, tCrC: &mut Accumulators<Self>) {
        warpgroup_wait::<0>();
        warpgroup_fence_operand(MmaOf::<T, N>::default(), tCrC);
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn release(&mut self) {
        if let Some(held) = self.held.take() {
            sync_warp(FULL_WARP);
            self.consumer.release(held);
        }
    }
}

/// x comes first in shared memory, where its swizzle requires the larger alignment.
impl<T, Q, const N: i64, const STAGES: u32, const CLUSTER: u32> Fill<STAGES, CLUSTER>
    for Operands<T, Q, N, STAGES, CLUSTER>
where
    T: Weight<N>,
    Q: CodeAs<T> + InOrder,
{
    type Operands = Self;
    type A = T;
    type B = u32;
    type StagesA = SmemX<N, STAGES>;
    type StagesB = SmemCodes<Q, STAGES>;
    type Tile = ();
    const BYTES: u32 = CopyX::<T, N, STAGES, CLUSTER>::BYTES + CopyCodes::<Q, STAGES>::BYTES;

    #[inline(always)]
    fn new(operands: Self) -> Self {
        operands
    }

    #[inline(always)]
    unsafe fn tile(&mut self, _: &WorkTile) {}

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(
        &self,
        (): &(),
        tile: &WorkTile,
        k: u32,
        (x, codes): (SharedTensor<T, SmemX<N, STAGES>>, SharedTensor<u32, SmemCodes<Q, STAGES>>),
        filling: &Filling,
    ) {
        let load_x = CopyX::<T, N, STAGES, CLUSTER>::get_slice();
        let gX = load_x.partition_s(self.x.at((tile.n, k)));
        // SAFETY: the stage is free and expects the bytes; the maps are as the kernel's contract
        // says.
        unsafe {
            let load_codes = CopyCodes::<Q, STAGES>::get_slice();
            load_codes.copy(self.codes.at((tile.m, k)), filling.of(codes), filling);
            load_x.copy(gX, load_x.partition_d(filling.of(x)), filling);
        }
    }
}

impl<T, Q, const N: i64, const STAGES: u32, const CLUSTER: u32> WarpSpecialised
    for Unpacked<T, Q, N, STAGES, CLUSTER>
where
    T: Weight<N>,
    Q: CodeAs<T> + InOrder,
{
    type Producer = FillProducer<Operands<T, Q, N, STAGES, CLUSTER>, STAGES, CLUSTER>;

    #[inline(always)]
    unsafe fn skip(&mut self, tile: &WorkTile) {
        // SAFETY: the other team has issued this tile's products, and a barrier separates the two.
        unsafe { self.consumer.skip(tile.k_tiles()) };
    }
}
