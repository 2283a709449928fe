"""The type stubs of the package: their names, parameters and defaults are those of the package
itself."""

import ast
import inspect
import runpy
from pathlib import Path

import pytest

import moye

STUB = Path(__file__).parents[1] / "moye/__init__.pyi"
BODY = ast.parse(STUB.read_text()).body
FUNCTIONS = {node.name: node for node in BODY if isinstance(node, ast.FunctionDef)}
# The overloads of each function.
OVERLOADS = {name: [node for node in BODY if getattr(node, "name", "") == name] for name in FUNCTIONS}
CLASSES = {node.name: node for node in BODY if isinstance(node, ast.ClassDef)}
# Slots of pyo3's types, which have no signatures.
SLOTS = {"__call__", "__getitem__", "__init__", "__matmul__", "__getattr__"}
# A parameter without a default.
NONE = inspect.Parameter.empty


def of_stub(function):
    """The parameters of a function of the stub: their names, whether they are by keyword only, and
    their defaults."""
    arguments = function.args
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(plain) - len(arguments.defaults)) + arguments.defaults
    every = [(x, False, default) for x, default in zip(plain, defaults)]
    every += [(arguments.vararg, False, None)] if arguments.vararg else []
    every += [(x, True, default) for x, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return [
        (x.arg, by_keyword, NONE if default is None else ast.literal_eval(default)) for x, by_keyword, default in every
    ]


def of_package(function):
    kinds = inspect.signature(function).parameters.values()
    return [(x.name, x.kind is x.KEYWORD_ONLY, x.default) for x in kinds]


def test_the_stubs_are_as_the_script_writes_them():
    script = runpy.run_path(str(STUB.parents[1] / "stubs.py"))
    stubs = {"algebra.pyi": script["algebra"](), "__init__.pyi": script["init"](STUB.read_text())}
    for name, text in stubs.items():
        assert STUB.with_name(name).read_text() == text, "write them anew: python python/stubs.py"


def test_the_stub_has_the_names_of_the_package():
    assigned = {node.target.id for node in BODY if isinstance(node, ast.AnnAssign)}
    imported = {name.asname for node in BODY if isinstance(node, ast.ImportFrom) for name in node.names if name.asname}
    public = {name for name in (*FUNCTIONS, *CLASSES) if not name.startswith("_")}
    assert public - {"SupportsDLPack"} | assigned | imported == {*moye.__all__, "__version__"}


@pytest.mark.parametrize("name", sorted({*FUNCTIONS} - {"explain"}))
def test_functions_have_the_parameters_and_defaults_of_the_package(name):
    ours = of_package(getattr(moye, name))
    assert of_stub(OVERLOADS[name][0]) == ours
    # Another overload has the flag without its default.
    for node in OVERLOADS[name][1:]:
        assert [x[:2] for x in of_stub(node)] == [x[:2] for x in ours]


def test_arguments_of_products_and_attention_are_by_name_after_the_operands():
    for name, positional in [
        ("matmul", ["a", "b"]),
        ("scaled_dot_product_attention", ["q", "k", "v"]),
        ("copy", ["x"]),
    ]:
        ours = of_package(getattr(moye, name))
        assert [of for of, by_name, _ in ours if not by_name] == positional
    overloads = OVERLOADS["scaled_dot_product_attention"]
    returned = [ast.unparse(node.returns) for node in overloads]
    flags = [ast.unparse(x.annotation) for node in overloads for x in node.args.kwonlyargs if x.arg == "return_lse"]
    assert (returned, flags) == (["A", "tuple[A, A]"], ["Literal[False]", "Literal[True]"])


def test_explain_takes_a_function_and_its_arguments_or_those_of_products():
    of_function, of_products = OVERLOADS["explain"]
    assert [x.arg for x in of_function.args.posonlyargs] == ["function"]
    assert (of_function.args.vararg.arg, of_function.args.kwarg.arg) == ("arguments", "options")
    assert of_stub(of_products) == of_package(moye.matmul)
    assert [ast.unparse(node.returns) for node in (of_function, of_products)] == ["str", "dict[str, Any]"]


def test_documentation_has_the_paragraphs_of_the_declaration():
    for name, parts in [
        ("matmul", ["The matrix product activation(alpha * a @ b", "``a.T`` costs", "    alpha: the factor"]),
        ("scaled_dot_product_attention", ["Attention, softmax(", "NaN and infinity in", "    return_lse: whether"]),
        ("transpose", ["The transposed matrix", "elements of any type"]),
        ("explain", ["The kernel of a call", "those of\n    :func:`matmul`"]),
    ]:
        for part in parts:
            assert part in getattr(moye, name).__doc__, (name, part)


@pytest.mark.parametrize("name", [name for name in CLASSES if name in moye.__all__])
def test_classes_have_the_members_of_the_package(name):
    theirs, stub = getattr(moye, name), CLASSES[name]
    members = {node.name: node for node in stub.body if isinstance(node, ast.FunctionDef)}
    for member, node in members.items():
        assert hasattr(theirs, member), member
        if member not in SLOTS and not any(isinstance(x, ast.Name) and x.id == "property" for x in node.decorator_list):
            assert of_stub(node) == of_package(getattr(theirs, member)), member
    # Operations of the algebra are methods of layouts, which the stub declares by `__getattr__`.
    public = {member for member in vars(theirs) if not member.startswith("_")} - set(moye.algebra.__all__)
    assert public <= set(members) | set(moye.algebra.__all__), public - set(members)
