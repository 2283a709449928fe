//! Building a product: the properties on which all ranks must agree.

use crate::exchange::{detail, error};
use crate::group::Group;
use crate::launch::NAMES;
use crate::matmul::{Form, NAME, ParallelElement, ParallelMatmul};
use moye_runtime::{Arch, Error, Result};
use std::marker::PhantomData;

/// Rows from the start of one gathered shard to the next: whole tiles.
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
    tile: Option<&'static str>,
}

impl<'g> ParallelMatmulBuilder<'g> {
    pub(crate) fn new(group: &'g Group, form: Form, extents: [usize; 3]) -> Self {
        Self { group, form, extents, shards: None, tile: None }
    }
}

impl ParallelMatmulBuilder<'_> {
    /// The rows of each rank's shard, by rank; by default they differ by at most one.
    pub fn shards(self, rows: &[usize]) -> Self {
        Self { shards: Some(rows.to_vec()), ..self }
    }

    /// A block's tile of the result, `"128x256"` or `"128x128"`; by default the one with the lowest
    /// estimated time.
    pub fn tile(self, tile: &'static str) -> Self {
        Self { tile: Some(tile), ..self }
    }
}

impl<'g> ParallelMatmulBuilder<'g> {
    /// Builds the product. All ranks of the group do so in the same order, and wait for each other
    /// and for their earlier calls.
    ///
    /// # Errors
    /// At once, and on all ranks that build the same product: extents without a kernel, shards that
    /// do not sum to the rows, an unknown tile, a rank whose GPU is not of sm_90a. The group
    /// remains usable. After an exchange: ranks that build different products (the message names
    /// both), a rank that does not arrive, a rank that cannot load the kernels, out of memory, or a
    /// missing NCCL if it is needed.
    pub fn build<T: ParallelElement>(self) -> Result<ParallelMatmul<'g, T>> {
        let shards = self.check()?;
        let Self { group, form, extents: [m, n, k], tile, .. } = self;
        let mut state = group.state()?;
        // The ranks' architectures are from the group's first exchange, so all ranks refuse alike.
        if let Some(rank) = state.archs.iter().position(|&arch| arch != Arch::new(9, 0)) {
            return Err(error(format!(
                "the kernels need TMA and wgmma (sm_90a: H100, H200), and rank {rank} is of {}; the simulator runs them",
                state.archs[rank]
            )));
        }
        state.built += 1;
        let number = state.built;
        let what = format!(
            "product {number} of the group: {form:?} of {} {m} x {n} x {k}, shards {shards:?}",
            <T as moye_runtime::Element>::NAME
        );
        let (row, most) = (n.next_multiple_of(8), shards.iter().max().copied().unwrap_or(0));
        let bytes = 2 * match form {
            Form::AllGather => group.world * apart(&shards) * k,
            Form::ReduceScatter if group.apart.is_some() => m * row,
            Form::ReduceScatter => most * row * (group.world - 1),
            Form::AllReduce => m * row,
        };
        let ends: Vec<_> = shards
            .iter()
            .scan(0, |end, &rows| {
                *end += rows as i32;
                Some(*end)
            })
            .collect();
        let mut product = ParallelMatmul {
            group,
            form,
            extents: [m, n, k].map(|extent| extent as u32),
            apart: apart(&shards) as u32,
            shards: shards.iter().map(|&rows| rows as u32).collect(),
            tables: Vec::new(),
            tile: tile.and_then(|tile| NAMES.iter().position(|name| *name == tile)),
            number,
            elements: PhantomData,
        };
        let built = group.agree(&format!("builds {what}")).and_then(|()| {
            // The driver may not load kernels or copy while a kernel waits.
            group.settle(&mut state)?;
            let tables = group.members.iter().map(|member| member.device.upload(&ends));
            let loaded = product.load_kernels().and_then(|()| tables.collect::<Result<_>>());
            let own = match &loaded {
                Ok(_) => format!("has loaded the kernels of {what}"),
                Err(reason) => format!("cannot build {what}: {}", detail(reason)),
            };
            let agreed = group.agree(&own);
            product.tables = loaded?;
            agreed?;
            if let Some(reason) = &group.apart {
                // The plain product, and NCCL.
                group.connect().map_err(|cause| error(format!("{reason}; {}", detail(&cause))))?;
            }
            group.reserve(&mut state, bytes)
        });
        match built {
            Ok(_) => Ok(product),
            Err(reason) => {
                group.fail(&mut state, &reason, &[]);
                Err(reason)
            }
        }
    }

    /// Checks what the arguments determine, so that all ranks refuse alike before they exchange
    /// anything. Returns the shards.
    fn check(&self) -> Result<Vec<usize>> {
        let (world, [m, n, k]) = (self.group.world, self.extents);
        if let Some(name) = self.tile.filter(|tile| !NAMES.contains(tile)) {
            return Err(error(format!("there is no tile {name}; give one of {}", NAMES.join(", "))));
        }
        let equal = || (0..world).map(|rank| m / world + usize::from(rank < m % world)).collect();
        let shards = self.shards.clone().unwrap_or_else(equal);
        let wrong = |detail| Err(Error::ShapeMismatch { operation: NAME, detail });
        let sum = shards.iter().try_fold(0usize, |sum, &rows| sum.checked_add(rows));
        if shards.len() != world || sum != Some(m) {
            return wrong(format!("shards of {shards:?} rows, and must be {world} with {m} rows in all"));
        }
        if k == 0 || [m, n, k].iter().any(|&extent| extent >= 1 << 30) {
            return wrong(format!("extents {m} x {n} x {k}; k is 1 at least, and all are below 2^30"));
        }
        if self.form == Form::AllGather && !k.is_multiple_of(8) {
            return wrong(format!(
                "k is {k}, and rows that are gathered must be multiples of 16 bytes; pad k to {}",
                k.next_multiple_of(8)
            ));
        }
        if self.form == Form::AllGather && world * apart(&shards) >= 1 << 31 {
            return wrong(format!(
                "shards of {shards:?} rows, and {world} times the longest must be below 2^31"
            ));
        }
        Ok(shards)
    }
}
