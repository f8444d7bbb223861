"""Sizes that meet as part of longer ones: equal in the inputs, and kept equal."""

import pytest

from tests.problem.test_intake import opened
from workbench.playbook.generate import generate
from workbench.playbook.ir.agreements import agreements

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


def test_rows_are_as_many_as_their_places_and_as_long_as_what_they_replace() -> None:
    """Else no small sizes are found at which the reference runs, or only those that are alike by chance."""
    source = (
        "def f(rows, canvas, at):\n    y = torch.zeros(7, 12) + canvas\n    y[:, at] = rows\n    return y\n"
    )
    inputs = "inputs = [torch.randn(7, 5), torch.randn(12), torch.randperm(12)[:5]]\n"
    problem = opened(source + inputs)
    rows, canvas, at = problem.tensors
    assert rows.dims[0] == 7 and rows.dims[1:] == at.dims and canvas.dims == (12,)
    assert any("what they meet has that size" in note for note in problem.notes)
    assert {case.size_map[str(at.dims[0])] for case in problem.proofs} >= {1, 5}


@pytest.mark.parametrize(("at", "sizes"), [("torch.rand(6) < 0.5", 2), ("torch.tensor([2, 4])", 3)])
def test_a_number_may_stand_for_rows(at: str, sizes: int) -> None:
    """A mask is as long as what it lies on; places are as many as there are."""
    problem = opened(
        f"def f(x, at):\n    y = x.clone()\n    y[at] = 2.0\n    return y\n"
        f"inputs = [torch.randn(6, 5), {at}]\n"
    )
    assert len(problem.symbols) == sizes and not any("what they meet" in note for note in problem.notes)


def test_places_along_two_axes_are_as_many_as_each_other() -> None:
    source = "def f(x, i, j, v):\n    y = x.clone()\n    y[i, j] = v\n    return y\n"
    places = "torch.randint(0, 5, (3, 1)), torch.randint(0, 6, (4,))"
    problem = opened(f"{source}inputs = [torch.randn(5, 6, 2), {places}, torch.randn(3, 4, 2)]\n")
    dims = {spec.name: spec.dims for spec in problem.tensors}
    assert dims["v"] == (dims["i"][0], *dims["j"], dims["x"][2])


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("x.gather(1, at[:, None]).squeeze(1)", "(6,)"),
        ("x.scatter(1, at[:, None], 0.5)", "(6,)"),
        ("x.scatter_add(1, at, x[:, :3])", "(6, 3)"),
    ],
)
def test_what_is_gathered_has_as_many_rows_as_there_are(body: str, places: str) -> None:
    """torch takes fewer places too; a kernel that allows for that can not make rows and values at once."""
    inputs = f"inputs = [torch.randn(6, 5), torch.randint(0, 5, {places})]\n"
    x, at = opened(f"def f(x, at):\n    return {body}\n{inputs}").tensors
    assert x.dims[0] == at.dims[0]


def test_places_that_are_fewer_than_rows_stay_so() -> None:
    source = "def f(x, at):\n    return x.gather(1, at)\n"
    x, at = opened(f"{source}inputs = [torch.randn(6, 5), torch.randint(0, 5, (4, 2))]\n").tensors
    assert x.dims[0] != at.dims[0]


def test_a_batch_of_two_halves_is_twice_as_long_as_what_each_half_meets() -> None:
    """Else the sums over a half are rows of one kernel, and what they are used on rows of another."""
    source = "def f(x, both):\n    a, b = both.chunk(2)\n    return x + a / b.std(dim=(1, 2), keepdim=True)\n"
    problem = opened(f"{source}inputs = [torch.randn(3, 4, 5), torch.randn(6, 4, 5)]\n")
    x, both = problem.tensors
    assert both.dims == (f"2*{x.dims[0]}", *x.dims[1:])
    assert "kept as in the inputs: axis 0 of both is 2 times axis 0 of x" in problem.notes
    assert not agreements(problem, {name: name for name in problem.symbols})


def test_rows_that_are_seen_as_so_many_for_each_of_others_are_so_many_times_as_many() -> None:
    """What eight experts made of each token, put back in the tokens' order and added up."""
    source = (
        "def f(rows, places, w):\n    tokens, k = w.shape\n"
        "    y = (rows[places].view(tokens, k, -1) * w[..., None]).sum(1)\n"
        "    return y / y.norm(dim=-1, keepdim=True)\n"
    )
    problem = opened(f"{source}inputs = [torch.randn(40, 256), torch.randperm(40), torch.rand(5, 8)]\n")
    _, places, weights = problem.tensors
    assert weights.dims == (weights.dims[0], 8) and places.dims == (f"8*{weights.dims[0]}",)
    assert any("8 times" in note for note in problem.notes)
    source = generate(problem, ()).kernel.source
    assert source.count("__global__") == 1
