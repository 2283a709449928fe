//! Slices at fixed coordinates: `t.at((.., .., k))`, one method for every memory and every mode.
//!
//! ```
//! use moye_device::layout::layout;
//! use moye_device::static_layout;
//! use moye_device::tensor::Fragment;
//!
//! static_layout! { Values = layout!((4, 2, 3)); } // (MMA, MMA_M, MMA_K)
//! let mut tCrA = Fragment::<f32, Values>::filled(0.0);
//! tCrA.at_mut((.., .., 2))[(3, 1)] = 7.0; // (MMA, MMA_M)
//! assert_eq!(tCrA.at((3, .., ..)).layout().to_string(), "(2,3):(4,8)");
//! assert_eq!(tCrA[(3, 1, 2)], 7.0);
//! ```

use super::fragment::{Registers, RegistersMut, RegistersRef};
use super::global::{Along, Rest};
use super::rank::{Rank, TensorRank};
use super::static_layout::{Divisors, StaticLayout};
use super::tables::{PLAIN, SliceDigits, moved, steps};
use super::{Engine, Tensor, refuse};
use crate::arch::simulator_assert;
use crate::layout::{Layout, Swizzle, Text, make_col_major};
use crate::memory::{Element, Shared, SharedPacked, Storable, for_each_index};
use crate::number::Scalar;
use core::marker::PhantomData;
use core::ops::RangeFull;

/// The most modes that a slice can name.
pub const MAX_PLACES: usize = 7;

/// A mode that a slice keeps whole: `..`.
#[derive(Clone, Copy, Debug)]
pub struct Kept;

/// A mode that a slice fixes at one place.
#[derive(Clone, Copy, Debug)]
pub struct Fixed;

/// [`Kept`] or [`Fixed`].
pub trait PlaceKind: Copy + 'static {
    /// Whether it is [`Fixed`].
    const FIXED: bool;

    /// The rank of a slice in global memory; `B` is the rank of the modes before.
    #[doc(hidden)]
    type Kept<B: TensorRank>: TensorRank;

    /// The rest of an open mode along `AXIS`; `B` are the open modes before.
    #[doc(hidden)]
    type Rest<const AXIS: usize, B: Rest>: Rest;

    /// The rest of the mode.
    #[doc(hidden)]
    fn rest<const AXIS: usize, O, B: Rest>(open: Along<AXIS, O>, before: B) -> Self::Rest<AXIS, B>;
}

impl PlaceKind for Kept {
    const FIXED: bool = false;
    type Kept<B: TensorRank> = B::Next;
    type Rest<const AXIS: usize, B: Rest> = Along<AXIS, B>;

    #[inline(always)]
    fn rest<const AXIS: usize, O, B: Rest>(open: Along<AXIS, O>, before: B) -> Along<AXIS, B> {
        open.with_before(before)
    }
}
impl PlaceKind for Fixed {
    const FIXED: bool = true;
    type Kept<B: TensorRank> = B;
    type Rest<const AXIS: usize, B: Rest> = B;

    #[inline(always)]
    fn rest<const AXIS: usize, O, B: Rest>(_: Along<AXIS, O>, before: B) -> B {
        before
    }
}

/// A place in one mode: `..` for all of it, or an integer.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a place in a mode of a tensor",
    label = "neither `..` nor an integer",
    note = "a place is `..`, which keeps the mode, or an i32, u32, i64, u64 or usize"
)]
pub trait Place: Copy {
    /// [`Kept`] or [`Fixed`].
    type Kind: PlaceKind;

    /// The integer; 0 for `..`.
    #[doc(hidden)]
    fn place(self) -> u32;
}

impl Place for RangeFull {
    type Kind = Kept;

    #[inline(always)]
    fn place(self) -> u32 {
        0
    }
}

macro_rules! integer {
    ($($t:ty),*) => { $(
        impl Place for $t {
            type Kind = Fixed;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn place(self) -> u32 {
                // Negative too: tensor maps have tiles and coordinates before the first.
                simulator_assert!(
                    (i128::from(i32::MIN)..=i128::from(u32::MAX)).contains(&(self as i128)),
                    "a mode has no place {self}"
                );
                self as u32
            }
        }
    )* };
}
for_each_index!(integer);

/// A place in each mode of a tensor: a tuple of one to seven [`Place`]s.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name places of a tensor",
    label = "not a tuple of places",
    note = "write a tuple with `..` or an integer for each mode, `(.., .., k)`; of a tensor of one mode `(k,)`"
)]
pub trait Places: Copy {
    /// The fixed modes.
    type Kinds: PlaceKinds;

    /// The places; 0 for a mode that is kept.
    #[doc(hidden)]
    fn places(self) -> [u32; MAX_PLACES];
}

/// The modes that a slice fixes.
pub trait PlaceKinds: Copy + 'static {
    /// The number of modes that the slice names.
    const COUNT: usize;

    /// Whether it fixes them.
    const FIXED: [bool; MAX_PLACES];

    /// The rank of a slice in global memory.
    #[doc(hidden)]
    type Kept: TensorRank;

    /// The kinds in reverse order.
    #[doc(hidden)]
    type Backwards: Backwards;
}

/// Kinds of places in reverse order: `(C, (B, (A, ())))` for `(A, B, C)`.
#[doc(hidden)]
pub trait Backwards {
    type Last: PlaceKind;
    type Before: Backwards;
}

impl Backwards for () {
    type Last = Kept;
    type Before = ();
}

impl<L: PlaceKind, B: Backwards> Backwards for (L, B) {
    type Last = L;
    type Before = B;
}

macro_rules! places {
    (@kept ($($before:tt)+)) => { $($before)+ };
    (@kept ($($before:tt)+) $name:ident $($rest:ident)*) => {
        places!(@kept (<$name as PlaceKind>::Kept<$($before)+>) $($rest)*)
    };
    (@backwards ($($before:tt)+)) => { $($before)+ };
    (@backwards ($($before:tt)+) $name:ident $($rest:ident)*) => {
        places!(@backwards (($name, $($before)+)) $($rest)*)
    };
    ($count:literal $($name:ident)+) => {
        #[allow(non_snake_case)]
        impl<$($name: Place),+> Places for ($($name,)+) {
            type Kinds = ($($name::Kind,)+);

            #[inline(always)]
            fn places(self) -> [u32; MAX_PLACES] {
                let ($($name,)+) = self;
                let given = [$($name.place()),+];
                let mut places = [0; MAX_PLACES];
                let mut mode = 0;
                while mode < $count {
                    places[mode] = given[mode];
                    mode += 1;
                }
                places
            }
        }

        impl<$($name: PlaceKind),+> PlaceKinds for ($($name,)+) {
            const COUNT: usize = $count;
            const FIXED: [bool; MAX_PLACES] = {
                let given = [$($name::FIXED),+];
                let mut fixed = [false; MAX_PLACES];
                let mut mode = 0;
                while mode < $count {
                    fixed[mode] = given[mode];
                    mode += 1;
                }
                fixed
            };
            type Kept = places!(@kept (Rank<0>) $($name)+);
            type Backwards = places!(@backwards (()) $($name)+);
        }
    };
}
places!(1 A);
places!(2 A B);
places!(3 A B C);
places!(4 A B C D);
places!(5 A B C D E);
places!(6 A B C D E F);
places!(7 A B C D E F G);

/// The modes of `L` that the places of kinds `K` keep.
pub struct SliceOf<L, K>(PhantomData<(L, K)>);

impl<L, K> Clone for SliceOf<L, K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L, K> Copy for SliceOf<L, K> {}

/// One stage of `(BLK_M, BLK_K, PIPE)`: the layout of `t.at((.., .., stage))`.
pub type OneStage<L> = SliceOf<L, (Kept, Kept, Fixed)>;

/// The modes of a layout that are fixed (`wanted`), or the others. No mode is one element.
pub(super) const fn modes_where(layout: Layout, fixed: [bool; MAX_PLACES], wanted: bool) -> Layout {
    let mut modes = [layout; MAX_PLACES];
    let (mut count, mut mode) = (0, 0);
    while mode < layout.rank() && mode < MAX_PLACES {
        if fixed[mode] == wanted {
            modes[count] = layout.mode(mode);
            count += 1;
        }
        mode += 1;
    }
    if count == 0 {
        return make_col_major(crate::layout::IntTuple::int(1));
    }
    // A tuple with one element stays one, so that the modes of an atom's values do not become the
    // tensor's.
    Layout::concat(modes.split_at(count).0)
}

impl<L: StaticLayout, K: PlaceKinds> StaticLayout for SliceOf<L, K> {
    const LAYOUT: Layout = modes_where(L::LAYOUT, K::FIXED, false);
    const ORIGIN: Divisors = L::ORIGIN.and(steps(modes_where(L::LAYOUT, K::FIXED, true)));
    const SWIZZLE: Swizzle = L::SWIZZLE;
    const MOVED: u64 = L::MOVED;
    const STEPPED: u64 = moved(L::STEPPED, modes_where(L::LAYOUT, K::FIXED, true), L::SWIZZLE);
}

/// An engine whose tensors [`Tensor::at`] can slice.
#[diagnostic::on_unimplemented(message = "a tensor over `{Self}` cannot be sliced")]
pub trait Sliceable: Engine {
    /// The engine of a slice.
    type Slice<'a, K: PlaceKinds>: Engine<Element = Self::Element>
    where
        Self: 'a;

    /// The number of modes after those of the layout, whose extents are known at run time.
    const OPEN: usize = 0;

    /// The engine at the given places of the modes that `K` fixes.
    #[doc(hidden)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self::Slice<'_, K>;
}

/// A slice names all modes of the tensor, or it does not compile.
#[track_caller]
const fn names_all(layout: &Layout, open: usize, count: usize) {
    if layout.rank() + open != count {
        let mut text = Text::<400>::new();
        text.str("at: the tensor ");
        text.layout(layout);
        text.str(" has ");
        text.int((layout.rank() + open) as i64);
        text.str(match open {
            0 => " modes",
            1 => " modes, the open one included",
            _ => " modes, the open ones included",
        });
        text.str(", and the slice names ");
        text.int(count as i64);
        text.str(": write `..` for each mode that is kept");
        refuse(&text);
    }
}

impl<E: Sliceable, L: StaticLayout> Tensor<E, L> {
    /// The tensor at fixed places of some modes: `t.at((.., .., .., k))` of
    /// `(CPY, CPY_M, CPY_K, k)` is `(CPY, CPY_M, CPY_K)`.
    ///
    /// A tuple has one entry for each mode, `..` to keep it. A coordinate that is constant after
    /// unrolling costs nothing: it becomes part of the offsets of accesses, also through the
    /// swizzle. The simulator faults if a coordinate is not below the mode's extent. The open mode
    /// of a matrix's tiles continues past its last tile, where all elements are out of bounds, so
    /// that a mainloop may load one tile ahead without a branch.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at<S: Places>(&self, places: S) -> Tensor<E::Slice<'_, S::Kinds>, SliceOf<L, S::Kinds>> {
        const { names_all(&L::LAYOUT, E::OPEN, <S::Kinds as PlaceKinds>::COUNT) };
        let places = places.places();
        check::<L, S::Kinds>(places);
        Tensor::from_engine(self.engine.slice::<L, S::Kinds>(places))
    }
}

/// The extents of the modes that the places `K` fix; the others have no limit.
struct Limits<L, K>(PhantomData<(L, K)>);

impl<L: StaticLayout, K: PlaceKinds> Limits<L, K> {
    const EXTENTS: [i64; MAX_PLACES] = {
        let mut extents = [i64::MAX; MAX_PLACES];
        let mut mode = 0;
        while mode < L::LAYOUT.rank() && mode < MAX_PLACES {
            if K::FIXED[mode] {
                extents[mode] = L::LAYOUT.extent(mode);
            }
            mode += 1;
        }
        extents
    };
}

/// Checks that the coordinates are inside their modes; otherwise the simulator faults.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn check<L: StaticLayout, K: PlaceKinds>(places: [u32; MAX_PLACES]) {
    // Only the simulator checks.
    if cfg!(not(target_arch = "nvptx64")) {
        assert_below(&Limits::<L, K>::EXTENTS, &L::LAYOUT, places);
    }
}

/// [`check`] as one function for all layouts, which the simulator's build compiles once.
#[cfg_attr(not(target_arch = "nvptx64"), inline(never), track_caller)]
fn assert_below(extents: &[i64; MAX_PLACES], layout: &Layout, places: [u32; MAX_PLACES]) {
    for (mode, (&place, &extent)) in places.iter().zip(extents).enumerate() {
        simulator_assert!(
            i64::from(place) < extent,
            "at: place {place} of mode {mode} of {layout}, which has {extent}"
        );
    }
}

impl<T: Storable, L: StaticLayout> Tensor<Registers<T>, L> {
    /// [`at`](Tensor::at) for writing.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at_mut<S: Places>(&mut self, places: S) -> Tensor<RegistersMut<'_, T>, SliceOf<L, S::Kinds>> {
        const { names_all(&L::LAYOUT, 0, <S::Kinds as PlaceKinds>::COUNT) };
        let places = places.places();
        check::<L, S::Kinds>(places);
        Tensor::from_engine(self.engine.slice_mut::<L, S::Kinds>(places))
    }
}

impl<T: Storable, L: StaticLayout> Tensor<RegistersMut<'_, T>, L> {
    /// [`at`](Tensor::at) for writing.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn at_mut<S: Places>(&mut self, places: S) -> Tensor<RegistersMut<'_, T>, SliceOf<L, S::Kinds>> {
        const { names_all(&L::LAYOUT, 0, <S::Kinds as PlaceKinds>::COUNT) };
        let places = places.places();
        check::<L, S::Kinds>(places);
        Tensor::from_engine(self.engine.slice_mut::<L, S::Kinds>(places))
    }
}

macro_rules! registers {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Storable> Sliceable for $engine {
            type Slice<'s, K: PlaceKinds> = RegistersRef<'s, T> where Self: 's;

            #[inline(always)]
            fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> RegistersRef<'_, T> {
                self.moved(SliceDigits::<L, K, PLAIN>::offset(places))
            }
        }
    )+ };
}
registers! {
    Registers<T>;
    RegistersRef<'a, T>, 'a;
    RegistersMut<'a, T>, 'a;
}

impl<T: Element> Sliceable for Shared<T> {
    type Slice<'a, K: PlaceKinds> = Self;

    #[inline(always)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self {
        if L::SWIZZLE.bits() == 0 {
            return SliceDigits::<L, K, PLAIN>::moved(*self, places, Self::offset);
        }
        // Whole blocks of the swizzle along the last mode move the origin. The rest is kept
        // separate, so that a constant stays a constant after the swizzle.
        let (outside, inside) = SliceDigits::<L, K, PLAIN>::by_block(places, size_of::<T>() as i32);
        self.moved_bytes(outside).stepped(inside)
    }
}

impl<T: Scalar + Storable> Sliceable for SharedPacked<T> {
    type Slice<'a, K: PlaceKinds> = Self;

    #[inline(always)]
    fn slice<L: StaticLayout, K: PlaceKinds>(&self, places: [u32; MAX_PLACES]) -> Self {
        SliceDigits::<L, K, PLAIN>::moved(*self, places, |at, offset| at.offset(offset))
    }
}
