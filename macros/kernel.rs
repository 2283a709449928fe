//! The attribute `#[kernel]`: turns one function into an entry point for the GPU and a typed value
//! for the host.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{
    AngleBracketedGenericArguments, Attribute, Error, Expr, ExprLit, FnArg, GenericArgument, Ident, Index,
    ItemFn, Lit, Pat, PatIdent, Result, ReturnType, Signature, Token, Type, parenthesized, parse_quote,
    token,
};

mod instances;

/// More than any kernel needs; the host's parameter tuples have up to this many elements.
const MAX_PARAMS: usize = 16;
/// The most threads that a block can have on any GPU.
const MAX_THREADS: u64 = 1024;
/// The most blocks that fit on an SM of any GPU.
const MAX_BLOCKS: u64 = 32;

pub fn expand(bounds: TokenStream, function: TokenStream) -> Result<TokenStream> {
    let function: ItemFn = syn::parse2(function)?;
    let bounds = Bounds::parse(bounds);
    if let Ok(bounds) = &bounds
        && !bounds.instances.is_empty()
    {
        return instances::expand(bounds, &function);
    }
    one(bounds, &function)
}

/// A kernel that is not generic.
fn one(bounds: Result<Bounds>, function: &ItemFn) -> Result<TokenStream> {
    let params = check_function(function);
    // Both halves are checked before either is reported, so that one compilation shows all errors.
    let (bounds, params) = match (bounds, params) {
        (Ok(bounds), Ok(params)) => (bounds, params),
        (Err(mut first), Err(second)) => {
            first.combine(second);
            return Err(first);
        }
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let checks = checks(function, &bounds, &params);
    let gpu = gpu_side(function, &bounds, &params);
    let host = host_side(function, &bounds, &params);
    Ok(quote! { #checks #gpu #host })
}

/// The arguments of the attribute.
#[derive(Clone, Default)]
struct Bounds {
    threads: Option<Expr>,
    /// Whether `threads` is the most threads of a block, not their exact number.
    is_limit: bool,
    min_blocks: Option<Expr>,
    shared: Option<Shared>,
    instances: Vec<Instance>,
    /// The trait that lists the instances of each element type.
    table: Option<Ident>,
}

/// The kernel's shared memory.
#[derive(Clone)]
enum Shared {
    /// A type, of which the body takes the tensors.
    Type(Type),
    /// Named arrays, which the body receives as tensors.
    Named(Vec<(Ident, Type)>),
}

impl Shared {
    /// The type that defines its layout.
    fn ty(&self) -> TokenStream {
        match self {
            Self::Type(ty) => ty.to_token_stream(),
            Self::Named(arrays) => {
                let types = arrays.iter().map(|(_, ty)| ty);
                quote! { (#(#types,)*) }
            }
        }
    }

    /// Takes the named tensors at the beginning of the body.
    fn taken(&self) -> Option<TokenStream> {
        let Self::Named(arrays) = self else { return None };
        let names = arrays.iter().map(|(name, _)| name);
        let ty = self.ty();
        Some(quote! {
            // SAFETY: the kernel declares the storage, and only this code takes it.
            let (#(#names,)*) = unsafe { <#ty as ::moye_device::memory::SharedStorage>::take() };
        })
    }
}

impl Parse for Shared {
    fn parse(input: ParseStream) -> Result<Self> {
        let ahead = input.fork();
        if input.peek(token::Paren) {
            let content;
            parenthesized!(content in ahead);
            if content.peek(Ident) && content.peek2(Token![:]) && !content.peek2(Token![::]) {
                let content;
                parenthesized!(content in input);
                let arrays = Punctuated::<Array, Token![,]>::parse_terminated(&content)?;
                return Ok(Self::Named(arrays.into_iter().map(|Array(name, ty)| (name, ty)).collect()));
            }
        }
        Ok(Self::Type(input.parse()?))
    }
}

/// `sA: SharedArray<f32, SmemA>`
struct Array(Ident, Type);

impl Parse for Array {
    fn parse(input: ParseStream) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self(name, input.parse()?))
    }
}

/// `name<f16, 64>`
#[derive(Clone)]
struct Instance {
    /// Conditions under which it is compiled.
    cfgs: Vec<Attribute>,
    name: Ident,
    arguments: AngleBracketedGenericArguments,
}

impl Parse for Instance {
    fn parse(input: ParseStream) -> Result<Self> {
        Ok(Self { cfgs: Vec::new(), name: input.parse()?, arguments: input.parse()? })
    }
}

/// One argument of a [`Product`]: a type, or a constant.
#[derive(Clone)]
struct Choice {
    /// Conditions under which instances with it are compiled.
    cfgs: Vec<Attribute>,
    argument: GenericArgument,
    /// Its part of the entry point's name.
    name: String,
}

impl Parse for Choice {
    fn parse(input: ParseStream) -> Result<Self> {
        let cfgs = input.call(Attribute::parse_outer)?;
        if let Some(other) = cfgs.iter().find(|attribute| !is_cfg(attribute)) {
            return Err(Error::new(other.span(), "only `#[cfg(...)]` is taken here"));
        }
        if input.peek(Lit) {
            let value: Lit = input.parse()?;
            let name = value.to_token_stream().to_string();
            return Ok(Self {
                cfgs,
                argument: GenericArgument::Const(Expr::Lit(ExprLit { attrs: Vec::new(), lit: value })),
                name,
            });
        }
        let ty: Type = input.parse()?;
        let name = match &ty {
            Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string().to_lowercase()),
            _ => None,
        };
        let name = name.ok_or_else(|| Error::new(ty.span(), "expected a type with a name, or a literal"))?;
        Ok(Self { cfgs, argument: GenericArgument::Type(ty), name })
    }
}

/// `softmax<f32 | bf16, 32 | 128>`: an instance for each combination, the last argument fastest,
/// named `softmax_f32_32` and so on.
struct Product(Vec<Instance>);

impl Parse for Product {
    fn parse(input: ParseStream) -> Result<Self> {
        let name: Ident = input.parse()?;
        input.parse::<Token![<]>()?;
        let mut all = vec![(name.to_string(), Vec::<Choice>::new())];
        while !input.peek(Token![>]) {
            let choices = Punctuated::<Choice, Token![|]>::parse_separated_nonempty(input)?;
            let with = |(name, chosen): &(String, Vec<Choice>)| {
                let extended = |choice: &Choice| {
                    let chosen = chosen.iter().chain([choice]).cloned().collect();
                    (format!("{name}_{}", choice.name), chosen)
                };
                choices.iter().map(extended).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
            if !input.peek(Token![>]) {
                input.parse::<Token![,]>()?;
            }
        }
        input.parse::<Token![>]>()?;
        let instance = |(of, chosen): (String, Vec<Choice>)| {
            let arguments = chosen.iter().map(|choice| &choice.argument);
            Instance {
                name: Ident::new(&of, name.span()),
                arguments: parse_quote!(<#(#arguments),*>),
                cfgs: chosen.into_iter().flat_map(|choice| choice.cfgs).collect(),
            }
        };
        Ok(Self(all.into_iter().map(instance).collect()))
    }
}

/// One `name = value` of the attribute.
enum Argument {
    Threads(Ident, Expr),
    MaxThreads(Ident, Expr),
    MinBlocks(Ident, Expr),
    Shared(Ident, Box<Shared>),
    Instances(Ident, Vec<Instance>),
    Table(Ident, Ident),
}

impl Parse for Argument {
    fn parse(input: ParseStream) -> Result<Self> {
        let name: Ident = input.parse()?;
        let known = ["threads", "max_threads", "min_blocks", "shared", "instances", "table"];
        if !known.iter().any(|k| name == k) {
            return Err(Error::new(
                name.span(),
                format!(
                    "unknown argument `{name}`; #[kernel] takes `threads = N` or `max_threads = N`, `min_blocks = N`, `shared = Type`, `instances = (name<Type>, ...)` or `instances = kernel<Type | Type, 1 | 2>`, and `table = Trait`"
                ),
            ));
        }
        input
            .parse::<Token![=]>()
            .map_err(|_| Error::new(name.span(), format!("expected a value: write `{name} = ...`")))?;
        Ok(match name.to_string().as_str() {
            "threads" => Self::Threads(name, input.parse()?),
            "max_threads" => Self::MaxThreads(name, input.parse()?),
            "min_blocks" => Self::MinBlocks(name, input.parse()?),
            "shared" => Self::Shared(name, input.parse()?),
            "table" => Self::Table(name, input.parse()?),
            _ if input.peek(Ident) => Self::Instances(name, input.parse::<Product>()?.0),
            _ => {
                let content;
                parenthesized!(content in input);
                let all = Punctuated::<Instance, Token![,]>::parse_terminated(&content)?;
                Self::Instances(name, all.into_iter().collect())
            }
        })
    }
}

impl Bounds {
    fn parse(tokens: TokenStream) -> Result<Self> {
        let mut bounds = Self::default();
        for argument in Punctuated::<Argument, Token![,]>::parse_terminated.parse2(tokens)? {
            match argument {
                Argument::Threads(name, _) if bounds.is_limit => return Err(both(&name)),
                Argument::Threads(name, value) => {
                    check_literal(&value, MAX_THREADS, "a block has 1 to 1024 threads")?;
                    set(&mut bounds.threads, &name, value)?;
                }
                Argument::MaxThreads(name, value) => {
                    check_literal(&value, MAX_THREADS, "a block has 1 to 1024 threads")?;
                    if bounds.threads.is_some() {
                        return Err(both(&name));
                    }
                    set(&mut bounds.threads, &name, value)?;
                    bounds.is_limit = true;
                }
                Argument::MinBlocks(name, value) => {
                    check_literal(&value, MAX_BLOCKS, "1 to 32 blocks fit on an SM")?;
                    set(&mut bounds.min_blocks, &name, value)?;
                }
                Argument::Shared(name, value) => set(&mut bounds.shared, &name, *value)?,
                Argument::Instances(name, all) if all.is_empty() || !bounds.instances.is_empty() => {
                    return Err(Error::new(
                        name.span(),
                        "`instances` names each entry point once: `(name<Type>, ...)`",
                    ));
                }
                Argument::Instances(_, all) => bounds.instances = all,
                Argument::Table(name, table) => set(&mut bounds.table, &name, table)?,
            }
        }
        if let (Some(table), true) = (&bounds.table, bounds.instances.is_empty()) {
            return Err(Error::new(table.span(), "`table` lists instances: add `instances = ...`"));
        }
        if let (Some(min_blocks), None) = (&bounds.min_blocks, &bounds.threads) {
            return Err(Error::new(
                min_blocks.span(),
                "`min_blocks` means nothing without the size of a block; add `threads = N`",
            ));
        }
        Ok(bounds)
    }
}

/// The error of a kernel with both kinds of threads.
fn both(name: &Ident) -> Error {
    Error::new(
        name.span(),
        "a block has exactly `threads` threads, or at most `max_threads`; give one of the two, once",
    )
}

fn set<T>(slot: &mut Option<T>, name: &Ident, value: T) -> Result<()> {
    if slot.replace(value).is_some() {
        return Err(Error::new(name.span(), format!("`{name}` is given twice")));
    }
    Ok(())
}

/// A literal bound is checked here, where the message can point at it; the compiler checks any
/// other constant expression ([`checks`]).
fn check_literal(value: &Expr, max: u64, rule: &str) -> Result<()> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => match number.base10_parse::<u64>() {
            Ok(n) if (1..=max).contains(&n) => Ok(()),
            _ => Err(Error::new(number.span(), format!("{rule}; this is {number}"))),
        },
        Expr::Lit(other) => {
            Err(Error::new(other.span(), format!("{rule}; this is not a whole number: {}", quote!(#other))))
        }
        _ => Ok(()),
    }
}

/// A parameter: its name, whether the body may change it, its type.
struct Param<'a> {
    pattern: &'a PatIdent,
    ty: &'a Type,
}

fn check_function(function: &ItemFn) -> Result<Vec<Param<'_>>> {
    let mut errors: Option<Error> = None;
    let mut report = |span: Span, message: String| {
        let error = Error::new(span, message);
        match &mut errors {
            None => errors = Some(error),
            Some(all) => all.combine(error),
        }
    };
    let signature = &function.sig;
    let name = signature.ident.to_string();
    if signature.unsafety.is_none() {
        report(
            signature.fn_token.span(),
            format!(
                "a kernel is an unsafe fn: it trusts the pointers and sizes that it is launched with; write `unsafe fn {name}`, and what it trusts under `# Safety`"
            ),
        );
    }
    if name.starts_with("r#") || !name.is_ascii() {
        report(
            signature.ident.span(),
            "a kernel's name is its name in the PTX, which must be plain ASCII and no Rust keyword; rename it".into(),
        );
    }
    if let Some(token) = &signature.constness {
        report(token.span(), "a kernel cannot be const; remove `const`".into());
    }
    if let Some(token) = &signature.asyncness {
        report(token.span(), "a kernel cannot be async; remove `async`".into());
    }
    if let Some(abi) = &signature.abi {
        report(abi.span(), "#[kernel] gives the function its calling convention; remove `extern`".into());
    }
    let generics = &signature.generics;
    if !generics.params.is_empty() || generics.where_clause.is_some() {
        report(
            generics.where_clause.as_ref().filter(|_| generics.params.is_empty()).map_or(generics.span(), Spanned::span),
            "a kernel is one entry point and cannot be generic; name an entry point for each instance: `#[kernel(instances = (name_f32<f32>, name_f64<f64>))]`".into(),
        );
    }
    if let Some(dots) = &signature.variadic {
        report(dots.span(), "a kernel takes a fixed list of parameters; remove `...`".into());
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        report(
            ty.span(),
            "a kernel returns nothing; write results through a `GlobalMut<T>` parameter".into(),
        );
    }
    if signature.inputs.len() > MAX_PARAMS {
        report(
            signature.inputs[MAX_PARAMS].span(),
            format!(
                "a kernel takes at most {MAX_PARAMS} parameters, this one takes {}; put the rest into global memory",
                signature.inputs.len()
            ),
        );
    }
    let mut params = Vec::new();
    for input in &signature.inputs {
        match input {
            FnArg::Receiver(this) => report(
                this.span(),
                "a kernel is a free function and has no `self`; move it out of the impl".into(),
            ),
            FnArg::Typed(typed) => {
                for attribute in &typed.attrs {
                    report(attribute.span(), "attributes on a kernel's parameters are not supported".into());
                }
                match &*typed.pat {
                    Pat::Ident(p) if p.by_ref.is_none() && p.subpat.is_none() => {
                        params.push(Param { pattern: p, ty: &typed.ty })
                    }
                    other => report(
                        other.span(),
                        "a kernel's parameters are plain names; name it and take it apart in the body".into(),
                    ),
                }
            }
        }
    }
    errors.map_or(Ok(params), Err)
}

/// The checks that only the compiler can perform: parameter types, and bounds that are expressions.
fn checks(function: &ItemFn, bounds: &Bounds, params: &[Param<'_>]) -> TokenStream {
    let cfgs = function.attrs.iter().filter(|a| is_cfg(a));
    let types = params.iter().map(|p| {
        let ty = p.ty;
        // The call has the span of the type, at which the compiler reports errors.
        quote_spanned! { ty.span() => ::moye_device::kernel::assert_param::<#ty>(); }
    });
    let in_range = |value: &Option<Expr>, max: u64, rule: &str| {
        value.as_ref().map(|value| {
            let span = value.span();
            let max = max as i128;
            quote_spanned! { span =>
                let __moye_value = (#value) as i128;
                assert!(1 <= __moye_value && __moye_value <= #max, #rule);
            }
        })
    };
    let threads =
        in_range(&bounds.threads, MAX_THREADS, "`threads` is out of range: a block has 1 to 1024 threads");
    let min_blocks =
        in_range(&bounds.min_blocks, MAX_BLOCKS, "`min_blocks` is out of range: 1 to 32 blocks fit on an SM");
    quote! {
        #(#cfgs)*
        #[allow(clippy::unnecessary_cast)]
        const _: () = { #(#types)* #threads #min_blocks };
    }
}

fn gpu_side(function: &ItemFn, bounds: &Bounds, params: &[Param<'_>]) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = function;
    let Signature { ident: name, unsafety, fn_token, .. } = sig;
    let names: Vec<_> = params.iter().map(|p| &p.pattern.ident).collect();
    let types: Vec<_> = params.iter().map(|p| p.ty).collect();
    // A byte that the host guarantees to be 0 or 1: PTX has no one-bit parameter.
    let passed = params.iter().map(|p| if is_bool(p.ty) { quote!(u8) } else { p.ty.to_token_stream() });
    let cfgs: Vec<_> = attrs.iter().filter(|a| is_cfg(a)).collect();
    // LLVM knows a parameter that instructions take by address only as a value, and reading it
    // would copy it. Its name in the PTX is its address. All names that the expansion adds start
    // with `__moye_`: parameters have the user's names, and a macro's locals are in the same scope.
    let received = params.iter().enumerate().map(|(i, p)| {
        let Param { pattern, ty } = p;
        let value = &pattern.ident;
        if is_bool(ty) {
            return quote! { let #pattern = #value != 0; };
        }
        let address = format!("{{{{ .reg .b64 at; mov.b64 at, {name}_param_{i}; cvta.param.u64 {{}}, at; }}}}");
        quote! {
            let #pattern = if const { <#ty as ::moye_device::kernel::KernelParam>::TYPE.is_constant() } {
                let __moye_address: u64;
                // SAFETY: it takes the address of this entry's parameter, which lives as long as
                // the kernel runs.
                unsafe {
                    ::core::arch::asm!(#address, out(reg64) __moye_address, options(pure, nomem, nostack, preserves_flags))
                };
                ::moye_device::kernel::KernelParam::at(#value, __moye_address)
            } else {
                #value
            };
        }
    });
    // rustc has no attribute for launch bounds. A comment in the module's assembly carries them
    // through link-time optimisation, and moye-build writes them into the PTX as directives.
    let mut marker = format!("//.moye.kernel {name}");
    let mut operands = TokenStream::new();
    let threads = bounds.threads.as_ref().map(ToTokens::to_token_stream);
    let min_blocks = bounds.min_blocks.as_ref().map(ToTokens::to_token_stream);
    let shared = bounds.shared.as_ref().map(shared_bytes);
    let taken = bounds.shared.as_ref().and_then(Shared::taken);
    let constants = (!types.is_empty()).then(|| {
        quote! { ::moye_device::kernel::constants(&[#(<#types as ::moye_device::kernel::KernelParam>::TYPE),*]) }
    });
    let keys =
        [("maxntid", threads), ("minnctapersm", min_blocks), ("shared", shared), ("constants", constants)];
    for (key, value) in keys {
        if let Some(value) = value {
            let key = format_ident!("{key}");
            marker += &format!(" {key}={{{key}}}");
            operands.extend(quote! { , #key = const (#value) as u32 });
        }
    }
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #(#attrs)*
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments, unused_unsafe)]
        #vis #unsafety extern "ptx-kernel" #fn_token #name(#(#names: #passed),*) {
            #(#received)*
            #taken
            // SAFETY: the body is under the kernel's contract.
            unsafe #block
        }

        #[cfg(target_arch = "nvptx64")]
        #(#cfgs)*
        ::core::arch::global_asm!(#marker #operands);
    }
}

fn host_side(function: &ItemFn, bounds: &Bounds, params: &[Param<'_>]) -> TokenStream {
    let ItemFn { attrs, vis, sig, block } = function;
    // The tokens of `unsafe fn` are the user's, so that an error about them points there.
    let Signature { ident: name, unsafety, fn_token, .. } = sig;
    let name_text = name.to_string();
    let types: Vec<_> = params.iter().map(|p| p.ty).collect();
    let patterns = params.iter().map(|p| p.pattern);
    // By index, not by name: a parameter may have the kernel's name, which the call needs. An error
    // of a parameter is reported at the parameter.
    let passed = params.iter().enumerate().map(|(i, param)| {
        // Located at the parameter, in the scope of this function's names: a parameter may come
        // from another macro.
        let span = Span::call_site().located_at(param.pattern.ident.span());
        let field = Index { index: i as u32, span };
        quote_spanned!(span=> __moye_arguments.#field)
    });
    // Documentation and conditions belong to the value; other attributes (for example lint levels)
    // to the body.
    let (of_value, of_body): (Vec<_>, Vec<_>) =
        attrs.iter().partition(|a| a.path().is_ident("doc") || is_cfg(a));
    let option = |value: &Option<Expr>| match value {
        Some(value) => quote! { ::core::option::Option::Some((#value) as u32) },
        None => quote! { ::core::option::Option::None },
    };
    let threads = option(&bounds.threads);
    let exact = bounds.threads.is_some() && !bounds.is_limit;
    let min_blocks = option(&bounds.min_blocks);
    let shared = bounds.shared.as_ref().map_or_else(|| quote! { 0 }, shared_bytes);
    let taken = bounds.shared.as_ref().and_then(Shared::taken);
    quote! {
        #[cfg(not(target_arch = "nvptx64"))]
        #(#of_value)*
        #[allow(non_upper_case_globals, clippy::unnecessary_cast)]
        #vis const #name: ::moye_device::kernel::Kernel<(#(#types,)*)> = {
            #(#of_body)*
            // Names as in CuTe, such as `tAgA`, are usual in a kernel.
            #[allow(non_snake_case, clippy::too_many_arguments, dead_code, unused_unsafe)]
            #unsafety #fn_token #name(#(#patterns: #types),*) {
                #taken
                // SAFETY: the body is under the kernel's contract.
                unsafe #block
            }

            unsafe fn __moye_entry(__moye_arguments: (#(#types,)*)) {
                // SAFETY: the kernel's contract, passed on to the caller.
                ::moye_device::__simulated!(#name_text, __moye_arguments, unsafe { #name(#(#passed),*) })
            }

            ::moye_device::kernel::Kernel::new(
                #name_text,
                ::core::env!("CARGO_PKG_NAME"),
                ::moye_device::kernel::LaunchBounds { threads: #threads, exact: #exact, min_blocks: #min_blocks },
                #shared,
                __moye_entry,
            )
        };
    }
}

fn shared_bytes(shared: &Shared) -> TokenStream {
    let ty = shared.ty();
    quote_spanned! { ty.span() => <#ty as ::moye_device::memory::SharedStorage>::BYTES }
}

/// Whether a parameter is a `bool`.
fn is_bool(ty: &Type) -> bool {
    matches!(ty, Type::Path(path) if path.qself.is_none() && path.path.is_ident("bool"))
}

fn is_cfg(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}
