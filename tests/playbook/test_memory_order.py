"""In which order a sum goes over what it reads, where that lies in several; and what is written is read."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.references import of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.lowering.lower import lower
from workbench.playbook.techniques.table import settled

Tensors = dict[str, Tensor]


def of_patches(t: Tensors) -> Tensor:
    """Tokens of 2 x 2 patches as the image they are of."""
    return t["tokens"].view(2, 3, 4, 2, 2, 5).permute(0, 5, 1, 3, 2, 4).reshape(2, 5, 6, 8).float()


def losses(t: Tensors) -> tuple[Tensor, Tensor]:
    """The first sum meets the tokens first, the second the image."""
    image = of_patches(t)
    squares = (image - (t["noise"] - t["x"])).square().mean((1, 2, 3))
    return squares, (t["noise"] * t["x"] - image).abs().mean((1, 2, 3))


TENSORS = of(tokens=((2, 12, 20), torch.bfloat16), noise=(2, 5, 6, 8), x=(2, 5, 6, 8))


def test_sums_of_an_image_and_its_tokens_are_one_kernel_in_the_order_of_most_bytes() -> None:
    problem = problem_of(losses, TENSORS(), varying=False)
    program = lower(problem, True)
    assert len(program.steps) == 1
    for vector in ((), (("vector_width", "4"), ("threads_per_row", "warp"))):
        source = generate(problem, settled(problem, vector)).kernel.source
        check(losses, source, TENSORS())
    assert (
        "load<VEC>(noise_row" in source and "load<VEC>(x_row" in source and "load<VEC>(tokens" not in source
    )


def summed_up(t: Tensors) -> tuple[Tensor, Tensor]:
    """A loss for each row, which is a result, and their mean."""
    each = t["x"].square().mean(1) + t["y"].abs().mean(1)
    return each.view(3, 2).clone(), each.mean()


def test_the_mean_of_what_is_written_reads_it() -> None:
    tensors = of(x=(6, 40), y=(6, 24))()
    problem = problem_of(summed_up, tensors)
    source = generate(problem, settled(problem, ())).kernel.source
    check(summed_up, source, tensors)
    program = lower(problem, True)
    assert len(program.steps) == 3, "rows of x, rows of y with each loss, the mean of those"
