//! Runs a plan: rearranges operands if necessary, multiplies, and applies the epilogue.

use super::builder::Matmul;
use super::descriptor::{Bias, Descriptor, Epilogue, OPERATION};
use super::element::{Operand, Output};
use super::operand::View;
use super::plan::{self, Accumulators, Explanation, MAX_Y, Plan, Problem};
use super::tma::{self, Target};
use super::variants::{ArgumentsOf, Code, kernels, tiles};
use super::workspace::{Regions, rearranged, row_of};
use crate::PTX;
use crate::kernels::hopper::Cut;
use crate::kernels::mma::{Activation, Arguments, Scalar, Scales};
use moye_device::arch::Fma;
use moye_device::layout::Major;
use moye_device::memory::{Global, GlobalMut};
use moye_movement::rearrange::{Rearrangement, RowEnd, rearrange_operands};
use moye_movement::repack::grid_blocks;
use moye_runtime::operation::{self, Launcher, Operation};
use moye_runtime::{Device, Error, Grid, MatrixMut, Ptx, Rates, Result, Stream};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

/// Products of factors `T` with results `U`.
struct Product<T, U>(PhantomData<(T, U)>);

/// The launched product.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Call<S>(Descriptor<S>);

/// A product with a NaN factor equals no other: it is planned each time.
impl<S: PartialEq> Eq for Call<S> {}

impl<S> Hash for Call<S> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.0.operands;
        (a.address, b.address, self.0.c.address).hash(state);
    }
}

impl<T: Operand, U: Output<T>> Operation for Product<T, U> {
    type Problem = Problem;
    type Plan = Plan<T>;
    type Call = Call<T::Scalar>;

    const NAME: &'static str = OPERATION;

    fn ptx() -> &'static Ptx {
        &PTX
    }

    fn candidates(problem: &Problem, _: &Rates) -> Vec<Plan<T>> {
        plan::candidates(problem)
    }

    fn cost(plan: &Plan<T>, _: &Problem, _: &Rates) -> f64 {
        plan.microseconds
    }

    fn kernel(plan: &Plan<T>) -> &'static str {
        plan.variant.kernel.name()
    }

    fn workspace(plan: &Plan<T>, _: &Problem, Call(product): &Call<T::Scalar>) -> Result<usize> {
        Ok(Regions::of::<T, U>(&product.without_a_product_times_zero(), plan)?.bytes as usize)
    }

    unsafe fn launch(
        plan: &Plan<T>,
        _: &Problem,
        Call(product): &Call<T::Scalar>,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let product = product.without_a_product_times_zero();
        let regions = Regions::of::<T, U>(&product, plan)?.at(on.workspace());
        let launch = Launch { product, plan: *plan, regions, stream: on.stream() };
        // SAFETY: the matrices are inside their buffers (`Matrix::new`, `Descriptor::of`), and the
        // workspace has the size that `regions` returned. `c` is borrowed mutably, shares no
        // element with the other matrices, and has no element twice. The stream runs these launches
        // in order; the caller orders other streams.
        unsafe { launch.all::<U>() }
    }
}

/// Computes a product.
///
/// # Safety
/// Same contract as [`matmul_on`](crate::matmul_on).
pub(super) unsafe fn run<T: Operand, U: Output<T>>(
    product: &Matmul<'_, T, U>,
    stream: &Stream,
    c: &mut MatrixMut<'_, U>,
) -> Result<()> {
    let device = stream.device();
    let Some(product) = Descriptor::of(product, device, c)? else { return Ok(()) };
    let problem = problem_of(&product, device);
    // SAFETY: the caller guarantees that until the product is complete no other stream writes the
    // operands or accesses `c`. All buffers are on this device.
    unsafe { operation::run::<Product<T, U>>(stream, &problem, &Call(product)) }
        .map_err(|error| planned::<T, U>(&problem, device).err().unwrap_or(error))
}

/// The plan that [`run`] uses.
pub(super) fn explain<T: Operand, U: Output<T>>(
    product: &Matmul<'_, T, U>,
    device: &Device,
    c: &mut MatrixMut<'_, U>,
) -> Result<Explanation> {
    let Some(product) = Descriptor::of(product, device, c)? else { return Ok(Explanation::default()) };
    let plan = planned::<T, U>(&problem_of(&product, device), device)?;
    let product = product.without_a_product_times_zero();
    let regions = Regions::of::<T, U>(&product, &plan)?;
    let ([tile_m, tile_n, _], [.., k]) = (plan.variant.tile, product.extents);
    let cut = if k > 0 { plan.cut } else { Cut::NONE };
    Ok(Explanation {
        kernel: (k > 0).then(|| plan.variant.kernel.name()),
        tile: (tile_m, tile_n),
        splits: if k > 0 { plan.slices * plan.variant.schedule.cluster_slices() } else { 1 },
        shared_tiles: cut.tiles,
        pieces: cut.most_pieces(plan.stages(k)),
        rearranged: regions.operands.map(|operand| operand.is_some()),
        workspace_bytes: regions.bytes as usize,
    })
}

/// The inputs of a product's plan on a device.
fn problem_of<S: Fma + PartialEq>(product: &Descriptor<S>, device: &Device) -> Problem {
    Problem {
        extents: product.extents,
        batches: product.batches,
        operands: product.operands.map(View::anywhere),
        precision: product.precision,
        written_by_sgemm: product.is_written_by_sgemm(),
        multiprocessors: device.rates().multiprocessors,
        shared_bytes: device.properties().shared_bytes_per_block,
        wgmma: tma::is_there(device),
        preference: product.preference,
    }
}

/// The plan for a problem on a device.
fn planned<T: Operand, U: Output<T>>(problem: &Problem, device: &Device) -> Result<Plan<T>> {
    operation::plan::<Product<T, U>>(device, problem).map_err(|_| no_plan::<T>(problem, device))
}

/// The error if no kernel fits.
fn no_plan<T: Operand>(problem: &Problem, device: &Device) -> Error {
    let Problem { precision, shared_bytes, wgmma, preference, .. } = *problem;
    let detail = if !wgmma && T::VARIANTS.iter().all(|variant| variant.kernel.is_tma()) {
        format!(
            "{} is multiplied by `wgmma` alone, which GPUs of sm_90 (Hopper) have, and {} is {}; convert the matrices to f16, \
             or take such a GPU",
            T::NAME,
            device.name(),
            device.arch()
        )
    } else if let Some(name) = preference.kernel {
        format!(
            "no kernel for {} in {precision:?} precision has the name {name} and takes these operands, the requested \
             tile and split-K slices, in the {shared_bytes} bytes of shared memory that a block may use here; there are {}",
            T::NAME,
            kernels::<T>(precision, wgmma).join(", ")
        )
    } else {
        let tiles = tiles::<T>(precision, wgmma).into_iter().map(|(m, n)| format!("{m} x {n}"));
        let tile = preference.tile.map(|(m, n)| format!("has a tile of {m} x {n}"));
        let slices = preference.slices.map(|slices| format!("has {slices} split-K slices"));
        let asked: Vec<_> = tile.into_iter().chain(slices).collect();
        format!(
            "no kernel for {} in {precision:?} precision {}{}fits into the {shared_bytes} bytes of shared memory that a block \
             may use here; there are {}",
            T::NAME,
            asked.join(", "),
            if asked.is_empty() { "" } else { " and " },
            tiles.collect::<Vec<_>>().join(", ")
        )
    };
    Error::Unsupported { operation: OPERATION, detail }
}

/// The launches of a product.
struct Launch<'s, T: Operand> {
    product: Descriptor<T::Scalar>,
    plan: Plan<T>,
    /// The addresses of the workspace's regions.
    regions: Regions,
    stream: &'s Stream,
}

impl<T: Operand> Launch<'_, T> {
    /// Launches all steps.
    ///
    /// # Safety
    /// Same contract as [`run`]; the regions are in a workspace with their layout.
    unsafe fn all<U: Output<T>>(&self) -> Result<()> {
        let Self { product, plan, regions, stream } = self;
        let [m, n, k] = product.extents;
        let mut operands = product.operands;
        let mut leading = plan.sources.map(|source| source.leading.unwrap_or_default());
        let mut copies = [None; 2];
        for (i, extent) in [m, n].into_iter().enumerate() {
            let Some(address) = regions.operands[i] else { continue };
            let (from, major) = (operands[i], plan.sources[i].major);
            let to = rearranged(&from, major, extent, k, address);
            let batches = if from.batch == 0 { 1 } else { product.batches };
            let copy = |from: View, to: View, rows, k| {
                let (from, to) = (from.strided(), to.strided());
                Rearrangement { from, to, bytes: T::BYTES as u64, rows, k, batches }
            };
            // Copies are fastest if the second mode of the destination is contiguous.
            copies[i] = Some(match major {
                Major::K => copy(from, to, extent, k),
                Major::Mn => copy(from.exchanged(), to.exchanged(), k, extent),
            });
            (operands[i], leading[i]) = (to, to.mn.max(to.k));
        }
        // C, or the workspace in its place.
        let c = regions.c.map_or(product.c, |address| {
            let row = row_of::<U>(n) as i64;
            View { address, mn: row, k: 1, batch: row * i64::from(m), ..product.c }
        });
        let copy_c = |from: View, to: View, end| {
            let (from, to, batches) = (from.strided(), to.strided(), product.batches);
            let copy = Rearrangement { from, to, bytes: U::BYTES as u64, rows: m, k: n, batches };
            // SAFETY: C is in its buffer, and its copy in a region of the workspace with room for
            // the padding; they do not overlap.
            unsafe { copy.launch(OPERATION, stream, end) }
        };
        // SAFETY: each operand is in its buffer, and its copy in a region of the workspace with
        // room for the padding; they do not overlap.
        unsafe { rearrange_operands(OPERATION, stream, copies)? };
        if product.scattered && product.epilogue.beta != T::Scalar::ZERO {
            copy_c(product.c, c, RowEnd::Vector)?;
        }
        if k > 0 {
            // SAFETY: the operands, C and the regions are valid; the caller keeps other streams
            // from using them.
            unsafe { self.multiply::<U>(operands, leading, c)? };
        }
        if plan.accumulators == Accumulators::Workspace || k == 0 {
            // SAFETY: as for `multiply`, which precedes this launch on the stream.
            unsafe { self.reduce::<U>(c)? };
        }
        if product.scattered { copy_c(c, product.c, RowEnd::Element) } else { Ok(()) }
    }

    /// The accumulators of all slices as a matrix with one slice for each batch. The address is 0
    /// without accumulators.
    fn accumulators(&self) -> View {
        let [m, n, _] = self.product.extents;
        let [rows, columns] = self.plan.padded_extents([m, n]);
        let (row, bytes) = (row_of::<T::Scalar>(columns) as i64, size_of::<T::Scalar>() as u64);
        let (address, batch) = (self.regions.accumulators.unwrap_or_default(), row * i64::from(rows));
        let batches = self.plan.slices;
        View { address, mn: row, k: 1, batch, bytes, batches, end: u64::MAX }
    }

    /// The stride of the product's batches, if each batch has these slices.
    fn batch_of_slices(slices: &View) -> i64 {
        slices.batch * i64::from(slices.batches)
    }

    /// Launches the kernel of the product.
    ///
    /// # Safety
    /// Same contract as [`Launch::all`].
    unsafe fn multiply<U: Output<T>>(&self, operands: [View; 2], leading: [i64; 2], c: View) -> Result<()> {
        let Self { product, plan, regions, stream } = self;
        let ([of_m, of_n, k], variant) = (product.extents, plan.variant);
        let [m, n] = plan.padded_extents([of_m, of_n]);
        let plain = Epilogue {
            alpha: T::Scalar::ONE,
            beta: T::Scalar::ZERO,
            bias: Bias::default(),
            activation: Activation::None,
            ..product.epilogue
        };
        let to_workspace = plan.accumulators == Accumulators::Workspace;
        let (to, split_c, epilogue) = match to_workspace {
            true => {
                let slices = self.accumulators();
                (View { batch: Self::batch_of_slices(&slices), ..slices }, slices.batch, plain)
            }
            false => (c, 0, product.epilogue),
        };
        let wide = to_workspace || U::WIDE;
        // FMA kernels write an M-contiguous C, so they compute the transposed product.
        let ((first, second), (m, n)) = match variant.schedule.is_sgemm() {
            true => ((1, 0), (n, m)),
            false => ((0, 1), (m, n)),
        };
        let [tile_m, tile_n, _] = variant.tile;
        let tiles = u64::from(m.div_ceil(tile_m)) * u64::from(n.div_ceil(tile_n));
        let tiles = grid_blocks(OPERATION, "tiles of c", tiles)?;
        let at_once = match variant.kernel {
            Code::Address(_) | Code::SgemmTma(..) => MAX_Y / plan.slices,
            Code::Wgmma(..) => {
                let blocks = plan.slices * variant.schedule.cluster_slices();
                tma::batches_at_once(u64::from(tiles) * u64::from(blocks))?
            }
        };
        let mut done = 0;
        while done < product.batches {
            let count = (product.batches - done).min(at_once);
            let operands = operands.map(|operand| operand.at_batch(done));
            let matrix = |i: usize| Global::from_address(operands[i].address);
            let scale = |i: usize| epilogue.scales[i].at_batch(done, size_of::<T::Scalar>());
            let (scale_a, scale_b) = (scale(first), scale(second));
            let c = GlobalMut::from_address(to.at_batch(done).address);
            let arguments = ArgumentsOf::<T> {
                bias: Global::from_address(epilogue.bias.address),
                batch_a: operands[first].batch,
                batch_b: operands[second].batch,
                batch_c: to.batch,
                split_c,
                bias_m: epilogue.bias.m,
                bias_n: epilogue.bias.n,
                alpha: epilogue.alpha,
                beta: epilogue.beta,
                splits: plan.slices,
                k_chunk: plan.k_chunk,
                activation: epilogue.activation as u32,
                wide: u32::from(wide),
                batches: count,
                scales: Scales {
                    a: Global::from_address(scale_a.address),
                    b: Global::from_address(scale_b.address),
                    a_m: scale_a.along,
                    b_n: scale_b.along,
                    batch_a: scale_a.batch,
                    batch_b: scale_b.batch,
                },
                ..Arguments::product(
                    (matrix(first), matrix(second), c),
                    (m, n, k),
                    (leading[first], leading[second], to.mn),
                )
            };
            // SAFETY: the caller keeps the contract of `all`; the plan satisfies the kernel's.
            unsafe {
                match &variant.kernel {
                    Code::Address(kernel) => {
                        let threads = kernel.bounds().threads.unwrap_or(256);
                        let grid = Grid::new((tiles, count * plan.slices), threads);
                        // Blocks that start early (PDL) take the places of blocks that have exited.
                        // With fewer free places than blocks, they would crowd there and leave the
                        // rest of the GPU idle.
                        let residents = variant.rate.residents;
                        let places = residents * stream.device().properties().multiprocessors;
                        let blocks = u64::from(tiles) * u64::from(count * plan.slices);
                        let fills = 16 * blocks >= 15 * u64::from(places);
                        let grid = if fills || residents == 1 { grid.dependent() } else { grid };
                        PTX.launch(stream, kernel, grid, (arguments,))?;
                    }
                    Code::SgemmTma(kernel, boxes) => {
                        let extents = [first, second].map(|i| [of_m, of_n][i]);
                        let operands = [first, second].map(|i| &operands[i]);
                        tma::launch_sgemm(stream, kernel, boxes, tiles, operands, extents, arguments)?;
                    }
                    Code::Wgmma(kernel) => {
                        let (parts, part_stride) = match to_workspace {
                            true => (count * plan.slices, split_c),
                            false => (count, to.batch),
                        };
                        let target = Target {
                            wide,
                            aligned: to_workspace || product.scattered || product.c_is_aligned(),
                            // Rows of workspaces end at multiples of 16 bytes.
                            padded: to_workspace || product.scattered,
                            parts,
                            part_stride,
                        };
                        let operands = [&operands[0], &operands[1]];
                        tma::launch::<T, U>(
                            stream,
                            kernel,
                            plan,
                            regions.pieces,
                            operands,
                            target,
                            arguments,
                        )?;
                    }
                }
            }
            done += count;
        }
        Ok(())
    }

    /// Writes C from the accumulators in the workspace, or without accumulators from the rest of
    /// the epilogue.
    ///
    /// # Safety
    /// Same contract as [`Launch::all`].
    unsafe fn reduce<U: Output<T>>(&self, c: View) -> Result<()> {
        let Self { product, plan, stream, .. } = self;
        let [m, n, k] = product.extents;
        let splits = if k == 0 { 0 } else { plan.slices };
        let from = self.accumulators();
        let all = View { batch: if k == 0 { 0 } else { Self::batch_of_slices(&from) }, ..from };
        let Epilogue { alpha, beta, bias, activation, .. } = product.epilogue;
        let tiles = u64::from(m.div_ceil(8)) * u64::from(n.div_ceil(128));
        let tiles = grid_blocks(OPERATION, "tiles of c", tiles)?;
        let mut done = 0;
        while done < product.batches {
            let count = (product.batches - done).min(MAX_Y);
            let matrix = Global::from_address(all.at_batch(done).address);
            let to = GlobalMut::from_address(c.at_batch(done).address);
            let arguments = Arguments::<T::Scalar, U, T::Scalar> {
                bias: Global::from_address(bias.address),
                batch_a: all.batch,
                batch_c: c.batch,
                split_c: from.batch,
                bias_m: bias.m,
                bias_n: bias.n,
                alpha,
                beta,
                splits,
                k_chunk: 0,
                activation: activation as u32,
                batches: count,
                // The product's kernel has already applied the scales.
                ..Arguments::product((matrix, Global::from_address(0), to), (m, n, k), (from.mn, 0, c.mn))
            };
            let grid = Grid::new((tiles, count), 256).dependent();
            // SAFETY: the region of the accumulators holds every slice, C and the bias are in their
            // buffers, and the caller keeps other streams from using them.
            unsafe { PTX.launch(stream, &U::finish(), grid, (arguments,))? };
            done += count;
        }
        Ok(())
    }
}

#[cfg(all(test, feature = "f32"))]
mod tests {
    use super::*;
    use moye_runtime::{Buffer, Matrix};

    /// The call of a product of these buffers, modified by `change`, and the problem of its plan.
    fn call<'a>(
        [a, b]: [&'a Buffer<f32>; 2],
        c: &mut Buffer<f32>,
        (m, n, k): (usize, usize, usize),
        change: impl FnOnce(Matmul<'a, f32>) -> Matmul<'a, f32>,
    ) -> Call<f32> {
        let (device, mut c) = (a.device(), MatrixMut::row_major(c, m, n).unwrap());
        let (a, b) = (Matrix::row_major(a, m, k).unwrap(), Matrix::row_major(b, k, n).unwrap());
        let product = Descriptor::of(&change(Matmul::new(a, b)), device, &mut c).unwrap().unwrap();
        Call(product)
    }

    #[test]
    fn products_that_differ_in_anything_are_different_calls() {
        let device = Device::sim();
        let buffer = || device.alloc_zeroed::<f32>(4096).unwrap();
        let (a, b, other, bias, mut c) = (buffer(), buffer(), buffer(), buffer(), buffer());
        let of = |len: usize| bias.slice(..len).unwrap();
        let cube = (16, 16, 16);
        let calls = vec![
            call([&a, &b], &mut c, cube, |product| product),
            call([&a, &b], &mut c, (8, 16, 16), |product| product),
            call([&a, &b], &mut c, (16, 8, 16), |product| product),
            call([&a, &b], &mut c, (16, 16, 8), |product| product),
            call([&other, &b], &mut c, cube, |product| product),
            call([&a, &other], &mut c, cube, |product| product),
            call([&a, &b], &mut buffer(), cube, |product| product),
            call([&a, &b], &mut c, cube, |product| product.transpose_a()),
            call([&a, &b], &mut c, cube, |product| product.transpose_b()),
            call([&a, &b], &mut c, cube, |product| product.alpha(2.0)),
            call([&a, &b], &mut c, cube, |product| product.beta(1.0)),
            call([&a, &b], &mut c, cube, |product| product.bias(of(16))),
            call([&a, &b], &mut c, cube, |product| product.bias_rows(of(16))),
            call([&a, &b], &mut c, cube, |product| product.relu()),
            call([&a, &b], &mut c, cube, |product| product.gelu()),
            call([&a, &b], &mut c, cube, |product| product.gelu_tanh()),
            call([&a, &b], &mut c, cube, |product| product.tf32()),
            call([&a, &b], &mut c, cube, |product| product.batch(2, [256, 256, 256])),
            call([&a, &b], &mut c, cube, |product| product.batch(3, [256, 256, 256])),
            call([&a, &b], &mut c, cube, |product| product.batch(3, [0, 256, 256])),
            call([&a, &b], &mut c, cube, |product| product.tile(128, 128)),
            call([&a, &b], &mut c, cube, |product| product.tile(0, 0)),
            call([&a, &b], &mut c, cube, |product| product.split_k(1)),
            call([&a, &b], &mut c, cube, |product| product.split_k(2)),
            call([&a, &b], &mut c, cube, |product| product.kernel("one")),
            call([&a, &b], &mut c, cube, |product| product.kernel("other")),
        ];
        let first = calls[0];
        assert!(call([&a, &b], &mut c, cube, |product| product) == first, "the same product");
        for (i, call) in calls.iter().enumerate() {
            let same = calls.iter().position(|other| other == call);
            assert_eq!(same, Some(i), "number {i} is the call of another product");
        }
    }
}
