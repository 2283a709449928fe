//! Tiled copies by the instructions of a warp, on the simulator: `ldmatrix` and `stmatrix`, plain and transposed, over the
//! tiles of MoYe's tests and of products. What arrives in a thread's registers is what the tiled copy says.

use half::f16;
use moye_device::algorithm::{CopyDestination, CopySource, copy, copy_tiled};
use moye_device::arch::{sync_threads, thread_idx};
use moye_device::atom::copy::*;
use moye_device::atom::mma::{SM80_16x8x8_F32TF32TF32F32_TN, SM80_16x8x16_F32F16F16F32_TN};
use moye_device::atom::{StaticTiledCopy, TiledCopy, TiledMma, make_tiled_copy_a, make_tiled_copy_b};
use moye_device::layout::{ComposedLayout, Swizzle, layout, make_col_major, tuple};
use moye_device::memory::{Element, Global, GlobalMut, GlobalPointer, Shared, SharedArray, SharedStorage};
use moye_device::tensor::{GlobalTensor, IdentityOf, Matrix, Registers, StaticLayout, UnitStride};
use moye_device::{static_layout, swizzled_layout, tiled_copy};
use moye_sim::{GlobalMemory, Launch};

type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;
type Part<P, L> = GlobalTensor<P, UnitStride<0>, IdentityOf<L>>;

static_layout! {
    /// A thread's share of a tile where no tiled copy is at work: whole columns.
    Columns = layout!((1, 32));
}

fn matrix<P: GlobalPointer, L: StaticLayout>(pointer: P) -> Part<P, L> {
    let (m, n) = (L::LAYOUT.extent(0), L::LAYOUT.extent(1));
    Matrix::new(pointer, (m as u32, n as u32), UnitStride::<0>(m)).local_tile::<L, _>((0, 0))
}

/// Runs `kernel` with `threads` threads on a tile that holds 0, 1, 2, ... down its columns, and on one of zeros; both are of
/// the shape of `L`. The second one is the same afterwards.
fn arrives<T: Element, L: StaticLayout, M: StaticLayout>(
    threads: i64,
    kernel: impl Fn(Global<T>, GlobalMut<T>) + Sync,
) {
    let memory = GlobalMemory::new();
    let count = L::LAYOUT.size() as usize;
    let data: Vec<u8> =
        (1..=count).flat_map(|i| (i as u64).to_le_bytes().into_iter().take(T::BYTES)).collect();
    let (source, destination) =
        (memory.alloc(data.len(), "in").unwrap(), memory.alloc(data.len(), "out").unwrap());
    source.write(0, &data).unwrap();
    destination.fill(0, data.len(), 0).unwrap();
    let (from, to) = (source.address(), destination.address());
    Launch::new("warp_copy", 1, threads as u32, &memory)
        .shared_bytes(SharedArray::<T, M>::BYTES)
        .run(&|| kernel(Global::from_address(from), GlobalMut::from_address(to)))
        .unwrap();
    let mut result = vec![0; data.len()];
    destination.read(0, &mut result).unwrap();
    assert_eq!(result, data, "through {}", M::LAYOUT);
}

/// Shared memory to registers by the tiled copy `C`, and from its destination's part to global memory: MoYe's test kernel.
fn loads<C: StaticTiledCopy<Element: Element>, L: StaticLayout, M: StaticLayout>()
where
    Shared<C::Element>: CopySource<SourceOf<C>>,
    Registers<C::Element>: CopyDestination<DestinationOf<C>>,
{
    arrives::<C::Element, L, M>(C::COPY.threads(), |src, dst| {
        let thread = thread_idx().x;
        let thr_copy = C::get_slice(thread);
        // SAFETY: one block with the shared memory that it takes, read after a barrier; fragments are read after they were
        // written; who holds an element too writes the same.
        unsafe {
            let smem = SharedArray::<C::Element, M>::take();
            fill::<C::Element, L, M>(src, thread);
            sync_threads();
            let t_s = thr_copy.partition_s(smem); // (CPY, CPY_M, CPY_N)
            let mut t_g = thr_copy.partition_d(matrix::<_, L>(dst)); // (CPY, CPY_M, CPY_N)
            let mut t_r = t_g.make_fragment_like(); // (CPY, CPY_M, CPY_N)
            copy_tiled(C::default(), &t_s, &mut t_r);
            copy(&t_r, &mut t_g);
        }
    });
}

/// Global memory to registers in the parts of `C`'s source, and to shared memory by `C`.
fn stores<C: StaticTiledCopy<Element: Element>, L: StaticLayout, M: StaticLayout>()
where
    Registers<C::Element>: CopySource<SourceOf<C>>,
    Shared<C::Element>: CopyDestination<DestinationOf<C>>,
{
    arrives::<C::Element, L, M>(C::COPY.threads(), |src, dst| {
        let thread = thread_idx().x;
        let thr_copy = C::get_slice(thread);
        // SAFETY: as in `loads`.
        unsafe {
            let smem = SharedArray::<C::Element, M>::take();
            let t_g = thr_copy.partition_s(matrix::<_, L>(src)); // (CPY, CPY_M, CPY_N)
            let mut t_r = t_g.make_fragment_like(); // (CPY, CPY_M, CPY_N)
            let mut t_s = thr_copy.partition_d(smem); // (CPY, CPY_M, CPY_N)
            copy(&t_g, &mut t_r);
            copy_tiled(C::default(), &t_r, &mut t_s);
            sync_threads();
            if thread < 32 {
                let mut columns = matrix::<_, L>(dst).local_partition::<Columns>(thread);
                copy(&smem.local_partition::<Columns>(thread), &mut columns);
            }
        }
    });
}

/// The first warp copies the tile to shared memory.
///
/// # Safety
/// The kernel takes a `SharedArray<T, M>`.
unsafe fn fill<T: Element, L: StaticLayout, M: StaticLayout>(src: Global<T>, thread: u32) {
    if thread < 32 {
        // SAFETY: the caller's contract.
        unsafe {
            let smem = SharedArray::<T, M>::take();
            let columns = matrix::<_, L>(src).local_partition::<Columns>(thread);
            copy(&columns, &mut smem.local_partition::<Columns>(thread));
        }
    }
}

static_layout! {
    Tile32 = make_col_major(tuple!((32, 32)));
    Plain = layout!((32, 32));
    Padded = layout!((32, 32):(1, 40));
    KMajor = layout!((32, 32):(40, 1));
}
swizzled_layout! {
    Swizzled = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((32, 32)));
    SwizzledDown = ComposedLayout::new(Swizzle::new(2, 3, 3), 0, layout!((32, 8))).tile_to_shape(tuple!((32, 32)));
    SwizzledWords = ComposedLayout::new(Swizzle::new(3, 2, 3), 0, layout!((8, 32):(32, 1))).tile_to_shape(tuple!((32, 32)));
}

type Half = TiledMma<SM80_16x8x16_F32F16F16F32_TN>;
type Tf32 = TiledMma<SM80_16x8x8_F32TF32TF32F32_TN>;
const HALF: Half = Half::tiled(layout!((2, 2, 1)), [32, 32, 16]);
const TF32: Tf32 = Tf32::tiled(layout!((2, 2, 1)), [32, 32, 8]);

tiled_copy! {
    One: TiledCopy<SM75_U32x1_LDSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    Two: TiledCopy<SM75_U32x2_LDSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    Four: TiledCopy<SM75_U32x4_LDSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    ByWord: TiledCopy<UniversalCopy<u16>, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    StoreOne: TiledCopy<SM90_U32x1_STSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    StoreTwo: TiledCopy<SM90_U32x2_STSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    StoreFour: TiledCopy<SM90_U32x4_STSM_N, u16> = TiledCopy::new(layout!((16, 2)), layout!((2, 4)));
    HalfA: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_a(&HALF);
    HalfB: TiledCopy<SM75_U32x2_LDSM_N, f16> = make_tiled_copy_b(&HALF);
    HalfB4: TiledCopy<SM75_U32x4_LDSM_N, f16> = make_tiled_copy_b(&HALF);
    HalfAT: TiledCopy<SM75_U16x8_LDSM_T, f16> = make_tiled_copy_a(&HALF);
    HalfBT: TiledCopy<SM75_U16x4_LDSM_T, f16> = make_tiled_copy_b(&HALF);
    HalfB1T: TiledCopy<SM75_U16x2_LDSM_T, f16> = make_tiled_copy_b(&HALF);
    StoreA: TiledCopy<SM90_U32x4_STSM_N, f16> = make_tiled_copy_a(&Half::new(layout!((1, 1, 1))));
    StoreAT: TiledCopy<SM90_U16x8_STSM_T, f16> = make_tiled_copy_a(&Half::new(layout!((1, 1, 1))));
    Tf32A: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_a(&TF32);
    Tf32B: TiledCopy<SM75_U32x4_LDSM_N, f32> = make_tiled_copy_b(&TF32);
    Tf32B2: TiledCopy<SM75_U32x2_LDSM_N, f32> = make_tiled_copy_b(&TF32);
}

#[test]
fn the_copies_of_moyes_tests_arrive() {
    loads::<ByWord, Tile32, Plain>();
    loads::<One, Tile32, Plain>();
    loads::<Two, Tile32, Plain>();
    loads::<Four, Tile32, Plain>();
    loads::<Four, Tile32, Padded>();
    loads::<Four, Tile32, SwizzledDown>();
}

#[test]
fn registers_arrive_in_shared_memory() {
    stores::<StoreOne, Tile32, Plain>();
    stores::<StoreTwo, Tile32, Padded>();
    stores::<StoreFour, Tile32, Plain>();
    stores::<StoreFour, Tile32, SwizzledDown>();
    stores::<StoreA, Tile32, KMajor>();
    stores::<StoreA, Tile32, Swizzled>();
    stores::<StoreAT, Tile32, Padded>();
}

#[test]
fn operands_of_products_arrive() {
    loads::<HalfA, Tile32, KMajor>();
    loads::<HalfA, Tile32, Swizzled>();
    loads::<HalfB, Tile32, KMajor>();
    loads::<HalfB4, Tile32, Swizzled>();
    // M-major and N-major ones by the transposing instructions.
    loads::<HalfAT, Tile32, Padded>();
    loads::<HalfAT, Tile32, SwizzledDown>();
    loads::<HalfBT, Tile32, Plain>();
    loads::<HalfB1T, Tile32, SwizzledDown>();
    loads::<Tf32A, Tile32, KMajor>();
    loads::<Tf32A, Tile32, SwizzledWords>();
    loads::<Tf32B, Tile32, KMajor>();
    loads::<Tf32B2, Tile32, SwizzledWords>();
}

mod in_pairs {
    use super::*;

    static_layout! {
        Tile = make_col_major(tuple!((32, 8)));
        /// MoYe's `(32,(2,4)):(2,(1,64))`.
        Pairs = layout!((32, (2, 4)):(2, (1, 64)));
        Eight = layout!((1, 8));
    }
    tiled_copy! {
        One: TiledCopy<SM75_U32x1_LDSM_N, u16> = TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
        Two: TiledCopy<SM75_U32x2_LDSM_N, u16> = TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
        Four: TiledCopy<SM75_U32x4_LDSM_N, u16> = TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
        ByWord: TiledCopy<UniversalCopy<u16>, u16> = TiledCopy::new(layout!((32, 1)), layout!((1, 8)));
    }

    fn loads<C: StaticTiledCopy<Element = u16>>()
    where
        Shared<u16>: CopySource<SourceOf<C>>,
        Registers<u16>: CopyDestination<DestinationOf<C>>,
    {
        arrives::<u16, Tile, Pairs>(32, |src, dst| {
            let thread = thread_idx().x;
            let thr_copy = C::get_slice(thread);
            // SAFETY: as above.
            unsafe {
                let smem = SharedArray::<u16, Pairs>::take();
                let by_word = ByWord::get_slice(thread);
                copy(&by_word.partition_s(matrix::<_, Tile>(src)), &mut by_word.partition_d(smem));
                sync_threads();
                let mut t_g = thr_copy.partition_d(matrix::<_, Tile>(dst));
                let mut t_r = t_g.make_fragment_like();
                copy_tiled(C::default(), &thr_copy.partition_s(smem), &mut t_r);
                copy(&t_r, &mut t_g);
            }
        });
    }

    #[test]
    fn a_tile_of_pairs_arrives() {
        loads::<ByWord>();
        loads::<One>();
        loads::<Two>();
        loads::<Four>();
    }
}
