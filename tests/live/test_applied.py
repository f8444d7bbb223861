"""An applied kernel: right where its guard allows, the original elsewhere, and both are counted."""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any, NamedTuple

import doubles
import pytest
import torch
from torch import Tensor, nn

from workbench.devices.null import NullDevice
from workbench.errors import UsageError
from workbench.live import LiveSession, optimize
from workbench.live.applied import EMULATED_ELEMENTS, Applied
from workbench.live.apply import announce, apply, restore
from workbench.live.original import Original
from workbench.model import H100, Layout, Problem, Returned, Sampler, Static, TensorSpec
from workbench.policy import Policy
from workbench.problem.results import returned_as

DOUBLE = """/* plan
def plan(x):
    require(x.is_contiguous, "contiguous only")
    y = empty_like(x)
    launch("twice", grid=cdiv(x.numel, 128), block=128, args=[x, y, x.numel])
    return y
*/
__global__ void twice(const float* x, float* y, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = 2.0f * x[i];
}
"""
SCALE = """/* plan
def plan(x, weight):
    y = empty_like(x)
    launch("scale", grid=cdiv(x.numel, 128), block=128, args=[x, weight, y, x.numel, x.shape[1]])
    return y
*/
__global__ void scale(const float* x, const float* weight, float* y, int count, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = weight[i % cols] * x[i];
}
"""
SCALE_SOURCE = """import torch
class Scale(torch.nn.Module):
    def __init__(self, cols):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((cols,), 3.0))
    def forward(self, x):
        return x * self.weight
init_inputs = [4]
inputs = [torch.randn(8, 4)]
"""


def doubled(x: Tensor) -> Tensor:
    return x * 2


@pytest.fixture
def applied() -> Applied:
    return Applied(doubled, doubles.problem(), DOUBLE, H100)


def scale_problem() -> Problem:
    normal = Sampler(kind="normal")
    tensors = (
        TensorSpec(name="x", role="input", dtype="f32", dims=("s0", 4), sampler=normal),
        TensorSpec(name="weight", role="parameter", dtype="f32", dims=(4,), sampler=normal, path="weight"),
    )
    update = {"name": "Scale", "entry": "Scale", "source": SCALE_SOURCE, "kind": "module_class"}
    return doubles.problem().model_copy(update={**update, "tensors": tensors})


class Scale(nn.Module):
    """``x * weight``."""

    def __init__(self, cols: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(float(cols)))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight


def test_a_covered_call_runs_the_kernel(applied: Applied) -> None:
    x = torch.randn(5, 7)
    assert torch.equal(applied(x), 2 * x)
    assert torch.equal(applied(x=x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (2, 0)


class Doubled(NamedTuple):
    y: Tensor


def named(x: Tensor) -> dict[str, Tensor]:
    return {"twice": x * 2}


def in_a_tuple(x: Tensor) -> Doubled:
    return Doubled(x * 2)


def listed(x: Tensor) -> list[Tensor]:
    return [x * 2]


@pytest.mark.parametrize("original", [named, in_a_tuple, listed])
def test_results_come_as_the_originals_do(original: Any) -> None:
    x = torch.randn(5, 7)
    changes = {"returns_tuple": True, "returned": returned_as(original(x))}
    applied = Applied(original, doubles.problem().model_copy(update=changes), DOUBLE, H100)
    returned = applied(x)
    assert type(returned) is type(original(x)) and str(returned) == str(original(x))
    assert (applied.kernel_calls, applied.fallback_calls) == (1, 0)


def test_results_of_a_type_that_is_gone_are_refused_beforehand() -> None:
    gone = Returned(kind="nowhere:Gone", names=("y",))
    problem = doubles.problem().model_copy(update={"returns_tuple": True, "returned": gone})
    with pytest.raises(UsageError, match="double: it returns a Gone, which is not found beside it"):
        Applied(named, problem, DOUBLE, H100)


@pytest.mark.parametrize(
    ("x", "reason"),
    [
        (torch.randn(5, 7).t(), "contiguous only"),
        (torch.randn(5, 7, dtype=torch.float64), "f64"),
        (torch.randn(5), "1 axes"),
        (torch.randn(5, 7, requires_grad=True), "gradient"),
        (torch.randn(0, 7), "is empty, shape (0, 7)"),
        (torch.empty(1, EMULATED_ELEMENTS + 1), "too many"),
        (torch.randn(2, 2, dtype=torch.complex64), "complex"),
    ],
)
def test_any_other_call_falls_back_and_says_why(applied: Applied, x: Tensor, reason: str) -> None:
    assert torch.equal(applied(x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (0, 1)
    assert reason in applied.last_fallback


def test_layouts_that_were_never_judged_are_the_originals() -> None:
    asks_nothing = DOUBLE.replace('    require(x.is_contiguous, "contiguous only")\n', "")
    applied = Applied(doubled, doubles.problem(), asks_nothing, H100)
    transposed, spaced = torch.randn(5, 7).t(), torch.randn(4, 10)[:, ::2]
    for given in (transposed, spaced):
        assert torch.equal(applied(given), 2 * given)
        assert applied.last_fallback.startswith(f"x has strides {given.stride()}")
    assert (applied.kernel_calls, applied.fallback_calls) == (0, 2)
    applied.judged_on(((Layout(tensor="x", order=(1, 0)),),))
    for given in (transposed, spaced):
        assert torch.equal(applied(given), 2 * given)
    assert (applied.kernel_calls, applied.fallback_calls) == (1, 3)


def test_the_guard_needs_no_worker(applied: Applied, monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object) -> None:
        raise AssertionError("a worker was started for a call that is not covered")

    monkeypatch.setattr("workbench.live.applied.run_kernel", started)
    applied(torch.randn(5, 7).t())
    assert "contiguous only" in applied.last_fallback


def test_wrong_arguments_fail_as_the_original_does(applied: Applied) -> None:
    with pytest.raises(TypeError, match="positional argument"):
        applied()


def test_another_static_value_falls_back() -> None:
    def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
        return x * factor

    update = {"signature": ("x", "factor"), "statics": (Static(name="factor", value=2.0),)}
    applied = Applied(scaled, doubles.problem().model_copy(update=update), DOUBLE, H100)
    x = torch.ones(2, 2)
    assert torch.equal(applied(x), 2 * x)
    assert torch.equal(applied(x, 3.0), 3 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (1, 1)
    assert "factor is 3.0" in applied.last_fallback


def test_a_kernel_that_crashes_falls_back() -> None:
    crashing = DOUBLE.replace("if (i < count) y[i]", "*(volatile int*)0 = 1; if (i < count) y[i]")
    applied = Applied(doubled, doubles.problem(), crashing, H100)
    x = torch.ones(2, 2)
    assert torch.equal(applied(x), 2 * x)
    assert applied.fallback_calls == 1


def test_a_module_keeps_its_own_parameters() -> None:
    module = Scale(4)
    applied = Applied(module, scale_problem(), SCALE, H100)
    x = torch.randn(3, 4)
    with torch.no_grad():
        assert torch.equal(applied(x), module(x))
        module.weight.fill_(7.0)
        assert torch.equal(applied(x), 7 * x)
    assert applied.kernel_calls == 2
    assert len(list(applied.parameters())) == 1
    applied(x)  # gradients are wanted: the kernel has none
    assert "gradient" in applied.last_fallback


def test_a_function_keeps_its_name_its_words_and_its_signature() -> None:
    def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
        """Scale it."""
        return x * factor

    applied: Any = Applied(scaled, doubles.problem(), DOUBLE, H100)
    assert (applied.__name__, applied.__doc__) == ("scaled", "Scale it.")
    assert inspect.signature(applied) == inspect.signature(scaled)


def test_the_original_is_built_when_it_is_called_and_keeps_the_random_state() -> None:
    original = Original(doubles.problem)
    torch.manual_seed(7)
    expected = torch.randn(3)
    torch.manual_seed(7)
    assert torch.equal(original(torch.ones(2)), torch.full((2,), 2.0))
    assert torch.equal(torch.randn(3), expected)


# ------------------------------------------------------------------------------------ the magic's calls


@pytest.fixture
def live(tmp_path: Path) -> Any:
    with optimize(
        doubles.problem(), Policy(rounds=1), NullDevice(), doubles.team(), tmp_path / "s"
    ) as session:
        session.wait(30)
        yield session


def test_apply_and_restore(live: LiveSession) -> None:
    names: dict[str, Any] = {}
    announce(live, names)
    assert torch.equal(names["double"](torch.ones(1, 1)), torch.full((1, 1), 2.0))
    live.edit(None, DOUBLE.replace("/* plan", "// null: passed 0.1\n/* plan"))
    live.wait(30)
    line = apply(live, names)
    assert "e1" in line and "1000.0x" not in line
    x = torch.randn(4, 4)
    assert torch.equal(names["double"](x), 2 * x)
    assert names["double"].kernel_calls == 1
    apply(live, names)
    assert isinstance(names["double"].original, Original)
    restore("double", names)
    assert isinstance(names["double"], types.FunctionType)  # nothing of the notebook is in it
    assert torch.equal(names["double"](x), 2 * x)
    with pytest.raises(UsageError, match="no kernel is applied"):
        restore("double", names)


def test_a_slower_kernel_is_applied_with_a_warning(tmp_path: Path) -> None:
    device = NullDevice()
    with optimize(doubles.problem(), Policy(rounds=0), device, doubles.team(), tmp_path / "s") as session:
        session.wait(30)
        session.edit(None, DOUBLE.replace("/* plan", "// null: passed 5000\n/* plan"))
        session.wait(30)
        assert session.best is not None and session.best.score < 1
        warned = next(line for line in apply(session, {}).splitlines() if "slower than" in line)
        assert "by the model" in warned
        assert "slower than" in repr(session.best) and "slower than" in repr(session)


def test_a_plan_of_library_calls_is_called_that(tmp_path: Path) -> None:
    source = """// null: passed 0.1
/* plan
def plan(x):
    return library("aten.mul.Scalar", x, 2.0)
*/
"""
    names: dict[str, Any] = {}
    problem, team = doubles.problem(), doubles.team()
    with optimize(problem, Policy(rounds=0), NullDevice(), team, tmp_path / "s") as session:
        session.wait(30)
        session.edit(None, source)
        session.wait(30)
        assert "no kernel of its own" in apply(session, names)
        session.edit(None, DOUBLE.replace("/* plan", "// null: passed 0.01\n/* plan"))
        session.wait(30)
        assert repr(names["double"]) == "<double: library calls of a plan, 0 calls, 0 fallbacks>"
        assert "no kernel of its own" not in apply(session, names)
        assert "a CUDA kernel" in repr(names["double"])


def test_nothing_to_apply_without_a_correct_kernel(tmp_path: Path) -> None:
    device = doubles.HeldDevice()
    with optimize(doubles.problem(), Policy(), device, doubles.team(), tmp_path / "s") as session:
        with pytest.raises(UsageError, match="no correct kernel"):
            apply(session, {})
        device.gate.set()


TURNED = """import torch
def turned(q, turns):
    return q * turns, (q * turns).abs()
inputs = [torch.randn(6, 8, dtype=torch.cfloat), torch.polar(torch.ones(8), torch.randn(8))]
"""


def test_complex_numbers_go_in_and_come_out_as_such() -> None:
    """A kernel knows pairs of real numbers; who calls it does not."""
    from problem.cells import opened

    from workbench.playbook.generate import generate

    names: dict[str, Any] = {}
    exec(TURNED, names)
    problem = opened(TURNED)
    applied = Applied(names["turned"], problem, generate(problem, ()).kernel.source, H100)
    q, turns = torch.randn(5, 8, dtype=torch.cfloat), torch.randn(8, dtype=torch.cfloat)
    made, length = applied(q, turns)
    torch.testing.assert_close(made, q * turns)
    torch.testing.assert_close(length, (q * turns).abs())
    torch.testing.assert_close(applied(q.conj(), turns=turns)[0], q.conj() * turns)
    assert (applied.kernel_calls, applied.fallback_calls) == (2, 0)
    assert not applied(q.real, turns)[1].is_complex()
    assert applied.fallback_calls == 1
    assert applied.last_fallback == "q is torch.float32; the kernel was made for complex numbers"
