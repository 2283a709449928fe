//! All atoms as data.

use super::atom::OperandA;
use super::*;
use crate::arch::wgmma::Accumulators;
use crate::arch::wgmma::fragments;
use crate::layout::Layout;
use crate::number::Number;

/// The properties of a [`WgmmaAtom`], as a value; for an atom with constants, with none of them
/// set.
#[derive(Clone, Copy, Debug)]
pub struct WgmmaInfo {
    /// See [`WgmmaAtom::NAME`].
    pub name: &'static str,
    /// See [`WgmmaAtom::INSTRUCTION`].
    pub instruction: &'static str,
    /// See [`WgmmaAtom::PTX_VERSION`].
    pub ptx_version: (u32, u32),
    /// See [`WgmmaAtom::SHAPE_MNK`].
    pub shape_mnk: [i64; 3],
    /// Whether A is in registers.
    pub a_in_registers: bool,
    /// The names of the element types of A, B and D.
    pub types: [&'static str; 3],
    /// The bits of an element of A and B, and of D.
    pub bits: [usize; 2],
    /// A thread's registers of D.
    pub registers: usize,
}

impl WgmmaInfo {
    /// The atom's properties.
    pub const fn of<M: WgmmaAtom>() -> Self {
        Self {
            name: M::NAME,
            instruction: M::INSTRUCTION,
            ptx_version: M::PTX_VERSION,
            shape_mnk: M::SHAPE_MNK,
            a_in_registers: M::OperandA::IN_REGISTERS,
            types: [M::A::NAME, M::B::NAME, M::D::NAME],
            bits: [M::A::WIDTH, M::D::WIDTH],
            registers: M::Accumulators::COUNT,
        }
    }

    /// See [`WgmmaAtom::A`](const@WgmmaAtom::A).
    pub const fn a(&self) -> Layout {
        let [m, _, k] = self.shape_mnk;
        if self.a_in_registers {
            fragments::registers_a(self.bits[0] as i64)
        } else {
            fragments::shared_operand(m, k)
        }
    }

    /// See [`WgmmaAtom::B`](const@WgmmaAtom::B).
    pub const fn b(&self) -> Layout {
        let [_, n, k] = self.shape_mnk;
        fragments::shared_operand(n, k)
    }

    /// See [`WgmmaAtom::C`](const@WgmmaAtom::C).
    pub const fn c(&self) -> Layout {
        fragments::accumulators(self.shape_mnk[1])
    }
}

macro_rules! all {
    ($(wgmma { $kind:ident; $ss:ident $ss_function:ident; $rs:ident $rs_function:ident; $($rest:tt)* })*) => {
        /// Every atom of `wgmma`.
        pub const WGMMA_ATOMS: &[WgmmaInfo] = &[$(WgmmaInfo::of::<$ss>(), WgmmaInfo::of::<$rs>(),)*];
    };
}
crate::for_each_wgmma!(all);
