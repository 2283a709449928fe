//! Products whose weights are cut over the ranks.

use crate::exchange::error;
use crate::group::Group;
use crate::kernel::{GatheredKernels, Half, PartialKernels, ReducedKernels, SummedKernels};
use crate::launch::{Step, launch_gathered, launch_partial, launch_reduced, launch_sum};
use moye::operation::{Array, check_device};
use moye::{Buffer, Error, Matrix, MatrixMut, Result, Stream};
use moye_device::atom::tma::TmaElement;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "parallel product";

/// An element type of parallel products: f16 and bf16.
pub trait ParallelElement:
    Half + TmaElement + GatheredKernels + PartialKernels + ReducedKernels + SummedKernels
{
}
impl<T> ParallelElement for T where
    T: Half + TmaElement + GatheredKernels + PartialKernels + ReducedKernels + SummedKernels
{
}

/// What is exchanged beside a product `c = a b^T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Before it the rows of A are gathered: the weights are cut by columns, and activations by
    /// rows (sequence-parallel).
    AllGather,
    /// After it the sums over all ranks are scattered by rows: the weights are cut by rows, along
    /// K.
    ReduceScatter,
    /// After it all ranks have the sums over all ranks.
    AllReduce,
}

/// Rows from the start of a gathered shard to the next: whole tiles.
fn apart(shards: &[usize]) -> usize {
    shards.iter().max().map_or(0, |rows| rows.next_multiple_of(128))
}

/// Describes a [`ParallelMatmul`].
#[derive(Clone, Debug)]
#[must_use = "nothing is made before `build`"]
pub struct ParallelMatmulBuilder<'g> {
    group: &'g Group,
    form: Form,
    /// M, N, K.
    extents: [usize; 3],
    shards: Option<Vec<usize>>,
}

impl ParallelMatmulBuilder<'_> {
    /// The rows of each rank's shard, in their order; by default they differ by one at most.
    pub fn shards(self, rows: &[usize]) -> Self {
        Self { shards: Some(rows.to_vec()), ..self }
    }
}

impl<'g> ParallelMatmulBuilder<'g> {
    /// Makes the product: all ranks of the group do so, in the same order, and wait for each other.
    ///
    /// # Errors
    /// Ranks that build another product: the message has both. Extents without a kernel, shards
    /// that are not the rows, a GPU that is not of sm_90a, a rank that does not come; out of
    /// memory.
    pub fn build<T: ParallelElement>(self) -> Result<ParallelMatmul<'g, T>> {
        let Self { group, form, extents: [m, n, k], shards } = self;
        let world = group.world;
        let shards = shards
            .unwrap_or_else(|| (0..world).map(|rank| m / world + usize::from(rank < m % world)).collect());
        if shards.len() != world || shards.iter().sum::<usize>() != m {
            let detail = format!("shards of {shards:?} rows, and must be {world} with {m} rows in all");
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        if k == 0 || [m, n, k].iter().any(|&extent| extent > i32::MAX as usize / 2) {
            let detail = format!("extents {m} x {n} x {k}; k is 1 at least, and all are below 2^30");
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        if form == Form::AllGather && !k.is_multiple_of(8) {
            let detail = format!(
                "k is {k}, and rows that are gathered must be multiples of 16 bytes; pad k to {}",
                k.next_multiple_of(8)
            );
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        if let Some(reason) = &group.apart {
            return Err(error(format!(
                "{reason}; compute the product by `moye::Matmul`, and gather or reduce by NCCL"
            )));
        }
        for member in &group.members {
            let arch = member.device.arch();
            if arch != moye::Arch::new(9, 0) {
                return Err(error(format!(
                    "the kernels need TMA and wgmma (sm_90a: H100, H200), and rank {} is of {arch}; the simulator runs them",
                    member.rank
                )));
            }
        }
        let mut state = group.state()?;
        state.built += 1;
        let own = format!(
            "product {} of the group: {form:?} of {} {m} x {n} x {k}, shards {shards:?}",
            state.built,
            <T as moye::Element>::NAME
        );
        let all = group.exchange.all(vec![own.clone().into_bytes(); group.members.len()])?;
        if let Some(other) = all.iter().position(|said| said != own.as_bytes()) {
            let said = String::from_utf8_lossy(&all[other]);
            return Err(error(format!(
                "rank {} builds {own}, and rank {other} {said}; all ranks build the same products in the same order",
                group.members[0].rank
            )));
        }
        let row = n.next_multiple_of(8);
        let bytes = 2 * match form {
            Form::AllGather => world * apart(&shards) * k,
            Form::ReduceScatter => shards.iter().max().copied().unwrap_or(0) * row * (world - 1),
            Form::AllReduce => m * row,
        };
        group.reserve(&mut state, bytes)?;
        let mut ends = Vec::new();
        for rows in &shards {
            ends.push(ends.last().copied().unwrap_or(0) + *rows as i32);
        }
        let tables = group.members.iter().map(|member| member.device.upload(&ends)).collect::<Result<_>>()?;
        let product = ParallelMatmul {
            group,
            form,
            extents: [m, n, k].map(|extent| extent as u32),
            apart: apart(&shards) as u32,
            shards: shards.iter().map(|&rows| rows as u32).collect(),
            tables,
            has_run: AtomicBool::new(false),
            number: state.built,
            elements: PhantomData,
        };
        drop(state);
        product.load_kernels()?;
        Ok(product)
    }
}

/// A product by weights that are cut over the ranks of a group, with the collective before or after
/// it.
///
/// `b` has the weights of a rank as rows of K elements (`torch.nn.Linear`). With shards of
/// `rows` rows:
///
/// | form | a | b | c |
/// | --- | --- | --- | --- |
/// | [`all_gather`](Self::all_gather) | (rows, k) | (n, k) | (m, n): all rows of A by this rank's columns |
/// | [`reduce_scatter`](Self::reduce_scatter) | (m, k) | (n, k) | (rows, n): the sum over all ranks |
/// | [`all_reduce`](Self::all_reduce) | (m, k) | (n, k) | (m, n): the sum over all ranks |
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_parallel::{Group, Operands, ParallelMatmul};
///
/// let devices = Device::sim_peers(2);
/// let group = Group::local(&devices)?;
/// // Two rows of 8 elements on each rank, times two columns on each.
/// let product = ParallelMatmul::all_gather(&group, [4, 2, 8]).build::<bf16>()?;
/// let ones = |device: &Device, rows: usize| device.upload(&vec![bf16::ONE; rows * 8]);
/// let a = [ones(&devices[0], 2)?, ones(&devices[1], 2)?];
/// let b = [ones(&devices[0], 2)?, ones(&devices[1], 2)?];
/// let mut c = [devices[0].alloc_uninit::<bf16>(8)?, devices[1].alloc_uninit::<bf16>(8)?];
/// let streams = [devices[0].default_stream(), devices[1].default_stream()];
/// let mut calls = Vec::new();
/// for (rank, c) in c.iter_mut().enumerate() {
///     let (a, b) = (Matrix::row_major(&a[rank], 2, 8)?, Matrix::row_major(&b[rank], 2, 8)?);
///     calls.push(Operands { stream: &streams[rank], a, b, c: MatrixMut::row_major(c, 4, 2)? });
/// }
/// // SAFETY: no other stream uses the matrices.
/// unsafe { product.run(&mut calls)? };
/// group.wait(&[&streams[0], &streams[1]])?;
/// assert_eq!(c[1].download()?, [bf16::from_f32(8.0); 8]);
/// # Ok::<(), moye::Error>(())
/// ```
pub struct ParallelMatmul<'g, T: ParallelElement> {
    group: &'g Group,
    form: Form,
    /// M, N, K.
    extents: [u32; 3],
    /// Rows by rank.
    shards: Vec<u32>,
    /// Rows from the start of a gathered shard to the next.
    apart: u32,
    /// The shards' ends, in each member's memory.
    tables: Vec<Buffer<i32>>,
    has_run: AtomicBool,
    number: u32,
    elements: PhantomData<T>,
}

/// The matrices of a rank, and the stream on which it multiplies.
pub struct Operands<'a, T: moye::Element> {
    /// A stream of the rank's device.
    pub stream: &'a Stream,
    /// A, row-major.
    pub a: Matrix<'a, T>,
    /// B, row-major.
    pub b: Matrix<'a, T>,
    /// The result.
    pub c: MatrixMut<'a, T>,
}

macro_rules! forms {
    ($($(#[$doc:meta])* $name:ident $form:ident;)*) => { $(
        $(#[$doc])*
        ///
        /// `extents` are M, N and K: all rows, the rows of `b` and the elements of a row on a rank.
        pub fn $name(group: &Group, extents: [usize; 3]) -> ParallelMatmulBuilder<'_> {
            ParallelMatmulBuilder { group, form: Form::$form, extents, shards: None }
        }
    )* };
}

impl ParallelMatmul<'_, half::bf16> {
    forms! {
        /// Column-parallel: gathers the rows of A while it multiplies. The copy engine brings the
        /// shards, and a tile's loads wait for its shard.
        all_gather AllGather;
        /// Row-parallel: multiplies rows of other ranks first, stores the results in their memory,
        /// and adds those of the others to its own. The sum is in float32, in one order.
        reduce_scatter ReduceScatter;
        /// Row-parallel, for few rows: each rank sums all ranks' results, which it reads in their
        /// memory, in one order.
        all_reduce AllReduce;
    }
}

/// A row-major operand as addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub address: u64,
    pub rows: u32,
    pub columns: u32,
    /// Elements from row to row.
    pub row: i64,
}

impl Rows {
    /// The operand, if TMA takes it.
    fn of<T: moye::Element>(name: &str, matrix: &Matrix<'_, T>, shape: [u32; 2]) -> Result<Self> {
        let array = Array::of(NAME, matrix)?;
        if array.shape != shape.map(|extent| extent as usize) {
            let detail = format!("{name} has shape {:?}, and must have {shape:?}", array.shape);
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        let row = if shape[0] > 1 { array.strides[0] } else { i64::from(shape[1].next_multiple_of(8)) };
        let is_taken = (shape[1] == 1 || array.strides[1] == 1)
            && row % 8 == 0
            && row >= i64::from(shape[1])
            && array.address.is_multiple_of(16);
        if !is_taken && shape[0] > 0 {
            return Err(Error::Unsupported {
                operation: NAME,
                detail: format!(
                    "{name} at {:#x} has strides {:?}; rows must be contiguous and begin at multiples of 16 bytes: copy it, with rows padded to {} elements",
                    array.address,
                    array.strides,
                    shape[1].next_multiple_of(8)
                ),
            });
        }
        Ok(Self { address: array.address, rows: shape[0], columns: shape[1], row })
    }

    /// Some of the rows.
    fn part(self, first: u32, rows: u32) -> Self {
        Self { address: self.address + 2 * (i64::from(first) * self.row) as u64, rows, ..self }
    }
}

/// A call's operands, checked.
struct Checked<'a> {
    stream: &'a Stream,
    a: Rows,
    b: Rows,
    c: Array,
}

impl<T: ParallelElement> ParallelMatmul<'_, T> {
    /// The form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// What a call does: its kernels, and the bytes that each rank sends.
    pub fn explain(&self) -> String {
        let ([m, n, k], world) = (self.extents.map(u64::from), self.group.world as u64);
        let row = n.next_multiple_of(8);
        let (kernels, sends) = match self.form {
            Form::AllGather => {
                (vec![self.step(m, false).gathered::<T>().name()], 2 * m * k / world * (world - 1))
            }
            Form::ReduceScatter => {
                let [partial, reduced] = [true, false].map(|few| self.step(m / world, few));
                (
                    vec![partial.partial::<T>().name(), reduced.reduced::<T>().name()],
                    2 * m * row / world * (world - 1),
                )
            }
            Form::AllReduce => (
                vec![self.step(m, true).partial::<T>().name(), <T as SummedKernels>::KERNELS[0].name()],
                2 * m * row * (world - 1),
            ),
        };
        format!(
            "{:?} of {m} x {n} x {k} on {}: {}, {sends} bytes sent",
            self.form,
            self.group.explain(),
            kernels.join(" and ")
        )
    }

    /// The launch for this many rows, by the tile for few of them where there is one.
    fn step(&self, rows: u64, few: bool) -> Step {
        Step::new(rows as u32, self.extents[1], &self.group.members[0].device.rates(), few)
    }

    /// Loads the kernels of all calls: a kernel that waits for another rank's copies must not wait
    /// while the driver loads the next one.
    fn load_kernels(&self) -> Result<()> {
        for member in &self.group.members {
            if member.device.is_gpu() {
                let module = member.device.load(&crate::PTX)?;
                for rows in self.shards.iter().copied().chain([self.extents[0]]) {
                    let [few, step] = [true, false].map(|few| self.step(rows.into(), few));
                    match self.form {
                        Form::AllGather => drop(module.attributes(step.gathered::<T>())?),
                        Form::ReduceScatter => {
                            module.attributes(few.partial::<T>())?;
                            module.attributes(step.reduced::<T>())?;
                        }
                        Form::AllReduce => {
                            module.attributes(few.partial::<T>())?;
                            module.attributes(&<T as SummedKernels>::KERNELS[0])?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Computes the product, with the operands of each rank of this caller, by rank. It returns
    /// while the ranks compute: [`Group::wait`] waits for them, and finds a rank that does not
    /// come.
    ///
    /// The calls of a group are in one order on all ranks. A call is ordered after the group's
    /// calls before, whatever their streams.
    ///
    /// # Errors
    /// Shapes that are not the product's, operands that TMA does not take, matrices of other
    /// devices than the rank's, a capture of a graph; at the first call a rank that calls another
    /// product; the errors of launches.
    ///
    /// # Safety
    /// Until the work is complete, no other stream writes the operands, or reads or writes the
    /// elements of `c`.
    pub unsafe fn run(&self, calls: &mut [Operands<'_, T>]) -> Result<()> {
        let group = self.group;
        if calls.len() != group.members.len() {
            let detail = format!(
                "{} operands for the ranks {:?}; give those of each",
                calls.len(),
                group.ranks().collect::<Vec<_>>()
            );
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        let calls = calls
            .iter_mut()
            .zip(&group.members)
            .map(|(call, member)| self.check(call, member.rank, &member.device));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        let mut state = group.state()?;
        if !self.has_run.swap(true, Ordering::Relaxed) {
            let own = format!("product {} as call {}", self.number, state.epoch);
            let all = group.exchange.all(vec![own.clone().into_bytes(); group.members.len()])?;
            if let Some(other) = all.iter().position(|said| said != own.as_bytes()) {
                let said = String::from_utf8_lossy(&all[other]);
                return Err(error(format!(
                    "rank {} runs {own}, and rank {other} {said}; all ranks make the same calls",
                    group.members[0].rank
                )));
            }
        }
        state.epoch = state.epoch.wrapping_add(1);
        let (epoch, half) = (state.epoch, group.reserve(&mut state, 0)?);
        for (at, call) in calls.iter().enumerate() {
            // A stream orders its own work.
            match &state.last[at] {
                Some((handle, last)) if *handle == 0 || *handle != call.stream.raw_handle()?.addr() => {
                    call.stream.wait(last)?;
                }
                _ => {}
            }
        }
        let call = Call { product: self, state: &state, epoch, half };
        // SAFETY: the caller's contract; the operands are checked. Each rank raises its flags after
        // its work of the calls before.
        unsafe {
            let mut pushed = Vec::new();
            for (at, operands) in calls.iter().enumerate() {
                pushed.push(call.first(at, operands)?);
            }
            // A simulator runs work when it is issued: that of all ranks before the waits.
            if group.members.iter().any(|member| !member.device.is_gpu()) {
                group.exchange.all(vec![Vec::new(); group.members.len()])?;
            }
            for (at, operands) in calls.iter().enumerate() {
                call.second(at, operands)?;
                if let Some(pushed) = &pushed[at] {
                    operands.stream.wait(pushed)?;
                }
            }
        }
        for (at, call) in calls.iter().enumerate() {
            let handle = call.stream.raw_handle()?.addr();
            match &mut state.last[at] {
                Some((of, event)) => {
                    event.record_again(call.stream)?;
                    *of = handle;
                }
                none => *none = Some((handle, call.stream.record()?)),
            }
        }
        Ok(())
    }

    fn check<'c>(
        &self,
        call: &'c mut Operands<'_, T>,
        rank: usize,
        device: &moye::Device,
    ) -> Result<Checked<'c>> {
        let [m, n, k] = self.extents;
        let shard = self.shards[rank];
        let (a, c) = match self.form {
            Form::AllGather => ([shard, k], [m, n]),
            Form::ReduceScatter => ([m, k], [shard, n]),
            Form::AllReduce => ([m, k], [m, n]),
        };
        check_device(NAME, call.stream, 0, device)?;
        check_device(NAME, call.stream, 1, call.a.device())?;
        check_device(NAME, call.stream, 2, call.b.device())?;
        check_device(NAME, call.stream, 3, call.c.device())?;
        let rows = Rows::of("a", &call.a, a)?;
        if self.form == Form::AllGather && shard > 1 && rows.row != i64::from(k) {
            let detail = format!(
                "a has rows {} elements apart, and rows that are gathered must follow each other: {k}",
                rows.row
            );
            return Err(Error::Unsupported { operation: NAME, detail });
        }
        let b = Rows::of("b", &call.b, [n, k])?;
        let array = Array::of_mut(NAME, &mut call.c)?;
        if array.shape != c.map(|extent| extent as usize) {
            let detail = format!("c has shape {:?}, and must have {c:?}", array.shape);
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        Ok(Checked { stream: call.stream, a: rows, b, c: array })
    }
}

/// A call of a product.
struct Call<'a, 'g, T: ParallelElement> {
    product: &'a ParallelMatmul<'g, T>,
    state: &'a crate::group::State,
    epoch: u32,
    half: usize,
}

impl<T: ParallelElement> Call<'_, '_, T> {
    /// The first row of a rank's shard.
    fn first_row(&self, rank: usize) -> u32 {
        self.product.shards[..rank].iter().sum()
    }

    /// What a member sends to the others. Returns the event of copies on its other stream.
    ///
    /// # Safety
    /// As for [`ParallelMatmul::run`]; the operands are checked.
    unsafe fn first(&self, at: usize, call: &Checked<'_>) -> Result<Option<moye::Event>> {
        let Self { product, state, epoch, half } = *self;
        let (member, window, world) = (&product.group.members[at], &state.windows[at], product.group.world);
        let [m, n, k] = product.extents;
        let (rank, row) = (member.rank, u64::from(n.next_multiple_of(8)));
        // SAFETY: the workspaces have the bytes, and their flags a word for each rank.
        unsafe {
            match product.form {
                Form::AllGather if world == 1 => {}
                Form::AllGather => {
                    member.side.wait(&call.stream.record()?)?;
                    for distance in 1..world {
                        // The rank that multiplies this shard `distance` shards after its own.
                        let to = (rank + world - distance) % world;
                        let place = window.data(to, epoch, half)
                            + 2 * (rank as u64 * u64::from(self.product.apart)) * u64::from(k);
                        member.side.copy(place, call.a.address, 2 * call.a.rows as usize * k as usize)?;
                        member.side.raise(window.flag(to, rank), epoch)?;
                    }
                    return member.side.record().map(Some);
                }
                Form::ReduceScatter => {
                    for distance in 1..world {
                        let to = (rank + distance) % world;
                        let rows = product.shards[to];
                        let a = call.a.part(self.first_row(to), rows);
                        // Its slots are those of the ranks after it.
                        let slot = (world - 1 - distance) as u64;
                        let place = window.data(to, epoch, half) + 2 * slot * u64::from(rows) * row;
                        launch_partial::<T>(call.stream, a, call.b, place)?;
                    }
                }
                Form::AllReduce => {
                    debug_assert_eq!(m, call.a.rows);
                    launch_partial::<T>(call.stream, call.a, call.b, window.data(rank, epoch, half))?;
                }
            }
            for distance in 1..world {
                let to = (rank + distance) % world;
                call.stream.raise(window.flag(to, rank), epoch)?;
            }
        }
        Ok(None)
    }

    /// What a member does with what comes from the others.
    ///
    /// # Safety
    /// As for [`first`](Self::first), which was called.
    unsafe fn second(&self, at: usize, call: &Checked<'_>) -> Result<()> {
        let Self { product, state, epoch, half } = *self;
        let (member, window, world) = (&product.group.members[at], &state.windows[at], product.group.world);
        let [_, n, _] = product.extents;
        let rank = member.rank;
        // SAFETY: as in `first`.
        unsafe {
            for from in (0..world).filter(|&from| from != rank) {
                // The kernel waits for shards itself.
                let waits = product.form == Form::AllGather && product.shards[from] > 0;
                if !waits || n == 0 {
                    call.stream.wait_flag(window.flag(rank, from), epoch)?;
                }
            }
            let data = window.data(rank, epoch, half);
            match product.form {
                Form::AllGather => {
                    let flags = (window.flag(rank, 0), epoch);
                    let shards =
                        (product.tables[at].address(), world as u32, rank as u32, self.product.apart);
                    launch_gathered::<T>(call.stream, call.a, call.b, &call.c, data, shards, flags)
                }
                Form::ReduceScatter => {
                    let a = call.a.part(self.first_row(rank), product.shards[rank]);
                    launch_reduced::<T>(call.stream, a, call.b, &call.c, data, world as u32 - 1)
                }
                Form::AllReduce => {
                    let parts: Vec<_> = (0..world).map(|rank| window.data(rank, epoch, half)).collect();
                    launch_sum::<T>(call.stream, &parts, &call.c)
                }
            }
        }
    }
}
