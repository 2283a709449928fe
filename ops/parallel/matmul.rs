//! Products whose weights are divided among the ranks.

use crate::builder::ParallelMatmulBuilder;
use crate::call::{Call, Checked, Rows};
use crate::collectives::Summand;
use crate::group::Group;
use crate::kernel::{GatheredKernels, Half, PartialKernels, ReducedKernels, SummedKernels};
use crate::launch::Step;
use crate::round::Kind;
use moye_device::atom::tma::TmaElement;
use moye_runtime::operation::{Array, check_device};
use moye_runtime::{Buffer, Error, Matrix, MatrixMut, Result, Stream};
use std::marker::PhantomData;

pub(crate) const NAME: &str = "parallel product";

/// An element type of parallel products: f16 and bf16.
pub trait ParallelElement:
    Half + TmaElement + Summand + GatheredKernels + PartialKernels + ReducedKernels + SummedKernels
{
}
impl<T> ParallelElement for T where
    T: Half + TmaElement + Summand + GatheredKernels + PartialKernels + ReducedKernels + SummedKernels
{
}

/// The collective of a product `c = a b^T`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The rows of A are gathered before the product: weights are divided by columns, activations
    /// by rows (sequence-parallel).
    AllGather,
    /// The sums over all ranks are scattered by rows after the product: weights are divided by
    /// rows, along K.
    ReduceScatter,
    /// All ranks have the sums over all ranks after the product.
    AllReduce,
}

/// A product by weights that are divided among the ranks of a group, with the collective before or
/// after it.
///
/// `b` holds the weights of a rank as rows of K elements (as in `torch.nn.Linear`). With shards of
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
    pub(crate) group: &'g Group,
    pub(crate) form: Form,
    /// M, N, K.
    pub(crate) extents: [u32; 3],
    /// Rows by rank.
    pub(crate) shards: Vec<u32>,
    /// Rows from the start of one gathered shard to the next.
    pub(crate) apart: u32,
    /// The shards' ends, in each member's memory.
    pub(crate) tables: Vec<Buffer<i32>>,
    /// The index of the chosen tile.
    pub(crate) tile: Option<usize>,
    pub(crate) number: u32,
    pub(crate) elements: PhantomData<T>,
}

/// The matrices of a rank, and the stream on which it multiplies.
pub struct Operands<'a, T: moye_runtime::Element> {
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
        /// `extents` are M, N and K: all rows, the rows of `b`, and the elements of a row on a
        /// rank.
        pub fn $name(group: &Group, extents: [usize; 3]) -> ParallelMatmulBuilder<'_> {
            ParallelMatmulBuilder::new(group, Form::$form, extents)
        }
    )* };
}

impl ParallelMatmul<'_, half::bf16> {
    forms! {
        /// Column-parallel: gathers the rows of A during the product. The copy engine transfers
        /// the shards, and a tile's loads wait for its shard.
        all_gather AllGather;
        /// Row-parallel: multiplies the rows of other ranks first, stores the results in their
        /// memory, and adds the others' results to its own. The sum is in float32, in a fixed
        /// order.
        reduce_scatter ReduceScatter;
        /// Row-parallel, for few rows: each rank sums all ranks' results in a fixed order, reading
        /// them from their memory.
        all_reduce AllReduce;
    }
}

impl<T: ParallelElement> ParallelMatmul<'_, T> {
    /// The form.
    pub fn form(&self) -> Form {
        self.form
    }

    /// The kernels of a call, and the bytes that a rank with equal shards sends.
    pub fn explain(&self) -> String {
        let ([m, n, k], world) = (self.extents, self.group.world as u32);
        let (form, group) = (self.form, self.group.explain());
        if self.group.apart.is_some() {
            return format!("{form:?} of {m} x {n} x {k} on {group}");
        }
        let (shard, summed) = (m.div_ceil(world), <T as SummedKernels>::KERNELS[0].name());
        let partial = |rows: u32| self.partial_step(rows).partial::<T>().name();
        let (kernels, [rows, columns]) = match form {
            Form::AllGather => (vec![self.step(m).gathered::<T>().name()], [shard, k]),
            Form::ReduceScatter => {
                let reduced = self.step(shard).reduced::<T>().name();
                (vec![partial(shard), reduced], [shard, n.next_multiple_of(8)])
            }
            Form::AllReduce => (vec![partial(m), summed], [m, n.next_multiple_of(8)]),
        };
        let sends = 2 * u64::from(rows) * u64::from(columns) * u64::from(world - 1);
        format!("{form:?} of {m} x {n} x {k} on {group}: {}, {sends} bytes sent", kernels.join(" and "))
    }

    /// The tile for results of this number of rows.
    pub(crate) fn step(&self, rows: u32) -> Step {
        self.step_of(rows, false)
    }

    /// The tile for partial results of this number of rows.
    pub(crate) fn partial_step(&self, rows: u32) -> Step {
        self.step_of(rows, true)
    }

    fn step_of(&self, rows: u32, partial: bool) -> Step {
        let card = self.group.members[0].device.rates();
        Step::new(rows, self.extents[1], &card, self.tile, partial)
    }

    /// Loads the kernels of all calls: while a kernel waits for another rank's copies, the driver
    /// may not load the next one.
    pub(crate) fn load_kernels(&self) -> Result<()> {
        for member in self.group.members.iter().filter(|member| member.device.is_gpu()) {
            let module = member.device.load(&crate::PTX)?;
            for rows in self.shards.iter().copied().chain([self.extents[0]]) {
                if self.form == Form::AllGather {
                    module.attributes(self.step(rows).gathered::<T>())?;
                } else {
                    module.attributes(self.partial_step(rows).partial::<T>())?;
                    module.attributes(self.step(rows).reduced::<T>())?;
                    module.attributes(&<T as SummedKernels>::KERNELS[0])?;
                }
            }
        }
        Ok(())
    }

    /// Computes the product, with the operands of each rank of this caller, by rank. Returns while
    /// the ranks compute: [`Group::wait`] waits for them, and reports a rank that does not arrive.
    ///
    /// All ranks make the calls of a group in one order. A call is ordered after the group's
    /// earlier calls, on any streams.
    ///
    /// # Errors
    /// Shapes that do not match the product, operands that TMA does not support, matrices on other
    /// devices than the rank's, a capture of a graph; at the first call, a rank that calls another
    /// product; the errors of launches. If ranks belong to other callers, they may have made the
    /// call that this one did not: the group is then unusable.
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
            return group.checked(Err(Error::ShapeMismatch { operation: NAME, detail }));
        }
        let calls = calls
            .iter_mut()
            .zip(&group.members)
            .map(|(call, member)| self.check(call, member.rank, &member.device));
        let calls = group.checked(calls.collect::<Result<Vec<_>>>())?;
        let streams: Vec<_> = calls.iter().map(|call| call.stream).collect();
        let numbers = [self.number as usize, 0];
        let kind = Kind { name: "product", element: <T as moye_runtime::Element>::NAME, numbers };
        group.round(&streams, kind, group.apart.is_none().then_some(0), |round| {
            let call = Call { product: self, round };
            // SAFETY: the caller keeps other streams away; the operands are checked. Each rank
            // raises its flags after its work of earlier calls.
            unsafe {
                if group.apart.is_some() {
                    return call.by_collectives(&calls);
                }
                let mut pushed = Vec::new();
                for (at, operands) in calls.iter().enumerate() {
                    pushed.push(call.first(at, operands)?);
                }
                round.meet()?;
                for (at, operands) in calls.iter().enumerate() {
                    call.second(at, operands)?;
                    if let Some(pushed) = &pushed[at] {
                        operands.stream.wait(pushed)?;
                    }
                }
            }
            Ok(())
        })
    }

    fn check<'c>(
        &self,
        call: &'c mut Operands<'_, T>,
        rank: usize,
        device: &moye_runtime::Device,
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
