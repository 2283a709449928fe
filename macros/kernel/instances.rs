//! The entry points of a generic function: `#[kernel(instances = (name_f32<f32>, name_f64<f64>))]`.

use super::{Bounds, Instance, Shared, is_cfg, one};
use proc_macro2::{Group, TokenStream, TokenTree};
use quote::{ToTokens, format_ident, quote};
use std::collections::HashMap;
use syn::parse::{Parse, Parser};
use syn::{Error, FnArg, GenericParam, Ident, ItemFn, Pat, Result, parse_quote};

pub(super) fn expand(bounds: &Bounds, function: &ItemFn) -> Result<TokenStream> {
    let generic = generic(bounds, function);
    let entries = bounds
        .instances
        .iter()
        .map(|instance| entry(bounds, function, instance))
        .collect::<Result<Vec<_>>>()?;
    let table = bounds.table.as_ref().map(|table| list(bounds, function, table)).transpose()?;
    Ok(quote! { #generic #(#entries)* #table })
}

/// The trait `table`, implemented for each type that is the first argument of instances, with these
/// instances in order.
fn list(bounds: &Bounds, function: &ItemFn, table: &Ident) -> Result<TokenStream> {
    let first = function.sig.generics.params.first();
    let Some(GenericParam::Type(element)) = first else {
        return Err(Error::new(
            table.span(),
            "`table` lists the instances of each type: the first generic parameter is a type",
        ));
    };
    let types_for = |of: TokenStream| {
        let values = HashMap::from([(element.ident.to_string(), of)]);
        let types = function.sig.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(typed) => Some(substituted(&*typed.ty, &values)),
            FnArg::Receiver(_) => None,
        });
        types.collect::<Result<Vec<_>>>()
    };
    let mut by_type: Vec<(String, TokenStream, Vec<&Ident>)> = Vec::new();
    for instance in &bounds.instances {
        let Some(ty) = instance.arguments.args.first().map(ToTokens::to_token_stream) else { continue };
        match by_type.iter_mut().find(|(name, ..)| *name == ty.to_string()) {
            Some((_, _, kernels)) => kernels.push(&instance.name),
            None => by_type.push((ty.to_string(), ty, vec![&instance.name])),
        }
    }
    let (vis, of_self) = (&function.vis, types_for(quote!(Self))?);
    let doc = format!("The instances of [`{}`] of an element type, in order.", function.sig.ident);
    let implementations = by_type
        .iter()
        .map(|(_, ty, kernels)| {
            let types = types_for(ty.clone())?;
            Ok(quote! {
                #[cfg(not(target_arch = "nvptx64"))]
                impl #table for #ty {
                    const KERNELS: &'static [::moye_device::kernel::Kernel<(#(#types,)*)>] = &[#(#kernels),*];
                }
            })
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #[doc = #doc]
        #vis trait #table: ::moye_device::memory::Element {
            #[doc = #doc]
            const KERNELS: &'static [::moye_device::kernel::Kernel<(#(#of_self,)*)>];
        }
        #(#implementations)*
    })
}

/// The function itself, which receives the shared tensors as arguments.
fn generic(bounds: &Bounds, function: &ItemFn) -> ItemFn {
    let mut generic = function.clone();
    let block = &function.block;
    let mut taken = TokenStream::new();
    if let Some(Shared::Named(arrays)) = &bounds.shared {
        let ty = bounds.shared.as_ref().map(Shared::ty);
        generic
            .sig
            .inputs
            .push(parse_quote!(__moye_shared: <#ty as ::moye_device::memory::SharedStorage>::Tensors));
        let names = arrays.iter().map(|(name, _)| name);
        taken = quote! { let (#(#names,)*) = __moye_shared; };
    }
    generic.attrs.push(parse_quote!(#[inline(always)]));
    generic.attrs.push(parse_quote!(#[allow(clippy::too_many_arguments, unused_unsafe)]));
    generic.block = parse_quote!({
        #taken
        // SAFETY: the body is under the kernel's contract.
        unsafe #block
    });
    generic
}

/// One entry point, which calls the function.
fn entry(bounds: &Bounds, function: &ItemFn, instance: &Instance) -> Result<TokenStream> {
    let Instance { cfgs, name, arguments } = instance;
    let params: Vec<_> = function
        .sig
        .generics
        .params
        .iter()
        .filter_map(|param| match param {
            GenericParam::Type(param) => Some(param.ident.to_string()),
            GenericParam::Const(param) => Some(param.ident.to_string()),
            GenericParam::Lifetime(_) => None,
        })
        .collect();
    if params.len() != arguments.args.len() {
        return Err(Error::new(
            name.span(),
            format!(
                "`{}` has {} generic parameters, and `{name}` is given {}",
                function.sig.ident,
                params.len(),
                arguments.args.len()
            ),
        ));
    }
    let values: HashMap<_, _> =
        params.into_iter().zip(arguments.args.iter().map(ToTokens::to_token_stream)).collect();
    let mut own = function.clone();
    own.attrs.retain(|attribute| attribute.path().is_ident("doc") || is_cfg(attribute));
    own.attrs.extend(cfgs.iter().cloned());
    own.sig.ident = name.clone();
    own.sig.generics = syn::Generics::default();
    let mut passed = Vec::new();
    for input in &mut own.sig.inputs {
        let FnArg::Typed(typed) = input else { continue };
        *typed.ty = substituted(&*typed.ty, &values)?;
        if let Pat::Ident(pattern) = &mut *typed.pat {
            pattern.mutability = None;
            passed.push(pattern.ident.clone());
        }
    }
    let mut own_bounds = Bounds { instances: Vec::new(), ..bounds.clone() };
    own_bounds.threads = bounds.threads.as_ref().map(|value| substituted(value, &values)).transpose()?;
    own_bounds.min_blocks =
        bounds.min_blocks.as_ref().map(|value| substituted(value, &values)).transpose()?;
    let mut tensors = TokenStream::new();
    own_bounds.shared = match &bounds.shared {
        None => None,
        Some(Shared::Type(ty)) => Some(Shared::Type(substituted(ty, &values)?)),
        Some(Shared::Named(arrays)) => {
            // The function's local names may equal its parameter names here.
            let names: Vec<_> = (0..arrays.len()).map(|i| format_ident!("__moye_shared_{i}")).collect();
            tensors = quote! { (#(#names,)*) };
            let types = arrays.iter().map(|(_, ty)| substituted(ty, &values)).collect::<Result<Vec<_>>>()?;
            Some(Shared::Named(names.into_iter().zip(types).collect()))
        }
    };
    let text = &function.sig.ident;
    own.block = parse_quote!({ #text::#arguments(#(#passed,)* #tensors) });
    one(Ok(own_bounds), &own)
}

/// A part of the function with its generic parameters replaced.
fn substituted<T: ToTokens + Parse>(piece: &T, values: &HashMap<String, TokenStream>) -> Result<T> {
    T::parse.parse2(replaced(piece.to_token_stream(), values))
}

fn replaced(tokens: TokenStream, values: &HashMap<String, TokenStream>) -> TokenStream {
    let mut result = TokenStream::new();
    // A name after `::` is not a generic parameter.
    let mut colons = 0;
    for token in tokens {
        let behind_path = colons >= 2;
        colons = match &token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons + 1,
            _ => 0,
        };
        match token {
            TokenTree::Ident(ident) if !behind_path && values.contains_key(&ident.to_string()) => {
                result.extend(values[&ident.to_string()].clone());
            }
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), replaced(group.stream(), values));
                inner.set_span(group.span());
                result.extend([TokenTree::Group(inner)]);
            }
            token => result.extend([token]),
        }
    }
    result
}
