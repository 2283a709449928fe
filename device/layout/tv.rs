//! Thread-value layouts: which thread holds which elements of a tile.

use super::compose::compose_into;
use super::error::LayoutError;
use super::fault::{Fault, tri};
use super::int_tuple::{IntTuple, NO_BASIS};
use super::inverse::{each_number_once, right_into};
use super::layout::Layout;
use super::product::raked_into;
use super::profile::ROOT;
use super::text::Text;

/// A thread-value layout over a tile: `(thread, value)` to the index, in the tile, of the thread's
/// element `value` (the tile's first mode is fastest).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TvLayout {
    /// The shape of the tile, one integer for each mode.
    pub tile: IntTuple,
    /// `(thread, value)` to the linear coordinate in the tile.
    pub layout: Layout,
}

/// The thread-value layout in which thread `threads(m, n)` holds, for each of its places in the
/// tile, a block of values in the order of `values`: `threads` arranges the threads over the tile,
/// `values` the adjacent elements of each thread. Any rank.
///
/// ```
/// use moye_device::layout::{layout, make_layout_tv, tuple};
/// let copy = make_layout_tv(layout!((16, 8):(8, 1)), layout!((1, 4)));
/// assert_eq!(copy.tile, tuple!((16, 32)));
/// assert_eq!(copy.layout, layout!(((8, 16), 4):((64, 1), 16)));
/// ```
///
/// # Panics
/// If [`try_make_layout_tv`] returns an error.
#[track_caller]
pub const fn make_layout_tv(threads: Layout, values: Layout) -> TvLayout {
    match try_make_layout_tv(threads, values) {
        Ok(tv) => tv,
        Err(error) => panic!("{}", error.text()),
    }
}

/// [`make_layout_tv`] as a `Result`.
///
/// # Errors
/// If `threads` or `values` skip an index or repeat one, so that some `(thread, value)` has no
/// place.
pub const fn try_make_layout_tv(threads: Layout, values: Layout) -> Result<TvLayout, LayoutError> {
    let mut result = Ok(TvLayout { tile: IntTuple::int(0), layout: Layout::start() });
    if let Ok(tv) = &mut result
        && let Err(fault) = make_into(tv, &threads, &values)
    {
        let mut text = Text::of_operands();
        text.str("make_layout_tv(");
        text.layout(&threads);
        text.str(", ");
        text.layout(&values);
        text.str(")");
        result = Err(LayoutError::after(text, fault));
    }
    result
}

const fn make_into(tv: &mut TvLayout, threads: &Layout, values: &Layout) -> Result<(), Fault> {
    tri!(each_number_once(threads, "threads"));
    tri!(each_number_once(values, "values"));
    // (m, n) -> (thread, value)
    let mut places = Layout::start();
    tri!(raked_into(&mut places, threads, values));
    tri!(places.check());
    let mut inverse = Layout::start();
    tri!(right_into(&mut inverse, &places));
    if inverse.size() != places.size() {
        return Err(Fault::Short { what: "places of the tile", size: inverse.size(), want: places.size() });
    }
    tv.tile = tri!(places.extents());
    let (count, each) = (threads.size(), values.size());
    let mut domain = Layout::start();
    tri!(domain.push_tuple(2));
    tri!(domain.push_leaf(count, (count > 1) as i64, NO_BASIS));
    tri!(domain.push_leaf(each, if each > 1 { count } else { 0 }, NO_BASIS));
    tri!(compose_into(&mut tv.layout, &inverse, ROOT, &domain, ROOT));
    tv.layout.check()
}

impl TvLayout {
    /// The number of threads.
    pub const fn threads(&self) -> i64 {
        self.layout.extent(0)
    }

    /// The number of values of a thread.
    pub const fn values(&self) -> i64 {
        self.layout.extent(1)
    }

    /// `(thread, value)` to the coordinate in the tile, with strides along basis vectors, one for
    /// each mode of the tile.
    ///
    /// ```
    /// use moye_device::layout::{layout, make_layout_tv};
    /// let copy = make_layout_tv(layout!((16, 8):(8, 1)), layout!((1, 4)));
    /// assert_eq!(copy.coordinates().to_string(), "((8,16),4):((4@1,1@0),1@1)");
    /// ```
    ///
    /// # Panics
    /// If [`try_coordinates`](Self::try_coordinates) returns an error.
    #[track_caller]
    pub const fn coordinates(&self) -> Layout {
        match self.try_coordinates() {
            Ok(layout) => layout,
            Err(error) => panic!("{}", error.text()),
        }
    }

    /// [`coordinates`](Self::coordinates) as a `Result`.
    ///
    /// # Errors
    /// If a thread's values cross modes in a way that no strides describe.
    pub const fn try_coordinates(&self) -> Result<Layout, LayoutError> {
        match super::make::mode_coordinates(&self.tile) {
            Ok(coordinates) => super::try_composition(coordinates, self.layout),
            Err(fault) => Err(LayoutError::of_tuple("coordinates", &self.tile, fault)),
        }
    }

    /// The elements of `tensor`, a layout over the tile, by thread and value: the
    /// [`composition`](super::composition) of `tensor` with this layout.
    ///
    /// ```
    /// use moye_device::layout::{layout, make_layout_tv};
    /// let copy = make_layout_tv(layout!((16, 8):(8, 1)), layout!((1, 4)));
    /// assert_eq!(copy.of(layout!((16, 32):(32, 1))), layout!(((8, 16), 4):((4, 32), 1)));
    /// ```
    ///
    /// # Panics
    /// If [`try_of`](Self::try_of) returns an error.
    #[track_caller]
    pub const fn of(&self, tensor: Layout) -> Layout {
        super::composition(tensor, self.layout)
    }

    /// [`of`](Self::of) as a `Result`.
    ///
    /// # Errors
    /// If no layout has this function.
    pub const fn try_of(&self, tensor: Layout) -> Result<Layout, LayoutError> {
        super::try_composition(tensor, self.layout)
    }
}
