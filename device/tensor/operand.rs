//! The operands of methods of tiled copies and tiled MMAs: views by value, or borrowed tensors.

use super::fragment::{RegistersMut, RegistersRef};
use super::static_layout::StaticLayout;
use super::{Access, AccessMut, Coordinates, Engine, Strided, Tensor, TensorRank};
use crate::memory::{Shared, SharedPacked, Storable};

/// An engine that borrows or points to its elements: a tensor over it may be passed by value.
#[diagnostic::on_unimplemented(
    message = "a tensor over `{Self}` owns its elements",
    label = "pass it by `&mut`",
    note = "what is written to a fragment that is passed by value would be lost"
)]
pub trait View: Engine {}
impl<T: Storable> View for RegistersRef<'_, T> {}
impl<T: Storable> View for RegistersMut<'_, T> {}
impl<T: crate::memory::Element> View for Shared<T> {}
impl<T: crate::number::Scalar + Storable> View for SharedPacked<T> {}
impl<P: crate::memory::GlobalPointer, S: super::Strides, R: super::Rest> View for Strided<P, S, R> {}
impl<T: Storable, R: TensorRank, O: super::Rest> View for Coordinates<T, R, O> {}

/// A source operand: a tensor, or a borrow of one.
pub trait Input {
    /// Its engine.
    type Engine: Access;
    /// Its layout.
    type Layout: StaticLayout;

    /// The tensor.
    #[doc(hidden)]
    fn input(&self) -> &Tensor<Self::Engine, Self::Layout>;
}

impl<E: Access, L: StaticLayout> Input for Tensor<E, L> {
    type Engine = E;
    type Layout = L;

    #[inline(always)]
    fn input(&self) -> &Tensor<E, L> {
        self
    }
}

impl<E: Access, L: StaticLayout> Input for &Tensor<E, L> {
    type Engine = E;
    type Layout = L;

    #[inline(always)]
    fn input(&self) -> &Tensor<E, L> {
        self
    }
}

impl<E: Access, L: StaticLayout> Input for &mut Tensor<E, L> {
    type Engine = E;
    type Layout = L;

    #[inline(always)]
    fn input(&self) -> &Tensor<E, L> {
        self
    }
}

/// A destination operand: a view, or a mutable borrow of any tensor.
pub trait Output {
    /// Its engine.
    type Engine: AccessMut;
    /// Its layout.
    type Layout: StaticLayout;

    /// The tensor.
    #[doc(hidden)]
    fn output(&mut self) -> &mut Tensor<Self::Engine, Self::Layout>;
}

impl<E: AccessMut + View, L: StaticLayout> Output for Tensor<E, L> {
    type Engine = E;
    type Layout = L;

    #[inline(always)]
    fn output(&mut self) -> &mut Tensor<E, L> {
        self
    }
}

impl<E: AccessMut, L: StaticLayout> Output for &mut Tensor<E, L> {
    type Engine = E;
    type Layout = L;

    #[inline(always)]
    fn output(&mut self) -> &mut Tensor<E, L> {
        self
    }
}

/// The element type of a source operand.
pub type InputElement<I> = <<I as Input>::Engine as Engine>::Element;

/// The element type of a destination operand.
pub type OutputElement<O> = <<O as Output>::Engine as Engine>::Element;
