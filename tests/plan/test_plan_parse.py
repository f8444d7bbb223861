"""The plan comment, its place in the file, and Python that is not part of the language."""

import pytest
from plans import FIRST_LINE, KERNELS, meta, pointed_at, refused, refused_body, run, source

from workbench.errors import PlanError
from workbench.plan.limits import PLAN_CHARS, SOURCE_CHARS
from workbench.plan.parse import parse
from workbench.plan.region import plan_region

RETURN = "return zeros(1, f32)"


def test_plan_is_found_and_its_lines_are_the_persons_own() -> None:
    text = "// one\n// two\n/* plan\n\ndef plan(x):\n    " + RETURN + "\n*/\n" + KERNELS
    program = parse(text)
    assert program.parameters == ("x",)
    assert program.function.lineno == 5
    assert program.function.body[0].lineno == 6
    assert plan_region(text) == (3, 7)


def test_an_indented_plan_keeps_its_columns() -> None:
    text = "/* plan\n    # a note\n      def plan(x):\n          y = 1 + z\n          return y\n*/"
    diagnostic = refused(text)
    assert (diagnostic.line, diagnostic.column) == (4, 19)
    assert pointed_at(diagnostic) == "z"


def test_columns_count_characters_not_bytes() -> None:
    diagnostic = refused_body('require("éàü" == z, "no")\n' + RETURN)
    assert pointed_at(diagnostic).startswith("z, ")


def test_windows_line_ends() -> None:
    text = source("y = zeros(4, f32)\nz = nothing\nreturn y").replace("\n", "\r\n")
    with pytest.raises(PlanError) as caught:
        parse(text)
    assert caught.value.diagnostics[0].line == FIRST_LINE + 1


@pytest.mark.parametrize(
    "hiding", ['"/* plan"', "// /* plan", 'R"(\n/* plan\n)"', "'\"' /* plan of it */", "/*plans*/"]
)
def test_what_only_looks_like_a_plan_is_none(hiding: str) -> None:
    text = source(RETURN)
    parse(hiding + "\n" + text)
    parse(text + "\n" + hiding)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "no plan comment"),
        ("__global__ void k() {}", 1, "no plan comment"),
        ("\ndef plan(x):\n    return x\n", 2, "the plan belongs in a comment"),
        ("\n/* Plan\ndef plan(x): ...\n*/", 2, "the word plan alone"),
        ("\n// plan\n", 2, "the word plan alone"),
        ("\n\n/* plan: def plan(x): ...\n*/", 3, "the word plan alone"),
        ("\n/* plan\ndef plan(x):\n", 2, "never closed"),
        ("/* plan */", 1, "empty"),
        ("/* plan\n*/", 1, "empty"),
        ("/* plan\n# nothing\n*/", 1, "empty"),
        ("\n/* plan\ndef plan(x):\n  return x\n*/\n/* plan\n*/", 6, "the first is on line 2"),
        ("/* plan\ndef prepare(x):\n    return x\n*/", 2, "named plan, not 'prepare'"),
        ("/* plan\nrows = 3\ndef plan(x):\n    return x\n*/", 2, "one function"),
        ("/* plan\ndef plan(x):\n    return x\ndef plan(x):\n    return x\n*/", 4, "one function"),
        ("/* plan\nimport torch\ndef plan(x):\n    return x\n*/", 2, "import is not part"),
        ("/* plan\ndef plan(x):\n    y = 3\n*/", 2, "no return"),
        ("/* plan\ndef plan(x:\n    return x\n*/", 2, "never closed"),
        ("/* plan\ndef plan(x)\n    return x\n*/", 2, "expected ':'"),
        ("/* plan\ndef plan(x):\n  y = 3\n    return x\n*/", 4, "unexpected indent"),
        ("/* plan\ndef plan(x):\n    return x\n    return (\n*/", 4, "never closed"),
        ("/* plan\ndef plan(x):\n    return x\0\n*/", 3, "null character"),
        ("/* plan\ndef plan(x):\n    return '\\d'\n*/", 3, "backslash"),
        ("/* plan\nasync def plan(x):\n    return x\n*/", 2, "async is not part"),
        ("/* plan\n" + " " * PLAN_CHARS + "\n*/", 1, f"{PLAN_CHARS} are allowed"),
        (" " * (SOURCE_CHARS + 1), 1, f"{SOURCE_CHARS} are allowed"),
        ("/* plan\ndef plan(x):\n    return " + "(" * 150 + "x" + ")" * 150 + "\n*/", 3, ""),
        ("/* plan\ndef plan(x):\n    return " + "-" * 5000 + "x\n*/", 1, ""),
        ("/* plan\ndef plan(x):\n    return x" + "+x" * 100 + "\n*/", 3, "nested more than"),
        ("/* plan\ndef plan(x):\n    return x" + "+x" * 9000 + "\n*/", 1, ""),
    ],
)
def test_comments_that_hold_no_plan(text: str, line: int, words: str) -> None:
    if len(text) > SOURCE_CHARS:
        with pytest.raises(PlanError, match=words):
            parse(text)
        return
    diagnostic = refused(text)
    assert words in diagnostic.message
    if words:
        assert diagnostic.line == line


FORBIDDEN = {
    "import os": "import is not part",
    "from os import path": "import is not part",
    "while True:\n    pass": "while is not part",
    "f = lambda: 3": "lambda is not part",
    "def g():\n    pass": "def inside the plan",
    "class A:\n    pass": "class is not part",
    "try:\n    pass\nexcept:\n    pass": "try is not part",
    "with x:\n    pass": "with is not part",
    "raise x": "use require",
    "assert x": "use require",
    "del x": "del is not part",
    "global x": "global is not part",
    "nonlocal x": "nonlocal is not part",
    "match x:\n    case 1:\n        pass": "write if and elif",
    "y: int = 3": "leave the type out",
    "if (y := 3):\n    pass": ":= is not part",
    "y = [*x.shape]": "* is not part",
    "a, *b = x.shape": "* is not part",
    "launch(*x.shape)": "* is not part",
    "launch(**x)": "** is not part",
    "y = {**x}": "** is not part",
    "y = [n for n in x.shape]": "write a for loop",
    "y = {n: n for n in x.shape}": "write a for loop",
    "y = {n for n in x.shape}": "write a for loop",
    "y = max(n for n in x.shape)": "write a for loop",
    "y = {1, 2}": "write a tuple",
    "y = x @ x": "aten.mm",
    "y = yield": "yield is not part",
    "y = (yield from x)": "yield is not part",
    "y = x.__class__": "there is no fact '__class__'",
    "y = __builtins__": "unknown name '__builtins__'",
    "__y = 3": "not a name for a plan",
    "y = x.shape.__len__()": "methods cannot be called",
    "exec('y = 3')": "unknown call exec()",
    "eval('3')": "unknown call eval()",
    "open('/etc/passwd')": "unknown call open()",
    "y = x.size(0)": "methods cannot be called, size() neither: write x.shape[0]",
    "k<<<cols, 32>>>(x, y)": 'written launch("kernel"',
    "y = torch.empty(3)": "write empty(...) without a name and a dot",
    "y = (3)(4)": "only names can be called",
    "y = x.shap": "Did you mean 'shape'?",
    "y = taget.sm_count": "Did you mean 'target'?",
    "y = emtpy(3, f32)": "Did you mean 'empty'?",
    "y = f33": "Did you mean",
    "y = f'{x.ndim:1000000000d}'": "a format after : or !",
    "y = f'{x.ndim!r}'": "a format after : or !",
    "y = b'3'": "bytes is not a value",
    "y = 3j": "complex is not a value",
    "y = ...": "ellipsis is not a value",
    "y = " + "9" * 100: "more than 256 bits",
    "y = 0x" + "f" * 200: "more than 256 bits",
    "y = '" + "a" * 2000 + "'": "a string of 2000 characters",
    "x.shape = 3": "a fact cannot be changed",
    "x[0] = 3": "cannot be changed in place",
    "x[0] += 3": "cannot be changed in place",
    "min = 3": "a word of the plan language",
    "target = 3": "a word of the plan language",
    "x.shape": "no effect",
    "x == x": "no effect",
    "for i in range(3):\n    pass\nelse:\n    pass": "else after for",
    "for x.shape in range(3):\n    pass": "a fact cannot be changed",
    "y = x[1, *x.shape]": "* is not part",
    "async def g():\n    pass": "async is not part",
    "async with x:\n    pass": "with is not part",
    "y = await x": "await is not part",
}


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_forbidden_constructs_say_what_to_write(statement: str) -> None:
    diagnostic = refused_body(f"{statement}\n{RETURN}")
    assert FORBIDDEN[statement] in diagnostic.message
    assert diagnostic.line >= FIRST_LINE
    assert diagnostic.column > 0


@pytest.mark.parametrize(
    ("head", "words"),
    [
        ("def plan(*x):", "without * or /"),
        ("def plan(**x):", "without * or /"),
        ("def plan(*, x):", "without * or /"),
        ("def plan(x, /):", "without * or /"),
        ("def plan(x=3):", "no default"),
        ("def plan(x: f32):", "leave the type out"),
        ("def plan(x) -> f32:", "leave the type out"),
        ("@min\ndef plan(x):", "decorator"),
    ],
)
def test_parameters_are_plain_names(head: str, words: str) -> None:
    diagnostic = refused(f"/* plan\n{head}\n    {RETURN}\n*/")
    assert words in diagnostic.message


def test_several_complaints_are_listed_together() -> None:
    with pytest.raises(PlanError) as caught:
        parse(source("a = lambda: 1\nb = nowhere\nimport os\n" + RETURN))
    assert [d.line for d in caught.value.diagnostics] == [FIRST_LINE, FIRST_LINE + 1, FIRST_LINE + 2]


def test_a_tensor_may_be_named_like_a_word_of_the_language() -> None:
    plan = run(
        "y = empty(target.shape, f32)\n"
        "launch('copy', grid=gpu.sm_count, block=1, args=[target, y, min.ndim])\nreturn y",
        target=meta(3),
        min=meta(3),
    )
    assert plan.launches[0].grid == (132, 1, 1)


def test_strings_beside_the_function_are_comments() -> None:
    parse('/* plan\n"what it does"\ndef plan(x):\n    "more"\n    ' + RETURN + "\n*/")


def test_parse_is_cached() -> None:
    text = source(RETURN)
    assert parse(text) is parse(text)


def test_library_is_seen_in_the_text() -> None:
    assert parse(source("return library('aten.mm', x, x)")).uses_library
    assert not parse(source(RETURN)).uses_library
