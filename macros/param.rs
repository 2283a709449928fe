//! The derive macro `KernelParam`: a `repr(C)` struct as one kernel parameter.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::Visit;
use syn::{Data, DeriveInput, Error, Fields, Ident, Result, Type};

pub fn expand(input: TokenStream) -> Result<TokenStream> {
    let input: DeriveInput = syn::parse2(input)?;
    let fields = fields_of(&input)?;
    let name = &input.ident;
    let text = name.to_string();
    let types: Vec<_> = fields.iter().map(|field| &field.ty).collect();
    let generics = &input.generics;
    let parameters: Vec<_> = generics
        .type_params()
        .map(|parameter| parameter.ident.clone())
        .chain(generics.const_params().map(|parameter| parameter.ident.clone()))
        .collect();
    // A type that names a parameter of the struct becomes a bound on its users; any other type is
    // checked here.
    let (generic, plain): (Vec<&Type>, Vec<&Type>) = types.iter().partition(|ty| names_any(ty, &parameters));
    let (impl_generics, type_generics, where_clause) = generics.split_for_impl();
    let bounds = where_clause.map(|clause| &clause.predicates);
    let bounds = bounds.into_iter().flatten().map(|bound| quote! { #bound });
    let required =
        generic.iter().map(|ty| quote_spanned! { ty.span() => #ty: ::moye_device::kernel::KernelParam });
    let bounds = bounds.chain(required);
    // The call has the span of the type, at which the compiler reports errors.
    let field =
        |ty: &&Type| quote_spanned! { ty.span() => ::moye_device::kernel::assert_field::<#ty>(#text); };
    let (checks, of_generic) = (plain.iter().map(field), generic.iter().map(field));
    let alignment =
        format!("`{text}` is aligned to more than 8 bytes, which no parameter of a kernel may be");
    let aligned = quote_spanned! { name.span() => assert!(align_of::<Self>() <= 8, #alignment); };
    // Without type parameters everything is known here; otherwise it is checked when a kernel uses
    // the struct.
    let evaluated = generics.params.is_empty().then(|| {
        quote_spanned! { name.span() =>
            const _: () = { let _ = <#name as ::moye_device::kernel::KernelParam>::TYPE; };
        }
    });
    Ok(quote! {
        const _: () = { #(#checks)* };
        // SAFETY: `repr(C)` and aligned to at most 8 bytes (asserted), with fields that mean the
        // same on host and device.
        unsafe impl #impl_generics ::moye_device::kernel::KernelParam for #name #type_generics where #(#bounds),* {
            const TYPE: ::moye_device::kernel::ParamType = {
                #(#of_generic)*
                #aligned
                ::moye_device::kernel::ParamType::Struct { name: #text, size: size_of::<Self>() }
            };
        }
        #evaluated
    })
}

/// The fields of the struct, or the reason why it cannot be a parameter.
fn fields_of(input: &DeriveInput) -> Result<&Fields> {
    let name = &input.ident;
    let Data::Struct(data) = &input.data else {
        let text = format!(
            "`{name}` is not a struct: a kernel takes numbers, pointers, and `repr(C)` structs of these"
        );
        return Err(Error::new(name.span(), text));
    };
    if data.fields.is_empty() {
        let text = format!("`{name}` has no fields: there is nothing that a kernel would take");
        return Err(Error::new(name.span(), text));
    }
    let mut is_c = false;
    for attribute in input.attrs.iter().filter(|attribute| attribute.path().is_ident("repr")) {
        attribute.parse_nested_meta(|meta| {
            if meta.path.is_ident("packed") {
                let text = format!(
                    "`{name}` is packed: kernels read the fields of a parameter at multiples of their sizes"
                );
                return Err(meta.error(text));
            }
            is_c |= meta.path.is_ident("C");
            // `align(16)`, whose value the alignment reflects.
            if meta.input.peek(syn::token::Paren) {
                let content;
                syn::parenthesized!(content in meta.input);
                content.parse::<TokenStream>()?;
            }
            Ok(())
        })?;
    }
    if !is_c {
        let text = format!("`{name}` has no fixed layout, so host and device may differ; add `#[repr(C)]`");
        return Err(Error::new(name.span(), text));
    }
    Ok(&data.fields)
}

/// Whether a type names one of the struct's parameters.
fn names_any(ty: &Type, parameters: &[Ident]) -> bool {
    struct Names<'a>(&'a [Ident], bool);
    impl<'ast> Visit<'ast> for Names<'_> {
        fn visit_ident(&mut self, ident: &'ast Ident) {
            self.1 |= self.0.contains(ident);
        }
    }
    let mut names = Names(parameters, false);
    names.visit_type(ty);
    names.1
}
