//! The shape of a Hopper kernel as a type: element, head size, tile of keys, warpgroups.

use super::super::config::{Half, TileConfig};
use super::super::softmax::SoftmaxPolicy;
use moye_device::arch::opaque;
use moye_device::atom::copy::SM90_U32x4_STSM_N;
use moye_device::atom::wgmma::WgmmaAtom;
use moye_device::atom::{StaticTiledCopy, StaticTiledMma};

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;
/// Stages of K, and of V.
pub const STAGES: u32 = 2;
/// Keys of a box of the kernels for pages and variable lengths.
pub const BOX: u32 = 64;
/// Keys of a box where pages are smaller than [`BOX`]: the page size is a multiple of it.
pub const SMALL_BOX: u32 = 16;

/// The shape of a kernel.
pub trait HopperConfig: TileConfig + Send + Sync {
    /// Elements of O.
    type T: Half;
    /// Consumer warpgroups, with 64 rows of queries each.
    const WARPGROUPS: u32;
    /// Stages of V as TMA loads it.
    const STAGES_V: u32 = STAGES;
    /// Whether warpgroups issue their products in turn.
    const TURNS: bool = true;
    /// Whether O has separate tiles in shared memory, which need `DV` to be `D`. Otherwise the
    /// persistent kernel stores it from registers, and the kernel for variable lengths through the
    /// tiles of Q.
    const SEPARATE_O: bool = true;
    /// Whether addresses and tile numbers are recomputed at each use, since registers are too few
    /// to keep them.
    const RECOMPUTES: bool = false;
    /// Whether the bias or the mask of a tile of keys is loaded during the products of the previous
    /// tile, which takes registers.
    const AHEAD: bool = true;
    /// How far, in powers of two, a row's maximum may grow before the accumulator is rescaled. P is
    /// at most `2^(OFFSET + SLACK)`: well within the range of f16, and below 448, the largest e4m3
    /// value.
    const SLACK: f32 = 8.0;
    /// The exponent of the largest probability where the maximum of its row is up to date: 8-bit
    /// floats have few values below 1.
    const OFFSET: u32 = 0;
    /// Whether `wgmma` sums the probabilities, as a product of the rounded P with ones. That is
    /// faster, but too coarse for the log-sum-exp, which such a kernel does not write.
    const SUMS_BY_WGMMA: bool = false;
    /// Tiles of Q, and of O where they are separate.
    const TILES_Q: u32 = if Self::SEPARATE_O { 2 } else { 1 } * Self::WARPGROUPS;
    /// Threads of a block: the consumers' and the producer's.
    const THREADS: u32 = (Self::WARPGROUPS + 1) * WARPGROUP;
    /// The softmax.
    const SOFTMAX: SoftmaxPolicy = SoftmaxPolicy {
        any: Self::GENERAL,
        slack: Some(Self::SLACK),
        offset: Self::OFFSET,
        sums: !Self::SUMS_BY_WGMMA,
    };
    /// `S = Q K^T` of a warpgroup: 64 x BLK_N, both operands in shared memory.
    type Qk: StaticTiledMma<Atom: WgmmaAtom<OperandA = u64, D = f32>>;
    /// `O = P V` of a warpgroup: 64 x DV, P in registers.
    type Pv: StaticTiledMma<Atom: WgmmaAtom<OperandA = [u32; 4], D = f32>>;
    /// O to shared memory.
    type StoreO: StaticTiledCopy<Atom = SM90_U32x4_STSM_N, Element = Self::T>;

    /// A consumer claims its registers, or the producer releases the registers that it does not
    /// need.
    ///
    /// # Safety
    /// Same contract as [`increase_registers`](moye_device::arch::increase_registers()).
    unsafe fn set_registers<const CONSUMER: bool>();
}

/// `value`; with [`HopperConfig::RECOMPUTES`] the compiler recomputes what depends on it at each
/// use.
#[inline(always)]
pub fn recomputed<C: HopperConfig>(value: u32) -> u32 {
    if C::RECOMPUTES { opaque(value) } else { value }
}

/// The elements of Q, K and V.
pub type Element<C> = <C as TileConfig>::Operand;
