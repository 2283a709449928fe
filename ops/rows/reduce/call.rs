//! Builds the launches of a call. The longest of the reduced modes is reduced first, in slices, to
//! states in a workspace, which the next passes reduce along the other modes.

use super::kernel::{ReduceKernels, Rows, Rule, Share, THREADS};
use crate::prelude::*;
use moye_device::algorithm::RowStride;

/// The reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Sum,
    Mean,
    Norm,
    Max,
    Min,
    LogSumExp,
    Var,
    ArgMax,
    ArgMin,
}

impl Kind {
    /// The number of the kernel's reduction, and the bytes of its state.
    const fn reduction(self) -> (usize, usize) {
        match self {
            Self::Sum | Self::Mean => (0, 4),
            Self::Norm => (1, 4),
            Self::Max | Self::Min => (2, 4),
            Self::LogSumExp => (3, 8),
            Self::Var => (4, 16),
            Self::ArgMax | Self::ArgMin => (5, 8),
        }
    }

    /// Whether the result is an index.
    const fn is_index(self) -> bool {
        matches!(self, Self::ArgMax | Self::ArgMin)
    }

    fn rule(self, columns: usize, options: &Options) -> [f32; 2] {
        match self {
            Self::Min | Self::ArgMin => [-1.0, 1.0],
            Self::Mean => [1.0, 1.0 / columns as f32],
            Self::Var => [1.0, 1.0 / (columns as i64 - options.int("correction")).max(0) as f32],
            _ => [1.0, 1.0],
        }
    }
}

/// A launch: rows in groups, each in slices.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pass {
    dtype: Dtype,
    /// The number of the kernel.
    kernel: usize,
    shape: Rows,
    /// Blocks of the rows of a group, slices, and groups.
    grid: [u32; 3],
    /// Addresses of the source and the result: for states an offset in the workspace, until the
    /// workspace exists.
    addresses: [u64; 2],
    /// The bits of sign and scale.
    rule: [u32; 2],
}

/// The fewest elements of a slice, enough for several vectors in flight.
const SLICE: u32 = 4096;
/// The fewest elements of a slice where each warp reads one element of a row.
const SLICE_ACROSS: u32 = 128;
/// Blocks per SM that hide memory latency.
const BLOCKS: u32 = 4;
/// The most elements of a row that a single warp reads.
const WARP_COLUMNS: u32 = 4096;
/// The most elements of a row that a few lanes read.
const LANES_COLUMNS: u32 = 256;
/// The most launches of a pass.
const LAUNCHES: usize = 4096;

impl Launch for Pass {
    fn ptx() -> &'static Ptx {
        &crate::PTX
    }

    unsafe fn launch(&self, to: To<'_>) -> Result<()> {
        let &Self { dtype, kernel, shape, grid: [blocks, slices, groups], addresses: [x, y], rule } = self;
        let [sign, scale] = rule.map(f32::from_bits);
        let [y, states] = if shape.to_states { [0, y] } else { [y, 0] };
        let grid = Grid::new((blocks, slices, groups), THREADS).dependent();
        // SAFETY: the arrays hold the rows; the workspace holds a state for each row and slice.
        of_floats!("reduce", dtype, T => unsafe {
            let (x, states) = (Global::from_address(x), GlobalMut::from_address(states));
            let arguments = (x, GlobalMut::from_address(y), states, shape, Rule { sign, scale });
            let across = shape.share == Share::Vectors as u32;
            to.launch(&T::KERNELS[2 * kernel + usize::from(across)], grid, arguments)
        })
    }
}

/// The division of the rows of a pass.
struct Division {
    /// The threads of a row.
    share: Share,
    /// Blocks of the rows of a group.
    blocks: u32,
    /// The slices of a row.
    slices: u32,
    /// The elements of a slice.
    slice: u32,
}

/// The elements of a launch.
struct Extents {
    groups: u32,
    rows: u32,
    columns: u32,
    /// Elements of a vector of 16 bytes.
    vector: u32,
    /// Whether neighbouring rows are closer together than the elements of one.
    across: bool,
    /// Whether neighbouring rows are contiguous and whole vectors at multiples of their size.
    of_vectors: bool,
}

/// The division of a pass.
fn divide(of: &Extents, card: &Rates) -> Division {
    let &Extents { groups, rows, columns, vector, across, of_vectors } = of;
    let all = rows * groups;
    let share = if of_vectors && rows >= 16 * vector {
        Share::Vectors
    } else if across || columns <= 16 && rows >= 32 {
        Share::Lane
    } else if columns <= LANES_COLUMNS && all >= 16 * card.multiprocessors {
        Share::Lanes
    } else if columns <= WARP_COLUMNS / 4 || columns <= WARP_COLUMNS && all >= 16 * card.multiprocessors {
        Share::Warp
    } else {
        Share::Block
    };
    let least = match share {
        Share::Lanes | Share::Warp => columns.max(1),
        Share::Block => SLICE,
        Share::Lane | Share::Vectors => SLICE_ACROSS,
    };
    let blocks = rows.div_ceil(share.rows(vector));
    let slices =
        (BLOCKS * card.multiprocessors / (blocks * groups).max(1)).clamp(1, columns.div_ceil(least).max(1));
    // Rows without elements are one empty slice.
    let slice = columns.div_ceil(slices).max(1).next_multiple_of(64);
    Division { share, blocks, slices: columns.div_ceil(slice).max(1), slice }
}

/// Element type and shape of the result.
pub fn results(
    name: &'static str,
    kind: Kind,
    inputs: &[Option<ArrayType>],
    options: &Options,
) -> Result<Vec<ArrayType>> {
    let x = given(inputs, 0);
    let (mut shape, axes) = (x.shape.clone(), Array::row_major(x, 0).axes(name, options.axes("axis"))?);
    if let Some(axes) = axes.as_ref().filter(|axes| axes.len() > 1 && kind.is_index()) {
        let detail = format!("{name} takes one axis or all, not {}: its result is one index", axes.len());
        return unsupported(name, detail);
    }
    let axes = axes.unwrap_or_else(|| (0..shape.len()).collect());
    let reduced: usize = axes.iter().rev().map(|&axis| shape.remove(axis)).product();
    let needs_one = matches!(kind, Kind::Max | Kind::Min | Kind::ArgMax | Kind::ArgMin);
    if reduced == 0 && needs_one && shape.iter().all(|&extent| extent > 0) {
        return unsupported(name, format!("x has shape {:?}, and no elements have no {name}", x.shape));
    }
    // Kernels count elements of an index in 32 bits.
    if kind.is_index() && reduced > u32::MAX as usize {
        let detail = format!(
            "x has shape {:?}, and {name} takes 2^32 elements at most; reduce its last mode first",
            x.shape
        );
        return unsupported(name, detail);
    }
    Ok(vec![ArrayType { dtype: if kind.is_index() { Dtype::I64 } else { x.dtype }, shape }])
}

/// A mode of a pass's source: its strides in the source, in the results and in row-major order.
type Mode = crate::groups::Mode<3>;

/// A mode of the rows of a pass, and whether a later pass reduces it.
#[derive(Clone, Copy)]
struct RowMode {
    of: Mode,
    is_reduced: bool,
}

/// The passes of a call, and the bytes of their workspace.
fn passes(name: &'static str, kind: Kind, call: &Call<'_>, card: &Rates) -> Result<(Vec<Pass>, usize)> {
    let (x, y) = (call.operand(0), call.operand(1));
    let axes = x.axes(name, call.options.axes("axis"))?;
    let refuse = |what: &str| {
        unsupported(name, format!("x has shape {:?} and strides {:?}: {what}", x.shape, x.strides))
    };
    let row_major = Array::row_major(&x.ty(), 0).strides;
    let mut of_y = y.strides.iter();
    let (mut kept, mut reduced) = (Vec::<Mode>::new(), Vec::<Mode>::new());
    for (mode, &extent) in x.shape.iter().enumerate() {
        if axes.as_ref().is_none_or(|axes| axes.contains(&mode)) {
            // Along one axis an index is the element's in its row.
            let index = if axes.is_some() { 1 } else { row_major[mode] };
            // Only an index depends on the order.
            let index = if kind.is_index() { index } else { 0 };
            reduced.push(Mode { extent, strides: [x.strides[mode], 0, index] });
        } else {
            kept.push(Mode { extent, strides: [x.strides[mode], *of_y.next().unwrap_or(&0), 0] });
        }
    }
    let elements: usize = reduced.iter().map(|mode| mode.extent).product();
    if elements == 0 {
        reduced = vec![Mode { extent: 0, strides: [1, 0, 0] }];
    }
    let (mut kept, mut reduced) = (joined(kept), joined(reduced));
    let ((kernel, state), rule) = (kind.reduction(), kind.rule(elements, call.options).map(f32::to_bits));
    let (mut passes, mut bytes, mut from) = (Vec::new(), 0, None);
    loop {
        let longest = (0..reduced.len()).max_by_key(|&i| reduced[i].extent);
        let columns = longest.map_or(Mode { extent: 1, strides: [1, 0, 0] }, |i| reduced.remove(i));
        // The rows of a launch are close together, unless there are more than groups can be.
        let mut rows: Vec<_> = kept.iter().map(|&of| RowMode { of, is_reduced: false }).collect();
        rows.extend(reduced.iter().map(|&of| RowMode { of, is_reduced: true }));
        rows.sort_by_key(|mode| (mode.of.extent > MAX_BLOCKS[2] as usize, -mode.of.strides[0].abs()));
        let none = RowMode { of: Mode { extent: 1, strides: [0; 3] }, is_reduced: false };
        let of_row = rows.pop().unwrap_or(none);
        rows.sort_by_key(|mode| mode.of.extent);
        let of_group = rows.pop().unwrap_or(none);
        let (row, group) = (of_row.of, of_group.of);
        let launches: usize = rows.iter().map(|mode| mode.of.extent).product();
        if launches > 1 && (launches > LAUNCHES || kind.is_index()) {
            return refuse("its rows have too many strides; copy it");
        }
        let extents = [group.extent, row.extent, columns.extent];
        let most = |extents: &[usize]| extents.iter().product::<usize>() <= i32::MAX as usize;
        if !most(&extents[..2]) || !most(&extents[2..]) || extents[0] > MAX_BLOCKS[2] as usize {
            return refuse("it has more rows or longer ones than a launch has; split it");
        }
        let element = if columns.extent > 1 { columns.strides[0] } else { 1 };
        let across = element != 1 && row.extent >= 32 && row.strides[0].abs() < element.abs();
        let [groups, of_rows, of_columns] = extents.map(|extent| extent as u32);
        let vector = 16 / x.dtype.bytes();
        let is_of_vectors = |stride: i64| stride % vector as i64 == 0;
        let of_vectors = across
            && from.is_none()
            && row.strides[0] == 1
            && row.extent.is_multiple_of(vector)
            && x.address.is_multiple_of(16)
            && is_of_vectors(element)
            && (group.extent == 1 || is_of_vectors(group.strides[0]))
            && rows.iter().all(|mode| is_of_vectors(mode.of.strides[0]));
        let of =
            Extents { groups, rows: of_rows, columns: of_columns, vector: vector as u32, across, of_vectors };
        let Division { share, blocks, slices, slice } = divide(&of, card);
        let (from_states, to_states) = (from.is_some(), !reduced.is_empty() || slices > 1);
        let shape = Rows {
            rows: of_rows,
            groups,
            columns: of_columns,
            slice,
            share: share as u32,
            from_states,
            to_states,
            stride: RowStride { row: row.strides[0], element },
            group: group.strides[0],
            result: RowStride { row: group.strides[1], element: row.strides[1] },
            index: RowStride { row: row.strides[2], element: columns.strides[2] },
            index_group: group.strides[2],
        };
        let grid = [blocks, slices, groups];
        // The states' modes, from the innermost on.
        let (mut inner, mut of_states) = (slices as usize, Vec::new());
        for &RowMode { of: Mode { extent, strides }, is_reduced } in [of_row, of_group].iter().chain(&rows) {
            let of = Mode { extent, strides: [inner as i64, strides[1], 0] };
            of_states.push(RowMode { of, is_reduced });
            inner *= extent;
        }
        for launch in 0..launches {
            let (mut at, mut offset) = (launch, [0; 2]);
            for (RowMode { of: Mode { extent, strides }, .. }, state) in rows.iter().zip(&of_states[2..]) {
                let index = (at % extent) as i64;
                at /= extent;
                let written = if to_states { state.of.strides[0] } else { strides[1] };
                offset = [offset[0] + index * strides[0], offset[1] + index * written];
            }
            let place = |is_state: bool, base: u64, elements: i64, size: usize| {
                base.wrapping_add_signed(elements * if is_state { state } else { size } as i64)
            };
            let x_at = place(from_states, from.unwrap_or(x.address), offset[0], x.dtype.bytes());
            let to = if to_states { bytes as u64 } else { y.address };
            let addresses = [x_at, place(to_states, to, offset[1], y.dtype.bytes())];
            passes.push(Pass { dtype: x.dtype, kernel, shape, grid, addresses, rule });
        }
        if !to_states {
            return Ok((passes, bytes));
        }
        from = Some(bytes as u64);
        // Each pass's states begin at a multiple of 16 bytes.
        bytes = (bytes + inner * state).next_multiple_of(16);
        let of = |is_reduced: bool| {
            of_states.iter().filter(move |mode| mode.is_reduced == is_reduced).map(|mode| mode.of)
        };
        let slices = Mode { extent: slices as usize, strides: [1, 0, 0] };
        (kept, reduced) = (joined(of(false).collect()), joined(of(true).chain([slices]).collect()));
    }
}

/// Computes a call.
///
/// # Safety
/// Same contract as [`moye_runtime::operation::Declaration::run`].
pub unsafe fn compute(name: &'static str, kind: Kind, on: &On<'_>, call: &Call<'_>) -> Result<()> {
    if call.operand(1).elements() == 0 {
        return Ok(());
    }
    let (passes, bytes) = passes(name, kind, call, &on.card())?;
    // Held until everything is launched.
    let work = on.workspace(bytes)?;
    let base = work.as_ref().map_or(0, Workspace::address);
    passes.into_iter().try_for_each(|mut pass| {
        let of_states = [pass.shape.from_states, pass.shape.to_states];
        for (address, is_state) in pass.addresses.iter_mut().zip(of_states) {
            *address += if is_state { base } else { 0 };
        }
        // SAFETY: the call's arrays are on the stream's device until the work is complete, and the
        // workspace has room for the states.
        unsafe { on.launch(&pass) }
    })
}
