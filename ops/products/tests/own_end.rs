//! Kernels of another crate, instances of the generic ones: a product with a custom `End`, and
//! gated products with a custom `Join`.
#![cfg(all(feature = "fused", feature = "gated"))]
#![allow(non_snake_case, reason = "tensors have CuTe's names")]

use crate::random::Random;
use half::bf16;
use moye::{Buffer, Device, Grid, TensorMap as Map};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::collective::*;
use moye_device::layout::{IntTuple, Layout};
use moye_device::prelude::*;
use moye_products::fused::kernel::{End, Extents, fused};
use moye_products::gated::Join;
use moye_products::gated::multistage::{Loop64, Operands, linear_gated_mma};
use moye_products::grouped::kernel::{CopyA, CopyB, Loop, Square, Wide};
use moye_products::moe::gated::{CopyPair, GatedLoop, Joined, gated};

/// `factor[column] * max(sum, 0)^2`.
#[repr(C)]
#[derive(Clone, Copy, Debug, KernelParam)]
pub struct SquaredRelu {
    factors: Global<f32>,
}

/// The epilogue of [`SquaredRelu`].
#[derive(Clone, Copy)]
pub struct Squares(SquaredRelu, Extents);

impl<M: Mainloop<Accumulator = f32>> TileEpilogue<M> for Squares {
    type Loaded = ();

    unsafe fn load(&self, _: &WorkTile, _: &Team) {}

    unsafe fn apply(&self, tCrC: &mut Accumulators<M>, (): (), tile: &WorkTile, team: &Team) {
        let Self(of, Extents { n, .. }) = self;
        let first = tile.n * M::TILE.1 + accumulator_column(team.thread % 32);
        for i in 0..Accumulators::<M>::SIZE {
            let column = first + 8 * (i as u32 / 4) + i as u32 % 2;
            // SAFETY: each column has a factor.
            let factor = unsafe { of.factors.offset(column).read_if(column < *n) };
            tCrC[i] = factor * tCrC[i].max(0.0) * tCrC[i].max(0.0);
        }
    }
}

impl<M> End<bf16, M> for SquaredRelu
where
    M: Mainloop<Accumulator = f32, Mma: StaticTiledMma<Atom: WgmmaAtom>> + 'static,
{
    type Output = bf16;
    type Epilogue = Squares;
    type Sink = BoxesToSpans<bf16, Groups>;

    fn epilogue(&self, extents: Extents) -> Squares {
        Squares(*self, extents)
    }

    fn sink(&self, c: &TensorMap, target: Target<bf16>, extents: Extents) -> Self::Sink {
        let c = (target.tensor > 0).then(|| StoreC::<bf16>::tensor(c));
        BoxesToSpans::new(c, extents.m, target, Groups::one(extents.m))
    }
}

type SquareLoop = Loop<bf16, Square, 6, 1>;

/// `c = factors * max(a b^T, 0)^2`.
///
/// # Safety
/// Same contract as [`fused`]; there is a factor for each column.
#[kernel(
    threads = <SquareLoop as Mainloop>::THREADS,
    min_blocks = 1,
    shared = StorageOf<SquareLoop, BoxesToSpans<bf16, Groups>>
)]
pub unsafe fn linear_squared_relu(
    a: TensorMap,
    b: TensorMap,
    c: TensorMap,
    target: Target<bf16>,
    end: SquaredRelu,
    extents: Extents,
) {
    fused::<bf16, bf16, Square, SquaredRelu, 6, 1>(a, b, c, target, end, extents);
}

/// `max(gate, 0) * up`.
#[derive(Clone, Copy)]
pub struct ReGlu;

impl Join for ReGlu {
    fn join(gate: [f32; 2], up: [f32; 2]) -> [f32; 2] {
        [gate[0].max(0.0) * up[0], gate[1].max(0.0) * up[1]]
    }
}

/// [`linear_gated_mma`] with [`ReGlu`].
///
/// # Safety
/// Same contract as [`linear_gated_mma`].
#[kernel(
    threads = <Loop64<bf16> as Mainloop>::THREADS,
    min_blocks = 1,
    shared = <Loop64<bf16> as Mainloop>::Storage
)]
pub unsafe fn linear_reglu_mma(operands: Operands<bf16>, target: Target<bf16>) {
    linear_gated_mma::<bf16, ReGlu, Loop64<bf16>>(operands, target);
}

/// [`gated`] with [`ReGlu`].
///
/// # Safety
/// Same contract as [`gated`].
#[kernel(
    threads = GatedLoop::<bf16, 1>::THREADS,
    min_blocks = 1,
    shared = StorageOf<GatedLoop<bf16, 1>, Joined<bf16, ReGlu>>
)]
pub unsafe fn linear_reglu(
    a: TensorMap,
    b: TensorMap,
    target: Target<bf16>,
    groups: Groups,
    k: u32,
    band: u32,
) {
    gated::<bf16, ReGlu, 1>(a, b, target, groups, k, band);
}

/// Elements from -1 to 1.
fn elements(count: usize, seed: u64) -> Vec<bf16> {
    let mut random = Random::new(seed);
    (0..count).map(|_| bf16::from_f32(random.unit())).collect()
}

/// The map of a tensor with these extents, row-major, in memory from `address` on.
fn map(device: &Device, tile: &TmaTile, address: u64, shape: &[i64], strides: &[i64]) -> Map {
    let tensor = Layout::new(IntTuple::flat(shape), IntTuple::flat(strides));
    Map::new(device, &tile.tensor_map(bf16::ELEMENT, address, &tensor).unwrap()).unwrap()
}

/// Sums of products of a row of `a` and one of `b`, of `k` elements each.
fn dot(a: &[bf16], b: &[bf16], k: usize, i: usize, j: usize) -> f64 {
    (0..k).map(|l| a[i * k + l].to_f64() * b[j * k + l].to_f64()).sum()
}

fn check(got: &Buffer<bf16>, wanted: impl Iterator<Item = f64>) {
    let (mut error, mut norm) = (0.0, 0.0);
    for (got, wanted) in got.download().unwrap().into_iter().zip(wanted) {
        error += (got.to_f64() - wanted).powi(2);
        norm += wanted.powi(2);
    }
    // Half a unit in the last place of bf16, and accumulators in f32.
    assert!(error.sqrt() <= (2f64.powi(-8) + 1e-5) * norm.sqrt(), "{error} of {norm}");
}

/// A result of m x n from `c` on.
fn target(c: &Buffer<bf16>, n: usize, tensor: bool) -> Target<bf16> {
    let (c, row, columns) = (GlobalMut::from_address(c.address()), n as i64, n as u32);
    Target {
        c,
        group: 0,
        row,
        column: 1,
        columns,
        aligned: u32::from(n.is_multiple_of(8)),
        tensor: tensor.into(),
    }
}

#[test]
fn an_end_of_another_crate_has_an_epilogue_and_parameters_of_its_own() {
    let device = Device::sim();
    // Whole vectors of 16 bytes, with a tensor map of C, and neither.
    for [m, n, k] in [[140, 136, 72], [5, 33, 16]] {
        let (a, b) = (elements(m * k, 1), elements(n * k, 2));
        let factors: Vec<f32> = (0..n).map(|i| 0.5 + i as f32 / 100.0).collect();
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let on_factors = device.upload(&factors).unwrap();
        let c = device.upload(&vec![bf16::NAN; m * n]).unwrap();
        let of = |buffer: &Buffer<bf16>, tile: &TmaTile, rows: usize| {
            let [rows, k] = [rows, k].map(|extent| extent as i64);
            map(&device, tile, buffer.address(), &[rows, k, 1], &[k, 1, rows * k])
        };
        let of_a = of(&on_a, &CopyA::<bf16, Square>::TILE, m);
        let of_b = of(&on_b, &CopyB::<bf16, Square, 1>::TILE, n);
        let whole = n.is_multiple_of(8);
        let row = if whole { n } else { n.next_multiple_of(8) } as i64;
        let of_c = map(&device, &StoreC::<bf16>::TILE, c.address(), &[m as i64, n as i64], &[row, 1]);
        let end = SquaredRelu { factors: Global::from_address(on_factors.address()) };
        let extents = Extents { m: m as u32, n: n as u32, k: k as u32, band: 16 };
        let grid = Grid::new(3, SquareLoop::THREADS);
        let arguments = (&of_a, &of_b, &of_c, target(&c, n, whole), end, extents);
        // SAFETY: the maps are of the operands, and each column has a factor.
        unsafe { device.launch(&linear_squared_relu, grid, arguments) }.unwrap();
        let wanted = |at: usize| {
            let sum = dot(&a, &b, k, at / n, at % n);
            f64::from(factors[at % n]) * sum.max(0.0).powi(2)
        };
        check(&c, (0..m * n).map(wanted));
    }
}

#[test]
fn a_join_of_another_crate_gates_by_both_mainloops() {
    let device = Device::sim();
    for [m, n, k] in [[70, 72, 64], [3, 9, 16]] {
        let (a, b) = (elements(m * k, 3), elements(2 * n * k, 4));
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let wanted = |at: usize| {
            let of = |row: usize| dot(&a, &b, k, at / n, row);
            of(at % n).max(0.0) * of(n + at % n)
        };
        let [of_m, of_n, of_k] = [m, n, k].map(|extent| extent as i64);
        let c = device.upload(&vec![bf16::NAN; m * n]).unwrap();
        let operands = Operands {
            a: Global::from_address(on_a.address()),
            b: Global::from_address(on_b.address()),
            row_a: of_k,
            row_b: of_k,
            up: of_n * of_k,
            m: m as u32,
            k: k as u32,
        };
        let grid = Grid::new((m.div_ceil(64) * n.div_ceil(64)) as u32, Loop64::<bf16>::THREADS);
        // SAFETY: the operands have the extents.
        unsafe { device.launch(&linear_reglu_mma, grid, (operands, target(&c, n, false))) }.unwrap();
        check(&c, (0..m * n).map(wanted));

        let c = device.upload(&vec![bf16::NAN; m * n]).unwrap();
        let of_a = map(
            &device,
            &CopyA::<bf16, Wide>::TILE,
            on_a.address(),
            &[of_m, of_k, 1],
            &[of_k, 1, of_m * of_k],
        );
        let (shape, strides) = ([2, of_n, of_k, 1], [of_n * of_k, of_k, 1, 2 * of_n * of_k]);
        let of_b = map(&device, &CopyPair::<bf16, 1>::TILE, on_b.address(), &shape, &strides);
        let arguments = (&of_a, &of_b, target(&c, n, false), Groups::one(m as u32), k as u32, 16);
        let grid = Grid::new(2, GatedLoop::<bf16, 1>::THREADS);
        // SAFETY: the maps are of the operands, and all rows are one group.
        unsafe { device.launch(&linear_reglu, grid, arguments) }.unwrap();
        check(&c, (0..m * n).map(wanted));
    }
}
