"""One export for many shapes is the export that each of them would have had."""

import pytest
import torch
from torch import Tensor

from tests.playbook import problems
from tests.playbook.problems import Call, problem_of

Tensors = dict[str, Tensor]


def added(t: Tensors) -> Tensor:
    return t["x"] + 1


def halves(t: Tensors) -> Tensor:
    """Asks that a size is even."""
    return t["x"].reshape(t["x"].shape[0], 2, -1).sum(1)


def by_length(t: Tensors) -> Tensor:
    """Python decides by a size."""
    return t["x"] * 2 if t["x"].shape[1] > 20 else t["x"] * 3


def turned(t: Tensors) -> Tensor:
    return t["x"].roll(9) + 1


@pytest.fixture
def exports(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """What is exported, each time it is."""
    made: list[Call] = []
    ordinary = problems.trace

    def counted(call: Call, tensors: Tensors, varying: bool) -> problems.Traced:
        made.append(call)
        return ordinary(call, tensors, varying)

    monkeypatch.setattr(problems, "trace", counted)
    monkeypatch.setattr(problems, "_KNOWN", {})
    return made


@pytest.mark.many(6)
@pytest.mark.parametrize(
    ("call", "first", "second", "exported"),
    [
        (added, (5, 8), (70, 4099), 1),
        (added, (5, 8), (1, 8), 2),
        (halves, (5, 8), (3, 12), 1),
        (by_length, (5, 8), (3, 16), 1),
        (by_length, (5, 8), (5, 32), 2),
        (turned, (5, 8), (6, 33), 1),
        (turned, (5, 8), (2, 4), 2),
    ],
)
def test_an_export_is_shared_where_it_would_be_the_same(
    exports: list[Call], call: Call, first: tuple[int, ...], second: tuple[int, ...], exported: int
) -> None:
    problem_of(call, {"x": torch.randn(first)})
    shared = problem_of(call, {"x": torch.randn(second)})
    assert len(exports) == exported
    problems._KNOWN.clear()
    assert problem_of(call, {"x": torch.randn(second)}) == shared


def test_transposed_and_16_bit_tensors_have_exports_of_their_own(exports: list[Call]) -> None:
    for tensor in (torch.randn(5, 8), torch.randn(8, 5).T, torch.randn(5, 8).half()):
        problem_of(added, {"x": tensor})
    assert len(exports) == 3
