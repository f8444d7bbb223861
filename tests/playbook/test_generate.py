"""Generated kernels are right, hazard-free and compile for the GPU, over functions and vectors."""

import random

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import REFERENCES
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.errors import NotCovered, UsageError
from workbench.model import CompileReport, Vector
from workbench.plan.facts import facts
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import TECHNIQUES

TUNED: tuple[Vector, ...] = (
    (("row_cache", "registers"), ("stream_hints", "on"), ("vector_width", "4")),
    (("row_cache", "registers"), ("threads_per_row", "warp"), ("vector_width", "8")),
    (("grid_split", "on"), ("single_pass", "on"), ("vector_width", "4")),
    (("block_reduction", "tree"), ("persistent_grid", "on"), ("row_cache", "shared"), ("vector_width", "2")),
    (("grid_split", "on"), ("loads_in_flight", "4"), ("threads_per_row", "thread")),
    (("fusion", "none"),),
)


def random_vector(source: random.Random) -> Vector:
    return tuple((name, source.choice(technique.values)) for name, technique in sorted(TECHNIQUES.items()))


@pytest.mark.parametrize("name", REFERENCES)
def test_right_on_the_emulator(name: str) -> None:
    call, tensors = REFERENCES[name]
    problem = problem_of(call, tensors(), name)
    position = list(REFERENCES).index(name)
    for vector in ((), TUNED[position % len(TUNED)]):
        check(call, generate(problem, vector).kernel.source, tensors(), "checked")


@pytest.mark.parametrize(("exponent", "called"), [(3, False), (4, False), (8, False), (9, True), (2.5, True)])
def test_small_whole_powers_are_products(exponent: float, called: bool) -> None:
    problem = problem_of(lambda t: t["x"] ** exponent, {"x": torch.rand(65)}, "power")
    assert ("powf(" in generate(problem, ()).kernel.source) == called


def test_powers_of_two_have_a_function_of_their_own() -> None:
    problem = problem_of(lambda t: 2.0 ** t["x"] + 3.0 ** t["x"], {"x": torch.rand(65)}, "power")
    source = generate(problem, ()).kernel.source
    assert "exp2f(x_value)" in source and "powf(3.0f, x_value)" in source


@pytest.mark.parametrize("name", REFERENCES)
def test_right_for_a_random_vector_and_accepted_by_nvrtc(name: str) -> None:
    call, tensors = REFERENCES[name]
    source = generate(problem_of(call, tensors(), name), random_vector(random.Random(name))).kernel.source
    check(call, source, tensors())
    instances = plan_of(source, tensors()).instances
    if instances:
        report = compile_kernel(source, instances)
        assert isinstance(report, CompileReport), report
        assert not report.warnings


@pytest.mark.parametrize(
    "name", ["softmax", "gelu_bias", "layer_norm", "channel_norm", "statistics", "rms_norm"]
)
def test_one_kernel_moves_the_least_bytes(name: str) -> None:
    call, tensors = REFERENCES[name]
    plan = plan_of(generate(problem_of(call, tensors(), name), ()).kernel.source, tensors())
    known = facts(plan, name)
    assert known.launches == 1 and known.workspace_bytes == 0 and known.library_share == 0


@pytest.mark.parametrize(
    "name",
    ["cumsum_exclusive", "cumsum_shifted", "cumsum_behind_zero", "cumsum_behind_row", "cumsum_tail",
     "cumsum_chosen", "cumsum_reverse", "cumsum_back_exclusive", "logcumsumexp", "dot_of_channels",
     "matrix_vector", "vector_matrix"],
)  # fmt: skip
def test_what_follows_a_scan_or_a_vector_product_joins_its_kernel(name: str) -> None:
    call, tensors = REFERENCES[name]
    known = facts(plan_of(generate(problem_of(call, tensors(), name), ()).kernel.source, tensors()), name)
    assert known.launches == 1 and known.workspace_bytes == 0 and known.library_share == 0


def test_what_is_taken_from_a_total_is_taken_from_it() -> None:
    """The total before would be a number where an infinity is taken from an infinity."""
    call, tensors = REFERENCES["cumsum_exclusive"]
    source = generate(problem_of(call, tensors(), "op"), ()).kernel.source
    assert "earlier" not in source and "total - " in source


@pytest.mark.parametrize(
    ("name", "calls"),
    [
        ("linear_gelu", ("aten.mm",)),
        ("sorted", ("aten.sort",)),
        ("cumsum", ()),
        ("linear_rowsum", ()),
        ("softmax", ()),
    ],
)
def test_library_calls_are_only_what_is_left(name: str, calls: tuple[str, ...]) -> None:
    call, tensors = REFERENCES[name]
    draft = generate(problem_of(call, tensors(), name), ())
    known = facts(plan_of(draft.kernel.source, tensors()), name)
    assert known.library_calls == calls
    assert all(call in draft.note for call in calls)


def test_rewrite_can_be_turned_off() -> None:
    call, tensors = REFERENCES["linear_rowsum"]
    draft = generate(problem_of(call, tensors()), (("linear_rowsum", "off"),))
    assert "library" in draft.kernel.source
    check(call, draft.kernel.source, tensors())


def test_same_vector_same_text() -> None:
    call, tensors = REFERENCES["cross_entropy"]
    problem = problem_of(call, tensors())
    assert generate(problem, ()) == generate(problem, ())


@pytest.mark.parametrize(
    ("vector", "words"),
    [
        ((("vector_widht", "4"),), "no technique 'vector_widht'. Did you mean 'vector_width'"),
        ((("row_cache", "register"),), "row_cache cannot be 'register'.*Did you mean 'registers'"),
    ],
)
def test_misspelt_techniques_are_named(vector: Vector, words: str) -> None:
    call, tensors = REFERENCES["softmax"]
    with pytest.raises(UsageError, match=words):
        generate(problem_of(call, tensors()), vector)


pytestmark = pytest.mark.sweep


def test_halves_of_unequal_length_are_refused_not_read_beyond() -> None:
    def gated(t: dict[str, Tensor]) -> Tensor:
        value, gate = t["x"].chunk(2, 1)
        return value * torch.sigmoid(gate)

    tensors = {"x": torch.randn(5, 8)}
    source = generate(problem_of(gated, tensors), ()).kernel.source
    check(gated, source, tensors)
    with pytest.raises(NotCovered, match="sizes that meet must be equal"):
        plan_of(source, {"x": torch.randn(5, 7)})


@pytest.mark.parametrize(
    ("call", "least"),
    [
        (lambda t: torch.cat([t["x"][:, 2:4] * 2, t["x"][:, 4:]], 1), 4),
        (lambda t: t["x"][:, 2] - t["x"][:, -5], 5),
    ],
)
def test_rows_shorter_than_what_is_taken_of_them_are_turned_away(call: Call, least: int) -> None:
    """Torch cuts such a slice short, or refuses; a kernel would read beyond the row."""
    source = generate(problem_of(call, {"x": torch.randn(6, 9)}), ()).kernel.source
    check(call, source, {"x": torch.randn(3, least)})
    with pytest.raises(NotCovered, match="what is taken lies inside"):
        plan_of(source, {"x": torch.randn(3, least - 1)})


def test_the_plan_of_a_long_chain_in_as_many_launches_is_no_longer_than_allowed() -> None:
    def chain(t: dict[str, Tensor]) -> Tensor:
        value = t["x"]
        for _ in range(125):
            value = torch.tanh(value) + t["y"]
        return value

    tensors = {"x": torch.randn(3, 5), "y": torch.randn(5)}
    source = generate(problem_of(chain, tensors), (("fusion", "none"),)).kernel.source
    assert len(plan_of(source, tensors).launches) == 250
