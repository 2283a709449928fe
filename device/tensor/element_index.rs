//! Elements by index or coordinate: `fragment[i]`, `fragment[(i, j)]`, `tensor.get((i, j))`.

use super::fragment::{Registers, RegistersMut, RegistersRef};
use super::static_layout::StaticLayout;
use super::{Tensor, refuse};
use crate::arch::simulator_assert;
use crate::layout::{Layout, Text};
use crate::memory::Element;
use core::ops::{Index, IndexMut};

/// The name of one element of a tensor of layout `L`: its index, or a tuple with its coordinate in
/// each mode.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not name an element of a tensor",
    label = "neither an index nor a coordinate",
    note = "an element is named by its index (usize), or by a tuple with an usize for each mode, of two to five modes"
)]
pub trait ElementIndex<L> {
    /// The element's index: colexicographic, the first mode fastest.
    fn element_index(self) -> usize;
}

impl<L> ElementIndex<L> for usize {
    #[inline(always)]
    fn element_index(self) -> usize {
        self
    }
}

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
    ($count:literal $($place:ident: $t:ty = $mode:tt),+) => {
        impl<L: StaticLayout> ElementIndex<L> for ($($t,)+) {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn element_index(self) -> usize {
                const { of_rank(&L::LAYOUT, $count) };
                let ($($place,)+) = self;
                let (mut index, mut stride) = (0, 1);
                $(
                    let extent = const { L::LAYOUT.extent($mode) as usize };
                    simulator_assert!(
                        $place < extent,
                        "place {} of mode {} of {}, which has {extent}", $place, $mode, L::LAYOUT
                    );
                    index += $place * stride;
                    stride *= extent;
                )+
                let _ = stride;
                index
            }
        }
    };
}
coordinate!(2 i: usize = 0, j: usize = 1);
coordinate!(3 i: usize = 0, j: usize = 1, k: usize = 2);
coordinate!(4 i: usize = 0, j: usize = 1, k: usize = 2, l: usize = 3);
coordinate!(5 i: usize = 0, j: usize = 1, k: usize = 2, l: usize = 3, m: usize = 4);

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
