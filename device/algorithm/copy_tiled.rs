//! Copies by a tiled copy's atom: a thread's partitions, instruction by instruction.

use super::copy::{AccessBits, SameSize, Where, copy_where, elements_where};
use crate::atom::copy::{AnySpace, CopyAtom, GlobalMemory, MemorySpace, RegisterFile, SharedMemory, Side};
use crate::atom::{StaticTiledCopy, TilingError};
use crate::layout::Layout;
use crate::memory::{Element, GlobalPointer, Shared, SharedPacked, Storable};
use crate::number::Scalar;
use crate::tensor::{
    Access, AccessMut, Engine, Registers, RegistersMut, RegistersRef, StaticLayout, Strided, Strides, Tensor,
    run_of,
};
use core::marker::PhantomData;

/// An engine that a copy atom with the source side `S` can read from.
///
/// # Safety
/// `input` satisfies the side's contract: the address of the element, or the words that start at
/// it.
#[diagnostic::on_unimplemented(
    message = "the copy atom reads from `{S}`, and the source tensor's elements are in `{Self}`",
    note = "`cp.async` reads global memory and writes shared memory, `ldmatrix` reads shared memory and writes registers, \
            `stmatrix` the other way round; `UniversalCopy` goes between any two"
)]
pub unsafe trait CopySource<S: Side> {
    /// Whether elements may be out of bounds of a matrix.
    const CHECKED: bool = false;

    /// The operand of the atom's call for the elements from `index` on.
    ///
    /// # Safety
    /// Elements in bounds are readable; the elements of one call are contiguous.
    unsafe fn input<L: StaticLayout>(&self, index: usize) -> S::Input;

    /// The number of the `count` elements from `index` on that are in bounds.
    #[inline(always)]
    fn existing_of<L: StaticLayout>(&self, _index: usize, count: usize) -> u32 {
        count as u32
    }
}

/// An engine that a copy atom with the destination side `S` can write to.
///
/// # Safety
/// Same contract as [`CopySource`].
#[diagnostic::on_unimplemented(
    message = "the copy atom writes to `{S}`, and the destination tensor's elements are in `{Self}`",
    note = "`cp.async` reads global memory and writes shared memory, `ldmatrix` reads shared memory and writes registers, \
            `stmatrix` the other way round; `UniversalCopy` goes between any two"
)]
pub unsafe trait CopyDestination<S: Side> {
    /// The destination of the elements from `index` on, if the atom's call writes them directly.
    fn place<L: StaticLayout>(&self, index: usize) -> S::Place;

    /// Stores the result of the atom's call for the elements from `index` on.
    ///
    /// # Safety
    /// The elements are writable; the elements of one call are contiguous.
    unsafe fn accept<L: StaticLayout>(&mut self, index: usize, output: S::Output);
}

// SAFETY: the element's address.
unsafe impl<P: GlobalPointer, S: Strides, R> CopySource<GlobalMemory> for Strided<P, S, R> {
    const CHECKED: bool = !S::WHOLE;

    #[inline(always)]
    unsafe fn input<L: StaticLayout>(&self, index: usize) -> u64 {
        self.address::<L>(index)
    }

    #[inline(always)]
    fn existing_of<L: StaticLayout>(&self, index: usize, count: usize) -> u32 {
        self.existing::<L>(index, count)
    }
}

/// An engine that the copy atom `A`, with the source side `S`, reads from:
/// `ReadBy<C::Atom, <C::Atom as CopyAtom>::Source>` for a tiled copy `C`. It equals
/// [`CopySource<S>`], and puts the atom's name into the compiler's message. [`Access`] and the
/// element type are separate bounds, since a combined bound of a generic kernel would hide them.
#[diagnostic::on_unimplemented(
    message = "the copy atom `{A}` reads from `{S}`, and the source tensor's elements are in `{Self}`",
    label = "not in `{S}`, which `{A}` reads",
    note = "`cp.async` reads global memory and writes shared memory, `ldmatrix` reads shared memory and writes registers, \
            `stmatrix` the other way round; `UniversalCopy` goes between any two"
)]
pub trait ReadBy<A: CopyAtom, S: Side = <A as CopyAtom>::Source>: CopySource<S> {}

impl<A: CopyAtom, S: Side, E: CopySource<S>> ReadBy<A, S> for E {}

/// An engine that the copy atom `A`, with the destination side `S`, writes to; see [`ReadBy`].
#[diagnostic::on_unimplemented(
    message = "the copy atom `{A}` writes to `{S}`, and the destination tensor's elements are in `{Self}`",
    label = "not in `{S}`, which `{A}` writes",
    note = "`cp.async` reads global memory and writes shared memory, `ldmatrix` reads shared memory and writes registers, \
            `stmatrix` the other way round; `UniversalCopy` goes between any two"
)]
pub trait WrittenBy<A: CopyAtom, S: Side = <A as CopyAtom>::Destination>: CopyDestination<S> {}

impl<A: CopyAtom, S: Side, E: CopyDestination<S>> WrittenBy<A, S> for E {}

macro_rules! shared {
    ($pointer:ident, $($bound:tt)+) => {
        // SAFETY: the element's address.
        unsafe impl<T: $($bound)+> CopySource<SharedMemory> for $pointer<T> {
            #[inline(always)]
            unsafe fn input<L: StaticLayout>(&self, index: usize) -> u32 {
                self.address_of::<L>(index)
            }
        }

        // SAFETY: the element's address.
        unsafe impl<T: $($bound)+> CopyDestination<SharedMemory> for $pointer<T> {
            #[inline(always)]
            fn place<L: StaticLayout>(&self, index: usize) -> u32 {
                self.address_of::<L>(index)
            }

            #[inline(always)]
            unsafe fn accept<L: StaticLayout>(&mut self, _: usize, (): ()) {}
        }
    };
}
shared!(Shared, Element);
shared!(SharedPacked, Scalar + Storable);

// SAFETY: the words that start at the element.
unsafe impl<W: Element, E: Access> CopySource<AnySpace<W>> for E {
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn input<L: StaticLayout>(&self, index: usize) -> W {
        // SAFETY: in-bounds elements are readable.
        W::from_bits(unsafe { self.load::<L, W::Bits>(index) })
    }
}

// SAFETY: the words that start at the element.
unsafe impl<W: Element, E: AccessMut> CopyDestination<AnySpace<W>> for E {
    #[inline(always)]
    fn place<L: StaticLayout>(&self, _: usize) {}

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn accept<L: StaticLayout>(&mut self, index: usize, output: W) {
        // SAFETY: the elements are writable.
        unsafe { self.store::<L, _>(index, output.to_bits()) }
    }
}

// SAFETY: no contract: the copy without an atom is complete.
unsafe impl<E: Access> CopySource<AnySpace<()>> for E {
    #[inline(always)]
    unsafe fn input<L: StaticLayout>(&self, _: usize) {}
}

// SAFETY: no contract, as for sources.
unsafe impl<E: AccessMut> CopyDestination<AnySpace<()>> for E {
    #[inline(always)]
    fn place<L: StaticLayout>(&self, _: usize) {}

    #[inline(always)]
    unsafe fn accept<L: StaticLayout>(&mut self, _: usize, (): ()) {}
}

macro_rules! register_source {
    ($engine:ty $(, $lifetime:lifetime)?) => {
        // SAFETY: the words that start at the element.
        unsafe impl<$($lifetime,)? T: Storable, const N: usize> CopySource<RegisterFile<N>> for $engine
        {
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn input<L: StaticLayout>(&self, index: usize) -> [u32; N] {
                // SAFETY: in-bounds elements are readable, and a run has whole words.
                unsafe { load_words::<T, Self, L, N>(self, index) }
            }
        }
    };
}
register_source!(Registers<T>);
register_source!(RegistersRef<'a, T>, 'a);
register_source!(RegistersMut<'a, T>, 'a);

/// `N` words of 32 bits that start at an element.
///
/// # Safety
/// Same contract as [`CopySource::input`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load_words<T: Storable, E: Access, L: StaticLayout, const N: usize>(
    engine: &E,
    index: usize,
) -> [u32; N] {
    const { whole_words::<T>(run_of::<E, L>(), L::LAYOUT) };
    #[cfg(not(target_arch = "nvptx64"))]
    engine.assert_written::<L>(index, N * per_word::<T>());
    let mut words = [0; N];
    // No `from_fn`: faults would name its closure instead of the kernel's line.
    for (i, word) in words.iter_mut().enumerate() {
        // SAFETY: the run may be accessed, and has whole words.
        *word = unsafe { engine.load::<L, u32>(index + i * per_word::<T>()) };
    }
    words
}

macro_rules! register_destination {
    ($engine:ty $(, $lifetime:lifetime)?) => {
        // SAFETY: the words that start at the element.
        unsafe impl<$($lifetime,)? T: Storable, const N: usize> CopyDestination<RegisterFile<N>> for $engine
        {
            #[inline(always)]
            fn place<L: StaticLayout>(&self, _: usize) {}

            #[inline(always)]
            unsafe fn accept<L: StaticLayout>(&mut self, index: usize, output: [u32; N]) {
                const { whole_words::<T>(run_of::<Self, L>(), L::LAYOUT) };
                for word in 0..N {
                    // SAFETY: the run may be accessed, and has whole words.
                    unsafe { self.store::<L, _>(index + word * per_word::<T>(), output[word]) };
                }
            }
        }
    };
}
register_destination!(Registers<T>);
register_destination!(RegistersMut<'a, T>, 'a);

/// The elements of a word of 32 bits.
const fn per_word<T: Storable>() -> usize {
    (32 / T::BITS) as usize
}

/// A run of the fragment's elements consists of whole words, or the copy does not compile.
const fn whole_words<T: Storable>(run: usize, fragment: Layout) {
    if (run as i64 * T::BITS) < 32 {
        TilingError::of("copy")
            .str("the atom moves registers of 32 bits, ")
            .int(32 / T::BITS)
            .str(" elements each, and in the fragment ")
            .layout(&fragment)
            .str(" only ")
            .int(run as i64)
            .str(" are contiguous: retile the fragment by this copy (retile_s, retile_d)")
            .raise();
    }
}

/// Source and destination have the same number of atoms, whose elements are contiguous, or the copy
/// does not compile. Returns the number.
const fn atoms<C: StaticTiledCopy>(
    source: Layout,
    destination: Layout,
    source_run: usize,
    destination_run: usize,
) -> usize {
    let atom = C::COPY.atom_layouts();
    let (from, to) = (atom.num_val_src(), atom.num_val_dst());
    let what = "copy";
    if source.size() % from != 0
        || destination.size() % to != 0
        || source.size() / from != destination.size() / to
    {
        let error = TilingError::of(what)
            .str("the source ")
            .layout(&source)
            .str(" has ")
            .int(source.size())
            .str(" values in atoms of ")
            .int(from)
            .str(", the destination ")
            .layout(&destination)
            .str(" has ")
            .int(destination.size())
            .str(" in atoms of ")
            .int(to)
            .str(": partition both by this tiled copy, from tiles of the same shape");
        error.raise();
    }
    let space = <<C::Atom as CopyAtom>::Source as Side>::SPACE as u8;
    together::<C>(what, "source", source, space, source_run, from);
    let space = <<C::Atom as CopyAtom>::Destination as Side>::SPACE as u8;
    together::<C>(what, "destination", destination, space, destination_run, to);
    (source.size() / from) as usize
}

/// The checks of a tiled copy. The function that the user calls and the functions below it use the
/// same constants, so that the compiler reports a mistake once, at the user's line.
pub(crate) struct TiledCall<C, S, LS, D, LD>(PhantomData<(C, S, LS, D, LD)>);

impl<C, S, LS, D, LD> TiledCall<C, S, LS, D, LD>
where
    C: StaticTiledCopy,
    S: Access<Element = C::Element>,
    D: Access<Element = C::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    /// [`atoms`] of a copy whose atom fixes the width; 0 for other atoms, whose sides must have the
    /// same size.
    pub(crate) const COUNT: usize = {
        let () = SameSize::<Automatic<C>, LS, LD>::CHECKED;
        if Automatic::<C>::REACHED {
            0
        } else {
            atoms::<C>(LS::LAYOUT, LD::LAYOUT, run_of::<S, LS>(), run_of::<D, LD>())
        }
    };

    /// If the tensors determine the width, an access moves whole bytes, or the copy does not
    /// compile.
    pub(crate) const WHOLE_BYTES: () = {
        let _ = AccessBits::<Automatic<C>, S, LS, D, LD>::BITS;
    };

    /// The atom supports predicates, or the copy does not compile.
    pub(crate) const TAKES_PREDICATES: () = TakesPredicates::<C>::CHECKED;
}

/// Checks that the atom of a tiled copy supports predicates.
struct TakesPredicates<C>(PhantomData<C>);

impl<C: StaticTiledCopy> TakesPredicates<C> {
    const CHECKED: () = {
        if !Automatic::<C>::REACHED && C::Atom::THR_ID.size() != 1 {
            let error = TilingError::of("copy_if")
                .str("the atom ")
                .str(C::Atom::NAME)
                .str(" is executed by ")
                .int(C::Atom::THR_ID.size())
                .str(" threads together, and a predicate is of one: copy everything with copy, ")
                .str("or take an atom of one thread");
            error.raise();
        }
    };
}

/// Checks that the elements of an atom are contiguous on one side, and aligned to their number.
const fn together<C: StaticTiledCopy>(
    what: &str,
    side: &str,
    layout: Layout,
    space: u8,
    run: usize,
    values: i64,
) {
    let registers = MemorySpace::Registers as u8;
    if space != registers && (run as i64) < values {
        let error = TilingError::of(what)
            .str("the atom ")
            .str(C::Atom::NAME)
            .str(" moves ")
            .int(values)
            .str(" elements of ")
            .int(<C::Element as Storable>::BITS)
            .str(" bits at once, ")
            .int(values * <C::Element as Storable>::BITS / 8)
            .str(" consecutive bytes, and in the ")
            .str(side)
            .str(" ")
            .layout(&layout)
            .str(" only ")
            .int(run as i64)
            .str(" are known to be contiguous and aligned: lay the values along the fast axis, ")
            .str(if space == MemorySpace::Shared as u8 {
                ""
            } else {
                "promise the alignment of global memory (Aligned), "
            })
            .str(if space == MemorySpace::Global as u8 {
                ""
            } else {
                "pad and swizzle shared memory by whole accesses, "
            });
        let error = if C::Atom::THR_ID.size() > 1 {
            error.str(
                "take an instruction in _N for tiles that are contiguous along K and one in _T for others (of 16-bit \
                 elements), or UniversalCopy of ",
            )
        } else {
            error.str("or take an atom of ")
        };
        error.int(run as i64 * <C::Element as Storable>::BITS).str(" bits").raise();
    }
}

/// [`ThrCopy::copy`](crate::atom::ThrCopy::copy), for code that has no slice of the tiled copy.
///
/// # Safety
/// Same contract.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn copy_tiled<C, S, LS, D, LD>(
    _copy: C,
    source: &Tensor<S, LS>,
    destination: &mut Tensor<D, LD>,
) where
    C: StaticTiledCopy,
    S: ReadBy<C::Atom> + Access + Engine<Element = C::Element>,
    D: WrittenBy<C::Atom> + AccessMut + Engine<Element = C::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let count = TiledCall::<C, S, LS, D, LD>::COUNT;
    let () = TiledCall::<C, S, LS, D, LD>::WHOLE_BYTES;
    if Automatic::<C>::REACHED {
        // SAFETY: the source may be read and the destination written.
        return unsafe { copy_where::<Automatic<C>, S, LS, D, LD>(source, destination) };
    }
    for i in 0..count {
        // SAFETY: both sides may be accessed; `atoms` has checked that an atom's elements are
        // contiguous.
        unsafe { one::<C, S, LS, D, LD>(source, destination, i, true) };
    }
}

/// [`ThrCopy::copy_if`](crate::atom::ThrCopy::copy_if).
///
/// # Safety
/// Same contract.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn copy_if<C, S, LS, D, LD>(
    _copy: C,
    predicate: impl Fn(usize) -> bool,
    source: &Tensor<S, LS>,
    destination: &mut Tensor<D, LD>,
) where
    C: StaticTiledCopy,
    S: ReadBy<C::Atom> + Access + Engine<Element = C::Element>,
    D: WrittenBy<C::Atom> + AccessMut + Engine<Element = C::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let () = TiledCall::<C, S, LS, D, LD>::TAKES_PREDICATES;
    let count = TiledCall::<C, S, LS, D, LD>::COUNT;
    if Automatic::<C>::REACHED {
        // SAFETY: the copied elements of both sides may be accessed.
        return unsafe { elements_where::<Automatic<C>, S, LS, D, LD>(predicate, source, destination) };
    }
    for i in 0..count {
        let copies = predicate(i);
        // SAFETY: both sides may be accessed; `atoms` has checked that an atom's elements are
        // contiguous.
        unsafe { one::<C, S, LS, D, LD>(source, destination, i, copies) };
        #[cfg(not(target_arch = "nvptx64"))]
        if !copies {
            let values = C::COPY.atom_layouts().num_val_dst() as usize;
            destination.engine_mut().leave::<LD>(values * i, values);
        }
    }
}

/// A tiled copy whose atom leaves the width to the tensors.
struct Automatic<C>(PhantomData<C>);

impl<C: StaticTiledCopy> Where for Automatic<C> {
    const REACHED: bool = C::Atom::LAYOUTS.src_bytes() == 0;
    const MOST_BITS: i64 = C::Atom::MOST_BITS;
}

/// Copies atom `i`, where `valid`.
///
/// # Safety
/// Same contract as [`copy_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn one<C, S, LS, D, LD>(source: &Tensor<S, LS>, destination: &mut Tensor<D, LD>, i: usize, valid: bool)
where
    C: StaticTiledCopy,
    S: ReadBy<C::Atom> + Access + Engine<Element = C::Element>,
    D: WrittenBy<C::Atom> + AccessMut + Engine<Element = C::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    let (from, to) = const {
        let atom = C::COPY.atom_layouts();
        (atom.num_val_src() as usize, atom.num_val_dst() as usize)
    };
    if !valid && !const { <C::Atom as CopyAtom>::ZERO_FILLS } {
        return;
    }
    let bits = const { <C::Element as Storable>::BITS as u32 };
    let existing = if S::CHECKED { source.engine().existing_of::<LS>(i * from, from) } else { from as u32 };
    // A product, since an `if` may become a branch with a copy in each arm.
    let existing =
        if const { <C::Atom as CopyAtom>::ZERO_FILLS } { u32::from(valid) * existing } else { existing };
    // SAFETY: the elements of atom `i` may be accessed on both sides.
    unsafe {
        if S::CHECKED && bits < 8 && existing * bits % 8 != 0 {
            // The edge of the matrix is within a byte, which no instruction moves in part.
            return copy_bytes::<S, LS, D, LD>(source, destination, i * from, i * to, from);
        }
        let place = destination.engine().place::<LD>(i * to);
        let input = source.engine().input::<LS>(i * from);
        let output = if S::CHECKED || const { <C::Atom as CopyAtom>::ZERO_FILLS } {
            C::Atom::call_partial(existing * bits / 8, input, place)
        } else {
            C::Atom::call(input, place)
        };
        destination.engine_mut().accept::<LD>(i * to, output);
    }
}

/// Copies `count` elements smaller than a byte by loads and stores of bytes; out of bounds elements
/// become zeros.
///
/// # Safety
/// Same contract as [`copy_tiled`]; the elements are contiguous on both sides from `source_index`
/// and `destination_index` on.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn copy_bytes<S, LS, D, LD>(
    source: &Tensor<S, LS>,
    destination: &mut Tensor<D, LD>,
    source_index: usize,
    destination_index: usize,
    count: usize,
) where
    S: Access,
    D: AccessMut + Engine<Element = S::Element>,
    LS: StaticLayout,
    LD: StaticLayout,
{
    for i in (0..count).step_by(const { 8 / S::Element::BITS as usize }) {
        // SAFETY: the bytes are contiguous and may be accessed on both sides.
        unsafe {
            let byte = source.engine().load::<LS, u8>(source_index + i);
            destination.engine_mut().store::<LD, u8>(destination_index + i, byte);
        }
    }
}
