//! The plans of operations along rows: how many threads share a row, by its length, its alignment
//! and the card.

use moye_device::algorithm::{
    AnyBlock, AnyBlock512, AnyCluster, AnyWarp, Block128, Block256, Block512, Block1024, Cluster512,
    Cluster1024, Lanes4, Lanes8, RowBlocks, RowShape, Warp,
};
use moye_runtime::operation::Dtype;
use moye_runtime::{Arch, Error, Rates, Result};

/// What the choice depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// The number of rows.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// The element type.
    pub dtype: Dtype,
    /// Whether all rows are contiguous, and start at and have the length of multiples of 16 bytes.
    pub aligned: bool,
}

/// A kernel, by its number among the instances of an element type, and its launch.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The number of the instance: that of the shape among the kernel's.
    pub instance: usize,
    shape: Shape,
    /// Blocks of a row.
    cluster: u32,
    /// Blocks of the launch.
    blocks: u32,
}

/// A shape's constants as values.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    threads: u32,
    rows: u32,
    columns: u32,
    aligned: bool,
    cluster: bool,
    /// Whether blocks step over the rows.
    ahead: bool,
}

/// A shape as one of kernels that take rows of any length.
pub const fn any_length<C: RowShape>() -> Shape {
    Shape { columns: i32::MAX as u32, ..shape::<C>() }
}

const fn shape<C: RowShape>() -> Shape {
    Shape {
        threads: C::BLOCK,
        rows: C::ROWS,
        columns: C::COLUMNS,
        aligned: C::ALIGN > 1,
        cluster: C::Blocks::CLUSTER,
        ahead: C::AHEAD,
    }
}

/// The shapes of kernels that hold one array's rows. Earlier ones are preferred.
pub const SHAPES: &[Shape] = &[
    shape::<Lanes4>(),
    shape::<Lanes8>(),
    shape::<Warp>(),
    shape::<Block128>(),
    shape::<Block256>(),
    shape::<Block1024>(),
    shape::<AnyWarp>(),
    shape::<AnyBlock>(),
    shape::<Cluster512>(),
    shape::<Cluster1024>(),
    shape::<AnyCluster>(),
];

/// The shapes of kernels that hold the rows of two arrays.
pub const SHAPES_OF_TWO: &[Shape] = &[
    shape::<Lanes8>(),
    shape::<Warp>(),
    shape::<Block256>(),
    shape::<Block512>(),
    shape::<AnyWarp>(),
    shape::<AnyBlock512>(),
    shape::<Cluster512>(),
    shape::<AnyCluster>(),
];

/// The shapes of kernels that write bytes: rows of blocks, and whole rows.
pub const SHAPES_OF_BYTES: &[Shape] =
    &[shape::<Lanes4>(), shape::<Warp>(), shape::<Block128>(), shape::<Block256>(), shape::<Block1024>()];

/// The longest row of these.
pub const MOST_OF_BYTES: u32 = Block1024::COLUMNS;

/// The shapes of losses: without shapes that rows of a vocabulary seldom have, and of 512 threads
/// where rows start anywhere.
pub const SHAPES_OF_LOSSES: &[Shape] = &[
    shape::<Lanes8>(),
    shape::<Warp>(),
    shape::<Block256>(),
    shape::<Block1024>(),
    shape::<AnyWarp>(),
    shape::<AnyBlock512>(),
    shape::<Cluster512>(),
    shape::<Cluster1024>(),
    shape::<AnyCluster>(),
];

/// Blocks of the largest cluster.
const MAX_CLUSTER: u32 = 8;
/// The most tiles that a block takes in turn: the first waits for its loads, and the last blocks of
/// more tiles would run alone.
const TILES: u32 = 4;
/// The first architecture with clusters.
const CLUSTERS: Arch = Arch::new(9, 0);

/// The longest row of a problem on a card, in elements.
fn max_columns(shapes: &[Shape], problem: &Problem, card: &Rates) -> u32 {
    let usable =
        |shape: &&Shape| (problem.aligned || !shape.aligned) && (!shape.cluster || card.arch >= CLUSTERS);
    let longest = |shape: &Shape| shape.columns * if shape.cluster { MAX_CLUSTER } else { 1 };
    shapes.iter().filter(usable).map(longest).max().unwrap_or(0)
}

/// Whether there is a plan of these shapes for a problem on a card.
///
/// # Errors
/// Rows that are longer than the kernels hold, with the limit.
pub fn check(operation: &'static str, shapes: &[Shape], problem: &Problem, card: &Rates) -> Result<()> {
    let (columns, limit) = (problem.columns, max_columns(shapes, problem, card));
    if columns <= limit {
        return Ok(());
    }
    let rows =
        if problem.aligned { "rows" } else { "rows that do not start at and end with multiples of 16 bytes" };
    let detail =
        format!("{rows} have {columns} elements, and on {} they may have {limit}; split them", card.arch);
    Err(Error::Unsupported { operation, detail })
}

/// The plans of these shapes that hold whole rows of a problem on a card.
pub fn candidates(shapes: &[Shape], problem: &Problem, card: &Rates) -> Vec<Plan> {
    let fits = |(instance, &shape): (usize, &Shape)| {
        let cluster = problem.columns.div_ceil(shape.columns).max(1).next_power_of_two();
        // A cluster of one block has no `st.async`, and a larger one would have idle blocks.
        let clusters = 2..=if card.arch >= CLUSTERS { MAX_CLUSTER } else { 1 };
        let has = if shape.cluster { clusters.contains(&cluster) } else { cluster == 1 };
        let aligned = problem.aligned || !shape.aligned;
        // An SM has 1,024 threads of these kernels.
        let residents = (card.multiprocessors * 1024 / (shape.threads * cluster)).max(1);
        let tiles = problem.rows.div_ceil(shape.rows);
        let in_turn = if shape.ahead { (tiles / residents).clamp(1, TILES) } else { 1 };
        let blocks = tiles.div_ceil(in_turn) * cluster;
        (has && aligned).then_some(Plan { instance, shape, cluster, blocks })
    };
    shapes.iter().enumerate().filter_map(fits).collect()
}

/// The estimated time in microseconds: the bytes of two arrays at the card's bandwidth, divided by
/// the share of the threads' registers that hold elements, and less for rows that start anywhere.
pub fn cost(plan: &Plan, problem: &Problem, card: &Rates) -> f64 {
    let shape = plan.shape;
    let bytes = f64::from(problem.rows) * f64::from(problem.columns) * problem.dtype.bytes() as f64 * 2.0;
    let held = f64::from(problem.columns) / f64::from(shape.columns * plan.cluster);
    // An SM waits at barriers if few blocks fit on it; an exchange in a cluster takes longer.
    let barriers = match (shape.threads / shape.rows, plan.cluster) {
        (0..=32, _) => 1.0,
        (_, 1) => 1.02,
        (_, cluster) => 1.03 + 0.02 * f64::from(cluster),
    };
    let big = match (shape.threads, shape.ahead) {
        (0..=256, _) | (512, true) => 1.0,
        (512, false) => 1.2,
        (_, true) => 1.1,
        (_, false) => 1.4,
    };
    let unaligned = if shape.aligned { 1.0 } else { 2.0 };
    2.0 + bytes / card.memory * barriers * big * unaligned * (1.0 + 0.25 * (1.0 - held))
}

impl Plan {
    /// The grid of a kernel that waits for the launches before it.
    pub fn grid(&self) -> moye_runtime::Grid {
        let grid = moye_runtime::Grid::new(self.blocks, self.shape.threads).dependent();
        if self.shape.cluster { grid.clusters(self.cluster) } else { grid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(problem: &Problem, card: &Rates) -> u32 {
        let plans = candidates(SHAPES, problem, card);
        let cheapest = plans.iter().min_by(|a, b| {
            let [a, b] = [a, b].map(|plan| cost(plan, problem, card));
            a.total_cmp(&b)
        });
        cheapest.map_or(0, |plan| plan.shape.columns * plan.cluster)
    }

    #[test]
    fn every_row_up_to_the_limit_has_a_plan_that_holds_it_and_none_beyond_is_taken() {
        let (hopper, ampere) = (Rates::H100, Rates { arch: Arch::new(8, 0), ..Rates::H100 });
        for (card, aligned, limit) in [
            (hopper, true, 262_144),
            (hopper, false, 131_072),
            (ampere, true, 32_768),
            (ampere, false, 32_768),
        ] {
            let problem = |columns| Problem { rows: 7, columns, dtype: Dtype::Bf16, aligned };
            for length in (0..=limit).step_by(127).chain([1, 256, 257, 1024, 4096, 8192, 8193, 16_385, limit])
            {
                assert!(check("softmax", SHAPES, &problem(length), &card).is_ok(), "{length}");
                assert!(columns(&problem(length), &card) >= length, "{length} on {}", card.arch);
                for Plan { shape, cluster, .. } in candidates(SHAPES, &problem(length), &card) {
                    let holds = shape.columns * cluster / 2;
                    assert!(!shape.cluster || cluster > 1 && length > holds, "{length}: {cluster} blocks");
                }
            }
            let refused = check("softmax", SHAPES, &problem(limit + 1), &card).unwrap_err().to_string();
            assert!(refused.contains(&format!("they may have {limit}; split them")), "{refused}");
            assert!(candidates(SHAPES, &problem(limit + 1), &card).is_empty());
        }
    }
}
