//! Tensors in global memory as a kernel receives them, their slices and their tiles: extents and
//! strides known at run time, tiles known at compile time.

use super::at::{Backwards, Fixed, Kept, MAX_PLACES, PlaceKind, PlaceKinds, Places};
use super::rank::{MAX_RANK, More, Rank, TensorRank, all, by_axis, more_along, others_below};
use super::static_layout::{IdentityOf, StaticLayout};
use super::strided::{GlobalTensor, Strided};
use super::strides::{KeptStrides, Strides};
use super::{Tensor, refuse};
use crate::arch::simulator_assert;
use crate::layout::{Layout, Text};
use crate::memory::GlobalPointer;
use crate::unroll;

/// A tensor in global memory as a kernel receives it: a pointer, extents and strides in elements,
/// of 1 to 5 modes. [`tensor!`](crate::tensor) builds one; the type of its strides, `S`, determines
/// its rank.
///
/// [`at`](Self::at) fixes places of some modes, [`local_tile`](Self::local_tile) selects a tile.
/// For example, the queries of one head of an attention:
///
/// ```
/// use moye_device::memory::Global;
/// use moye_device::{tensor, tile};
///
/// let q = Global::<f32>::from_address(0x1000);
/// let (batches, s, heads, d) = (2u32, 100u32, 8u32, 64u32);
/// let m_q = tensor!(q, (batches, s, heads, d), (s * heads * d, heads * d, d, 1)); // (B, S, H, D)
/// let (batch, head) = (1u32, 5u32);
/// let g_q = tile!(m_q.at((batch, .., head, ..)), (64, 64), (_, 0)); // (BLK_S, BLK_D, s)
/// assert_eq!((g_q.tiles(), g_q.layout().to_string()), (2, "(64,64):(1@0,1@1)".into()));
/// ```
///
/// Pointers to elements smaller than a byte are [`GlobalPacked`](crate::memory::GlobalPacked) and
/// [`GlobalPackedMut`]. They are indexed and read like any others. To write a single element, its
/// byte is read and written back, so the byte must belong to the thread
/// ([`Tensor::set_shared_byte`] shares it). Copies move whole bytes; if the edge of the matrix is
/// within a byte, the elements past it keep their values.
///
/// ```
/// use moye_device::memory::{Global, GlobalPacked};
/// use moye_device::number::S4;
/// use moye_device::tensor::{Aligned, Matrix, UnitStride};
/// use moye_device::{layout, static_layout};
///
/// static_layout! { Tile = layout!((2, 8)); }
/// // Two rows of five elements of 4 bits, rows 4 bytes apart: 1, 2, 3, 4, 5 and -1, -2, -3, -4, -5.
/// // No thread runs here, so the tensor is made and not read;
/// // `tests/fixtures/kernels-tiled/packed.rs` has kernels that read.
/// fn tile(bytes: Global<u8>) -> usize {
///     let matrix = Matrix::new(GlobalPacked::<S4>::new(bytes), (2, 5), Aligned::<_, 4>(UnitStride::<1>(8)));
///     matrix.local_tile::<Tile, _>((0, 0)).layout().size() as usize
/// }
/// assert_eq!(tile(Global::from_address(0x1000)), 16);
/// ```
#[derive(Clone, Copy)]
pub struct GlobalArray<P, S> {
    pointer: P,
    shape: [i32; 2],
    /// The extents of the third and later modes.
    shape_more: More,
    strides: S,
}

/// A [`GlobalArray`] of two modes, rows and columns.
pub type Matrix<P, S> = GlobalArray<P, S>;

impl<P: GlobalPointer, S: Strides> GlobalArray<P, S> {
    /// The tensor of `shape` elements at `pointer`; `shape` is `(m, n)` for a matrix.
    ///
    /// Coordinates are 32-bit signed numbers: each extent, rounded up to a whole tile, must be
    /// below 2^31. Otherwise the simulator ends the launch with a fault; a GPU would neither read
    /// nor write such a tensor.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn new(pointer: P, shape: <S::Rank as TensorRank>::Shape, strides: S) -> Self {
        let [m, n, shape_more @ ..] = S::Rank::numbers(shape, 1);
        let array = Self { pointer, shape: [m, n], shape_more, strides };
        if cfg!(not(target_arch = "nvptx64")) {
            for axis in 0..S::Rank::RANK {
                simulator_assert!(
                    array.extents()[axis] >= 0,
                    "GlobalArray::new: the extents are {:?}, and coordinates are below 2^31; make a tensor of each part",
                    shape
                );
            }
        }
        array
    }

    #[inline(always)]
    const fn extents(&self) -> [i32; MAX_RANK] {
        all(self.shape, self.shape_more)
    }

    /// The extents, `(m, n)` for a matrix.
    #[inline(always)]
    #[must_use]
    pub fn shape(&self) -> <S::Rank as TensorRank>::Shape {
        S::Rank::shape(self.extents())
    }

    /// The tensor at fixed places of some modes: for `(B, S, H, D)`, `at((batch, .., head, ..))` is
    /// `(S, D)`.
    ///
    /// A tuple has one entry for each mode, `..` to keep it. A place must be below the mode's
    /// extent; otherwise the simulator faults, and a GPU would access memory outside the tensor.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at<C: Places>(self, places: C) -> GlobalArray<P, KeptStrides<S, C::Kinds>> {
        const { names_modes(S::Rank::RANK, C::Kinds::COUNT, <C::Kinds as PlaceKinds>::Kept::RANK) };
        let places = places.places();
        let (shape, Self { mut pointer, strides, .. }) = (self.extents(), self);
        unroll!(for axis in 0..(MAX_RANK) {
            if axis < S::Rank::RANK && C::Kinds::FIXED[axis] {
                simulator_assert!(
                    i64::from(places[axis]) < i64::from(shape[axis]),
                    "at: place {} of mode {axis} of a tensor of {:?}",
                    places[axis],
                    S::Rank::shape(shape)
                );
                pointer = pointer.offset(i64::from(places[axis]) * strides.along(axis));
            }
        });
        let modes = const { &KeptStrides::<S, C::Kinds>::MODES };
        let kept = <C::Kinds as PlaceKinds>::Kept::RANK;
        let [m, n, shape_more @ ..] = by_axis!(AXIS => if AXIS < kept { shape[modes[AXIS]] } else { 1 });
        GlobalArray { pointer, shape: [m, n], shape_more, strides: KeptStrides::new(strides) }
    }

    /// Reads the element at a coordinate, `(row, column)` for a matrix; an element out of bounds
    /// reads as zero.
    ///
    /// # Safety
    /// The tensor's memory may be read, and no other thread writes the element meanwhile.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn element(&self, at: <S::Rank as TensorRank>::Shape) -> P::Element {
        let at = S::Rank::numbers(at, 0);
        let inside = S::WHOLE || others_below(at, self.extents(), MAX_RANK);
        let [i, j, more @ ..] = at;
        let mut offset = i as i64 * self.strides.along(0);
        if const { S::Rank::RANK > 1 } {
            offset += j as i64 * self.strides.along(1);
        }
        if const { S::Rank::RANK > 2 } {
            offset += more_along(more, self.strides);
        }
        // SAFETY: the tensor is readable; an element out of bounds is not read.
        unsafe { self.pointer.offset(offset).read_if(inside) }
    }

    /// The tile with coordinate `at` among tiles of the shape of `T`: CuTe's `local_tile`.
    ///
    /// With an integer for each mode the result is `(BLK_0, BLK_1)`. With [`All`] for one mode it
    /// is `(BLK_0, BLK_1, rest)`: the tiles along that axis, from which [`Tensor::at`] selects one.
    /// Tiles may cross each of the tensor's edges; the elements outside are out of bounds.
    ///
    /// MoYe.jl's `@tile`.
    #[doc(alias = "@tile")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_tile<T: StaticLayout, C: TileCoordinate<S::Rank>>(
        self,
        at: C,
    ) -> GlobalTensor<P, S, IdentityOf<T>, C::Rest> {
        self.tile_of(at, const { extents_of_tile(T::LAYOUT, S::Rank::RANK) })
    }

    /// The tile with the layout of coordinates `L`, among tiles with these extents.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn tile_of<L: StaticLayout, C: TileCoordinate<S::Rank>>(
        self,
        at: C,
        extents: [u32; MAX_RANK],
    ) -> GlobalTensor<P, S, L, C::Rest> {
        let (m, k) = at.origin();
        check_origin(m, extents[0]);
        check_origin(k, extents[1]);
        let rest = at.rest(self.shape, self.shape_more, extents);
        let mut engine = Strided::new(self.pointer, self.shape, self.shape_more, self.strides, rest);
        engine.advance([(m * extents[0]) as i32, (k * extents[1]) as i32]);
        if const { S::Rank::RANK > 2 } {
            let more = at.origin_more();
            for axis in 2..S::Rank::RANK {
                check_origin(more[axis - 2], extents[axis]);
            }
            engine
                .advance_more(by_axis!(more S::Rank::RANK, AXIS => (more[AXIS - 2] * extents[AXIS]) as i32));
        }
        Tensor::from_engine(engine)
    }
}

impl<P: GlobalPointer, S: Strides<Rank = Rank<2>>> Matrix<P, S> {
    /// The matrix of the first `columns` columns; this matrix must have at least that many.
    #[inline(always)]
    #[must_use]
    pub const fn first_columns(mut self, columns: u32) -> Self {
        self.shape[1] = columns as i32;
        self
    }
}

/// A slice names each mode and keeps at least one, or it does not compile.
#[track_caller]
const fn names_modes(rank: usize, count: usize, kept: usize) {
    let mut text = Text::<400>::new();
    if rank != count {
        text.str("at: the tensor has ");
        text.int(rank as i64);
        text.str(" modes, and the slice names ");
        text.int(count as i64);
        text.str(": write `..` for each mode that is kept");
        refuse(&text);
    }
    if kept == 0 {
        text.str("at: the slice fixes each mode: read one element with `element`, or keep a mode with `..`");
        refuse(&text);
    }
}

/// Checks, in the simulator, that the first coordinate of a tile is below 2^31.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn check_origin(tile: u32, extent: u32) {
    simulator_assert!(
        u64::from(tile) * u64::from(extent) < 1 << 31,
        "tile {tile} of {extent} begins at {}, and coordinates are below 2^31; make a matrix of each part",
        u64::from(tile) * u64::from(extent)
    );
}

/// A tile has as many modes as its tensor, or it does not compile.
pub(super) const fn extents_of_tile(tile: Layout, rank: usize) -> [u32; MAX_RANK] {
    if tile.rank() != rank {
        let mut text = Text::<400>::new();
        text.str("local_tile: the tile ");
        text.layout(&tile);
        text.str(" has ");
        text.int(tile.rank() as i64);
        text.str(" modes, and the tensor ");
        text.int(rank as i64);
        text.str(": give the tile an extent of 1 in the others, or take a slice of the tensor first");
        refuse(&text);
    }
    extents_of(&tile, rank)
}

/// The extents of the modes of a tile of this rank, then ones.
pub(super) const fn extents_of(tile: &Layout, rank: usize) -> [u32; MAX_RANK] {
    let mut extents = [1; MAX_RANK];
    let mut axis = 0;
    while axis < rank {
        extents[axis] = tile.extent(axis) as u32;
        axis += 1;
    }
    extents
}

/// All tiles along an axis, CuTe's `_`.
#[derive(Clone, Copy, Debug)]
pub struct All;

/// The coordinate of a tile along one axis: an integer, or [`All`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a place of a tile",
    label = "neither an `u32` nor `All`",
    note = "a tile's coordinate is a tuple with an `u32` or `All` for each mode of the tensor"
)]
pub trait TilePlace: Copy {
    /// Whether it fixes the axis.
    #[doc(hidden)]
    type Kind: PlaceKind;

    /// The open modes, where `B` are those of the axes before.
    type Rest<const AXIS: usize, B: Rest>: Rest;

    #[doc(hidden)]
    fn place(self) -> u32;

    #[doc(hidden)]
    fn rest<const AXIS: usize, B: Rest>(before: B, extent: i32, tile: u32) -> Self::Rest<AXIS, B>;
}

impl TilePlace for u32 {
    type Kind = Fixed;
    type Rest<const AXIS: usize, B: Rest> = B;

    #[inline(always)]
    fn place(self) -> u32 {
        self
    }

    #[inline(always)]
    fn rest<const AXIS: usize, B: Rest>(before: B, _: i32, _: u32) -> B {
        before
    }
}

impl TilePlace for All {
    type Kind = Kept;
    type Rest<const AXIS: usize, B: Rest> = Along<AXIS, B>;

    #[inline(always)]
    fn place(self) -> u32 {
        0
    }

    #[inline(always)]
    fn rest<const AXIS: usize, B: Rest>(before: B, extent: i32, tile: u32) -> Along<AXIS, B> {
        Along { tiles: (extent as u32).div_ceil(tile), extent: tile, before }
    }
}

/// A tile's coordinate: a tuple of one to five [`TilePlace`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a tile",
    label = "not a tuple of places",
    note = "a tile's coordinate is a tuple with an `u32` or `All` for each mode of the tile"
)]
pub trait TilePlaces: Copy {
    /// The fixed modes.
    type Kinds: PlaceKinds;

    /// The places; 0 for a mode that stays open.
    #[doc(hidden)]
    fn places(self) -> [u32; MAX_PLACES];
}

/// A tile's coordinate in a tensor of rank `R`: a [`TilePlace`] for each mode.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name a tile of a tensor of `{R}`",
    label = "not a place for each mode",
    note = "a tile's coordinate is a tuple with an `u32` or `All` for each mode of the tensor"
)]
pub trait TileCoordinate<R: TensorRank>: Copy {
    /// The open modes.
    type Rest: Rest;

    /// The coordinate of the first tile, in the first two modes.
    #[doc(hidden)]
    fn origin(self) -> (u32, u32);

    /// Its coordinates in the other modes.
    #[doc(hidden)]
    fn origin_more(self) -> [u32; MAX_RANK - 2];

    /// The open modes, in a tensor of this shape.
    #[doc(hidden)]
    fn rest(self, shape: [i32; 2], more: More, tile: [u32; MAX_RANK]) -> Self::Rest;
}

/// The first coordinate of a tile, an integer or [`All`] for each of one to five modes: for
/// [`identity_tensor`](super::identity_tensor).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the first coordinate of a tile",
    label = "not a tuple of numbers",
    note = "a tuple has an `u32`, or `All` for an open mode, for each mode: `(row, column)` in a matrix"
)]
pub trait FirstCoordinate: TileCoordinate<<Self as FirstCoordinate>::Rank> {
    /// The rank of its tensor.
    type Rank: TensorRank;
}

macro_rules! tile_coordinate {
    (@rest ($($before:tt)+)) => { $($before)+ };
    (@rest ($($before:tt)+) $name:ident $axis:tt $($rest:tt)*) => {
        tile_coordinate!(@rest (<$name as TilePlace>::Rest<$axis, $($before)+>) $($rest)*)
    };
    ($rank:literal; $($name:ident $axis:tt)+) => {
        impl<$($name: TilePlace),+> TilePlaces for ($($name,)+) {
            type Kinds = ($($name::Kind,)+);

            #[inline(always)]
            fn places(self) -> [u32; MAX_PLACES] {
                let mut places = [0; MAX_PLACES];
                $(places[$axis] = self.$axis.place();)+
                places
            }
        }

        impl<$($name: TilePlace),+> FirstCoordinate for ($($name,)+) {
            type Rank = Rank<$rank>;
        }

        impl<$($name: TilePlace),+> TileCoordinate<Rank<$rank>> for ($($name,)+) {
            type Rest = tile_coordinate!(@rest (()) $($name $axis)+);

            #[inline(always)]
            fn origin(self) -> (u32, u32) {
                let places = [$(self.$axis.place(),)+ 0];
                (places[0], places[1])
            }

            #[inline(always)]
            fn origin_more(self) -> [u32; MAX_RANK - 2] {
                let mut places = [0; MAX_RANK];
                $(places[$axis] = self.$axis.place();)+
                [places[2], places[3], places[4]]
            }

            #[inline(always)]
            fn rest(self, shape: [i32; 2], more: More, tile: [u32; MAX_RANK]) -> Self::Rest {
                let (shape, rest) = (all(shape, more), ());
                $(let rest = $name::rest::<$axis, _>(rest, shape[$axis], tile[$axis]);)+
                rest
            }
        }
    };
}
tile_coordinate!(1; A 0);
tile_coordinate!(2; A 0 B 1);
tile_coordinate!(3; A 0 B 1 C 2);
tile_coordinate!(4; A 0 B 1 C 2 D 3);
tile_coordinate!(5; A 0 B 1 C 2 D 3 E 4);

/// The open tiles along `AXIS`; `B` are those of axes before.
#[derive(Clone, Copy, Debug)]
pub struct Along<const AXIS: usize, B = ()> {
    tiles: u32,
    extent: u32,
    before: B,
}

impl<const AXIS: usize, B> Along<AXIS, B> {
    #[inline(always)]
    pub(super) const fn tiles(&self) -> u32 {
        self.tiles
    }

    #[inline(always)]
    pub(super) fn with_before<N>(self, before: N) -> Along<AXIS, N> {
        Along { tiles: self.tiles, extent: self.extent, before }
    }

    /// The offset of tile `index` from the origin.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub(super) fn step(&self, index: u32) -> [i32; 2] {
        check_origin(index, self.extent);
        let mut by = [0; 2];
        if const { AXIS < 2 } {
            by[AXIS] = (index * self.extent) as i32;
        }
        by
    }

    /// Like [`step`](Self::step), for the third and later modes.
    #[inline(always)]
    pub(super) fn step_more(&self, index: u32) -> More {
        let mut by = [0; MAX_RANK - 2];
        if const { AXIS >= 2 } {
            by[AXIS - 2] = (index * self.extent) as i32;
        }
        by
    }
}

/// The modes of tiles that a tile's coordinate leaves open: none, or [`Along`] some axes.
pub trait Rest: Copy {
    /// Their number.
    #[doc(hidden)]
    const OPEN: usize;

    /// Their axes, a bit each.
    #[doc(hidden)]
    const AXES: u32;

    /// The modes that a slice leaves open; `K` are the kinds of its places in reverse order.
    #[doc(hidden)]
    type Slice<K: Backwards>: Rest;

    /// The modes that remain open.
    #[doc(hidden)]
    fn slice<K: Backwards>(self) -> Self::Slice<K>;

    /// The offset of the slice: open mode `i` from the last has place `last - i`.
    #[doc(hidden)]
    fn offset<K: Backwards>(self, places: [u32; MAX_PLACES], last: usize) -> [i32; 2];

    /// Like [`offset`](Self::offset), for the third and later modes.
    #[doc(hidden)]
    fn offset_more<K: Backwards>(self, places: [u32; MAX_PLACES], last: usize) -> [i32; MAX_RANK - 2];
}

/// No open mode, which a tensor needs for its elements to be read or written. Tiles of an open mode
/// are accessed one at a time, `tXgX.at((.., .., .., tile))`.
#[diagnostic::on_unimplemented(
    message = "a mode of the tensor is still open: `{Self}`, all tiles along that axis",
    label = "takes one tile, and the mode `{Self}` is open",
    note = "take one tile of the open mode first: `.at((.., .., .., tile))`, in a loop over `tiles()`"
)]
pub trait NoOpenMode: Rest {}
impl NoOpenMode for () {}

impl Rest for () {
    const OPEN: usize = 0;
    const AXES: u32 = 0;
    type Slice<K: Backwards> = ();

    #[inline(always)]
    fn slice<K: Backwards>(self) {}

    #[inline(always)]
    fn offset<K: Backwards>(self, _: [u32; MAX_PLACES], _: usize) -> [i32; 2] {
        [0; 2]
    }

    #[inline(always)]
    fn offset_more<K: Backwards>(self, _: [u32; MAX_PLACES], _: usize) -> More {
        [0; MAX_RANK - 2]
    }
}

impl<const AXIS: usize, B: Rest> Rest for Along<AXIS, B> {
    const OPEN: usize = 1 + B::OPEN;
    const AXES: u32 = 1 << AXIS | B::AXES;
    type Slice<K: Backwards> = <K::Last as PlaceKind>::Rest<AXIS, B::Slice<K::Before>>;

    #[inline(always)]
    fn slice<K: Backwards>(self) -> Self::Slice<K> {
        K::Last::rest(self, self.before.slice::<K::Before>())
    }

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn offset<K: Backwards>(self, places: [u32; MAX_PLACES], last: usize) -> [i32; 2] {
        if const { B::OPEN == 0 && K::Last::FIXED } {
            return self.step(places[last]);
        }
        let mut by =
            if const { B::OPEN > 0 } { self.before.offset::<K::Before>(places, last - 1) } else { [0; 2] };
        if const { AXIS < 2 && K::Last::FIXED } {
            by[AXIS] = self.step(places[last])[AXIS];
        }
        by
    }

    #[inline(always)]
    fn offset_more<K: Backwards>(self, places: [u32; MAX_PLACES], last: usize) -> More {
        let mut by = [0; MAX_RANK - 2];
        if const { B::OPEN > 0 } {
            by = self.before.offset_more::<K::Before>(places, last - 1);
        }
        if const { AXIS >= 2 && K::Last::FIXED } {
            by[AXIS - 2] = self.step_more(places[last])[AXIS - 2];
        }
        by
    }
}
