//! Launches of a declared call along rows: the arrays as rows, and the launch of a plan.

use crate::plan;
use moye_device::algorithm::RowStride;
use moye_device::kernel::{Kernel, Params};
use moye_device::memory::{Element, Global, GlobalMut};
use moye_runtime::operation::{Array, Dtype, Launcher, On, Operation, RowInstance, RowPlan, RowProblem, To};
use moye_runtime::{Grid, KernelArgs, Ptx, Rates, Result};
use std::hash::Hash;
use std::marker::PhantomData;

/// An array of a kernel, by the relation of its elements to the rows.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    /// The elements of rows: an array of the shape of the first.
    Rows(Option<&'a Array>),
    /// An element for each row: the shape of the first without the axis.
    Each(Option<&'a Array>),
    /// An element for each column, the same for all rows.
    Columns(Option<&'a Array>),
    /// An array that is broadcast to the shape of the first: see [`RowsOf::repeated`].
    Repeated(Option<&'a Array>),
}

impl<'a> Operand<'a> {
    fn array(self) -> Option<&'a Array> {
        let (Self::Rows(array) | Self::Each(array) | Self::Columns(array) | Self::Repeated(array)) = self;
        array
    }

    /// The stride along a mode of the first array, of `rank` modes, in elements.
    fn stride(self, mode: usize, axis: usize, rank: usize) -> i64 {
        match self {
            Self::Repeated(Some(array)) => {
                let own = (mode + array.shape.len()).checked_sub(rank);
                own.map_or(0, |own| if array.shape[own] == 1 { 0 } else { array.strides[own] })
            }
            Self::Rows(Some(array)) => array.strides[mode],
            Self::Each(Some(array)) if mode != axis => array.strides[mode - usize::from(mode > axis)],
            Self::Columns(Some(array)) if mode == axis => array.strides[0],
            _ => 0,
        }
    }

    /// Whether an access of `vector` elements is aligned in each row.
    fn is_aligned(self, at: RowArray, rows: usize, columns: usize, vector: usize) -> bool {
        let (Self::Rows(Some(array)) | Self::Columns(Some(array)) | Self::Repeated(Some(array))) = self
        else {
            return true;
        };
        RowProblem::is_aligned(at.address, at.stride, array.dtype, [rows, columns], vector)
    }
}

/// An array of a launch: the address of its first element, 0 if it is left out, and its strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowArray {
    /// The address.
    pub address: u64,
    /// The strides, in elements.
    pub stride: RowStride,
}

impl RowArray {
    /// The array to read.
    pub fn read<T: Element>(self) -> Global<T> {
        Global::from_address(self.address)
    }

    /// The array to write.
    pub fn write<T: Element>(self) -> GlobalMut<T> {
        GlobalMut::from_address(self.address)
    }
}

/// Arrays as rows along an axis: the launches, each with the address of every array.
pub struct RowsOf<const N: usize> {
    /// Rows of a launch.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// The element type of the first array.
    pub dtype: Dtype,
    /// The arrays of each launch.
    pub launches: Vec<[RowArray; N]>,
    /// The rows after which [`Operand::Repeated`] arrays repeat.
    pub period: u32,
    /// Whether all rows are contiguous, with starts and lengths that are multiples of 16 bytes.
    pub aligned: bool,
}

impl<const N: usize> RowsOf<N> {
    /// The rows of arrays along an axis of the first one. Modes that no single stride joins take a
    /// launch for each index.
    ///
    /// # Errors
    /// More rows or columns than a launch supports.
    ///
    /// # Panics
    /// The first array is left out.
    pub fn new(operation: &'static str, operands: [Operand<'_>; N], axis: usize) -> Result<Self> {
        Self::of(operation, operands, axis, None)
    }

    /// Like [`RowsOf::new`], but consecutive rows of a launch are those along the last other mode,
    /// after which [`Operand::Repeated`] arrays repeat.
    ///
    /// # Errors
    /// Same as [`RowsOf::new`].
    pub fn repeated(operation: &'static str, operands: [Operand<'_>; N], axis: usize) -> Result<Self> {
        let rank = operands[0].array().map_or(0, |first| first.shape.len());
        Self::of(operation, operands, axis, (0..rank).rfind(|&mode| mode != axis))
    }

    fn of(
        operation: &'static str,
        operands: [Operand<'_>; N],
        axis: usize,
        inner: Option<usize>,
    ) -> Result<Self> {
        let first = operands[0].array().expect("the first array is not optional");
        let (shape, dtype) = (&first.shape, first.dtype);
        let columns = shape[axis];
        let stride = |operand: Operand<'_>, mode: usize| operand.stride(mode, axis, shape.len());
        // The other modes, the innermost of the first array last, without those of one element.
        let mut modes: Vec<usize> =
            (0..shape.len()).filter(|&mode| mode != axis && shape[mode] != 1).collect();
        modes.sort_by_key(|&mode| (inner == Some(mode), std::cmp::Reverse(first.strides[mode])));
        // Join modes from the innermost on, as long as every array has one stride for them.
        let (mut rows, mut strides) = (1usize, [0i64; N]);
        while let Some(&mode) = modes.last() {
            let along = operands.map(|operand| stride(operand, mode));
            let is_joined = |i: usize| match operands[i] {
                Operand::Repeated(_) => inner == Some(mode) || along[i] == 0,
                _ => rows == 1 || along[i] == rows as i64 * strides[i],
            };
            if !(0..N).all(is_joined) {
                break;
            }
            for (i, operand) in operands.iter().enumerate() {
                if rows == 1 && !(matches!(operand, Operand::Repeated(_)) && inner != Some(mode)) {
                    strides[i] = along[i];
                }
            }
            rows *= shape[mode];
            modes.pop();
        }
        let array = |operand: usize| RowArray {
            address: operands[operand].array().map_or(0, |array| array.address),
            stride: RowStride {
                row: strides[operand],
                element: if columns > 1 { stride(operands[operand], axis) } else { 1 },
            },
        };
        let mut launches = vec![std::array::from_fn(array)];
        for mode in modes {
            let moved = |arrays: [RowArray; N]| {
                (0..shape[mode]).map(move |index| {
                    std::array::from_fn(|i| {
                        let bytes = operands[i].array().map_or(0, |array| array.dtype.bytes());
                        let by = index as i64 * stride(operands[i], mode) * bytes as i64;
                        RowArray { address: arrays[i].address.wrapping_add_signed(by), ..arrays[i] }
                    })
                })
            };
            launches = launches.into_iter().flat_map(moved).collect();
        }
        let vector = 16 / dtype.bytes();
        let is_aligned = |arrays: &[RowArray; N]| {
            operands.iter().zip(arrays).all(|(of, array)| of.is_aligned(*array, rows, columns, vector))
        };
        let aligned = launches.iter().all(is_aligned);
        let [rows, columns] = RowProblem::extents(operation, [rows, columns])?;
        // A mode of the rows of a launch, or of one of several launches.
        let period = inner.map_or(1, |mode| shape[mode].max(1));
        let [period, _] = RowProblem::extents(operation, [period, 0])?;
        Ok(Self { rows, columns, dtype, launches, period, aligned })
    }

    fn problem<K: RowKernel<N>>(
        &self,
        operation: &'static str,
        arrays: &[RowArray; N],
        kernel: &K,
    ) -> RowProblem {
        let &Self { rows, columns, dtype, aligned, .. } = self;
        let given =
            arrays.iter().zip(0..).fold(0, |given, (array, i)| given | u64::from(array.address != 0) << i);
        let variant = given | u64::from(kernel.variant()) << 32;
        RowProblem { kernel: operation, variant, rows, columns, dtype, aligned }
    }

    /// The plan of a kernel for each launch; `None` if no instance computes it.
    pub fn plan<K: RowKernel<N>>(&self, operation: &'static str, on: &On<'_>, kernel: &K) -> Option<RowPlan> {
        let problem = self.problem(operation, self.launches.first()?, kernel);
        on.plan::<Planned<K, N>>(&problem).ok()
    }

    /// Launches a kernel for all rows, with the scalars of each launch's index.
    ///
    /// # Errors
    /// Rows longer than the kernel supports, and the errors of the launches.
    ///
    /// # Safety
    /// The arrays are on the stream's device until the work is complete, and the scalars are what
    /// the kernel's contract demands.
    pub unsafe fn launch<K: RowKernel<N>>(
        &self,
        operation: &'static str,
        on: &On<'_>,
        scalars: impl Fn(usize) -> K,
    ) -> Result<()> {
        let &Self { rows, columns, dtype, .. } = self;
        if on.launches() && (rows == 0 || columns == 0) {
            return Ok(());
        }
        for (number, arrays) in self.launches.iter().enumerate() {
            let call = (*arrays, scalars(number));
            let problem = self.problem(operation, arrays, &call.1);
            problem.check(operation, K::SHAPES, &on.card())?;
            let name = |to: To<'_>| {
                let plan = on.plan::<Planned<K, N>>(&problem)?;
                // SAFETY: nothing is launched.
                unsafe { call.1.launch(&RowLaunch { rows, columns, dtype, plan, to }, call.0) }
            };
            // SAFETY: the arrays are on the stream's device until the work is complete.
            unsafe { on.run::<Planned<K, N>>(&problem, &call, name)? };
        }
        Ok(())
    }
}

/// The scalars of a kernel along rows of `N` arrays, floats as bits. The kernel has an instance for
/// each shape.
pub trait RowKernel<const N: usize>: Copy + Eq + Hash + 'static {
    /// The shapes in the order of the instances.
    const SHAPES: &'static [RowInstance] = plan::SHAPES;

    /// The plans of a problem, by `plans!`.
    fn plans(problem: &RowProblem, card: &Rates) -> Vec<RowPlan>;

    /// The scalars on which the time of a call depends.
    fn variant(&self) -> u32 {
        0
    }

    /// Launches the plan's instance for the element type.
    ///
    /// # Errors
    /// The errors of a launch.
    ///
    /// # Safety
    /// The arrays hold the rows, and are accessible until the work is complete.
    unsafe fn launch(&self, on: &RowLaunch<'_>, arrays: [RowArray; N]) -> Result<()>;
}

/// The launch of a plan.
pub struct RowLaunch<'a> {
    /// The number of rows.
    pub rows: u32,
    /// Elements of a row.
    pub columns: u32,
    /// The element type of the first array.
    pub dtype: Dtype,
    plan: RowPlan,
    to: To<'a>,
}

impl RowLaunch<'_> {
    /// The blocks of the launch, or the clusters.
    pub const fn groups(&self) -> u32 {
        self.plan.groups()
    }

    /// Launches the plan's instance of a kernel.
    ///
    /// # Errors
    /// The errors of a launch.
    ///
    /// # Safety
    /// The arguments are as the kernel's contract requires.
    pub unsafe fn launch<P: Params>(
        &self,
        kernels: &[Kernel<P>],
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        // SAFETY: the arguments are as the contract requires; the plan holds whole rows of this
        // alignment.
        unsafe { self.launch_grid(kernels, self.plan.grid(), arguments) }
    }

    /// Launches the plan's instance of a kernel with another grid.
    ///
    /// # Errors
    /// The errors of a launch.
    ///
    /// # Safety
    /// Grid and arguments are as the kernel's contract requires.
    pub unsafe fn launch_grid<P: Params>(
        &self,
        kernels: &[Kernel<P>],
        grid: Grid,
        arguments: impl KernelArgs<P>,
    ) -> Result<()> {
        // SAFETY: grid and arguments are as the kernel's contract requires.
        unsafe { self.to.launch(&kernels[self.plan.instance()], grid, arguments) }
    }
}

/// A kernel along rows as an operation.
struct Planned<K, const N: usize>(PhantomData<K>);

impl<K: RowKernel<N>, const N: usize> Operation for Planned<K, N> {
    type Problem = RowProblem;
    type Plan = RowPlan;
    type Call = ([RowArray; N], K);
    const NAME: &'static str = "rows";

    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    fn candidates(problem: &RowProblem, card: &Rates) -> Vec<RowPlan> {
        K::plans(problem, card)
    }

    fn cost(plan: &RowPlan, problem: &RowProblem, card: &Rates) -> f64 {
        plan.cost(problem, card)
    }

    fn kernel(plan: &RowPlan) -> &'static str {
        plan.kernel()
    }

    unsafe fn launch(
        plan: &RowPlan,
        problem: &RowProblem,
        call: &Self::Call,
        on: &Launcher<'_>,
    ) -> Result<()> {
        let &RowProblem { rows, columns, dtype, .. } = problem;
        let on = RowLaunch { rows, columns, dtype, plan: *plan, to: To::Stream(on) };
        // SAFETY: the call's addresses are the problem's operands.
        unsafe { call.1.launch(&on, call.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_joined_where_one_stride_leads_through_all_arrays() {
        let array = |shape: &[usize], strides: &[i64]| Array {
            dtype: Dtype::F32,
            shape: shape.to_vec(),
            strides: strides.to_vec(),
            address: 4096,
        };
        let dense = array(&[2, 3, 8], &[24, 8, 1]);
        let both = |other, axis| RowsOf::new("softmax", [Operand::Rows(Some(&dense)), other], axis).unwrap();
        let rows = both(Operand::Rows(Some(&dense)), 2);
        assert_eq!((rows.rows, rows.columns, rows.launches.len(), rows.aligned), (6, 8, 1, true));
        // The second array has gaps between its matrices: each takes a launch.
        let gaps = array(&[2, 3, 8], &[32, 8, 1]);
        let rows = both(Operand::Rows(Some(&gaps)), 2);
        let addresses = [0, 1].map(|launch| rows.launches[launch].map(|array| array.address));
        assert_eq!(addresses, [[4096, 4096], [4096 + 96, 4096 + 128]]);
        assert_eq!((rows.rows, rows.launches[0][1].stride), (3, RowStride { row: 8, element: 1 }));
        // Along the middle mode elements are 8 apart, and rows 1: joined within a matrix.
        let rows = both(Operand::Rows(Some(&dense)), 1);
        assert_eq!((rows.rows, rows.columns, rows.launches.len(), rows.aligned), (8, 3, 2, false));
        // An element for each row, and for each column.
        let (each, columns) = (array(&[2, 3], &[3, 1]), array(&[8], &[1]));
        let rows = both(Operand::Each(Some(&each)), 2);
        assert_eq!((rows.rows, rows.launches[0][1].stride), (6, RowStride { row: 1, element: 0 }));
        let rows = both(Operand::Columns(Some(&columns)), 2);
        assert_eq!((rows.launches[0][1].stride, rows.aligned), (RowStride { row: 0, element: 1 }, true));
        let rows = both(Operand::Rows(None), 2);
        assert_eq!((rows.rows, rows.launches[0][1].address), (6, 0));
    }
}
