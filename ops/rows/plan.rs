//! The shapes of operations along rows, in the order of their kernels' instances.

use moye_device::algorithm::{
    AnyBlock, AnyBlock512, AnyChunked, AnyCluster, AnyWarp, Block128, Block256, Block512, Block1024, Chunked,
    Cluster512, Cluster1024, Lanes4, Lanes8, RowShape, Warp,
};
use moye_runtime::operation::RowInstance;

/// The instances of shapes, written as in the kernels' `instances`.
macro_rules! shapes {
    ($($shape:ident $(longer than $longest:literal)?)|+) => {
        &[$(RowInstance::of::<$shape>()$(.longer_than($longest))?),+]
    };
}

/// The shapes of kernels that hold one array's rows, and of chunks. Earlier ones are preferred.
pub const SHAPES: &[RowInstance] = shapes! {
    Lanes4 | Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp
        | AnyBlock | Chunked | AnyChunked | Cluster512 | Cluster1024 | AnyCluster
};

/// The shapes of norms, whose clusters spill registers.
pub const SHAPES_OF_NORMS: &[RowInstance] = shapes! {
    Lanes4 | Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp
        | AnyBlock | Chunked | AnyChunked | Cluster512 longer than 32_768 | Cluster1024 longer than 32_768
        | AnyCluster
};

/// The shapes of kernels that hold the rows of two arrays.
pub const SHAPES_OF_TWO: &[RowInstance] = shapes! {
    Lanes8 | Warp | Block256 | Block512 | AnyWarp
        | AnyBlock512 | Chunked | AnyChunked | Cluster512 | AnyCluster
};

/// The shapes of kernels that write bytes: rows of blocks, and whole rows.
pub const SHAPES_OF_BYTES: &[RowInstance] = shapes! {
    Lanes4 | Warp | Block128 | Block256 | Block1024
};

/// The longest row of [`SHAPES_OF_BYTES`].
pub const MOST_OF_BYTES: u32 = Block1024::COLUMNS;

/// The shapes of losses: without shapes that rows of a vocabulary seldom need; unaligned rows take
/// 512 threads.
pub const SHAPES_OF_LOSSES: &[RowInstance] = shapes! {
    Lanes8 | Warp | Block128 | Block256 | Block1024 | AnyWarp
        | AnyBlock512 | Chunked | AnyChunked | Cluster512 | Cluster1024 | AnyCluster
};

#[cfg(test)]
mod tests {
    use super::*;
    use moye_runtime::operation::{Dtype, RowPlan, RowProblem};
    use moye_runtime::{Arch, Rates};

    const NAMES: [&str; 13] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"];

    fn plans(shapes: &[RowInstance], problem: &RowProblem, card: &Rates) -> Vec<RowPlan> {
        RowPlan::candidates(shapes, |instance| NAMES[instance], problem, card)
    }

    #[test]
    fn rows_that_a_shape_holds_are_held_and_longer_ones_are_taken_in_chunks() {
        let (hopper, ampere) = (Rates::H100, Rates { arch: Arch::new(8, 0), ..Rates::H100 });
        for (shapes, card, aligned, limit) in [
            (SHAPES, hopper, true, 262_144),
            (SHAPES, hopper, false, 131_072),
            (SHAPES, ampere, true, 32_768),
            (SHAPES, ampere, false, 32_768),
            (SHAPES_OF_NORMS, hopper, true, 262_144),
            (SHAPES_OF_TWO, hopper, true, 131_072),
            (SHAPES_OF_TWO, ampere, true, 16_384),
            (SHAPES_OF_LOSSES, ampere, false, 16_384),
        ] {
            let problem = |columns| RowProblem {
                kernel: "softmax",
                variant: 0,
                rows: 7,
                columns,
                dtype: Dtype::Bf16,
                aligned,
            };
            let edges = [1, 256, 257, 1024, 4096, 8192, 8193, 16_385, limit];
            for length in (0..=limit).step_by(127).chain(edges).filter(|&length| length <= limit) {
                let all = plans(shapes, &problem(length), &card);
                assert!(!all.is_empty(), "{length} on {}", card.arch);
                for plan in all {
                    assert!(
                        plan.columns() >= length && plan.columns() < i32::MAX as u32,
                        "{length}: {plan:?}"
                    );
                    assert_eq!(plan.kernel(), NAMES[plan.instance()]);
                    // A cluster of half the blocks cannot hold the row.
                    let cluster = plan.grid().cluster.x;
                    assert!(cluster == 1 || length > plan.columns() / 2, "{length}: {cluster} blocks");
                }
            }
            for length in [limit + 1, 262_145, 1 << 30] {
                let all = plans(shapes, &problem(length), &card);
                assert_eq!(all.len(), if aligned { 2 } else { 1 }, "{length} on {}", card.arch);
                assert!(all.iter().all(|plan| plan.columns() == i32::MAX as u32), "{all:?}");
                assert!(problem(length).check("softmax", shapes, &card).is_ok());
            }
        }
    }

    #[test]
    fn a_kernel_without_chunks_refuses_longer_rows_with_its_limit() {
        let problem = RowProblem {
            kernel: "quantize",
            variant: 0,
            rows: 7,
            columns: MOST_OF_BYTES + 1,
            dtype: Dtype::Bf16,
            aligned: true,
        };
        let refused = problem.check("quantize", SHAPES_OF_BYTES, &Rates::H100).unwrap_err().to_string();
        assert!(refused.contains("they may have 32768; split them"), "{refused}");
        assert!(plans(SHAPES_OF_BYTES, &problem, &Rates::H100).is_empty());
    }

    #[test]
    fn a_launch_has_at_most_as_many_blocks_as_a_grid() {
        let problem = |aligned, columns| RowProblem {
            kernel: "softmax",
            variant: 0,
            rows: i32::MAX as u32,
            columns,
            dtype: Dtype::Bf16,
            aligned,
        };
        // Without stepping over rows, clusters of eight blocks would exceed the grid.
        let all = plans(SHAPES, &problem(false, 131_072), &Rates::H100);
        assert!(!all.is_empty());
        for plan in all.into_iter().chain(plans(SHAPES, &problem(true, 262_144), &Rates::H100)) {
            let (blocks, cluster) = (plan.grid().blocks.x, plan.grid().cluster.x);
            assert!(blocks <= i32::MAX as u32 && blocks.is_multiple_of(cluster), "{plan:?}");
        }
    }
}
