//! Building a product: the properties on which all ranks must agree.

use crate::exchange::{detail, error};
use crate::group::Group;
use crate::launch::NAMES;
use crate::matmul::{Form, NAME, ParallelElement, ParallelMatmul};
use moye_runtime::{Error, Result};
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
    /// Builds the product. All ranks of the group do so in the same order, and wait for each other.
    ///
    /// # Errors
    /// Ranks that build different products (the message names both), extents without a kernel,
    /// shards that do not sum to the rows, a GPU other than sm_90a, a rank that does not arrive,
    /// out of memory.
    pub fn build<T: ParallelElement>(self) -> Result<ParallelMatmul<'g, T>> {
        let Self { group, form, extents: [m, n, k], shards, tile } = self;
        let world = group.world;
        let number = |tile| NAMES.iter().position(|name| *name == tile);
        if let Some(name) = tile.filter(|&tile| number(tile).is_none()) {
            return Err(error(format!("there is no tile {name}; give one of {}", NAMES.join(", "))));
        }
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
            // The plain product, and NCCL.
            let connected = group.connect().map_err(|cause| error(format!("{reason}; {}", detail(&cause))));
            group.checked(connected)?;
        }
        for member in &group.members {
            let arch = member.device.arch();
            if arch != moye_runtime::Arch::new(9, 0) {
                return Err(error(format!(
                    "the kernels need TMA and wgmma (sm_90a: H100, H200), and rank {} is of {arch}; the simulator runs them",
                    member.rank
                )));
            }
        }
        let mut state = group.state()?;
        state.built += 1;
        let own = format!(
            "builds product {} of the group: {form:?} of {} {m} x {n} x {k}, shards {shards:?}",
            state.built,
            <T as moye_runtime::Element>::NAME
        );
        group.agree(&own).inspect_err(|reason| group.fail(&mut state, reason, &[]))?;
        let row = n.next_multiple_of(8);
        let bytes = 2 * match form {
            Form::AllGather => world * apart(&shards) * k,
            Form::ReduceScatter if group.apart.is_some() => m * row,
            Form::ReduceScatter => shards.iter().max().copied().unwrap_or(0) * row * (world - 1),
            Form::AllReduce => m * row,
        };
        group.reserve(&mut state, bytes).inspect_err(|reason| group.fail(&mut state, reason, &[]))?;
        let mut ends = Vec::new();
        for rows in &shards {
            ends.push(ends.last().copied().unwrap_or(0) + *rows as i32);
        }
        let tables = group.members.iter().map(|member| member.device.upload(&ends)).collect::<Result<_>>();
        let tables = tables.inspect_err(|reason| group.fail(&mut state, reason, &[]))?;
        let product = ParallelMatmul {
            group,
            form,
            extents: [m, n, k].map(|extent| extent as u32),
            apart: apart(&shards) as u32,
            shards: shards.iter().map(|&rows| rows as u32).collect(),
            tables,
            tile: tile.and_then(number),
            number: state.built,
            elements: PhantomData,
        };
        drop(state);
        // The others have the product, and would wait for this rank in its first call.
        group.checked(product.load_kernels())?;
        Ok(product)
    }
}
