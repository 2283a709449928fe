//! A call: what a rank sends, and what it computes from the data that arrives.

use crate::arrivals::Shards;
use crate::launch::{Product, Step, launch_sum};
use crate::matmul::{Form, NAME, ParallelElement, ParallelMatmul};
use crate::round::Round;
use moye_device::collective::Groups;
use moye_runtime::operation::Array;
use moye_runtime::{Error, Global, Matrix, Result, Stream};

/// A row-major operand, by its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub address: u64,
    pub rows: u32,
    pub columns: u32,
    /// The row stride in elements.
    pub row: i64,
}

impl Rows {
    /// The operand, if TMA supports it.
    pub fn of<T: moye_runtime::Element>(name: &str, matrix: &Matrix<'_, T>, shape: [u32; 2]) -> Result<Self> {
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

    /// A range of the rows.
    fn part(self, first: u32, rows: u32) -> Self {
        Self { address: self.address + 2 * (i64::from(first) * self.row) as u64, rows, ..self }
    }
}

/// The checked operands of a call.
pub(crate) struct Checked<'a> {
    pub stream: &'a Stream,
    pub a: Rows,
    pub b: Rows,
    pub c: Array,
}

impl Checked<'_> {
    /// The product of rows of A by this tile.
    pub fn product(&self, step: Step, a: Rows) -> Product<'_> {
        Product { step, stream: self.stream, a, b: self.b }
    }
}

/// A call of a product.
pub(crate) struct Call<'a, 'g, T: ParallelElement> {
    pub product: &'a ParallelMatmul<'g, T>,
    pub round: &'a Round<'a>,
}

impl<T: ParallelElement> Call<'_, '_, T> {
    /// The first row of a rank's shard.
    pub fn first_row(&self, rank: usize) -> u32 {
        self.product.shards[..rank].iter().sum()
    }

    /// Issues what a member sends to the others. Returns the event of copies on its side stream.
    ///
    /// # Safety
    /// Same contract as [`ParallelMatmul::run`]; the operands are checked.
    pub unsafe fn first(&self, at: usize, call: &Checked<'_>) -> Result<Option<moye_runtime::Event>> {
        let (product, &Round { state, epoch, half, .. }) = (self.product, self.round);
        let (member, window, world) = (&product.group.members[at], &state.windows[at], product.group.world);
        let [m, n, k] = product.extents;
        let (rank, row) = (member.rank, u64::from(n.next_multiple_of(8)));
        // SAFETY: the workspaces have the bytes, and a flag word for each rank.
        unsafe {
            match product.form {
                Form::AllGather if world == 1 => {}
                Form::AllGather => {
                    member.side.wait(&call.stream.record()?)?;
                    for distance in 1..world {
                        // The rank that multiplies this shard as its `distance`-th after its own.
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
                        // The destination's slots belong to the ranks after it, in order.
                        let slot = (world - 1 - distance) as u64;
                        let place = window.data(to, epoch, half) + 2 * slot * u64::from(rows) * row;
                        call.product(product.partial_step(rows), a).partial::<T>(place)?;
                    }
                }
                Form::AllReduce => {
                    let place = window.data(rank, epoch, half);
                    call.product(product.partial_step(m), call.a).partial::<T>(place)?;
                }
            }
            for distance in 1..world {
                let to = (rank + distance) % world;
                call.stream.raise(window.flag(to, rank), epoch)?;
            }
        }
        Ok(None)
    }

    /// Issues the work of a member on the data from the others.
    ///
    /// # Safety
    /// Same contract as [`first`](Self::first), which must precede this.
    pub unsafe fn second(&self, at: usize, call: &Checked<'_>) -> Result<()> {
        let (product, &Round { state, epoch, half, .. }) = (self.product, self.round);
        let (member, window, world) = (&product.group.members[at], &state.windows[at], product.group.world);
        let [m, n, _] = product.extents;
        let rank = member.rank;
        // SAFETY: as in `first`.
        unsafe {
            for from in (0..world).filter(|&from| from != rank) {
                // Kernels wait for shards and for the parts of a sum.
                let waits = match product.form {
                    Form::AllGather => product.shards[from] > 0,
                    Form::ReduceScatter => false,
                    Form::AllReduce => m > 0,
                };
                if !waits || n == 0 {
                    call.stream.wait_flag(window.flag(rank, from), epoch)?;
                }
            }
            let data = window.data(rank, epoch, half);
            match product.form {
                Form::AllGather => {
                    let (ends, flags) = (product.tables[at].address(), window.flag(rank, 0));
                    let (ends, flags) = (Global::from_address(ends), Global::from_address(flags));
                    let rows = Groups { ends, count: world as u32, rows: m, apart: 0 };
                    let shards = Shards { rows, flags, apart: product.apart, epoch, rank: rank as u32 };
                    call.product(product.step(m), call.a).gathered::<T>(&call.c, data, shards)
                }
                Form::ReduceScatter => {
                    let rows = product.shards[rank];
                    let a = call.a.part(self.first_row(rank), rows);
                    let others = world as u32 - 1;
                    call.product(product.step(rows), a).reduced::<T>(&call.c, data, others)
                }
                Form::AllReduce => {
                    let parts: Vec<_> = (0..world).map(|rank| window.data(rank, epoch, half)).collect();
                    launch_sum::<T>(call.stream, &parts, window.awaited(rank, world, epoch), &call.c)
                }
            }
        }
    }
}
