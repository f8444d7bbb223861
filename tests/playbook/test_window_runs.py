"""Windows that lie side by side: read as vectors where sizes allow it, one by one elsewhere."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import CompileReport
from workbench.playbook.generate import generate

half = torch.float16


def pairs(t: dict[str, Tensor]) -> Tensor:
    """The two halves of interleaved channels, as rotary embeddings of one kind have them."""
    return t["x"][..., 0::2] * t["y"][..., 1::2] - t["x"][..., 1::2] * t["y"][..., 0::2]


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "pool": (lambda t: F.avg_pool2d(t["x"], 2), of(x=(2, 3, 6, 16))()),
    "odd plane": (lambda t: F.avg_pool2d(t["x"], 2), of(x=(2, 3, 7, 17))()),
    "three apart": (lambda t: F.max_pool2d(t["x"], 3).relu(), of(x=(2, 2, 6, 24))()),
    "beyond the windows": (lambda t: F.max_pool2d(t["x"], 2), of(x=(1, 2, 6, 21))()),
    "half": (lambda t: F.max_pool2d(t["x"], 2), of(x=((2, 2, 4, 32), half))()),
    "line": (lambda t: F.avg_pool1d(t["x"], 2), of(x=(2, 3, 32))()),
    "pairs": (pairs, of(x=(3, 5, 16), y=(3, 5, 16))()),
}


def grey(t: dict[str, Tensor]) -> Tensor:
    return t["x"][..., 0] * 0.299 + t["x"][..., 1] * 0.587 + t["x"][..., 2] * 0.114


@pytest.mark.many(5)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, half])
def test_colours_side_by_side_are_runs_though_their_number_is_a_size(dtype: torch.dtype) -> None:
    """Bytes of pixels in words; an image of four colours, or of odd pixels, is read byte by byte."""
    colours = {"x": (torch.rand(2, 6, 8, 3) * 250).to(dtype)}
    problem = problem_of(grey, colours, "grey")
    for width in ("4", "2"):
        source = generate(problem, (("vector_width", width),)).kernel.source
        assert "WIDTH == 3" in source and "x_run = load_run<VEC, 3>(x" in source
        for shape in ((2, 6, 8, 3), (2, 3, 5, 3), (2, 3, 8, 4), (1, 1, 1, 3)):
            check(grey, source, {"x": (torch.rand(shape) * 250).to(dtype)}, "checked")


@pytest.mark.many(11)
@pytest.mark.parametrize("name", CALLS)
def test_right_at_every_width(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "windows")
    for vector in ((("vector_width", "4"),), (("index_width", "32"), ("vector_width", "2"))):
        source = generate(problem, vector).kernel.source
        assert "load_run" in source
        check(call, source, tensors, "checked")


def test_a_row_of_windows_takes_two_loads_of_a_thread_not_eight() -> None:
    call, tensors = CALLS["pool"]
    source = generate(problem_of(call, tensors, "windows"), (("vector_width", "4"),)).kernel.source
    assert source.count("x_run.at[k * 2]") == source.count("x_run_2.at[k * 2 + 1]") == 1
    assert "x_run = load_run<VEC, 2>(x" in source


def test_windows_with_gaps_are_read_one_by_one() -> None:
    """What lies between them might end behind the tensor."""
    tensors = of(x=(2, 3, 24))()

    def call(t: dict[str, Tensor]) -> Tensor:
        return F.max_pool1d(t["x"], 2, 3)

    source = generate(problem_of(call, tensors, "gaps"), (("vector_width", "4"),)).kernel.source
    assert "load_run" not in source
    check(call, source, tensors)


def test_a_vector_divides_once_where_it_lies_in_one_row() -> None:
    call, tensors = CALLS["pool"]
    source = generate(problem_of(call, tensors, "windows"), (("vector_width", "4"),)).kernel.source
    assert "(i + (OUT_WIDTH % VEC ? k : 0)) / OUT_WIDTH" in source
    assert "OUT_WIDTH % VEC ? (i + k) % OUT_WIDTH : i % OUT_WIDTH + k" in source


@pytest.mark.parametrize("name", ["odd plane", "half"])
def test_compiles(name: str) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "windows")
    source = generate(problem, (("vector_width", "4"),)).kernel.source
    report = compile_kernel(source, plan_of(source, tensors).instances)
    assert isinstance(report, CompileReport), report
