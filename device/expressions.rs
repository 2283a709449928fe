//! Expression macros, which name the types of constants for the author.

use crate::layout::Layout;
use crate::tensor::StaticLayout;
use moye_macros::layout;

/// The layout `(M, N)`, column-major and compact: a tile, or a layout of threads, written as an
/// expression.
#[derive(Clone, Copy, Debug)]
pub struct Shape<const M: i64, const N: i64>;

impl<const M: i64, const N: i64> StaticLayout for Shape<M, N> {
    const LAYOUT: Layout = layout!((M, N));
}

macro_rules! shapes {
    ($($(#[$doc:meta])* $name:ident<$($extent:ident),+>;)+) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<$(const $extent: i64),+>;

        impl<$(const $extent: i64),+> StaticLayout for $name<$($extent),+> {
            const LAYOUT: Layout = layout!(($($extent,)+));
        }
    )+ };
}
shapes! {
    /// The layout `(A)`, a tile of a vector: see [`Shape`].
    Shape1<A>;
    /// The layout `(A, B, C)`: see [`Shape`].
    Shape3<A, B, C>;
    /// The layout `(A, B, C, D)`: see [`Shape`].
    Shape4<A, B, C, D>;
    /// The layout `(A, B, C, D, E)`: see [`Shape`].
    Shape5<A, B, C, D, E>;
}

/// A tensor of 1 to 5 modes in global memory: `tensor!(a, (m, k), (1, m))`, from a pointer, its
/// extents and its strides in elements.
///
/// A stride written as `1` is known to be 1. `align = 16` promises that the pointer and the other
/// strides are multiples of 16 bytes, so that accesses may be that wide: see
/// [`Aligned`](crate::tensor::Aligned). [`at`](crate::tensor::GlobalArray::at) takes a place of
/// some modes, such as a batch.
///
/// ```
/// use moye_device::memory::Global;
/// use moye_device::{partition, tensor, tile};
///
/// let a = Global::<f32>::from_address(0x1000);
/// let (m, k) = (1000u32, 64u32);
/// let mA = tensor!(a, (m, k), (1, m), align = 16); // (M, K)
/// let gA = tile!(mA, (128, 8), (2, _)); // (BLK_M, BLK_K, k)
/// assert_eq!((gA.tiles(), gA.layout().to_string()), (8, "(128,8):(1@0,1@1)".into()));
/// let tAgA = partition!(gA, (32, 8), 33); // (THR_M, THR_K, k)
/// assert_eq!(tAgA.layout().to_string(), "(4,1):(32@0,0)");
/// ```
#[macro_export]
macro_rules! tensor {
    (@strides (1, $other:expr)) => { $crate::tensor::UnitStride::<0>($crate::memory::ElementOffset::elements($other)) };
    (@strides ($other:expr, 1)) => { $crate::tensor::UnitStride::<1>($crate::memory::ElementOffset::elements($other)) };
    (@strides ($first:expr, $second:expr)) => {
        $crate::tensor::Dense([
            $crate::memory::ElementOffset::elements($first),
            $crate::memory::ElementOffset::elements($second),
        ])
    };
    (@strides ($($stride:tt)+)) => { $crate::tensor!(@unit [] 0usize; [$($stride)+] $($stride)+) };
    // Finds a stride that is written as `1`; the strides before it are in the brackets.
    (@unit [$($before:expr,)*] $axis:expr; $all:tt 1 $(, $after:expr)* $(,)?) => {
        $crate::tensor::UnitStride::<{ $axis }, _>([
            $($crate::memory::ElementOffset::elements($before),)*
            $($crate::memory::ElementOffset::elements($after),)*
        ])
    };
    (@unit [$($before:expr,)*] $axis:expr; $all:tt $next:expr, $($rest:tt)+) => {
        $crate::tensor!(@unit [$($before,)* $next,] $axis + 1; $all $($rest)+)
    };
    (@unit $before:tt $axis:expr; [$($stride:expr),+ $(,)?] $last:expr $(,)?) => {
        $crate::tensor::Dense([$($crate::memory::ElementOffset::elements($stride)),+])
    };
    ($pointer:expr, $shape:expr, $strides:tt) => {
        $crate::tensor::GlobalArray::new($pointer, $shape, $crate::tensor!(@strides $strides))
    };
    ($pointer:expr, $shape:expr, $strides:tt, align = $bytes:expr) => {
        $crate::tensor::GlobalArray::new(
            $pointer,
            $shape,
            $crate::tensor::Aligned::<_, { $bytes }>($crate::tensor!(@strides $strides)),
        )
    };
}

/// A tile of a tensor: `tile!(mA, (128, 8), (block.x, _))` is `(BLK_M, BLK_K, k)`, with `_` for all
/// tiles along an axis. MoYe.jl's `@tile`, CuTe's `local_tile`.
///
/// The tile is written as its extents, which are constants (a generic one is a single parameter, or
/// in braces), or as the type of a layout: `tile!(mA, TileA<T>, (block.x, _))`. Its coordinate may
/// also be a named tuple, with [`All`](crate::tensor::All) for `_`.
///
/// The tensor is in global memory, where a tile may cross the edges, or in shared memory, where it
/// divides the tensor: [`GlobalArray::local_tile`](crate::tensor::GlobalArray::local_tile),
/// [`Tensor::local_tile`](crate::tensor::Tensor::local_tile).
///
/// ```
/// use moye_device::memory::Global;
/// use moye_device::{tensor, tile};
///
/// let x = Global::<f32>::from_address(0x1000);
/// let mX = tensor!(x, (3u32, 50u32, 70u32), (1, 300, 4)); // (C, H, W)
/// let gX = tile!(mX, (1, 16, 16), (2, _, 1)); // (BLK_C, BLK_H, BLK_W, h)
/// assert_eq!((gX.tiles(), gX.layout().to_string()), (4, "(1,16,16):(1@0,1@1,1@2)".into()));
/// ```
///
/// A projection drops the modes marked `X` from the tile and its coordinate, so that the operands
/// of a product share both: CuTe's `local_tile(mA, tile, coord, Step<_1, X, _1>)`.
///
/// ```
/// use moye_device::prelude::*;
///
/// static_layout! { TileMnk = layout!((128, 64, 8)); } // (BLK_M, BLK_N, BLK_K)
/// let pointer = Global::<f32>::from_address(0x1000);
/// let (m, n, k) = (1000u32, 500u32, 64u32);
/// let (mA, mB) = (tensor!(pointer, (m, k), (1, m)), tensor!(pointer, (n, k), (1, n))); // (M, K), (N, K)
/// let mC = tensor!(pointer, (m, n), (1, m)); // (M, N)
///
/// let coordinate = (2u32, 3u32, All);
/// let gA = tile!(mA, TileMnk, coordinate, (1, X, 1)); // (BLK_M, BLK_K, k)
/// let gB = tile!(mB, TileMnk, coordinate, (X, 1, 1)); // (BLK_N, BLK_K, k)
/// let gC = tile!(mC, TileMnk, coordinate, (1, 1, X)); // (BLK_M, BLK_N)
/// assert_eq!((gA.tiles(), gA.layout().to_string()), (8, "(128,8):(1@0,1@1)".into()));
/// assert_eq!((gB.tiles(), gB.layout().to_string()), (8, "(64,8):(1@0,1@1)".into()));
/// assert_eq!(gC.layout().to_string(), "(128,64):(1@0,1@1)");
/// // The same tile of A, written out.
/// let gA = tile!(mA, (128, 64, 8), (2, 3, _), (1, X, 1)); // (BLK_M, BLK_K, k)
/// assert_eq!(gA.tiles(), 8);
/// ```
#[doc(alias = "@tile")]
#[macro_export]
macro_rules! tile {
    (@shape $a:expr $(,)?) => { $crate::Shape1<{ $a }> };
    (@shape $a:expr, $b:expr $(,)?) => { $crate::Shape<{ $a }, { $b }> };
    (@shape $a:expr, $b:expr, $c:expr $(,)?) => { $crate::Shape3<{ $a }, { $b }, { $c }> };
    (@shape $a:expr, $b:expr, $c:expr, $d:expr $(,)?) => { $crate::Shape4<{ $a }, { $b }, { $c }, { $d }> };
    (@shape $a:expr, $b:expr, $c:expr, $d:expr, $e:expr $(,)?) => {
        $crate::Shape5<{ $a }, { $b }, { $c }, { $d }, { $e }>
    };
    (@places [$($place:expr,)+]) => { ($($place,)+) };
    (@places [$($place:expr,)*] _ $(, $($rest:tt)*)?) => {
        $crate::tile!(@places [$($place,)* $crate::tensor::All,] $($($rest)*)?)
    };
    (@places [$($place:expr,)*] $next:expr $(, $($rest:tt)*)?) => {
        $crate::tile!(@places [$($place,)* $next,] $($($rest)*)?)
    };
    // The places that the projection keeps from a coordinate that is written out.
    (@kept [$($place:expr,)*] () ()) => { ($($place,)*) };
    (@kept [$($place:expr,)*] (_ $(, $($rest:tt)*)?) (1 $(, $($modes:tt)*)?)) => {
        $crate::tile!(@kept [$($place,)* $crate::tensor::All,] ($($($rest)*)?) ($($($modes)*)?))
    };
    (@kept [$($place:expr,)*] ($next:expr $(, $($rest:tt)*)?) (1 $(, $($modes:tt)*)?)) => {
        $crate::tile!(@kept [$($place,)* $next,] ($($($rest)*)?) ($($($modes)*)?))
    };
    (@kept $places:tt (_ $(, $($rest:tt)*)?) (X $(, $($modes:tt)*)?)) => {
        $crate::tile!(@kept $places ($($($rest)*)?) ($($($modes)*)?))
    };
    (@kept $places:tt ($next:expr $(, $($rest:tt)*)?) (X $(, $($modes:tt)*)?)) => {
        $crate::tile!(@kept $places ($($($rest)*)?) ($($($modes)*)?))
    };
    (@kept $places:tt $rest:tt $modes:tt) => {
        ::core::compile_error!(
            "tile!: a projection has `1` or `X` for each place of the coordinate, as in tile!(mA, (128, 128, 8), (i, j, _), (1, X, 1))"
        )
    };
    // A pattern for a named tuple, and the places that the projection keeps.
    (@bind $tensor:expr, $tile:ty, $coordinate:expr; [$($pattern:pat,)*] [$($kept:expr,)*] $names:tt ()) => {
        match $coordinate {
            ($($pattern,)*) => $tensor.local_tile::<$tile, _>(($($kept,)*)),
        }
    };
    (
        @bind $tensor:expr, $tile:ty, $coordinate:expr; [$($pattern:pat,)*] [$($kept:expr,)*]
        ($name:ident $($names:ident)*) (1 $(, $($modes:tt)*)?)
    ) => {
        $crate::tile!(
            @bind $tensor, $tile, $coordinate; [$($pattern,)* $name,] [$($kept,)* $name,] ($($names)*) ($($($modes)*)?)
        )
    };
    (
        @bind $tensor:expr, $tile:ty, $coordinate:expr; [$($pattern:pat,)*] $kept:tt
        ($name:ident $($names:ident)*) (X $(, $($modes:tt)*)?)
    ) => {
        $crate::tile!(@bind $tensor, $tile, $coordinate; [$($pattern,)* _,] $kept ($($names)*) ($($($modes)*)?))
    };
    (@bind $($rest:tt)*) => {
        ::core::compile_error!("tile!: a projection has `1` or `X` for each of one to five modes, as in (1, X, 1)")
    };
    (@of $tensor:expr, $tile:ty; ($($place:tt)+) $(,)?) => {
        $tensor.local_tile::<$tile, _>($crate::tile!(@places [] $($place)+))
    };
    (@of $tensor:expr, $tile:ty; ($($place:tt)+), $projection:tt $(,)?) => {
        $tensor.local_tile::<$crate::tensor::ProjectedTile<$tile, $crate::partition!(@step $projection)>, _>(
            $crate::tile!(@kept [] ($($place)+) $projection)
        )
    };
    (@of $tensor:expr, $tile:ty; $coordinate:expr $(,)?) => {
        $tensor.local_tile::<$tile, _>($coordinate)
    };
    (@of $tensor:expr, $tile:ty; $coordinate:expr, $projection:tt $(,)?) => {
        $crate::tile!(
            @bind $tensor,
            $crate::tensor::ProjectedTile<$tile, $crate::partition!(@step $projection)>,
            $coordinate; [] [] (a b c d e) $projection
        )
    };
    ($tensor:expr, ($($extent:tt)+), $($at:tt)+) => {
        $crate::tile!(@of $tensor, $crate::tile!(@shape $($extent)+); $($at)+)
    };
    ($tensor:expr, $tile:ty, $($at:tt)+) => {
        $crate::tile!(@of $tensor, $tile; $($at)+)
    };
}

/// A thread's part of a tile: `partition!(gA, (32, 8), thread)`, or
/// `partition!(gA, Threads, thread)` by a type.
///
/// A projection drops modes of the threads' layout: `partition!(sA, Threads, thread, (1, X))` uses
/// only the first, CuTe's `Step<_1, X>`. MoYe.jl's `@parallelize`.
#[doc(alias = "@parallelize")]
#[macro_export]
macro_rules! partition {
    (@step ($($mode:tt),+ $(,)?)) => { $crate::tensor::Step<$($crate::partition!(@selector $mode)),+> };
    (@selector 1) => { $crate::tensor::One };
    (@selector X) => { $crate::tensor::X };
    (@selector $other:tt) => {
        ::core::compile_error!("a projection has `1` or `X` for each mode, as in (1, X)")
    };
    (@by $tile:expr, $threads:ty, $thread:expr, $projection:tt) => {
        $tile.local_partition_by::<$threads, $crate::partition!(@step $projection)>($thread)
    };
    ($tile:expr, ($m:expr, $n:expr), $thread:expr) => {
        $tile.local_partition::<$crate::Shape<{ $m }, { $n }>>($thread)
    };
    ($tile:expr, ($m:expr, $n:expr), $thread:expr, $projection:tt) => {
        $crate::partition!(@by $tile, $crate::Shape<{ $m }, { $n }>, $thread, $projection)
    };
    ($tile:expr, $threads:ty, $thread:expr) => {
        $tile.local_partition::<$threads>($thread)
    };
    ($tile:expr, $threads:ty, $thread:expr, $projection:tt) => {
        $crate::partition!(@by $tile, $threads, $thread, $projection)
    };
}

/// An unrolled loop: over an array of constants, or over a range of at most 32 integers from 0 on,
/// whose end is a constant. No array is left in memory, whatever the optimiser does.
///
/// ```
/// use moye_device::unroll;
/// let mut masks = 0;
/// unroll!(for mask in [16, 8, 4, 2, 1] {
///     masks |= mask;
/// });
/// assert_eq!(masks, 31);
///
/// const STEPS: u32 = 4;
/// let mut sum = 0;
/// unroll!(for k in 0..(STEPS) {
///     sum += k;
/// });
/// assert_eq!(sum, 6);
/// ```
#[macro_export]
macro_rules! unroll {
    (for $name:ident in [$($value:expr),* $(,)?] $body:block) => {
        $crate::unroll!(@each $name $body; $($value,)*)
    };
    (for $name:ident in 0..($end:expr) $body:block) => {{
        const { assert!($end <= 32, "unroll! writes out at most 32 iterations: loop over parts of the range") };
        $crate::unroll!(
            @below ($end) $name $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        )
    }};
    (for $name:ident in 0..$end:literal $body:block) => {
        $crate::unroll!(for $name in 0..($end) $body)
    };
    (@each $name:ident $body:block; $($value:expr,)*) => {{ $($crate::unroll!(@one $name $value, $body);)* }};
    (@below $end:tt $name:ident $body:block; $($value:literal)*) => {{
        // An iteration that never runs is compiled too: with the index 0, so that its arithmetic
        // stays in range.
        $(if const { $value < $end } {
            $crate::unroll!(@one $name const { if $value < $end { $value } else { 0 } }, $body);
        })*
    }};
    (@one $name:ident $value:expr, $body:block) => {{
        let $name = $value;
        $body
    }};
}

/// The named barriers of a kernel, numbered from 1 on, each with the number of threads that arrive,
/// waiting or not. (Barrier 0 is [`sync_threads`](crate::arch::sync_threads).)
///
/// `Name[COUNT] = THREADS` declares several, for example one for each warpgroup:
/// `Barrier::Name.of(i)`.
///
/// ```
/// use moye_device::named_barriers;
///
/// named_barriers! {
///     /// Between a producer's warp and the four of its consumers.
///     pub enum Barrier {
///         /// A stage is filled.
///         Filled = 160,
///         /// The threads of one of two warpgroups.
///         Warpgroup[2] = 128,
///         /// A stage may be filled again.
///         Free = 160,
///     }
/// }
/// assert_eq!((Barrier::Filled.id(), Barrier::Free.id(), Barrier::Free.threads()), (1, 4, 160));
/// assert_eq!((Barrier::Warpgroup.of(0).id(), Barrier::Warpgroup.of(1).id()), (2, 3));
/// ```
#[macro_export]
macro_rules! named_barriers {
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$doc:meta])* $barrier:ident $([$count:expr])? = $threads:expr),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        $vis enum $name { $($(#[$doc])* $barrier),+ }

        const _: () = {
            let all = [$($name::$barrier),+];
            let last = all[all.len() - 1];
            assert!(
                last.id() + last.count() <= 16,
                "a block has 16 barriers, of which sync_threads has the first"
            );
            let mut i = 0;
            while i < all.len() {
                let threads = all[i].threads();
                assert!(threads % 32 == 0 && threads > 0 && threads <= 1024, "a barrier counts whole warps, 32 at most");
                assert!(all[i].count() > 0, "a group of barriers has one at least");
                i += 1;
            }
        };

        #[allow(dead_code, reason = "a kernel may use some of them")]
        impl $name {
            /// Its number, or the number of the first of several.
            #[inline(always)]
            #[must_use]
            pub const fn id(self) -> u32 {
                const COUNTS: &[u32] = &[$($name::$barrier.count()),+];
                let (mut id, mut before) = (1, 0);
                while before < self as usize {
                    id += COUNTS[before];
                    before += 1;
                }
                id
            }

            /// The number of barriers with this name.
            #[inline(always)]
            #[must_use]
            pub const fn count(self) -> u32 {
                match self {
                    $(Self::$barrier => $crate::named_barriers!(@count $($count)?)),+
                }
            }

            /// The threads that arrive at it.
            #[inline(always)]
            #[must_use]
            pub const fn threads(self) -> u32 {
                match self {
                    $(Self::$barrier => $threads),+
                }
            }

            /// Barrier `index` of this name. The simulator faults if there are fewer.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            #[must_use]
            pub fn of(self, index: u32) -> $crate::arch::NamedBarrier {
                $crate::arch::check_barrier(index, self.count());
                $crate::arch::NamedBarrier::new(self.id() + index, self.threads())
            }

            /// Waits until all of its threads have arrived. All lanes of the warp must call it
            /// together.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn sync(self) {
                self.of(0).sync();
            }

            /// Arrives without waiting. All lanes of the warp must call it together.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn arrive(self) {
                self.of(0).arrive();
            }
        }
    };
    (@count) => { 1 };
    (@count $count:expr) => { $count };
}
