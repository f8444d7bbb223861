"""Places of an interpolation in whole numbers: the same numbers, without conversions of 64 bits."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of, run
from workbench.errors import WorkbenchError
from workbench.model import Vector
from workbench.playbook.generate import generate

half = torch.float16


def scaled(mode: str, factor: float, **how: bool) -> Call:
    return lambda t: F.interpolate(t["x"], scale_factor=factor, mode=mode, **how)


def weighted(t: dict[str, Tensor]) -> Tensor:
    """The weight itself, and a place that nobody reads from."""
    at = (torch.arange(t["x"].shape[1]) + 0.5) * 0.25 - 0.5
    first = at.clamp(min=0).long()
    return t["x"] * (at.clamp(min=0) - first) + first


def differences(x: Tensor) -> Tensor:
    """To the next element and the one after it, on both sides; a row's ends go on for ever."""
    around, width = F.pad(x, (2, 2), mode="replicate"), x.shape[-1]
    one = around[..., 3 : 3 + width] - around[..., 1 : 1 + width]
    return one + 2 * (around[..., 4 : 4 + width] - around[..., :width])


CALLS: dict[str, tuple[Call, dict[str, Tensor]]] = {
    "bilinear, twice": (scaled("bilinear", 2), of(x=(2, 3, 6, 8))()),
    "bilinear, odd": (scaled("bilinear", 2), of(x=(2, 3, 5, 7))()),
    "bilinear, one pixel": (scaled("bilinear", 2), of(x=(2, 3, 1, 5))()),
    "bilinear, four times": (scaled("bilinear", 4), of(x=(1, 2, 3, 5))()),
    "bilinear, halved": (scaled("bilinear", 0.5), of(x=(2, 3, 8, 12))()),
    "bilinear, half": (scaled("bilinear", 2), of(x=((2, 2, 4, 6), half))()),
    "linear": (scaled("linear", 2), of(x=(2, 3, 9))()),
    "trilinear": (scaled("trilinear", 2), of(x=(1, 2, 3, 4, 5))()),
    "bicubic, twice": (scaled("bicubic", 2), of(x=(2, 3, 5, 8))()),
    "bicubic, halved": (scaled("bicubic", 0.5), of(x=(1, 2, 7, 12))()),
    "bicubic, four times": (scaled("bicubic", 4), of(x=(1, 2, 1, 5))()),
    "weights": (weighted, of(x=(3, 20))()),
    "ends repeated": (lambda t: differences(t["x"]), of(x=(2, 3, 8))()),
    "ends repeated twice": (lambda t: differences(differences(t["x"])), of(x=(2, 3, 7))()),
    "edges repeated": (lambda t: F.pad(t["x"], (1, 2, 2, 1), mode="replicate").sin(), of(x=(2, 3, 5, 8))()),
}
VECTORS: tuple[Vector, ...] = (
    (("index_width", "32"), ("vector_width", "1")),
    (("index_width", "32"), ("vector_width", "4")),
    (("index_width", "32"), ("vector_width", "2"), ("loads_in_flight", "2")),
)


@pytest.mark.many(23)
@pytest.mark.parametrize(("name", "vector"), crossed(CALLS, VECTORS))
def test_the_same_numbers(name: str, vector: Vector) -> None:
    call, tensors = CALLS[name]
    problem = problem_of(call, tensors, "resized")
    (before,) = run(generate(problem, (("index_width", "64"),)).kernel.source, tensors).outputs
    # Rows that are kept on the chip between the axes find their places in 64 bits still.
    source = generate(problem, (*vector, ("row_steps", "off"))).kernel.source
    assert "long long" not in source
    (got,) = check(call, source, tensors, "checked").outputs
    torch.testing.assert_close(got, before, rtol=2.0**-21, atol=2.0**-21)


@pytest.mark.slow
def test_a_slice_of_a_concatenation_is_its_one_piece() -> None:
    """Bicubic weights are computed side by side, and taken apart: nothing asks which of them it is."""
    call, tensors = CALLS["bicubic, twice"]
    source = generate(problem_of(call, tensors, "resized"), VECTORS[0]).kernel.source
    body = source.split("void resized")[1]
    assert " ? " not in body and body.count("* WIDTH]") == 16


def test_weights_are_the_same_to_the_last_bit() -> None:
    call, _ = CALLS["weights"]
    tensors = {"x": torch.ones(2, 5000)}
    problem = problem_of(call, tensors)
    for vector in VECTORS:
        assert torch.equal(run(generate(problem, vector).kernel.source, tensors).outputs[0], call(tensors))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_other_factors_are_computed_as_they_are(factor: float) -> None:
    call, tensors = scaled("bilinear", factor), of(x=(2, 3, 6, 8))()
    source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
    assert "long long" in source
    check(call, source, tensors, "checked")


def test_clipped_weights_stay_nothing_where_pixels_are_no_numbers() -> None:
    """The first pixel's neighbour counts with weight zero: times infinity that is NaN, as before."""
    call, _ = CALLS["linear"]
    x = torch.ones(1, 1, 8)
    x[..., 1], x[..., 6] = torch.inf, torch.nan
    want = call({"x": x})
    for vector in VECTORS:
        (got,) = run(generate(problem_of(call, {"x": x}), vector).kernel.source, {"x": x}).outputs
        assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got.isinf(), want.isinf())


def test_axes_that_are_too_long_are_refused() -> None:
    call, tensors = CALLS["linear"]
    source = generate(problem_of(call, tensors), VECTORS[1]).kernel.source
    plan_of(source, {"x": torch.empty(1, 1, 2**17)})
    with pytest.raises(WorkbenchError, match="smaller tensors"):
        plan_of(source, {"x": torch.empty(1, 1, 2**17 + 1)})
