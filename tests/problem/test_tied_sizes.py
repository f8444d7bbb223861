"""Sizes that meet as part of longer ones: equal in the inputs, and kept equal."""

import pytest

from tests.problem.test_intake import opened

NEXT = """def f(logits, labels):
    found = logits[:, :-1].reshape(-1, logits.size(-1)).log_softmax(-1)
    wanted = labels[:, 1:].reshape(-1)
    return torch.where(wanted == 3, 0.0, found.sum(-1)).sum()
"""
INPUTS = "inputs = [torch.randn(4, 6, 5), torch.randint(0, 5, ({labels}))]\n"


@pytest.mark.slow
@pytest.mark.parametrize(("labels", "tied"), [("4, 6", True), ("2, 11", False)])
def test_rows_that_are_flattened_without_their_ends_are_as_many(labels: str, tied: bool) -> None:
    problem = opened(NEXT + INPUTS.format(labels=labels))
    logits, wanted = problem.tensors
    assert (wanted.dims == logits.dims[:2]) == tied
    assert any(note.startswith("kept as long as each other") for note in problem.notes) == tied


@pytest.mark.slow
def test_flattened_images_may_have_other_heights() -> None:
    source = "def f(x, y):\n    return x.flatten(1) * y.flatten(1)\n"
    problem = opened(f"{source}inputs = [torch.randn(3, 4, 6), torch.randn(3, 4, 6)]\n")
    assert len(problem.symbols) > 3
