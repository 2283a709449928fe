//! The plans of operations along rows: how many threads share a row, by its length, its alignment
//! and the card.

use moye::operation::{Array, Dtype};
use moye::{Arch, Device, Error, Rates, Result};
use moye_device::algorithm::{
    AnyBlock, AnyCluster, AnyWarp, Block128, Block256, Block1024, Cluster256, Cluster512, Cluster1024,
    Lanes8, RowBlocks, RowShape, RowStride, Warp,
};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The number of the instance: that of the shape among [`shapes`].
    pub instance: usize,
    /// Threads of a block.
    pub threads: u32,
    /// Rows of a block.
    pub rows: u32,
    /// Blocks of a row.
    pub cluster: u32,
}

/// A shape's constants as values.
#[derive(Clone, Copy, Debug)]
struct Shape {
    threads: u32,
    rows: u32,
    columns: u32,
    aligned: bool,
    cluster: bool,
}

const fn shape<C: RowShape>() -> Shape {
    Shape {
        threads: C::BLOCK,
        rows: C::ROWS,
        columns: C::COLUMNS,
        aligned: C::ALIGN > 1,
        cluster: C::Blocks::CLUSTER,
    }
}

/// The shapes in the order of the kernels' instances. Earlier ones are preferred.
const SHAPES: [Shape; 11] = [
    shape::<Lanes8>(),
    shape::<Warp>(),
    shape::<Block128>(),
    shape::<Block256>(),
    shape::<Block1024>(),
    shape::<AnyWarp>(),
    shape::<AnyBlock>(),
    shape::<Cluster256>(),
    shape::<Cluster512>(),
    shape::<Cluster1024>(),
    shape::<AnyCluster>(),
];

/// Blocks of the largest cluster.
const MAX_CLUSTER: u32 = 8;
/// The first architecture with clusters.
const CLUSTERS: Arch = Arch::new(9, 0);

/// The longest row of a problem on a card, in elements.
fn max_columns(problem: &Problem, card: &Rates) -> u32 {
    let usable =
        |shape: &&Shape| (problem.aligned || !shape.aligned) && (!shape.cluster || card.arch >= CLUSTERS);
    let longest = |shape: &Shape| shape.columns * if shape.cluster { MAX_CLUSTER } else { 1 };
    SHAPES.iter().filter(usable).map(longest).max().unwrap_or(0)
}

/// Whether there is a plan for a problem on a card.
///
/// # Errors
/// Rows that are longer than the kernels hold, with the limit.
pub fn check(operation: &'static str, problem: &Problem, card: &Rates) -> Result<()> {
    let (columns, limit) = (problem.columns, max_columns(problem, card));
    if columns <= limit {
        return Ok(());
    }
    let rows =
        if problem.aligned { "rows" } else { "rows that do not start at and end with multiples of 16 bytes" };
    let detail =
        format!("{rows} have {columns} elements, and on {} they may have {limit}; split them", card.arch);
    Err(Error::Unsupported { operation, detail })
}

/// The plans that hold whole rows of a problem on a card.
pub fn candidates(problem: &Problem, card: &Rates) -> Vec<Plan> {
    let fits = |(instance, shape): (usize, &Shape)| {
        let cluster = problem.columns.div_ceil(shape.columns).max(1).next_power_of_two();
        let has = if shape.cluster { cluster <= MAX_CLUSTER && card.arch >= CLUSTERS } else { cluster == 1 };
        let aligned = problem.aligned || !shape.aligned;
        (has && aligned).then_some(Plan { instance, threads: shape.threads, rows: shape.rows, cluster })
    };
    SHAPES.iter().enumerate().filter_map(fits).collect()
}

/// The estimated time in microseconds: the bytes of `passes` arrays at the card's bandwidth,
/// divided by the share of the threads' registers that hold elements, and less for rows that start
/// anywhere.
pub fn cost(plan: &Plan, problem: &Problem, card: &Rates, passes: f64) -> f64 {
    let shape = SHAPES[plan.instance];
    let bytes = f64::from(problem.rows) * f64::from(problem.columns) * problem.dtype.bytes() as f64 * passes;
    let held = f64::from(problem.columns) / f64::from(shape.columns * plan.cluster);
    // An SM waits at barriers if few blocks fit on it; a cluster's barrier takes longer than a
    // block's.
    let barriers = match (plan.threads / plan.rows, plan.cluster) {
        (0..=32, _) => 1.0,
        (_, 1) => 1.02,
        (_, cluster) => 1.1 + 0.02 * f64::from(cluster),
    };
    let big = match shape.threads {
        0..=256 => 1.0,
        512 => 1.2,
        _ => 1.4,
    };
    let unaligned = if shape.aligned { 1.0 } else { 2.0 };
    2.0 + bytes / card.memory * barriers * big * unaligned * (1.0 + 0.25 * (1.0 - held))
}

/// Arrays as rows along an axis: the launches, each with the strides and the offset of every array.
pub struct RowsOf {
    /// Rows of a launch.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// Strides of each array, in elements.
    pub strides: Vec<RowStride>,
    /// The address of each array's first element, of each launch.
    pub launches: Vec<Vec<u64>>,
    /// Whether all rows are contiguous, and start at and have the length of multiples of 16 bytes.
    pub aligned: bool,
}

impl RowsOf {
    /// The rows of arrays of one shape along an axis. Modes that no single stride joins are one
    /// launch for each index.
    ///
    /// # Errors
    /// More rows or columns than a launch has.
    pub fn new(operation: &'static str, arrays: &[&Array], axis: usize) -> Result<Self> {
        let shape = &arrays[0].shape;
        let bytes = arrays[0].dtype.bytes() as i64;
        let columns = shape[axis];
        if columns > i32::MAX as usize {
            let detail = format!("rows have {columns} elements, and may have {}; split them", i32::MAX);
            return Err(Error::Unsupported { operation, detail });
        }
        // The other modes, the innermost of the first array last, without those of one element.
        let mut modes: Vec<usize> =
            (0..shape.len()).filter(|&mode| mode != axis && shape[mode] != 1).collect();
        modes.sort_by_key(|&mode| std::cmp::Reverse(arrays[0].strides[mode]));
        // Joined from the innermost on as long as every array has one stride for all.
        let (mut rows, mut strides) = (1usize, vec![0i64; arrays.len()]);
        while let Some(&mode) = modes.last() {
            let joins = rows == 1
                || arrays
                    .iter()
                    .zip(&strides)
                    .all(|(array, stride)| array.strides[mode] == rows as i64 * stride);
            if !joins {
                break;
            }
            if rows == 1 {
                strides = arrays.iter().map(|array| array.strides[mode]).collect();
            }
            rows *= shape[mode];
            modes.pop();
        }
        let too_many = |rows: usize| {
            let detail = format!("{rows} rows, and a launch has at most {}; split the array", i32::MAX);
            Error::Unsupported { operation, detail }
        };
        let mut launches: Vec<Vec<u64>> = vec![arrays.iter().map(|array| array.address).collect()];
        for mode in modes {
            let moved = |addresses: Vec<u64>| {
                (0..shape[mode]).map(move |index| {
                    let by = |array: &&Array| index as i64 * array.strides[mode] * bytes;
                    addresses
                        .iter()
                        .zip(arrays)
                        .map(|(address, array)| address.wrapping_add_signed(by(array)))
                        .collect()
                })
            };
            launches = launches.into_iter().flat_map(moved).collect();
        }
        let strides: Vec<_> = arrays
            .iter()
            .zip(strides)
            .map(|(array, row)| RowStride { row, element: if columns > 1 { array.strides[axis] } else { 1 } })
            .collect();
        let is_aligned = |(address, stride): (&u64, &RowStride)| {
            stride.element == 1
                && (columns as i64 * bytes) % 16 == 0
                && address.is_multiple_of(16)
                && (rows == 1 || (stride.row * bytes) % 16 == 0)
        };
        let aligned = launches.iter().all(|addresses| addresses.iter().zip(&strides).all(is_aligned));
        let rows =
            u32::try_from(rows).ok().filter(|&rows| rows <= i32::MAX as u32).ok_or_else(|| too_many(rows))?;
        Ok(Self { rows, columns: columns as u32, strides, launches, aligned })
    }

    /// The problem of each launch on a device.
    ///
    /// # Errors
    /// As for [`check`].
    pub fn problem(&self, operation: &'static str, dtype: Dtype, device: &Device) -> Result<Problem> {
        let problem = Problem { rows: self.rows, columns: self.columns, dtype, aligned: self.aligned };
        check(operation, &problem, &device.rates())?;
        Ok(problem)
    }
}

/// A mode: its extent, and its stride in each of `N` arrays.
pub type Mode<const N: usize> = (usize, [i64; N]);

/// The modes, those of greater strides in the first array first, joined where one stride of every
/// array leads through two of them.
pub fn joined<const N: usize>(mut modes: Vec<Mode<N>>) -> Vec<Mode<N>> {
    modes.retain(|mode| mode.0 != 1);
    modes.sort_by_key(|mode| std::cmp::Reverse(mode.1[0]));
    let mut all: Vec<Mode<N>> = Vec::new();
    for (extent, strides) in modes {
        match all.last_mut() {
            Some(last) if last.1 == strides.map(|stride| stride * extent as i64) => {
                *last = (last.0 * extent, strides);
            }
            _ => all.push((extent, strides)),
        }
    }
    all
}

/// Joined modes as groups of rows.
///
/// # Errors
/// More than two modes, or more rows than a launch has.
pub fn groups_and_rows<const N: usize>(
    operation: &'static str,
    x: &Array,
    mut modes: Vec<Mode<N>>,
) -> Result<[(u32, [i64; N]); 2]> {
    let none = (1, [0; N]);
    let (rows, groups) = (modes.pop().unwrap_or(none), modes.pop().unwrap_or(none));
    let is_launch = rows.0.checked_mul(groups.0).is_some_and(|rows| rows <= i32::MAX as usize);
    if modes.is_empty() && is_launch && groups.0 <= moye::MAX_BLOCKS[2] as usize {
        return Ok([groups, rows].map(|(extent, strides)| (extent as u32, strides)));
    }
    let (shape, strides) = (&x.shape, &x.strides);
    let detail = if modes.is_empty() {
        format!("x has shape {shape:?}, more rows than a launch has; split it")
    } else {
        format!(
            "the rows of x, of shape {shape:?} and strides {strides:?}, have more than two strides; copy it"
        )
    };
    Err(Error::Unsupported { operation, detail })
}

impl Plan {
    /// The grid of the plan for a problem.
    pub fn grid(&self, problem: &Problem) -> moye::Grid {
        let blocks = problem.rows.div_ceil(self.rows) * self.cluster;
        let grid = moye::Grid::new(blocks, self.threads);
        if self.cluster > 1 || SHAPES[self.instance].cluster { grid.clusters(self.cluster) } else { grid }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(problem: &Problem, card: &Rates) -> u32 {
        let plans = candidates(problem, card);
        let cheapest =
            plans.iter().min_by(|a, b| cost(a, problem, card, 2.0).total_cmp(&cost(b, problem, card, 2.0)));
        cheapest.map_or(0, |plan| SHAPES[plan.instance].columns * plan.cluster)
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
                assert!(check("softmax", &problem(length), &card).is_ok(), "{length}");
                assert!(columns(&problem(length), &card) >= length, "{length} on {}", card.arch);
            }
            let refused = check("softmax", &problem(limit + 1), &card).unwrap_err().to_string();
            assert!(refused.contains(&format!("they may have {limit}; split them")), "{refused}");
            assert!(candidates(&problem(limit + 1), &card).is_empty());
        }
    }

    #[test]
    fn modes_are_joined_where_one_stride_leads_through_all_arrays() {
        let array = |shape: &[usize], strides: &[i64]| Array {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            address: 4096,
        };
        let dense = array(&[2, 3, 8], &[24, 8, 1]);
        let rows = RowsOf::new("softmax", &[&dense, &dense], 2).unwrap();
        assert_eq!((rows.rows, rows.columns, rows.launches.len(), rows.aligned), (6, 8, 1, true));
        // The second array has gaps between its matrices: a launch for each.
        let gaps = array(&[2, 3, 8], &[32, 8, 1]);
        let rows = RowsOf::new("softmax", &[&dense, &gaps], 2).unwrap();
        assert_eq!(rows.launches, [[4096, 4096], [4096 + 96, 4096 + 128]]);
        assert_eq!((rows.rows, rows.strides[1]), (3, RowStride { row: 8, element: 1 }));
        // Along the middle mode elements are 8 apart, and rows 1: joined within a matrix.
        let rows = RowsOf::new("softmax", &[&dense, &dense], 1).unwrap();
        assert_eq!((rows.rows, rows.columns, rows.launches.len(), rows.aligned), (8, 3, 2, false));
    }
}
