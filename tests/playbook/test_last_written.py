"""Rows that are put at places which data names: each place reads the last of its rows, or what was there."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check, plan_of
from tests.playbook.test_scattered_sums import indices
from workbench.errors import WorkbenchError
from workbench.model import Vector
from workbench.playbook.generate import generate

Tensors = dict[str, Tensor]


def put(*places: str | None) -> Call:
    """``x`` with ``v`` at the places that tensors of these names say, or all of an axis."""

    def call(t: Tensors) -> Tensor:
        found = t["x"].clone()
        found[tuple(slice(None) if name is None else t[name] for name in places)] = t["v"]
        return found * 2

    return call


def cache(dtype: torch.dtype) -> Tensors:
    return {"x": torch.randn(12, 2, 8).to(dtype), "v": torch.randn(9, 2, 8).to(dtype), "i": indices(12, 9)}


CASES: dict[str, tuple[Call, Callable[[], Tensors]]] = {
    **{
        f"rows of {dtype}".replace("torch.", ""): (put("i"), lambda dtype=dtype: cache(dtype))
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.uint8)
    },
    "copied": (
        lambda t: t["x"].index_copy(1, t["i"], t["v"]),
        lambda: {"x": torch.randn(3, 7, 5), "v": torch.randn(3, 9, 5), "i": indices(7, 9)},
    ),
    "from the end, in blocks": (
        put("i", "j"),
        lambda: {"x": torch.randn(5, 4, 8), "v": torch.randn(9, 8), "i": -indices(4, 9), "j": indices(4, 9)},
    ),
    "a table of places": (
        put(None, "i", "j"),
        lambda: {
            "x": torch.randn(2, 5, 4),
            "v": torch.randn(2, 3, 6),
            "i": indices(5, 3, 1),
            "j": indices(4, 6),
        },
    ),
    "one row for all": (
        put("i"),
        lambda: {"x": torch.randn(6, 8), "v": torch.randn(8), "i": indices(6, 4)},
    ),
    "a number": (put("i"), lambda: {"x": torch.randn(6, 8), "v": torch.tensor(3.0), "i": indices(6, 4)}),
    "nothing": (
        put("i"),
        lambda: {"x": torch.randn(6, 8), "v": torch.randn(0, 8), "i": torch.zeros(0, dtype=torch.int64)},
    ),
    "one after the other": (
        lambda t: put("j")({**t, "x": put("i")(t)}),
        lambda: {"x": torch.randn(6, 8), "v": torch.randn(4, 8), "i": indices(6, 4), "j": indices(6, 4) - 6},
    ),
}
VECTORS: tuple[Vector, ...] = (
    (),
    (("index_width", "32"), ("vector_width", "4")),
    (("vector_width", "2"), ("loads_in_flight", "2")),
)


@pytest.mark.many(6)
@pytest.mark.parametrize(("name", "vector"), crossed(CASES, VECTORS))
def test_no_library_is_called_and_the_last_one_stays(name: str, vector: Vector) -> None:
    call, tensors = CASES[name]
    given = tensors()
    source = generate(problem_of(call, given), vector).kernel.source
    assert "library(" not in source
    check(call, source, given, "checked")


def test_rows_and_places_that_do_not_agree_are_refused() -> None:
    given = cache(torch.float32)
    source = generate(problem_of(put("i"), given), ()).kernel.source
    for changed in ({"v": given["v"][:4]}, {"i": given["i"][:1]}):
        with pytest.raises(WorkbenchError, match="sizes that meet must be equal"):
            plan_of(source, {**given, **changed})


def test_a_mask_is_no_place() -> None:
    given = {"x": torch.randn(6, 8), "m": torch.rand(6) < 0.5, "v": torch.tensor(3.0)}
    check(put("m"), generate(problem_of(put("m"), given), ()).kernel.source, given, "checked")
