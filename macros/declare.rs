//! `static_layout!`, `swizzled_layout!`, `tiled_mma!` and `tiled_copy!`: types with one constant,
//! including generic types.

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, Expr, GenericArgument, GenericParam, Generics, Ident, PathArguments, Result, Token,
    Type, Visibility, parse_quote,
};

/// The kind of declaration.
#[derive(Clone, Copy)]
pub enum Kind {
    StaticLayout,
    SwizzledLayout,
    TiledMma,
    TiledCopy,
}

/// `pub Name<const D: i64>: Type = value;`
struct Declaration {
    attrs: Vec<Attribute>,
    vis: Visibility,
    name: Ident,
    generics: Generics,
    ty: Option<Type>,
    value: Expr,
}

impl Parse for Declaration {
    fn parse(input: ParseStream) -> Result<Self> {
        let attrs = input.call(Attribute::parse_outer)?;
        let (vis, name) = (input.parse()?, input.parse()?);
        let generics = input.parse()?;
        let ty = if input.peek(Token![:]) {
            input.parse::<Token![:]>()?;
            Some(input.parse()?)
        } else {
            None
        };
        input.parse::<Token![=]>()?;
        let value = input.parse()?;
        input.parse::<Token![;]>()?;
        Ok(Self { attrs, vis, name, generics, ty, value })
    }
}

struct Declarations(Vec<Declaration>);

impl Parse for Declarations {
    fn parse(input: ParseStream) -> Result<Self> {
        let mut all = Vec::new();
        while !input.is_empty() {
            all.push(input.parse()?);
        }
        Ok(Self(all))
    }
}

pub fn expand(kind: Kind, input: TokenStream) -> Result<TokenStream> {
    let Declarations(all) = syn::parse2(input)?;
    all.iter().map(|declaration| one(kind, declaration)).collect()
}

fn one(kind: Kind, declaration: &Declaration) -> Result<TokenStream> {
    let Declaration { name, generics, ty, value, .. } = declaration;
    let mut bounds = generics.clone();
    for param in bounds.type_params_mut() {
        param.bounds.push(parse_quote!('static));
    }
    let (impl_generics, _, where_clause) = bounds.split_for_impl();
    let (_, arguments, _) = generics.split_for_impl();
    let declared = structure(kind, declaration);
    // Inherent, so that a launch can name it without the trait.
    let threads = |of: TokenStream| {
        quote! {
            #[allow(dead_code, reason = "a kernel may have its threads from elsewhere")]
            impl #impl_generics #name #arguments #where_clause {
                /// The participating threads.
                pub const THREADS: u32 = <Self as #of>::THREADS;
            }
        }
    };
    let implemented = match kind {
        Kind::StaticLayout => {
            no_type(ty.as_ref(), "static_layout")?;
            quote! {
                impl #impl_generics ::moye_device::tensor::StaticLayout for #name #arguments #where_clause {
                    const LAYOUT: ::moye_device::layout::Layout = #value;
                }
            }
        }
        Kind::SwizzledLayout => {
            no_type(ty.as_ref(), "swizzled_layout")?;
            quote! {
                impl #impl_generics ::moye_device::tensor::StaticLayout for #name #arguments #where_clause {
                    const LAYOUT: ::moye_device::layout::Layout = {
                        let composed: ::moye_device::layout::ComposedLayout = #value;
                        ::moye_device::tensor::starts_at_offset_zero(composed)
                    };
                    const SWIZZLE: ::moye_device::layout::Swizzle = {
                        let composed: ::moye_device::layout::ComposedLayout = #value;
                        composed.swizzle
                    };
                }
            }
        }
        Kind::TiledMma => {
            let [atom] = type_arguments(name, ty.as_ref(), "TiledMma", "TiledMma<Atom>")?;
            let threads = threads(quote!(::moye_device::atom::StaticTiledMma));
            quote! {
                impl #impl_generics ::moye_device::atom::StaticTiledMma for #name #arguments #where_clause {
                    type Atom = #atom;
                    const MMA: ::moye_device::atom::TiledMma<#atom> = #value;
                }
                #threads
            }
        }
        Kind::TiledCopy => {
            let [atom, element] = type_arguments(name, ty.as_ref(), "TiledCopy", "TiledCopy<Atom, Element>")?;
            let threads = threads(quote!(::moye_device::atom::StaticTiledCopy));
            quote! {
                impl #impl_generics ::moye_device::atom::StaticTiledCopy for #name #arguments #where_clause {
                    type Atom = #atom;
                    type Element = #element;
                    const COPY: ::moye_device::atom::TiledCopy<#atom, #element> = #value;
                }
                #threads
            }
        }
    };
    Ok(quote! { #declared #implemented })
}

/// The type. Tiled types also have a value.
fn structure(kind: Kind, declaration: &Declaration) -> TokenStream {
    let Declaration { attrs, vis, name, generics, .. } = declaration;
    let tiled = matches!(kind, Kind::TiledMma | Kind::TiledCopy);
    if generics.params.is_empty() {
        let default = tiled.then(|| quote!(, Default));
        return quote! {
            #(#attrs)*
            #[derive(Clone, Copy, Debug #default)]
            #vis struct #name;
        };
    }
    // Without bounds, which belong to the constant.
    let mut plain = generics.clone();
    plain.where_clause = None;
    for param in plain.type_params_mut() {
        param.bounds.clear();
    }
    let types = generics.params.iter().filter_map(|param| match param {
        GenericParam::Type(param) => Some(&param.ident),
        _ => None,
    });
    let (impl_generics, arguments, _) = plain.split_for_impl();
    let text = name.to_string();
    let default = tiled.then(|| {
        quote! {
            impl #impl_generics ::core::default::Default for #name #arguments {
                fn default() -> Self {
                    Self(::core::marker::PhantomData)
                }
            }
        }
    });
    quote! {
        #(#attrs)*
        #vis struct #name #plain (::core::marker::PhantomData<fn() -> (#(#types,)*)>);

        impl #impl_generics ::core::clone::Clone for #name #arguments {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl #impl_generics ::core::marker::Copy for #name #arguments {}
        impl #impl_generics ::core::fmt::Debug for #name #arguments {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(#text)
            }
        }
        #default
    }
}

fn no_type(ty: Option<&Type>, what: &str) -> Result<()> {
    match ty {
        None => Ok(()),
        Some(ty) => Err(Error::new(
            ty.span(),
            format!("a layout has no type here: write `{what}! {{ Name = layout; }}`"),
        )),
    }
}

/// The arguments of `TiledMma<Atom>`.
fn type_arguments<const N: usize>(
    name: &Ident,
    ty: Option<&Type>,
    wanted: &str,
    form: &str,
) -> Result<[TokenStream; N]> {
    let span = ty.map_or(name.span(), Spanned::span);
    let wrong = || Error::new(span, format!("write `{name}: {form} = ...`"));
    let Some(Type::Path(path)) = ty.map(ungrouped) else { return Err(wrong()) };
    let last = path.path.segments.last().ok_or_else(wrong)?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Err(wrong()) };
    let types: Vec<_> = arguments
        .args
        .iter()
        .filter_map(|argument| match argument {
            // The user's span, at which the compiler reports errors.
            GenericArgument::Type(ty) => Some(quote_spanned!(ty.span()=> #ty).into_token_stream()),
            _ => None,
        })
        .collect();
    if last.ident != wanted {
        return Err(wrong());
    }
    types.try_into().map_err(|_| wrong())
}

/// A type without the groups that a macro puts around it.
fn ungrouped(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => ungrouped(&group.elem),
        ty => ty,
    }
}
