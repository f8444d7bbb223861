"""Sizes that a plan cannot compute are told with the person's own axes, not with torch's symbols."""

import pytest
from test_intake import opened

NOTES = {
    "svd": (
        "def f(x): return torch.linalg.svdvals(x)\ninputs = [torch.randn(6, 4)]\n",
        "min(x.shape[0], x.shape[1]) is not a size a plan can compute",
    ),
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
