//! Elements by index or coordinate: `fragment[i]`, `fragment[(i, j)]`, `tensor.get((i, j))`.

use super::at::{Fixed, MAX_PLACES, Place};
use super::fragment::{Registers, RegistersMut, RegistersRef};
use super::static_layout::StaticLayout;
use super::tables::{Digits, SliceDigits};
use super::{Tensor, refuse};
use crate::arch::simulator_assert;
use crate::layout::{Layout, Text};
use crate::memory::{Element, for_each_index};
use core::ops::{Index, IndexMut};

/// An element of a tensor of layout `L`: its index, or a tuple with its coordinate in each mode.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name an element of a tensor",
    label = "neither an index nor a coordinate",
    note = "an element is named by its index, or by a tuple with a place in each of two to five modes: i32, u32, i64, u64 or usize"
)]
pub trait ElementIndex<L>: Copy {
    /// The element's index: colexicographic, with the first mode fastest.
    fn element_index(self) -> usize;

    /// The layout's offset along one axis, by arithmetic: for an index that is known only at run
    /// time, for which a table would be read from global memory.
    #[doc(hidden)]
    fn element_offset<const AXIS: usize>(self) -> i32;
}

macro_rules! integer {
    ($($t:ty),+) => { $(
        impl<L: StaticLayout> ElementIndex<L> for $t {
            #[inline(always)]
            fn element_index(self) -> usize {
                self as usize
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn element_offset<const AXIS: usize>(self) -> i32 {
                simulator_assert!(
                    (self as u64) < L::LAYOUT.size() as u64,
                    "element {self} of {}, which has {}", L::LAYOUT, L::LAYOUT.size()
                );
                Digits::<L, AXIS>::offset(self as u32)
            }
        }
    )+ };
}
for_each_index!(integer);

/// A coordinate has a place for each mode, or the access does not compile.
#[track_caller]
const fn of_rank(layout: &Layout, count: usize) {
    if layout.rank() != count {
        let mut text = Text::<400>::new();
        text.str("the coordinate of an element has a place for each mode: ");
        text.layout(layout);
        text.str(" has ");
        text.int(layout.rank() as i64);
        text.str(" modes, and the coordinate ");
        text.int(count as i64);
        refuse(&text);
    }
}

macro_rules! coordinate {
    ($count:literal $($place:ident: $t:ident = $kind:ty, $mode:tt);+) => {
        impl<L: StaticLayout, $($t: Place<Kind = Fixed>),+> ElementIndex<L> for ($($t,)+) {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn element_index(self) -> usize {
                const { of_rank(&L::LAYOUT, $count) };
                let ($($place,)+) = self;
                let (mut index, mut stride) = (0, 1);
                $(
                    let (place, extent) = ($place.place() as usize, const { L::LAYOUT.extent($mode) as usize });
                    simulator_assert!(
                        place < extent,
                        "place {place} of mode {} of {}, which has {extent}", $mode, L::LAYOUT
                    );
                    index += place * stride;
                    stride *= extent;
                )+
                let _ = stride;
                index
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn element_offset<const AXIS: usize>(self) -> i32 {
                const { of_rank(&L::LAYOUT, $count) };
                let ($($place,)+) = self;
                let mut places = [0; MAX_PLACES];
                $(
                    let (place, extent) = ($place.place(), const { L::LAYOUT.extent($mode) as u32 });
                    simulator_assert!(
                        place < extent,
                        "place {place} of mode {} of {}, which has {extent}", $mode, L::LAYOUT
                    );
                    places[$mode] = place;
                )+
                SliceDigits::<L, ($($kind,)+), AXIS>::offset(places)
            }
        }
    };
}
coordinate!(2 i: I = Fixed, 0; j: J = Fixed, 1);
coordinate!(3 i: I = Fixed, 0; j: J = Fixed, 1; k: K = Fixed, 2);
coordinate!(4 i: I = Fixed, 0; j: J = Fixed, 1; k: K = Fixed, 2; l: A = Fixed, 3);
coordinate!(5 i: I = Fixed, 0; j: J = Fixed, 1; k: K = Fixed, 2; l: A = Fixed, 3; m: B = Fixed, 4);

macro_rules! index {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Element, L: StaticLayout, I: ElementIndex<L>> Index<I> for Tensor<$engine, L> {
            type Output = T;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn index(&self, index: I) -> &T {
                self.engine.element::<L>(index.element_index())
            }
        }
    )+ };
}
index! {
    Registers<T>;
    RegistersRef<'a, T>, 'a;
    RegistersMut<'a, T>, 'a;
}

macro_rules! index_mut {
    ($($engine:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? T: Element, L: StaticLayout, I: ElementIndex<L>> IndexMut<I> for Tensor<$engine, L> {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn index_mut(&mut self, index: I) -> &mut T {
                self.engine.element_mut::<L>(index.element_index())
            }
        }
    )+ };
}
index_mut! {
    Registers<T>;
    RegistersMut<'a, T>, 'a;
}
