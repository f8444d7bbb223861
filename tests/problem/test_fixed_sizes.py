"""Sizes that can be but one number, as of rows that are cut in two before a layer of so many features."""

import pytest

from tests.problem.test_intake import opened
from workbench.model import Dim
from workbench.playbook.generate import generate

LAYER = """
class Gated(torch.nn.Module):
    def __init__(self, features=16):
        super().__init__()
        self.linear = torch.nn.Linear(features, 8)

    def forward(self, x):
        value, gate = x.chunk(2, -1)
        return self.linear(value * torch.sigmoid(gate))
inputs = [torch.randn(6, 32)]
"""
CHANNELS = """
class Gated(torch.nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.conv = torch.nn.{conv}(channels, 3 * {groups}, 3, groups={groups})

    def forward(self, x):
        value, gate = x.chunk(2, 1)
        return self.conv(value * torch.sigmoid(gate))
inputs = [torch.randn(2, 8, 9, 9)]
"""
SQUASHED = """
class Squashed(torch.nn.Module):
    def __init__(self, actions=16):
        super().__init__()
        self.register_buffer("scale", torch.full((actions,), 2.0))

    def forward(self, head, noise):
        mean, deviation = head.chunk(2, -1)
        action = mean + deviation.exp() * noise
        return self.scale * torch.tanh(action), (action - deviation).sum(-1)
inputs = [torch.randn(64, 32), torch.randn(64, 16)]
"""


def sizes(source: str, name: str = "x") -> tuple[Dim, ...]:
    return next(spec.dims for spec in opened(source).tensors if spec.name == name)


def test_a_row_whose_half_enters_a_layer_is_as_long_as_the_layer_asks_for() -> None:
    problem = opened(LAYER)
    assert problem.tensors[0].dims == ("s0", 32)
    assert "fixed, as what they meet has that size: 32 along axis 1 of x" in problem.notes


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("conv", "groups"), [("Conv2d", 1), ("Conv2d", 2), ("ConvTranspose2d", 1), ("ConvTranspose2d", 2)]
)
def test_so_are_channels_of_which_half_enter_a_convolution(conv: str, groups: int) -> None:
    assert sizes(CHANNELS.format(conv=conv, groups=groups))[1] == 8


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("after", "own"),
    [
        ("x[:, : x.shape[1] // 2] * w", "s1"),  # of 9 columns too, half are 4
        ("x[:, ::2] * w", "s1"),
        ("x[:, 1::2] * x[:, ::2] * w", 8),  # as many even ones as odd ones, which are 4
        ("torch.cat([x, x[:, :2]], 1)[:, 2:] + 0 * w.sum()", "s1"),
    ],
)
def test_a_size_is_fixed_where_no_other_would_do(after: str, own: Dim) -> None:
    source = f"W = torch.ones(4)\ndef f(x, w=W):\n    return {after}\ninputs = [torch.randn(6, 8)]\n"
    assert sizes(source)[1] == own


def test_a_size_that_is_declared_in_two_ways_is_not_fixed() -> None:
    source = "def f(x, y):\n    return x[:, : x.shape[1] // 2] * y\n"
    inputs = (
        "inputs = [torch.randn(6, 8), torch.randn(6, 4)]\nshapes = [((6, 8), (6, 4)), ((6, 12), (6, 6))]\n"
    )
    assert isinstance(sizes(source + inputs)[1], str)


def test_what_is_known_of_one_size_tells_of_another_that_it_meets() -> None:
    """Elements are as many as those of the rows then, so that one kernel makes both results."""
    problem = opened(SQUASHED)
    assert [spec.dims for spec in problem.tensors[:2]] == [("s0", 32), ("s0", 16)]
    text = generate(problem, ()).kernel.source
    assert text.count("__global__") == 1


@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("shapes", "fixed"),
    [("", True), ("shapes = [((2, 4, 9, 9), (3, 4, 3, 3)), ((2, 8, 9, 9), (3, 8, 3, 3))]\n", False)],
)
def test_so_are_channels_of_weights_that_are_an_input(shapes: str, fixed: bool) -> None:
    source = "def f(x, weight):\n    return torch.nn.functional.conv2d(x, weight, padding=1).relu()\n"
    inputs = "inputs = [torch.randn(2, 4, 9, 9), torch.randn(3, 4, 3, 3)]\n"
    x, weight = opened(source + inputs + shapes).tensors
    assert (x.dims[1] == weight.dims[1] == 4) == fixed and x.dims[1] == weight.dims[1]


@pytest.mark.many(2)
@pytest.mark.parametrize("number", ["8", "w"])
def test_a_view_has_the_size_that_its_line_says(number: str) -> None:
    """An export says what is left of all elements, and nobody sees that rows are short."""
    source = f"def f(x):\n    w = x.shape[1] // 2\n    return (x > 0).view(-1, {number}).sum(-1)\n"
    problem = opened(f"{source}inputs = [torch.randn(6, 16)]\n")
    view = next(node for node in problem.graph.nodes if node.base_name == "view")
    assert (view.outs[0].dims[1] == 8) == (number == "8")


def test_parts_of_a_half_say_how_long_the_whole_is() -> None:
    halves = "    a, b = [half.reshape(-1, 4, 6) for half in x.chunk(2, -1)]\n"
    source = f"def f(x):\n{halves}    return a.softmax(-1) * b\n"
    assert sizes(f"{source}inputs = [torch.randn(5, 48)]\n") == ("s0", 48)


def test_all_sizes_are_fixed_where_the_graph_has_a_number_that_the_reference_makes_of_them() -> None:
    """``int`` of a ratio becomes a number in an export, without a word of the sizes for which it is right."""
    source = (
        "def f(x):\n    most = int(2 * x.shape[0] / x.shape[1] * 1.25)\n    return x.softmax(-1) * most\n"
    )
    problem = opened(f"{source}inputs = [torch.randn(40, 16)]\n")
    assert problem.symbols == () and [case.label for case in problem.proofs] == ["40x16"]
    assert any(note.startswith("all sizes are fixed") for note in problem.notes)


@pytest.mark.parametrize("rows", [400, 20_000])
def test_one_size_is_fixed_where_a_number_is_made_of_it_alone(rows: int) -> None:
    """Of 20,000 rows the graph is not tried at the declared sizes, which are too large for that."""
    source = (
        "def f(x, w):\n    most = max(1, int(0.025 * x.shape[0]))\n"
        "    return torch.topk(x @ w, most, dim=0).values.mean(0)\n"
    )
    problem = opened(f"{source}inputs = [torch.randn({rows}, 128), torch.randn(128, 8)]\n")
    assert [spec.dims for spec in problem.tensors] == [(rows, "s0"), ("s0", "s1")]
    assert any(f"{rows} along axis 0 of x" in note for note in problem.notes)


def test_a_size_that_is_fixed_for_a_number_leaves_others_as_they_were_found_to_be() -> None:
    """Halves of ``both`` meet ``x``: it stays twice as long when the rows' length is fixed."""
    source = (
        "def f(x, both):\n    most = max(1, int(0.025 * x.shape[1]))\n    a, b = both.chunk(2)\n"
        "    return (x + a / b.std(dim=1, keepdim=True)) / most\n"
    )
    problem = opened(f"{source}inputs = [torch.randn(6, 800), torch.randn(12, 800)]\n")
    x, both = problem.tensors
    assert both.dims == (f"2*{x.dims[0]}", 800) and x.dims[1] == 800
    assert any(note.startswith("kept as in the inputs: axis 0 of both is 2 times") for note in problem.notes)
    assert any("800 along axis 1 of x" in note for note in problem.notes)
