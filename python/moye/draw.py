"""Pictures of layouts and of what is built from them. Each function returns a
:class:`moye.Picture`."""

from ._moye import Layout as _Layout
from ._moye import TiledCopy, TiledMma, banks, copy_atom_names, mma_atoms, thread_value
from ._moye import evaluate as _evaluate

__all__ = ["TiledCopy", "TiledMma", "banks", "copy_atom_names", "layout", "mma_atoms", "thread_value"]


def layout(layout):
    """A grid with the index of each coordinate.

    layout: plain or swizzled, a string of one, or a shape.

    Raises LayoutError if it has too many elements for a picture.
    """
    if isinstance(layout, str):
        layout = _evaluate(layout)
    if isinstance(layout, (int, tuple, list)):
        layout = _Layout(layout)
    return layout.draw()
