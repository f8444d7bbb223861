"""Spectra of real numbers, of which half is transformed: what is read of the other half is right."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.playbook.running import plan_of
from tests.problem.test_intake import opened
from workbench.emulator.build import build
from workbench.emulator.execute import execute
from workbench.emulator.values import Options
from workbench.model import Problem
from workbench.playbook.generate import generate

BODIES = {
    "both parts": "y = torch.fft.fft(x)\n    return y.real * 2 + y.imag",
    "one part": "return torch.fft.fft(x, dim=1).imag",
    "scaled": "return torch.fft.fft(x, norm='ortho').real",
    "two axes": "y = torch.fft.fft2(x)\n    return y.real * 2 + y.imag",
    "one axis after the other": "y = torch.fft.fft(torch.fft.fft(x), dim=-2)\n    return y.real * 2 + y.imag",
    "three axes": "y = torch.fft.fftn(x)\n    return y.real * 2 - y.imag",
    "a filter, and back": "y = torch.fft.fft(x)\n    return torch.fft.ifft(y * g).real",
}
LEFT = {
    "asked for": "return torch.fft.fft(x)",
    "scaled in two ways": "return torch.fft.fft(torch.fft.fft(x, norm='ortho'), dim=-2).real",
    "there and back": "return torch.fft.ifft(torch.fft.fft(x), dim=-2).real",
    "half already": "return torch.fft.rfft(x).real",
}


@cache
def made(body: str) -> tuple[str, Problem, str]:
    """The reference, its problem and the playbook's kernel."""
    names, more = ("x, g", ", torch.rand(8)") if "* g" in body else ("x", "")
    text = f"import torch\ndef f({names}):\n    {body}\ninputs = [torch.randn(4, 6, 8){more}]\n"
    problem = opened(text)
    return text, problem, generate(problem, ()).kernel.source


def ran(body: str, shape: tuple[int, int, int]) -> tuple[torch.Tensor, torch.Tensor, str]:
    """What the plan makes, what torch makes, and the plan."""
    text, problem, source = made(body)
    generator = torch.Generator().manual_seed(1)
    tensors = {
        spec.name: torch.randn(shape if len(spec.dims) == 3 else shape[-1:], generator=generator)
        for spec in problem.tensors
    }
    plan = plan_of(source, tensors)
    done = execute(
        plan, build(source, plan.instances, "checked"), tensors, Options(case="spectra", races=True)
    )
    assert not done.report.hazards, done.report.hazards[0].message
    known = {"torch": torch}
    exec(text, known)
    return done.outputs[0], known["f"](*tensors.values()), source.partition("*/")[0]  # type: ignore[operator]


@pytest.mark.many(6)
@pytest.mark.parametrize("name", BODIES)
def test_half_of_it_is_transformed(name: str) -> None:
    for shape in ((3, 6, 8), (2, 5, 7), (2, 4, 9), (1, 3, 2), (2, 2, 1)):
        found, wanted, plan = ran(BODIES[name], shape)
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))
        assert "True)" in next(line for line in plan.splitlines() if "_fft_r2c" in line), "half of it"
        assert plan.count("_fft_c2c") == (name == "a filter, and back")


@pytest.mark.parametrize("name", LEFT)
def test_other_transforms_stay_as_they_are(name: str) -> None:
    found, wanted, plan = ran(LEFT[name], (3, 6, 8))
    if wanted.is_complex():
        wanted = torch.view_as_real(wanted)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))
    assert ("_fft_c2c" in plan) == ("dim=-2" in LEFT[name])
