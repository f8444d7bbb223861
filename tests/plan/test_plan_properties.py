"""Random, mutated and hostile plans: the interpreter answers with a plan or a PlanError, nothing else."""

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import KERNELS, meta, source

from workbench.errors import PlanError
from workbench.model import H100, TensorMeta
from workbench.plan.facts import facts
from workbench.plan.grammar import check
from workbench.plan.interpret import interpret
from workbench.plan.limits import STEPS
from workbench.plan.parse import parse
from workbench.plan.region import plan_region
from workbench.plan.steps import Plan
from workbench.plan.vocabulary import CALLS, DTYPES, TENSOR_FACTS

GOOD = source(
    """
    rows, cols = x.shape
    require(x.dtype == f32 and x.is_contiguous, "contiguous float32 only")
    block = 256 if cols > 128 else next_pow2(cols)
    parts = []
    for i, size in ((0, rows), (1, cols)):
        if size % 2 == 0 and i < 5:
            parts += [zeros((size, 2 ** i), f32)]
    work = view(parts[0], (2, 3), strides=(3, 1), offset=0)
    y = empty_like(x)
    launch(f"rows<{block}>", grid=(rows, cdiv(cols, 32)), block=block, args=[x, y],
           const={"COLS": cols, "R": -1}, smem=64)
    launch("scale", grid=target.sm_count * 2, block=(32, 4), args=[x, work, 1 / cols, not rows, rows * cols])
    a, b = library("aten.var_mean", y, [1], keepdim=True, dtype=f16)
    return y, view(work, 3)
    """
)
METAS = (
    meta(6, 4),
    meta(0, 3),
    meta(1, 1),
    meta(128, 32768, dtype="f16"),
    meta(3),
    meta(),
    meta(5, 7, strides=(0, 1)),
    meta(8, 8, strides=(1, 8), alignment=4),
)


def library(op: str, args: tuple[object, ...], kwargs: object) -> tuple[TensorMeta, ...]:
    """Metadata of any operation: two results for var_mean, else one."""
    if not args or not isinstance(args[0], TensorMeta):
        raise ValueError("expected a tensor")
    return args[:1] * (2 if "var_mean" in op else 1)


def attempt(text: str, given_meta: TensorMeta = METAS[0]) -> Plan | PlanError:
    """Interpret a text; whatever but a PlanError comes out fails the test."""
    try:
        plan = interpret(parse(text), {"x": given_meta}, H100, library)
    except PlanError as error:
        lines = text.count("\n") + text.count("\r") + 1
        assert error.diagnostics
        assert all(1 <= d.line <= lines and d.message for d in error.diagnostics)
        assert all(d.model_dump_json() for d in error.diagnostics)
        return error
    check_plan(plan)
    return plan


def check_plan(plan: Plan) -> None:
    """What every plan that comes out of the interpreter keeps to."""
    known = {name for name, _ in plan.arguments}
    for step in plan.steps:
        match step.kind:
            case "allocate":
                known.add(step.buffer)
            case "view":
                assert step.of in known and step.offset >= 0
                known.add(step.buffer)
            case "launch":
                assert {a.buffer for a in step.args if hasattr(a, "buffer")} <= known
                assert all(n >= 1 for n in (*step.grid, *step.block)) and step.shared_bytes >= 0
            case "library":
                known.update(step.results)
    assert set(plan.outputs) <= known - {"x"}
    assert len(plan.steps) <= STEPS
    assert facts(plan, "case").bytes_plan >= 0
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def outcome(text: str, given_meta: TensorMeta) -> object:
    """Something to compare two interpretations by."""
    result = attempt(text, given_meta)
    return result if isinstance(result, Plan) else result.diagnostics


NAMES = ("x", "y", "z", "rows", "i")
NUMBERS = (
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "32",
    "1024",
    "65536",
    "2**31",
    "2**64",
    "0.5",
    "1e300",
    "inf",
    "nan",
    "True",
    "None",
)
OPERATORS = (
    "+",
    "-",
    "*",
    "/",
    "//",
    "%",
    "**",
    "<<",
    ">>",
    "&",
    "|",
    "^",
    "==",
    "!=",
    "<",
    ">=",
    "in",
    "not in",
    "is",
    "and",
    "or",
)
STRINGS = ("'copy'", "'rows<3>'", "'aten.relu'", "''", "f'rows<{i}>'", "f'{x.shape}'", "'why'", "'k<'")


def expressions() -> st.SearchStrategy[str]:
    """Texts of expressions, mostly well formed, mostly ill typed."""
    leaves = st.sampled_from((*NAMES, *NUMBERS, *STRINGS, *DTYPES, "target.sm_count", "()", "[]", "{}"))
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(OPERATORS), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            st.tuples(st.sampled_from(("-", "+", "~", "not ")), inner).map("".join),
            st.tuples(inner, inner, inner).map(lambda t: f"({t[0]} if {t[1]} else {t[2]})"),
            st.lists(inner, max_size=3).map(lambda items: f"({' '.join(i + ',' for i in items)})"),
            st.lists(inner, max_size=3).map(lambda items: f"[{', '.join(items)}]"),
            st.tuples(inner, inner).map(lambda t: f"{t[0]}[{t[1]}]"),
            st.tuples(inner, inner, inner).map(lambda t: f"{t[0]}[{t[1]}:{t[2]}]"),
            st.tuples(inner, st.sampled_from(TENSOR_FACTS)).map(lambda t: f"({t[0]}).{t[1]}"),
            st.tuples(st.sampled_from(CALLS), st.lists(inner, max_size=4)).map(
                lambda t: f"{t[0]}({', '.join(t[1])})"
            ),
            inner.map(lambda e: f"{{'A': {e}}}"),
            inner.map(lambda e: f"launch('copy', grid=1, block=32, args=[x, zeros(3, f32), {e}])"),
            inner.map(
                lambda e: f"launch('copy', grid={e}, block=1, args=[x, zeros(3, f32), 1], const={{'A': {e}}})"
            ),
            st.tuples(inner, inner).map(lambda t: f"view(x, {t[0]}, offset={t[1]})"),
        ),
        max_leaves=12,
    )


def blocks(depth: int = 2) -> st.SearchStrategy[list[str]]:
    """Lines of a block of statements."""
    expression = expressions()
    name = st.sampled_from(NAMES)
    simple = st.one_of(
        st.tuples(name, expression).map(lambda t: [f"{t[0]} = {t[1]}"]),
        st.tuples(name, st.sampled_from(OPERATORS[:12]), expression).map(
            lambda t: [f"{t[0]} {t[1]}= {t[2]}"]
        ),
        st.tuples(name, name, expression).map(lambda t: [f"{t[0]}, {t[1]} = {t[2]}"]),
        expression.map(lambda e: [f"return {e}"]),
        expression.map(lambda e: [f"require({e}, 'why')"]),
        st.sampled_from((["pass"], ["break"], ["continue"], ["return y"], ["return"])),
    )
    if not depth:
        return st.lists(simple, max_size=3).map(lambda groups: [line for g in groups for line in g])
    inner = blocks(depth - 1).map(lambda lines: [f"    {line}" for line in (lines or ["pass"])])
    nested = st.one_of(
        st.tuples(expression, inner, inner).map(lambda t: [f"if {t[0]}:", *t[1], "else:", *t[2]]),
        st.tuples(name, expression, inner).map(lambda t: [f"for {t[0]} in {t[1]}:", *t[2]]),
        st.tuples(name, st.sampled_from(("5", "100", "9999")), inner).map(
            lambda t: [f"for {t[0]} in range({t[1]}):", *t[2]]
        ),
    )
    return st.lists(st.one_of(simple, nested), max_size=5).map(
        lambda groups: [line for g in groups for line in g]
    )


def bodies() -> st.SearchStrategy[str]:
    """Bodies of plans that begin and end well."""
    start = "y = empty_like(x)\nlaunch('copy', 1, 1, [x, y, 3])\nrows = x.shape\ni = 4\n"
    return blocks().map(lambda lines: start + "\n".join((*lines, "return y")))


def mutated(seed: int, text: str) -> str:
    """A few random edits of a text: cut, repeat, replace, swap in a piece of the language."""
    random = Random(seed)
    pieces = (
        "(",
        ")",
        "]",
        "\n",
        ":",
        "*/",
        "/*",
        '"',
        "'",
        "**",
        "9" * 30,
        " for",
        "x",
        "\\",
        "\0",
        "\r",
        "é",
        "f'{",
        "=",
    )
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(text) + 1), random.randrange(12)
        middle = random.choice((*pieces, text[at : at + length] * 2, "", chr(random.randrange(0x250))))
        text = text[:at] + middle + text[at + length * random.randrange(2) :]
    return text


QUICK = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LONG = settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check_random_plan(body: str, given_meta: TensorMeta) -> None:
    """A random plan is answered, and answered alike twice."""
    text = source(body)
    first = outcome(text, given_meta)
    parse.cache_clear()
    assert outcome(text, given_meta) == first


def test_the_plan_that_is_mutated_is_good() -> None:
    assert isinstance(attempt(GOOD), Plan)


@QUICK
@given(bodies(), st.sampled_from(METAS))
def test_random_plans(body: str, given_meta: TensorMeta) -> None:
    check_random_plan(body, given_meta)


@QUICK
@given(st.integers(0, 2**32), st.sampled_from(METAS))
def test_mutations_of_a_good_plan(seed: int, given_meta: TensorMeta) -> None:
    attempt(mutated(seed, GOOD), given_meta)


@QUICK
@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    attempt(text)
    attempt(source(text))
    attempt(f"/* plan\n{text}\n*/{KERNELS}")


@pytest.mark.sweep
@LONG
@given(bodies(), st.sampled_from(METAS))
def test_many_random_plans(body: str, given_meta: TensorMeta) -> None:
    check_random_plan(body, given_meta)


@pytest.mark.sweep
@LONG
@given(st.integers(0, 2**32), st.sampled_from(METAS))
def test_many_mutations_of_a_good_plan(seed: int, given_meta: TensorMeta) -> None:
    attempt(mutated(seed, GOOD), given_meta)


def test_no_name_leads_out_of_the_language() -> None:
    """Every builtin of Python is unknown to a plan, called or not."""
    import builtins

    own = {*CALLS, *DTYPES}
    for name in set(dir(builtins)) - own:
        if name.isidentifier() and name not in ("True", "False", "None"):
            assert isinstance(attempt(source(f"y = {name}\nreturn zeros(1, f32)")), PlanError), name
            assert isinstance(attempt(source(f"y = {name}(x)\nreturn zeros(1, f32)")), PlanError), name


def test_the_checked_tree_is_the_interpreted_one() -> None:
    """The interpreter has a rule for every node that the grammar lets through."""
    program = parse(GOOD)
    assert list(check(program.function)) == []
    assert plan_region(GOOD) == (2, GOOD[: GOOD.index("*/")].count("\n") + 1)
