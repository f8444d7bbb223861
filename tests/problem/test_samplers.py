"""What is learnt from the tensors a person gave, and from the calls that made them."""

import pytest
import torch
from problem.cells import opened

from workbench.model import Problem, Sampler
from workbench.numerics.inputs import draw
from workbench.problem.samplers import Origins, as_normal, learn, of_few_values


def sampler(problem: Problem, name: str) -> Sampler:
    return next(spec.sampler for spec in problem.tensors if spec.name == name)


def test_learnt_from_values() -> None:
    torch.manual_seed(0)
    assert learn(torch.randn(1000)) == Sampler(kind="normal", low=0.0, high=1.0)
    assert learn(torch.tensor([True, False])).kind == "bools"
    assert learn(torch.tensor([3, 9, 5])) == Sampler(kind="integers", low=3, high=10, scalable=False)
    positive = learn(torch.rand(1000) + 2)
    assert positive.kind == "uniform" and 2 <= positive.low < 2.1 and not positive.scalable
    constant = learn(torch.ones(5))
    assert (constant.kind, constant.low, constant.high) == ("uniform", 0.5, 1.5)
    assert learn(torch.tensor([-torch.inf, torch.nan])) == Sampler(kind="normal", low=0.0, high=1.0)


def test_as_normal_keeps_mean_and_spread() -> None:
    assert as_normal(Sampler(kind="uniform", low=0.0, high=1.0)) == Sampler(
        kind="normal", low=0.5, high=0.289
    )


def test_origins_follow_the_very_tensor() -> None:
    with Origins() as origins:
        drawn, labels = torch.randn(3), torch.randint(0, 10, (4,))
        changed, derived = torch.randn(3), drawn + 1
        changed.mul_(3)
        marked = torch.randint(0, 10, (4,))
        marked[:1] = -100
    assert origins.sampler(drawn) == Sampler(kind="normal", low=0.0, high=1.0)
    assert origins.sampler(labels) == Sampler(kind="integers", low=0, high=10, scalable=False)
    assert origins.sampler(changed) is None and origins.sampler(derived) is None
    assert origins.sampler(marked) is None


def test_uniform_inputs_become_normal_where_the_reference_allows() -> None:
    problem = opened("def f(x): return torch.relu(x)\ninputs = [torch.rand(64, 64)]")
    assert sampler(problem, "x") == Sampler(kind="normal", low=0.5, high=0.289)


def test_probabilities_stay_probabilities() -> None:
    problem = opened(
        "def f(p, q): return F.binary_cross_entropy(p, q, reduction='none')\n"
        "inputs = [torch.rand(8, 16), torch.rand(8, 16)]"
    )
    found = sampler(problem, "p")
    assert (found.kind, found.scalable) == ("uniform", False) and found.low >= 0 and found.high <= 1


def test_positive_domains_may_still_be_scaled() -> None:
    problem = opened("def f(x): return torch.sqrt(x).sum(-1)\ninputs = [torch.rand(16, 16)]")
    assert (sampler(problem, "x").kind, sampler(problem, "x").scalable) == ("uniform", True)


def test_variances_stay_positive_and_weights_do_not() -> None:
    problem = opened("model = nn.BatchNorm1d(8)\ninputs = [torch.randn(16, 8)]")
    assert sampler(problem, "running_var").kind == "uniform"
    assert sampler(problem, "weight").kind == "normal"


def test_labels_end_where_the_classes_do() -> None:
    problem = opened(
        "def f(x, y): return F.cross_entropy(x, y)\n"
        "inputs = [torch.randn(64, 100), torch.randint(0, 100, (64,))]"
    )
    symbol = problem.tensors[0].dims[1]
    assert isinstance(symbol, str) and sampler(problem, "y").high_dim == symbol


def test_labels_of_few_values_are_these_where_no_others_mean_anything() -> None:
    problem = opened(
        "def f(x, y): return F.hinge_embedding_loss(x, y)\n"
        "inputs = [torch.randn(64), torch.randint(0, 2, (64,)).float() * 2 - 1]"
    )
    assert sampler(problem, "y") == Sampler(kind="bools", low=-1.0, high=1.0, scalable=False)
    drawn = draw(problem, problem.cases[0], "scale 64", 0)
    assert set(drawn["y"].tolist()) == {-1.0, 1.0} and drawn["x"].abs().max() > 8
    assert of_few_values(torch.randn(9)) is None and of_few_values(torch.ones(9)) is None


@pytest.mark.parametrize("shut", [0.0, -torch.inf, -1e9])
def test_a_mask_is_drawn_of_its_two_numbers(shut: float) -> None:
    mask = torch.full((9, 9), shut).triu(1) + torch.ones(9, 9).tril() if shut else torch.ones(9, 9).tril()
    low, high = float(mask.min()), float(mask.max())
    assert learn(mask) == Sampler(kind="bools", low=low, high=high, scalable=False)
    assert learn(torch.tensor([0.5, 2.0])).kind == "uniform"  # as may be by chance
    assert learn(torch.full((99,), -torch.inf)).kind == "normal"


def test_a_kernel_that_leaves_a_causal_mask_out_is_wrong_on_ordinary_inputs() -> None:
    problem = opened(
        "class M(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('mask', torch.tril(torch.ones(8, 8)))\n"
        "    def forward(self, x):\n"
        "        return x.masked_fill(self.mask == 0, -1e9).softmax(-1)\n"
        "inputs = [torch.randn(6, 8, 8)]"
    )
    assert problem.notes == ()
    assert set(draw(problem, problem.cases[0], "normal", 0)["mask"].flatten().tolist()) == {0.0, 1.0}


def test_halves_of_an_odd_row_that_broadcast_by_chance_are_no_proof() -> None:
    problem = opened(
        "def f(x):\n    a, b = x.chunk(2, -1)\n    return F.gelu(a) * b\n"
        "inputs = [torch.randn(17, 640, dtype=torch.bfloat16)]"
    )
    columns = str(problem.tensors[0].dims[1])
    assert problem.proofs and not any(case.size_map[columns] % 2 for case in problem.proofs)


def test_sizes_that_only_the_data_shows_to_be_one_stay_equal() -> None:
    problem = opened(
        "def f(x, y): return F.nll_loss(x, y)\n"
        "inputs = [torch.randn(3, 10, 8, 9), torch.randint(0, 10, (3, 8, 9))]"
    )
    shapes = [[meta.shape for meta in problem.metas(case).values()] for case in problem.proofs]
    assert len(shapes) > 2 and all(y == (x[0], *x[2:]) for x, y in shapes)


def test_huge_inputs_are_not_drawn() -> None:
    problem = opened("def f(x): return torch.exp(x)\ninputs = [torch.rand(200_000, 500_000) * 2]")
    assert problem.cases[0].label == "200000x500000" and not problem.own_inputs
    assert any("too large to look at" in note for note in problem.notes)


REPEATED = """
def f(ids, scores):
    counts = torch.zeros_like(scores)
    counts.scatter_add_(1, ids[:, 1:], (ids[:, :-1] == ids[:, -1:]).float())
    return scores.masked_fill(counts > 0, -1.0)
inputs = [torch.randint(0, 50, (4, 128)), torch.randn(4, 20000)]
"""


def test_what_needs_many_values_of_a_small_range_is_asked_with_them() -> None:
    """Of words drawn from a whole vocabulary none comes twice."""
    assert opened(REPEATED).proofs


def covariances(count: int, size: int) -> torch.Tensor:
    root = torch.randn(count, size, size)
    return root @ root.mT + 0.3 * torch.eye(size)


def test_covariances_are_known_by_their_values() -> None:
    torch.manual_seed(0)
    assert learn(covariances(20, 3)).kind == "covariances"
    assert learn(covariances(1, 30)[0]).kind == "covariances"
    for other in (torch.randn(20, 3, 3), -covariances(20, 3), covariances(20, 3)[:, :2], torch.eye(4) * 3):
        assert learn(other).kind != "covariances"


FACTORED = "def f(a, x):\n    return torch.linalg.{call}\na = torch.randn(64, 3, 3)\n"
FACTORED += "inputs = [a @ a.mT + 0.3 * torch.eye(3), torch.randn(64, 3)]\n"


def test_covariances_are_drawn_where_a_reference_takes_no_other_matrices() -> None:
    factored = opened(FACTORED.format(call="cholesky(a) @ x[..., None]"))
    assert sampler(factored, "a").kind == "covariances" and not sampler(factored, "a").scalable
    for case in (*factored.proofs, *factored.cases):
        for seed in range(3):
            drawn = draw(factored, case, "normal", seed)["a"]
            assert torch.equal(drawn, drawn.mT)
            assert not torch.linalg.cholesky_ex(drawn)[1].any()
    general = opened(FACTORED.format(call="det(a)[:, None] * x"))
    assert sampler(general, "a").kind == "normal", "a kernel may not count on what the reference does not"


def test_labels_may_have_their_mark_behind_all_others() -> None:
    """255 in an image of 21 classes: the other numbers between are nobody's label."""
    image = torch.randint(0, 21, (4, 50))
    image[:, :5] = 255
    assert learn(image) == Sampler(kind="labels", low=255, high=int(image[:, 5:].max()) + 1, scalable=False)
    assert learn(torch.tensor([3, 9, 200])).kind == "integers"
    problem = opened(
        "def f(x, t):\n"
        "    keep = (t != 255)[:, None]\n"
        "    return -x.log_softmax(1).gather(1, t[:, None] * keep) * keep\n"
        "t = torch.randint(0, 21, (300,))\nt[:30] = 255\ninputs = [torch.randn(300, 21), t]"
    )
    assert sampler(problem, "t").kind == "labels"
    (case, *_) = problem.cases
    drawn = draw(problem, case, "normal", 0)["t"]
    assert set(drawn.unique().tolist()) <= {*range(21), 255} and 255 in drawn


def test_zeros_and_ones_are_a_mask_however_few() -> None:
    assert learn(torch.tensor([[0.0, 1, 0], [1, 1, 1], [0, 1, 0]])).kind == "bools"
    assert learn(torch.tensor([0.5, 2.0])).kind == "uniform"


LEVELS = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(0, 1, 9))
        self.register_buffer("scale", torch.tensor([2.0]))
    def forward(self, x):
        place = torch.bucketize(x.sigmoid(), self.edges) - 1
        return torch.zeros(9).scatter_add(0, place.flatten(), x.flatten()) * self.scale
inputs = [torch.randn(8, 33)]
"""


def test_buffers_keep_their_values_where_the_reference_fails_with_others() -> None:
    problem = opened(LEVELS)
    assert any("edges, scale keep those that they have" in note for note in problem.notes)
    assert not any("does not depend" in note for note in problem.notes)
    drawn = draw(problem, problem.cases[0], "scale 64", 3)
    assert torch.equal(drawn["edges"].float(), torch.linspace(0, 1, 9))
    problem = opened(LEVELS.replace("place.flatten()", "place.flatten().clamp(0, 8)"))
    assert sampler(problem, "edges").kind != "given" and not problem.notes


def test_axes_of_buffers_are_no_sizes_to_speak_of() -> None:
    """A table of few rows, whose axes are written out, is the module's own."""
    problem = opened(
        "class M(nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.register_buffer('m', torch.rand(4, 4))\n"
        "    def forward(self, x, t):\n"
        "        p = F.softmax(x, 1)\n"
        "        far = self.m[None, :, :, None].expand(len(x), 4, 4, x.shape[2])\n"
        "        near = torch.gather(far, 1, t[:, None, None].expand(len(x), 1, 4, x.shape[2])).squeeze(1)\n"
        "        return (near * p).sum(1)\n"
        "inputs = [torch.randn(2, 4, 50), torch.randint(0, 4, (2, 50))]"
    )
    assert not any(" of m" in note for note in problem.notes)
