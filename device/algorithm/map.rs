//! Elementwise kernels: `map`.

use super::map_modes::{ELEMENTS, MAP_THREADS, MapModes, MapPlace, VECTORS};
use crate::arch::{Convert, Word, Word64x2, Word128, block_idx, opaque, simulator_assert, thread_idx};
use crate::atom::TilingError;
use crate::layout::layout;
use crate::memory::{Element, Global, GlobalMut, GlobalPointer as _};
use crate::static_layout;
use crate::tensor::{Access as _, AccessMut as _, ElementIndex, Fragment, StaticLayout};

/// Sets each element of `out` to `f` of the elements of the inputs at the same index, which are
/// converted to `V` first; the result is converted to `out`'s type.
///
/// The inputs are a tuple of up to four pointers. Extents and strides are those of `modes`, which
/// the host computes ([`MapModes::launches`]): any strides, 0 to broadcast. If the operands allow
/// it, each access has 16 bytes (of the widest element), and a thread loads four vectors of each
/// input before it uses them. An input whose address is 0 reads as zeros.
///
/// ```
/// use moye_device::algorithm::{MAP_THREADS, MapModes, MapOperand, map};
/// use moye_device::prelude::*;
///
/// /// `out = x * sigmoid(y) + z`, of any strides.
/// ///
/// /// # Safety
/// /// The operands have the elements of `modes`.
/// #[kernel(threads = MAP_THREADS, instances = (gate_f32<f32>, gate_bf16<bf16>))]
/// pub unsafe fn gate<T: Element + Convert<f32>>(
///     x: Global<T>,
///     y: Global<T>,
///     z: Global<T>,
///     out: GlobalMut<T>,
///     modes: MapModes<3>,
/// ) where
///     f32: Convert<T>,
/// {
///     let sigmoid = |y: f32| math::fast::rcp(1.0 + math::fast::exp(-y));
///     map((x, y, z), out, &modes, |[x, y, z]: [f32; 3]| x * sigmoid(y) + z);
/// }
/// # use half::bf16;
/// # let memory = moye_sim::GlobalMemory::new();
/// // 5 rows of 100 elements; `y` is one row, `z` one column.
/// let [x, y, z] = [500, 100, 5].map(|n| memory.upload(&vec![1.0f32; n], "operand").unwrap());
/// let out = memory.upload(&[f32::NAN; 500], "out").unwrap();
/// let operand = |address, strides| MapOperand { address, bytes: 4, strides };
/// let inputs = [
///     operand(x.address(), &[100, 1]),
///     operand(y.address(), &[0, 1]),
///     operand(z.address(), &[1, 0]),
/// ];
/// for launch in MapModes::launches(&[5, 100], inputs, operand(out.address(), &[100, 1])) {
///     let [x, y, z] = launch.inputs.map(Global::from_address);
///     let arguments = (x, y, z, GlobalMut::from_address(launch.out), launch.modes);
///     // SAFETY: the operands have these elements.
///     unsafe { gate_f32.simulate(&memory, launch.modes.blocks(), MAP_THREADS, arguments) }.unwrap();
/// }
/// assert_eq!(out.download::<f32>()[499], 1.0 + 1.0 / (1.0 + (-1.0f32).exp()));
/// ```
///
/// # Safety
/// All threads of blocks of [`MAP_THREADS`] call it, in [`MapModes::blocks`] blocks. The operands
/// have the elements of `modes` and the element sizes and addresses for which `modes` were
/// computed. The elements of `out` are distinct; it is an input, with the same strides, or overlaps
/// none.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn map<I, V, R, U, const N: usize>(
    inputs: I,
    out: GlobalMut<U>,
    modes: &MapModes<N>,
    f: impl Fn([V; N]) -> R,
) where
    I: MapInputs<V, N>,
    U: Element,
    R: Convert<U>,
{
    // SAFETY: the operands hold the elements of the modes, and allow vectors where these have them.
    unsafe {
        if modes.vector > 1 {
            vectors::<Vectors<I, U>, _, _, _, _, N>(inputs, out, modes, &f);
            // A vector has a power of two of elements.
            if modes.columns as u32 & (modes.vector - 1) != 0 {
                remainders::<Vectors<I, U>, _, _, _, _, N>(inputs, out, modes, &f);
            }
        } else {
            vectors::<Elements, _, _, _, _, N>(inputs, out, modes, &f);
        }
    }
}

/// Pointers to global memory.
pub trait MapPointers: Copy + 'static {
    /// Bytes of the widest element.
    #[doc(hidden)]
    const BYTES: usize;
}

/// The inputs of [`map`]: a tuple of up to four [`Global`] pointers to elements that are converted
/// to `V`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` are not the inputs of a map of {N} values `{V}`",
    note = "the inputs are a tuple of up to four pointers, `(x,)` or `(x, y)`: `Global<T>` with `T: Convert<{V}>`"
)]
pub trait MapInputs<V, const N: usize>: MapPointers {
    /// A thread's elements of each input.
    #[doc(hidden)]
    type Fragments<L: StaticLayout>;

    #[doc(hidden)]
    fn fragments<L: StaticLayout>() -> Self::Fragments<L>;

    /// Loads the vectors at `offsets` that are `whole`, and zeros for the others; only the first
    /// element if `splat`.
    ///
    /// # Safety
    /// Same contract as [`map`].
    #[doc(hidden)]
    unsafe fn load<L: StaticLayout>(
        self,
        fragments: &mut Self::Fragments<L>,
        places: &[([i64; N], bool)],
        splat: [bool; N],
    );

    /// Copies the first element of each vector to its other elements, for inputs of `splat`.
    #[doc(hidden)]
    fn spread<L: StaticLayout>(fragments: &mut Self::Fragments<L>, splat: [bool; N]);

    /// Elements `i` of the fragments.
    #[doc(hidden)]
    fn values<L: StaticLayout>(fragments: &Self::Fragments<L>, i: usize) -> [V; N];

    /// The elements at `offsets`.
    ///
    /// # Safety
    /// Same contract as [`map`].
    #[doc(hidden)]
    unsafe fn read(self, offsets: [i64; N]) -> [V; N];
}

static_layout! {
    /// A thread's elements: (vector, vectors).
    Vectors<I: MapPointers, U: Element> = layout!((vector(I::BYTES, U::BYTES), VECTORS as i64));
    Elements = layout!((1, ELEMENTS as i64));
}

/// Elements of a vector: 16 bytes of the wider of two elements.
const fn vector(inputs: usize, out: usize) -> i64 {
    let widest = if inputs > out { inputs } else { out };
    if widest < 16 { (16 / widest) as i64 } else { 1 }
}

/// Elements of a vector and vectors of a thread.
const fn extents<L: StaticLayout>() -> (usize, usize) {
    (L::LAYOUT.extent(0) as usize, L::LAYOUT.extent(1) as usize)
}

/// Maps the whole vectors of a thread.
///
/// # Safety
/// Same contract as [`map`], and the operands allow vectors of `L`.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn vectors<L, I, V, R, U, const N: usize>(
    inputs: I,
    out: GlobalMut<U>,
    modes: &MapModes<N>,
    f: &impl Fn([V; N]) -> R,
) where
    L: StaticLayout,
    I: MapInputs<V, N>,
    U: Element,
    R: Convert<U>,
{
    let (vector, count) = const { extents::<L>() };
    simulator_assert!(
        modes.vector == vector as u32,
        "modes of vectors of {} elements, and these elements take {vector}: make the modes for the kernel's elements",
        modes.vector
    );
    let first = block_idx().x * (MAP_THREADS * count as u32) + thread_idx().x;
    let mut places = [MapPlace { inputs: [0; N], out: 0, elements: 0 }; ELEMENTS as usize];
    let mut from = [([0; N], false); ELEMENTS as usize];
    for i in 0..count {
        places[i] = modes.place_of(first + i as u32 * MAP_THREADS, vector as u32);
        from[i] = (places[i].inputs, places[i].elements == vector as u32);
    }
    let splat = modes.inputs[0].map(|stride| vector > 1 && stride == 0);
    let mut loaded = I::fragments::<L>();
    // SAFETY: the vectors that are loaded are whole.
    unsafe { inputs.load::<L>(&mut loaded, &from[..count], splat) };
    // After all loads, for which it waits.
    I::spread::<L>(&mut loaded, splat);
    let mut results = Fragment::<U, L>::zeros(); // (vector, vectors)
    for i in 0..count {
        let first = i * vector;
        for pair in 0..vector / 2 {
            let at = first + 2 * pair;
            let pair = [at, at + 1].map(|at| f(I::values::<L>(&loaded, at)));
            [results[at], results[at + 1]] = R::convert_pair(pair);
        }
        if vector == 1 {
            results[first] = f(I::values::<L>(&loaded, first)).convert();
        }
        // SAFETY: the vector is whole if it is stored, and aligned.
        unsafe { store_vector_if(from[i].1, out.offset(places[i].out), &results, first) };
    }
}

/// Maps the vectors of a thread that the end of mode 0 cuts, element by element.
///
/// # Safety
/// Same contract as [`map`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn remainders<L, I, V, R, U, const N: usize>(
    inputs: I,
    out: GlobalMut<U>,
    modes: &MapModes<N>,
    f: &impl Fn([V; N]) -> R,
) where
    L: StaticLayout,
    I: MapInputs<V, N>,
    U: Element,
    R: Convert<U>,
{
    let (vector, count) = const { extents::<L>() };
    let first = block_idx().x * (MAP_THREADS * count as u32) + thread_idx().x;
    // A loop that is not unrolled: there is one such vector a row.
    for i in 0..opaque(count as u32) {
        let MapPlace { inputs: mut from, out: to, elements } =
            modes.place_of(first + i * MAP_THREADS, vector as u32);
        if elements == vector as u32 {
            continue;
        }
        for j in 0..opaque(elements) {
            // SAFETY: the element exists.
            unsafe { out.write(to + i64::from(j), f(inputs.read(from)).convert()) };
            // Indexed: with an iterator the places would be in local memory.
            #[allow(clippy::needless_range_loop, reason = "see above")]
            for k in 0..N {
                from[k] += modes.inputs[0][k];
            }
        }
    }
}

macro_rules! inputs {
    ($count:literal: $($element:ident $at:tt),*) => {
        impl<$($element: Element),*> MapPointers for ($(Global<$element>,)*) {
            const BYTES: usize = {
                #[allow(unused_mut, reason = "there may be no input")]
                let mut bytes = 1;
                $(if $element::BYTES > bytes {
                    bytes = $element::BYTES;
                })*
                bytes
            };
        }

        #[allow(unused_variables, clippy::unused_unit, reason = "there may be no input")]
        impl<V, $($element: Element + Convert<V>),*> MapInputs<V, $count> for ($(Global<$element>,)*) {
            type Fragments<L: StaticLayout> = ($(Fragment<$element, L>,)*);

            #[inline(always)]
            fn fragments<L: StaticLayout>() -> Self::Fragments<L> {
                ($(Fragment::<$element, L>::zeros(),)*)
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn load<L: StaticLayout>(
                self,
                fragments: &mut Self::Fragments<L>,
                places: &[([i64; $count], bool)],
                splat: [bool; $count],
            ) {
                let (vector, count) = const { extents::<L>() };
                $(
                    let exists = self.$at.address() != 0;
                    // SAFETY: a vector that is loaded is whole, and aligned unless `splat`.
                    unsafe {
                        if splat[$at] {
                            for i in 0..count {
                                let (offsets, whole) = places[i];
                                let from = self.$at.offset(offsets[$at]);
                                fragments.$at[i * vector] = from.read_if(whole && exists);
                            }
                        } else {
                            for i in 0..count {
                                let (offsets, whole) = places[i];
                                let from = self.$at.offset(offsets[$at]);
                                load_vector_if(whole && exists, from, &mut fragments.$at, i * vector);
                            }
                        }
                    }
                )*
            }

            #[inline(always)]
            fn spread<L: StaticLayout>(fragments: &mut Self::Fragments<L>, splat: [bool; $count]) {
                let (vector, count) = const { extents::<L>() };
                $(if splat[$at] {
                    for i in 0..count {
                        let first = fragments.$at[i * vector];
                        for j in 1..vector {
                            fragments.$at[i * vector + j] = first;
                        }
                    }
                })*
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn values<L: StaticLayout>(fragments: &Self::Fragments<L>, i: usize) -> [V; $count] {
                [$(fragments.$at[i].convert()),*]
            }

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn read(self, offsets: [i64; $count]) -> [V; $count] {
                [$({
                    // SAFETY: the element exists, unless the input is left out.
                    unsafe { self.$at.offset(offsets[$at]).read_if(self.$at.address() != 0) }.convert()
                }),*]
            }
        }
    };
}
inputs!(0:);
inputs!(1: A 0);
inputs!(2: A 0, B 1);
inputs!(3: A 0, B 1, C 2);
inputs!(4: A 0, B 1, C 2, D 3);

/// Bytes of a vector that one instruction moves, or a compile error.
const fn bytes_of_vector(vector: usize, bytes: usize) -> usize {
    let all = vector * bytes;
    if vector > 1 && !matches!(all, 2 | 4 | 8 | 16) {
        TilingError::of("a vector")
            .int(vector as i64)
            .str(" elements have ")
            .int(all as i64)
            .str(" bytes, and one instruction moves 2, 4, 8 or 16: take a fragment of another mode 0")
            .raise();
    }
    all
}

/// Calls `$access` with the word type of a vector.
macro_rules! by_word {
    ($t:ty, $layout:ty, $access:ident) => {
        match const { bytes_of_vector(extents::<$layout>().0, <$t>::BYTES) } {
            _ if const { extents::<$layout>().0 == 1 } => $access!(<$t as Element>::Bits),
            16 => $access!(Word128),
            8 => $access!(Word64x2),
            4 => $access!(u32),
            _ => $access!(u16),
        }
    };
}

/// Loads consecutive elements by one instruction if `valid`, zeros otherwise: mode 0 of the
/// fragment, at most 16 bytes, to its elements from `first` on.
///
/// # Safety
/// If `valid`, the elements are readable and aligned to their common size. `first` is a multiple of
/// their number.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn load_vector_if<T: Element, L: StaticLayout>(
    valid: bool,
    source: Global<T>,
    destination: &mut Fragment<T, L>,
    first: impl ElementIndex<L>,
) {
    let first = first.element_index();
    macro_rules! load {
        ($word:ty) => {
            // SAFETY: if `valid`, the vector may be accessed, and starts at a multiple of its size.
            unsafe {
                let word = <$word>::load_global_if(valid, source.address());
                destination.engine_mut().store::<L, $word>(first, word);
            }
        };
    }
    by_word!(T, L, load)
}

/// Stores elements of a fragment if `valid`, by one instruction: see [`load_vector_if`].
///
/// # Safety
/// If `valid`, the elements are writable and aligned to their common size. `first` is a multiple of
/// their number.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_vector_if<T: Element, L: StaticLayout>(
    valid: bool,
    destination: GlobalMut<T>,
    source: &Fragment<T, L>,
    first: impl ElementIndex<L>,
) {
    let first = first.element_index();
    macro_rules! store {
        ($word:ty) => {
            // SAFETY: if `valid`, the vector may be accessed, and starts at a multiple of its size.
            unsafe {
                let word = source.engine().load::<L, $word>(first);
                <$word>::store_global_if(valid, destination.address(), word);
            }
        };
    }
    by_word!(T, L, store)
}
