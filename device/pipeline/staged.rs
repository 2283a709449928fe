//! Tensors whose last mode is the pipeline's stage.

use super::{Filling, Full, Writing};
use crate::tensor::{AllButLast, Movable, StaticLayout, Tensor, one_tile};

/// A tensor whose last mode is the stage, or a tuple of such tensors: partitions of shared memory,
/// tensors of descriptors.
pub trait Staged {
    /// The type of one stage's slice.
    type Stage;

    /// Does not compile if a mode of tiles is open.
    #[doc(hidden)]
    const CHECKED: () = ();

    /// The slice of stage `index`.
    fn stage(self, index: u32) -> Self::Stage;
}

impl<E: Movable, L: StaticLayout> Staged for Tensor<E, L> {
    type Stage = Tensor<E, AllButLast<L>>;

    const CHECKED: () = one_tile("a stage of a pipeline", E::OPEN_AXES, &L::LAYOUT);

    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    fn stage(self, index: u32) -> Self::Stage {
        const { Self::CHECKED };
        self.at_stage(index)
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => { $(
        #[allow(non_snake_case)]
        impl<$($name: Staged),+> Staged for ($($name,)+) {
            type Stage = ($($name::Stage,)+);

            const CHECKED: () = {
                $(let () = $name::CHECKED;)+
            };

            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            fn stage(self, index: u32) -> Self::Stage {
                let ($($name,)+) = self;
                ($($name.stage(index),)+)
            }
        }
    )+ };
}
tuples! {
    A;
    A B;
    A B C;
    A B C D;
}

macro_rules! stages {
    ($($(#[$doc:meta])* $name:ident;)+) => { $(
        impl $name {
            $(#[$doc])*
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn of<T: Staged>(&self, tensors: T) -> T::Stage {
                const { T::CHECKED };
                tensors.stage(self.index())
            }
        }
    )+ };
}
stages! {
    /// The stage's slices of tensors whose last mode is the stage, such as the operands of a
    /// product.
    Full;
    /// The stage's slices of tensors whose last mode is the stage, such as the destinations of TMA
    /// copies.
    Filling;
    /// The stage's slices of tensors whose last mode is the stage, to which the warp writes.
    Writing;
}
