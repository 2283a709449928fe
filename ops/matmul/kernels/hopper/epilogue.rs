//! The epilogue in registers: scales, and for a C that is not read
//! `activation(alpha * sum + bias)`.
//!
//! Threads hold the accumulators as `wgmma` leaves them: for every eight columns, two adjacent
//! elements of one row and two of the row eight below. So a thread needs two elements of a bias
//! along rows, and for every eight columns one pair of a bias along columns, which eight lanes of a
//! warp share.
//!
//! Each condition is tested once for all accumulators. Registers cannot be indexed at run time: the
//! code is repeated for each accumulator, so it must be short.

use super::config::{ATOM_M, ArgumentsOf, WgmmaConfig};
use super::exchange::Exchange;
use super::mainloop::Loop;
use super::sink::{has_pieces, is_wide};
use super::tile::first_of;
use crate::kernels::mma::{Activation, Arguments, Convertible, Scalar, Scales};
use moye_device::arch::{Fma as _, opaque};
use moye_device::atom::mma::{accumulator_column, accumulator_row};
use moye_device::collective::{Accumulators, ByElement, Epilogue, Team, TileEpilogue, WorkTile};
use moye_device::memory::{Element, Global, GlobalPointer as _};

/// A consumer warpgroup's part of a tile of C.
#[derive(Clone, Copy)]
pub struct Part {
    /// Its first row and column.
    pub first: (u32, u32),
    /// The batch.
    pub batch: u32,
    /// The slice of K.
    pub split: u32,
}

impl Part {
    /// The part of one of the tile's warpgroups.
    #[inline(always)]
    pub fn new<G: WgmmaConfig>(arguments: &ArgumentsOf<G>, tile: &WorkTile, warpgroup: u32) -> Self {
        if G::ONE_TILE {
            let (row, column) = first_of::<G>(arguments, tile);
            return Self { first: (row + warpgroup * ATOM_M, column), batch: tile.batch, split: 0 };
        }
        Self {
            first: (tile.m * G::BLK_M + warpgroup * ATOM_M, tile.n * G::BLK_N),
            batch: tile.batch / arguments.splits,
            split: tile.batch % arguments.splits,
        }
    }

    /// The part of the warpgroup's instruction `mma_m`.
    #[inline(always)]
    pub(super) const fn below<G: WgmmaConfig>(self, mma_m: u32) -> Self {
        Self { first: (self.first.0 + mma_m * below::<G>(), self.first.1), ..self }
    }
}

/// Rows between consecutive instructions of a warpgroup.
pub(super) const fn below<G: WgmmaConfig>() -> u32 {
    ATOM_M * G::TOGETHER
}

/// Calls `function` with the accumulators of each of a thread's one or two instructions.
///
/// Written out rather than a loop: registers cannot be indexed at run time, and a loop that is
/// unrolled late leaves moves.
#[inline(always)]
fn each_instruction<G: WgmmaConfig>(values: &mut [G::Sum], mut function: impl FnMut(u32, &mut [G::Sum])) {
    const { assert!(G::MMA_M == 1 || G::MMA_M == 2, "a warpgroup has one instruction, or two below each other") };
    let (first, second) = values.split_at_mut(values.len() / G::MMA_M as usize);
    function(0, first);
    if G::MMA_M == 2 {
        function(1, second);
    }
}

/// The epilogue of the arguments; `E` replaces alpha, beta, bias and activation.
pub struct Finish<'a, G: WgmmaConfig, E> {
    pub(super) arguments: &'a ArgumentsOf<G>,
    pub(super) own: E,
}

impl<G: WgmmaConfig, E: Copy> Clone for Finish<'_, G, E> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<G: WgmmaConfig, E: Copy> Copy for Finish<'_, G, E> {}

impl<G: WgmmaConfig, E> Finish<'_, G, E> {
    /// Whether alpha, bias and activation are applied to a thread's registers: not if C is read,
    /// nor if a block with one tile stages accumulators.
    #[inline(always)]
    fn is_finished(arguments: &ArgumentsOf<G>, thread: u32) -> bool {
        if G::ONE_TILE {
            has_pieces::<(), _, _, _>(arguments, arguments.n) && Exchange::<G>::keeps(thread)
        } else {
            arguments.beta == G::Sum::ZERO
        }
    }
}

impl<'a, G, E, const CLUSTER: u32, const STAGES: u32> TileEpilogue<Loop<'a, G, CLUSTER, STAGES>>
    for Finish<'_, G, E>
where
    G: WgmmaConfig,
    E: Epilogue<G::Sum>,
{
    type Loaded = Option<Factors<G::Sum>>;

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn load(&self, tile: &WorkTile, team: &Team) -> Self::Loaded {
        let part = Part::new::<G>(self.arguments, tile, team.warpgroup());
        load_factors::<G>(self.arguments, part, team.within_warpgroup())
    }

    #[cfg_attr(target_arch = "nvptx64", inline(always))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
    unsafe fn apply(
        &self,
        tCrC: &mut Accumulators<Loop<'a, G, CLUSTER, STAGES>>, // (MMA, MMA_M, 1)
        factors: Self::Loaded,
        tile: &WorkTile,
        team: &Team,
    ) {
        let arguments = self.arguments;
        let part = Part::new::<G>(arguments, tile, team.warpgroup());
        // The code below must not take registers while the accumulators are computed.
        let within = opaque(team.within_warpgroup());
        scale::<G>(tCrC.values_mut(), arguments, factors, part, within);
        if !E::IS_IDENTITY {
            let epilogue = ByElement::new((arguments.m, arguments.n), self.own);
            TileEpilogue::<Loop<'a, G, CLUSTER, STAGES>>::apply(&epilogue, tCrC, (), tile, team);
        } else if Self::is_finished(arguments, within) {
            each_instruction::<G>(
                tCrC.values_mut(),
                #[inline(always)]
                |m, values| finish(values, arguments, part.below::<G>(m), within),
            );
        }
    }
}

/// Replaces an instruction's accumulators by the results for `beta` = 0.
///
/// # Safety
/// All threads of the warpgroup, or whole warps of it, call it, each with its index in the
/// warpgroup; the bias is readable, and no instruction that writes the accumulators is in flight.
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
pub(super) unsafe fn finish<T: Element, O: Convertible<S>, S: Scalar + Convertible<S>>(
    values: &mut [S],
    arguments: &Arguments<T, O, S>,
    part: Part,
    thread: u32,
) {
    // With alpha = 1 an accumulator of -0 keeps its sign.
    if arguments.alpha != S::ONE {
        let mut i = 0;
        while i < values.len() {
            values[i] = arguments.alpha.fma(values[i], S::ZERO);
            i += 1;
        }
    }
    let (warp, lane) = (thread / 32, thread % 32);
    let place = (part.first.0 + 16 * warp + accumulator_row(lane), part.first.1 + accumulator_column(lane));
    if arguments.bias.address() != 0 {
        // The element types match.
        if is_wide(arguments) {
            add_bias(values, arguments.bias.cast::<S>(), arguments, place);
        } else {
            add_bias(values, arguments.bias, arguments, place);
        }
    }
    // A branch for each group: the compiler schedules all instructions between two branches
    // together, in time that grows with the square of their number.
    let mut from = 0;
    while from < values.len() {
        let to = if from + GROUP < values.len() { from + GROUP } else { values.len() };
        let group = &mut values[from..to];
        match opaque(arguments.activation) {
            RELU => in_pairs(group, |pair| pair.map(S::relu)),
            GELU => in_pairs(group, S::gelu_of_two),
            GELU_TANH => in_pairs(group, S::gelu_tanh_of_two),
            SILU => in_pairs(group, S::silu_of_two),
            _ => {}
        }
        from = to;
    }
}

const RELU: u32 = Activation::Relu as u32;
const GELU: u32 = Activation::Gelu as u32;
const GELU_TANH: u32 = Activation::GeluTanh as u32;
const SILU: u32 = Activation::Silu as u32;

/// Elements whose activation is computed between two branches.
const GROUP: usize = 16;

/// Applies a function to pairs of adjacent elements of a row.
#[inline(always)]
fn in_pairs<S: Copy>(values: &mut [S], function: impl Fn([S; 2]) -> [S; 2]) {
    let mut i = 0;
    while i < values.len() {
        [values[i], values[i + 1]] = function([values[i], values[i + 1]]);
        i += 2;
    }
}

/// Adds the bias to a thread's elements, the first of which has this row and column of C.
///
/// # Safety
/// The bias has elements of `B`, and is readable.
#[inline(always)]
unsafe fn add_bias<T: Element, O: Element, S: Scalar, B: Convertible<S>>(
    values: &mut [S],
    bias: Global<B>,
    arguments: &Arguments<T, O, S>,
    (row, column): (u32, u32),
) {
    let add = |value: &mut S, bias: S| {
        *value = S::ONE.fma(bias, *value);
    };
    // Elements out of bounds of C are skipped; their results are not stored.
    if arguments.bias_n == 0 {
        let of = |row: u32| {
            let at = bias.offset(i64::from(row) * arguments.bias_m);
            at.read_if(row < arguments.m).widen()
        };
        let rows = [of(row), of(row + 8)];
        let mut i = 0;
        while i < values.len() {
            add(&mut values[i], rows[i / 2 % 2]);
            i += 1;
        }
    }
    // A separate condition: with two arms the compiler would move the additions after them, with a
    // register for the bias of each element.
    if opaque(arguments.bias_n as u32) != 0 {
        let of = |column: u32| {
            let at = bias.offset(i64::from(column) * arguments.bias_n);
            at.read_if(column < arguments.n).widen()
        };
        let mut i = 0;
        while i < values.len() {
            let column = column + 2 * i as u32;
            let pair = [of(column), of(column + 1)];
            let mut j = 0;
            while j < 4 {
                add(&mut values[i + j], pair[j % 2]);
                j += 1;
            }
            i += 4;
        }
    }
}

/// A thread's scales, except scales that differ by column: few registers, loaded while the last
/// instructions of a tile run.
#[derive(Clone, Copy)]
pub struct Factors<S> {
    /// For the thread's two rows in each of the warpgroup's one or two instructions; 1 if A has no
    /// scales.
    rows: [[S; 2]; 2],
    /// The scale common to all columns; 1 if they differ.
    columns: S,
}

/// Whether each column has a separate scale.
#[inline(always)]
fn by_column<S: Element>(scales: &Scales<S>) -> bool {
    scales.b.address() != 0 && scales.b_n != 0
}

/// A thread's scales for its warpgroup's part of a tile; `None` for configurations without scales.
///
/// # Safety
/// The scales are readable; `thread` is the index in the warpgroup.
#[inline(always)]
unsafe fn load_factors<G: WgmmaConfig>(
    arguments: &ArgumentsOf<G>,
    part: Part,
    thread: u32,
) -> Option<Factors<G::Sum>> {
    if !const { G::SCALED } {
        return None;
    }
    let scales = &arguments.scales;
    let row = part.first.0 + 16 * (thread / 32) + accumulator_row(thread % 32);
    let of_a = scales.a.offset(i64::from(part.batch) * scales.batch_a);
    let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
    // Rows out of bounds of C are skipped; their results are not stored.
    let of_row = |row: u32| match scales.a.address() {
        0 => G::Sum::ONE,
        _ => of_a.offset(i64::from(row) * scales.a_m).read_if(row < arguments.m),
    };
    let one_for_all = scales.b.address() != 0 && !by_column(scales);
    let of_instruction = |m: u32| [of_row(row + m * below::<G>()), of_row(row + m * below::<G>() + 8)];
    Some(Factors {
        rows: [of_instruction(0), if const { G::MMA_M > 1 } { of_instruction(1) } else { [G::Sum::ONE; 2] }],
        columns: if one_for_all { of_b.read_if(true) } else { G::Sum::ONE },
    })
}

/// Multiplies the accumulators of a warpgroup's part of a tile by their [`Scales`], if there are
/// `factors`.
///
/// Each slice of K is scaled separately, so that the reduction needs no scales.
///
/// # Safety
/// All threads of the consumer warpgroup call it, each with its index and the factors that it
/// [loaded](load_factors) for the same part. The scales are readable, and no instruction that
/// writes the accumulators is in flight.
#[inline(always)]
unsafe fn scale<G: WgmmaConfig>(
    sums: &mut [G::Sum],
    arguments: &ArgumentsOf<G>,
    factors: Option<Factors<G::Sum>>,
    part: Part,
    thread: u32,
) {
    let Some(factors) = factors else { return };
    let scales = &arguments.scales;
    if scales.a.address() == 0 && scales.b.address() == 0 {
        return;
    }
    each_instruction::<G>(
        sums,
        #[inline(always)]
        |m, sums| {
            scale_rows(sums, arguments, factors.rows[m as usize], factors.columns, part, thread);
        },
    );
}

/// [`scale`] for one of a warpgroup's instructions, with the scales of its two rows and of all
/// columns.
///
/// # Safety
/// Same contract as [`scale`].
#[cfg_attr(target_arch = "nvptx64", inline(always))]
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
unsafe fn scale_rows<T: Element, O: Element, S: Scalar>(
    sums: &mut [S],
    arguments: &Arguments<T, O, S>,
    rows: [S; 2],
    columns: S,
    part: Part,
    thread: u32,
) {
    let scales = &arguments.scales;
    let times = |sum: &mut S, factor: S| {
        *sum = factor.fma(*sum, S::ZERO);
    };
    // Four registers for every eight columns: two adjacent elements of the row, and two of the row
    // eight below.
    if by_column(scales) {
        let column = part.first.1 + accumulator_column(thread);
        let of_b = scales.b.offset(i64::from(part.batch) * scales.batch_b);
        let of_column = |column: u32| {
            let at = of_b.offset(i64::from(column) * scales.b_n);
            // Columns out of bounds of C are skipped; their results are not stored.
            at.read_if(column < arguments.n)
        };
        let mut at = 0;
        while at < sums.len() {
            let first = column + 2 * at as u32;
            let pair = [of_column(first), of_column(first + 1)];
            let mut i = 0;
            while i < 4 {
                times(&mut sums[at + i], rows[i / 2]);
                times(&mut sums[at + i], pair[i % 2]);
                i += 1;
            }
            at += 4;
        }
    } else {
        let both = rows.map(|row| row.fma(columns, S::ZERO));
        let mut at = 0;
        while at < sums.len() {
            times(&mut sums[at], both[at / 2 % 2]);
            at += 1;
        }
    }
}
