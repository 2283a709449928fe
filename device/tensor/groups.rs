//! Tensors with one element for each group of another tensor's elements: the scales of quantised
//! weights.

use super::global::{GlobalArray, TileCoordinate, extents_of_tile};
use super::rank::MAX_RANK;
use super::static_layout::{Divisors, IdentityOf, StaticLayout, coordinates_of_modes};
use super::strided::GlobalTensor;
use super::strides::Strides;
use super::{TensorRank, refuse};
use crate::layout::{IntTuple, Layout, Text, filter_zeros, make_col_major};
use crate::memory::GlobalPointer;
use core::marker::PhantomData;

/// A tensor each of whose elements belongs to `GROUP` consecutive elements of another along mode
/// `AXIS`: built by [`GlobalArray::groups`].
#[derive(Clone, Copy)]
pub struct Groups<P, S, const AXIS: usize, const GROUP: i64>(GlobalArray<P, S>);

/// The coordinates, in a tensor of groups, for a tile of elements of the shape of `T`: along mode
/// `AXIS` a group is a mode of stride 0, `(BLK_N, (GROUP, BLK_K / GROUP))`.
pub struct GroupsOf<T, const AXIS: usize, const GROUP: i64>(PhantomData<T>);

/// The layout `L` with each element once: modes of stride 0 have the extent 1.
pub struct Once<L>(PhantomData<L>);

impl<T, const AXIS: usize, const GROUP: i64> Clone for GroupsOf<T, AXIS, GROUP> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T, const AXIS: usize, const GROUP: i64> Copy for GroupsOf<T, AXIS, GROUP> {}
impl<L> Clone for Once<L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L> Copy for Once<L> {}

impl<L: StaticLayout> StaticLayout for Once<L> {
    const LAYOUT: Layout = filter_zeros(L::LAYOUT);
    const ORIGIN: Divisors = L::ORIGIN;
}

/// The extents of a tile in groups; the tile consists of whole groups, or it does not compile.
#[track_caller]
const fn extents_in_groups(tile: Layout, rank: usize, axis: usize, group: i64) -> [u32; MAX_RANK] {
    let mut extents = extents_of_tile(tile, rank);
    if axis >= rank || group < 1 || extents[axis] as i64 % group != 0 {
        let mut text = Text::<400>::new();
        text.str("groups: groups of ");
        text.int(group);
        text.str(" along mode ");
        text.int(axis as i64);
        text.str(" do not divide the tile ");
        text.layout(&tile);
        text.str(": take a tile whose extent there is a multiple of the group");
        refuse(&text);
    }
    extents[axis] /= group as u32;
    extents
}

impl<T: StaticLayout, const AXIS: usize, const GROUP: i64> StaticLayout for GroupsOf<T, AXIS, GROUP> {
    const LAYOUT: Layout = {
        let elements = IdentityOf::<T>::LAYOUT;
        let rank = elements.rank();
        let extents = extents_in_groups(T::LAYOUT, rank, AXIS, GROUP);
        let mut shape = [1; MAX_RANK];
        let mut modes = [elements; MAX_RANK];
        let mut mode = 0;
        while mode < rank {
            modes[mode] = elements.mode(mode);
            shape[mode] = extents[mode] as i64;
            mode += 1;
        }
        let groups = coordinates_of_modes(make_col_major(IntTuple::flat(shape.split_at(rank).0)));
        let group = Layout::new(IntTuple::int(GROUP), IntTuple::int(0));
        modes[AXIS] = Layout::concat(&[group, groups.mode(AXIS)]);
        Layout::concat(modes.split_at(rank).0)
    };
    // A tile starts at a multiple of its extents.
    const ORIGIN: Divisors = {
        let mut origin = IdentityOf::<T>::ORIGIN;
        origin.0[AXIS] /= GROUP as u64;
        origin
    };
}

impl<P: GlobalPointer, S: Strides> GlobalArray<P, S> {
    /// The tensor with `GROUP` places for each element along mode `AXIS`, one for each element that
    /// shares it: a group mode of stride 0, as CuTe writes scales.
    ///
    /// Its tiles, and their partitions by a tiled copy of the elements, match those of the elements
    /// index by index. A thread loads an element that is shared once
    /// ([`load_as`](super::Tensor::load_as)).
    ///
    /// ```
    /// # #![allow(non_snake_case)]
    /// use moye_device::prelude::*;
    ///
    /// static_layout! { Tile = layout!((4, 256)); } // (BLK_N, BLK_K)
    /// tiled_copy! {
    ///     Rows: TiledCopy<AutoVectorizingCopy, f16> =
    ///         TiledCopy::new(layout!((4, 32):(32, 1)), layout!((1, 8)));
    /// }
    /// let (n, k) = (100u32, 1000u32);
    /// let x = Global::<f16>::from_address(0x1000);
    /// let scales = tensor!(x, (n, k.div_ceil(32)), (32, 1)); // (N, K / 32)
    /// let gS = tile!(scales.groups::<1, 32>(), Tile, (3, _)); // (BLK_N, (32, BLK_K / 32), k)
    /// assert_eq!(gS.layout().to_string(), "(4,(32,8)):(1@0,(0,1@1))");
    /// let tSgS = Rows::get_slice(33).partition_s(gS); // (CPY, CPY_N, CPY_K, k), as of the weights
    /// assert_eq!(tSgS.layout().to_string(), "((1,8),1,1):((0,0),0,0)");
    /// ```
    #[inline(always)]
    #[must_use]
    pub fn groups<const AXIS: usize, const GROUP: i64>(self) -> Groups<P, S, AXIS, GROUP> {
        Groups(self)
    }
}

impl<P: GlobalPointer, S: Strides, const AXIS: usize, const GROUP: i64> Groups<P, S, AXIS, GROUP> {
    /// The groups of the tile with coordinate `at` among tiles of the shape of `T`, in elements:
    /// see [`GlobalArray::local_tile`]. Tiles must consist of whole groups, or they do not compile.
    #[doc(alias = "@tile")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn local_tile<T: StaticLayout, C: TileCoordinate<S::Rank>>(
        self,
        at: C,
    ) -> GlobalTensor<P, S, GroupsOf<T, AXIS, GROUP>, C::Rest> {
        let extents = const { extents_in_groups(T::LAYOUT, S::Rank::RANK, AXIS, GROUP) };
        self.0.tile_of(at, extents)
    }
}
