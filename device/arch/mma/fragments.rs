//! Thread-value layouts: which lane holds which element of a tile.
//!
//! Each maps `(thread, value)` to the element's column-major index in the tile: `m + M k` for A,
//! `n + N k` for B, `m + M n` for C and D. A lane's values are consecutive in its registers, the
//! first in the lowest bits. The names are CuTe's if it has one; otherwise the tile's extents and
//! the bits of an element.
#![allow(non_upper_case_globals)]

use crate::layout;
use crate::layout::Layout;

/// The lanes of a warp that hold one set of matrices.
pub const SM80_Warp: Layout = layout!(32:1);

/// The single thread of an instruction that is not warp-wide.
pub const SM61_Thread: Layout = layout!(1:0);

/// `thread -> lane` of the first quad pair: lanes 0 to 3 and 16 to 19. The other three are offset
/// by 4, 8 and 12 lanes.
pub const SM70_QuadPair: Layout = layout!((4, 2):(1, 16));

/// `(T8, V4) -> (M8, K4)`: a thread holds a row.
pub const SM70_8x4_Row: Layout = layout!((8, 4):(1, 8));
/// `(T8, V4) -> (M8, K4)`: a thread holds half a column.
pub const SM70_8x4_Col: Layout = layout!(((4, 2), 4):((8, 4), 1));
/// `(T8, V8) -> (M8, N8)`: accumulators of 16 bits, a row for each thread.
pub const SM70_8x8_16b: Layout = layout!((8, 8):(1, 8));
/// `(T8, V8) -> (M8, N8)`: accumulators of 32 bits.
pub const SM70_8x8_32b: Layout = layout!(((2, 2, 2), (2, 2, 2)):((1, 16, 4), (8, 2, 32)));

/// `(T32, V1) -> (M8, K4)`: one element per thread.
pub const SM80_8x4: Layout = layout!(((4, 8), 1):((8, 1), 0));
/// `(T32, V2) -> (M8, K8)`: pairs along a row; also accumulators `(M8, N8)`.
pub const SM80_8x8_Row: Layout = layout!(((4, 8), 2):((16, 1), 8));
/// `(T32, V4) -> (M8, K16)`: four along a row.
pub const SM80_8x16_Row: Layout = layout!(((4, 8), 4):((32, 1), 8));
/// `(T32, V4) -> (M16, N8)`: pairs along a row, rows 8 apart; accumulators, and A of 16 bits.
pub const SM80_16x8_Row: Layout = layout!(((4, 8), (2, 2)):((32, 1), (16, 8)));

/// `(T32, V2) -> (M16, K4)`
pub const SM80_16x4_32b: Layout = layout!(((4, 8), 2):((16, 1), 8));
/// `(T32, V4) -> (M16, K8)`
pub const SM80_16x8_32b: Layout = layout!(((4, 8), (2, 2)):((16, 1), (8, 64)));
/// `(T32, V2) -> (N8, K8)`
pub const SM80_8x8_32b: Layout = layout!(((4, 8), 2):((8, 1), 32));

/// `(T32, V8) -> (M16, K16)`
pub const SM80_16x16_16b: Layout = layout!(((4, 8), (2, 2, 2)):((32, 1), (16, 8, 128)));
/// `(T32, V4) -> (N8, K16)`
pub const SM80_8x16_16b: Layout = layout!(((4, 8), (2, 2)):((16, 1), (8, 64)));

/// `(T32, V8) -> (M16, K16)`
pub const SM80_16x16_8b: Layout = layout!(((4, 8), (4, 2)):((64, 1), (16, 8)));
/// `(T32, V16) -> (M16, K32)`
pub const SM80_16x32_8b: Layout = layout!(((4, 8), (4, 2, 2)):((64, 1), (16, 8, 256)));
/// `(T32, V8) -> (N8, K32)`
pub const SM80_8x32_8b: Layout = layout!(((4, 8), (4, 2)):((32, 1), (8, 128)));

/// `(T32, V8) -> (M8, K32)`
pub const SM80_8x32_4b: Layout = layout!(((4, 8), (8,)):((64, 1), (8,)));
/// `(T32, V16) -> (M16, K32)`
pub const SM80_16x32_4b: Layout = layout!(((4, 8), (8, 2)):((128, 1), (16, 8)));
/// `(T32, V32) -> (M16, K64)`
pub const SM80_16x64_4b: Layout = layout!(((4, 8), (8, 2, 2)):((128, 1), (16, 8, 512)));
/// `(T32, V16) -> (N8, K64)`
pub const SM80_8x64_4b: Layout = layout!(((4, 8), (8, 2)):((64, 1), (8, 256)));

/// `(T32, V32) -> (M8, K128)`
pub const SM80_8x128_1b: Layout = layout!(((4, 8), 32):((256, 1), 8));
/// `(T32, V64) -> (M16, K128)`
pub const SM80_16x128_1b: Layout = layout!(((4, 8), (32, 2)):((512, 1), (16, 8)));
/// `(T32, V128) -> (M16, K256)`
pub const SM80_16x256_1b: Layout = layout!(((4, 8), (32, 2, 2)):((512, 1), (16, 8, 2048)));
/// `(T32, V64) -> (N8, K256)`
pub const SM80_8x256_1b: Layout = layout!(((4, 8), (32, 2)):((256, 1), (8, 1024)));

/// `(T1, V4) -> (M1, K4)`
pub const SM61_1x4: Layout = layout!((1, 4):(0, 1));
/// `(T1, V2) -> (M1, K2)`
pub const SM61_1x2: Layout = layout!((1, 2):(0, 1));
/// `(T1, V1) -> (M1, N1)`
pub const SM61_1x1: Layout = layout!((1, 1):(0, 0));
