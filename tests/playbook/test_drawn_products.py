"""Products of matrices and convolutions on tensor cores, drawn at random; by ``make sweep``."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.playbook.problems import Call, problem_of
from tests.playbook.running import reference, run
from workbench.model import Vector
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import settled

ON_TENSOR_CORES: Vector = (("convolution", "three_tf32"), ("matrix_product", "three_tf32"))
Drawn = tuple[Call, dict[str, Tensor]]


def drawn_product(draw: random.Random) -> Drawn:
    """Factors that lie either way round, begin inside their tensors, and may be one of several."""
    rows, columns = draw.randint(64, 190), draw.randint(64, 190)
    terms = draw.choice([32, 61, 64, 128, 129, 132, 160, 200, 257, draw.randint(33, 300)])
    batch, first = draw.choice([(), (), (1,), (2,), (3,)]), draw.choice([0, 0, 4, 3])
    turned = draw.random() < 0.4, draw.random() < 0.4

    def factor(down: int, across: int, is_turned: bool) -> Tensor:
        down, across = (across, down) if is_turned else (down, across)
        return torch.randn(*batch, down, across + first)

    def call(t: dict[str, Tensor]) -> Tensor:
        x, w = t["x"][..., first:], t["w"][..., first:]
        x = x.transpose(-1, -2) if turned[0] else x
        return torch.relu(x @ (w.transpose(-1, -2) if turned[1] else w)) + 0.25

    return call, {"x": factor(rows, terms, turned[0]), "w": factor(terms, columns, turned[1])}


READS, MAKES, TRANSPOSED_MAKES = (2, 9), (33, 40, 64, 65, 70, 130), (33, 48, 66)
READS_OF_PATCHES, MAKES_OF_PATCHES = (6, 30), (8, 11, 16, 33, 40, 64, 65, 104, 130, 200)


def drawn_convolution(
    draw: random.Random, reads_of: tuple[int, int] = READS, makes_of: Sequence[int] = ()
) -> Drawn:
    """One to three axes, ordinary or transposed."""
    axes, groups, transposed = draw.choice([1, 2, 2, 3]), draw.choice([1, 1, 2]), draw.random() < 0.35
    reads = draw.randint(*reads_of) * groups
    makes = draw.choice(makes_of or (TRANSPOSED_MAKES if transposed else MAKES))
    taps = [draw.randint(1, 4) for _ in range(axes)]
    settings: dict[str, list[int]] = {"dilation": [draw.randint(1, 2) for _ in range(axes)]}
    settings["stride"] = [draw.randint(1, 3 if transposed else 2) for _ in range(axes)]
    if transposed:
        settings["output_padding"] = [draw.randint(0, stride - 1) for stride in settings["stride"]]
    reach = [d * (t - 1) for d, t in zip(settings["dilation"], taps, strict=True)]
    settings["padding"] = [draw.randint(0, most) for most in reach]
    sides = [draw.randint(60, 90)] if axes == 1 else [max(more + 1, draw.randint(6, 12)) for more in reach]
    weights = (reads, makes) if transposed else (makes * groups, reads // groups)
    ordinary = (F.conv1d, F.conv2d, F.conv3d)
    convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d) if transposed else ordinary

    def call(t: dict[str, Tensor]) -> Tensor:
        return F.silu(convolve[axes - 1](t["x"], t["w"], None, groups=groups, **settings))

    x = torch.randn(draw.randint(1, 3), reads, *sides)
    return call, {"x": x, "w": 0.2 * torch.randn(*weights, *taps)}


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(140))
def test_right_and_without_hazards(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    call, tensors = (drawn_product if draw.random() < 0.55 else drawn_convolution)(draw)
    vector = (*ON_TENSOR_CORES, ("split_k", draw.choice(["1", "1", "2", "3", "4"])))
    source = generate(problem_of(call, tensors), vector).kernel.source
    if "multiply_add(sums" not in source:
        pytest.skip("too small for a tile")
    right(call, source, tensors)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(120))
def test_right_with_places_as_rows(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    while True:  # until tiles have room, and something to do
        call, tensors = drawn_convolution(draw, READS_OF_PATCHES, MAKES_OF_PATCHES)
        tensors = of_a_type(draw, tensors)
        vector = patches(draw)
        problem = problem_of(call, tensors, varying=False)
        if dict(settled(problem, vector)).get("convolution") == "patches":
            break
    right(call, generate(problem, vector).kernel.source, tensors)


def patches(draw: random.Random) -> Vector:
    threads, pairs = draw.choice(["128", "256"]), draw.choice(["off", "on"])
    return (("block_size", threads), ("channel_pairs", pairs), ("convolution", "patches"))


def of_a_type(draw: random.Random, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Half of them are float32, the others of 16 bits."""
    dtype = draw.choice((torch.float32, torch.float32, torch.bfloat16, torch.float16))
    return {name: tensor.to(dtype) for name, tensor in tensors.items()}


def behind(draw: random.Random, call: Call) -> Call:
    """The call, with a pool of some windows behind it, or what goes across channels."""
    windows = [draw.choice([1, 2, 4]) for _ in range(3)]
    pools = (F.max_pool1d, F.max_pool2d, F.max_pool3d), (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)
    pool, across = draw.choice(pools), draw.randrange(4)
    is_pool = draw.random() < 0.6

    def further(t: dict[str, Tensor]) -> Tensor:
        made = call(t)
        assert isinstance(made, Tensor)
        if is_pool:
            axes = made.ndim - 2
            sides = [min(count, size) for count, size in zip(windows[:axes], made.shape[2:], strict=True)]
            return torch.tanh(pool[axes - 1](made, sides))
        match across:
            case 0:
                return made.softmax(1)
            case 1:
                return made.amin(1, keepdim=True) * 2
            case 2:
                return made - made.mean(1, keepdim=True)
        return made.logsumexp(1)

    return further


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(120))
def test_right_with_more_behind_places_as_rows(seed: int) -> None:
    draw = random.Random(seed)
    torch.manual_seed(seed)
    while True:
        inner, tensors = drawn_convolution(draw, READS_OF_PATCHES, MAKES_OF_PATCHES)
        call, tensors = behind(draw, inner), of_a_type(draw, tensors)
        vector = patches(draw)
        problem = problem_of(call, tensors, varying=False)
        if dict(settled(problem, vector)).get("convolution") == "patches":
            break
    right(call, generate(problem, vector).kernel.source, tensors)


def right(call: Call, source: str, tensors: dict[str, Tensor]) -> None:
    execution = run(source, tensors, "checked")
    assert not execution.report.hazards
    for got, want in zip(execution.outputs, reference(call, tensors), strict=True):
        mean = want.abs().mean()
        # Results of 16 bits are rounded, where a kernel of its own is behind twice.
        rounded = 4 * torch.finfo(got.dtype).eps * (want.abs() + mean) if got.dtype != torch.float32 else 0.0
        assert ((got.double() - want).abs() < 2e-5 * (1 + mean) + rounded).all()
