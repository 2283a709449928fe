"""The layout algebra and its pictures."""

import copy
import inspect
import pathlib
import pickle
import xml.etree.ElementTree as xml

import pytest

import moye
from moye import Layout, algebra


def test_layouts_are_made_of_text_and_of_tuples():
    layout = Layout((4, (2, 2)), (2, (1, 8)))
    assert layout == Layout("(4,(2,2)):(2,(1,8))") == Layout(layout)
    assert (layout.shape, layout.stride, layout.size, layout.cosize) == ((4, (2, 2)), (2, (1, 8)), 16, 16)
    assert (layout.rank, layout.depth, layout[1], layout[-1]) == (2, 2, Layout("(2,2):(1,8)"), Layout("(2,2):(1,8)"))
    assert Layout((4, 8)) == Layout("(4,8):(1,4)"), "a shape alone is column-major"
    assert (repr(layout), str(layout)) == ('Layout("(4,(2,2)):(2,(1,8))")', "(4,(2,2)):(2,(1,8))")
    assert eval(repr(layout)) == layout
    assert len({layout, Layout(str(layout)), Layout((4, 8))}) == 2
    assert pickle.loads(pickle.dumps(layout)) == copy.deepcopy(layout) == layout


def test_text_is_read_as_the_parser_of_layouts_reads_it():
    path = pathlib.Path(__file__).parents[2] / "tests/fixtures/data/notation.txt"
    lines = [line.split(" => ") for line in path.read_text().splitlines() if not line.startswith("#")]
    assert len(lines) > 50
    for text, expected in lines:
        kind = moye.ComposedLayout if text.startswith("S") else Layout
        if expected.startswith("column"):
            with pytest.raises(moye.LayoutError, match=f"{expected}: "):
                kind(text)
        else:
            assert str(kind(text)) == expected, text


def test_a_call_gives_the_index_of_a_coordinate_and_with_none_the_slice():
    layout = Layout("(4,(2,2)):(2,(1,8))")
    assert [layout(i, j) for i in range(4) for j in range(4)] == [
        2 * i + j % 2 + 8 * (j // 2) for i in range(4) for j in range(4)
    ]
    assert layout(3, (1, 1)) == layout(15) == 15
    assert layout(None, 2) == Layout("(4):(2)")


def test_operations_are_functions_and_methods():
    a, b = Layout("(6,2):(8,2)"), Layout("(4,3):(3,1)")
    result = Layout("((2,2),3):((24,2),8)")
    assert algebra.composition(a, b) == a.composition(b) == a @ b == result
    assert algebra.composition("(6,2):(8,2)", "(4,3):(3,1)") == moye.evaluate("(6,2):(8,2) o (4,3):(3,1)") == result
    assert all(result(i) == a(b(i)) for i in range(12))
    assert Layout("4:2").complement(24) == Layout("(2,3):(1,8)")
    assert Layout("(2,4):(1,2)").coalesce() == Layout("8:1")
    assert Layout("(2,4):(1,2)").coalesce((None, None)).rank == 2
    tiles = Layout("(9,(4,8)):(59,(13,1))").zipped_divide(((Layout("3:3"), Layout("(2,4):(1,8)"))))
    assert tiles == Layout("((3,(2,4)),(3,(2,2))):((177,(13,2)),(59,(26,1)))")
    assert Layout("(2,5):(5,1)").blocked_product("(3,4):(1,3)") == Layout("((2,3),(5,4)):((5,10),(1,30))")
    assert Layout("(2,5):(5,1)").raked_product("(3,4):(1,3)") == Layout("((3,2),(4,5)):((10,5),(30,1))")
    inverse = Layout("(4,8):(8,1)").right_inverse()
    assert all(Layout("(4,8):(8,1)")(inverse(i)) == i for i in range(32))
    assert algebra.identity_layout((4, 3)).stride == ("1@0", "1@1")
    assert algebra.congruent((1, (2, 3)), (4, (5, 6))) is True


def test_swizzled_layouts_are_called_and_composed():
    swizzled = moye.Swizzle(3, 3, 3) @ Layout("(8,64):(64,1)")
    assert isinstance(swizzled, moye.ComposedLayout) and str(swizzled) == "Sw<3,3,3> o 0 o (8,64):(64,1)"
    assert swizzled == moye.ComposedLayout("Sw<3,3,3> o 0 o (8,64):(64,1)")
    assert swizzled(1, 0) == moye.Swizzle(3, 3, 3)(64) == 64 + 8
    assert (swizzled.swizzle, swizzled.offset, swizzled.layout) == (moye.Swizzle(3, 3, 3), 0, Layout("(8,64):(64,1)"))


@pytest.mark.parametrize(
    "kind, text, call",
    [
        (moye.LayoutError, "column 6", lambda: Layout("(4,8:")),
        (moye.LayoutError, "(4,8)", lambda: Layout((4, 8), (1,))),
        (moye.LayoutError, "argument 1 of complement", lambda: algebra.complement(moye.Swizzle(3, 3, 3))),
        (moye.LayoutError, "was given 1 argument", lambda: algebra.composition(4)),
        (TypeError, "got <class 'float'>", lambda: Layout(1.5)),
        (TypeError, "got <class 'bool'>", lambda: Layout(True)),
        (IndexError, "mode 2 of (4,8):(1,4)", lambda: Layout((4, 8))[2]),
        (moye.LayoutError, "(6,2):(8,2)", lambda: Layout("(6,2):(8,2)").composition("(4,3):(5,1)")),
        (moye.LayoutError, "is not a swizzled layout", lambda: moye.ComposedLayout("4:1")),
        (moye.LayoutError, "bits", lambda: moye.Swizzle(-1, 0, 0)),
    ],
)
def test_wrong_arguments_are_exceptions_with_the_values(kind, text, call):
    with pytest.raises(kind) as raised:
        call()
    assert text in str(raised.value)
    assert isinstance(raised.value, (ValueError, TypeError, IndexError))


def test_every_operation_has_a_text_and_a_signature():
    for name in algebra.__all__:
        operation = getattr(algebra, name)
        assert operation.__doc__ and inspect.signature(operation).parameters, name


@pytest.mark.parametrize(
    "drawn",
    [
        Layout("(4,8):(8,1)"),
        moye.ComposedLayout("Sw<3,3,3> o 0 o (8,64):(64,1)"),
        moye.draw.layout("(8,8)"),
        moye.draw.thread_value("((4,8),(2,2)):((32,1),(16,8))", (16, 8)),
        moye.draw.banks("(32,32):(32,1)", "float32", access="32:1"),
        moye.TiledCopy((32, 8), (4, 1)),
        moye.TiledCopy((16, 2), (2, 4), atom="SM75_U32x4_LDSM_N", element="float16"),
        moye.TiledMma("SM80_16x8x16_F32F16F16F32_TN"),
        moye.TiledMma("SM80_16x8x8_F32TF32TF32F32_TN", atoms=(2, 2, 1), tile=(32, 32, 8)),
    ],
    ids=repr,
)
def test_what_has_a_picture_shows_it_in_a_notebook(drawn):
    root = xml.fromstring(drawn._repr_svg_())
    assert root.tag.endswith("svg")
    assert len(list(root.iter())) > 30


def test_what_is_too_large_for_a_picture_shows_its_text():
    large = Layout((1024, 1024))
    assert large._repr_svg_() is None
    with pytest.raises(moye.LayoutError, match="16384"):
        large.draw()


def test_pictures_are_saved_and_rendered(tmp_path):
    picture = Layout("(2,(2,2)):(4,(2,1))").draw()
    assert picture.render("cute").splitlines()[0] == "(2,(2,2)):(4,(2,1))"
    assert "│" in str(picture)
    picture.save(tmp_path / "layout.svg")
    assert (tmp_path / "layout.svg").read_text() == picture.svg()
    with pytest.raises(moye.LayoutError, match="suffix"):
        picture.save(tmp_path / "layout.png")
    with pytest.raises(ValueError, match="no format"):
        picture.render("png")


def test_thread_value_layouts_of_instructions_are_those_of_cute():
    mma = moye.TiledMma("SM80_16x8x8_F32TF32TF32F32_TN")
    assert (mma.shape_mnk, mma.tile, mma.thr_id) == ((16, 8, 8), (16, 8, 8), Layout("32:1"))
    # Each thread has two elements of a row of C, and two eight rows below.
    assert [mma.c(0, value) for value in range(4)] == [0, 16, 8, 24]
    assert "SM80_16x8x8_F32TF32TF32F32_TN" in moye.mma_atoms()
    with pytest.raises(ValueError, match="mma_atoms"):
        moye.TiledMma("SM80_1x1x1")
    with pytest.raises(ValueError, match="UniversalCopy"):
        moye.TiledCopy(32, 1, atom="Nothing", element=16)
    copy = moye.TiledCopy((32, 8), (4, 1))
    assert (copy.tile, copy.source) == ([128, 8], copy.destination)
