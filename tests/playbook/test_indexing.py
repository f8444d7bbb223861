"""Indices within a vector: what a run of elements shares is found once where the width divides the run."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.playbook.generate import generate
from workbench.playbook.text.indexing import name_pieces
from workbench.playbook.text.names import Names


def _group_norm(t: dict[str, Tensor]) -> Tensor:
    return F.group_norm(t["x"], 2, t["w"], t["b"])


def _tensors(height: int, width: int) -> dict[str, Tensor]:
    torch.manual_seed(0)
    return {"x": torch.randn(3, 8, height, width), "w": torch.randn(8), "b": torch.randn(8)}


@pytest.mark.slow
@pytest.mark.parametrize("sides", [(2, 6), (3, 3)], ids=["runs of 12", "runs of 9"])
def test_a_channel_is_right_wherever_a_vector_lies(sides: tuple[int, int]) -> None:
    problem = problem_of(_group_norm, _tensors(4, 7), "group_norm")
    source = generate(problem, (("row_cache", "registers"), ("vector_width", "4"))).kernel.source
    assert "const int run_at = col + (HEIGHT_WIDTH % VEC ? k : 0);" in source
    check(_group_norm, source, _tensors(*sides))


def test_a_flat_kernel_finds_its_channel_in_the_same_way() -> None:
    def scaled(t: dict[str, Tensor]) -> Tensor:
        return t["x"] * t["w"][None, :, None, None]

    problem = problem_of(scaled, {name: _tensors(4, 7)[name] for name in ("x", "w")}, "scaled")
    source = generate(problem, (("index_width", "32"), ("vector_width", "4"))).kernel.source
    assert source.count("run_at") == 2 and "run_at / HEIGHT_WIDTH % CHANNELS" in source
    check(scaled, source, {name: _tensors(3, 3)[name] for name in ("x", "w")})


def test_vectors_are_half_as_wide_where_the_row_asks_for_it() -> None:
    def softmax(t: dict[str, Tensor]) -> Tensor:
        return torch.softmax(t["x"], 1)

    problem = problem_of(softmax, {"x": torch.randn(5, 36)}, "softmax")
    source = generate(problem, (("row_cache", "registers"), ("vector_width", "4"))).kernel.source
    for columns, width in ((36, 4), (38, 2), (39, 1)):
        tensors = {"x": torch.randn(5, columns)}
        assert plan_of(source, tensors).instances[0][0] == f"softmax<{width}>"
        check(softmax, source, tensors)


def test_vectors_straddle_the_end_of_a_row_that_repeats() -> None:
    def biased(t: dict[str, Tensor]) -> Tensor:
        return t["x"] + t["b"]

    problem = problem_of(biased, {"x": torch.randn(5, 36), "b": torch.randn(36)}, "biased")
    source = generate(problem, (("index_width", "32"), ("vector_width", "4"))).kernel.source
    for columns, width in ((36, 4), (3, 4), (13, 4)):
        tensors = {"x": torch.randn(8, columns), "b": torch.randn(columns)}
        assert plan_of(source, tensors).instances[0][0] == f"biased<{width}>"
        check(biased, source, tensors)


def test_pieces_and_rows_that_are_looked_up_are_loaded_as_vectors() -> None:
    def turned(t: dict[str, Tensor]) -> Tensor:
        first, second = t["x"].chunk(2, -1)
        return torch.cat((-second, first), -1) * 3 + t["w"][t["i"]]

    def tensors(width: int) -> dict[str, Tensor]:
        return {"x": torch.randn(6, width), "w": torch.randn(5, width), "i": torch.tensor([3, 0, 4, 4, 1, 2])}

    source = generate(problem_of(turned, tensors(16), "turned"), (("vector_width", "4"),)).kernel.source
    assert source.count("= load<VEC>(x + ") == 1 and source.count("= load<VEC>(w + ") == 1
    for width, wide in ((16, 4), (12, 2), (10, 1)):
        assert plan_of(source, tensors(width)).instances[0][0] == f"turned<{wide}>"
        check(turned, source, tensors(width), "checked")


def test_a_row_that_is_looked_up_is_normalised_as_vectors() -> None:
    def normed(t: dict[str, Tensor]) -> Tensor:
        return F.layer_norm(F.embedding(t["i"], t["w"]) + t["p"], (t["w"].shape[1],))

    def tensors(width: int) -> dict[str, Tensor]:
        return {
            "i": torch.tensor([[1, 2, 3], [0, 4, 1]]),
            "w": torch.randn(5, width),
            "p": torch.randn(3, width),
        }

    vector = (("row_cache", "registers"), ("vector_width", "4"))
    source = generate(problem_of(normed, tensors(36), "normed"), vector).kernel.source
    assert "load<VEC>(w + (col + i_value * W_COLS))" in source
    for width in (36, 9):
        check(normed, source, tensors(width), "checked")


def test_a_remainder_of_a_remainder_is_no_piece_of_a_name() -> None:
    lines = ["a = x[i % COLS] + x[i % COLS % 2];", "b = y[i % COLS] + y[i % COLS % 2];"]
    assert name_pieces(lines, "i", Names()) == [
        "const size_t col_at = i % COLS;",
        "a = x[col_at] + x[i % COLS % 2];",
        "b = y[col_at] + y[i % COLS % 2];",
    ]


def test_what_occurs_once_has_a_name_where_it_is_asked_for() -> None:
    lines = ["a = x[(i + k) % COLS] + y[(i + k) / COLS] + z[(i + k) % 2];"]
    assert name_pieces(lines, "(i + k)", Names()) == lines
    assert name_pieces(lines, "(i + k)", Names(), least=1) == [
        "const size_t col_at = (i + k) % COLS;",
        "const size_t row_at = (i + k) / COLS;",
        "a = x[col_at] + y[row_at] + z[(i + k) % 2];",
    ]
