//! Tilers: a layout, or one tiler for each mode.

use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::int_tuple::{ANY, IntTuple, NO_BASIS, TupleBuilder};
use super::layout::Layout;
use super::operation::method;
use super::profile::{At, MAX_NODES, ROOT};
use super::text::Text;

/// The tiler of [`composition_tiler`] and of the divides and products:
///
/// - a layout, for the whole (`4:2`),
/// - an integer `n`, which is the layout `n:1`,
/// - the wildcard `_`, which leaves a mode unchanged,
/// - or a tuple of tilers, one for each mode (`(4:2,_,(2,2):(1,8))`, `(64,32)`).
///
/// It is built by [`tiler!`], [`Layout::tiler`], [`IntTuple::tiler`] and [`Tiler::by_mode`].
///
/// [`composition_tiler`]: super::composition_tiler
/// [`tiler!`]: macro@super::tiler
#[derive(Clone, Copy)]
pub struct Tiler {
    /// The concatenated layouts; a wildcard is a leaf of the basis `ANY`.
    pub(crate) layout: Layout,
    /// The nodes that are tuples of tilers, not parts of a layout, one bit each.
    pub(crate) by_mode: u64,
}

const _: () = assert!(MAX_NODES <= u64::BITS as usize, "a node needs a bit");

impl Tiler {
    /// A tiler of one layout.
    pub const fn layout(layout: Layout) -> Self {
        Self { layout, by_mode: 0 }
    }

    /// The wildcard `_`.
    pub const fn any() -> Self {
        let mut builder = Layout::start();
        match builder.push_leaf(1, 0, ANY) {
            Ok(()) => Self { layout: builder, by_mode: 0 },
            Err(_) => unreachable!(),
        }
    }

    /// The tiler of a shape: each integer `n` is the layout `n:1`, each tuple a tiler by mode.
    ///
    /// # Panics
    /// If [`try_shape`](Self::try_shape) returns an error.
    #[track_caller]
    pub const fn shape(shape: IntTuple) -> Self {
        match Self::try_shape(shape) {
            Ok(tiler) => tiler,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The tiler of a shape.
    ///
    /// # Errors
    /// If an extent is below 1 or a multiple of a basis vector.
    pub const fn try_shape(shape: IntTuple) -> Result<Self, LayoutError> {
        let mut builder = Layout::start();
        let mut by_mode = 0;
        match shape_into(&mut builder, &mut by_mode, &shape, ROOT) {
            Ok(()) => Ok(Self { layout: builder, by_mode }),
            Err(fault) => Err(LayoutError::of_tuple("tiler", &shape, fault)),
        }
    }

    /// The tiler by mode of `tilers`.
    ///
    /// # Panics
    /// If [`try_by_mode`](Self::try_by_mode) returns an error.
    #[track_caller]
    pub const fn by_mode(tilers: &[Self]) -> Self {
        match Self::try_by_mode(tilers) {
            Ok(tiler) => tiler,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// The tiler by mode of `tilers`.
    ///
    /// # Errors
    /// If together they have more integers than a value holds.
    pub const fn try_by_mode(tilers: &[Self]) -> Result<Self, LayoutError> {
        match joined(tilers) {
            Ok(tiler) => Ok(tiler),
            Err(fault) => {
                let mut text = Text::of_operands();
                text.str("tiler([");
                text.tilers(tilers);
                text.str("])");
                Err(LayoutError::after(text, fault))
            }
        }
    }

    pub(crate) const fn is_by_mode(&self, at: At) -> bool {
        self.by_mode >> at.node & 1 == 1
    }

    /// Whether the mode at `at` is or holds a wildcard.
    const fn has_any_below(&self, at: At) -> bool {
        let end = self.layout.profile.next(at).leaf;
        let mut leaf = at.leaf;
        while leaf < end && self.layout.basis[leaf] != ANY {
            leaf += 1;
        }
        leaf < end
    }

    pub(crate) const fn is_any(&self, at: At) -> bool {
        self.layout.profile.is_leaf(at) && self.layout.basis[at.leaf] == ANY
    }

    method! {
        /// The shape of the tiles, one integer for each mode of a tiler by mode.
        ///
        /// ```
        /// use moye_device::layout::{tiler, tuple};
        /// assert_eq!(tiler!((64, (8, 2):(1, 16))).tile_shape(), tuple!((64, 16)));
        /// ```
        ///
        /// # Errors
        /// If a mode is a wildcard, which leaves its extent open.
        tile_shape / try_tile_shape(self: Tiler) -> IntTuple = shape_of_tile;
    }

    /// The layout, if the tiler is a single layout.
    pub const fn as_layout(&self) -> Option<Layout> {
        if self.is_by_mode(ROOT) || self.is_any(ROOT) { None } else { Some(self.layout) }
    }
}

const fn shape_of_tile(tiler: &Tiler) -> Result<IntTuple, Fault> {
    if tiler.is_any(ROOT) {
        return Err(Fault::OpenTile { mode: 0 });
    }
    if !tiler.is_by_mode(ROOT) {
        return Ok(tiler.layout.shape());
    }
    let rank = tiler.layout.profile.rank(ROOT);
    let mut builder = TupleBuilder::new();
    tri!(builder.open(rank));
    let mut mode = tiler.layout.profile.first(ROOT);
    let mut i = 0;
    while i < rank {
        if tiler.has_any_below(mode) {
            return Err(Fault::OpenTile { mode: i });
        }
        // Unlike a layout's, the size of a mode that is a tiler by mode may overflow.
        tri!(builder.int(tri!(tiler.layout.shape().product_at(mode))));
        mode = tiler.layout.profile.next(mode);
        i += 1;
    }
    Ok(builder.tuple)
}

const fn joined(tilers: &[Tiler]) -> Result<Tiler, Fault> {
    let mut builder = Layout::start();
    tri!(builder.push_tuple(tilers.len()));
    let mut by_mode = 1;
    let mut node = 1;
    let mut i = 0;
    while i < tilers.len() {
        tri!(builder.push_layout(&tilers[i].layout));
        by_mode |= tilers[i].by_mode << node;
        node += tilers[i].layout.profile.len();
        i += 1;
    }
    Ok(Tiler { layout: builder, by_mode })
}

const fn shape_into(builder: &mut Layout, by_mode: &mut u64, shape: &IntTuple, at: At) -> Result<(), Fault> {
    if shape.profile.is_leaf(at) {
        if shape.basis[at.leaf] == ANY {
            return builder.push_leaf(1, 0, ANY);
        }
        let extent = tri!(shape.int_at(at.leaf));
        if extent < 1 {
            return Err(Fault::Extent { extent });
        }
        return builder.push_leaf(extent, if extent == 1 { 0 } else { 1 }, NO_BASIS);
    }
    let rank = shape.profile.rank(at);
    let node = tri!(builder.push_tuple(rank));
    *by_mode |= 1 << node;
    let mut mode = shape.profile.first(at);
    let mut i = 0;
    while i < rank {
        tri!(shape_into(builder, by_mode, shape, mode));
        mode = shape.profile.next(mode);
        i += 1;
    }
    Ok(())
}

impl IntTuple {
    /// This shape as a tiler by mode: see [`Tiler::shape`].
    ///
    /// # Panics
    /// If [`Tiler::try_shape`] returns an error.
    #[track_caller]
    pub const fn tiler(&self) -> Tiler {
        Tiler::shape(*self)
    }
}

impl From<Layout> for Tiler {
    fn from(layout: Layout) -> Self {
        Self::layout(layout)
    }
}
