"""Sizes that a plan cannot compute are told with the person's own axes, not with torch's symbols."""

import pytest
import torch
from test_intake import opened
from torch.nn import functional as F

from workbench.model import size_of

NOTES = {
    "a root": (
        "def f(x): return x * x.shape[-1] ** -0.5\ninputs = [torch.randn(6, 4)]\n",
        "it enters the arithmetic as x.shape[1] ** -0.5",
    ),
}


@pytest.mark.parametrize("name", NOTES)
def test_a_note_on_fixed_sizes_speaks_of_the_inputs_axes(name: str) -> None:
    source, told = NOTES[name]
    (note,) = (note for note in opened(source).notes if "is fixed to the one given" in note)
    assert note.endswith(told)


def test_the_smaller_of_two_sizes_is_a_size() -> None:
    problem = opened("def f(x): return torch.linalg.svdvals(x)\ninputs = [torch.randn(6, 4)]\n")
    assert problem.outputs[0].dims == ("min(s0, s1)",)
    assert not any("is fixed to the one given" in note for note in problem.notes)


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("factor", "mode", "text"),
    [
        ("0.5", "bilinear", "H//2"),
        ("1.5", "bilinear", "3*H//2"),
        pytest.param("2", "bicubic", "2*H", marks=pytest.mark.slow),
        pytest.param("0.375", "bicubic", "3*H//8", marks=pytest.mark.slow),
    ],
)
def test_a_short_ratio_of_a_size_is_a_size(factor: str, mode: str, text: str) -> None:
    """Nothing is fixed, and small sizes are checked: images of 512 x 512 took the emulator a minute.

    What a factor makes of a size is the same for both; a bicubic image takes three times as long to open.
    """
    source = (
        "from torch.nn import functional as F\n"
        f"def f(x): return F.interpolate(x, scale_factor={factor}, mode={mode!r})\n"
        "inputs = [torch.randn(2, 3, 32, 40)]\n"
    )
    problem = opened(source)
    assert not [note for note in problem.notes if "is fixed" in note]
    axis = problem.tensors[0].dims[2]
    height = problem.outputs[0].dims[2]
    assert str(height).replace(str(axis), "H") == text
    for case in problem.cases + problem.proofs:
        sizes = case.size_map
        made = F.interpolate(torch.zeros(1, 1, sizes[str(axis)], 8), scale_factor=float(factor), mode=mode)
        assert size_of(height, sizes) == made.shape[2]


@pytest.mark.slow
def test_a_ratio_that_is_not_short_fixes_the_size() -> None:
    source = (
        "from torch.nn import functional as F\n"
        "def f(x): return F.interpolate(x, scale_factor=0.3, mode='bilinear')\n"
        "inputs = [torch.randn(2, 3, 32, 40)]\n"
    )
    assert any("int(0.3 * x.shape[2]) is not a size a plan can compute" in n for n in opened(source).notes)
