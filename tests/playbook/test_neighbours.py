"""Who computes a row is decided by what is read for every element, not by what all rows share."""

from __future__ import annotations

import torch

from tests.playbook.problems import problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate

TEAMS = (("fusion", "all"), ("vector_width", "4"))


def test_a_weight_a_column_does_not_make_strided_columns_neighbours() -> None:
    tensors = {"x": torch.randn(3, 16, 5, 7), "w": torch.randn(16, 1, 1)}
    source = generate(problem_of(lambda t: (t["x"] * t["w"]).amax(1), tensors), TEAMS).kernel.source
    assert "One thread a row" in source
    check(lambda t: (t["x"] * t["w"]).amax(1), source, tensors)


def test_columns_two_elements_apart_are_near_where_rows_are_far() -> None:
    source = generate(problem_of(lambda t: t["x"][:, ::2].sum(1), {"x": torch.randn(64, 512)}), TEAMS)
    assert "One thread a row" not in source.kernel.source
    across = generate(problem_of(lambda t: t["x"].sum(0), {"x": torch.randn(512, 2)}), TEAMS)
    assert "One thread a row" in across.kernel.source


def test_all_loads_of_a_short_row_come_first() -> None:
    """Two vectors a lane: a loop over them would wait for memory twice."""

    def places(t: dict[str, torch.Tensor]) -> torch.Tensor:
        return t["x"].argmax(1)

    x = {"x": torch.randn(9, 256)}
    vector = (("threads_per_row", "warp"), ("vector_width", "4"))
    source = generate(problem_of(places, x, varying=False), vector).kernel.source
    assert "AHEAD vectors of a thread are on their way before the first is used." in source
    assert "STEP = 32 * VEC;" in source and "(COLS + STEP - 1) / STEP" in source
    check(places, source, x, "checked")
