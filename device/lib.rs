//! The device side of moye: the layout algebra, tensors over global, shared and register memory,
//! tiled copies, tiled matrix instructions and pipelines. Kernels are built from them: yours, and
//! those of the families of operations.
//!
//! The crate is `no_std` and is compiled twice from the same source: to PTX for a GPU (target
//! `nvptx64-nvidia-cuda`), and for the host, where `moye-sim` replaces the GPU. Only [`arch`]
//! distinguishes the two.
#![no_std]
#![deny(missing_docs)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(abi_ptx, asm_experimental_arch, stdarch_nvptx, link_llvm_intrinsics, abi_unadjusted)
)]
#![cfg_attr(target_arch = "nvptx64", allow(internal_features))]

// `#[kernel]` generates paths that start at `::moye_device`, also inside this crate.
#[cfg(not(target_arch = "nvptx64"))]
extern crate alloc;
extern crate self as moye_device;

pub mod algorithm;
pub mod analysis;
pub mod arch;
pub mod atom;
pub mod collective;
mod expressions;
// Only the documentation and its tests need this; ordinary builds do not compile it.
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod kernel;
pub mod layout;
pub mod math;
pub mod memory;
pub mod number;
#[cfg(target_arch = "nvptx64")]
mod panic;
pub mod pipeline;
pub mod prelude;
pub mod tensor;
mod tiling;

pub use expressions::{Shape, Shape1, Shape3, Shape4, Shape5};
pub use half;
pub use layout::{IntTuple, Layout, LayoutError, Tiler};
/// Declares a kernel: an entry point on the GPU and a typed value on the host.
///
/// ```
/// use moye_device::kernel;
/// use moye_device::memory::{Global, GlobalMut};
///
/// /// Multiplies `n` elements by `factor`.
/// ///
/// /// # Safety
/// /// `x` and `y` point to at least `n` elements each.
/// #[kernel(threads = 256, min_blocks = 2)]
/// pub unsafe fn scale(n: u32, factor: f32, x: Global<f32>, y: GlobalMut<f32>) {
///     // ...
/// }
///
/// # fn main() {
/// assert_eq!(scale.name(), "scale");
/// assert_eq!(scale.bounds().threads, Some(256));
/// # }
/// ```
///
/// # Arguments
/// All are optional; each is a constant expression or a type:
/// - `threads = N`: the threads of a block (PTX `.maxntid`). The compiler may then use as many
///   registers as that many threads leave. A launch with another number is refused: the kernel
///   divides its work by `N`.
/// - `max_threads = N`, instead: the most threads of a block, for a kernel that reads `block_dim`.
/// - `min_blocks = N`: blocks that must fit on one SM at a time (PTX `.minnctapersm`); needs
///   `threads`.
/// - `shared = (sA: SharedArray<f32, SmemA>, sB: ...)`: the block's shared memory; the body
///   receives the tensors `sA` and `sB`. With `shared = Type`, the layout is the same but the body
///   takes the tensors itself (`Type::take()`).
/// - `instances = (scale_f32<f32>, scale_f64<f64>)`: the entry points of a generic function. Each
///   is a kernel under its own name, and the function remains a function.
///
/// # The function
/// An `unsafe fn` that returns nothing, generic only with `instances`, with at most 16 named
/// parameters of types that implement `KernelParam`. Its `# Safety` section states the kernel's
/// contract once: the body relies on it and needs no `unsafe`. Compiled for the GPU, it becomes an
/// entry point under its own name. On the host, the name is instead a constant of type
/// `Kernel<(P1, P2, ...)>`, which a launch takes and which contains the body for the simulator.
pub use moye_macros::kernel;
#[doc(hidden)]
pub use moye_macros::page;
/// Declares types for layouts, which may be generic:
///
/// ```
/// use moye_device::layout::layout;
/// use moye_device::static_layout;
/// use moye_device::tensor::StaticLayout;
///
/// static_layout! {
///     /// (BLK_M, BLK_K)
///     pub SmemA = layout!((128, 8) : (1, 129));
///     pub Rows<const D: i64> = layout!((64, D) : (D, 1));
/// }
/// # fn main() {
/// assert_eq!(Rows::<128>::LAYOUT, layout!((64, 128) : (128, 1)));
/// # }
/// ```
pub use moye_macros::static_layout;
/// Declares types for swizzled layouts of shared memory, which may be generic:
///
/// ```
/// use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
/// use moye_device::swizzled_layout;
///
/// swizzled_layout! {
///     /// Rows of half-precision elements, 16-byte pieces exchanged within each 128-byte row.
///     pub SmemA<const M: i64> = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1)))
///         .tile_to_shape(tuple!((M, 64)));
/// }
/// # fn main() {}
/// ```
pub use moye_macros::swizzled_layout;
/// Declares types for tiled copies, which may be generic:
///
/// ```
/// use moye_device::atom::copy::SM80_CP_ASYNC_CACHEGLOBAL;
/// use moye_device::atom::{StaticTiledCopy, TiledCopy};
/// use moye_device::layout::layout;
/// use moye_device::memory::Storable;
/// use moye_device::tiled_copy;
///
/// tiled_copy! {
///     /// 32 x 8 threads, four neighbours along M each.
///     pub CopyA: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u128>, f32> = TiledCopy::new(layout!((32, 8)), layout!((4, 1)));
///     /// 16 bytes of any type.
///     pub CopyOf<T: Storable>: TiledCopy<SM80_CP_ASYNC_CACHEGLOBAL<u128>, T> =
///         TiledCopy::new(layout!((32, 8)), layout!(({ 128 / T::BITS }, 1)));
/// }
/// # fn main() {
/// assert_eq!(CopyA::COPY.tile().to_string(), "(128,8)");
/// assert_eq!(CopyOf::<u8>::COPY.tile().to_string(), "(512,8)");
/// # }
/// ```
pub use moye_macros::tiled_copy;
/// Declares types for tiled MMAs, which may be generic:
///
/// ```
/// use moye_device::atom::mma::{MmaAtom, SM80_16x8x16_F32F16F16F32_TN};
/// use moye_device::atom::{StaticTiledMma, TiledMma};
/// use moye_device::layout::layout;
/// use moye_device::tiled_mma;
///
/// tiled_mma! {
///     /// Four warps, two by two, over tiles of 32 x 32 x 16.
///     pub Mma: TiledMma<SM80_16x8x16_F32F16F16F32_TN> = TiledMma::tiled(layout!((2, 2, 1)), [32, 32, 16]);
///     /// The same by any atom.
///     pub MmaBy<A: MmaAtom>: TiledMma<A> = TiledMma::new(layout!((2, 2, 1)));
/// }
/// # fn main() {
/// assert_eq!((Mma::THREADS, MmaBy::<SM80_16x8x16_F32F16F16F32_TN>::THREADS), (128, 128));
/// # }
/// ```
pub use moye_macros::tiled_mma;
pub use moye_macros::{for_each_wgmma, layout, tiler, tuple};

/// The registry's page.
#[cfg(doctest)]
#[doc = include_str!("README.md")]
mod readme {}
