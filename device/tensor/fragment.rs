//! Fragments: a thread's own elements, in registers.

use super::at::{MAX_PLACES, PlaceKinds};
use super::room::{ROOM, Room};
use super::shared::starts_at_zero;
use super::static_layout::StaticLayout;
use super::tables::{MAX_ELEMENTS, Offsets, PLAIN, SliceDigits, run};
use super::{Access, AccessMut, Engine, Length, Tensor, one_tile};
use crate::arch::{Fma, Word};
use crate::layout::{Layout, Text, Tiler, filter_zeros, make_col_major, make_ordered_layout, tiled_product};
use crate::memory::{Element, Storable};
use core::marker::PhantomData;

/// A thread's own elements in registers, each at its offset by `L`.
pub type Fragment<T, L> = Tensor<Registers<T>, L>;

/// The registers of a fragment: 1,024 bytes, all the registers that a thread can have.
///
/// The size is fixed so that a fragment needs no length in its type. Elements that no index names
/// are never accessed and cost nothing: the compiler splits the array into registers, if every
/// index is constant after unrolling.
#[derive(Clone)]
pub struct Registers<T: Storable> {
    words: Room,
    element: PhantomData<T>,
}

/// A part of a fragment, or all of it with other modes, for reading: a borrow of its registers.
pub struct RegistersRef<'a, T: Storable> {
    words: &'a Room,
    /// The index of the first element.
    origin: u32,
    element: PhantomData<T>,
}

/// A part of a fragment, or all of it with other modes, for writing: a borrow of its registers.
pub struct RegistersMut<'a, T: Storable> {
    words: &'a mut Room,
    /// The index of the first element.
    origin: u32,
    element: PhantomData<T>,
}

impl<T: Storable> Clone for RegistersRef<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: Storable> Copy for RegistersRef<'_, T> {}

impl<T: Storable> Registers<T> {
    /// The registers from element `offset` on, for reading.
    #[inline(always)]
    pub(super) fn moved(&self, offset: i32) -> RegistersRef<'_, T> {
        RegistersRef { words: &self.words, origin: offset as u32, element: PhantomData }
    }

    /// The registers at the places of a slice, for writing.
    #[inline(always)]
    pub(super) fn slice_mut<L: StaticLayout, K: PlaceKinds>(
        &mut self,
        places: [u32; MAX_PLACES],
    ) -> RegistersMut<'_, T> {
        let origin = SliceDigits::<L, K, PLAIN>::offset(places) as u32;
        RegistersMut { words: &mut self.words, origin, element: PhantomData }
    }
}

impl<T: Storable> RegistersRef<'_, T> {
    /// The registers from element `offset` on.
    #[inline(always)]
    pub(super) fn moved(&self, offset: i32) -> Self {
        Self { origin: self.origin.wrapping_add_signed(offset), ..*self }
    }
}

impl<T: Storable> RegistersMut<'_, T> {
    /// The registers from element `offset` on, for reading.
    #[inline(always)]
    pub(super) fn moved(&self, offset: i32) -> RegistersRef<'_, T> {
        let origin = self.origin.wrapping_add_signed(offset);
        RegistersRef { words: &*self.words, origin, element: PhantomData }
    }

    /// The registers at the places of a slice, for writing.
    #[inline(always)]
    pub(super) fn slice_mut<L: StaticLayout, K: PlaceKinds>(
        &mut self,
        places: [u32; MAX_PLACES],
    ) -> RegistersMut<'_, T> {
        let origin = self.origin.wrapping_add_signed(SliceDigits::<L, K, PLAIN>::offset(places));
        RegistersMut { words: &mut *self.words, origin, element: PhantomData }
    }
}

/// The fragment has room for the layout's elements, or it does not compile.
const fn fits(layout: Layout, element_bits: i64) {
    starts_at_zero(layout);
    let bytes = (layout.cosize() * element_bits + 7).div_euclid(8);
    if bytes > ROOM as i64 {
        let mut text = Text::<400>::new();
        text.str("a fragment of layout ");
        text.layout(&layout);
        text.str(" takes ");
        text.int(bytes);
        text.str(" bytes of registers, and a thread has ");
        text.int(ROOM as i64);
        text.str(": spread the tile over more threads, or make it smaller");
        panic!("{}", text.as_str());
    }
    if layout.is_coordinate() {
        let mut text = Text::<400>::new();
        text.str("a fragment has a layout of offsets, and ");
        text.layout(&layout);
        text.str(" is one of coordinates: take FragmentLike of it");
        panic!("{}", text.as_str());
    }
}

/// The compact layout of a fragment for the elements of `layout`, CuTe's `make_fragment_like`: mode
/// 0, the values of an atom, is the fastest, in order; the other modes follow in the order of their
/// strides.
///
/// ```
/// use moye_device::layout::layout;
/// use moye_device::tensor::fragment_layout;
/// assert_eq!(fragment_layout(layout!(((2, 2, 2), 2, 2):((1, 256, 8), 1024, 16))), layout!(((2, 2, 2), 2, 2):((1, 2, 4), 16, 8)));
/// ```
///
/// A layout of coordinates has no strides, so its modes are contiguous in their order; elements
/// that it repeats, by a mode of stride 0, are stored once.
pub const fn fragment_layout(layout: Layout) -> Layout {
    // A stride of 0 leads along no axis: if all are 0, it is always the same element.
    if layout.is_coordinate() || layout.size() > 1 && layout.cosize() == 1 {
        return Layout::new(layout.shape(), make_col_major(filter_zeros(layout).shape()).stride());
    }
    if layout.rank() < 2 {
        return make_col_major(layout.shape());
    }
    let first = layout.mode(0);
    // A broadcast mode stays a broadcast mode.
    let first = Layout::new(first.shape(), make_col_major(filter_zeros(first).shape()).stride());
    let rest = layout.take(1, layout.rank());
    tiled_product(first, Tiler::layout(make_ordered_layout(rest.shape(), rest.stride())))
}

/// The layout of a fragment for the elements of `L`: see [`fragment_layout`].
pub struct FragmentLike<L>(PhantomData<L>);

impl<L> Clone for FragmentLike<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for FragmentLike<L> {}

impl<L: StaticLayout> StaticLayout for FragmentLike<L> {
    const LAYOUT: Layout = fragment_layout(L::LAYOUT);
    const WHOLE: () = L::WHOLE;
}

impl<T: Storable, L: StaticLayout> Fragment<T, L> {
    /// Bytes of its registers.
    const ROOM_BYTES: usize = ((L::LAYOUT.cosize() * T::BITS + 7) / 8) as usize;

    /// An uninitialised fragment. In the simulator, using an unwritten element is a fault.
    ///
    /// # Safety
    /// Every element is written before it is read.
    #[inline(always)]
    pub unsafe fn uninit() -> Self {
        // SAFETY: the caller writes every element before it reads it.
        let mut fragment = unsafe { Self::untracked() };
        fragment.engine.words.track(if T::BITS < 8 { 0 } else { Self::ROOM_BYTES });
        fragment
    }

    /// Like [`uninit`](Self::uninit), for the library's internal fragments: the simulator does not
    /// track their elements.
    ///
    /// # Safety
    /// Every element is written before it is read.
    #[inline(always)]
    pub(crate) unsafe fn untracked() -> Self {
        const {
            let () = L::WHOLE;
            fits(L::LAYOUT, T::BITS)
        };
        let mut words = Room::new();
        if T::BITS < 8 {
            let bytes = words.written(0, 0);
            // A small element is written by changing its byte, which must be initialised. The
            // overwritten value costs nothing.
            for byte in 0..Self::ROOM_BYTES {
                // SAFETY: inside the room.
                unsafe { bytes.add(byte).write(0) };
            }
        }
        Tensor::from_engine(Registers { words, element: PhantomData })
    }

    /// A fragment of zeros for a copy to fill: an operand. In the simulator, using an element that
    /// was not written is a fault, unless a copy's predicate left it out.
    #[inline(always)]
    pub(crate) fn to_be_filled() -> Self {
        let mut fragment = Self::zeros();
        fragment.engine.words.track_filling();
        fragment
    }

    /// Faults, in the simulator, if one of `count` elements from `first` on was never written.
    #[cfg(not(target_arch = "nvptx64"))]
    #[track_caller]
    pub(crate) fn assert_written(&self, first: usize, count: usize) {
        self.engine.assert_written::<L>(first, count);
    }

    /// The registers from element `first` on as one value, such as the accumulators of an
    /// instruction.
    ///
    /// # Safety
    /// The elements of `A`, from `first` on, are consecutive, and any bits are a valid `A`.
    #[inline(always)]
    pub(crate) unsafe fn consecutive<A>(&mut self, first: usize) -> &mut A {
        let byte = byte_of::<T, L>(first, 0);
        debug_assert!(
            byte + size_of::<A>() <= ROOM,
            "{} bytes from {byte} on are past the end of a fragment",
            size_of::<A>()
        );
        // SAFETY: inside the room, which is aligned to 16 bytes; any bits are a valid `A`.
        unsafe { &mut *self.engine.words.written(byte, size_of::<A>()).add(byte).cast::<A>() }
    }

    /// A fragment of zeros: all bits are 0.
    ///
    /// Zeros that are overwritten cost nothing.
    #[inline(always)]
    pub fn zeros() -> Self {
        // SAFETY: filled at once.
        let mut fragment = unsafe { Self::untracked() };
        // SAFETY: `untracked` compiles only if the room has these bytes.
        unsafe { fragment.engine.words.written(0, Self::ROOM_BYTES).write_bytes(0, Self::ROOM_BYTES) };
        fragment
    }

    /// All of it, for reading.
    #[inline(always)]
    pub fn view(&self) -> Tensor<RegistersRef<'_, T>, L> {
        self.view_as()
    }

    /// All of it, for writing.
    #[inline(always)]
    pub fn view_mut(&mut self) -> Tensor<RegistersMut<'_, T>, L> {
        self.view_as_mut()
    }

    /// The same registers with another layout, which must not reach further.
    #[inline(always)]
    pub fn view_as<N: StaticLayout>(&self) -> Tensor<RegistersRef<'_, T>, N> {
        const { super::shared::reaches_no_further(N::LAYOUT, L::LAYOUT) };
        Tensor::from_engine(RegistersRef { words: &self.engine.words, origin: 0, element: PhantomData })
    }

    /// The same registers with another layout, which must not reach further, for writing.
    #[inline(always)]
    pub fn view_as_mut<N: StaticLayout>(&mut self) -> Tensor<RegistersMut<'_, T>, N> {
        const { super::shared::reaches_no_further(N::LAYOUT, L::LAYOUT) };
        Tensor::from_engine(RegistersMut { words: &mut self.engine.words, origin: 0, element: PhantomData })
    }
}

impl<T: Element, L: StaticLayout> Fragment<T, L> {
    /// Elements of a fragment without gaps, or a compile error.
    const COUNT: usize = {
        assert!(L::LAYOUT.size() == L::LAYOUT.cosize(), "a fragment without gaps has its values in order");
        fits(L::LAYOUT, T::BITS);
        L::LAYOUT.size() as usize
    };

    /// All elements in the order of their registers, for a fragment without gaps; accumulators are
    /// ordered by instruction.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn values(&self) -> &[T] {
        #[cfg(not(target_arch = "nvptx64"))]
        self.assert_written(0, Self::COUNT);
        // SAFETY: inside the room, aligned like its elements; the code that created the
        // uninitialised fragment has written them.
        unsafe { core::slice::from_raw_parts(self.engine.words.as_ptr().cast(), const { Self::COUNT }) }
    }

    /// [`values`](Self::values), mutable.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn values_mut(&mut self) -> &mut [T] {
        #[cfg(not(target_arch = "nvptx64"))]
        self.assert_written(0, Self::COUNT);
        let bytes = const { Self::COUNT * T::BYTES };
        // SAFETY: as in `values`.
        unsafe {
            core::slice::from_raw_parts_mut(self.engine.words.written(0, bytes).cast(), const { Self::COUNT })
        }
    }
}

impl<T: Storable, L: StaticLayout> Fragment<T, L> {
    /// A fragment with every element `value`.
    #[inline(always)]
    pub fn filled(value: T) -> Self {
        // SAFETY: filled at once.
        let mut fragment = unsafe { Self::untracked() };
        for i in 0..Self::SIZE {
            // SAFETY: inside the fragment.
            unsafe { fragment.set(i, value) };
        }
        fragment
    }
}

impl<E: Engine<Element: Fma>, L: StaticLayout> Tensor<E, L> {
    /// A fragment of this tensor's shape, all zeros: an accumulator.
    #[inline(always)]
    pub fn accumulator(&self) -> Fragment<E::Element, FragmentLike<L>> {
        const { one_tile("accumulator", E::OPEN_AXES, &L::LAYOUT) };
        Fragment::filled(E::Element::ZERO)
    }
}

impl<E: Engine, L: StaticLayout> Tensor<E, L> {
    /// A zero fragment of this tensor's shape: the destination of a copy of the tensor.
    #[inline(always)]
    pub fn fragment(&self) -> Fragment<E::Element, FragmentLike<L>> {
        const { one_tile("fragment", E::OPEN_AXES, &L::LAYOUT) };
        Fragment::zeros()
    }

    /// An uninitialised fragment of this tensor's shape, CuTe's `make_fragment_like`.
    ///
    /// # Safety
    /// Every element is written before it is read.
    #[inline(always)]
    pub unsafe fn make_fragment_like(&self) -> Fragment<E::Element, FragmentLike<L>> {
        const { one_tile("make_fragment_like", E::OPEN_AXES, &L::LAYOUT) };
        // SAFETY: the caller writes every element before it reads it.
        unsafe { Fragment::uninit() }
    }
}

/// The run length of registers.
pub struct RegistersRun<T, L>(PhantomData<(T, L)>);

impl<T: Storable, L: StaticLayout> Length for RegistersRun<T, L> {
    const LENGTH: usize = run(L::LAYOUT, PLAIN, 1, L::ORIGIN, (128 / T::BITS) as usize);
}

macro_rules! registers {
    ($engine:ty, $($lifetime:lifetime)?, |$own:ident| $origin:expr) => {
        impl<$($lifetime,)? T: Storable> Engine for $engine {
            type Element = T;
        }

        // SAFETY: `run` finds groups of consecutive offsets that start at multiples of their
        // length, origin included, and the room is aligned to 16 bytes.
        unsafe impl<$($lifetime,)? T: Storable> Access for $engine {
            type Run<L: StaticLayout> = RegistersRun<T, L>;

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load<L: StaticLayout, W: Word>(&self, index: usize) -> W {
                assert_element(index, Tensor::<Self, L>::SIZE, &L::LAYOUT);
                let $own = self;
                // SAFETY: `index` is below the size of `L`.
                let byte = unsafe { byte_read::<T, L>(index, $origin) };
                #[cfg(not(target_arch = "nvptx64"))]
                self.words.check(byte, size_of::<W>(), index, &L::LAYOUT);
                // SAFETY: inside the array, aligned by `Run`; the caller has written the elements.
                unsafe { self.words.as_ptr().add(byte).cast::<W>().read() }
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load_one<L: StaticLayout>(&self, index: usize) -> T {
                assert_element(index, Tensor::<Self, L>::SIZE, &L::LAYOUT);
                let $own = self;
                #[cfg(not(target_arch = "nvptx64"))]
                self.words.check(byte_of::<T, L>(index, $origin), element_bytes::<T>(), index, &L::LAYOUT);
                // SAFETY: inside the array; the caller has written the element.
                unsafe { T::read_own(self.words.as_ptr().cast(), place_read::<L>(index, $origin)) }
            }

            #[cfg(not(target_arch = "nvptx64"))]
            #[track_caller]
            fn assert_written<L: StaticLayout>(&self, index: usize, count: usize) {
                let $own = self;
                for index in index..(index + count).min(Tensor::<Self, L>::SIZE) {
                    self.words.check(byte_of::<T, L>(index, $origin), element_bytes::<T>(), index, &L::LAYOUT);
                }
            }

            #[inline(always)]
            fn exists<L: StaticLayout>(&self, _: usize) -> bool {
                true
            }
        }
    };
}
registers!(Registers<T>, , |_own| 0);
registers!(RegistersRef<'a, T>, 'a, |own| own.origin);
registers!(RegistersMut<'a, T>, 'a, |own| own.origin);

macro_rules! registers_mut {
    ($engine:ty, $($lifetime:lifetime)?, |$own:ident| $origin:expr) => {
        // SAFETY: as for `Access`.
        unsafe impl<$($lifetime,)? T: Storable> AccessMut for $engine {
            #[inline(always)]
            unsafe fn store<L: StaticLayout, W: Word>(&mut self, index: usize, word: W) {
                assert_element(index, Tensor::<Self, L>::SIZE, &L::LAYOUT);
                let $own = &*self;
                let byte = byte_of::<T, L>(index, $origin);
                // SAFETY: inside the room, aligned by `Run`.
                unsafe { self.words.written(byte, size_of::<W>()).add(byte).cast::<W>().write(word) }
            }

            #[inline(always)]
            unsafe fn store_one<L: StaticLayout>(&mut self, index: usize, value: T) {
                assert_element(index, Tensor::<Self, L>::SIZE, &L::LAYOUT);
                let $own = &*self;
                let place = place::<L>(index, $origin);
                let byte = place * T::BITS as usize / 8;
                // SAFETY: inside the room, which is initialised to zeros for elements smaller than
                // a byte.
                unsafe { T::write_own(self.words.written(byte, element_bytes::<T>()).cast(), place, value) }
            }

            #[cfg(not(target_arch = "nvptx64"))]
            fn leave<L: StaticLayout>(&mut self, index: usize, count: usize) {
                let $own = &*self;
                let origin = $origin;
                for index in index..(index + count).min(Tensor::<Self, L>::SIZE) {
                    self.words.leave(byte_of::<T, L>(index, origin), element_bytes::<T>());
                }
            }
        }
    };
}
registers_mut!(Registers<T>, , |_own| 0);
registers_mut!(RegistersMut<'a, T>, 'a, |own| own.origin);

macro_rules! elements {
    ($engine:ty, $($lifetime:lifetime)?, |$own:ident| $origin:expr) => {
        impl<$($lifetime,)? T: Element> $engine {
            /// An element.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub(super) fn element<L: StaticLayout>(&self, index: usize) -> &T {
                assert_element(index, Tensor::<Self, L>::SIZE, &L::LAYOUT);
                let $own = self;
                let place = place_within::<T, L>(index, $origin);
                #[cfg(not(target_arch = "nvptx64"))]
                self.words.check(place * T::BYTES, T::BYTES, index, &L::LAYOUT);
                // SAFETY: inside the array, aligned like its elements; the code that created the
                // uninitialised fragment has written them.
                unsafe { &*self.words.as_ptr().cast::<T>().add(place) }
            }
        }
    };
}
elements!(Registers<T>, , |_own| 0);
elements!(RegistersRef<'a, T>, 'a, |own| own.origin);
elements!(RegistersMut<'a, T>, 'a, |own| own.origin);

macro_rules! elements_mut {
    ($engine:ty, $($lifetime:lifetime)?, |$own:ident| $origin:expr) => {
        impl<$($lifetime,)? T: Element> $engine {
            /// A mutable element.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub(super) fn element_mut<L: StaticLayout>(&mut self, index: usize) -> &mut T {
                assert_element(index, Tensor::<Self, L>::SIZE, &L::LAYOUT);
                let $own = &*self;
                let place = place_within::<T, L>(index, $origin);
                // SAFETY: inside the room, aligned like its elements, borrowed as long as the
                // element; any bits are a valid value.
                unsafe { &mut *self.words.written(place * T::BYTES, T::BYTES).cast::<T>().add(place) }
            }
        }
    };
}
elements_mut!(Registers<T>, , |_own| 0);
elements_mut!(RegistersMut<'a, T>, 'a, |own| own.origin);

/// Checks that the fragment has the element; otherwise the simulator faults. A separate function,
/// so that the message is not built at each access.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
fn assert_element(index: usize, size: usize, layout: &'static Layout) {
    #[cfg(not(target_arch = "nvptx64"))]
    if index >= size {
        no_element(index, layout);
    }
    #[cfg(target_arch = "nvptx64")]
    let _ = (index, size, layout);
}

#[cfg(not(target_arch = "nvptx64"))]
#[cold]
#[inline(never)]
#[track_caller]
fn no_element(index: usize, layout: &Layout) -> ! {
    panic!("element {index} of the {layout} of a fragment")
}

/// The index of an element in the array, inside the array for any input: an index out of bounds
/// leads to another element (and to a fault in the simulator). For constants the computation
/// vanishes.
#[inline(always)]
fn place_within<T: Element, L: StaticLayout>(index: usize, origin: u32) -> usize {
    const { assert!(ROOM.is_power_of_two() && MAX_ELEMENTS.is_power_of_two()) };
    let place = (Offsets::<L, PLAIN>::TABLE[index % MAX_ELEMENTS] + origin as i32) as usize;
    if T::BYTES.is_power_of_two() { place % (ROOM / T::BYTES) } else { place.min(ROOM / T::BYTES - 1) }
}

/// The index of an element in the array.
#[inline(always)]
fn place<L: StaticLayout>(index: usize, origin: u32) -> usize {
    (Offsets::<L, PLAIN>::TABLE[index] + origin as i32) as usize
}

/// The start of an element in the array, in bytes. An element smaller than a byte must be the first
/// in its byte, since an access is a whole word.
#[inline(always)]
fn byte_of<T: Storable, L: StaticLayout>(index: usize, origin: u32) -> usize {
    place::<L>(index, origin) * T::BITS as usize / 8
}

/// Bytes of an access to an element.
#[inline(always)]
const fn element_bytes<T: Storable>() -> usize {
    ((T::BITS + 7) / 8) as usize
}

/// [`place`] of an element that is read, without a check of the table's bounds.
///
/// The check never reaches the PTX, because all loops over fragments are unrolled. But LLVM finds
/// that out only after unrolling, in time quadratic in the number of checks: 1024 in a product by
/// multiply-adds for reads of the accumulators, and the same for writes. The checks of writes stay:
/// without them six shipped kernels had the same instructions in another order.
///
/// # Safety
/// `L` has an element `index`.
#[inline(always)]
unsafe fn place_read<L: StaticLayout>(index: usize, origin: u32) -> usize {
    // SAFETY: `L` has an element `index`.
    (unsafe { Offsets::<L, PLAIN>::of(index) } + origin as i32) as usize
}

/// [`byte_of`] an element that is read.
///
/// # Safety
/// Same contract as [`place_read`].
#[inline(always)]
unsafe fn byte_read<T: Storable, L: StaticLayout>(index: usize, origin: u32) -> usize {
    // SAFETY: `L` has an element `index`.
    unsafe { place_read::<L>(index, origin) * T::BITS as usize / 8 }
}
