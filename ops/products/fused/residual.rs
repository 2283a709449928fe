//! A residual, the factors of RMSNorm, and the sums of squares that the next norm needs.
#![allow(non_snake_case, reason = "CuTe's names")]

use super::kernel::{End, Extents};
use core::marker::PhantomData;
use moye_device::algorithm::{CopyAs, quad_reduce};
use moye_device::arch::{Word as _, opaque};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::collective::*;
use moye_device::prelude::*;

/// Columns whose squares are summed together.
pub const PART: u32 = 128;

/// The end of a product that adds a residual: `c = factor * sum + residual`, where the factor of a
/// row is the RMSNorm factor of the row of A, or 1. Addresses of absent operands are 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, KernelParam)]
pub struct WithResidual {
    /// The residual, of the type of the operands.
    pub residual: u64,
    /// Elements from row to row of it, and from column to column.
    pub row: i64,
    /// See `row`.
    pub column: i64,
    /// The sums of squares of C, to write, f32: (rows, parts).
    pub squares: u64,
    /// The sums of squares of the rows of A, f32: (rows, parts).
    pub of_a: u64,
    /// Parts of a row of A.
    pub parts: u32,
    /// The bits of epsilon, added to the mean of the squares.
    pub eps: u32,
    /// Whether two neighbouring elements of the residual form a word of 4 bytes.
    pub pairs: bool,
}

/// The epilogue of [`WithResidual`] for elements `T`.
#[derive(Clone, Copy)]
pub struct AddResidual<T>(WithResidual, Extents, PhantomData<T>);

/// The first of a thread's two rows of a tile; the second is eight rows below.
#[inline(always)]
pub(super) fn row_of<M: Mainloop>(tile: &WorkTile, team: &Team) -> u32 {
    tile.m * M::TILE.0 + 16 * (team.thread / 32) + accumulator_row(team.thread % 32)
}

impl<T: Half<Bits = u16>> AddResidual<T> {
    /// Two neighbouring elements of the residual.
    ///
    /// # Safety
    /// The residual has the rows and columns of C.
    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn two(&self, row: u32, column: u32) -> [f32; 2] {
        let Self(of, Extents { m, n, .. }, _) = self;
        let at = i64::from(row) * of.row + i64::from(column) * of.column;
        let first = Global::<T>::from_address(of.residual).offset(at);
        // SAFETY: elements out of bounds are not read; N is even where pairs are words.
        unsafe {
            if of.pairs {
                let word = u32::load_global_if(row < *m && column < *n, first.address());
                [word as u16, (word >> 16) as u16].map(|bits| T::from_bits(bits).convert())
            } else {
                let second = first.offset(of.column);
                [first.read_if(row < *m && column < *n), second.read_if(row < *m && column + 1 < *n)]
                    .map(Convert::convert)
            }
        }
    }
}

impl<T: Half<Bits = u16>, M: Mainloop<Accumulator = f32>> TileEpilogue<M> for AddResidual<T> {
    /// The factors of the thread's two rows.
    type Loaded = [f32; 2];

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&self, tile: &WorkTile, team: &Team) -> [f32; 2] {
        let Self(of, Extents { m, k, .. }, _) = self;
        let mut factors = [1.0; 2];
        if of.of_a != 0 {
            for below in 0..2 {
                let row = row_of::<M>(tile, team) + 8 * below;
                let squares =
                    Global::<f32>::from_address(of.of_a).offset(i64::from(row) * i64::from(of.parts));
                let mut sum = 0.0;
                for part in 0..of.parts {
                    // SAFETY: a row of A has a sum for each part.
                    sum += unsafe { squares.offset(part).read_if(row < *m) };
                }
                factors[below as usize] = math::fast::rsqrt(sum / *k as f32 + f32::from_bits(of.eps));
            }
        }
        factors
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, factors: [f32; 2], tile: &WorkTile, team: &Team) {
        const { assert!(M::TILE.1.is_multiple_of(PART), "a tile has whole parts") };
        let Self(of, Extents { m, n, .. }, _) = self;
        let (lane, row) = (team.thread % 32, row_of::<M>(tile, team));
        let first = tile.n * M::TILE.1 + accumulator_column(lane);
        for part in 0..const { M::TILE.1 / PART } {
            let mut sums = [0.0; 2];
            for eight in 0..const { PART / 8 } {
                // Opaque: otherwise all places are computed first and take registers.
                let column = opaque(first) + PART * part + 8 * eight;
                for below in 0..2 {
                    let at = (4 * (eight + PART / 8 * part) + 2 * below) as usize;
                    let mut two = [tCrC[at], tCrC[at + 1]].map(|sum| sum * factors[below as usize]);
                    if of.residual != 0 {
                        // SAFETY: the residual has the rows and columns of C.
                        let others = unsafe { self.two(row + 8 * below, column) };
                        two = [two[0] + others[0], two[1] + others[1]];
                    }
                    [tCrC[at], tCrC[at + 1]] = two;
                    // Products past the last column are 0, or NaN where A is not finite.
                    let [low, high] = [0, 1].map(|i| if column + i < *n { two[i as usize] } else { 0.0 });
                    let sum = &mut sums[below as usize];
                    *sum = low.fma(low, high.fma(high, *sum));
                }
            }
            if of.squares == 0 {
                continue;
            }
            for below in 0..2 {
                let sum = quad_reduce(sums[below as usize], |a, b| a + b);
                let (row, part) = (row + 8 * below, tile.n * const { M::TILE.1 / PART } + part);
                let at = i64::from(row) * i64::from(n.div_ceil(PART)) + i64::from(part);
                let to = GlobalMut::<f32>::from_address(of.squares).offset(at);
                // SAFETY: a row has a sum for each part, which one lane writes.
                unsafe {
                    to.write_if(lane % 4 == 0 && row < *m && part * PART < *n, sum);
                }
            }
        }
    }
}

impl<T, M> End<T, M> for WithResidual
where
    T: Half<Bits = u16> + Boxed + Paired,
    M: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static,
    f32: CopyAs<T>,
{
    type Output = T;
    type Epilogue = AddResidual<T>;
    type Sink = BoxesToSpans<T, Groups>;

    #[inline(always)]
    fn epilogue(&self, extents: Extents) -> AddResidual<T> {
        AddResidual(*self, extents, PhantomData)
    }

    #[inline(always)]
    fn sink(&self, c: &TensorMap, target: Target<T>, extents: Extents) -> Self::Sink {
        let c = (target.tensor > 0).then(|| StoreC::<T>::tensor(c));
        BoxesToSpans::new(c, extents.m, target, Groups::one(extents.m))
    }
}
