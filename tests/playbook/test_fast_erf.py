"""An error function of half the instructions, for results that 16 bits round anyway."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check, run
from workbench.playbook.device_functions.cuda_helpers import helper_texts
from workbench.playbook.generate import generate
from workbench.playbook.techniques.offers import fast_math
from workbench.playbook.techniques.traits import traits_of

Tensors = dict[str, Tensor]
FAST = (("fast_math", "on"),)


def gelu(t: Tensors) -> Tensor:
    return F.gelu(t["x"])


ALONE = f"""/* plan
def plan(x):
    y = empty_like(x)
    launch("erf_of", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
{"".join(helper_texts(["fast_erf"]))}
__global__ void erf_of(const float* x, float* y, int count) {{
    const int i = blockIdx.x * 128 + threadIdx.x;
    if (i < count) y[i] = fast_erf(x[i]);
}}
"""


def test_it_is_right_to_two_millionths_everywhere() -> None:
    line = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, 1e-20, 1e4, -1e4, 3e38, torch.inf])])
    found = run(ALONE, {"x": line}).outputs[0]
    assert (found.double() - torch.erf(line.double())).abs().max() < 2e-6
    made = run(ALONE, {"x": torch.tensor([torch.nan, -torch.inf])}).outputs[0]
    assert made[0].isnan() and made[1] == -1.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_gelu_that_is_stored_in_16_bits_may_have_it(dtype: torch.dtype) -> None:
    tensors = {"x": (4 * torch.randn(37, 64)).to(dtype)}
    problem = problem_of(gelu, tensors)
    assert fast_math(traits_of(problem), {}) == ("off", "on")
    source = generate(problem, FAST).kernel.source
    assert source.count("fast_erf(") == 2 and "erff(" not in source
    check(gelu, source, tensors)


def test_what_is_stored_in_32_bits_beside_other_slow_functions_keeps_erff() -> None:
    """``fast_math`` is offered for the exponential; two millionths are thirty units of a float."""

    def call(t: Tensors) -> Tensor:
        return torch.erf(t["x"]) * torch.exp(t["x"])

    tensors = {"x": torch.randn(37, 64)}
    problem = problem_of(call, tensors)
    assert fast_math(traits_of(problem), {}) == ("off", "on")
    source = generate(problem, FAST).kernel.source
    assert "__expf(" in source and "erff(" in source and "fast_erf" not in source


def test_float32_and_whoever_asks_for_accuracy_do_not() -> None:
    wide = {"x": torch.randn(37, 64)}
    assert fast_math(traits_of(problem_of(gelu, wide)), {}) == ()
    narrow = {"x": torch.randn(37, 64).bfloat16()}
    assert "erff(" in generate(problem_of(gelu, narrow), ()).kernel.source
