"""What a plan computes, what it yields, and every way it is refused while it is interpreted."""

import math
from itertools import product

import pytest
from plans import (
    FIRST_LINE,
    holds,
    meta,
    only_launch,
    pointed_at,
    refused,
    refused_body,
    run,
    source,
    value_of,
)

from workbench.errors import NotCovered
from workbench.model import H100, TensorMeta
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.plan.steps import Allocate, BufferArg, Library, ScalarArg, View

Y = "y = zeros(1, f32)\n"
RETURN = "return zeros(1, f32)"
COPY = "y = empty_like(x)\nlaunch('copy', grid=1, block=32, args=[x, y, x.numel])\nreturn y"


def test_the_steps_of_a_plan() -> None:
    plan = run(
        """
        rows, cols = x.shape
        require(x.dtype == f32, "float32 only")
        work = zeros((rows, 2), f32)
        half = view(work, (rows,), offset=rows)
        y = empty_like(x)
        launch(f"rows<{2 ** 7}>", grid=(rows, 2), block=(32, 4), args=[x, half],
               const={"N": cols, "B": True}, smem=64)
        launch("copy", grid=cdiv(rows * cols, 128), block=128, args=[x, y, rows * cols], cluster=(1, 1, 1))
        return y
        """
    )
    assert [step.kind for step in plan.steps] == ["allocate", "view", "allocate", "launch", "launch"]
    assert [step.line for step in plan.steps] == [FIRST_LINE + i for i in (2, 3, 4, 5, 7)]
    assert plan.outputs == ("%2",)
    work, half, _, rows, copy = plan.steps
    assert isinstance(work, Allocate) and work.zero and work.meta.shape == (6, 2)
    assert isinstance(half, View) and (half.of, half.offset, half.meta.strides) == ("%0", 6, (1,))
    assert rows.kernel == "rows<128>"
    assert (rows.grid, rows.block, rows.shared_bytes) == ((6, 2, 1), (32, 4, 1), 64)
    assert rows.consts == (("B", "true"), ("N", "4"))
    assert copy.args == (BufferArg(buffer="x"), BufferArg(buffer="%2"), ScalarArg(value=24, ctype="int"))
    assert plan.meta_of("%2") == meta(6, 4)


def test_interpretation_is_deterministic() -> None:
    assert run(COPY) == run(COPY)
    assert run(COPY).digest == run(COPY).digest


def test_parameters_are_matched_by_name() -> None:
    body = Y + "launch('add', grid=a.numel, block=b.numel, args=[a, b, y])\nreturn y"
    plan = interpret(parse(source(body, "b, a")), {"a": meta(2), "b": meta(3)}, H100)
    assert (only_launch(plan).grid[0], only_launch(plan).block[0]) == (2, 3)
    assert [name for name, _ in plan.arguments] == ["b", "a"]


def test_parameters_that_do_not_match_the_problem() -> None:
    diagnostic = refused(source(RETURN, "weigth, x"), {"x": meta(1), "weight": meta(1)})
    assert "no tensor 'weigth'. Did you mean 'weight'? Write def plan(x, weight)" in diagnostic.message
    assert pointed_at(diagnostic).startswith("weigth")
    diagnostic = refused(source(RETURN, "x"), {"x": meta(1), "weight": meta(1)})
    assert "leaves out weight: write def plan(x, weight)" in diagnostic.message


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("2 ** 200 // 3 ** 60 % 1000", 2**200 // 3**60 % 1000),
        ("-7 // 2", -4),
        ("-7 % 3", 2),
        ("7 / 2", 3.5),
        ("1 << 40 | 3 ^ 1 & 7", 1 << 40 | 3 ^ 1 & 7),
        ("~5 >> 1", ~5 >> 1),
        ("True + 1", 2),
        ("+3 - -2", 5),
        ("2 ** -1", 0.5),
        ("4 ** 0.5", 2.0),
        ("1e300 * 1e300", math.inf),
        ("cdiv(7, 2)", 4),
        ("cdiv(-7, 2)", -3),
        ("cdiv(8, 2)", 4),
        ("next_pow2(1)", 1),
        ("next_pow2(5)", 8),
        ("next_pow2(8)", 8),
        ("min(3, 2, 5)", 2),
        ("max((3, 2.5))", 3),
        ("len(x.shape) + len('abc') + len([1]) + len(range(2, 9, 3)) + len({'a': 1})", 2 + 3 + 1 + 3 + 1),
        ("x.shape[-1]", 4),
        ("x.shape[::-1][0]", 4),
        ("(1, 2, 3)[1:][0]", 2),
        ("range(5)[2]", 2),
        ("{'a': 3, 'b': 4}['b']", 4),
        ("({'a': 3} | {'a': 4})['a']", 4),
        ("((1,) + (2,))[1]", 2),
        ("([7] * 3)[2]", 7),
        ("x.ndim * 100 + x.itemsize", 204),
        ("x.numel + x.nbytes", 24 + 96),
        ("x.strides[0]", 4),
        ("x.alignment", 256),
        ("3 if x.is_contiguous else 4", 3),
        ("0 or 5", 5),
        ("0 and 5", 0),
        ("3 and 5", 5),
        ("not 3", False),
        ("target.sm_count", 132),
        ("gpu.shared_bytes_per_block", 227 * 1024),
        ("inf", math.inf),
    ],
)
def test_values_are_pythons(expression: str, expected: float) -> None:
    got = value_of(expression)
    assert got == expected
    assert type(got) is type(expected)


@pytest.mark.parametrize(
    "condition",
    [
        "1 < 2 < 3",
        "not (1 < 3 < 2)",
        "x.dtype == f32",
        "x.dtype != f16",
        "x.dtype in (f16, f32)",
        "x.dtype not in [f16]",
        "x.shape == (6, 4)",
        "x.shape != [6, 4]",
        "3 in range(5)",
        "7 not in range(5)",
        "'a' in {'a': 1}",
        "'b' in 'abc'",
        "None is None",
        "x is not None",
        "nan != nan",
        "f'{1}{True}{f16}{(1, 2)}' == '1true__half(1, 2)'",
        "f'{x.shape[0]}_{x.dtype}' == '6_float'",
        "'a' + 'b' == 'ab'",
        "'ab' * 2 == 'abab'",
        "'abc'[1] == 'b'",
    ],
)
def test_conditions(condition: str) -> None:
    assert holds(condition)
    assert not holds(f"not ({condition})")


def test_statements() -> None:
    plan = run(
        """
        total = 0
        pairs = []
        for i, size in ((9, 5), (0, 6), (1, 4)):
            if size == 5:
                total = 1000
                continue
            elif i == 7:
                break
            else:
                total += size * 10 ** i
            pairs += [(i, size)]
        for i in range(100):
            if i == 3:
                break
        a = b = total
        (c, d), e = (1, 2), i
        pass
        y = zeros(1, f32)
        launch("copy", grid=len(pairs), block=c + d + e, args=[x, y, a + b])
        return (y,)
        """
    )
    launch = only_launch(plan)
    assert (launch.grid[0], launch.block[0], launch.args[2]) == (2, 6, ScalarArg(value=2092, ctype="int"))


def test_require_turns_inputs_away() -> None:
    with pytest.raises(NotCovered) as caught:
        run("require(x.ndim == 3, f'three axes, not {x.ndim}')\n" + RETURN)
    assert caught.value.diagnostics[0].message == "three axes, not 2"
    assert caught.value.diagnostics[0].line == FIRST_LINE
    with pytest.raises(NotCovered, match="does not cover"):
        run("require(False)\n" + RETURN)


WRONG_VALUES = {
    "a = 1 / 0": "/ divides by zero",
    "a = 1 // 0": "// divides by zero",
    "a = 1 % 0": "% divides by zero",
    "a = 0 ** -1": "** divides by zero",
    "a = 2 ** 10 ** 10": "more than 256 bits",
    "a = 2 ** 257": "more than 256 bits",
    "a = 2 ** 255 * 4": "more than 256 bits",
    "a = 1 << 10 ** 10": "more than 256 bits",
    "a = 1 << -1": "negative shift count",
    "a = 10.0 ** 400": "is too large",
    "a = (-8) ** 0.5": "is no real number",
    "a = 'a' * 10 ** 10": "is too long",
    "a = (1,) * 10 ** 10": "is too long",
    "a = 'a'\nfor i in range(20):\n    a += a": "characters; 1000 are allowed",
    "a = (1,)\nfor i in range(20):\n    a += a": "more than 4096 elements",
    "a = (1,)\nfor i in range(20):\n    a = (a,)": "nested more than 16 deep",
    "a = (1, 1, 1)\nfor i in range(9):\n    a = (a, a, a, a)": "more than 4096 elements",
    "a = 'a %s' % 3": "% is not defined for the string",
    "a = 1 + None": "+ is not defined for 1 and None",
    "a = (1,) + [2]": "+ is not defined for a tuple of 1 and a list of 1",
    "a = x + 1": "+ is not defined for a tensor and 1",
    "a = 1.5 & 2": "& is not defined for 1.5 and 2",
    "a = 1.5 << 2": "<< is not defined",
    "a = -'a'": "- is not defined for the string 'a'",
    "a = +f32": "+ is not defined for the dtype f32",
    "a = ~1.5": "~ is not defined for 1.5",
    "a = x == x": "cannot be compared",
    "a = x < 3": "cannot be compared",
    "a = 'a' < 'b'": "< compares numbers",
    "a = (1,) < (2,)": "< compares numbers",
    "a = 3 is 3": "is compares with None only",
    "a = 3 in 3": "in does not look for 3 in 3",
    "a = not x": "neither true nor false",
    "if x:\n    pass": "neither true nor false",
    "a = 1 if f32 else 2": "neither true nor false",
    "a = x and 1": "neither true nor false",
    "a = x[0]": "elements of a tensor are unknown",
    "a = x.shape[2]": "index 2 is outside a tuple of 2",
    "a = x.shape[-3]": "index -3 is outside",
    "a = x.shape[0.5]": "an index must be a whole number",
    "a = x.shape['a']": "an index must be a whole number",
    "a = x.shape[0:'a']": "ends of a slice",
    "a = x.shape[::0]": "step of a slice cannot be 0",
    "a = x.ndim[0]": "2 cannot be indexed",
    "a = x.ndim[0:1]": "2 cannot be sliced",
    "a = {'rows': 1}['row']": "the dict has no 'row'. Did you mean 'rows'?",
    "a = {1: 2}": "keys of a dict must be strings",
    "a = x.shape.ndim": "only tensors and the card have facts",
    "a = target.shape": "the card has no fact 'shape'",
    "a = x.sm_count": "a tensor has no fact 'sm_count'",
    "a = min": "min is a call: write min(...)",
    "a = range(10 ** 9)": "a range of 1000000000 numbers; 10000 are allowed",
    "a = range(0, 10, 0)": "step of a range cannot be 0",
    "a = range(1.5)": "stop must be a whole number",
    "a = range()": "range() takes 1 to 3",
    "a = range(stop=3)": "no named arguments",
    "a = min()": "needs at least one number",
    "a = max('ab')": "max() takes numbers, not the string",
    "a = max((1, x))": "max() takes numbers, not a tensor",
    "a = len(x)": "len is not defined for a tensor",
    "a = cdiv(1, 0)": "b must be from 1",
    "a = cdiv(1.5, 2)": "a must be a whole number, not 1.5: use //",
    "a = next_pow2(0)": "n must be from 1",
    "a = cdiv(1)": "cdiv() needs b",
    "a = cdiv(1, 2, 3)": "takes at most 2 arguments (a, b)",
    "a = cdiv(1, a=2)": "given a twice",
    "a = cdiv(1, c=2)": "has no argument 'c'. It has: a, b.",
    "require(True, 3)": "reason of a require must be a string",
    "require(x, 'no')": "neither true nor false",
    "a, b, c = x.shape": "2 values for 3 names",
    "a, b = 3": "3 cannot be taken apart into 2 names",
    "for i in 3:\n    pass": "for goes over a range",
    "for i in x:\n    pass": "for goes over a range, tuple or list, not a tensor",
    "if x.ndim == 3:\n    a = 1\nb = a": "'a' has no value yet on this path",
    "b = b + 1": "'b' has no value yet",
    "b += 1": "'b' has no value yet",
    "a = f'{x}'": "cannot be written into a string",
    "a = tensor_map(x)": "tensor_map is not supported yet",
    "for i in range(10000):\n    for j in range(10000):\n        pass": "does not come to an end",
    "a = (1,) * 4000\nfor i in range(10000):\n    b = a + (1,)": "does not come to an end",
    "for i in range(2000):\n    a = empty(1, f32)": "more than 1024 steps",
}


@pytest.mark.parametrize("statement", WRONG_VALUES)
def test_wrong_values(statement: str) -> None:
    diagnostic = refused_body(f"{statement}\n{RETURN}")
    assert WRONG_VALUES[statement] in diagnostic.message
    assert diagnostic.line >= FIRST_LINE
    assert diagnostic.column > 0


WRONG_BUFFERS = {
    "a = empty((3, -1), f32)": ("shape cannot be negative: (3, -1)", "-1), f32)"),
    "a = zeros(-1, f32)": ("shape cannot be negative", "-1, f32)"),
    "a = empty(x.shape[0] / 2, f32)": ("shape must hold whole numbers, not 3.0: use //", "x.shape[0] / 2"),
    "a = empty((True,), f32)": ("shape must hold whole numbers, not True", "True"),
    "a = empty('a', f32)": ("shape must hold whole numbers", "'a'"),
    "a = empty(2 ** 100, f32)": ("too large for shape", "2 ** 100"),
    "a = empty((1,) * 20, f32)": ("shape has 20 axes; 16 are allowed", "(1,)"),
    "a = empty(3)": ("empty() needs dtype", "empty(3)"),
    "a = empty(3, 'f32')": ("dtype must be one of f64, f32", "'f32'"),
    "a = empty(shape=3, dtyp=f32)": ("no argument 'dtyp'. Did you mean 'dtype'?", "f32)"),
    "a = empty(10 ** 11, u8)": ("need 100 GB by now, the card has 80 GB", "empty("),
    "a = empty(3 * 10 ** 10, u8)\nb = empty(6 * 10 ** 10, u8)": ("need 90 GB by now", "empty(6"),
    "a = empty((2 ** 40, 2 ** 40, 2 ** 40), f32)": ("the card has 80 GB", "empty("),
    "a = empty_like(3)": ("x must be a tensor, not 3", "3)"),
    "a = empty_like(x, 3)": ("dtype must be one of", "3)"),
    "a = view(3, 3)": ("x must be a tensor", "3, 3)"),
    "a = view(x, 25)": ("the view covers elements 0 to 24; the buffer has 24", "25)"),
    "a = view(x, 24, offset=1)": ("the view covers elements 1 to 24", "1)"),
    "a = view(x, (2, 2), (24, 1))": ("covers elements 0 to 25", "(2, 2)"),
    "a = view(x, 4, offset=-1)": ("covers elements -1 to 2", "-1)"),
    "a = view(x, (2, 2), (1,))": ("shape has 2 axes, strides has 1", "(1,)"),
    "a = view(x, 2, -1)": ("strides cannot be negative", "-1)"),
    "a = view(x, 2, offset=1.0)": ("offset must be a whole number", "1.0)"),
    "a = view(view(x, 4, offset=20), 1, offset=4)": ("covers elements 24 to 24", "4)"),
}


@pytest.mark.parametrize("statement", WRONG_BUFFERS)
def test_wrong_buffers_point_at_the_argument(statement: str) -> None:
    words, pointed = WRONG_BUFFERS[statement]
    diagnostic = refused_body(f"{statement}\n{RETURN}")
    assert words in diagnostic.message
    assert pointed_at(diagnostic).startswith(pointed)


def test_a_view_needs_strides_where_its_tensor_is_not_contiguous() -> None:
    diagnostic = refused_body("a = view(x, 24)\n" + RETURN, x=meta(4, 6, strides=(1, 4)))
    assert "needs strides=" in diagnostic.message
    run("a = view(x, 24, 1)\n" + RETURN, x=meta(4, 6, strides=(1, 4)))


def test_views_of_views_name_the_buffer_and_count_from_its_start() -> None:
    plan = run("a = view(x, 12, offset=12)\nb = view(a, (2, 2), (4, 1), offset=-4)\n" + RETURN)
    first, second = plan.steps[:2]
    assert isinstance(second, View)
    assert (first.of, first.offset, second.of, second.offset) == ("x", 12, "x", 8)
    assert [step.meta.alignment for step in plan.steps[:2]] == [16, 16]


def test_alignment_of_views() -> None:
    plan = run(
        "a = view(x, 1, offset=1)\nb = view(x, 1, offset=2)\nc = view(x, 1)\n" + RETURN,
        x=meta(64, alignment=64),
    )
    assert [step.meta.alignment for step in plan.steps[:3]] == [4, 8, 64]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (meta(6, 4), (4, 1)),
        (meta(6, 4, strides=(1, 6)), (1, 6)),
        (meta(6, 4, strides=(8, 1)), (4, 1)),
        (meta(6, 4, strides=(0, 1)), (4, 1)),
        (meta(1, 4, strides=(99, 1)), (4, 1)),
    ],
)
def test_empty_like_keeps_dense_strides(given: TensorMeta, expected: tuple[int, ...]) -> None:
    plan = run(
        "y = empty_like(x, f16)\nlaunch('k', grid=1, block=1, args=[y])\nreturn y",
        x=given,
        kernels="__global__ void k(half* y) {}",
    )
    assert plan.meta_of(plan.outputs[0]).strides == expected
    assert plan.meta_of(plan.outputs[0]).dtype == "f16"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("return x", "the memory of the input 'x'"),
        ("return zeros(1, f32), x", "the memory of the input 'x'"),
        ("return view(x, 3)", "the memory of the input 'x'"),
        ("a = view(x, 3)\nreturn view(a, 2)", "the memory of the input 'x'"),
        ("return 3", "returns a tensor or a tuple of tensors, not 3"),
        ("return", "not None"),
        ("return (zeros(1, f32), (zeros(1, f32),))", "not a tuple of 1"),
        ("return ()", "at least one tensor"),
        ("return empty(3, f32)", "nothing writes this output"),
        (
            "y = empty(3, f32)\nlaunch('add', grid=1, block=1, args=[x, y, zeros(1, f32)])\nreturn y",
            "nothing writes",
        ),
        ("if x.ndim == 3:\n    return zeros(1, f32)", "without a return on this path"),
        ("for i in range(3):\n    if i == 7:\n        return zeros(1, f32)", "without a return on this path"),
    ],
)
def test_what_a_plan_may_not_return(body: str, words: str) -> None:
    assert words in refused_body(body).message


def test_outputs_may_be_views_of_the_plans_own_buffers() -> None:
    plan = run("y = zeros((2, 3), f32)\nreturn view(y, 3), view(y, 3, offset=3)")
    assert plan.outputs == ("%1", "%2")


def test_an_empty_output_needs_no_launch() -> None:
    assert run("return empty((0, 3), f32)").outputs == ("%0",)


def _library(op, args, kwargs) -> tuple[TensorMeta, ...]:
    if op == "aten.split.Tensor":
        return meta(3, 4), meta(3, 4)
    if op == "aten.mm":
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied\nmore of it")
    return (meta(*args[0].shape),)


def test_library_calls() -> None:
    plan = run(
        "a, b = library('aten.split.Tensor', x, 3)\n"
        "return library('aten.add.Tensor', a, [b, 1.5, None], dtype=f16)",
        library=_library,
    )
    split, add = plan.steps
    assert isinstance(split, Library) and split.results == ("%0", "%1")
    assert add.args == (BufferArg(buffer="%0"), (BufferArg(buffer="%1"), 1.5, None))
    assert add.kwargs == (("dtype", "f16"),)
    assert plan.outputs == ("%2",)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("library()", "needs the name of an operation"),
        ("library('mm', x, x)", "must be a string such as"),
        ("library(x)", "must be a string such as"),
        ("library('torch.mm', x)", "must be a string such as"),
        ("library('aten.add_', x, x)", "writes into its argument"),
        ("library('aten.__iadd__', x, x)", "writes into its argument"),
        ("library('aten.add.out', x, x)", "writes into its argument"),
        ("library('aten.sum.IntList_out', x, x)", "writes into its argument"),
        ("library('aten.add', x, x, out=x)", "leave out= away"),
        ("library('aten.empty_like', x)", "memory that nobody wrote"),
        ("library('aten.new_empty', x, 3)", "memory that nobody wrote"),
        ("library('aten.from_file', '/etc/passwd')", "not an operation on tensors alone"),
        ("library('aten.mm', x, x)", "aten.mm: mat1 and mat2 shapes cannot be multiplied"),
        ("library('aten.add', target)", "cannot be given the card"),
        ("library('aten.add', {'a': 1})", "cannot be given a dict"),
    ],
)
def test_wrong_library_calls(call: str, words: str) -> None:
    assert words in refused(source(f"return {call}"), library=_library).message


def test_library_calls_are_refused_without_torch() -> None:
    assert "not interpreted here" in refused(source("return library('aten.relu', x)")).message


@pytest.mark.parametrize("op", ["t", "view", "transpose.int", "slice.Tensor", "split.Tensor", "contiguous"])
def test_a_library_view_of_an_input_is_still_the_input(op: str) -> None:
    body = f"a = library('aten.{op}', x)\nif {op!r} == 'split.Tensor':\n    a = a[0]\n"
    assert "the memory of the input 'x'" in refused(source(body + "return a"), library=_library).message
    launch = "launch('swap', grid=1, block=1, args=[zeros(1, f32), a])\n"
    assert "declare it const" in refused(source(body + launch + RETURN), library=_library).message


def test_every_dtype_has_a_name() -> None:
    for dtype, shape in product(
        ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool"), ((), (3,))
    ):
        plan = run(f"return zeros({shape}, {dtype})")
        assert plan.meta_of("%0") == meta(*shape, dtype=dtype)
