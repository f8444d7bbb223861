"""torch's own attention layers: between their products nothing is copied, whichever axis comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.playbook.generate import generate
from workbench.playbook.graph.rewrites import rewrite

Tensors = dict[str, Tensor]


def encoder(first: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(16, 2, 24, batch_first=first, norm_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


class WithWeights(nn.Module):
    """Attention that makes its weights as well, as it does unless it is told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2)
        self.norm = nn.LayerNorm(16)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.norm(x + self.attention(x, x, x)[0])
        return made


def with_its_tensors(module: nn.Module, x: Tensor) -> tuple[Callable[[Tensors], Tensor], Tensors]:
    """A module as a function of its parameters too."""
    named = {name.replace(".", "_"): name for name, _ in module.named_parameters()}
    held = {new: module.get_parameter(name).detach() for new, name in named.items()}

    def call(t: Tensors) -> Tensor:
        made: Tensor = torch.func.functional_call(module, {old: t[new] for new, old in named.items()}, t["x"])
        return made

    return call, {"x": x, **held}


def calls_and_launches(module: nn.Module, x: Tensor) -> tuple[Counter[str], int]:
    """Of the fused kernels, which are right."""
    call, tensors = with_its_tensors(module.to(x.dtype).eval(), x)
    source = generate(problem_of(call, tensors), ()).kernel.source
    check(call, source, tensors)
    plan = plan_of(source, tensors)
    called = Counter(step.op.split(".")[1] for step in plan.steps if step.kind == "library")
    return called, len(plan.launches)


@pytest.mark.slow
@pytest.mark.many(2)
@pytest.mark.parametrize(
    ("first", "dtype"), [(True, torch.float32), (False, torch.bfloat16)], ids=["batch first", "places first"]
)
def test_a_layer_of_an_encoder_is_three_kernels_between_products(first: bool, dtype: torch.dtype) -> None:
    """Two in 16 bits, where the library applies bias and ReLU to its sums."""
    torch.manual_seed(0)
    called, launches = calls_and_launches(encoder(first), torch.randn(3, 10, 16).to(dtype))
    if dtype == torch.float32:
        assert launches == 2 * 3 + 1, "norm; norm and residual; bias and ReLU; the last residual"
        assert called == Counter(addmm=2, scaled_dot_product_attention=2, mm=2 * 3)
    else:
        assert launches == 2 * 2 + 1, "norm; norm and residual; the last residual"
        assert called == Counter(addmm=2, _addmm_activation=2, scaled_dot_product_attention=2, mm=2 * 2)


def test_attention_with_weights_that_nobody_reads_is_one_kernel_and_three_calls() -> None:
    torch.manual_seed(0)
    called, launches = calls_and_launches(WithWeights(), torch.randn(10, 3, 16))
    assert launches == 1
    assert called == Counter(addmm=1, scaled_dot_product_attention=1, mm=1)


def turned_and_multiplied(t: Tensors) -> Tensor:
    return F.linear(t["x"].transpose(0, 1), t["w"])


def and_read(t: Tensors) -> Tensor:
    return torch.relu(turned_and_multiplied(t)) + 1.0


@pytest.mark.parametrize(("call", "product"), [(turned_and_multiplied, "bmm"), (and_read, "mm")])
def test_rows_of_an_output_stay_in_the_order_that_was_asked_for(
    call: Callable[[Tensors], Tensor], product: str
) -> None:
    tensors = {"x": torch.randn(3, 5, 8), "w": torch.randn(7, 8)}
    problem = problem_of(call, tensors)
    assert product in {node.base_name for node in rewrite(problem).nodes}
    check(call, generate(problem, ()).kernel.source, tensors)
