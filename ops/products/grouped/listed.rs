//! Lists of products on the host: their kernels, their tables, and [`GroupedList`].

use super::kernel::{CopyA, CopyB, Grouped, Wide};
use super::list::{List, Listed, Loop, MAP, WORDS, grouped_list_bf16, grouped_list_f16};
use crate::launches;
use crate::operand::{self, Place, Rows, ScalesAt};
use half::{bf16, f16};
use moye_device::atom::tma::{TmaElement, TmaTile};
use moye_device::collective::Mainloop as _;
use moye_device::kernel::Kernel;
use moye_device::memory::TensorMap as Map;
use moye_runtime::operation::{Array, Dtype, check_device};
use moye_runtime::{
    Buffer, Device, Element, Error, Grid, KernelArg, Matrix, MatrixMut, Result, Stream, TensorElement,
    TensorMap,
};
use std::marker::PhantomData;

/// A kernel of lists: the maps of four products, and the list.
type Entry = Kernel<(Map, Map, Map, Map, Map, Map, Map, Map, List)>;

/// A kernel of lists, and what its launch needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListKernel {
    pub kernel: Entry,
    /// Rows and columns of a block's tile.
    pub tile: (u32, u32),
    pub threads: u32,
    /// The elements of operands for TMA.
    pub element: TensorElement,
    /// The tiles of the tensor maps of A and B.
    pub maps: [&'static TmaTile; 2],
}

const fn of<T: Grouped + TmaElement>(kernel: Entry) -> ListKernel {
    let (m, n, _) = Loop::<T>::TILE;
    ListKernel {
        kernel,
        tile: (m, n),
        threads: Loop::<T>::THREADS,
        element: T::ELEMENT,
        maps: [&CopyA::<T, Wide>::TILE, &CopyB::<T, Wide, 1>::TILE],
    }
}

/// The kernels of bf16 and of f16.
pub(crate) static KERNELS: [ListKernel; 2] = [of::<bf16>(grouped_list_bf16), of::<f16>(grouped_list_f16)];

impl ListKernel {
    /// The tiles of a product with a result of m x n.
    pub fn tiles(&self, [m, n]: [u32; 2]) -> u64 {
        launches::tiles(m.div_ceil(self.tile.0), n, self.tile.1)
    }

    /// The map of the rows of operand 0 or 1.
    pub fn map(&self, stream: &Stream, rows: &Rows, operand: usize) -> Result<TensorMap> {
        rows.map_of(self.element, stream, self.maps[operand])
    }
}

/// Four maps of A and of B as parameters: zeros in place of a map that a call lacks.
pub(crate) fn passed(maps: &[TensorMap]) -> [Map; 8] {
    std::array::from_fn(|i| maps.get(i).map_or(Map::from_words([0; 16]), KernelArg::pass))
}

/// A product of a list: its result, and K as the operands' rows hold it.
pub(crate) fn listed(c: &Array, k: u32, [scale_a, scale_b]: [ScalesAt; 2]) -> Listed {
    let ([_, m, n], Place { row, column, .. }) = operand::place(c);
    let aligned = u32::from(operand::is_aligned(c));
    Listed { c: c.address, row, column, scale_a, scale_b, m: m as u32, n: n as u32, k, aligned }
}

/// Products that become a [`Table`].
pub(crate) struct Products<'s> {
    operation: &'static str,
    stream: &'s Stream,
    kernel: &'static ListKernel,
    words: Vec<u64>,
    tiles: u64,
}

impl<'s> Products<'s> {
    /// No products, for a kernel.
    pub fn new(operation: &'static str, stream: &'s Stream, kernel: &'static ListKernel) -> Self {
        Self { operation, stream, kernel, words: Vec::new(), tiles: 0 }
    }

    /// Adds the product of `a`, (m, k), and the transpose of `b`, (n, k), with their scales.
    pub fn add(&mut self, operands: [Array; 2], scales: [ScalesAt; 2], c: &Array) -> Result<()> {
        let (operation, i) = (self.operation, self.words.len() / WORDS);
        let [a, b] = &operands;
        let (&[m, k], &[n, of_b]) = (&a.shape[..], &b.shape[..]) else { unreachable!("they are matrices") };
        if k != of_b || k == 0 || c.shape != [m, n] {
            let detail = format!(
                "product {i} is of {:?} and {:?} to {:?}, and must be of (m, k) and (n, k) to (m, n), with k of 1 or more",
                a.shape, b.shape, c.shape
            );
            return Err(Error::ShapeMismatch { operation, detail });
        }
        if m.max(n).max(k) > i32::MAX as usize {
            let most = i32::MAX;
            let detail = format!(
                "product {i} is of {:?} and {:?}, and extents are {most} at most; divide it",
                a.shape, b.shape
            );
            return Err(Error::Unsupported { operation, detail });
        }
        let mut words = [0; WORDS];
        let of_c = listed(c, k as u32, scales).words();
        words[2 * MAP..][..of_c.len()].copy_from_slice(&of_c);
        if m > 0 && n > 0 {
            for (operand, (name, array)) in [("a", a), ("b", b)].into_iter().enumerate() {
                let Some(rows) = operand::taken(array) else {
                    let detail = format!(
                        "{name} of product {i} has strides {:?} from address {:#x} on, and K must be contiguous and rows \
                         begin at multiples of 16 bytes; copy it",
                        array.strides, array.address
                    );
                    return Err(Error::Unsupported { operation, detail });
                };
                let map: Map = (&self.kernel.map(self.stream, &rows, operand)?).pass();
                // SAFETY: a tensor map is its 128 bytes, each of which is initialised.
                let map = unsafe { std::mem::transmute::<Map, [u64; MAP]>(map) };
                words[operand * MAP..][..MAP].copy_from_slice(&map);
            }
            self.tiles += self.kernel.tiles([m as u32, n as u32]);
        }
        self.words.extend(words);
        Ok(())
    }

    /// The table in the memory of the stream's device.
    pub fn table(mut self) -> Result<Table> {
        let count = (self.words.len() / WORDS) as u32;
        let tiles = launches::tiles_in_32_bits(self.operation, self.tiles)?;
        let device = self.stream.device();
        let blocks = device.rates().multiprocessors.min(tiles);
        if count == 0 {
            self.words.push(0);
        }
        let words = device.upload(&self.words)?;
        let Self { operation, kernel, .. } = self;
        Ok(Table { operation, device: device.clone(), kernel, words, count, blocks })
    }
}

/// The table of a list in a device's memory.
pub(crate) struct Table {
    operation: &'static str,
    device: Device,
    kernel: &'static ListKernel,
    words: Buffer<u64>,
    count: u32,
    /// Blocks of a launch.
    blocks: u32,
}

impl Table {
    /// The device.
    pub const fn device(&self) -> &Device {
        &self.device
    }

    /// Computes all products on a stream of the same device.
    ///
    /// # Safety
    /// Until the work is complete, the table lives, and no other stream writes the operands, or
    /// reads or writes the results.
    pub unsafe fn run_on(&self, stream: &Stream) -> Result<()> {
        check_device(self.operation, stream, 0, &self.device)?;
        if self.blocks == 0 {
            return Ok(());
        }
        let list = List { table: self.words.address(), count: self.count, ..List::default() };
        let grid = Grid::new(self.blocks, self.kernel.threads).dependent();
        let [a0, b0, a1, b1, a2, b2, a3, b3] = passed(&[]);
        let module = stream.device().load(&crate::PTX)?;
        // SAFETY: the table has the products, whose matrices outlive it; the caller orders other
        // streams.
        unsafe { module.launch_on(stream, &self.kernel.kernel, grid, (a0, b0, a1, b1, a2, b2, a3, b3, list)) }
    }
}

/// The name in messages.
const NAME: &str = "grouped_list";

/// Products `c = a b^T` of matrices anywhere in memory, of different shapes, in one launch.
///
/// The list's table is built once, in the device's memory, and each run computes all products.
///
/// ```
/// use moye::half::bf16;
/// use moye::{Device, Matrix, MatrixMut};
/// use moye_products::grouped::GroupedList;
///
/// let device = Device::sim();
/// let (a, b) = (device.upload(&[bf16::ONE; 3 * 16])?, device.upload(&[bf16::ONE; 2 * 16])?);
/// let (mut first, mut second) = (device.alloc_uninit::<bf16>(6)?, device.alloc_uninit::<bf16>(1)?);
/// let products = [
///     (Matrix::row_major(&a, 3, 16)?, Matrix::row_major(&b, 2, 16)?),
///     (Matrix::row_major(&a, 1, 8)?, Matrix::row_major(&b, 1, 8)?),
/// ];
/// let results = vec![MatrixMut::row_major(&mut first, 3, 2)?, MatrixMut::row_major(&mut second, 1, 1)?];
/// GroupedList::new(&device, &products, results)?.run()?;
/// assert_eq!((first.download()?[5].to_f32(), second.download()?[0].to_f32()), (16.0, 8.0));
/// # Ok::<(), moye::Error>(())
/// ```
#[must_use = "nothing is computed before `run`"]
pub struct GroupedList<'a, T: Element> {
    table: Table,
    matrices: PhantomData<(&'a T, MatrixMut<'a, T>)>,
}

impl<'a, T: Element> GroupedList<'a, T> {
    /// The products of the pairs `(a, b)`, (m, k) and (n, k), to the results of the same index, (m,
    /// n). K is contiguous in `a` and `b`, and their rows begin at multiples of 16 bytes.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] if shapes do not agree or K is 0, [`Error::Unsupported`] for
    /// elements other than f16 and bf16, operands that TMA does not take, and on a GPU other
    /// than sm_90a, [`Error::WrongDevice`] for matrices of another device, and out of memory.
    pub fn new(
        device: &Device,
        products: &[(Matrix<'a, T>, Matrix<'a, T>)],
        mut results: Vec<MatrixMut<'a, T>>,
    ) -> Result<Self> {
        let stream = device.default_stream();
        launches::check_hopper(NAME, &stream)?;
        if products.len() != results.len() {
            let detail = format!("{} products have {} results", products.len(), results.len());
            return Err(Error::ShapeMismatch { operation: NAME, detail });
        }
        let kernel = match Dtype::of::<T>() {
            Some(Dtype::Bf16) => &KERNELS[0],
            Some(Dtype::F16) => &KERNELS[1],
            _ => {
                let detail = format!("elements are {}, and must be f16 or bf16; convert them", T::NAME);
                return Err(Error::Unsupported { operation: NAME, detail });
            }
        };
        let mut list = Products::new(NAME, &stream, kernel);
        for (i, ((a, b), c)) in products.iter().zip(&mut results).enumerate() {
            for (argument, of) in [a.device(), b.device(), c.device()].into_iter().enumerate() {
                check_device(NAME, &stream, 3 * i + argument, of)?;
            }
            let operands = [Array::of(NAME, a)?, Array::of(NAME, b)?];
            list.add(operands, [ScalesAt::default(); 2], &Array::of_mut(NAME, c)?)?;
        }
        Ok(Self { table: list.table()?, matrices: PhantomData })
    }

    /// Computes all products on the default stream.
    ///
    /// # Errors
    /// The errors of [`Device::launch`].
    pub fn run(&self) -> Result<()> {
        // SAFETY: the default stream runs its work in order.
        unsafe { self.run_on(&self.table.device().default_stream()) }
    }

    /// Computes all products on a stream of the same device.
    ///
    /// # Errors
    /// The errors of [`Device::launch`], and [`Error::WrongDevice`] for another device's stream.
    ///
    /// # Safety
    /// Until the work is complete, the list lives, and no other stream writes the operands, or
    /// reads or writes the results.
    pub unsafe fn run_on(&self, stream: &Stream) -> Result<()> {
        // SAFETY: the matrices outlive the list; the caller orders other streams.
        unsafe { self.table.run_on(stream) }
    }
}
