//! Plans of kernels along rows: how many threads share a row, by its length, its alignment and the
//! card. The shipped operations choose by them, and so can any
//! [`Operation`](crate::operation::Operation).

use crate::array::{Array, Dtype};
use crate::device::{Arch, Rates};
use crate::launch::Grid;
use crate::{Error, MAX_BLOCKS, Result};
use moye_device::algorithm::{RowBlocks, RowShape, RowStride};

/// The inputs of the choice of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowProblem {
    /// The kernel: problems of different kernels have separate plans.
    pub kernel: &'static str,
    /// Other properties that change the kernel's speed, such as the operands that a call has.
    pub variant: u64,
    /// The number of rows.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// The element type.
    pub dtype: Dtype,
    /// Whether all rows are contiguous, and start at and have the length of multiples of 16 bytes.
    pub aligned: bool,
}

/// An instance of a kernel: the constants of its [`RowShape`] as values.
#[derive(Clone, Copy, Debug)]
pub struct RowInstance {
    threads: u32,
    rows: u32,
    columns: u32,
    aligned: bool,
    cluster: bool,
    /// Whether a block takes the chunks of a row in turn.
    chunks: bool,
    /// Whether blocks step over the rows.
    steps: bool,
    /// Blocks of an SM that step over all rows, or 0 without a limit on the blocks.
    resident: u32,
    /// Rows have more elements than this.
    above: u32,
}

/// An instance of a kernel, and its launch.
///
/// ```
/// # #![allow(non_snake_case)]
/// use moye_device::algorithm::{AnyChunked, Block256, Chunked, RowCopy, RowScratch, RowShape, RowStride};
/// use moye_device::algorithm::{RowTeam, Warp};
/// use moye_device::prelude::*;
/// use moye_runtime::operation::{self, Array, Launcher, Operation, RowInstance, RowPlan, RowProblem};
/// use moye_runtime::{Device, Matrix, MatrixMut, Ptx, Rates};
///
/// /// `y = x / sum(x)` along rows. Grid: that of the plan.
/// ///
/// /// # Safety
/// /// `x` and `y` hold `m` rows of `n` elements, aligned to `C::ALIGN` bytes; `n` is at most
/// /// `C::COLUMNS`, or any number with chunks.
/// #[kernel(
///     threads = C::BLOCK,
///     shared = (scratch: SharedArray<f32, RowScratch>),
///     instances = scaled<f32, Warp | Block256 | Chunked | AnyChunked>,
///     table = ScaledKernels
/// )]
/// pub unsafe fn scaled<T: Element + Convert<f32>, C: RowShape>(
///     x: Global<T>,
///     y: GlobalMut<T>,
///     m: u32,
///     n: u32,
///     ldx: RowStride,
///     ldy: RowStride,
/// ) where
///     f32: Convert<T>,
/// {
///     let mut team = RowTeam::<C>::new(scratch);
///     let load = RowCopy::<T, C>::get_slice(thread_idx().x);
///     loop {
///         let (gX, gY) = (team.rows(x, (m, n), ldx), team.rows(y, (m, n), ldy)); // (BLK_M, BLK_N)
///         let mut tXrX = team.load(&load.partition_s(gX)); // (CPY, CPY_M, CPY_N)
///         let sum = team.reduce(tXrX.reduce_rows(f32::add), f32::add); // (CPY_M)
///         tXrX.apply_rows(&sum, |x, sum| x / sum);
///         team.store(&tXrX, &load.partition_d(gY));
///         if !team.step(m) {
///             return;
///         }
///     }
/// }
///
/// /// In the order of the kernel's instances.
/// const INSTANCES: &[RowInstance] = &[
///     RowInstance::of::<Warp>(),
///     RowInstance::of::<Block256>(),
///     RowInstance::of::<Chunked>(),
///     RowInstance::of::<AnyChunked>(),
/// ];
///
/// struct Scaled;
///
/// impl Operation for Scaled {
///     type Problem = RowProblem;
///     type Plan = RowPlan;
///     type Call = [(u64, RowStride); 2];
///     const NAME: &'static str = "scaled";
///
///     fn ptx() -> &'static Ptx {
///         // In a crate: `moye::include_ptx!("my_kernels")`.
///         static KERNELS: Ptx = Ptx::new("my_kernels", &[]);
///         &KERNELS
///     }
///
///     fn candidates(problem: &RowProblem, card: &Rates) -> Vec<RowPlan> {
///         RowPlan::candidates(INSTANCES, |i| f32::KERNELS[i].name(), problem, card)
///     }
///
///     fn cost(plan: &RowPlan, problem: &RowProblem, card: &Rates) -> f64 {
///         plan.cost(problem, card)
///     }
///
///     fn kernel(plan: &RowPlan) -> &'static str {
///         plan.kernel()
///     }
///
///     unsafe fn launch(
///         plan: &RowPlan,
///         problem: &RowProblem,
///         call: &Self::Call,
///         on: &Launcher<'_>,
///     ) -> moye_runtime::Result<()> {
///         let [x, y] = *call;
///         let of = (Global::from_address(x.0), GlobalMut::from_address(y.0));
///         let arguments = (of.0, of.1, problem.rows, problem.columns, x.1, y.1);
///         // SAFETY: the arrays hold the rows; the plan's instance takes rows of this length and
///         // alignment.
///         unsafe { on.launch(&f32::KERNELS[plan.instance()], plan.grid(), arguments) }
///     }
/// }
///
/// let device = Device::sim();
/// for (columns, kernel) in [(100, "scaled_f32_warp"), (20_000, "scaled_f32_chunked")] {
///     let x = device.upload(&vec![2.0f32; 3 * columns])?;
///     let mut y = device.alloc_uninit::<f32>(3 * columns)?;
///     let of_x = Array::of("scaled", &Matrix::row_major(&x, 3, columns)?)?;
///     let of_y = Array::of_mut("scaled", &mut MatrixMut::row_major(&mut y, 3, columns)?)?;
///     let problem = RowProblem::of("scaled", &[&of_x, &of_y])?;
///     assert_eq!(operation::plan::<Scaled>(&device, &problem)?.kernel(), kernel);
///     let call = [&of_x, &of_y].map(|array| (array.address, array.row_stride()));
///     // SAFETY: the arrays are the problem's, on the device.
///     unsafe { operation::run::<Scaled>(&device.default_stream(), &problem, &call)? };
///     assert_eq!(y.download()?, vec![1.0 / columns as f32; 3 * columns]);
/// }
/// # Ok::<(), moye_runtime::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowPlan {
    kernel: &'static str,
    instance: usize,
    of: RowInstance,
    /// Blocks of a row.
    cluster: u32,
    /// Blocks of the launch.
    blocks: u32,
}

/// Blocks of the largest cluster.
const MAX_CLUSTER: u32 = 8;
/// The most tiles that a block takes in turn, but in a cluster of eight (`rows_in_turn`): the first
/// waits for its loads, and the last blocks of more tiles would run alone.
const TILES: u32 = 4;
/// The first architecture with clusters.
const CLUSTERS: Arch = Arch::new(9, 0);

/// The rows that each cluster of eight blocks takes in turn, if SMs have room for `residents`
/// clusters.
///
/// A cluster takes about as long to start as for a row, so the time is that of its rounds. An H200
/// runs 30 clusters, where its SMs have room for 33: those of a cluster are in one GPC. Smaller
/// clusters start while others compute: with as many rows in turn, softmax of 32,768 elements takes
/// 1.06 times as long.
fn rows_in_turn(tiles: u32, residents: u32) -> u32 {
    let residents = (residents * 15 / 16).max(1);
    let time = |in_turn: &u32| {
        let rounds = tiles.div_ceil(*in_turn).div_ceil(residents);
        u64::from(rounds) * (u64::from(*in_turn) + 1)
    };
    (1..=tiles.div_ceil(residents).clamp(1, 64)).min_by_key(time).unwrap_or(1)
}

impl RowInstance {
    /// The instance of a shape.
    pub const fn of<C: RowShape>() -> Self {
        Self {
            threads: C::BLOCK,
            rows: C::ROWS,
            columns: if C::Blocks::CHUNKS { i32::MAX as u32 } else { C::COLUMNS },
            aligned: C::ALIGN > 1,
            cluster: C::Blocks::CLUSTER,
            chunks: C::Blocks::CHUNKS,
            steps: C::AHEAD || C::Blocks::CHUNKS,
            resident: 0,
            above: 0,
        }
    }

    /// The instance with this many blocks of an SM at most, which step over all rows: for kernels
    /// that write something for each block.
    #[must_use]
    pub const fn resident(self, blocks: u32) -> Self {
        Self { steps: true, resident: blocks, ..self }
    }

    /// The instance for rows of more elements than this: shorter ones have a faster instance.
    #[must_use]
    pub const fn longer_than(self, columns: u32) -> Self {
        Self { above: columns, ..self }
    }

    /// The instance of a shape whose kernel takes rows of any length.
    pub const fn any_length<C: RowShape>() -> Self {
        Self { columns: i32::MAX as u32, ..Self::of::<C>() }
    }

    /// The longest row.
    const fn longest(&self) -> u32 {
        if self.cluster { self.columns * MAX_CLUSTER } else { self.columns }
    }

    /// The plan of this instance, if it computes a problem on a card.
    fn plan(self, problem: &RowProblem, card: &Rates) -> Option<RowPlan> {
        let cluster = problem.columns.div_ceil(self.columns).max(1).next_power_of_two();
        // A cluster of one block has no `st.async`, and a larger one would have idle blocks.
        let clusters = 2..=if card.arch >= CLUSTERS { MAX_CLUSTER } else { 1 };
        let holds = if self.cluster { clusters.contains(&cluster) } else { cluster == 1 };
        let is_short = self.above > 0 && problem.columns <= self.above;
        if !holds || is_short || self.aligned && !problem.aligned {
            return None;
        }
        // An SM has 1,024 threads of these kernels.
        let of_sm = if self.resident > 0 { self.resident } else { 1024 / self.threads };
        let residents = (card.multiprocessors * of_sm / cluster).max(1);
        let tiles = problem.rows.div_ceil(self.rows);
        let in_turn = match (self.steps, self.resident) {
            (false, _) => 1,
            (true, 0) if cluster == MAX_CLUSTER => rows_in_turn(tiles, residents),
            (true, 0) => (tiles / residents).clamp(1, TILES),
            (true, _) => tiles.div_ceil(residents).max(1),
        };
        let mut blocks = u64::from(tiles.div_ceil(in_turn)) * u64::from(cluster);
        if blocks > MAX_BLOCKS[0].into() {
            if !self.steps {
                return None;
            }
            blocks = (MAX_BLOCKS[0] / cluster * cluster).into();
        }
        Some(RowPlan { kernel: "", instance: 0, of: self, cluster, blocks: blocks as u32 })
    }
}

impl RowProblem {
    /// The rows of matrices: arrays of two modes, (rows, columns), of one shape. The element type
    /// is that of the first; rows of the others are aligned if they allow the same number of
    /// elements per access.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for other arrays, and [`Error::Unsupported`] for more rows or
    /// columns than a launch supports.
    pub fn of(kernel: &'static str, arrays: &[&Array]) -> Result<Self> {
        let operation = kernel;
        let shape = arrays.first().map_or(&[][..], |first| &first.shape);
        let (&[rows, columns], true) = (shape, arrays.iter().all(|array| array.shape == shape)) else {
            let shapes: Vec<_> = arrays.iter().map(|array| &array.shape).collect();
            let detail = format!("arrays have shapes {shapes:?}, and must have one shape of two modes");
            return Err(Error::ShapeMismatch { operation, detail });
        };
        let dtype = arrays[0].dtype;
        let vector = 16 / dtype.bytes();
        let aligned = arrays.iter().all(|array| {
            Self::is_aligned(array.address, array.row_stride(), array.dtype, [rows, columns], vector)
        });
        let [rows, columns] = Self::extents(operation, [rows, columns])?;
        Ok(Self { kernel, variant: 0, rows, columns, dtype, aligned })
    }

    /// The extents of a launch: rows, and elements of a row.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for more than 2^31 - 1 of either.
    pub fn extents(operation: &'static str, extents: [usize; 2]) -> Result<[u32; 2]> {
        if let Some(most) = extents.iter().find(|&&extent| extent > i32::MAX as usize) {
            let [rows, columns] = extents;
            let detail = format!(
                "{rows} rows of {columns} elements have an extent of {most}, and a launch has at most {}; split the \
                 array",
                i32::MAX
            );
            return Err(Error::Unsupported { operation, detail });
        }
        Ok(extents.map(|extent| extent as u32))
    }

    /// Whether the elements of each row are contiguous, and vectors of `vector` elements are at
    /// multiples of their size, of 16 bytes at most; `shape` is that of the rows.
    pub fn is_aligned(address: u64, stride: RowStride, of: Dtype, shape: [usize; 2], vector: usize) -> bool {
        let ([rows, columns], bytes) = (shape, of.bytes() as i64);
        let align = (vector as i64 * bytes).min(16);
        stride.element == 1
            && (columns as i64 * bytes) % align == 0
            && address.is_multiple_of(align as u64)
            && (rows == 1 || (stride.row * bytes) % align == 0)
    }

    /// Whether there is a plan of these instances on a card.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for longer rows than the kernels take, with the limit.
    pub fn check(&self, operation: &'static str, instances: &[RowInstance], card: &Rates) -> Result<()> {
        let usable =
            |of: &&RowInstance| (self.aligned || !of.aligned) && (!of.cluster || card.arch >= CLUSTERS);
        let limit = instances.iter().filter(usable).map(RowInstance::longest).max().unwrap_or(0);
        let columns = self.columns;
        if columns <= limit {
            return Ok(());
        }
        let rows = if self.aligned {
            "rows"
        } else {
            "rows that do not start at and end with multiples of 16 bytes"
        };
        let detail =
            format!("{rows} have {columns} elements, and on {} they may have {limit}; split them", card.arch);
        Err(Error::Unsupported { operation, detail })
    }
}

impl RowPlan {
    /// The plans of a kernel's instances that compute a problem on a card. `name` returns the name
    /// of an instance's entry point. Chunks are taken only for rows that no other instance holds.
    pub fn candidates(
        instances: &[RowInstance],
        name: impl Fn(usize) -> &'static str,
        problem: &RowProblem,
        card: &Rates,
    ) -> Vec<Self> {
        let plans = |chunks: bool| {
            let of = instances.iter().enumerate().filter(move |(_, of)| of.chunks == chunks);
            of.filter_map(|(instance, of)| {
                Some(Self { instance, kernel: name(instance), ..of.plan(problem, card)? })
            })
            .collect::<Vec<_>>()
        };
        let held = plans(false);
        if held.is_empty() { plans(true) } else { held }
    }

    /// The estimated time in microseconds: the bytes of two arrays at the card's bandwidth, divided
    /// by the share of the threads' registers that hold elements, and less for rows that start
    /// anywhere.
    pub fn cost(&self, problem: &RowProblem, card: &Rates) -> f64 {
        let of = self.of;
        let bytes = f64::from(problem.rows) * f64::from(problem.columns) * problem.dtype.bytes() as f64 * 2.0;
        let held = f64::from(problem.columns) / (f64::from(of.columns) * f64::from(self.cluster));
        // An SM waits at barriers if few blocks fit on it; an exchange in a cluster takes longer.
        let barriers = match (of.threads / of.rows, self.cluster) {
            (0..=32, _) => 1.0,
            (_, 1) => 1.02,
            (_, cluster) => 1.03 + 0.02 * f64::from(cluster),
        };
        let big = match (of.threads, of.steps) {
            (0..=256, _) | (512, true) => 1.0,
            (512, false) => 1.2,
            (_, true) => 1.1,
            (_, false) => 1.4,
        };
        let unaligned = if of.aligned { 1.0 } else { 2.0 };
        2.0 + bytes / card.memory * barriers * big * unaligned * (1.0 + 0.25 * (1.0 - held))
    }

    /// The instance's index.
    pub const fn instance(&self) -> usize {
        self.instance
    }

    /// The name of the instance's entry point.
    pub const fn kernel(&self) -> &'static str {
        self.kernel
    }

    /// The longest row that the launch holds in registers; with chunks any.
    pub const fn columns(&self) -> u32 {
        self.of.columns * self.cluster
    }

    /// The blocks of the launch, or the clusters.
    pub const fn groups(&self) -> u32 {
        self.blocks / self.cluster
    }

    /// The grid of a kernel that waits for the launches before it.
    pub fn grid(&self) -> Grid {
        let grid = Grid::new(self.blocks, self.of.threads).dependent();
        if self.of.cluster { grid.clusters(self.cluster) } else { grid }
    }
}

impl Array {
    /// The strides of a matrix, an array of two modes, as those of rows.
    pub fn row_stride(&self) -> RowStride {
        let of = |mode: usize| self.strides.get(mode).copied().unwrap_or(0);
        RowStride { row: of(0), element: of(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array::ArrayType;
    use moye_device::algorithm::{AnyCluster, Cluster1024};

    #[test]
    fn rows_of_matrices_have_one_shape_and_extents_of_a_launch_or_are_refused_with_their_values() {
        let array = |shape: &[usize], address| {
            Array::row_major(&ArrayType { dtype: Dtype::Bf16, shape: shape.to_vec() }, address)
        };
        let of = |shape: &[usize], other: &[usize], address| {
            RowProblem::of("scaled", &[&array(shape, 4096), &array(other, address)])
                .map_err(|error| error.to_string())
        };
        let rows = of(&[3, 40], &[3, 40], 4096).unwrap();
        assert_eq!((rows.rows, rows.columns, rows.dtype, rows.aligned), (3, 40, Dtype::Bf16, true));
        assert!(!of(&[3, 40], &[3, 40], 4098).unwrap().aligned, "the second starts at another address");
        assert!(!of(&[3, 41], &[3, 41], 4096).unwrap().aligned, "the second row starts there");
        let refused = of(&[3, 40], &[40], 4096).unwrap_err();
        assert!(refused.contains("arrays have shapes [[3, 40], [40]]"), "{refused}");
        let refused = of(&[1 << 31, 2], &[1 << 31, 2], 4096).unwrap_err();
        assert!(
            refused.contains("2147483648 rows of 2 elements") && refused.contains("at most 2147483647"),
            "{refused}"
        );
    }

    #[test]
    fn clusters_of_eight_take_rows_in_as_few_rounds_as_run_at_a_time() {
        // Rows, clusters that SMs have room for, rows in turn: 30 clusters run, or 15.
        for (tiles, residents, expected) in [(512, 33, 18), (256, 16, 18), (30, 33, 1), (1, 33, 1), (7, 1, 7)]
        {
            let in_turn = rows_in_turn(tiles, residents);
            assert_eq!(in_turn, expected, "{tiles} rows, {residents} clusters");
        }
        assert!(rows_in_turn(i32::MAX as u32, 33) <= 64, "of many rounds the last is a small part");
    }

    #[test]
    fn blocks_of_clusters_that_a_grid_does_not_have_are_no_plan() {
        let of = |aligned| RowProblem {
            kernel: "scaled",
            variant: 0,
            rows: i32::MAX as u32,
            columns: 131_072,
            dtype: Dtype::Bf16,
            aligned,
        };
        let plans =
            |instance, aligned| RowPlan::candidates(&[instance], |_| "scaled", &of(aligned), &Rates::H100);
        // A cluster for each row, and clusters that step over the rows.
        assert!(plans(RowInstance::of::<AnyCluster>(), false).is_empty());
        let plans = plans(RowInstance::of::<Cluster1024>(), true);
        assert_eq!(plans.len(), 1);
        let (blocks, cluster) = (plans[0].grid().blocks.x, plans[0].grid().cluster.x);
        assert!(blocks <= MAX_BLOCKS[0] && blocks.is_multiple_of(cluster), "{blocks} {cluster}");
    }
}
