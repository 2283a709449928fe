//! Tensors in global memory: extents and strides known at run time, tiles known at compile time.

use super::at::{MAX_PLACES, PlaceKind, PlaceKinds, Sliceable};
use super::static_layout::{IdentityOf, StaticLayout};
use super::tables::{Digits, Offsets, SliceDigits, run};
use super::{Access, AccessMut, Engine, Length, Partitioned, Tensor, refuse};
use crate::arch::{Word, simulator_assert};
use crate::layout::{Layout, Text};
use crate::memory::{GlobalPackedMut, GlobalPointer, GlobalPointerMut, Storable};
use crate::number::Scalar;
use core::marker::PhantomData;

/// A matrix in global memory as a kernel receives it: a pointer, extents and strides in elements.
///
/// Pointers to elements smaller than a byte are [`GlobalPacked`](crate::memory::GlobalPacked) and
/// [`GlobalPackedMut`]. They are indexed and read like any others. A single one is written by
/// reading its byte and writing it back, so that the byte has to belong to the thread
/// ([`Tensor::set_shared_byte`] shares it); copies move whole bytes, and if the edge of the matrix
/// is within a byte, the elements beyond it keep their values.
///
/// ```
/// use moye_device::memory::{Global, GlobalPacked};
/// use moye_device::number::S4;
/// use moye_device::tensor::{Aligned, Matrix, UnitStride};
/// use moye_device::{layout, static_layout};
///
/// static_layout! { Tile = layout!((2, 8)); }
/// // Two rows of five numbers of 4 bits, rows 4 bytes apart: 1, 2, 3, 4, 5 and -1, -2, -3, -4, -5. No thread runs here, so the
/// // tensor is made and not read; `tests/fixtures/kernels-tiled/packed.rs` has kernels that do.
/// fn tile(bytes: Global<u8>) -> usize {
///     let matrix = Matrix::new(GlobalPacked::<S4>::new(bytes), (2, 5), Aligned::<_, 4>(UnitStride::<1>(8)));
///     matrix.local_tile::<Tile, _>((0, 0)).layout().size() as usize
/// }
/// assert_eq!(tile(Global::from_address(0x1000)), 16);
/// ```
#[derive(Clone, Copy)]
pub struct Matrix<P, S> {
    pointer: P,
    shape: [u32; 2],
    strides: S,
}

/// A tile of a tensor in global memory, or a thread's part of one.
pub type GlobalTensor<P, S, L, R = ()> = Tensor<Strided<P, S, R>, L>;

/// The strides of a matrix, and their compile-time part.
pub trait Strides: Copy {
    /// The contiguous mode, if one is known.
    const UNIT: Option<usize>;

    /// Bytes of which the base address and every other stride are known to be multiples; 0 where
    /// nothing is known, of elements smaller than a byte not even that a row starts at one.
    const ALIGN: usize;

    /// Whether every tile is in bounds, so that no predicates are needed.
    const WHOLE: bool = false;

    /// The stride along `axis`, in elements.
    fn along(self, axis: usize) -> i64;
}

/// Strides of which nothing is known.
#[derive(Clone, Copy)]
pub struct Dense(pub [i64; 2]);

impl Strides for Dense {
    const UNIT: Option<usize> = None;
    const ALIGN: usize = 0;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        self.0[axis]
    }
}

/// Stride 1 along `AXIS`; the field is the other axis's, the leading dimension.
#[derive(Clone, Copy)]
pub struct UnitStride<const AXIS: usize>(pub i64);

impl<const AXIS: usize> Strides for UnitStride<AXIS> {
    const UNIT: Option<usize> = Some(AXIS);
    const ALIGN: usize = 0;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        if axis == AXIS { 1 } else { self.0 }
    }
}

/// Strides with the promise that the base address and every stride other than 1 are multiples of
/// `BYTES` bytes, so that accesses may be that wide. The host keeps the promise when it chooses the
/// kernel; breaking it is a misaligned access, which the GPU and the simulator both report.
#[derive(Clone, Copy)]
pub struct Aligned<S, const BYTES: usize>(pub S);

impl<S: Strides, const BYTES: usize> Strides for Aligned<S, BYTES> {
    const UNIT: Option<usize> = S::UNIT;
    const WHOLE: bool = S::WHOLE;
    const ALIGN: usize = {
        if !BYTES.is_power_of_two() {
            let mut text = Text::<200>::new();
            text.str("Aligned: the alignment is a power of two of bytes, 4, 8 or 16 say; this is ");
            text.int(BYTES as i64);
            panic!("{}", text.as_str());
        }
        BYTES
    };

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        self.0.along(axis)
    }
}

/// Strides with the promise that every tile is in bounds: the extents are multiples of the tile's.
/// No access is predicated then. The host keeps the promise when it chooses the kernel; a violation
/// is an out of bounds access, which the simulator reports.
#[derive(Clone, Copy)]
pub struct WholeTiles<S>(pub S);

impl<S: Strides> Strides for WholeTiles<S> {
    const UNIT: Option<usize> = S::UNIT;
    const ALIGN: usize = S::ALIGN;
    const WHOLE: bool = true;

    #[inline(always)]
    fn along(self, axis: usize) -> i64 {
        self.0.along(axis)
    }
}

impl<P: GlobalPointer, S: Strides> Matrix<P, S> {
    /// The matrix of `shape` elements at `pointer`.
    ///
    /// Coordinates are 32-bit signed numbers: each extent, rounded up to a whole tile, must be
    /// below 2^31. Otherwise the simulator ends the launch with a fault; a GPU would neither read
    /// nor write such a matrix.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn new(pointer: P, shape: (u32, u32), strides: S) -> Self {
        simulator_assert!(
            shape.0.max(shape.1) < 1 << 31,
            "Matrix::new: the extents are {} and {}, and coordinates are below 2^31; make a matrix of each part",
            shape.0,
            shape.1
        );
        Self { pointer, shape: [shape.0, shape.1], strides }
    }

    /// The matrix of the first `columns` columns, of which this one has as many or more.
    #[inline(always)]
    #[must_use]
    pub const fn first_columns(self, columns: u32) -> Self {
        Self { shape: [self.shape[0], columns], ..self }
    }

    /// The extents.
    #[inline(always)]
    #[must_use]
    pub const fn shape(&self) -> (u32, u32) {
        (self.shape[0], self.shape[1])
    }

    /// The tile with coordinate `at`, tiles being of the shape of `T`, CuTe's `local_tile`.
    ///
    /// With two numbers the result is `(BLK_0, BLK_1)`. With [`All`] in one place it is
    /// `(BLK_0, BLK_1, rest)`: the tiles along that axis, of which [`Tensor::tile`] takes one.
    /// Tiles may hang over the matrix's edge; the elements outside do not exist.
    ///
    /// MoYe.jl's `@tile`.
    #[doc(alias = "@tile")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_tile<T: StaticLayout, C: TileCoordinate>(
        self,
        at: C,
    ) -> GlobalTensor<P, S, IdentityOf<T>, C::Rest> {
        let (m, k) = at.origin();
        let extents = const { extents_of_tile(T::LAYOUT) };
        check_origin(m, extents[0]);
        check_origin(k, extents[1]);
        let mut engine = Strided {
            pointer: self.pointer,
            left: [self.shape[0] as i32, self.shape[1] as i32],
            strides: self.strides,
            rest: C::rest(self.shape, extents),
        };
        engine.advance([(m * extents[0]) as i32, (k * extents[1]) as i32]);
        Tensor::from_engine(engine)
    }
}

/// In the simulator, the first coordinate of a tile must be below 2^31.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn check_origin(tile: u32, extent: u32) {
    simulator_assert!(
        u64::from(tile) * u64::from(extent) < 1 << 31,
        "tile {tile} of {extent} begins at {}, and coordinates are below 2^31; make a matrix of each part",
        u64::from(tile) * u64::from(extent)
    );
}

/// A tile of a matrix has two modes, or it does not compile.
const fn extents_of_tile(tile: Layout) -> [u32; 2] {
    if tile.rank() != 2 {
        let mut text = Text::<400>::new();
        text.str("local_tile: a tile of a matrix has two modes, rows and columns, and ");
        text.layout(&tile);
        text.str(" has ");
        text.int(tile.rank() as i64);
        text.str(": a row is (1, n), a column (m, 1); of a batch take the matrix first");
        refuse(&text);
    }
    [tile.extent(0) as u32, tile.extent(1) as u32]
}

/// Stands for every tile along an axis, CuTe's `_`.
#[derive(Clone, Copy, Debug)]
pub struct All;

/// A tile's coordinate: two numbers, or a number and [`All`].
pub trait TileCoordinate {
    /// The remaining choices.
    type Rest: Copy;

    /// The coordinate of the first tile.
    fn origin(&self) -> (u32, u32);

    /// The tiles left to choose from, in a matrix of this shape.
    fn rest(shape: [u32; 2], tile: [u32; 2]) -> Self::Rest;
}

impl TileCoordinate for (u32, u32) {
    type Rest = ();

    #[inline(always)]
    fn origin(&self) -> (u32, u32) {
        *self
    }

    #[inline(always)]
    fn rest(_: [u32; 2], _: [u32; 2]) {}
}

impl TileCoordinate for (u32, All) {
    type Rest = Along<1>;

    #[inline(always)]
    fn origin(&self) -> (u32, u32) {
        (self.0, 0)
    }

    #[inline(always)]
    fn rest(shape: [u32; 2], tile: [u32; 2]) -> Along<1> {
        Along { tiles: shape[1].div_ceil(tile[1]), extent: tile[1] }
    }
}

impl TileCoordinate for (All, u32) {
    type Rest = Along<0>;

    #[inline(always)]
    fn origin(&self) -> (u32, u32) {
        (0, self.1)
    }

    #[inline(always)]
    fn rest(shape: [u32; 2], tile: [u32; 2]) -> Along<0> {
        Along { tiles: shape[0].div_ceil(tile[0]), extent: tile[0] }
    }
}

/// The tiles along `AXIS` that are left to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Along<const AXIS: usize> {
    tiles: u32,
    extent: u32,
}

/// The engine of global memory: an address, the remaining extents of the matrix from there on, and
/// the strides.
#[derive(Clone, Copy)]
pub struct Strided<P, S, R = ()> {
    pointer: P,
    /// Extents counted from the origin: an element exists where each coordinate is below.
    left: [i32; 2],
    strides: S,
    rest: R,
}

/// The mode of tiles that a tile's coordinate left open: none, or [`Along`] a mode.
pub trait Rest: Copy {
    /// How many there are.
    #[doc(hidden)]
    const OPEN: usize;

    /// The offset of tile `index` from the origin.
    #[doc(hidden)]
    fn step(self, index: u32) -> [i32; 2];
}

impl Rest for () {
    const OPEN: usize = 0;

    #[inline(always)]
    fn step(self, _: u32) -> [i32; 2] {
        [0; 2]
    }
}

impl<const AXIS: usize> Rest for Along<AXIS> {
    const OPEN: usize = 1;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn step(self, index: u32) -> [i32; 2] {
        check_origin(index, self.extent);
        let mut by = [0; 2];
        by[AXIS] = (index * self.extent) as i32;
        by
    }
}

impl<P: GlobalPointer, S: Strides, R> Strided<P, S, R> {
    #[inline(always)]
    fn without_rest(&self) -> Strided<P, S> {
        Strided { pointer: self.pointer, left: self.left, strides: self.strides, rest: () }
    }

    #[inline(always)]
    fn advance(&mut self, by: [i32; 2]) {
        let offset = by[0] as i64 * self.strides.along(0) + by[1] as i64 * self.strides.along(1);
        self.pointer = self.pointer.offset(offset);
        self.left = [self.left[0] - by[0], self.left[1] - by[1]];
    }

    #[inline(always)]
    fn coordinate<L: StaticLayout>(index: usize) -> [i32; 2] {
        [Offsets::<L, 0>::TABLE[index], Offsets::<L, 1>::TABLE[index]]
    }

    /// The pointer to an element.
    #[inline(always)]
    fn pointer_to<L: StaticLayout>(&self, index: usize) -> P {
        let [i, j] = Self::coordinate::<L>(index);
        self.pointer.offset(i as i64 * self.strides.along(0) + j as i64 * self.strides.along(1))
    }

    /// The address of an element, in bytes.
    #[inline(always)]
    pub(crate) fn address<L: StaticLayout>(&self, index: usize) -> u64 {
        self.pointer_to::<L>(index).address()
    }

    /// The number of the `count` elements from `index` on that are in bounds; they are a run along
    /// the contiguous mode, or a single one.
    #[inline(always)]
    pub(crate) fn existing<L: StaticLayout>(&self, index: usize, count: usize) -> u32 {
        if S::WHOLE {
            return count as u32;
        }
        let c = Self::coordinate::<L>(index);
        let unit = S::UNIT.unwrap_or(0);
        let across = c[1 - unit] < self.left[1 - unit];
        let run = (self.left[unit] - c[unit]).clamp(0, count as i32) as u32;
        if across { run } else { 0 }
    }
}

impl<P: GlobalPointer, S: Strides, R> Engine for Strided<P, S, R> {
    type Element = P::Element;

    #[inline(always)]
    fn shift<T: StaticLayout>(&mut self, index: u32) {
        self.advance([Digits::<T, 0>::offset(index), Digits::<T, 1>::offset(index)]);
    }
}

impl<P: GlobalPointer, S: Strides, R: Rest> Sliceable for Strided<P, S, R> {
    type Slice<'a, K: PlaceKinds>
        = Strided<P, S, <K::Last as PlaceKind>::Rest<R>>
    where
        Self: 'a;

    const OPEN: usize = R::OPEN;

    #[inline(always)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self::Slice<'_, K> {
        let mut whole = self.without_rest();
        whole.advance([SliceDigits::<L, K, 0>::offset(places), SliceDigits::<L, K, 1>::offset(places)]);
        if const { R::OPEN == 1 && K::Last::FIXED } {
            whole.advance(self.rest.step(places[const { K::COUNT - 1 }]));
        }
        let Strided { pointer, left, strides, .. } = whole;
        Strided { pointer, left, strides, rest: K::Last::rest(self.rest) }
    }
}

/// The runs of global memory.
pub struct GlobalRun<T, S, L>(PhantomData<(T, S, L)>);

impl<T: Storable, S: Strides, L: StaticLayout> Length for GlobalRun<T, S, L> {
    const LENGTH: usize = match S::UNIT {
        Some(axis) if S::ALIGN as i64 * 8 > T::BITS => {
            run(L::LAYOUT, axis, 2, L::ORIGIN, (S::ALIGN as i64 * 8 / T::BITS) as usize)
        }
        _ => 1,
    };
}

impl<P: GlobalPointer, S: Strides, R> Partitioned for Strided<P, S, R> {}

/// The elements that a word holds.
const fn per_word<W: Word, T: Storable>() -> usize {
    size_of::<W>() * 8 / T::BITS as usize
}

// SAFETY: `run` looks for groups that are consecutive along the axis of stride 1 and start at
// multiples of their length there, origin included; the promise of `Aligned` covers the address and
// the other stride.
unsafe impl<P: GlobalPointer, S: Strides, R> Access for Strided<P, S, R> {
    type Run<L: StaticLayout> = GlobalRun<P::Element, S, L>;

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load<L: StaticLayout, W: Word>(&self, index: usize) -> W {
        let count = const { per_word::<W, P::Element>() };
        let pointer = self.pointer_to::<L>(index);
        let existing = self.existing::<L>(index, count);
        if count == 1 {
            // SAFETY: the caller's contract; an element that does not exist is not read.
            return unsafe { W::load_global_if(existing == 1, pointer.address()) };
        }
        if existing == count as u32 {
            // SAFETY: all of the run is in bounds, and `Run` says that it is aligned.
            return unsafe { W::load_global(pointer.address()) };
        }
        // SAFETY: the edge of the matrix is within the word; out of bounds elements are not read.
        unsafe { pointer.read_part(existing) }
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn load_one<L: StaticLayout>(&self, index: usize) -> P::Element {
        let valid = self.exists::<L>(index);
        // SAFETY: the caller's contract; an element that does not exist is not read.
        unsafe { self.pointer_to::<L>(index).read_if(valid) }
    }

    #[inline(always)]
    fn exists<L: StaticLayout>(&self, index: usize) -> bool {
        self.existing::<L>(index, 1) == 1
    }
}

// SAFETY: as for `Access`.
unsafe impl<P: GlobalPointerMut, S: Strides, R> AccessMut for Strided<P, S, R> {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store<L: StaticLayout, W: Word>(&mut self, index: usize, word: W) {
        let count = const { per_word::<W, P::Element>() };
        let pointer = self.pointer_to::<L>(index);
        let existing = self.existing::<L>(index, count);
        if count == 1 {
            // SAFETY: the caller's contract; an element that does not exist is not written.
            return unsafe { W::store_global_if(existing == 1, pointer.address(), word) };
        }
        if existing == count as u32 {
            // SAFETY: all of the run is in bounds, and `Run` says that it is aligned.
            return unsafe { W::store_global(pointer.address(), word) };
        }
        // SAFETY: the edge of the matrix is within the word; out of bounds elements are not
        // written.
        unsafe { pointer.write_part(existing, word) };
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn store_one<L: StaticLayout>(&mut self, index: usize, value: P::Element) {
        let valid = self.exists::<L>(index);
        // SAFETY: the caller's contract; an element that does not exist is not written.
        unsafe { self.pointer_to::<L>(index).write_if(valid, value) };
    }
}

impl<T: Scalar + Storable, S: Strides, R, L: StaticLayout> GlobalTensor<GlobalPackedMut<T>, S, L, R> {
    /// Writes one element smaller than a byte where other threads may write others of its byte, by
    /// two atomic operations; one that does not exist is left out. [`set`](Tensor::set) takes one
    /// load and one store, and wants the byte for itself.
    ///
    /// # Safety
    /// The matrix may be written, up to the multiple of 4 bytes around it; the rest is
    /// [`GlobalPackedMut::write_shared_byte`]'s. `index` is below [`Tensor::SIZE`].
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn set_shared_byte(&mut self, index: usize, value: T) {
        if self.engine.exists::<L>(index) {
            // SAFETY: the word around the element may be read and written.
            unsafe { self.engine.pointer_to::<L>(index).write_shared_byte(0, value) };
        }
    }
}

impl<P: GlobalPointer, S: Strides, R, L: StaticLayout> GlobalTensor<P, S, L, R> {
    /// The same elements with the promise that all of them exist, so that nothing is checked; see
    /// [`WholeTiles`].
    #[inline(always)]
    pub fn whole(self) -> GlobalTensor<P, WholeTiles<S>, L, R> {
        let Strided { pointer, left, strides, rest } = self.engine;
        Tensor::from_engine(Strided { pointer, left, strides: WholeTiles(strides), rest })
    }
}

impl<P: GlobalPointer, S: Strides, const AXIS: usize, L: StaticLayout> GlobalTensor<P, S, L, Along<AXIS>> {
    /// How many tiles there are along the axis that was left open.
    #[inline(always)]
    pub fn tiles(&self) -> u32 {
        self.engine.rest.tiles
    }

    /// Tile `index` along the axis that was left open: `t_a_g_a(_, _, k)`.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn tile(&self, index: u32) -> GlobalTensor<P, S, L> {
        let mut engine = self.engine.without_rest();
        engine.advance(self.engine.rest.step(index));
        Tensor::from_engine(engine)
    }
}
