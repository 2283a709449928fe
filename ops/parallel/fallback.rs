//! A product without peer access: the plain product by the same kernels, and the group's
//! collectives before or after it.

use crate::arrivals::Shards;
use crate::call::{Call, Checked};
use crate::collectives::{Collective, Issue, Part};
use crate::launch::launch_sum;
use crate::matmul::{Form, ParallelElement};
use crate::transport::add;
use moye_device::collective::Groups;
use moye_runtime::{Global, Result};

impl<T: ParallelElement> Call<'_, '_, T> {
    /// The call of all members.
    ///
    /// # Safety
    /// Same contract as [`ParallelMatmul::run`](crate::ParallelMatmul::run); the operands are
    /// checked.
    pub unsafe fn by_collectives(&self, calls: &[Checked<'_>]) -> Result<()> {
        let (product, round, group) = (self.product, self.round, self.product.group);
        let ([m, n, k], row) = (product.extents, u64::from(product.extents[1].next_multiple_of(8)));
        let own = |at: usize| round.state.windows[at].data(group.members[at].rank, round.epoch, round.half);
        let (mut collectives, mut first) = (Vec::<Issue<'_>>::new(), 0);
        let parts = |place: &dyn Fn(usize) -> u64| {
            let part = |at: usize| Part { stream: calls[at].stream, from: place(at), to: place(at) };
            (0..calls.len()).map(part).collect::<Vec<_>>()
        };
        for (rank, &rows) in product.shards.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            let (rows, elements) =
                (u64::from(rows), |row: u64| (u64::from(product.shards[rank]) * row) as usize);
            match product.form {
                Form::AllGather => {
                    let place = 2 * rank as u64 * u64::from(product.apart) * u64::from(k);
                    let from = |at: usize| match group.members[at].rank == rank {
                        true => calls[at].a.address,
                        false => own(at) + place,
                    };
                    let (collective, count) = (Collective::Broadcast(rank), elements(k.into()));
                    collectives.push(Issue { collective, count, parts: parts(&from) });
                }
                Form::ReduceScatter => {
                    let from = |at: usize| own(at) + 2 * first * row;
                    let (collective, count) = (Collective::Reduce(rank), elements(row));
                    collectives.push(Issue { collective, count, parts: parts(&from) });
                    first += rows;
                }
                Form::AllReduce => {}
            }
        }
        if product.form == Form::AllReduce && m > 0 {
            let (collective, count) = (Collective::AllReduce, m as usize * row as usize);
            collectives.push(Issue { collective, count, parts: parts(&own) });
        }
        // SAFETY: the caller guarantees the operands; the workspaces have the bytes.
        unsafe {
            let gather = product.form == Form::AllGather;
            if gather {
                group.issue::<T>(&collectives, None, T::NCCL)?;
            }
            for (at, call) in calls.iter().enumerate() {
                let (rank, data) = (group.members[at].rank, own(at));
                if gather {
                    let ends = Global::from_address(product.tables[at].address());
                    let rows = Groups { ends, count: group.world as u32, rows: m, apart: 0 };
                    // All shards have arrived: an epoch of 0 is always reached.
                    let flags = Global::from_address(round.state.windows[at].flag(rank, 0));
                    let shards = Shards { rows, flags, apart: product.apart, epoch: 0, rank: rank as u32 };
                    call.product(product.step(m), call.a).gathered::<T>(&call.c, data, shards)?;
                } else {
                    call.product(product.partial_step(m), call.a).partial::<T>(data)?;
                }
            }
            if !gather && n > 0 {
                group.issue::<T>(&collectives, Some(add::<T>), T::NCCL)?;
            }
            for (at, call) in calls.iter().enumerate().filter(|_| !gather) {
                let first = match product.form {
                    Form::ReduceScatter => self.first_row(group.members[at].rank),
                    _ => 0,
                };
                let part = own(at) + 2 * u64::from(first) * row;
                let none = round.state.windows[at].awaited(group.members[at].rank, 0, 0);
                launch_sum::<T>(call.stream, &[part], none, &call.c)?;
            }
        }
        Ok(())
    }
}
