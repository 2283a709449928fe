//! Tiled copies of many thread layouts, value layouts, atoms and element types: a block copies a
//! tile from global to shared memory, from there to registers, and back to global memory.

mod cases;

pub use cases::*;

use moye_device::algorithm::{CopyDestination, CopySource, copy_if, copy_tiled, fill};
use moye_device::arch::{cp_async_commit, cp_async_wait, sync_threads, thread_idx};
use moye_device::atom::StaticTiledCopy;
use moye_device::atom::copy::CopyAtom;
#[cfg(not(target_arch = "nvptx64"))]
use moye_device::kernel::Kernel;
use moye_device::memory::{Element, Global, GlobalMut, GlobalPointer, Shared, SharedArray, SharedStorage};
use moye_device::tensor::{GlobalTensor, IdentityOf, Matrix, Registers, StaticLayout, Strided, Strides};

/// A kernel of a case: the source, the destination, the numbers of rows and columns of the source's
/// tile, and of the destination's.
#[cfg(not(target_arch = "nvptx64"))]
pub type CopyKernel<T> = Kernel<(Global<T>, GlobalMut<T>, u32, u32, u32, u32)>;

/// Every byte of what is in shared memory where a kernel with a predicate begins to copy.
pub const MARKER: u8 = 0x5C;

/// Which atoms are copied by the kernels with a predicate, by the thread and the atom's number in
/// it.
#[inline(always)]
pub fn predicate(thread: u32, i: usize) -> bool {
    !(thread as usize + 2 * i).is_multiple_of(3)
}

/// A combination: how a tile is copied in, and how it is copied through registers and out again.
pub trait Case {
    /// What is copied.
    type Element: Element;
    /// Global to shared memory.
    type Load: StaticTiledCopy<Element = Self::Element>;
    /// Shared memory to registers, and registers to global memory.
    type Move: StaticTiledCopy<Element = Self::Element>;
    /// The tile, (BLK_M, BLK_N).
    type Tile: StaticLayout;
    /// The tile in shared memory.
    type Smem: StaticLayout;
    /// The strides of both matrices.
    type Strides: Strides;
    /// The axis of stride 1.
    const AXIS: usize;
    /// The kernel that copies everything.
    #[cfg(not(target_arch = "nvptx64"))]
    const WHOLE: CopyKernel<Self::Element>;
    /// The kernel that copies in only where [`predicate`] holds.
    #[cfg(not(target_arch = "nvptx64"))]
    const PREDICATED: CopyKernel<Self::Element>;

    /// The strides, where the slow axis has this one.
    fn strides(leading: i64) -> Self::Strides;

    /// The stride of the slow axis in elements: a multiple of 16, more than the tile has.
    #[inline(always)]
    fn leading() -> i64 {
        (Self::Tile::LAYOUT.extent(Self::AXIS) + 31) / 16 * 16
    }
}

/// What the block keeps in shared memory.
pub type Storage<K> = SharedArray<<K as Case>::Element, <K as Case>::Smem>;

/// The extents of the matrices, each at most the tile's.
#[derive(Clone, Copy)]
pub struct Extents {
    pub from: (u32, u32),
    pub to: (u32, u32),
}

type SourceOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Source;
type DestinationOf<C> = <<C as StaticTiledCopy>::Atom as CopyAtom>::Destination;

/// A block's copies. The bounds that they need are met by every case, and stand here once.
pub trait Runs: Case {
    /// Copies the tile.
    ///
    /// # Safety
    /// Both matrices lie inside their buffers and start at multiples of 16 bytes; the one block has
    /// the threads of [`Load`](Case::Load), and declares [`Storage`].
    unsafe fn whole(source: Global<Self::Element>, destination: GlobalMut<Self::Element>, extents: Extents);

    /// As [`whole`](Self::whole), with a first copy of those atoms alone for which [`predicate`]
    /// holds, over elements that were all [`MARKER`].
    ///
    /// # Safety
    /// As [`whole`](Self::whole).
    unsafe fn predicated(
        source: Global<Self::Element>,
        destination: GlobalMut<Self::Element>,
        extents: Extents,
    );
}

impl<K: Case> Runs for K
where
    Strided<Global<K::Element>, K::Strides>: CopySource<SourceOf<K::Load>>,
    Shared<K::Element>: CopyDestination<DestinationOf<K::Load>> + CopySource<SourceOf<K::Move>>,
    Registers<K::Element>: CopyDestination<DestinationOf<K::Move>> + CopySource<SourceOf<K::Move>>,
    Strided<GlobalMut<K::Element>, K::Strides>: CopyDestination<DestinationOf<K::Move>>,
{
    #[inline(always)]
    unsafe fn whole(source: Global<K::Element>, destination: GlobalMut<K::Element>, extents: Extents) {
        let load = K::Load::get_slice(thread_idx().x);
        let t_g_in = load.partition_s(tile::<_, K>(source, extents.from)); // (CPY, CPY_M, CPY_N)
        // SAFETY: the caller's contract; the tile in shared memory is read after the wait.
        unsafe {
            let mut t_s_in = load.partition_d(Storage::<K>::take()); // (CPY, CPY_M, CPY_N)
            copy_tiled(K::Load::default(), &t_g_in, &mut t_s_in);
            out::<K>(destination, extents.to);
        }
    }

    #[inline(always)]
    unsafe fn predicated(source: Global<K::Element>, destination: GlobalMut<K::Element>, extents: Extents) {
        let thread = thread_idx().x;
        let load = K::Load::get_slice(thread);
        let t_g_in = load.partition_s(tile::<_, K>(source, extents.from)); // (CPY, CPY_M, CPY_N)
        // SAFETY: as in `whole`; any bits are a value of an element.
        unsafe {
            let marker = const { core::mem::transmute_copy::<[u8; 16], K::Element>(&[MARKER; 16]) };
            let mut t_s_in = load.partition_d(Storage::<K>::take()); // (CPY, CPY_M, CPY_N)
            fill(&mut t_s_in, marker);
            sync_threads();
            copy_if(K::Load::default(), |i| predicate(thread, i), &t_g_in, &mut t_s_in);
            out::<K>(destination, extents.to);
        }
    }
}

/// The tile, in a matrix of these extents.
#[inline(always)]
fn tile<P: GlobalPointer<Element = K::Element>, K: Case>(
    pointer: P,
    extents: (u32, u32),
) -> GlobalTensor<P, K::Strides, IdentityOf<K::Tile>> {
    Matrix::new(pointer, extents, K::strides(K::leading())).local_tile::<K::Tile, _>((0, 0))
}

/// Shared memory to registers, and those to global memory, when what was copied in has arrived.
///
/// # Safety
/// As [`Runs::whole`].
#[inline(always)]
unsafe fn out<K: Case>(destination: GlobalMut<K::Element>, extents: (u32, u32))
where
    Shared<K::Element>: CopySource<SourceOf<K::Move>>,
    Registers<K::Element>: CopyDestination<DestinationOf<K::Move>> + CopySource<SourceOf<K::Move>>,
    Strided<GlobalMut<K::Element>, K::Strides>: CopyDestination<DestinationOf<K::Move>>,
{
    let through = K::Move::get_slice(thread_idx().x);
    let mut t_g_out = through.partition_d(tile::<_, K>(destination, extents)); // (CPY, CPY_M, CPY_N)
    // SAFETY: the caller's contract; the tile is read after a barrier, the fragment after it was
    // written.
    unsafe {
        cp_async_commit();
        cp_async_wait::<0>();
        sync_threads();
        let t_s_out = through.partition_s(Storage::<K>::take()); // (CPY, CPY_M, CPY_N)
        let mut t_r_out = t_s_out.make_fragment_like(); // (CPY, CPY_M, CPY_N)
        copy_tiled(K::Move::default(), &t_s_out, &mut t_r_out);
        copy_tiled(K::Move::default(), &t_r_out, &mut t_g_out);
    }
}
