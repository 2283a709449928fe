//! The macros of moye: the attribute [`macro@kernel`], the derive macro [`macro@KernelParam`] and,
//! with the layout algebra, `layout!`. Those without documentation here have it where `moye_device`
//! re-exports them: their examples need its types.

mod declare;
mod device_errors;
mod kernel;
mod layout;
mod page;
mod param;
mod wgmma;

use proc_macro::TokenStream;

#[proc_macro_attribute]
pub fn kernel(bounds: TokenStream, function: TokenStream) -> TokenStream {
    let function = function.into();
    let errors = device_errors::of(&function);
    let expanded = kernel::expand(bounds.into(), function).unwrap_or_else(syn::Error::into_compile_error);
    [errors, expanded].into_iter().collect::<proc_macro2::TokenStream>().into()
}

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

#[proc_macro]
pub fn static_layout(input: TokenStream) -> TokenStream {
    declared(declare::Kind::StaticLayout, input)
}

#[proc_macro]
pub fn swizzled_layout(input: TokenStream) -> TokenStream {
    declared(declare::Kind::SwizzledLayout, input)
}

#[proc_macro]
pub fn tiled_mma(input: TokenStream) -> TokenStream {
    declared(declare::Kind::TiledMma, input)
}

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
