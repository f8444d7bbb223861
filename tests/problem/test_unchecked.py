"""What is traced for functions of torch that make numbers of sizes: the same, with sizes that vary."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.distributions import Distribution

from workbench.problem.trace import trace
from workbench.problem.unchecked import UNCHECKED

SHAPES = [
    ((4, 5, 6), (4, 2, 6), 1),
    ((4, 1, 6), (1, 3, 6), 2),
    ((4, 5, 6), (4, 5, 9), -1),
    ((4, 5), (4, 7), 1),
]


@pytest.mark.parametrize(("of", "at", "dim"), SHAPES)
def test_along_an_axis_the_others_are_broadcast(of: tuple[int, ...], at: tuple[int, ...], dim: int) -> None:
    x = torch.randn(of)
    places = torch.randint(0, of[dim], at)
    own = UNCHECKED[torch.take_along_dim]
    assert torch.equal(own(x, places, dim), torch.take_along_dim(x, places, dim))
    assert torch.equal(own(x, places.flatten()), torch.take_along_dim(x, places.flatten()))


@pytest.mark.parametrize(
    ("one", "other"), [((2, 3), (4, 5)), ((3,), (2, 2)), ((2, 1, 3), (4, 2)), ((), (3,))]
)
def test_each_element_times_the_other(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    x, y = torch.randn(one), torch.randn(other)
    assert torch.equal(UNCHECKED[torch.kron](x, y), torch.kron(x, y))


NORMS = (1, -1, 2, -2, torch.inf, -torch.inf)


@pytest.mark.parametrize("name", ["matrix_norm", "norm"])
def test_norms_of_matrices(name: str) -> None:
    own, torchs = UNCHECKED[getattr(torch.linalg, name)], getattr(torch.linalg, name)
    x = torch.randn(3, 4, 5)
    for ord, dim, keepdim in product((*NORMS, "fro"), ((1, 2), (-1, 0), [0, 1]), (False, True)):
        assert torch.allclose(own(x, ord, dim, keepdim), torchs(x, ord, dim, keepdim), rtol=1e-5)
    for ord in (None, 1, 3) if name == "norm" else (1, "nuc"):
        wanted = torchs(x[0], ord) if ord != 3 else torchs(x, ord, 1)
        assert torch.allclose(own(x[0], ord) if ord != 3 else own(x, ord, 1), wanted)
    assert own(x, 1, (1, 2), dtype=torch.float64).dtype == torch.float64


def _scaled_by(ord: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda x, y: torch.linalg.matrix_norm(x, ord).unsqueeze(-1) * y


VARY: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor, int]] = {
    "along": (lambda x, i: torch.take_along_dim(x, i.long(), dim=1), torch.randn(4, 5), torch.zeros(4, 7), 3),
    "method": (lambda x, i: x.take_along_dim(i.long(), 1), torch.randn(4, 5), torch.zeros(4, 7), 3),
    "kron": (torch.kron, torch.randn(2, 3), torch.randn(4, 5), 4),
    "columns": (_scaled_by(1), torch.randn(2, 3, 4), torch.randn(5), 4),
    "rows": (_scaled_by(-torch.inf), torch.randn(2, 3, 4), torch.randn(5), 4),
    "singular": (_scaled_by(2), torch.randn(2, 3, 4), torch.randn(5), 4),
}


@pytest.mark.parametrize("name", VARY)
def test_sizes_stay_sizes(name: str) -> None:
    function, x, y, count = VARY[name]
    traced = trace(lambda t: function(t["x"], t["y"]), {"x": x, "y": y}, varying=True)
    assert len(traced.symbols) == count and traced.notes == ()


def test_a_number_that_vmap_made_a_tensor_of_is_one() -> None:
    def each(row: Tensor) -> Tensor:
        return 10.0 * row.shape[0] + row.sum()

    traced = trace(lambda t: torch.vmap(each)(t["x"]), {"x": torch.randn(4, 5)}, varying=False)
    assert [(node.op, node.args) for node in traced.graph.nodes][1] == ("aten.full.default", ((), 50.0))


def test_a_distribution_is_traced_without_its_looks_at_values_and_looks_again_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Distribution, "_validate_args", True)  # some of torch's own modules turn it off

    def likelihood(t: dict[str, Tensor]) -> Tensor:
        return torch.distributions.Normal(t["mean"], t["spread"].exp()).log_prob(t["x"]).sum(-1)

    shapes = {"mean": (3, 4), "spread": (4,), "x": (3, 4)}
    tensors = {name: torch.randn(shape) for name, shape in shapes.items()}
    traced = trace(likelihood, tensors, varying=True)
    assert "aten.log.default" in {node.op for node in traced.graph.nodes}
    with pytest.raises(ValueError, match="invalid values"):
        torch.distributions.Normal(tensors["mean"], -torch.ones(4))
