//! The macros of moye: the attribute [`macro@kernel`], the derive macro [`macro@KernelParam`] and,
//! with the layout algebra, `layout!`.

mod declare;
mod device_errors;
mod kernel;
mod layout;
mod page;
mod param;
mod wgmma;

use proc_macro::TokenStream;

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
#[proc_macro_attribute]
pub fn kernel(bounds: TokenStream, function: TokenStream) -> TokenStream {
    let function = function.into();
    let errors = device_errors::of(&function);
    let expanded = kernel::expand(bounds.into(), function).unwrap_or_else(syn::Error::into_compile_error);
    [errors, expanded].into_iter().collect::<proc_macro2::TokenStream>().into()
}

/// Lets a struct be a kernel parameter: one value per launch instead of many numbers and pointers.
///
/// ```
/// use moye_device::kernel;
/// use moye_device::kernel::KernelParam;
/// use moye_device::memory::{Element, Global, GlobalMut};
///
/// /// `n` elements.
/// #[derive(Clone, Copy, KernelParam)]
/// #[repr(C)]
/// pub struct Vector<T: Element> {
///     first: Global<T>,
///     n: u32,
/// }
///
/// /// Multiplies `x` by `factor`.
/// ///
/// /// # Safety
/// /// `x` has `n` elements, and `y` leads to at least as many.
/// #[kernel(threads = 256)]
/// pub unsafe fn scale(x: Vector<f32>, factor: f32, y: GlobalMut<f32>) {
///     // ...
/// }
/// # fn main() {}
/// ```
///
/// The struct is `Copy` and `repr(C)`, aligned to at most 8 bytes, and each field can be a kernel
/// parameter: a number, a pointer to global memory, or another such struct. A value that
/// instructions take by the address of the parameter, such as a tensor map, must be a separate
/// parameter. In a generic struct, a field whose type names a type parameter must be a parameter
/// type where the struct is used.
#[proc_macro_derive(KernelParam)]
pub fn kernel_param(input: TokenStream) -> TokenStream {
    param::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A layout in CuTe's notation: `shape:stride`, or a shape alone for the compact column-major
/// layout.
///
/// ```ignore
/// layout!((4, (2, 2)):(2, (1, 8)))
/// layout!((32, 8))                  // (32,8):(1,32)
/// layout!((M, K):(ld, 1))           // integers may be any integer expressions
/// layout!((4, 3):(1@0, 1@1))        // strides along basis vectors
/// ```
///
/// Stand-alone parentheses are a tuple, so `(2)` is a tuple of one integer; write an expression in
/// parentheses as `{ M + 1 }`. A layout of literals is computed at compile time, and a wrong one
/// does not compile, wherever it is. With run-time integers, it panics if `Layout::try_new` would
/// return an error.
#[proc_macro]
pub fn layout(input: TokenStream) -> TokenStream {
    layout::layout(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A tuple of integers in CuTe's notation, for shapes, strides and coordinates:
/// `tuple!((4, (2, 2)))`, `tuple!(8)`, with `_` for the wildcard and `1@0` for a multiple of a
/// basis vector.
#[proc_macro]
pub fn tuple(input: TokenStream) -> TokenStream {
    layout::tuple(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A tiler: a layout (`4:2`), an extent (`64`), the wildcard `_`, or a tuple with one of these for
/// each mode: `tiler!((64, 16))`, `tiler!((8:4, _, (2, 2):(1, 8)))`.
#[proc_macro]
pub fn tiler(input: TokenStream) -> TokenStream {
    layout::tiler(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

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
#[proc_macro]
pub fn static_layout(input: TokenStream) -> TokenStream {
    declared(declare::Kind::StaticLayout, input)
}

/// Declares types for swizzled layouts of shared memory, which may be generic:
///
/// ```
/// use moye_device::layout::{ComposedLayout, Swizzle, layout, tuple};
/// use moye_device::swizzled_layout;
///
/// swizzled_layout! {
///     /// Rows of half-precision numbers, 16-byte pieces exchanged within each 128-byte row.
///     pub SmemA<const M: i64> = ComposedLayout::new(Swizzle::new(3, 3, 3), 0, layout!((8, 64):(64, 1))).tile_to_shape(tuple!((M, 64)));
/// }
/// # fn main() {}
/// ```
#[proc_macro]
pub fn swizzled_layout(input: TokenStream) -> TokenStream {
    declared(declare::Kind::SwizzledLayout, input)
}

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
#[proc_macro]
pub fn tiled_mma(input: TokenStream) -> TokenStream {
    declared(declare::Kind::TiledMma, input)
}

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
#[proc_macro]
pub fn tiled_copy(input: TokenStream) -> TokenStream {
    declared(declare::Kind::TiledCopy, input)
}

fn declared(kind: declare::Kind, input: TokenStream) -> TokenStream {
    declare::expand(kind, input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// `for_each_wgmma!(each)` calls the macro `each` with one row for each shape and type of
/// `wgmma.mma_async`:
///
/// ```text
/// wgmma {
///     majors; SM90_64x8x16_F32F16F16_SS wgmma_m64n8k16_f32_f16_f16_ss; SM90_64x8x16_F32F16F16_RS wgmma_m64n8k16_f32_f16_f16_rs;
///     "m64n8k16.f32.f16.f16"; needs 8.0; [64, 8, 16]; Float;
///     d f32 4 "{0}, {1}, {2}, {3}" [0 1 2 3]; a f16; b f16
/// }
/// ```
///
/// The first entry lists the options: `majors` (which mode of A and B is contiguous, and their
/// signs), `scaled` (their signs) or `plain` (none). It is followed by the atoms and functions with
/// A in shared memory and in registers, the instruction's text, the first PTX version that supports
/// it, its extents m, n and k, how products are summed, and the element types, of D with the
/// registers per thread.
#[proc_macro]
pub fn for_each_wgmma(callback: TokenStream) -> TokenStream {
    wgmma::for_each(callback.into()).into()
}

/// `page!("guide/layouts.md")`: a page of the guide, as a string for `#[doc = ...]`. Links to files
/// of the repository, which docs.rs lacks, become links to other pages or plain text; pictures are
/// embedded in the page.
#[doc(hidden)]
#[proc_macro]
pub fn page(path: TokenStream) -> TokenStream {
    page::expand(path.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}
