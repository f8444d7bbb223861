"""Values of rows that a kernel waits for anyway are read where they lie, and not reduced again."""

import re

import pytest
import torch
from torch import Tensor

from tests.playbook.crossing import crossed
from tests.playbook.problems import Call, problem_of
from tests.playbook.running import check
from workbench.playbook.generate import generate
from workbench.playbook.ir.expr import Reduction, walk
from workbench.playbook.ir.program import Kernel, Program, Store
from workbench.playbook.lowering.lower import lower

Tensors = dict[str, Tensor]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


def responses(t: Tensors) -> Tensor:
    """Norms of channels, over the mean of an image's norms."""
    norms = torch.linalg.vector_norm(t["x"], dim=(1, 2), keepdim=True)
    return t["w"] * (t["x"] * (norms / (norms.mean(-1, keepdim=True) + 1e-6))) + t["x"]


def responses_first(t: Tensors) -> Tensor:
    """The same with channels first, whose rows lie together."""
    norms = torch.linalg.vector_norm(t["x"], dim=-1, keepdim=True)
    return t["x"] * (norms / (norms.mean(1, keepdim=True) + 1e-6))


def gated(t: Tensors) -> Tensor:
    """Means go through a library's product, and are added once more."""
    means = t["x"].mean(-1)
    return t["x"] * torch.sigmoid(means @ t["v"])[..., None] + means[..., None]


def two_ways(t: Tensors) -> Tensor:
    """A value that is made of a stored one's reduction, of which that one says too little."""
    sums = t["x"].sum(-1, keepdim=True)
    tops = torch.relu(sums)
    return t["x"] * (tops / (1 + tops.mean(1, keepdim=True))) + sums


def normalized(t: Tensors) -> Tensor:
    """Nothing is stored that the result waits for."""
    return torch.softmax(t["x"], -1)


def both(t: Tensors) -> tuple[Tensor, Tensor]:
    """The sums are a result themselves, which the other does not wait for: one kernel has both."""
    sums = t["x"].sum(-1, keepdim=True)
    return sums, t["x"] / (1 + sums * sums)


def tensors_of(call: Call, dtype: torch.dtype = torch.float32) -> Tensors:
    torch.manual_seed(0)
    made = {
        "x": torch.randn(3, 8, 40) if call is not responses else torch.randn(3, 5, 8, 40),
        "w": torch.randn(40),
        "v": torch.randn(8, 8),
    }
    names = {responses: ("x", "w"), gated: ("x", "v")}
    return {name: made[name].to(dtype) for name in names.get(call, ("x",))}


def made_by(program: Program) -> dict[str, Store]:
    """Stores by what they write."""
    kernels = [step for step in program.steps if isinstance(step, Kernel)]
    return {store.buffer: store for kernel in kernels for store in kernel.stores}


def reduces(store: Store) -> bool:
    return any(isinstance(part, Reduction) for part in walk(store.value))


@pytest.mark.parametrize(
    ("call", "again"),
    [
        (responses, False),
        (responses_first, False),
        (gated, False),
        (two_ways, True),
        (normalized, True),
        (both, True),
    ],
)
def test_a_result_reads_what_it_waits_for(call: Call, again: bool) -> None:
    program = lower(problem_of(call, tensors_of(call)), fuse=True)
    last = program.outputs[-1].buffer
    assert reduces(made_by(program)[last]) is again


@pytest.mark.many(13)
@pytest.mark.parametrize(
    ("call", "dtype"), crossed([responses, responses_first, gated, two_ways, both], DTYPES)
)
@pytest.mark.parametrize(
    "more", [(), (("grid_split", "on"), ("vector_width", "4")), (("threads_per_row", "warp"),)]
)
def test_the_numbers_are_the_same(call: Call, dtype: torch.dtype, more: tuple[tuple[str, str], ...]) -> None:
    tensors = tensors_of(call, dtype)
    check(
        call,
        generate(problem_of(call, tensors), (("fusion", "all"), *more)).kernel.source,
        tensors,
        "checked",
    )


def test_the_last_kernel_is_elementwise() -> None:
    source = generate(problem_of(responses, tensors_of(responses)), (("fusion", "all"),)).kernel.source
    last = source[source.rindex("__global__") :]
    assert re.search(r"row_sqrt\[", last) and "sum" not in last and "for (" not in last, last
