"""The layout algebra: every operation of ``moye eval``, as a function. Written by stubs.py."""

from typing import Any, TypeAlias

from . import ComposedLayout, Layout, Swizzle

IntTuple: TypeAlias = int | str | None | tuple[IntTuple, ...] | list[IntTuple]
AnyLayout: TypeAlias = Layout | ComposedLayout | Swizzle | IntTuple
Tiler: TypeAlias = AnyLayout | tuple[Tiler, ...] | list[Tiler]

def make_layout(shape: IntTuple, stride: IntTuple | None = None, /) -> Any:
    """Shape:stride; without a stride the compact column-major layout."""
def make_col_major(shape: IntTuple, /) -> Any:
    """The compact layout, first mode fastest."""
def make_row_major(shape: IntTuple, /) -> Any:
    """The compact layout, last mode fastest."""
def make_ordered_layout(shape: IntTuple, order: IntTuple, /) -> Any:
    """The compact layout, the extent of the smallest order fastest."""
def make_layout_like(layout: AnyLayout, /) -> Any:
    """The compact layout whose strides have the same order."""
def identity_layout(shape: IntTuple, /) -> Any:
    """Each coordinate to itself, as nested, with strides such as 1@0, or 1@0@1 in mode 0 of mode 1."""
def make_layout_tv(threads: AnyLayout, values: AnyLayout, /) -> Any:
    """(tile, layout) of the thread-value layout of a thread and a value layout."""
def tv_coordinates(threads: AnyLayout, values: AnyLayout, /) -> Any:
    """Its (thread, value) to the coordinate in the tile, with strides such as 1@0."""
def shape(layout: AnyLayout, /) -> Any:
    """Its shape."""
def stride(layout: AnyLayout, /) -> Any:
    """Its stride."""
def size(of: AnyLayout, /) -> Any:
    """The number of coordinates: the product of the shape."""
def cosize(layout: AnyLayout, /) -> Any:
    """One more than the largest index; of strides such as 1@0 the size of the coshape."""
def coshape(layout: AnyLayout, /) -> Any:
    """The smallest shape that has all its values: of strides such as 1@0 a tuple, otherwise the cosize."""
def crd2idx(layout: AnyLayout, coord: IntTuple, /) -> Any:
    """The index of a coordinate; of strides such as 1@0 the coordinate. Also layout(coord)."""
def coordinate_of(layout: AnyLayout, coord: IntTuple, /) -> Any:
    """The coordinate that strides such as 1@0 make of a coordinate."""
def along(layout: AnyLayout, basis: int, /) -> Any:
    """The layout of element k of the coordinates: strides along basis vector k as integers, 0 for the others."""
def slice(layout: AnyLayout, coord: IntTuple, /) -> Any:
    """The modes under the wildcards of a coordinate."""
def slice_offset(layout: AnyLayout, coord: IntTuple, /) -> Any:
    """The index at which a slice begins; of strides such as 1@0 the coordinate."""
def slice_coordinate(layout: AnyLayout, coord: IntTuple, /) -> Any:
    """The coordinate at which a slice begins, of strides such as 1@0."""
def slice_and_offset(coord: IntTuple, layout: AnyLayout, /) -> Any:
    """(slice, slice_offset)."""
def dice(layout: AnyLayout, coord: IntTuple, /) -> Any:
    """The modes under the integers of a coordinate."""
def coalesce(layout: AnyLayout, profile: IntTuple | None = None, /) -> Any:
    """The same function with as few modes as possible, of each mode at a leaf of the profile."""
def coalesce_profile(layout: AnyLayout, profile: IntTuple, /) -> Any:
    """Coalesce with a profile."""
def filter(layout: AnyLayout, profile: IntTuple | None = None, /) -> Any:
    """Without modes of stride 0 and extent 1, of each mode at a leaf of the profile."""
def filter_profile(layout: AnyLayout, profile: IntTuple, /) -> Any:
    """Filter with a profile."""
def filter_zeros(layout: AnyLayout, /) -> Any:
    """Modes of stride 0 get the extent 1."""
def composition(a: AnyLayout, b: Tiler, /) -> Any:
    """R with R(i) == a(b(i)); by mode where b is a tuple."""
def composition_tiler(layout: AnyLayout, tiler: Tiler, /) -> Any:
    """Composition with a tiler."""
def complement(layout: AnyLayout, cotarget: IntTuple | None = None, /) -> Any:
    """What it leaves out below an integer, a shape or its cosize; of a padded layout not the ends of its gaps."""
def right_inverse(layout: AnyLayout, /) -> Any:
    """R with layout(R(i)) == i, as large as can be."""
def left_inverse(layout: AnyLayout, /) -> Any:
    """L with L(layout(i)) == i; where strides are 0, layout(L(layout(i))) == layout(i)."""
def nullspace(layout: AnyLayout, /) -> Any:
    """The coordinates that strides of 0 map to 0."""
def max_common_layout(a: AnyLayout, b: AnyLayout, /) -> Any:
    """R with a(R(i)) == i == b(R(i)), counted from a(0) and b(0), along b's right inverse."""
def max_common_vector(a: AnyLayout, b: AnyLayout, /) -> Any:
    """The size of max_common_layout."""
def domain_distribute(shape: IntTuple, count: int, /) -> Any:
    """Up to count coordinates of a shape, spread over its modes."""
def upcast(layout: AnyLayout, count: int, /) -> Any:
    """In elements count times as large."""
def downcast(layout: AnyLayout, count: int, /) -> Any:
    """In elements of which count make one; an extent of 1 at stride 1 goes through the parts too."""
def recast(layout: AnyLayout, from_bits: int, to_bits: int, /) -> Any:
    """In elements of another number of bits: upcast, downcast or both."""
def with_shape(layout: AnyLayout, shape: IntTuple, /) -> Any:
    """With another shape of the same size."""
def logical_divide(layout: AnyLayout, tiler: Tiler, /) -> Any:
    """Cut into tiles: (tile, rest), of each mode where the tiler is a tuple."""
def zipped_divide(layout: AnyLayout, tiler: Tiler, /) -> Any:
    """Logical_divide as ((tile, ...), (rest, ...))."""
def tiled_divide(layout: AnyLayout, tiler: Tiler, /) -> Any:
    """Logical_divide as ((tile, ...), rest, ...)."""
def flat_divide(layout: AnyLayout, tiler: Tiler, /) -> Any:
    """Logical_divide as (tile, ..., rest, ...)."""
def logical_product(block: AnyLayout, tiler: Tiler, /) -> Any:
    """Repeated: (block, copies), of each mode where the tiler is a tuple."""
def zipped_product(block: AnyLayout, tiler: Tiler, /) -> Any:
    """Logical_product as ((block, ...), (copies, ...))."""
def tiled_product(block: AnyLayout, tiler: Tiler, /) -> Any:
    """Logical_product as ((block, ...), copies, ...)."""
def flat_product(block: AnyLayout, tiler: Tiler, /) -> Any:
    """Logical_product as (block, ..., copies, ...)."""
def blocked_product(block: AnyLayout, tiler: AnyLayout, /) -> Any:
    """Repeated mode by mode, blocks kept together: ((block, copies), ...)."""
def raked_product(block: AnyLayout, tiler: AnyLayout, /) -> Any:
    """Repeated mode by mode, blocks interleaved: ((copies, block), ...)."""
def tile_to_shape(block: AnyLayout, shape: IntTuple, order: IntTuple | None = None, /) -> Any:
    """Repeated up to a shape, along the mode of the smallest order first."""
def rank(of: AnyLayout, /) -> Any:
    """The number of modes; an integer has one."""
def depth(of: AnyLayout, /) -> Any:
    """How deep tuples nest; 0 for an integer."""
def mode(of: AnyLayout, index: int, /) -> Any:
    """One mode."""
def modes(of: AnyLayout, /) -> Any:
    """All modes, one after another."""
def flatten(of: AnyLayout, /) -> Any:
    """The same integers without nesting."""
def concat(*modes: AnyLayout) -> Any:
    """Layouts side by side, each a mode."""
def append(of: AnyLayout, mode: AnyLayout, /) -> Any:
    """With another mode at the end."""
def prepend(of: AnyLayout, mode: AnyLayout, /) -> Any:
    """With another leading mode."""
def insert(of: AnyLayout, index: int, mode: AnyLayout, /) -> Any:
    """With another mode before mode index."""
def replace(of: AnyLayout, index: int, mode: AnyLayout, /) -> Any:
    """With another mode in the place of mode index."""
def remove(of: AnyLayout, index: int, /) -> Any:
    """Without mode index."""
def take(of: AnyLayout, begin: int, end: int, /) -> Any:
    """The modes begin..end."""
def group(of: AnyLayout, begin: int, end: int, /) -> Any:
    """The modes begin..end as one mode."""
def select(of: AnyLayout, /, *indices: int) -> Any:
    """The modes at the indices, in that order."""
def unflatten(tuple: IntTuple, profile: IntTuple, /) -> Any:
    """The integers of a flat tuple in the nesting of a profile."""
def transpose(layout: AnyLayout, /) -> Any:
    """The modes in reverse order."""
def append_dim(layout: AnyLayout, rank: int, /) -> Any:
    """With modes 1:0 at the end up to a rank."""
def prepend_dim(layout: AnyLayout, rank: int, /) -> Any:
    """With leading modes 1:0 up to a rank."""
def swizzle(bits: int, base: int, shift: int, index: int, /) -> Any:
    """Sw<bits,base,shift> of an index."""
def swizzle_table(bits: int, base: int, shift: int, count: int, /) -> Any:
    """Sw<bits,base,shift> of 0, 1, ... below count."""
def composed_layout(swizzle: Swizzle | str, offset: int, layout: AnyLayout, /) -> Any:
    """Sw<bits,base,shift> o offset o layout."""
def composed_layout_table(swizzle: Swizzle | str, offset: int, layout: AnyLayout, /) -> Any:
    """Its values at 0, 1, ...."""
def shared_memory_atom(contiguous: int, row: int, bits: int, /) -> Any:
    """For tensor cores: the contiguous mode (0: M or N, 1: K), bytes of a swizzled row, bits of an element."""
def composition_swizzled(a: AnyLayout, b: ComposedLayout | str, /) -> Any:
    """A after a composed layout, the swizzle moved past a."""
def composition_swizzled_table(a: AnyLayout, b: ComposedLayout | str, /) -> Any:
    """Its values at 0, 1, ...."""
def idx2crd_table(shape: IntTuple, /) -> Any:
    """The coordinates of 0, 1, ... in a shape."""
def product(tuple: IntTuple, /) -> Any:
    """The product of all integers."""
def product_each(tuple: IntTuple, /) -> Any:
    """The product of each element."""
def inner_product(a: IntTuple, b: IntTuple, /) -> Any:
    """The sum of the products, leaf by leaf."""
def prefix_product(shape: IntTuple, init: IntTuple | None = None, /) -> Any:
    """At each leaf the product of those before it, from init (or 1)."""
def shape_div(a: IntTuple, b: IntTuple, /) -> Any:
    """The shape that is left of a after division by b."""
def ceil_div(a: IntTuple, b: IntTuple, /) -> Any:
    """How many pieces of b cover a."""
def compact_col_major(shape: IntTuple, /) -> Any:
    """Strides, first mode fastest."""
def compact_row_major(shape: IntTuple, /) -> Any:
    """Strides, last mode fastest."""
def compact_order(shape: IntTuple, order: IntTuple, /) -> Any:
    """Strides, the extent of the smallest order fastest."""
def idx2crd(index: int, shape: IntTuple, stride: IntTuple | None = None, /) -> Any:
    """The coordinate of an index."""
def crd2crd(coord: IntTuple, shape: IntTuple, from_: IntTuple | None = None, /) -> Any:
    """The coordinate as one of the shape; `from` is its own shape."""
def increment(coord: IntTuple, shape: IntTuple, /) -> Any:
    """The coordinate after this one; after the last one, the last extent counts as unbounded."""
def congruent(a: IntTuple, b: IntTuple, /) -> Any:
    """Whether both have the same nesting."""
def weakly_congruent(a: IntTuple, b: IntTuple, /) -> Any:
    """Whether b nests as a, or deeper."""
def compatible(a: IntTuple, b: IntTuple, /) -> Any:
    """Whether each coordinate of a is one of b."""
def weakly_compatible(a: IntTuple, b: IntTuple, /) -> Any:
    """As compatible, where sizes of b may be multiples of those of a."""
def elem_less(a: IntTuple, b: IntTuple, /) -> Any:
    """Whether each element is smaller."""
def lex_less(a: IntTuple, b: IntTuple, /) -> Any:
    """Whether a is before b, first element first."""
def colex_less(a: IntTuple, b: IntTuple, /) -> Any:
    """Whether a is before b, last element first."""
