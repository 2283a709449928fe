//! What every step holds itself to, checked by the compiler: who copies, that global memory moves no sector too many, and
//! that the banks of shared memory are asked for one word at a time.

use super::config::{Fragments, StridesC, Tiling};
use moye_device::analysis::{AccessReport, global_access, shared_access};
use moye_device::atom::{Operand, StaticTiledCopy, StaticTiledMma, TilingError};
use moye_device::layout::{ComposedLayout, IntTuple, Layout};
use moye_device::tensor::{StaticLayout, Strides};

/// An extent and leading dimension that stands for large matrices.
const LARGE: i64 = 4096;

/// The copies are made by the threads that multiply, read and write whole sectors of global memory, and write shared memory
/// without conflicts.
pub(super) const fn tiling<G: Tiling>() {
    let threads = G::Mma::MMA.threads();
    if G::LoadA::COPY.threads() != threads || G::LoadB::COPY.threads() != threads {
        TilingError::of("ladder")
            .str("the product has ")
            .int(threads)
            .str(" threads, the copies of A and B ")
            .int(G::LoadA::COPY.threads())
            .str(" and ")
            .int(G::LoadB::COPY.threads())
            .raise();
    }
    coalesced("A", &G::LoadA::COPY.access_s(in_memory::<G::TileA, G::StridesA>()));
    coalesced("B", &G::LoadB::COPY.access_s(in_memory::<G::TileB, G::StridesB>()));
    let c = by_thread::<G>(Operand::C, in_memory::<G::TileC, StridesC>().layout);
    coalesced("C", &global_access(c, 32, 1));
    degree("writes of A", &G::LoadA::COPY.access_d(in_shared::<G::SmemA>()), 1);
    degree("writes of B", &G::LoadB::COPY.access_d(in_shared::<G::SmemB>()), 1);
}

/// Fragments are read with at most `most` words of one bank at a time.
pub(super) const fn fragments<G: Fragments>(most: u32) {
    degree("reads of A", &G::ReadA::COPY.access_s(in_shared::<G::SmemA>()), most);
    degree("reads of B", &G::ReadB::COPY.access_s(in_shared::<G::SmemB>()), most);
}

/// The product reads its operands from shared memory, element by element, without conflicts.
pub(super) const fn operands<G: Tiling>() {
    let (a, b) = (by_thread::<G>(Operand::A, G::SmemA::LAYOUT), by_thread::<G>(Operand::B, G::SmemB::LAYOUT));
    degree("reads of A", &shared_access(ComposedLayout { layout: a, ..in_shared::<G::SmemA>() }, 32, 1), 1);
    degree("reads of B", &shared_access(ComposedLayout { layout: b, ..in_shared::<G::SmemB>() }, 32, 1), 1);
}

/// A tile of a large matrix, with its strides.
const fn in_memory<T: StaticLayout, S: Strides>() -> ComposedLayout {
    let strides = match S::UNIT {
        Some(0) => [1, LARGE],
        _ => [LARGE, 1],
    };
    ComposedLayout::plain(Layout::new(T::LAYOUT.shape(), IntTuple::flat(&strides)))
}

/// A tile in shared memory.
const fn in_shared<S: StaticLayout>() -> ComposedLayout {
    ComposedLayout::new(S::SWIZZLE, 0, S::LAYOUT)
}

/// `(thread, value)` of an operand to the element.
const fn by_thread<G: Tiling>(operand: Operand, tensor: Layout) -> Layout {
    match G::Mma::MMA.tiling().by_thread(operand, tensor) {
        Ok(parts) => parts,
        Err(error) => error.raise(),
    }
}

const fn coalesced(of: &str, access: &AccessReport) {
    if !access.is_coalesced() {
        TilingError::of("ladder")
            .str("the accesses to ")
            .str(of)
            .str(" in global memory move ")
            .int(access.sectors as i64)
            .str(" sectors where ")
            .int(access.fewest_sectors as i64)
            .str(" hold the same bytes: let neighbouring threads take neighbouring words along the fast axis")
            .raise();
    }
}

const fn degree(of: &str, access: &AccessReport, most: u32) {
    if access.conflict_degree() > most {
        TilingError::of("ladder")
            .str("the ")
            .str(of)
            .str(" in shared memory ask one bank for ")
            .int(access.conflict_degree() as i64)
            .str(" words at a time, and at most ")
            .int(most as i64)
            .str(" are let pass: pad or swizzle the tile")
            .raise();
    }
}
