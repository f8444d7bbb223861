"""All elements of a short axis a thread: read once, computed once, stored side by side."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, metas_of
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import H100
from workbench.plan.interpret import interpret
from workbench.plan.parse import parse
from workbench.playbook.estimates.estimate import estimate
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of
from workbench.referee.librarymeta import library_meta

Tensors = dict[str, Tensor]
ON, OFF = ("axis_a_thread", "on"), ("whole_records", "off")
"""Where rows are not made as a whole by a rewrite of the graph, they are so where kernels are written."""


def turned(t: Tensors) -> Tensor:
    q = F.normalize(t["q"], dim=-1)
    u, w = q[..., 1:], q[..., :1]
    to = 2 * torch.cross(u, t["p"], dim=-1)
    return t["p"] + w * to + torch.cross(u, to, dim=-1)


def multiplied(t: Tensors) -> Tensor:
    a, b = t["z"][..., 0], t["z"][..., 1]
    c, d = t["w"][..., 0], t["w"][..., 1]
    return torch.stack((a * c - b * d, a * d + b * c), -1)


def normals(t: Tensors) -> Tensor:
    return F.normalize(torch.cross(t["p"], t["r"], dim=-1), dim=-1)


def shares(t: Tensors) -> Tensor:
    return t["x"].softmax(1)


def both(t: Tensors) -> tuple[Tensor, ...]:
    crossed = torch.cross(t["p"], t["r"], dim=-1)
    return crossed, t["p"] - crossed


ALL: tuple[Call, ...] = (turned, multiplied, normals, shares, both)
NAMES = {turned: "qp", multiplied: "zw", normals: "pr", shares: "x", both: "pr"}


def tensors_of(call: Call, rows: int, dtype: torch.dtype = torch.float32) -> Tensors:
    shapes = {
        "q": (rows, 4),
        "p": (rows, 3),
        "r": (rows, 3),
        "z": (3, rows, 2),
        "w": (rows, 2),
        "x": (5, 4, 36),
    }
    return {name: torch.randn(*shapes[name]).to(dtype) for name in NAMES[call]}  # type: ignore[index]


@pytest.mark.many(41)
@pytest.mark.parametrize("rows", [24, 23])
@pytest.mark.parametrize("width", ["1", "2", "4"])
@pytest.mark.parametrize("call", ALL)
def test_a_thread_has_all_elements(call: Call, width: str, rows: int) -> None:
    tensors = tensors_of(call, rows)
    problem = problem_of(call, tensors, varying=False)
    vector = (ON, OFF, ("index_width", "32"), ("vector_width", width))
    streamed = generate(problem, (*vector, ("stores", "streamed"))).kernel.source
    check(call, streamed, tensors, "checked")
    source = generate(problem, vector).kernel.source
    assert (
        source != streamed
        and source.count("__global__") == 1
        and " ? " not in source.split("__global__")[1].split("i >=")[1]
    )
    check(call, source, tensors, "checked")


@pytest.mark.many(23)
@pytest.mark.parametrize("width", ["2", "4", "8"])
@pytest.mark.parametrize("call", ALL)
def test_of_16_bits(call: Call, width: str) -> None:
    tensors = tensors_of(call, 48, torch.bfloat16)
    problem = problem_of(call, tensors, varying=False)
    check(call, generate(problem, (ON, OFF, ("vector_width", width))).kernel.source, tensors, "checked")


def test_rows_are_read_and_written_in_vectors() -> None:
    tensors = tensors_of(turned, 24)
    problem = problem_of(turned, tensors)
    source = generate(problem, (ON, OFF, ("vector_width", "4"))).kernel.source
    assert "load_rows<VEC, 4>(q + i * 4)" in source and "load_run<VEC, 3>(p + i * 3)" in source
    assert "store_rows<VEC, 3>(out + i * 3, out_rows)" in source
    assert "q.alignment >= 64" in source  # four vectors move as one: none of them may begin elsewhere


@pytest.mark.many(5)
@pytest.mark.parametrize("aligned", [4, 8, 16, 32])
@pytest.mark.parametrize(("call", "least"), [(turned, 32), (multiplied, 16)])
def test_tensors_that_begin_anywhere_are_read_in_narrower_vectors(
    call: Call, least: int, aligned: int
) -> None:
    tensors = tensors_of(call, 24)
    source = generate(problem_of(call, tensors), (ON, OFF, ("vector_width", "4"))).kernel.source
    metas = {n: m.model_copy(update={"alignment": aligned}) for n, m in metas_of(tensors).items()}
    plan = interpret(parse(source), metas, H100, library_meta)
    found = str(plan.instances)
    assert ("<1>" in found) == (aligned < least) and ("<4>" in found) == (aligned >= 2 * least)
    execution = execute(plan, build(source, plan.instances, "checked"), tensors, Options(case="test"))
    assert not execution.report.hazards
    torch.testing.assert_close(execution.outputs[0], call(tensors), rtol=1e-4, atol=1e-5)


def test_what_no_other_element_reads_stays_apart() -> None:
    def scaled(t: Tensors) -> Tensor:
        return t["p"] * t["r"][:, :1]

    assert traits_of(problem_of(scaled, tensors_of(both, 24), varying=False)).apart == 0
    for call in ALL:
        problem = problem_of(call, tensors_of(call, 24), varying=False)
        assert traits_of(problem, frozenset([OFF[0]])).apart == 1


def test_seeds_have_it_and_it_is_expected_to_gain() -> None:
    problem = problem_of(turned, tensors_of(turned, 2**20))
    cards = [card.vector or () for card in seed_vectors(problem, H100, 4)]
    assert any(ON in vector or (OFF[0], "on") in vector for vector in cards)
    vector = (OFF, ("index_width", "32"), ("vector_width", "4"))
    on, off = (settled(problem, (*vector, ("axis_a_thread", value))) for value in ("on", "off"))
    sizes = problem.cases[0].size_map
    assert estimate(problem, on, H100, sizes).us < 0.8 * estimate(problem, off, H100, sizes).us


@pytest.mark.slow
@settings(max_examples=16, deadline=None)
@given(
    few=st.integers(2, 4),
    rows=st.integers(1, 40),
    order=st.permutations(range(4)),
    width=st.sampled_from(["1", "2", "4"]),
    dtype=st.sampled_from([torch.float32, torch.float16, torch.int32]),
    narrow=st.sampled_from(["32", "64"]),
)
def test_any_exchange_of_elements_is_right(
    few: int, rows: int, order: list[int], width: str, dtype: torch.dtype, narrow: str
) -> None:
    taken = [place for place in order if place < few]

    def call(t: Tensors) -> Tensor:
        x, y = t["x"], t["y"]
        other = torch.stack([x[:, place] for place in taken], -1)
        return other * x + torch.stack([y[:, place] - x[:, 0] for place in reversed(taken)], -1)

    tensors = {name: (torch.randn(rows, few) * 8).to(dtype) for name in "xy"}
    problem = problem_of(call, tensors, varying=False)
    vector = (ON, OFF, ("index_width", narrow), ("vector_width", width))
    check(call, generate(problem, vector).kernel.source, tensors, "checked")
