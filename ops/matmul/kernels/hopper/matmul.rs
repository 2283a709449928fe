//! The kernels' body: scheduler, mainloop, epilogue and sink.

use super::config::{ArgumentsOf, WgmmaConfig};
use super::epilogue::Finish;
use super::mainloop::Loop;
use super::schedule::{Schedule, Sharing};
use super::sink::Store;
use core::marker::PhantomData;
use moye_device::collective::{Epilogue, StorageOf, gemm_warp_specialised};
use moye_device::memory::TensorMap;

/// The `shared` declaration of a kernel with the configuration `G`.
pub type WgmmaStorage<G, const CLUSTER: u32, const STAGES: u32> =
    StorageOf<Loop<'static, G, CLUSTER, STAGES>, Store<'static, G, ()>>;

/// `c = activation(alpha * a * b + beta * c + bias)` by a persistent grid; scales, if there are
/// any, multiply `a * b`.
///
/// # Safety
/// All threads of the block call it together, and the kernel declares
/// [`WgmmaStorage<G, CLUSTER, STAGES>`] and `G::THREADS` threads. The launch has clusters of
/// `CLUSTER` blocks, which is `G::CLUSTER`. The maps of A, B and C are built from the tiles of
/// [`Maps`](super::Maps). The map of C is needed only if `arguments.tensor_c` is set: without it C
/// is written through its address. The matrices are in memory of the device, and `c` overlaps no
/// other. [`Sharing`] has memory of this launch only.
#[inline(always)]
pub unsafe fn matmul<G: WgmmaConfig, const CLUSTER: u32, const STAGES: u32>(
    a: &TensorMap,
    b: &TensorMap,
    c: Option<&TensorMap>,
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
) {
    matmul_with::<G, (), CLUSTER, STAGES>(a, b, c, arguments, sharing, ())
}

/// [`matmul`] with a custom [`Epilogue`]; alpha, beta, bias and activation of the arguments are
/// ignored. It is called as by [`ByElement`](moye_device::collective::ByElement): for elements of C
/// only, unless it sets `ANYWHERE`.
///
/// # Safety
/// Same contract as [`matmul`]; what the epilogue points to is readable. K is not split:
/// `arguments.splits` is 1.
#[inline(always)]
pub unsafe fn matmul_with<G: WgmmaConfig, E: Epilogue<G::Sum>, const CLUSTER: u32, const STAGES: u32>(
    a: &TensorMap,
    b: &TensorMap,
    c: Option<&TensorMap>,
    arguments: &ArgumentsOf<G>,
    sharing: &Sharing<G::Sum>,
    own: E,
) {
    const { assert!(!G::ONE_TILE && G::PARTS == 1, "blocks with one tile, or a split of it, have `matmul_parts`") };
    let scheduler = Schedule::<G>::new(arguments, sharing);
    let epilogue = Finish::<G, E> { arguments, own };
    let sink = Store::<G, E> { map: c, arguments, sharing, own: PhantomData };
    gemm_warp_specialised::<Loop<G, CLUSTER, STAGES>, _, _, _>((a, b, arguments), scheduler, epilogue, sink);
}
