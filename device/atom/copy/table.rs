//! All copy atoms as values, for tables and tests.

use super::atom::{CopyAtom, MemorySpace, Side};
use super::layouts::BitLayouts;
use super::*;

/// A copy atom as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyAtomInfo {
    /// CuTe's name, without its parameter.
    pub name: &'static str,
    /// The parameter in angle brackets.
    pub parameter: Option<&'static str>,
    /// The oldest architecture that has it, 75 for sm_75; 0 if all have it.
    pub arch: u32,
    /// The PTX instruction, if it is a single one.
    pub ptx: Option<&'static str>,
    /// The memory of the source.
    pub source: MemorySpace,
    /// The memory of the destination.
    pub destination: MemorySpace,
    /// Its layouts in bits.
    pub layouts: BitLayouts,
}

impl CopyAtomInfo {
    /// The atom as a value.
    pub const fn of<A: CopyAtom>() -> Self {
        Self {
            name: A::NAME,
            parameter: A::PARAMETER,
            arch: A::ARCH,
            ptx: A::PTX,
            source: A::Source::SPACE,
            destination: A::Destination::SPACE,
            layouts: A::LAYOUTS,
        }
    }
}

impl core::fmt::Display for CopyAtomInfo {
    /// The name with its parameter.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.parameter {
            Some(parameter) => write!(f, "{}<{parameter}>", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// All copy atoms; atoms with a type parameter once for each size.
pub const fn copy_atoms() -> &'static [CopyAtomInfo] {
    const ATOMS: &[CopyAtomInfo] = &[
        CopyAtomInfo::of::<UniversalCopy<u8>>(),
        CopyAtomInfo::of::<UniversalCopy<u16>>(),
        CopyAtomInfo::of::<UniversalCopy<u32>>(),
        CopyAtomInfo::of::<UniversalCopy<u64>>(),
        CopyAtomInfo::of::<UniversalCopy<u128>>(),
        CopyAtomInfo::of::<DefaultCopy>(),
        CopyAtomInfo::of::<AutoVectorizingCopy>(),
        CopyAtomInfo::of::<SM50_Shuffle_U32_2x2Trans_XOR1>(),
        CopyAtomInfo::of::<SM50_Shuffle_U32_2x2Trans_XOR4>(),
        CopyAtomInfo::of::<SM75_U32x1_LDSM_N>(),
        CopyAtomInfo::of::<SM75_U32x2_LDSM_N>(),
        CopyAtomInfo::of::<SM75_U32x4_LDSM_N>(),
        CopyAtomInfo::of::<SM75_U16x2_LDSM_T>(),
        CopyAtomInfo::of::<SM75_U16x4_LDSM_T>(),
        CopyAtomInfo::of::<SM75_U16x8_LDSM_T>(),
        CopyAtomInfo::of::<SM75_U32x1_MOVM_T>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEALWAYS<u32>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEALWAYS<u64>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEALWAYS<u128>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEGLOBAL<u128>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u32>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u64>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEALWAYS_ZFILL<u128>>(),
        CopyAtomInfo::of::<SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<u128>>(),
        CopyAtomInfo::of::<SM90_U32x1_STSM_N>(),
        CopyAtomInfo::of::<SM90_U32x2_STSM_N>(),
        CopyAtomInfo::of::<SM90_U32x4_STSM_N>(),
        CopyAtomInfo::of::<SM90_U16x2_STSM_T>(),
        CopyAtomInfo::of::<SM90_U16x4_STSM_T>(),
        CopyAtomInfo::of::<SM90_U16x8_STSM_T>(),
    ];
    ATOMS
}
