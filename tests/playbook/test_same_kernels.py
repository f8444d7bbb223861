"""Kernels that repeat others but for the names in them are written once and launched for all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.references import of
from tests.playbook.running import check, plan_of
from workbench.model import H100
from workbench.playbook.files.same_kernels import repeats_of
from workbench.playbook.generate import generate
from workbench.playbook.kernels.kernel_text import KernelText
from workbench.playbook.rules.moves import seed_vectors

Tensors = dict[str, Tensor]
SHAPES = {"x": (6, 24)} | {f"w{n}": (24, 24) for n in range(4)} | {f"s{n}": (24,) for n in range(4)}


def network(t: Tensors) -> Tensor:
    """Four blocks; the third has another epsilon."""
    x = t["x"]
    for number in range(4):
        eps = 1e-3 if number == 2 else 1e-5
        x = torch.tanh(F.layer_norm(x @ t[f"w{number}"], (24,), t[f"s{number}"], eps=eps))
    return x


def test_a_block_that_repeats_is_written_once() -> None:
    tensors = of(**SHAPES)()
    problem = problem_of(network, tensors)
    fused = next(c.vector for c in seed_vectors(problem, H100, count=4) if ("fusion", "all") in c.vector)
    source = generate(problem, fused).kernel.source
    launched = Counter(launch.kernel.partition("<")[0] for launch in plan_of(source, tensors).launches)
    assert sorted(launched.values()) == [1, 3], launched
    assert source.count("__global__") == 2
    first = launched.most_common(1)[0][0]
    assert "// Launched in place of kernels that would be the same:" in source
    assert source.index("// Launched in place") < source.index(f"void {first}(")
    check(network, source, tensors)


# ------------------------------------------------------------------------------------ what counts as the same

CODE = """\
__global__ void {name}(const float* {x}, float* {y}) {{
    // {y} is the twice of {x}
    const float {x}_value = load_twice({x});
    {y}[threadIdx.x] = 2.0f * {x}_value;
}}"""


def kernel(name: str, x: str, y: str, code: str = CODE) -> KernelText:
    return KernelText(name, code.format(name=name, x=x, y=y), (x, y), frozenset(), "1", 32)


def test_names_comments_and_broken_lines_do_not_count() -> None:
    other = kernel("b", "weights_of_a_layer", "made", CODE.replace(", float", ",\n    float"))
    repeats = repeats_of([kernel("a", "x", "y"), other])
    assert repeats.launched("b") == "a" == repeats.launched("a")
    text = "\n".join(repeats.written([kernel("a", "x", "y"), other]))
    assert text.count("__global__") == 1 and text.startswith("// Launched in place of kernels")


@pytest.mark.parametrize(
    "other",
    [
        kernel("b", "x", "y", CODE.replace("2.0f", "3.0f")),
        kernel("b", "y", "x", CODE.replace("{x}, float* {y}", "{y}, float* {x}")),
        kernel("b", "x", "y", CODE.replace("float*", "double*")),
        replace(kernel("b", "x", "y"), cluster=4),
        replace(kernel("b", "x", "y"), cooperative=True),
    ],
    ids=["a number", "which is read", "a type", "a cluster", "at the same time"],
)
def test_whatever_else_is_different_counts(other: KernelText) -> None:
    assert repeats_of([kernel("a", "x", "y"), other]).launched("b") == "b"


def test_a_function_called_like_an_argument_stays_itself() -> None:
    """``load_twice`` begins with the name of an argument; ``store_twice`` with that of the other's."""
    one = kernel("a", "load", "y")
    other = kernel("b", "store", "y", CODE.replace("load_twice", "store_twice"))
    assert repeats_of([one, other]).launched("b") == "b"
