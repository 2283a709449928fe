//! The trait of copy atoms.

use super::layouts::{BitLayouts, ValueLayouts};
use crate::layout::Layout;
use crate::memory::Storable;
use core::fmt;
use core::marker::PhantomData;

/// The memory of one side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySpace {
    /// Global memory.
    Global,
    /// The block's shared memory.
    Shared,
    /// A thread's registers.
    Registers,
    /// Any of them: the atom moves a word between any two tensors.
    Any,
}

/// One side of a copy as a type: its memory space, and the operand or result of the atom's call.
pub trait Side: 'static {
    /// The space.
    const SPACE: MemorySpace;

    /// The operand of a call for this source: an address in bytes, or the registers.
    type Input: Copy;

    /// The operand of a call for this destination: an address in bytes, or nothing.
    type Place: Copy;

    /// The result of a call for this destination: nothing, or the registers.
    type Output: Copy;
}

/// A side in global memory: a 64-bit address.
pub struct GlobalMemory;

/// A side in shared memory: a 32-bit address.
pub struct SharedMemory;

/// A side of `N` registers of 32 bits.
pub struct RegisterFile<const N: usize>;

/// A side in any memory: the value, which the tensors' engines load and store.
pub struct AnySpace<T>(PhantomData<T>);

impl Side for GlobalMemory {
    const SPACE: MemorySpace = MemorySpace::Global;
    type Input = u64;
    type Place = u64;
    type Output = ();
}

impl Side for SharedMemory {
    const SPACE: MemorySpace = MemorySpace::Shared;
    type Input = u32;
    type Place = u32;
    type Output = ();
}

impl<const N: usize> Side for RegisterFile<N> {
    const SPACE: MemorySpace = MemorySpace::Registers;
    type Input = [u32; N];
    type Place = ();
    type Output = [u32; N];
}

impl<T: Copy + 'static> Side for AnySpace<T> {
    const SPACE: MemorySpace = MemorySpace::Any;
    type Input = T;
    type Place = ();
    type Output = T;
}

/// An instruction that moves data, with its layouts: a zero-sized type, named as in CuTe.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a copy atom",
    note = "copy atoms are `UniversalCopy<T>`, `SM80_CP_ASYNC_CACHEGLOBAL<u128>`, `SM75_U32x4_LDSM_N` and the others of `moye_device::atom::copy`"
)]
pub trait CopyAtom: Copy + Default + Send + Sync + 'static {
    /// CuTe's name, without its parameter.
    const NAME: &'static str;

    /// The parameter in the name's angle brackets, if it has one.
    const PARAMETER: Option<&'static str> = None;

    /// The oldest architecture that has the instruction, 75 for sm_75; 0 if all have it.
    const ARCH: u32;

    /// The PTX instruction, if it is a single one.
    const PTX: Option<&'static str>;

    /// The source's side.
    type Source: Side;

    /// The destination's side.
    type Destination: Side;

    /// The threads that execute it together, as a layout over their indices.
    const THR_ID: Layout;

    /// `(thread, bit)` to the index of the bit in the source.
    const SRC: Layout;

    /// `(thread, bit)` to the index of the bit in the destination.
    const DST: Layout;

    /// `(thread, bit)` to the index of the bit in the order of the data.
    const REF: Layout;

    /// The four layouts.
    const LAYOUTS: BitLayouts =
        BitLayouts { thr_id: Self::THR_ID, src: Self::SRC, dst: Self::DST, reference: Self::REF };

    /// Whether elements that a predicate excludes become zeros; otherwise they keep their values.
    const ZERO_FILLS: bool = false;

    /// The most bits that an access may move, for an atom that leaves the width to the tensors.
    const MOST_BITS: i64 = 128;

    /// Executes the instruction for the first `bytes` bytes of the source; the rest of the
    /// destination becomes zeros.
    ///
    /// Only `cp.async` supports this, and reads nothing past these bytes. Other atoms are called
    /// for all elements.
    ///
    /// # Safety
    /// Same contract as [`CopyAtom::call`], for those bytes of the source.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn call_partial(
        bytes: u32,
        source: <Self::Source as Side>::Input,
        destination: <Self::Destination as Side>::Place,
    ) -> <Self::Destination as Side>::Output {
        let _ = bytes;
        // SAFETY: the atom's source may be read and its destination written.
        unsafe { Self::call(source, destination) }
    }

    /// Executes the instruction.
    ///
    /// # Safety
    /// Same contract as the instruction (`moye_device::arch`): addresses are aligned and their
    /// bytes readable or writable; an instruction of a warp is executed by all 32 lanes together.
    unsafe fn call(
        source: <Self::Source as Side>::Input,
        destination: <Self::Destination as Side>::Place,
    ) -> <Self::Destination as Side>::Output;
}

/// The atom's name with its parameter, for messages and tables: `UniversalCopy<u32>`.
pub fn name<A: CopyAtom>() -> impl fmt::Display {
    Name(A::NAME, A::PARAMETER)
}

struct Name(&'static str, Option<&'static str>);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            Some(parameter) => write!(f, "{}<{parameter}>", self.0),
            None => f.write_str(self.0),
        }
    }
}

/// The atom's layouts in elements of type `T`.
///
/// # Panics
/// If elements of that size would be split between threads; in a `const` this is a compile error.
/// See [`BitLayouts::try_values`].
#[track_caller]
pub const fn values_of<A: CopyAtom, T: Storable>() -> ValueLayouts {
    match A::LAYOUTS.try_values(T::BITS) {
        Ok(values) => values,
        Err(error) => error.tiling(A::NAME).raise(),
    }
}
