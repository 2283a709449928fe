//! The steps of a product: plan, rearrange operands if necessary, multiply, apply the epilogue.

use super::element::{Code, Major, Operand, Output};
use super::explanation::Explanation;
use super::hopper::{self, Pieces, Target};
use super::operand::View;
use super::plan::{Plan, Question};
use super::problem::{MAX_Y, OPERATION, Problem, Request, blocks};
use super::rearranged::{Ends, Layout, Move, lines, packed_row_of, rearrange, rearrange_operands, row_of};
use super::remembered::plan;
use super::repeated::{self, Key};
use crate::device::{Backend, Device};
use crate::kernels::mma::{Arguments, Scales};
use crate::launch::{Grid, noting};
use crate::matrix::MatrixMut;
use crate::memory::Workspace;
use crate::stream::Stream;
use crate::{Error, Result};
use moye_device::arch::Fma;
use moye_device::memory::{Element, Global, GlobalMut};
use moye_kernels::hopper::Cut;
use moye_kernels::mma::Scalar;

/// Computes a product.
///
/// # Safety
/// As for [`matmul_on`](crate::matmul_on).
pub(super) unsafe fn run<T: Operand, U: Output<T>>(
    request: &Request<'_, '_, T, U>,
    stream: &Stream,
    c: &mut MatrixMut<'_, U>,
) -> Result<()> {
    let device = stream.device();
    let gpu = match &device.0 {
        Backend::Gpu(gpu) if !stream.captures() && request.is_on(device, c) => *gpu,
        // SAFETY: the caller's contract.
        _ => return unsafe { compute(request, stream, c) }.map(drop),
    };
    let addresses = [std::ptr::from_ref(gpu).addr(), stream.raw(gpu).addr()].map(|address| address as u64);
    let key = Key::of(request, c, addresses);
    // SAFETY: the caller's contract; all buffers are on this device.
    if let Some(launched) = unsafe { repeated::launch(&key, gpu, stream) } {
        return launched;
    }
    // SAFETY: the caller's contract.
    let (computed, launches) = noting(|| unsafe { compute(request, stream, c) });
    repeated::keep(key, launches, computed?, (gpu, stream));
    Ok(())
}

/// Plans a product and launches it. Gives the address and the bytes of its workspace.
///
/// # Safety
/// As for [`run`].
unsafe fn compute<T: Operand, U: Output<T>>(
    request: &Request<'_, '_, T, U>,
    stream: &Stream,
    c: &mut MatrixMut<'_, U>,
) -> Result<(u64, usize)> {
    let Some(problem) = Problem::of(request, stream.device(), c)? else { return Ok((0, 0)) };
    let plan = planned(request, &problem, stream.device())?;
    let problem = problem.without_a_product_times_zero();
    let layout = Layout::of::<T, U>(&problem, &plan)?;
    let workspace = Workspace::new(stream, layout.bytes as usize)?;
    let base = workspace.as_ref().map_or(0, Workspace::address);
    // SAFETY: the matrices lie within their buffers (`Matrix::new`, `Problem::of`), and the
    // workspace is as large as `layout` says. `c` is borrowed mutably, shares no element with the
    // other matrices, and has no element twice. The stream runs these launches in order. The caller
    // answers for other streams.
    unsafe { launch::<T, U>(&problem, &plan, &layout, base, stream)? };
    Ok((base, layout.bytes as usize))
}

/// The plan of [`run`].
pub(super) fn explain<T: Operand, U: Output<T>>(
    request: &Request<'_, '_, T, U>,
    device: &Device,
    c: &mut MatrixMut<'_, U>,
) -> Result<Explanation> {
    let Some(problem) = Problem::of(request, device, c)? else {
        return Ok(Explanation {
            kernel: None,
            tile: (0, 0),
            splits: 0,
            shared_tiles: 0,
            pieces: 0,
            rearranged: [false; 2],
            workspace_bytes: 0,
        });
    };
    let plan = planned(request, &problem, device)?;
    let problem = problem.without_a_product_times_zero();
    let layout = Layout::of::<T, U>(&problem, &plan)?;
    let [tile_m, tile_n, _] = plan.variant.tile;
    let multiplies = problem.extents[2] > 0;
    let cut = if multiplies { plan.cut } else { Cut::NONE };
    Ok(Explanation {
        kernel: multiplies.then(|| plan.variant.kernel.name()),
        tile: (tile_m, tile_n),
        splits: if multiplies { plan.splits * plan.variant.kernel.clusters().parts() } else { 1 },
        shared_tiles: cut.tiles,
        pieces: cut.most_pieces(plan.stages(problem.extents[2])),
        rearranged: layout.packed.map(|packed| packed.is_some()),
        workspace_bytes: layout.bytes as usize,
    })
}

/// The plan of a problem.
fn planned<T: Operand, U: Element>(
    request: &Request<'_, '_, T, U>,
    problem: &Problem<T>,
    device: &Device,
) -> Result<Plan<T>> {
    let question = Question {
        extents: problem.extents,
        batches: problem.batches,
        operands: problem.operands,
        precision: request.precision,
        finished_apart: problem.needs_more() || problem.scattered || !problem.c_is_aligned(),
        multiprocessors: device.planned_multiprocessors(),
        shared_bytes: device.properties().shared_bytes_per_block,
        wgmma: hopper::is_there(device),
        forced: request.forced,
    };
    let measured = request.measured.and_then(|forced| plan(&Question { forced, ..question }));
    let plan = measured.or_else(|| plan(&question)).ok_or_else(|| {
        if !question.wgmma && T::VARIANTS.iter().all(|variant| variant.kernel.is_tma()) {
            let detail = format!(
                "{} is multiplied by `wgmma` alone, which GPUs of sm_90 (Hopper) have, and {} is {}; convert the matrices to f16, \
                 or take such a GPU",
                T::NAME,
                device.name(),
                device.arch()
            );
            return Error::Unsupported { operation: OPERATION, detail };
        }
        let detail = if let Some(name) = request.forced.kernel {
            format!(
                "no kernel for {} in {:?} precision has the name {name} and takes these operands, the requested \
                 tile and split-K slices, in the {} bytes of shared memory that a block may use here; there are {}",
                T::NAME,
                request.precision,
                question.shared_bytes,
                super::element::kernels::<T>(request.precision, question.wgmma).join(", ")
            )
        } else {
            let tiles: Vec<String> = super::element::tiles::<T>(request.precision, question.wgmma)
                .iter()
                .map(|(m, n)| format!("{m} x {n}"))
                .collect();
            let tile = request.forced.tile.map(|(m, n)| format!("has a tile of {m} x {n}"));
            let splits = request.forced.splits.map(|splits| format!("has {splits} split-K slices"));
            let asked: Vec<_> = tile.into_iter().chain(splits).collect();
            format!(
                "no kernel for {} in {:?} precision {}{}fits into the {} bytes of shared memory that a block may use here; there are {}",
                T::NAME,
                request.precision,
                asked.join(", "),
                if asked.is_empty() { "" } else { " and " },
                question.shared_bytes,
                tiles.join(", ")
            )
        };
        Error::Unsupported { operation: OPERATION, detail }
    })?;
    Ok(match in_one_launch(problem.extents, problem.batches, plan.variant.tile, plan.splits) {
        true => plan,
        false => Plan { cut: Cut::NONE, ..plan },
    })
}

/// Whether a persistent kernel takes all batches in one launch, so that a plan may share the last
/// tiles of all batches. With several launches the last one may have fewer tiles than are shared.
fn in_one_launch([m, n, _]: [u32; 3], batches: u32, [tile_m, tile_n, _]: [u32; 3], splits: u32) -> bool {
    let tiles = u64::from(m.div_ceil(tile_m)) * u64::from(n.div_ceil(tile_n)) * u64::from(splits);
    hopper::batches_at_once(tiles).is_ok_and(|at_once| batches <= at_once)
}

/// Launches all steps.
///
/// # Safety
/// As for [`run`]; `base` is the address of a workspace with this layout.
unsafe fn launch<T: Operand, U: Output<T>>(
    problem: &Problem<T>,
    plan: &Plan<T>,
    layout: &Layout,
    base: u64,
    stream: &Stream,
) -> Result<()> {
    let [m, n, k] = problem.extents;
    // SAFETY: the caller's contract, for every launch of this function.
    unsafe {
        let mut operands = problem.operands;
        let mut leading = [0; 2];
        let mut moves = [None; 2];
        for (i, extent) in [m, n].into_iter().enumerate() {
            leading[i] = plan.leading[i].unwrap_or_default();
            if let Some(offset) = layout.packed[i] {
                let from = operands[i];
                let major = plan.majors[i];
                let (along, across) = lines(major, extent, k);
                let row = packed_row_of(along, from.bytes) as i64;
                let (mn, k_stride) = if major == Major::K { (row, 1) } else { (1, row) };
                let to = View {
                    address: base + offset,
                    mn,
                    k: k_stride,
                    batch: if from.batch == 0 { 0 } else { row * i64::from(across) },
                    ..from
                };
                let batches = if from.batch == 0 { 1 } else { problem.batches };
                // Copies are fastest if the second mode of the destination is contiguous.
                moves[i] = Some(match major {
                    Major::K => Move { from, to, extents: (extent, k), batches },
                    Major::Mn => {
                        Move { from: from.exchanged(), to: to.exchanged(), extents: (k, extent), batches }
                    }
                });
                (operands[i], leading[i]) = (to, row);
            }
        }
        rearrange_operands(stream, moves)?;
        // C, or the workspace in its place.
        let mut c = problem.c;
        if let Some(offset) = layout.c {
            let row = row_of(n, U::BYTES as u64) as i64;
            c = View { address: base + offset, mn: row, k: 1, batch: row * i64::from(m), ..c };
            if problem.beta != T::Scalar::ZERO {
                rearrange(stream, problem.c, c, (m, n), Ends::Words, problem.batches)?;
            }
        }
        if k > 0 {
            multiply::<T, U>(
                problem,
                plan,
                operands,
                leading,
                c,
                [layout.sums, layout.pieces].map(|offset| offset.map(|offset| base + offset)),
                stream,
            )?;
        }
        if plan.apart || k == 0 {
            finish::<T, U>(problem, plan, c, layout.sums.map_or(0, |offset| base + offset), stream)?;
        }
        if layout.c.is_some() {
            rearrange(stream, c, problem.c, (m, n), Ends::Elements, problem.batches)?;
        }
    }
    Ok(())
}

/// The launch of the product itself.
///
/// # Safety
/// As for [`launch`].
unsafe fn multiply<T: Operand, U: Output<T>>(
    problem: &Problem<T>,
    plan: &Plan<T>,
    operands: [View; 2],
    leading: [i64; 2],
    c: View,
    [sums, pieces]: [Option<u64>; 2],
    stream: &Stream,
) -> Result<()> {
    let [m, n, k] = problem.extents;
    let variant = plan.variant;
    let of_operands = [m, n];
    let [m, n] = plan.whole_words([m, n]);
    let row = row_of(n, size_of::<T::Scalar>() as u64) as i64;
    let (address, ldc, split_c, batch_c, bytes) = match sums {
        Some(address) => {
            let part = row * i64::from(m);
            (address, row, part, part * i64::from(plan.splits), size_of::<T::Scalar>() as u64)
        }
        None => (c.address, c.mn, 0, c.batch, U::BYTES as u64),
    };
    let (bias, bias_m, bias_n) = if sums.is_some() { (0, 0, 0) } else { problem.bias };
    // Plain kernels write an M-contiguous C: they compute the transposed product.
    let [tile_m, tile_n, _] = variant.tile;
    let ((first, second), (m, n)) = if variant.plain { ((1, 0), (n, m)) } else { ((0, 1), (m, n)) };
    let tiles = u64::from(m.div_ceil(tile_m)) * u64::from(n.div_ceil(tile_n));
    let tiles = blocks("tiles of c", tiles)?;
    let at_once = match variant.kernel {
        Code::Blocks(_) | Code::Loaded(..) => MAX_Y / plan.splits,
        Code::Tma(_, _, clusters) => {
            hopper::batches_at_once(u64::from(tiles) * u64::from(plan.splits) * u64::from(clusters.parts()))?
        }
    };
    let mut done = 0;
    while done < problem.batches {
        let count = (problem.batches - done).min(at_once);
        let moved = |address: u64, batch: i64, bytes: u64| {
            address.wrapping_add((i64::from(done) * batch) as u64 * bytes)
        };
        let of =
            |i: usize| Global::from_address(moved(operands[i].address, operands[i].batch, operands[i].bytes));
        let scale_of = |i: usize| {
            let (address, along, batch) = problem.scales[i];
            // If the operand has no elements, none is copied.
            let batch = if address == 0 { 0 } else { batch };
            (Global::from_address(moved(address, batch, size_of::<T::Scalar>() as u64)), along, batch)
        };
        let arguments = Arguments {
            a: of(first),
            b: of(second),
            c: GlobalMut::from_address(moved(address, batch_c, bytes)),
            bias: Global::from_address(bias),
            lda: leading[first],
            ldb: leading[second],
            ldc,
            batch_a: operands[first].batch,
            batch_b: operands[second].batch,
            batch_c,
            split_c,
            bias_m,
            bias_n,
            alpha: if sums.is_some() { T::Scalar::ONE } else { problem.alpha },
            beta: if sums.is_some() { T::Scalar::ZERO } else { problem.beta },
            m,
            n,
            k,
            splits: plan.splits,
            k_chunk: plan.k_chunk,
            activation: if sums.is_some() { 0 } else { problem.activation as u32 },
            wide: u32::from(sums.is_some() || U::WIDE),
            tensor_c: 0,
            batches: count,
            reserved: 0,
            scales: Scales::new(scale_of(first), scale_of(second)),
        };
        // SAFETY: the caller's contract; the plan satisfies the kernel's.
        unsafe {
            match &variant.kernel {
                Code::Blocks(kernel) => {
                    let threads = kernel.bounds().threads.unwrap_or(256);
                    let grid = Grid::new((tiles, count * plan.splits), threads);
                    // Blocks that start early (PDL) take the places of blocks that have exited. If
                    // fewer places are free than there are blocks, they would crowd there and leave
                    // the rest of the GPU idle.
                    let places = variant.per_multiprocessor * stream.device().properties().multiprocessors;
                    let fills =
                        16 * u64::from(tiles) * u64::from(count * plan.splits) >= 15 * u64::from(places);
                    let grid = if fills || variant.per_multiprocessor == 1 { grid.dependent() } else { grid };
                    stream.launch(kernel, grid, (arguments,))?;
                }
                Code::Loaded(kernel, boxes) => {
                    let operands = [first, second].map(|i| (&operands[i], of_operands[i]));
                    hopper::launch_loaded(stream, (kernel, *boxes), tiles, operands, arguments)?;
                }
                Code::Tma(kernel, boxes, clusters) => {
                    let target = Target {
                        address: arguments.c.address(),
                        wide: sums.is_some() || U::WIDE,
                        aligned: sums.is_some() || problem.c_is_aligned() || problem.scattered,
                        // Rows of workspaces end at multiples of 16 bytes.
                        padded: sums.is_some() || problem.scattered,
                        parts: match sums {
                            Some(_) => (count * plan.splits, split_c),
                            None => (count, batch_c),
                        },
                    };
                    let operands = [&operands[0], &operands[1]];
                    let tile = (tile_m, tile_n);
                    let pieces = pieces.map(|sums| Pieces { clusters: plan.clusters, cut: plan.cut, sums });
                    hopper::launch::<T, U>(
                        stream,
                        (kernel, *boxes, *clusters),
                        tile,
                        pieces,
                        operands,
                        &target,
                        arguments,
                    )?;
                }
            }
        };
        done += count;
    }
    Ok(())
}

/// Writes C from the accumulators in the workspace, or from none.
///
/// # Safety
/// As for [`launch`].
unsafe fn finish<T: Operand, U: Output<T>>(
    problem: &Problem<T>,
    plan: &Plan<T>,
    c: View,
    sums: u64,
    stream: &Stream,
) -> Result<()> {
    let [m, n, k] = problem.extents;
    let [rows, columns] = plan.whole_words([m, n]);
    let row = row_of(columns, size_of::<T::Scalar>() as u64) as i64;
    let part = row * i64::from(rows);
    let splits = if k == 0 { 0 } else { plan.splits };
    let tiles = blocks("tiles of c", u64::from(m.div_ceil(8)) * u64::from(n.div_ceil(128)))?;
    let (bias, bias_m, bias_n) = problem.bias;
    let mut done = 0;
    while done < problem.batches {
        let count = (problem.batches - done).min(MAX_Y);
        let moved = |address: u64, batch: i64, bytes: usize| {
            address.wrapping_add((i64::from(done) * batch) as u64 * bytes as u64)
        };
        let batch_a = part * i64::from(splits);
        let arguments = Arguments::<T::Scalar, U, T::Scalar> {
            a: Global::from_address(moved(sums, batch_a, size_of::<T::Scalar>())),
            b: Global::from_address(0),
            c: GlobalMut::from_address(moved(c.address, c.batch, U::BYTES)),
            bias: Global::from_address(bias),
            lda: row,
            ldb: 0,
            ldc: c.mn,
            batch_a,
            batch_b: 0,
            batch_c: c.batch,
            split_c: part,
            bias_m,
            bias_n,
            alpha: problem.alpha,
            beta: problem.beta,
            m,
            n,
            k,
            splits,
            k_chunk: 0,
            activation: problem.activation as u32,
            wide: 0,
            tensor_c: 0,
            batches: count,
            reserved: 0,
            // The product's kernel has already applied the scales.
            scales: Scales::NONE,
        };
        // SAFETY: the caller's contract.
        unsafe { stream.launch(&U::finish(), Grid::new((tiles, count), 256).dependent(), (arguments,))? };
        done += count;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::in_one_launch;

    #[test]
    fn tiles_are_shared_only_where_one_launch_has_them_all() {
        let tile = [128, 256, 64];
        let limit = crate::MAX_BLOCKS[0];
        // 3 x 2 tiles for each batch.
        let extents = [300, 512, 64];
        assert!(in_one_launch(extents, 1, tile, 1));
        assert!(in_one_launch(extents, limit / 6, tile, 1));
        assert!(!in_one_launch(extents, limit / 6 + 1, tile, 1));
        assert!(in_one_launch(extents, limit / 12, tile, 2));
        assert!(!in_one_launch(extents, limit / 12 + 1, tile, 2));
        // More tiles in one batch than a launch can have: the product is refused.
        assert!(!in_one_launch([i32::MAX as u32 - 256; 3], 1, tile, 1));
    }
}
