//! `gemm_tiled`: a thread's part of a matrix product, by the MMA atom of a tiled MMA.

use crate::arch::Word128;
use crate::arch::mma::Registers as AtomRegisters;
use crate::atom::mma::MmaAtom;
use crate::atom::{StaticTiledMma, TilingError};
use crate::layout::{IntTuple, Layout, make_col_major};
use crate::memory::{Element, Storable};
use crate::tensor::{Access, AccessMut, Fragment, StaticLayout, Tensor, run_of};
use core::marker::PhantomData;

/// The extents of a product in atoms, and the values of an atom that each operand has for a thread.
#[derive(Clone, Copy)]
struct Extents {
    m: usize,
    n: usize,
    k: usize,
    /// Values of A, B and C.
    values: [usize; 3],
}

const WHAT: &str = "gemm_tiled";

/// Which modes operands of these ranks have, if they make up a product:
///
/// | a | b | c | |
/// | --- | --- | --- | --- |
/// | `(V)` | `(V)` | `(V)` | one atom |
/// | `(M)` | `(N)` | `(M, N)` | an outer product of atoms of one value |
/// | `(M, K)` | `(N, K)` | `(M, N)` | a product of atoms of one value |
/// | `(V, M)` | `(V, N)` | `(V, M, N)` | an outer product |
/// | `(V, M, K)` | `(V, N, K)` | `(V, M, N)` | a product |
const fn extents(values: [i64; 3], a: Layout, b: Layout, c: Layout) -> Extents {
    let one = IntTuple::int(1);
    let unit = make_col_major(one);
    let ranks = (a.rank(), b.rank(), c.rank());
    let (a3, b3, c3) = match ranks {
        (1, 1, 1) => (
            Layout::concat(&[a, unit, unit]),
            Layout::concat(&[b, unit, unit]),
            Layout::concat(&[c, unit, unit]),
        ),
        (1, 1, 2) => (
            Layout::concat(&[unit, a, unit]),
            Layout::concat(&[unit, b, unit]),
            Layout::concat(&[unit, c.mode(0), c.mode(1)]),
        ),
        (2, 2, 2) => (
            Layout::concat(&[unit, a.mode(0), a.mode(1)]),
            Layout::concat(&[unit, b.mode(0), b.mode(1)]),
            Layout::concat(&[unit, c.mode(0), c.mode(1)]),
        ),
        (2, 2, 3) => {
            (Layout::concat(&[a.mode(0), a.mode(1), unit]), Layout::concat(&[b.mode(0), b.mode(1), unit]), c)
        }
        (3, 3, 3) => (a, b, c),
        _ => operands("their ranks make up no product", values, a, b, c),
    };
    let all = [a3.extent(0), b3.extent(0), c3.extent(0)];
    if all[0] != values[0] || all[1] != values[1] || all[2] != values[2] {
        operands("the first mode of each has the values of one atom for a thread", values, a, b, c);
    }
    if a3.extent(1) != c3.extent(1) {
        operands("a and c differ in M", values, a, b, c);
    }
    if b3.extent(1) != c3.extent(2) {
        operands("b and c differ in N", values, a, b, c);
    }
    if a3.extent(2) != b3.extent(2) {
        operands("a and b differ in K", values, a, b, c);
    }
    Extents {
        m: a3.extent(1) as usize,
        n: b3.extent(1) as usize,
        k: a3.extent(2) as usize,
        values: [values[0] as usize, values[1] as usize, values[2] as usize],
    }
}

#[track_caller]
const fn operands(why: &str, values: [i64; 3], a: Layout, b: Layout, c: Layout) -> ! {
    TilingError::of(WHAT)
        .str("the operands are a (V, M, K), b (V, N, K) and c (V, M, N), with ")
        .int(values[0])
        .str(", ")
        .int(values[1])
        .str(" and ")
        .int(values[2])
        .str(" values of an atom; with a = ")
        .layout(&a)
        .str(", b = ")
        .layout(&b)
        .str(" and c = ")
        .layout(&c)
        .str(": ")
        .str(why)
        .raise()
}

/// The registers of one operand for all atoms of a step along K, one after the other: `count` registers.
struct Column<const OPERAND: usize, M, LA, LB, LC>(PhantomData<(M, LA, LB, LC)>);

impl<const OPERAND: usize, M, LA, LB, LC> Clone for Column<OPERAND, M, LA, LB, LC> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const OPERAND: usize, M, LA, LB, LC> Copy for Column<OPERAND, M, LA, LB, LC> {}

impl<const OPERAND: usize, M, LA, LB, LC> StaticLayout for Column<OPERAND, M, LA, LB, LC>
where
    M: StaticTiledMma,
    LA: StaticLayout,
    LB: StaticLayout,
    LC: StaticLayout,
{
    const LAYOUT: Layout = {
        let extents = Product::<M, LA, LB, LC>::EXTENTS;
        let count = if OPERAND == 0 {
            extents.m * <M::Atom as MmaAtom>::RegistersA::COUNT
        } else {
            extents.n * <M::Atom as MmaAtom>::RegistersB::COUNT
        };
        make_col_major(IntTuple::int(count as i64))
    };
}

/// A product of operands of these layouts.
struct Product<M, LA, LB, LC>(PhantomData<(M, LA, LB, LC)>);

impl<M: StaticTiledMma, LA: StaticLayout, LB: StaticLayout, LC: StaticLayout> Product<M, LA, LB, LC> {
    const EXTENTS: Extents = extents(
        [
            <M::Atom as MmaAtom>::A.extent(1),
            <M::Atom as MmaAtom>::B.extent(1),
            <M::Atom as MmaAtom>::C.extent(1),
        ],
        LA::LAYOUT,
        LB::LAYOUT,
        LC::LAYOUT,
    );
}

/// `c(m, n) += a(m, k) * b(n, k)` over all `k` by the atom of `M`: a thread's parts `(MMA, MMA_M, MMA_K)` of A,
/// `(MMA, MMA_N, MMA_K)` of B and `(MMA, MMA_M, MMA_N)` of C. CuTe's `gemm(tiled_mma, a, b, c)`.
///
/// The operands may be in registers, where the compiler moves nothing, or in shared or global memory, from which each
/// step along K loads its column once. They may also have fewer modes: see the ranks below. Along K the atoms run in
/// order; over M and N they run to and fro, so that neighbours share an operand.
///
/// | a | b | c |
/// | --- | --- | --- |
/// | `(V)` | `(V)` | `(V)` |
/// | `(M)` | `(N)` | `(M, N)`, atoms of one value |
/// | `(M, K)` | `(N, K)` | `(M, N)`, atoms of one value |
/// | `(V, M)` | `(V, N)` | `(V, M, N)` |
/// | `(V, M, K)` | `(V, N, K)` | `(V, M, N)` |
///
/// Elements are taken as the atom's by their bits: f32 for an atom of tf32, whose upper 19 bits it multiplies. That they
/// mean what the atom takes them for is the caller's part.
///
/// # Safety
/// `a` and `b` may be read, and no other thread writes them meanwhile. All lanes of the warp execute this call together
/// (for the atoms of a warp), on an architecture that has the instruction.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn gemm_tiled<M, A, LA, B, LB, C, LC>(
    _mma: M,
    a: &Tensor<A, LA>,
    b: &Tensor<B, LB>,
    c: &mut Tensor<C, LC>,
) where
    M: StaticTiledMma,
    M::Atom: MmaAtom<RegistersD = <M::Atom as MmaAtom>::RegistersC>,
    A: Access,
    B: Access,
    C: AccessMut,
    LA: StaticLayout,
    LB: StaticLayout,
    LC: StaticLayout,
{
    const {
        fills::<RegistersA<M>, A::Element>("a", <M::Atom as MmaAtom>::A.extent(1));
        fills::<RegistersB<M>, B::Element>("b", <M::Atom as MmaAtom>::B.extent(1));
        fills::<RegistersC<M>, C::Element>("c", <M::Atom as MmaAtom>::C.extent(1));
    };
    let Extents { m, n, k, values } = const { Product::<M, LA, LB, LC>::EXTENTS };
    for k in 0..k {
        // SAFETY: each register is set below, before it is read.
        let (mut column_a, mut column_b) = unsafe {
            (
                Fragment::<RegisterA<M>, Column<0, M, LA, LB, LC>>::uninit(),
                Fragment::<RegisterB<M>, Column<1, M, LA, LB, LC>>::uninit(),
            )
        };
        // SAFETY: the caller's contract; inside the operands and the columns.
        unsafe {
            gather::<RegistersA<M>, _, LA, _>(a.engine(), values[0], k * m, m, &mut column_a);
            gather::<RegistersB<M>, _, LB, _>(b.engine(), values[1], k * n, n, &mut column_b);
        }
        for i in 0..m {
            // SAFETY: set above.
            let a: RegistersA<M> = unsafe { registers(&column_a, i) };
            for step in 0..n {
                // To and fro: the last column of a row is the first of the next.
                let j = if i % 2 == 0 { step } else { n - 1 - step };
                // SAFETY: set above; inside the accumulator; the caller's contract for the instruction.
                unsafe {
                    let b: RegistersB<M> = registers(&column_b, j);
                    let index = (i + j * m) * values[2];
                    let sum: RegistersC<M> = load::<_, C, LC>(c.engine(), index);
                    let mut result = sum;
                    M::Atom::fma(&mut result, a, b, sum);
                    store::<_, C, LC>(c.engine_mut(), index, result);
                }
            }
        }
    }
}

/// The values that a thread gives to the atom fill its registers, or the product does not compile.
const fn fills<R: AtomRegisters, T: Storable>(operand: &str, values: i64) {
    let (bits, room) = (values * T::BITS, R::COUNT as i64 * 8 * <R::Register as Element>::BYTES as i64);
    if bits != room {
        TilingError::of(WHAT)
            .str("the ")
            .int(values)
            .str(" values of an atom in ")
            .str(operand)
            .str(", elements ")
            .str(T::NAME)
            .str(" of ")
            .int(T::BITS)
            .str(" bits, make ")
            .int(bits)
            .str(" bits, and the atom's registers have ")
            .int(room)
            .str(": convert the elements, or take another atom")
            .raise();
    }
}

type RegistersA<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersA;
type RegistersB<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersB;
type RegistersC<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersC;
type RegisterA<M> = <RegistersA<M> as AtomRegisters>::Register;
type RegisterB<M> = <RegistersB<M> as AtomRegisters>::Register;

/// Copies the registers of `atoms` atoms, of `values` values each, from atom `first` on.
///
/// # Safety
/// As [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn gather<R, E, L, N>(
    engine: &E,
    values: usize,
    first: usize,
    atoms: usize,
    column: &mut Fragment<R::Register, N>,
) where
    R: AtomRegisters,
    E: Access,
    L: StaticLayout,
    N: StaticLayout,
{
    for atom in 0..atoms {
        // SAFETY: the caller's contract.
        let registers: R = unsafe { load::<R, E, L>(engine, (first + atom) * values) };
        for (i, register) in registers.as_slice().iter().enumerate() {
            // SAFETY: inside the column.
            unsafe { column.set(atom * R::COUNT + i, *register) };
        }
    }
}

/// The registers of atom `atom` of a column.
///
/// # Safety
/// They were set.
#[inline(always)]
unsafe fn registers<R: AtomRegisters, L: StaticLayout>(column: &Fragment<R::Register, L>, atom: usize) -> R {
    // SAFETY: the caller's contract; inside the column.
    R::from_fn(|i| unsafe { column.get(atom * R::COUNT + i) })
}

/// How a register of an atom holds elements of a tensor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// That many elements, which lie together.
    Together(usize),
    /// That many elements, which do not.
    Apart(usize),
    /// One of the two halves of an element: the parts of a complex number.
    Half,
}

const fn packing<R: AtomRegisters, E: Access, L: StaticLayout>() -> Packing {
    let (bits, register) = (<E::Element as Storable>::BITS, 8 * <R::Register as Element>::BYTES as i64);
    if bits == 128 && register == 64 {
        return Packing::Half;
    }
    if bits > register {
        TilingError::of(WHAT)
            .str("an element of ")
            .int(bits)
            .str(" bits is larger than the atom's register of ")
            .int(register)
            .str(" bits")
            .raise();
    }
    let per = (register / bits) as usize;
    if run_of::<E, L>() >= per {
        return Packing::Together(per);
    }
    if bits < 8 {
        TilingError::of(WHAT)
            .str("the elements of ")
            .int(bits)
            .str(" bits in ")
            .layout(&L::LAYOUT)
            .str(" do not lie together by registers, and are not moved one by one")
            .raise();
    }
    Packing::Apart(per)
}

/// The registers that hold an atom's values from `index` on.
///
/// # Safety
/// As [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<R: AtomRegisters, E: Access, L: StaticLayout>(engine: &E, index: usize) -> R {
    // SAFETY: the caller's contract; `packing` knows what lies together, and any bits are a register's value.
    R::from_fn(|i| unsafe {
        match const { packing::<R, E, L>() } {
            Packing::Together(per) => R::Register::from_bits(engine.load::<L, _>(index + i * per)),
            Packing::Apart(per) => packed::<R::Register, E, L>(engine, index + i * per, per),
            Packing::Half => {
                let Word128([a, b, c, d]) = engine.load::<L, _>(index + i / 2);
                let half = if i % 2 == 0 { [a, b] } else { [c, d] };
                core::ptr::from_ref(&half).cast::<R::Register>().read_unaligned()
            }
        }
    })
}

/// A register put together from elements that do not lie next to each other.
///
/// # Safety
/// As [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn packed<R: Element, E: Access, L: StaticLayout>(engine: &E, index: usize, count: usize) -> R {
    let bits = <E::Element as Storable>::BITS as usize;
    let mut word = 0u64;
    for i in 0..count {
        // SAFETY: the caller's contract.
        let part = unsafe {
            match bits {
                8 => u64::from(engine.load::<L, u8>(index + i)),
                16 => u64::from(engine.load::<L, u16>(index + i)),
                _ => u64::from(engine.load::<L, u32>(index + i)),
            }
        };
        word |= part << (bits * i);
    }
    // SAFETY: a register has at most 8 bytes, and any bits are a value.
    unsafe { core::ptr::from_ref(&word).cast::<R>().read_unaligned() }
}

/// Stores the registers that hold an atom's values from `index` on.
///
/// # Safety
/// As [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<R: AtomRegisters, E: AccessMut, L: StaticLayout>(engine: &mut E, index: usize, registers: R) {
    match const { packing::<R, E, L>() } {
        Packing::Together(per) => {
            for (i, register) in registers.as_slice().iter().enumerate() {
                // SAFETY: the caller's contract; the register's elements lie together.
                unsafe { engine.store::<L, _>(index + i * per, register.to_bits()) };
            }
        }
        Packing::Half => {
            for i in 0..R::WORDS / 4 {
                let words = core::array::from_fn(|word| registers.word(4 * i + word));
                // SAFETY: the caller's contract.
                unsafe { engine.store::<L, _>(index + i, Word128(words)) };
            }
        }
        Packing::Apart(_) => {
            const {
                if matches!(packing::<R, E, L>(), Packing::Apart(_)) {
                    TilingError::of(WHAT)
                    .str("the accumulator ")
                    .layout(&L::LAYOUT)
                    .str(" takes an atom's registers apart; take one of partition_fragment_c or accumulator")
                    .raise();
                }
            }
        }
    }
}
