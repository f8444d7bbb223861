"""Vectors of concatenations: two pieces of one buffer are one load, from one place or the other."""

import re

import pytest
import torch
from torch import Tensor

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def turned(t: Tensors) -> Tensor:
    """The halves of a row change places, one of them with another sign."""
    first, second = t["x"].chunk(2, dim=-1)
    return t["x"] * t["y"] + torch.cat([-second, first], dim=-1)


def thirds(t: Tensors) -> Tensor:
    """Three pieces: what is read where the first condition fails has a second one."""
    one, two, three = t["x"].chunk(3, dim=-1)
    return torch.cat([three, one, two], dim=-1) * t["y"]


def of_two(t: Tensors) -> Tensor:
    """Pieces of different tensors have no place in common."""
    return torch.cat([t["x"][:, :8], t["y"][:, 8:]], dim=-1) + 1.0


@pytest.mark.many(6)
@pytest.mark.parametrize("width", ["2", "4"])
@pytest.mark.parametrize(
    ("call", "columns", "places", "waits"), [(turned, 16, 1, 0), (thirds, 24, 0, 1), (of_two, 16, 0, 2)]
)
def test_pieces_of_a_row(call: Call, columns: int, places: int, waits: int, width: str) -> None:
    tensors = {name: torch.randn(6, columns) for name in "xy"}
    vector = (("index_width", "32"), ("vector_width", width))
    source = generate(problem_of(call, tensors), vector).kernel.source
    assert source.count("_place = ") == places
    assert len(re.findall(r" if \(!?in_piece", source)) == waits
    check(call, source, tensors, "checked")


def edges(t: Tensors) -> Tensor:
    """One end's row beside the difference from the other's: rows looked up in one piece or the other."""
    source, target = t["source"], t["target"]
    return torch.cat((t["x"][source], t["x"][target] - t["x"][source]), -1)


def rows_of_two(t: Tensors) -> Tensor:
    """Rows looked up in two tables: the second index has no element for the first piece's rows."""
    return torch.cat((t["x"][t["source"]], t["y"][t["target"]]), 0)


@pytest.mark.many(13)
@pytest.mark.parametrize("width", ["2", "4"])
@pytest.mark.parametrize("columns", [8, 7])
@pytest.mark.parametrize(("call", "waits"), [(edges, 3), (rows_of_two, 2)])
def test_rows_that_are_looked_up_for_one_piece(call: Call, waits: int, columns: int, width: str) -> None:
    tensors = {
        "x": torch.randn(5, columns),
        "y": torch.randn(9, columns),
        "source": torch.tensor([4, 0, -1, 2, 3, 3]),
        "target": torch.tensor([-5, 4, 1, -2, 0, 0, 1][: 7 if call is rows_of_two else 6]),
    }
    tensors = {name: tensors[name] for name in ("x", *(("y",) if waits == 2 else ()), "source", "target")}
    source = generate(problem_of(call, tensors), (("vector_width", width),)).kernel.source
    in_vectors = columns % int(width) == 0
    assert len(re.findall(r" if \(!?in_piece", source)) == (waits if in_vectors else 0)
    check(call, source, tensors, "checked")
