//! A thread's part of a matrix product, by the MMA atom of a tiled MMA.

use super::clear;
use crate::arch::mma::Registers as AtomRegisters;
use crate::atom::mma::{AddsInPlace, MmaAtom};
use crate::atom::{Multiplies, StaticTiledMma, TilingError, stands_for};
use crate::layout::{IntTuple, Layout, make_col_major};
use crate::memory::{Element, Storable};
use crate::number::Number;
use crate::tensor::{
    Access, AccessMut, Fragment, Input, InputElement, Output, OutputElement, StaticLayout, Tensor, run_of,
};
use core::marker::PhantomData;
use core::mem::MaybeUninit;

/// The extents of a product in atoms, and the number of a thread's values in an atom for each
/// operand.
#[derive(Clone, Copy)]
struct Extents {
    m: usize,
    n: usize,
    k: usize,
    /// Values of A, B and C.
    values: [usize; 3],
}

const WHAT: &str = "gemm";

/// The modes of operands of these ranks, or why they do not form a product:
///
/// | a | b | c | |
/// | --- | --- | --- | --- |
/// | `(V)` | `(V)` | `(V)` | one atom |
/// | `(M)` | `(N)` | `(M, N)` | an outer product of atoms of one value |
/// | `(M, K)` | `(N, K)` | `(M, N)` | a product of atoms of one value |
/// | `(V, M)` | `(V, N)` | `(V, M, N)` | an outer product |
/// | `(V, M, K)` | `(V, N, K)` | `(V, M, N)` | a product |
const fn extents(values: [i64; 3], a: Layout, b: Layout, c: Layout) -> Result<Extents, &'static str> {
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
        _ => return Err("their ranks make up no product"),
    };
    let all = [a3.extent(0), b3.extent(0), c3.extent(0)];
    if all[0] != values[0] || all[1] != values[1] || all[2] != values[2] {
        return Err("the first mode of each has the values of one atom for a thread");
    }
    if a3.extent(1) != c3.extent(1) {
        return Err("a and the sums differ in M");
    }
    if b3.extent(1) != c3.extent(2) {
        return Err("b and the sums differ in N");
    }
    if a3.extent(2) != b3.extent(2) {
        return Err("a and b differ in K");
    }
    Ok(Extents {
        m: a3.extent(1) as usize,
        n: b3.extent(1) as usize,
        k: a3.extent(2) as usize,
        values: [values[0] as usize, values[1] as usize, values[2] as usize],
    })
}

/// The operands form a product, or it does not compile; `sum` is the name of `c`.
#[track_caller]
const fn multiply(sum: &str, values: [i64; 3], a: Layout, b: Layout, c: Layout) {
    let Err(why) = extents(values, a, b, c) else { return };
    TilingError::of(WHAT)
        .str("the operands are a (V, M, K), b (V, N, K) and ")
        .str(sum)
        .str(" (V, M, N), with ")
        .int(values[0])
        .str(", ")
        .int(values[1])
        .str(" and ")
        .int(values[2])
        .str(" values of an atom; with a = ")
        .layout(&a)
        .str(", b = ")
        .layout(&b)
        .str(" and ")
        .str(sum)
        .str(" = ")
        .layout(&c)
        .str(": ")
        .str(why)
        .str("; partition all of them by this tiled MMA, of tiles that agree")
        .raise()
}

/// The registers of one operand for all atoms of a step along K, consecutive: `count` registers.
struct Column<const OPERAND: usize, M, LA, LB, LC>(PhantomData<(M, LA, LB, LC)>);

impl<const OPERAND: usize, M, LA, LB, LC> Clone for Column<OPERAND, M, LA, LB, LC> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<const OPERAND: usize, M, LA, LB, LC> Copy for Column<OPERAND, M, LA, LB, LC> {}

impl<const OPERAND: usize, M, LA, LB, LC> StaticLayout for Column<OPERAND, M, LA, LB, LC>
where
    M: StaticTiledMma<Atom: MmaAtom>,
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

impl<M: StaticTiledMma<Atom: MmaAtom>, LA: StaticLayout, LB: StaticLayout, LC: StaticLayout>
    Product<M, LA, LB, LC>
{
    /// The number of a thread's values in an atom for each operand.
    const VALUES: [i64; 3] = [
        <M::Atom as MmaAtom>::A.extent(1),
        <M::Atom as MmaAtom>::B.extent(1),
        <M::Atom as MmaAtom>::C.extent(1),
    ];
    // `gemm` rejects other operands, so that later functions need not.
    const EXTENTS: Extents = match extents(Self::VALUES, LA::LAYOUT, LB::LAYOUT, LC::LAYOUT) {
        Ok(extents) => extents,
        Err(_) => Extents { m: 1, n: 1, k: 1, values: [1; 3] },
    };
}

/// The tensors C and D of a thread's products.
trait Sums<M: StaticTiledMma<Atom: MmaAtom>> {
    /// Adds the product of `a` and `b` to the values of one atom from `index` on; `first` says
    /// whether it is the first along K.
    ///
    /// # Safety
    /// Same contract as [`gemm_tiled`].
    unsafe fn add(&mut self, first: bool, index: usize, a: RegistersA<M>, b: RegistersB<M>);
}

/// D replaces C.
struct InPlace<'t, C, LC>(&'t mut Tensor<C, LC>);

impl<M, C, LC> Sums<M> for InPlace<'_, C, LC>
where
    M: StaticTiledMma<Atom: MmaAtom>,
    M::Atom: MmaAtom<RegistersD = RegistersC<M>>,
    C: AccessMut,
    LC: StaticLayout,
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(&mut self, _: bool, index: usize, a: RegistersA<M>, b: RegistersB<M>) {
        let index = index * const { <M::Atom as MmaAtom>::C.extent(1) as usize };
        // SAFETY: all lanes call this; inside the accumulator, which may be accessed.
        unsafe {
            let sum: RegistersC<M> = load::<_, C, LC>(self.0.engine(), index);
            let mut result = sum;
            M::Atom::fma(&mut result, a, b, sum);
            store::<_, C, LC>(self.0.engine_mut(), index, result);
        }
    }
}

/// D is separate: the first product is added to C, the others to D.
struct Elsewhere<'t, D, LD, C, LC>(&'t mut Tensor<D, LD>, &'t Tensor<C, LC>);

impl<M, D, LD, C, LC> Sums<M> for Elsewhere<'_, D, LD, C, LC>
where
    M: StaticTiledMma<Atom: MmaAtom>,
    D: AccessMut,
    C: Access,
    LD: StaticLayout,
    LC: StaticLayout,
{
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    unsafe fn add(&mut self, first: bool, index: usize, a: RegistersA<M>, b: RegistersB<M>) {
        let at = index * const { <M::Atom as MmaAtom>::D.extent(1) as usize };
        // SAFETY: all lanes call this; inside accumulator and result, which may be accessed.
        unsafe {
            let mut result;
            if first {
                let from = index * const { <M::Atom as MmaAtom>::C.extent(1) as usize };
                result = RegistersD::<M>::default();
                M::Atom::fma(&mut result, a, b, load::<_, C, LC>(self.1.engine(), from));
            } else {
                result = load::<_, D, LD>(self.0.engine(), at);
                M::Atom::accumulate(&mut result, a, b);
            }
            store::<_, D, LD>(self.0.engine_mut(), at, result);
        }
    }
}

/// [`ThrMma::gemm`](crate::atom::ThrMma::gemm) by an [`MmaAtom`].
///
/// # Safety
/// Same contract.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn gemm_tiled<M, A, LA, B, LB, C, LC>(
    _mma: M,
    a: &Tensor<A, LA>,
    b: &Tensor<B, LB>,
    c: &mut Tensor<C, LC>,
) where
    M: StaticTiledMma<Atom: AddsInPlace>,
    A: Access,
    B: Access,
    C: AccessMut,
    LA: StaticLayout,
    LB: StaticLayout,
    LC: StaticLayout,
{
    // SAFETY: operands and accumulators may be accessed, and all lanes execute this.
    unsafe { over_atoms::<M, A, LA, B, LB, LC>(a, b, InPlace(c)) }
}

/// The operands and results of [`ThrMma::gemm_into`](crate::atom::ThrMma::gemm_into) form a
/// product, or it does not compile. Evaluated in the function that the user calls.
pub(crate) const fn results_fit<M, D, A, B, C>()
where
    M: StaticTiledMma<Atom: MmaAtom>,
    D: Output,
    A: Input,
    B: Input,
    C: Input,
{
    let values = [
        <M::Atom as MmaAtom>::A.extent(1),
        <M::Atom as MmaAtom>::B.extent(1),
        <M::Atom as MmaAtom>::D.extent(1),
    ];
    fills::<RegistersA<M>, InputElement<A>, <M::Atom as MmaAtom>::A>("a", values[0]);
    fills::<RegistersB<M>, InputElement<B>, <M::Atom as MmaAtom>::B>("b", values[1]);
    fills::<RegistersC<M>, InputElement<C>, <M::Atom as MmaAtom>::C>("c", <M::Atom as MmaAtom>::C.extent(1));
    fills::<RegistersD<M>, OutputElement<D>, <M::Atom as MmaAtom>::D>("d", values[2]);
    multiply("d", values, A::Layout::LAYOUT, B::Layout::LAYOUT, D::Layout::LAYOUT);
}

/// [`ThrMma::gemm_into`](crate::atom::ThrMma::gemm_into) for operands that fit.
///
/// # Safety
/// Same contract.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub(crate) unsafe fn gemm_tiled_into<M, D, LD, A, LA, B, LB, C, LC>(
    _mma: M,
    d: &mut Tensor<D, LD>,
    a: &Tensor<A, LA>,
    b: &Tensor<B, LB>,
    c: &Tensor<C, LC>,
) where
    M: StaticTiledMma<Atom: MmaAtom>,
    D: AccessMut,
    A: Access,
    B: Access,
    C: Access,
    LD: StaticLayout,
    LA: StaticLayout,
    LB: StaticLayout,
    LC: StaticLayout,
{
    // SAFETY: operands and results may be accessed, and all lanes execute this.
    unsafe { over_atoms::<M, A, LA, B, LB, LC>(a, b, Elsewhere(d, c)) }
}

macro_rules! multiplies {
    ($($tensor:ty $(, $lifetime:lifetime)?;)+) => { $(
        impl<$($lifetime,)? M, A, C, E, L> Multiplies<M, A, C> for $tensor
        where
            M: StaticTiledMma<Atom: AddsInPlace>,
            A: Input,
            C: Output,
            E: Access,
            L: StaticLayout,
        {
            const CHECKED: () = {
                let values = Product::<M, A::Layout, L, C::Layout>::VALUES;
                multiply("c", values, A::Layout::LAYOUT, L::LAYOUT, C::Layout::LAYOUT);
                fills::<RegistersA<M>, InputElement<A>, <M::Atom as MmaAtom>::A>("a", values[0]);
                fills::<RegistersB<M>, E::Element, <M::Atom as MmaAtom>::B>("b", values[1]);
                fills::<RegistersC<M>, OutputElement<C>, <M::Atom as MmaAtom>::C>("c", values[2]);
            };

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            unsafe fn multiply(self, a: A, mut c: C, adds: bool) {
                // SAFETY: inside results and accumulators, and all lanes execute this.
                unsafe {
                    if !adds {
                        clear(c.output());
                    }
                    gemm_tiled(M::default(), a.input(), self.input(), c.output());
                }
            }
        }
    )+ };
}
multiplies! { Tensor<E, L>; &'t Tensor<E, L>, 't; &'t mut Tensor<E, L>, 't; }

/// Whether the atom is a single thread's. Matrix instructions traverse accumulators by rows and
/// keep A's fragment; a single thread's products traverse them by columns if these are shorter
/// (record 7).
const fn one_thread<M: StaticTiledMma<Atom: MmaAtom>>() -> bool {
    M::Atom::THR_ID.size() == 1
}

/// The products of all atoms, added to the accumulators of layout `LC`.
///
/// # Safety
/// Same contract as [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn over_atoms<M, A, LA, B, LB, LC>(a: &Tensor<A, LA>, b: &Tensor<B, LB>, mut sums: impl Sums<M>)
where
    M: StaticTiledMma<Atom: MmaAtom>,
    A: Access,
    B: Access,
    LA: StaticLayout,
    LB: StaticLayout,
    LC: StaticLayout,
{
    let Extents { m, n, k: steps, values } = const { Product::<M, LA, LB, LC>::EXTENTS };
    for k in 0..steps {
        // SAFETY: each register is set below, before it is read.
        let (mut column_a, mut column_b) = unsafe {
            (
                Fragment::<RegisterA<M>, Column<0, M, LA, LB, LC>>::untracked(),
                Fragment::<RegisterB<M>, Column<1, M, LA, LB, LC>>::untracked(),
            )
        };
        // SAFETY: the operands are readable; inside them and the columns.
        unsafe {
            gather::<RegistersA<M>, _, LA, _>(a.engine(), values[0], k * m, m, &mut column_a);
            gather::<RegistersB<M>, _, LB, _>(b.engine(), values[1], k * n, n, &mut column_b);
        }
        if const { one_thread::<M>() } && n > m {
            // B's element is kept for a column of accumulators, the shorter mode: see record 7.
            for j in 0..n {
                // SAFETY: set above.
                let b: RegistersB<M> = unsafe { registers(&column_b, j) };
                for step in 0..m {
                    let i = if j % 2 == 0 { step } else { m - 1 - step };
                    // SAFETY: as below.
                    unsafe { sums.add(k == 0, i + j * m, registers(&column_a, i), b) };
                }
            }
        } else {
            for i in 0..m {
                // SAFETY: set above.
                let a: RegistersA<M> = unsafe { registers(&column_a, i) };
                for step in 0..n {
                    // Serpentine: the last column of a row is the first of the next.
                    let j = if i % 2 == 0 { step } else { n - 1 - step };
                    // SAFETY: set above; inside the accumulators; all lanes execute the
                    // instruction.
                    unsafe { sums.add(k == 0, i + j * m, a, registers(&column_b, j)) };
                }
            }
        }
    }
}

/// A thread's values for the atom fill its registers and have its kind, or the product does not
/// compile.
const fn fills<R: AtomRegisters, T: Storable, N: Number>(operand: &str, values: i64) {
    let (bits, room) = (values * T::BITS, R::COUNT as i64 * 8 * <R::Register as Element>::BYTES as i64);
    if bits != room {
        let error = TilingError::of(WHAT)
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
            .str(": convert the elements, or take another atom");
        error.raise();
    }
    if !stands_for(<T as Storable>::NAME, N::NAME) {
        let error = TilingError::of(WHAT)
            .str("the elements of ")
            .str(operand)
            .str(" are ")
            .str(<T as Storable>::NAME)
            .str(", and the atom takes ")
            .str(N::NAME)
            .str(": convert the elements, or take the atom of theirs");
        error.raise();
    }
}

type RegistersA<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersA;
type RegistersB<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersB;
type RegistersC<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersC;
type RegistersD<M> = <<M as StaticTiledMma>::Atom as MmaAtom>::RegistersD;
type RegisterA<M> = <RegistersA<M> as AtomRegisters>::Register;
type RegisterB<M> = <RegistersB<M> as AtomRegisters>::Register;

/// Copies the registers of `atoms` atoms, of `values` values each, from atom `first` on.
///
/// # Safety
/// Same contract as [`gemm_tiled`].
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
        // SAFETY: the values of this atom are inside the operand.
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
/// They are initialised.
#[inline(always)]
unsafe fn registers<R: AtomRegisters, L: StaticLayout>(column: &Fragment<R::Register, L>, atom: usize) -> R {
    // SAFETY: the registers are initialised; inside the column.
    R::from_fn(|i| unsafe { column.get(atom * R::COUNT + i) })
}

/// The packing of a tensor's elements in an atom's register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// Contiguous elements.
    Together(usize),
    /// Elements that are not contiguous.
    Apart(usize),
    /// One of several parts of an element, such as a complex number.
    Part(usize),
}

const fn packing<R: AtomRegisters, E: Access, L: StaticLayout>() -> Packing {
    let (bits, register) = (<E::Element as Storable>::BITS, 8 * <R::Register as Element>::BYTES as i64);
    if bits > register && bits % register == 0 {
        return Packing::Part((bits / register) as usize);
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
            .str(" do not fill whole registers, and are not moved one by one")
            .raise();
    }
    Packing::Apart(per)
}

/// The registers that hold an atom's values from `index` on.
///
/// # Safety
/// Same contract as [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn load<R: AtomRegisters, E: Access, L: StaticLayout>(engine: &E, index: usize) -> R {
    #[cfg(not(target_arch = "nvptx64"))]
    engine.assert_written::<L>(index, 8 * size_of::<R>() / <E::Element as Storable>::BITS as usize);
    let mut whole = MaybeUninit::<E::Element>::uninit();
    let mut registers = R::default();
    // No `from_fn`: faults and profiles would name its closure instead of the kernel's line.
    for (i, register) in registers.as_mut_slice().iter_mut().enumerate() {
        // SAFETY: the tensor is readable; `packing` has checked contiguity, and any bits are
        // a valid register. The first part of an element precedes its other parts.
        *register = unsafe {
            match const { packing::<R, E, L>() } {
                Packing::Together(per) => R::Register::from_bits(engine.load::<L, _>(index + i * per)),
                Packing::Apart(per) => packed::<R::Register, E, L>(engine, index + i * per, per),
                Packing::Part(parts) => {
                    if i % parts == 0 {
                        whole.write(engine.load_one::<L>(index + i / parts));
                    }
                    whole.as_ptr().cast::<R::Register>().add(i % parts).read_unaligned()
                }
            }
        };
    }
    registers
}

/// A register assembled from elements that are not contiguous.
///
/// # Safety
/// Same contract as [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn packed<R: Element, E: Access, L: StaticLayout>(engine: &E, index: usize, count: usize) -> R {
    let bits = <E::Element as Storable>::BITS as usize;
    let mut word = 0u64;
    for i in 0..count {
        // SAFETY: the part is inside the operand.
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
/// Same contract as [`gemm_tiled`].
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
unsafe fn store<R: AtomRegisters, E: AccessMut, L: StaticLayout>(engine: &mut E, index: usize, registers: R) {
    match const { packing::<R, E, L>() } {
        Packing::Together(per) => {
            for (i, register) in registers.as_slice().iter().enumerate() {
                // SAFETY: the result is writable; the register's elements are contiguous.
                unsafe { engine.store::<L, _>(index + i * per, register.to_bits()) };
            }
        }
        Packing::Part(parts) => {
            let mut whole = MaybeUninit::<E::Element>::uninit();
            for (i, register) in registers.as_slice().iter().enumerate() {
                // SAFETY: the result is writable; an element is stored when all of its parts are
                // set.
                unsafe {
                    whole.as_mut_ptr().cast::<R::Register>().add(i % parts).write_unaligned(*register);
                    if i % parts == parts - 1 {
                        engine.store_one::<L>(index + i / parts, whole.assume_init());
                    }
                }
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
