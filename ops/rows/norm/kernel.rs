//! RMSNorm and LayerNorm: each row is read once, into registers, and written once.
#![allow(non_snake_case, reason = "CuTe's names")]

use crate::code::{encode, scale_of};
use crate::moments::moments;
use crate::thread;
use moye_device::algorithm::*;
use moye_device::arch::overlap_launches;
use moye_device::prelude::*;

const F32: u32 = Output::F32 as u32;
const F16: u32 = Output::F16 as u32;

/// The type of results without scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Output {
    /// f32.
    F32,
    /// f16.
    F16,
    /// bf16.
    Bf16,
}

/// The strides of the arrays.
#[derive(Clone, Copy, KernelParam)]
#[repr(C)]
pub struct Strides {
    /// Strides of x.
    pub x: RowStride,
    /// Strides of the weight; only the one between elements is used.
    pub weight: RowStride,
    /// Strides of the bias; only the one between elements is used.
    pub bias: RowStride,
    /// Strides of the residual.
    pub residual: RowStride,
    /// Strides of the result.
    pub y: RowStride,
    /// Strides of the sum.
    pub sum: RowStride,
    /// Strides of the scales; only the one between rows is used.
    pub scales: RowStride,
}

/// Stores a thread's rows of elements `T` as elements `U`.
///
/// # Safety
/// `y` holds the rows, which are aligned as those of `T`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<T: Element, U: Element, C: RowShape, L: StaticLayout>(
    team: &RowTeam<C>,
    tXrX: &Fragment<f32, L>, // (CPY, CPY_M, CPY_N)
    y: GlobalMut<U>,
    shape: (u32, u32),
    ld: RowStride,
) where
    f32: Convert<U> + CopyAs<U>,
{
    let store = RowCopyWith::<U, T, C>::get_slice(thread::<C>());
    let tYgY = store.partition_d(team.rows(y, shape, ld)); // (CPY, CPY_M, CPY_N)
    // SAFETY: `y` holds the rows.
    unsafe {
        if const { C::ALIGN == 1 || T::BYTES == U::BYTES } {
            team.store(tXrX, &tYgY);
        } else if const { !C::Blocks::CHUNKS } || team.writes() {
            copy(tXrX, tYgY);
        }
    }
}

/// `h = x + residual`; `y = (h - mean(h)) / sqrt(variance(h) + eps) * weight + bias` along rows
/// with `center`, else `y = h / sqrt(mean(h^2) + eps) * weight + bias`; a block for each `C::ROWS`
/// rows, or a cluster for each row; shapes that are `AHEAD` step over the rows. Without `residual`,
/// `weight` or `bias` their address is 0. `h` is written to `sum` unless its address is 0. With
/// `scales` (address not 0), `y` holds elements of 8 bits of type `code`, divided by the scale of
/// their row, which makes its greatest magnitude the greatest value of the type; without, elements
/// of the type that the [`Output`] `code` names.
///
/// # Safety
/// `x`, `y`, `residual` and `sum` hold `m` rows of `n` elements, `weight` and `bias` `n` elements,
/// and `scales` `m`, at the strides `ld`. Rows, `weight` and `bias` are aligned to `C::ALIGN`
/// bytes, and `n` is at most `C::COLUMNS`, times the blocks of a cluster. Each result is the
/// same as, or disjoint from, each of the other arrays.
#[kernel(
    threads = C::BLOCK,
    // 64 registers a thread; rows that start anywhere may have more.
    min_blocks = if C::ALIGN > 1 { 1024 / C::BLOCK } else { 1 },
    shared = (
        scratch: SharedArray<f32, RowScratch>,
        stage: RowStage<T, C>,
        of_weight: RowStage<T, C, 3>,
        of_bias: RowStage<T, C, 3>,
    ),
    instances = norm<
        f32 | f16 | bf16,
        Lanes4 | Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp | AnyBlock
            | Chunked | AnyChunked
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster512
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] Cluster1024
            | #[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90"))] AnyCluster
    >,
    table = NormKernels
)]
pub unsafe fn norm<T: Element + Convert<f32>, C: RowShape>(
    x: Global<T>,
    weight: Global<T>,
    bias: Global<T>,
    residual: Global<T>,
    y: GlobalMut<T>,
    sum: GlobalMut<T>,
    scales: GlobalMut<f32>,
    m: u32,
    n: u32,
    ld: Strides,
    eps: f32,
    center: bool,
    code: u32,
) where
    f32: Convert<T>,
{
    overlap_launches();
    let mut team = RowTeam::<C>::new(scratch);
    let load = RowCopy::<T, C>::get_slice(thread_idx().x);
    stage.start(&load.partition_s(team.rows(x, (m, n), ld.x)));
    if weight.address() != 0 {
        of_weight.start(&load.partition_s(team.rows(weight, (m, n), ld.weight)));
    }
    if bias.address() != 0 {
        of_bias.start(&load.partition_s(team.rows(bias, (m, n), ld.bias)));
    }
    let keeps = const { RowStage::<T, C>::KEEPS };
    loop {
        let load = RowCopy::<T, C>::get_slice(thread::<C>());
        let tXgX = load.partition_s(team.rows(x, (m, n), ld.x)); // (CPY, CPY_M, CPY_N)
        let mut tXrX = stage.take(&team, &tXgX); // (CPY, CPY_M, CPY_N)
        if !keeps {
            stage.start(&load.partition_s(team.rows_at(x, (m, n), ld.x, team.next_tile())));
        }
        if residual.address() != 0 {
            let gR = team.rows(residual, (m, n), ld.residual); // (BLK_M, BLK_N)
            team.apply_loaded(&mut tXrX, &load.partition_s(gR), f32::add);
        }
        if !keeps && sum.address() != 0 {
            let gS = team.rows(sum, (m, n), ld.sum); // (BLK_M, BLK_N)
            team.store(&tXrX, &load.partition_d(gS));
        }
        let ([mean, rest], squares) = moments(&mut team, &mut tXrX, &tXgX, n, center);
        if keeps {
            // Read again: with other values they do not fit into the registers of a thread.
            tXrX = stage.again(&tXgX);
            stage.start(&load.partition_s(team.rows_at(x, (m, n), ld.x, team.next_tile())));
            if residual.address() != 0 {
                let gR = team.rows(residual, (m, n), ld.residual); // (BLK_M, BLK_N)
                team.apply_loaded(&mut tXrX, &load.partition_s(gR), f32::add);
            }
            if sum.address() != 0 {
                let gS = team.rows(sum, (m, n), ld.sum); // (BLK_M, BLK_N)
                team.store(&tXrX, &load.partition_d(gS));
            }
            if center {
                tXrX.apply(|x| (x - mean) - rest);
                team.fill_outside(&mut tXrX, &tXgX, 0.0);
            }
        }
        let scale = math::fast::rsqrt(squares / n as f32 + eps);
        tXrX.apply(|x| x * scale);
        if weight.address() != 0 {
            let gW = team.rows(weight, (m, n), ld.weight); // (BLK_M, BLK_N), of equal rows
            of_weight.apply(&team, &mut tXrX, &load.partition_s(gW), |x, w| x * w);
        }
        if bias.address() != 0 {
            let gB = team.rows(bias, (m, n), ld.bias); // (BLK_M, BLK_N), of equal rows
            of_bias.apply(&team, &mut tXrX, &load.partition_s(gB), f32::add);
        }
        if scales.address() == 0 {
            // A branch for each type: instances would triple the number of kernels.
            match code {
                F32 => store::<T, f32, C, _>(&team, &tXrX, y.cast(), (m, n), ld.y),
                F16 => store::<T, f16, C, _>(&team, &tXrX, y.cast(), (m, n), ld.y),
                _ => store::<T, bf16, C, _>(&team, &tXrX, y.cast(), (m, n), ld.y),
            }
        } else {
            // Out of bounds it is 0 or NaN, which a maximum ignores.
            let amax = tXrX.fold_rows(&tXrX.rows(0.0f32), |max, x| max.max(x.abs())); // (CPY_M)
            let (scale, inverse) = scale_of(code, team.reduce(amax, f32::max)[0]);
            if let Some(row) = team.leader().filter(|&row| row < m) {
                scales.write(i64::from(row) * ld.scales.row, scale);
            }
            tXrX.apply(|x| x * inverse);
            let store = RowCopyWith::<u8, T, C>::get_slice(thread::<C>());
            let gQ = team.rows(y.cast::<u8>(), (m, n), ld.y); // (BLK_M, BLK_N)
            team.store_bytes(&tXrX, &store.partition_d(gQ), |values| encode(code, values));
        }
        if !team.step(m) {
            return;
        }
    }
}
