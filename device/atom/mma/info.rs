//! All atoms as data.

use super::*;
use crate::arch::mma::Registers;
use crate::layout::Layout;
use crate::number::Number;

/// The properties of an [`MmaAtom`], as a value.
#[derive(Clone, Copy, Debug)]
pub struct MmaInfo {
    /// See [`MmaAtom::NAME`].
    pub name: &'static str,
    /// See [`MmaAtom::MOYE_NAME`].
    pub moye_name: Option<&'static str>,
    /// See [`MmaAtom::ARCH`].
    pub arch: u32,
    /// See [`MmaAtom::OLDEST_ARCH`].
    pub oldest_arch: u32,
    /// See [`MmaAtom::PTX_VERSION`].
    pub ptx_version: (u32, u32),
    /// See [`MmaAtom::INSTRUCTION`].
    pub instruction: &'static str,
    /// See [`MmaAtom::INSTRUCTION_COUNT`].
    pub instruction_count: usize,
    /// See [`MmaAtom::SHAPE_MNK`].
    pub shape_mnk: [i64; 3],
    /// See [`MmaAtom::THR_ID`].
    pub thr_id: Layout,
    /// The operand A.
    pub a: MmaOperandInfo,
    /// The operand B.
    pub b: MmaOperandInfo,
    /// The operand C.
    pub c: MmaOperandInfo,
    /// The operand D.
    pub d: MmaOperandInfo,
}

/// An operand of an atom.
#[derive(Clone, Copy, Debug)]
pub struct MmaOperandInfo {
    /// The element type's name.
    pub element: &'static str,
    /// The bits of an element.
    pub bits: usize,
    /// The register type's name, such as `f32`.
    pub register: &'static str,
    /// The number of registers of this type for each thread.
    pub registers: usize,
    /// The number of 32-bit registers that these are.
    pub words: usize,
    /// `(thread, value)` to the index in the tile.
    pub layout: Layout,
}

impl MmaOperandInfo {
    const fn of<T: Number, R: Registers>(layout: Layout) -> Self {
        Self {
            element: T::NAME,
            bits: T::WIDTH,
            register: <R::Register as crate::memory::Element>::NAME,
            registers: R::COUNT,
            words: R::WORDS,
            layout,
        }
    }
}

impl MmaInfo {
    /// The atom's properties.
    pub const fn of<M: MmaAtom>() -> Self {
        Self {
            name: M::NAME,
            moye_name: M::MOYE_NAME,
            arch: M::ARCH,
            oldest_arch: M::OLDEST_ARCH,
            ptx_version: M::PTX_VERSION,
            instruction: M::INSTRUCTION,
            instruction_count: M::INSTRUCTION_COUNT,
            shape_mnk: M::SHAPE_MNK,
            thr_id: M::THR_ID,
            a: MmaOperandInfo::of::<M::A, M::RegistersA>(M::A),
            b: MmaOperandInfo::of::<M::B, M::RegistersB>(M::B),
            c: MmaOperandInfo::of::<M::C, M::RegistersC>(M::C),
            d: MmaOperandInfo::of::<M::D, M::RegistersD>(M::D),
        }
    }
}

macro_rules! all {
    (
        $(sync { $sync:ident; $($sync_rest:tt)* })*
        $(same { $same:ident; $($same_rest:tt)* })*
        $(own { $own:ident })*
    ) => {
        /// Every MMA atom.
        pub const MMA_ATOMS: &[MmaInfo] =
            &[$(MmaInfo::of::<$sync>(),)* $(MmaInfo::of::<$same>(),)* $(MmaInfo::of::<$own>(),)*];
    };
}
crate::for_each_mma!(all);
