//! The macros of moye: the attribute [`macro@kernel`] and, with the layout algebra, `layout!`.

use proc_macro::TokenStream;

/// Declares a kernel.
#[proc_macro_attribute]
pub fn kernel(_bounds: TokenStream, function: TokenStream) -> TokenStream {
    function
}
