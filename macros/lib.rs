//! The macros of moye: the attribute [`macro@kernel`], the derive macro [`macro@KernelParam`] and, with the layout algebra, `layout!`.

mod kernel;
mod layout;
mod param;
mod wgmma;

use proc_macro::TokenStream;

/// Declares a kernel: an entry point on the GPU, a typed value on the host.
///
/// ```
/// use moye_device::kernel;
/// use moye_device::memory::{Global, GlobalMut};
///
/// /// Multiplies `n` numbers by `factor`.
/// ///
/// /// # Safety
/// /// `x` and `y` point to at least `n` numbers each.
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
/// - `threads = N`: the most threads that a block is launched with (PTX `.maxntid`). The compiler may then use as many
///   registers as that many threads leave; a launch with more is refused.
/// - `min_blocks = N`: blocks that must fit on one multiprocessor at a time (PTX `.minnctapersm`); needs `threads`.
/// - `shared = Type`: the type that lays out the block's shared memory.
///
/// # The function
/// It is an `unsafe fn` that returns nothing, without generics, with at most 16 named parameters of types that
/// implement `KernelParam`. Compiled for the GPU it becomes an entry point under its own name. On the host the name
/// stands for a constant of type `Kernel<(P1, P2, ...)>` instead, which a launch takes, and which carries the body
/// for the simulator.
#[proc_macro_attribute]
pub fn kernel(bounds: TokenStream, function: TokenStream) -> TokenStream {
    kernel::expand(bounds.into(), function.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Makes a struct a parameter of kernels: one value that a launch passes, instead of many numbers and pointers.
///
/// ```
/// use moye_device::kernel;
/// use moye_device::kernel::KernelParam;
/// use moye_device::memory::{Element, Global, GlobalMut};
///
/// /// `n` numbers.
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
/// /// `x` has `n` numbers, and `y` leads to at least as many.
/// #[kernel(threads = 256)]
/// pub unsafe fn scale(x: Vector<f32>, factor: f32, y: GlobalMut<f32>) {
///     // ...
/// }
/// # fn main() {}
/// ```
///
/// The struct is `Copy` and `repr(C)`, aligned to at most 8 bytes, and each field may be passed to a kernel by itself: a number, a pointer to
/// global memory, or another such struct. What instructions take by the address of the parameter, as a tensor map, stays a parameter
/// of its own. Of a generic struct, a field whose type names a type parameter is required to be a parameter where the struct is used.
#[proc_macro_derive(KernelParam)]
pub fn kernel_param(input: TokenStream) -> TokenStream {
    param::expand(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A layout in CuTe's notation: `shape:stride`, or a shape alone for the compact column-major layout.
///
/// ```ignore
/// layout!((4, (2, 2)):(2, (1, 8)))
/// layout!((32, 8))                  // (32,8):(1,32)
/// layout!((M, K):(ld, 1))           // integers may be any integer expressions
/// layout!((4, 3):(1@0, 1@1))        // strides along basis vectors
/// ```
///
/// Parentheses that stand alone are a tuple, so `(2)` is a tuple of one integer; write an expression in parentheses as
/// `{ M + 1 }`. A layout of literals is made at compile time, and one that is wrong does not compile, wherever it
/// stands. With run-time integers, it panics where `Layout::try_new` gives an error.
#[proc_macro]
pub fn layout(input: TokenStream) -> TokenStream {
    layout::layout(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// A tuple of integers in CuTe's notation, for shapes, strides and coordinates: `tuple!((4, (2, 2)))`, `tuple!(8)`,
/// with `_` for the wildcard and `1@0` for a multiple of a basis vector.
#[proc_macro]
pub fn tuple(input: TokenStream) -> TokenStream {
    layout::tuple(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// What a layout is tiled by: a layout (`4:2`), an extent (`64`), the wildcard `_`, or a tuple with one of these for
/// each mode: `tiler!((64, 16))`, `tiler!((8:4, _, (2, 2):(1, 8)))`.
#[proc_macro]
pub fn tiler(input: TokenStream) -> TokenStream {
    layout::tiler(input.into()).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// `for_each_wgmma!(each)` calls the macro `each` with one row for each shape and type of `wgmma.mma_async`:
///
/// ```text
/// wgmma {
///     majors; SM90_64x8x16_F32F16F16_SS wgmma_m64n8k16_f32_f16_f16_ss; SM90_64x8x16_F32F16F16_RS wgmma_m64n8k16_f32_f16_f16_rs;
///     "m64n8k16.f32.f16.f16"; needs 8.0; [64, 8, 16]; Float;
///     d f32 4 "{0}, {1}, {2}, {3}" [0 1 2 3]; a f16; b f16
/// }
/// ```
///
/// First what may be chosen: `majors` (which mode of A and B is contiguous, and their signs), `scaled` (their signs) or
/// `plain` (nothing). Then the atoms and functions with A in shared memory and in registers, the instruction's text, the PTX
/// version that has it, its extents m, n and k, how products are summed, and the number types, of D with the registers of a thread.
#[proc_macro]
pub fn for_each_wgmma(callback: TokenStream) -> TokenStream {
    wgmma::for_each(callback.into()).into()
}
