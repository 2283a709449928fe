//! `layout!`, `tuple!` and `tiler!`: CuTe's notation as Rust values.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, ExprUnary, Lit, Result, Token, UnOp, parenthesized, token};

/// The marker that the crate uses for an integer among the nodes of a tuple.
const LEAF: u8 = u8::MAX;

/// A tuple as written: an integer expression, a multiple of a basis vector, a wildcard, or a tuple.
enum Node {
    Int(Expr),
    /// The indices of the basis vector as written, the innermost first.
    Scaled {
        value: Expr,
        basis: Vec<Expr>,
    },
    Any(Span),
    Tuple(Span, Vec<Element>),
}

/// An element of a tuple: a node, and in tilers its optional stride.
struct Element {
    node: Node,
    stride: Option<Node>,
}

impl Parse for Node {
    fn parse(input: ParseStream) -> Result<Self> {
        if input.peek(Token![_]) {
            return Ok(Self::Any(input.parse::<Token![_]>()?.span()));
        }
        if input.peek(token::Paren) && tuple_is_next(input) {
            let content;
            let parens = parenthesized!(content in input);
            let elements = Punctuated::<Element, Token![,]>::parse_terminated(&content)?;
            return Ok(Self::Tuple(parens.span.join(), elements.into_iter().collect()));
        }
        let value = integer(input)?;
        let mut basis = Vec::new();
        while input.parse::<Option<Token![@]>>()?.is_some() {
            basis.push(integer(input)?);
        }
        Ok(if basis.is_empty() { Self::Int(value) } else { Self::Scaled { value, basis } })
    }
}

impl Parse for Element {
    fn parse(input: ParseStream) -> Result<Self> {
        let node = input.parse()?;
        let stride = if input.parse::<Option<Token![:]>>()?.is_some() { Some(input.parse()?) } else { None };
        Ok(Self { node, stride })
    }
}

/// Whether the next parentheses are a tuple, not the beginning of an expression such as
/// `(a + b) * c`.
fn tuple_is_next(input: ParseStream) -> bool {
    let ahead = input.fork();
    let parsed = (|| {
        let content;
        parenthesized!(content in ahead);
        content.parse::<TokenStream>()
    })();
    parsed.is_ok() && (ahead.is_empty() || ahead.peek(Token![,]) || ahead.peek(Token![:]))
}

/// An integer expression. Literals that are not integers are refused here, where the message can
/// name the error.
fn integer(input: ParseStream) -> Result<Expr> {
    let expr: Expr = input.parse().map_err(|error| {
        Error::new(error.span(), "expected an integer expression, `_`, or a tuple of them such as (4,(2,2))")
    })?;
    if let Expr::Lit(ExprLit { lit, .. }) = &expr
        && !matches!(lit, Lit::Int(_))
    {
        return Err(Error::new(lit.span(), "expected an integer"));
    }
    Ok(expr)
}

/// Whether the expression is an integer literal, perhaps with a minus.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Lit(ExprLit { lit: Lit::Int(_), .. }) => true,
        Expr::Unary(ExprUnary { op: UnOp::Neg(_), expr, .. }) => is_literal(expr),
        _ => false,
    }
}

/// The expression as an `i64`. The `| 0` refuses non-integers (floats), which a cast would accept.
fn as_i64(expr: &Expr) -> TokenStream {
    let suffixed = matches!(expr, Expr::Lit(ExprLit { lit: Lit::Int(lit), .. }) if !lit.suffix().is_empty());
    if is_literal(expr) && !suffixed {
        quote!(#expr)
    } else {
        quote_spanned!(expr.span()=> ((#expr) | 0) as i64)
    }
}

/// The leaves and nodes of a tuple, in source order.
#[derive(Default)]
struct Flat {
    nodes: Vec<u8>,
    values: Vec<TokenStream>,
    bases: Vec<TokenStream>,
    /// Whether every leaf is a literal, so that the value can be computed at compile time.
    literal: bool,
}

/// The permitted leaves.
#[derive(Clone, Copy)]
struct Allowed {
    basis: bool,
    any: bool,
}

const SHAPE: Allowed = Allowed { basis: false, any: false };
const STRIDE: Allowed = Allowed { basis: true, any: false };
const TUPLE: Allowed = Allowed { basis: true, any: true };

impl Flat {
    fn of(node: &Node, allowed: Allowed) -> Result<Self> {
        let mut flat = Self { literal: true, ..Self::default() };
        flat.add(node, allowed)?;
        Ok(flat)
    }

    fn add(&mut self, node: &Node, allowed: Allowed) -> Result<()> {
        match node {
            Node::Int(value) => {
                self.leaf(as_i64(value), quote!(::core::primitive::u32::MAX), is_literal(value))
            }
            Node::Scaled { value, basis } if allowed.basis => {
                let literal = is_literal(value) && basis.iter().all(is_literal);
                let basis = basis.iter().map(as_i64);
                self.leaf(
                    as_i64(value),
                    quote!(::moye_device::layout::Basis::from_macro(&[#(#basis),*])),
                    literal,
                );
            }
            Node::Scaled { value, .. } => {
                return Err(Error::new(
                    value.span(),
                    "a basis vector has no place in a shape; it belongs into a stride",
                ));
            }
            Node::Any(_) if allowed.any => {
                self.leaf(quote!(0), quote!(::core::primitive::u32::MAX - 1), true)
            }
            Node::Any(span) => {
                return Err(Error::new(*span, "`_` has no place in a layout; expected an integer"));
            }
            Node::Tuple(span, elements) => {
                if elements.len() >= usize::from(LEAF) {
                    return Err(Error::new(*span, "a tuple of this many elements does not fit"));
                }
                self.nodes.push(elements.len() as u8);
                for element in elements {
                    if let Some(stride) = &element.stride {
                        return Err(Error::new(
                            stride.span(),
                            "expected `,` or the end of the tuple; a stride follows the whole shape: (4,8):(1,4)",
                        ));
                    }
                    self.add(&element.node, allowed)?;
                }
            }
        }
        Ok(())
    }

    fn leaf(&mut self, value: TokenStream, basis: TokenStream, literal: bool) {
        self.nodes.push(LEAF);
        self.values.push(value);
        self.bases.push(basis);
        self.literal &= literal;
    }
}

impl Node {
    fn span(&self) -> Span {
        match self {
            Self::Int(value) | Self::Scaled { value, .. } => value.span(),
            Self::Any(span) | Self::Tuple(span, _) => *span,
        }
    }
}

/// Refuses a stride that nests differently from its shape, at the differing location.
fn check_congruent(shape: &Node, stride: &Node) -> Result<()> {
    match (shape, stride) {
        (Node::Tuple(_, shapes), Node::Tuple(span, strides)) => {
            if shapes.len() != strides.len() {
                let (wants, has) = (shapes.len(), strides.len());
                return Err(Error::new(
                    *span,
                    format!("the shape has {wants} elements here, the stride {has}"),
                ));
            }
            shapes
                .iter()
                .zip(strides)
                .try_for_each(|(shape, stride)| check_congruent(&shape.node, &stride.node))
        }
        (Node::Tuple(_, shapes), other) => {
            let message =
                format!("the shape has a tuple of {} elements here, the stride an integer", shapes.len());
            Err(Error::new(other.span(), message))
        }
        (_, Node::Tuple(span, _)) => {
            Err(Error::new(*span, "the shape has an integer here, the stride a tuple"))
        }
        _ => Ok(()),
    }
}

/// The expression, evaluated at compile time if all its integers are literals.
fn expression(literal: bool, value: TokenStream) -> TokenStream {
    let value = quote! {{
        #[allow(clippy::all, clippy::pedantic, trivial_numeric_casts)]
        let value = #value;
        value
    }};
    if literal { quote!(const #value) } else { value }
}

fn layout_tokens(element: &Element) -> Result<(TokenStream, bool)> {
    let shape = Flat::of(&element.node, SHAPE)?;
    let (nodes, extents) = (&shape.nodes, &shape.values);
    let mut literal = shape.literal;
    let stride = match &element.stride {
        Some(node) => {
            check_congruent(&element.node, node)?;
            let stride = Flat::of(node, STRIDE)?;
            literal &= stride.literal;
            let (values, bases) = (&stride.values, &stride.bases);
            quote!(::core::option::Option::Some(&[#((#values, #bases)),*]))
        }
        None => quote!(::core::option::Option::None),
    };
    let tokens = quote!(::moye_device::layout::Layout::from_macro(&[#(#nodes),*], &[#(#extents),*], #stride));
    Ok((tokens, literal))
}

fn tiler_tokens(element: &Element) -> Result<(TokenStream, bool)> {
    if element.stride.is_some() {
        let (layout, literal) = layout_tokens(element)?;
        return Ok((quote!(::moye_device::layout::Tiler::layout(#layout)), literal));
    }
    match &element.node {
        Node::Any(_) => Ok((quote!(::moye_device::layout::Tiler::any()), true)),
        Node::Int(value) => {
            let extent = as_i64(value);
            let shape = quote!(::moye_device::layout::IntTuple::int(#extent));
            Ok((quote!(::moye_device::layout::Tiler::shape(#shape)), is_literal(value)))
        }
        Node::Scaled { value, .. } => Err(Error::new(value.span(), "a basis vector has no place in a shape")),
        Node::Tuple(_, elements) => {
            let parts = elements.iter().map(tiler_tokens).collect::<Result<Vec<_>>>()?;
            let literal = parts.iter().all(|(_, literal)| *literal);
            let tilers = parts.iter().map(|(tokens, _)| tokens);
            Ok((quote!(::moye_device::layout::Tiler::by_mode(&[#(#tilers),*])), literal))
        }
    }
}

pub fn layout(input: TokenStream) -> Result<TokenStream> {
    let (tokens, literal) = layout_tokens(&syn::parse2(input)?)?;
    Ok(expression(literal, tokens))
}

pub fn tuple(input: TokenStream) -> Result<TokenStream> {
    let flat = Flat::of(&syn::parse2(input)?, TUPLE)?;
    let Flat { nodes, values, bases, literal } = flat;
    let tokens = quote! {
        ::moye_device::layout::IntTuple::from_macro(&[#(#nodes),*], &[#(#values),*], &[#(#bases),*])
    };
    Ok(expression(literal, tokens))
}

pub fn tiler(input: TokenStream) -> Result<TokenStream> {
    let (tokens, literal) = tiler_tokens(&syn::parse2(input)?)?;
    Ok(expression(literal, tokens))
}
