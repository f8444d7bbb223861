"""Weights asked for before the sums: the same numbers, from loads that stay in front, and where it pays."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import H100, CompileReport, Problem, Vector
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.generate import generate
from workbench.playbook.rules.moves import seed_vectors
from workbench.playbook.techniques.table import settled

KEPT: Vector = (("block_size", "fit"), ("row_cache", "registers"), ("vector_width", "4"))
EARLY: Vector = (*KEPT, ("early_loads", "on"))


def layer_norm(t: dict[str, Tensor]) -> Tensor:
    return F.layer_norm(t["x"], (t["x"].shape[1],), t["w"].to(t["x"].dtype), t["b"])


def rms_norm(t: dict[str, Tensor]) -> Tensor:
    wide = t["x"].float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6) * t["w"].float()).to(t["x"].dtype)


def softmax(t: dict[str, Tensor]) -> Tensor:
    return torch.softmax(t["x"], 1)


def tensors(rows: int, columns: int, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {
        "x": torch.randn(rows, columns, dtype=dtype),
        "w": torch.randn(columns, dtype=dtype),
        "b": torch.randn(columns, dtype=dtype),
    }


def problem(call: object, rows: int, columns: int) -> Problem:
    inputs = {name: value.to("meta") for name, value in tensors(rows, columns).items()}
    return problem_of(call, inputs, "op")  # type: ignore[arg-type]


@pytest.mark.many(5)
@pytest.mark.parametrize("team", ["block", "warp"])
@pytest.mark.parametrize(("call", "dtype"), [(layer_norm, torch.float32), (rms_norm, torch.bfloat16)])
def test_the_same_numbers_from_loads_before_the_first_sum(
    call: object, dtype: torch.dtype, team: str
) -> None:
    inputs = tensors(5, 264, dtype)
    if call is rms_norm:
        del inputs["b"]
    vector = (*EARLY, ("threads_per_row", team))
    meta = {name: value.to("meta") for name, value in inputs.items()}
    source = generate(problem_of(call, meta, "op"), vector).kernel.source  # type: ignore[arg-type]
    body = source[source.index("__global__") :]
    assert (
        body.index("w_early[i] = load_now") < body.index("__syncwarp();") < body.index("load_now<VEC>(x_row")
    )
    assert "w_pack" not in body
    check(call, source, inputs, "checked")  # type: ignore[arg-type]
    report = compile_kernel(source, plan_of(source, inputs).instances)
    assert isinstance(report, CompileReport) and not report.warnings


def test_it_is_offered_where_later_passes_read_more_and_rows_are_short() -> None:
    def offered(one: Problem, vector: Vector) -> bool:
        return "early_loads" in dict(settled(one, vector))

    norm = problem(layer_norm, 64, 4096)
    assert offered(norm, KEPT)
    assert not offered(norm, (("row_cache", "registers"),)) and not offered(norm, KEPT[2:])
    assert not offered(norm, (*KEPT, ("stream_hints", "on")))
    assert not offered(problem(layer_norm, 64, 32768), KEPT)
    assert not offered(problem(softmax, 64, 4096), KEPT)


def test_a_gain_is_predicted_for_few_rows_only() -> None:
    few, many = problem(layer_norm, 16, 4096), problem(layer_norm, 16384, 4096)
    assert predicted_factor(few, KEPT, EARLY, H100) > 1.05
    assert predicted_factor(many, KEPT, EARLY, H100) == 1.0


def test_searches_begin_with_it_where_rows_wait_in_registers() -> None:
    """Measured to save time for few rows, and never to cost any."""
    cards = seed_vectors(problem(layer_norm, 64, 4096), H100, 6)
    kept = [dict(card.vector) for card in cards if dict(card.vector).get("row_cache") == "registers"]
    assert any(vector.get("early_loads") == "on" for vector in kept)
