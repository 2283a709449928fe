//! Operands of TMA: K-contiguous matrices, and the kernel that copies others into that form.

use moye_device::collective::BlockScales;
use moye_device::prelude::*;

/// Threads of a block.
pub const THREADS: u32 = 256;

/// Scales of blocks in memory, f32.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct ScalesAt {
    /// The address; 0: there are none.
    pub address: u64,
    /// Stride between blocks along the rows; 0 if all share a scale, as for `k`.
    pub row: u32,
    /// Stride between blocks along K.
    pub k: u32,
    /// Stride between matrices, or from the end of a padded group's rows to the next group.
    pub batch: u32,
}

impl ScalesAt {
    /// The scales in the form that a mainloop reads.
    #[inline(always)]
    pub const fn scales(self) -> BlockScales {
        let Self { address, row, k, batch } = self;
        BlockScales { scales: Global::from_address(address), row, k, batch }
    }
}

/// Strides of matrices, in elements.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, KernelParam)]
pub struct Place {
    /// Between matrices.
    pub batch: i64,
    /// Between rows.
    pub row: i64,
    /// Between columns.
    pub column: i64,
}

/// Copies matrices of `rows` x `columns` at any strides to contiguous rows of `padded` elements,
/// with zeros past `columns`. Grid: `(ceil(rows * padded / THREADS), matrices)`.
///
/// # Safety
/// `x` has the matrices, and `y` room for them; they are disjoint.
#[kernel(threads = THREADS, instances = (align_8<u8>, align_16<u16>, align_32<u32>))]
pub unsafe fn align<T: Element>(
    x: Global<T>,
    y: GlobalMut<T>,
    rows: u32,
    columns: u32,
    padded: u32,
    of_x: Place,
) {
    let (i, matrix) = (block_idx().x * THREADS + thread_idx().x, i64::from(block_idx().y));
    let (row, column) = (i / padded, i % padded);
    if row >= rows {
        return;
    }
    let from = matrix * of_x.batch + i64::from(row) * of_x.row + i64::from(column) * of_x.column;
    let value = x.offset(from).read_if(column < columns);
    y.write(matrix * i64::from(rows) * i64::from(padded) + i64::from(i), value);
}

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use host::*;

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::{Place, THREADS, align_8, align_16, align_32};
    use moye_device::atom::tma::{TmaElement, TmaTile};
    use moye_device::collective::{Boxed, Groups, StoreC, Target};
    use moye_device::layout::{IntTuple, Layout};
    use moye_device::memory::{Global, GlobalMut, TensorMap as Map};
    use moye_runtime::operation::{Array, ArrayType, Workspace};
    use moye_runtime::{
        Element, Error, Grid, KernelArg, Matrix, MatrixMut, Result, Stream, TensorElement, TensorMap,
        TensorPromotion,
    };
    use std::ops::Range;

    /// The greatest extent: coordinates of tensor maps are signed.
    const MOST: usize = i32::MAX as usize;

    /// Rows of a tensor map begin at multiples of this many bytes.
    const ALIGN: usize = 16;

    /// Matrices (batch, row, column) with contiguous rows, as a tensor map takes them.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Rows {
        /// The address of the first element.
        pub address: u64,
        /// Batches, rows, columns.
        pub shape: [u32; 3],
        /// Strides of batches and rows.
        pub strides: [i64; 2],
    }

    impl Rows {
        /// The rows of all matrices as one matrix, if one stride joins them.
        fn joined(self) -> Option<Self> {
            let [batches, rows, columns] = self.shape;
            if batches == 1 {
                return Some(self);
            }
            let row = if rows == 1 { self.strides[0] } else { self.strides[1] };
            let all = batches.checked_mul(rows)?;
            (self.strides[0] == i64::from(rows) * row).then(|| Self {
                shape: [1, all, columns],
                strides: [i64::from(all) * row, row],
                ..self
            })
        }

        /// The tensor map by which a tile of (row, column, batch) is loaded.
        pub fn map<T: TmaElement>(&self, stream: &Stream, tile: &TmaTile) -> Result<TensorMap> {
            self.map_of(T::ELEMENT, stream, tile)
        }

        /// [`map`](Self::map) of elements of this type for TMA.
        pub fn map_of(&self, element: TensorElement, stream: &Stream, tile: &TmaTile) -> Result<TensorMap> {
            let [batches, rows, columns] = self.shape.map(i64::from);
            let shape = IntTuple::flat(&[rows, columns, batches]);
            let tensor = Layout::new(shape, IntTuple::flat(&[self.strides[1], 1, self.strides[0]]));
            let fields = tile.tensor_map(element, self.address, &tensor).map_err(Error::TensorOfTile)?;
            // L2 fetches whole rows of a box.
            TensorMap::new(
                stream.device(),
                &moye_runtime::TensorMapFields { promotion: TensorPromotion::B256, ..fields },
            )
        }
    }

    /// Extents and strides of the last three modes, of which an array may lack the first.
    pub fn place(array: &Array) -> ([usize; 3], Place) {
        let (mut shape, mut strides) = ([1; 3], [0; 3]);
        for (i, (&extent, &stride)) in array.shape.iter().zip(&array.strides).rev().take(3).enumerate() {
            (shape[2 - i], strides[2 - i]) = (extent, stride);
        }
        let [batch, row, column] = strides;
        (shape, Place { batch, row, column })
    }

    /// The rows of an array, if a tensor map takes them.
    pub fn taken(array: &Array) -> Option<Rows> {
        let ([batches, rows, columns], at) = place(array);
        let bytes = array.dtype.bytes();
        let fits = |count: usize, stride: i64, least: usize| {
            count <= 1 || stride >= least as i64 && (stride as usize * bytes).is_multiple_of(ALIGN)
        };
        let is_taken = array.address.is_multiple_of(ALIGN as u64)
            && columns > 0
            && (columns == 1 || at.column == 1)
            && fits(rows, at.row, columns)
            && fits(batches, at.batch, columns);
        // The stride of a mode of one element is not used, but maps must accept it.
        let whole = (columns * bytes).next_multiple_of(ALIGN) / bytes;
        let or = |count: usize, stride: i64, other: usize| if count > 1 { stride } else { other as i64 };
        is_taken.then(|| Rows {
            address: array.address,
            shape: [batches, rows, columns].map(|extent| extent as u32),
            strides: [or(batches, at.batch, whole), or(rows, at.row, whole)],
        })
    }

    /// Elements of a row of the aligned form of an array.
    fn padded(array: &Array) -> usize {
        let (([_, _, columns], _), vector) = (place(array), ALIGN / array.dtype.bytes());
        columns.max(1).next_multiple_of(vector)
    }

    /// An operand of TMA: matrices, or padded groups of rows that become one matrix.
    #[derive(Clone, Copy)]
    pub enum Source<'a> {
        /// (n, k) or (batch, n, k).
        Matrices(&'a Array),
        /// (m, k) or (group, rows, k).
        Groups(&'a Array),
        /// Matrices whose rows must consist of whole vectors of 16 bytes, without TMA.
        Vectors(&'a Array),
    }

    impl<'a> Source<'a> {
        fn array(self) -> &'a Array {
            let (Self::Matrices(array) | Self::Groups(array) | Self::Vectors(array)) = self;
            array
        }

        /// The rows as they are, if a tensor map takes them.
        fn taken(self) -> Option<Rows> {
            let rows = taken(self.array())?;
            match self {
                Self::Matrices(_) => Some(rows),
                Self::Groups(_) => rows.joined(),
                Self::Vectors(of) => {
                    (rows.shape[2] as usize * of.dtype.bytes()).is_multiple_of(ALIGN).then_some(rows)
                }
            }
        }

        /// Elements of a row for kernels: with zeros if the array is copied.
        pub fn columns(self) -> usize {
            let array = self.array();
            if self.taken().is_some() { place(array).0[2] } else { padded(array) }
        }

        /// Bytes of the aligned form, if no tensor map takes the array.
        pub fn bytes(self) -> usize {
            if self.taken().is_some() {
                return 0;
            }
            let (array, ([batches, rows, _], _)) = (self.array(), place(self.array()));
            (batches * rows * padded(array) * array.dtype.bytes()).next_multiple_of(256)
        }

        /// Refuses extents that kernels cannot count.
        fn check(self, operation: &'static str) -> Result<()> {
            let (array, ([batches, rows, columns], _)) = (self.array(), place(self.array()));
            let all = if matches!(self, Self::Groups(_)) { batches.saturating_mul(rows) } else { rows };
            if batches.max(all).max(columns) > MOST {
                let detail = format!(
                    "an operand has shape {:?}, and may have {MOST} rows, elements of a row and matrices; divide it",
                    array.shape
                );
                return Err(Error::Unsupported { operation, detail });
            }
            // A grid has 65,535 blocks along y, and a thread counts elements in 32 bits.
            let most = (u32::MAX - THREADS) as usize;
            if self.taken().is_none() && (batches > 65_535 || rows.saturating_mul(padded(array)) > most) {
                let detail = format!(
                    "an operand has shape {:?} and strides {:?}, and rows that do not begin at multiples of 16 bytes are \
                     copied: of {most} elements in 65535 matrices at most; align its rows, or divide it",
                    array.shape, array.strides
                );
                return Err(Error::Unsupported { operation, detail });
            }
            Ok(())
        }

        /// The rows of the operand, which is copied to `work` if no tensor map takes it; `work` is
        /// moved past the copy.
        ///
        /// # Safety
        /// The array is in memory of the stream's device, and `work` has room for its aligned form.
        pub unsafe fn rows(self, operation: &'static str, stream: &Stream, work: &mut u64) -> Result<Rows> {
            self.check(operation)?;
            if let Some(rows) = self.taken() {
                return Ok(rows);
            }
            let array = self.array();
            let ([batches, rows, columns], of_x) = place(array);
            let (row, address) = (padded(array), *work);
            *work += self.bytes() as u64;
            let [batches, rows, columns, row] = [batches, rows, columns, row].map(|extent| extent as u32);
            let grid = Grid::new(((rows * row).div_ceil(THREADS), batches), THREADS);
            if rows > 0 && batches > 0 {
                let module = stream.device().load(&crate::PTX)?;
                macro_rules! copy {
                    ($kernel:ident) => {{
                        let (x, y) = (Global::from_address(array.address), GlobalMut::from_address(address));
                        // SAFETY: the array's elements are readable, and the workspace has room.
                        unsafe {
                            module.launch_on(stream, &$kernel, grid, (x, y, rows, columns, row, of_x))?
                        };
                    }};
                }
                match array.dtype.bytes() {
                    1 => copy!(align_8),
                    2 => copy!(align_16),
                    _ => copy!(align_32),
                }
            }
            let strides = [i64::from(rows) * i64::from(row), row.into()];
            let copied = Rows { address, shape: [batches, rows, row], strides };
            Ok(if matches!(self, Self::Groups(_)) { copied.joined().unwrap_or(copied) } else { copied })
        }
    }

    /// The rows of operands, and memory for the copies of operands that no tensor map takes, to be
    /// held until everything is launched.
    ///
    /// # Safety
    /// The arrays are in memory of the stream's device until the work is complete.
    pub unsafe fn aligned<'s>(
        operation: &'static str,
        stream: &'s Stream,
        operands: &[Source<'_>],
    ) -> Result<(Option<Workspace<'s>>, Vec<Rows>)> {
        operands.iter().try_for_each(|operand| operand.check(operation))?;
        let work = Workspace::new(stream, operands.iter().map(|operand| operand.bytes()).sum())?;
        let mut next = work.as_ref().map_or(0, Workspace::address);
        let mut rows = Vec::with_capacity(operands.len());
        for operand in operands {
            // SAFETY: the arrays are on the stream's device, and the workspace has room for all.
            rows.push(unsafe { operand.rows(operation, stream, &mut next)? });
        }
        Ok((work, rows))
    }

    /// [`aligned`] of two operands.
    ///
    /// # Safety
    /// Same contract as [`aligned`].
    pub unsafe fn both_aligned<'s>(
        operation: &'static str,
        stream: &'s Stream,
        operands: [Source<'_>; 2],
    ) -> Result<(Option<Workspace<'s>>, [Rows; 2])> {
        // SAFETY: the arrays are on the stream's device until the work is complete.
        let (work, rows) = unsafe { aligned(operation, stream, &operands)? };
        Ok((work, [rows[0], rows[1]]))
    }

    /// Whether the rows of an array are contiguous, and begin and end at multiples of 16 bytes.
    pub fn is_aligned(c: &Array) -> bool {
        let ([groups, rows, columns], at) = place(c);
        let whole = |elements: i64| (elements * c.dtype.bytes() as i64) % 16 == 0;
        c.address.is_multiple_of(16)
            && at.column == 1
            && whole(columns as i64)
            && (rows == 1 || whole(at.row))
            && (groups == 1 || whole(at.batch))
    }

    /// The groups of the rows of `a`, (m, k) or padded (groups, rows, k), by their ends.
    pub fn groups(a: &Array, ends: Option<&Array>) -> Ends {
        let Some(ends) = ends else { return Ends { address: 0, apart: 0 } };
        let apart = if a.shape.len() == 3 { a.shape[1] as u32 } else { 0 };
        Ends { address: ends.address, apart }
    }

    /// The shape of the products of `a`, (m, k) or padded (groups, rows, k), and `b`, (groups, n,
    /// k), or (n, k) without ends.
    pub fn shape_of_products(
        operation: &'static str,
        [a, b]: [&ArrayType; 2],
        ends: Option<&ArrayType>,
    ) -> Result<Vec<usize>> {
        let mismatch = |detail| Err(Error::ShapeMismatch { operation, detail });
        let (groups, n, k) = match (&b.shape[..], ends) {
            (&[groups, n, k], Some(_)) => (groups, n, k),
            (&[n, k], None) => (1, n, k),
            (shape, Some(_)) => {
                return mismatch(format!("b has shape {shape:?}, and must be (groups, n, k)"));
            }
            (shape, None) => {
                return mismatch(format!("b has shape {shape:?}, and must be (n, k) without ends"));
            }
        };
        let fits = match (&a.shape[..], ends) {
            (&[_, of_a], _) => of_a == k,
            (&[of_groups, _, of_a], Some(_)) => of_groups == groups && of_a == k,
            _ => false,
        };
        if !fits {
            return mismatch(format!(
                "a has shape {:?}, and must be (m, {k}), or ({groups}, rows, {k}) for padded groups",
                a.shape
            ));
        }
        if let Some(ends) = ends
            && ends.shape != [groups]
        {
            return mismatch(format!("ends have shape {:?}, and must have [{groups}]", ends.shape));
        }
        let mut shape = a.shape.clone();
        *shape.last_mut().expect("checked: it has modes") = n;
        Ok(shape)
    }

    /// The ends of groups: their address, and the rows of a padded group.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Ends {
        pub address: u64,
        pub apart: u32,
    }

    impl Ends {
        /// The kernel's parameter, of `count` groups with `rows` rows in all.
        pub fn groups(self, count: u32, rows: u32) -> Groups {
            if self.address == 0 {
                return Groups::one(rows);
            }
            Groups { ends: Global::from_address(self.address), count, rows, apart: self.apart }
        }
    }

    /// A result: the address, the strides of groups, rows and columns, the columns, and whether
    /// vectors are stored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub struct Results {
        address: u64,
        place: Place,
        columns: u32,
        aligned: bool,
    }

    impl Results {
        /// The rows of a matrix, (m, n), or of padded groups, (group, rows, n).
        pub fn of(c: &Array) -> Self {
            let ([groups, rows, columns], at) = place(c);
            // From the end of a group's rows to the next group.
            let past = if groups == 1 { 0 } else { at.batch - rows as i64 * at.row };
            let place = Place { batch: past, ..at };
            Self { address: c.address, place, columns: columns as u32, aligned: is_aligned(c) }
        }

        /// The kernel's parameters: the tensor map of all `rows` rows, if they are aligned and
        /// have one stride, and the rest.
        pub fn target<O: Boxed + TmaElement>(
            self,
            stream: &Stream,
            rows: u32,
        ) -> Result<(Mapped, Target<O>)> {
            let Self { address, place: Place { batch, row, .. }, columns, aligned } = self;
            let map = match aligned && batch == 0 && (rows == 1 || row >= i64::from(columns)) {
                true => {
                    let row = if rows == 1 { i64::from(columns.next_multiple_of(8)) } else { row };
                    let shape = IntTuple::flat(&[rows.into(), columns.into()]);
                    let tensor = Layout::new(shape, IntTuple::flat(&[row, 1]));
                    let fields = StoreC::<O>::TILE.tensor_map(O::ELEMENT, address, &tensor);
                    Some(TensorMap::new(stream.device(), &fields.map_err(Error::TensorOfTile)?)?)
                }
                false => None,
            };
            let tensor = u32::from(map.is_some());
            Ok((Mapped(map), Target { tensor, ..self.plain().1 }))
        }

        /// The kernel's parameters without a tensor map.
        pub fn plain<O: Element>(self) -> (Mapped, Target<O>) {
            let Self { address, place: Place { batch, row, column }, columns, aligned } = self;
            let (c, aligned) = (GlobalMut::from_address(address), u32::from(aligned));
            (Mapped(None), Target { c, group: batch, row, column, columns, aligned, tensor: 0 })
        }
    }

    impl Results {
        /// The kernel's parameter of matrices of `rows` rows, without a tensor map: `group` is the
        /// stride between them.
        pub fn matrices<O: Element>(self, rows: u32) -> Target<O> {
            let (_, target) = self.plain();
            Target { group: target.group + i64::from(rows) * target.row, ..target }
        }
    }

    /// The tensor map of a result, if it has one.
    pub struct Mapped(Option<TensorMap>);

    impl Mapped {
        /// The kernel's parameter; read only if there is a map.
        pub fn pass(&self) -> Map {
            self.0.as_ref().map_or(Map::from_words([0; 16]), KernelArg::pass)
        }
    }

    /// The rows of each group: of `a`, flat.
    pub fn groups_of(a: &ArrayType, ends: &[f64]) -> Vec<Range<usize>> {
        let padded = (a.shape.len() == 3).then(|| a.shape[1]);
        let of = |g: usize| match padded {
            Some(rows) => g * rows..g * rows + ends[g] as usize,
            None => (if g == 0 { 0 } else { ends[g - 1] as usize })..ends[g] as usize,
        };
        (0..ends.len()).map(of).collect()
    }

    /// Stacked matrices, (groups * n, k), as (groups, n, k).
    pub fn stacked<T: Element>(
        operation: &'static str,
        name: &str,
        b: &Matrix<'_, T>,
        groups: usize,
    ) -> Result<Array> {
        let b = Array::of(operation, b)?;
        let (&[rows, k], &[row, column]) = (&b.shape[..], &b.strides[..]) else {
            unreachable!("a matrix has two modes")
        };
        if groups == 0 || rows % groups != 0 {
            let detail =
                format!("{name} has {rows} rows for {groups} groups, and must have as many for each");
            return Err(Error::ShapeMismatch { operation, detail });
        }
        let n = rows / groups;
        Ok(Array { shape: vec![groups, n, k], strides: vec![n as i64 * row, row, column], ..b })
    }

    /// Stacked results of groups, (groups * m, n), as (groups, m, n).
    pub fn stacked_results<T: Element>(
        operation: &'static str,
        name: &str,
        c: &mut MatrixMut<'_, T>,
        groups: usize,
        m: usize,
    ) -> Result<Array> {
        let c = Array::of_mut(operation, c)?;
        let (&[rows, n], &[row, column]) = (&c.shape[..], &c.strides[..]) else {
            unreachable!("a matrix has two modes")
        };
        if rows != groups * m {
            let detail = format!("{name} has {rows} rows, and must have {m} for each of {groups} groups");
            return Err(Error::ShapeMismatch { operation, detail });
        }
        Ok(Array { shape: vec![groups, m, n], strides: vec![m as i64 * row, row, column], ..c })
    }

    /// The groups of a builder: contiguous ones by their ends, or padded ones by their row counts.
    #[derive(Clone, Debug)]
    pub struct RowGroups<'a> {
        /// The operand `ends` of the declaration: a row with the ends or the counts.
        pub ends: Matrix<'a, i32>,
        /// Whether each group has the same number of rows, of which it uses a count.
        pub is_padded: bool,
    }

    impl RowGroups<'_> {
        /// The number of groups.
        pub fn count(&self) -> usize {
            self.ends.cols()
        }

        /// An operand with a row for each row of the groups: (m, k), or (groups, rows, k) of padded
        /// groups.
        pub fn rows<T: Element>(
            &self,
            operation: &'static str,
            name: &str,
            a: &Matrix<'_, T>,
        ) -> Result<Array> {
            if self.is_padded { stacked(operation, name, a, self.count()) } else { Array::of(operation, a) }
        }

        /// A result with a row for each of the `m` rows of all groups.
        pub fn results<T: Element>(
            &self,
            operation: &'static str,
            name: &str,
            c: &mut MatrixMut<'_, T>,
            m: usize,
        ) -> Result<Array> {
            if self.is_padded {
                stacked_results(operation, name, c, self.count(), m / self.count().max(1))
            } else {
                Array::of_mut(operation, c)
            }
        }
    }
}
