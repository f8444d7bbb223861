"""NaN and infinities come out where torch has them, whatever the technique."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import run
from workbench.model import Vector
from workbench.playbook.generate import generate

FUNCTIONS: dict[str, Call] = {
    "softmax": lambda t: torch.softmax(t["x"], 1),
    "layer_norm": lambda t: torch.layer_norm(t["x"], (9,)),
    "extremes": lambda t: (*t["x"].max(1), t["x"].amin(1), t["x"].argmin(1)),
    "logsumexp": lambda t: t["x"].logsumexp(1),
    "mean_var": lambda t: (t["x"].mean(1), t["x"].var(1)),
    "sign": lambda t: t["x"].sign() + 2,
    "cumsum_before": lambda t: t["x"].cumsum(1) - t["x"],
    "multi_margin": lambda t: (
        F.multi_margin_loss(t["x"], torch.arange(9), reduction="none"),
        F.multi_margin_loss(t["x"], torch.arange(9), p=2, margin=0.5, weight=t["x"][0], reduction="none"),
    ),
    "multi_margin_sum": lambda t: F.multi_margin_loss(t["x"][:2], torch.arange(2), reduction="sum"),
    "multi_margin_of_one": lambda t: F.multi_margin_loss(t["x"][1], torch.tensor(3)),
    "sums_of_powers": lambda t: (
        torch.logaddexp(t["x"], t["x"].roll(1, 1)),
        torch.logaddexp2(t["x"], t["x"][1:2]),
    ),
    "relu_clamp": lambda t: torch.relu(t["x"]) + t["x"].clamp(-1, 1),
}
VECTORS: tuple[Vector, ...] = (
    (),
    (("row_cache", "registers"), ("single_pass", "on"), ("threads_per_row", "warp"), ("vector_width", "2")),
)


def special() -> Tensor:
    x = torch.randn(9, 9)
    x[1, 3] = torch.nan
    x[2, 0] = torch.inf
    x[3, 8] = -torch.inf
    x[4] = -torch.inf
    x[5, 2:4] = torch.tensor([torch.inf, -torch.inf])
    x[6, 1:6] = torch.tensor([torch.inf, 1, torch.inf, torch.nan, torch.inf])
    x[7, 1:6:2] = torch.inf
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("vector", VECTORS, ids=["plain", "tuned"])
def test_special_values_match_torch(name: str, vector: Vector) -> None:
    call, tensors = FUNCTIONS[name], {"x": special()}
    source = generate(problem_of(call, tensors, name), vector).kernel.source
    expected = call(tensors)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, want in zip(run(source, tensors).outputs, expected, strict=True):
        torch.testing.assert_close(got, want, equal_nan=True, rtol=1e-5, atol=1e-6)


pytestmark = pytest.mark.sweep
