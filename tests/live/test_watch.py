"""An applied kernel notices when Python values that its original reads are not those it was made with."""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any

import doubles
import pytest
import torch
from test_applied import DOUBLE
from torch import Tensor, nn

from workbench.live.applied import Applied
from workbench.live.captured import captured
from workbench.live.watch import Watch
from workbench.model import H100

SCALE = 2.0
BIAS = {"eps": 0.0, "unused": [1, 2]}
SIZES = [1, 2]
BUILT_IN = {"w": torch.ones(2)}


@dataclasses.dataclass
class Settings:
    """Values in an object."""

    gain: float = 1.0
    label: str = "not read"


SETTINGS = Settings()


def helper(x: Tensor) -> Tensor:
    return x * SCALE


def fused(x: Tensor, *, power: int = 1) -> Tensor:
    return helper(x) * SETTINGS.gain + BIAS["eps"]


class Scaled(nn.Module):
    """A module with a number, a mode, a loop over layers and a method."""

    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.g = 1.0
        self.unread = 5
        self.norm = nn.LayerNorm(4)
        self.drop = nn.Dropout(0.25)

    def shift(self, x: Tensor) -> Tensor:
        return x * self.factor

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(self.shift(x) * self.g))


def told(watch: Watch) -> str:
    """What a call would be told."""
    return "" if watch.state.same() and not watch.state.told else watch.look_again().told


def watch_of(target: Callable[..., Any]) -> Watch:
    watch = Watch(lambda: target)
    assert told(watch) == ""
    return watch


def test_a_global_that_a_helper_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    applied = Applied(fused, doubles.problem(), DOUBLE, H100)
    x = torch.ones(2, 2)
    assert torch.equal(applied(x), fused(x)) and applied.kernel_calls == 1
    monkeypatch.setitem(globals(), "SCALE", 100.0)
    for _ in range(2):
        assert torch.equal(applied(x), 100 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (1, 2)
    assert applied.last_fallback == "SCALE is 100.0; the kernel was made for 2.0"
    monkeypatch.setitem(globals(), "SCALE", float("2"))  # the same number, another object
    assert torch.equal(applied(x), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (2, 2)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda p: p.setitem(BIAS, "eps", 1.0), "BIAS['eps'] is 1.0; the kernel was made for 0.0"),
        (lambda p: p.setitem(BIAS, "new", 1.0), "BIAS['new'] is new: 1.0"),
        (lambda p: p.delitem(BIAS, "unused"), "BIAS['unused'] is gone"),
        (lambda p: p.setattr(SETTINGS, "gain", 3.0), "SETTINGS.gain is 3.0; the kernel was made for 1.0"),
        (lambda p: p.setitem(globals(), "SETTINGS", Settings(4.0)), "SETTINGS.gain is 4.0"),
        (lambda p: p.setitem(globals(), "SCALE", 2), "SCALE is 2; the kernel was made for 2.0"),
        (lambda p: p.setitem(globals(), "SCALE", torch.ones(1)), "SCALE is a tensor"),
        (lambda p: p.setitem(globals(), "helper", lambda x: x + SCALE), "helper was redefined"),
        (lambda p: p.setattr(helper, "__code__", (lambda x: x - SCALE).__code__), "helper was redefined"),
        (lambda p: p.setitem(fused.__kwdefaults__, "power", 2), "fused's default power is 2"),
    ],
)
def test_what_a_function_reads(
    change: Callable[[pytest.MonkeyPatch], None], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = watch_of(fused)
    with monkeypatch.context() as patch:
        change(patch)
        assert told(watch).startswith(reason)
        assert told(watch).startswith(reason)
    assert told(watch) == ""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda m: setattr(m, "g", 5.0), "g is 5.0; the kernel was made for 1.0"),
        (lambda m: setattr(m, "factor", 5.0), "factor is 5.0; the kernel was made for 2.0"),
        (lambda m: setattr(m.norm, "eps", 1.0), "norm.eps is 1.0; the kernel was made for 1e-05"),
        (lambda m: m.train(), "Dropout is in training mode; the kernel is of evaluation mode"),
        (lambda m: setattr(m, "norm", nn.Identity()), "norm is Identity; the kernel was made for LayerNorm"),
        (lambda m: m.register_forward_hook(lambda *_: None), "hooks of Scaled: 1; the kernel was made for 0"),
        (lambda m: setattr(m, "forward", lambda x: x), "forward was redefined"),
        (lambda m: setattr(m, "shift", lambda x: x), "shift was redefined"),
    ],
)
def test_what_a_module_reads(change: Callable[[Scaled], None], reason: str) -> None:
    module = Scaled().eval()
    watch = watch_of(module)
    change(module)
    assert told(watch).startswith(reason)


def test_what_nothing_reads_may_change(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Scaled().eval()
    watch, other = watch_of(module), watch_of(fused)
    module.unread = 6
    monkeypatch.setattr(SETTINGS, "label", "changed")
    assert watch.state.same() and other.state.same()


def test_a_class_attribute_and_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = watch_of(Scaled().eval())
    with monkeypatch.context() as patch:
        patch.setattr(Scaled, "factor", 7.0)
        assert told(watch).startswith("factor is 7.0")
    with monkeypatch.context() as patch:
        patch.setattr(Scaled, "shift", lambda self, x: x)
        assert told(watch) == "shift was redefined; the kernel was made for what it did before"
    assert told(watch) == ""


def test_a_layer_replaced_by_one_that_is_alike_gives_the_kernel_its_tensors() -> None:
    from test_applied import SCALE as KERNEL
    from test_applied import Scale, scale_problem

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Scale(4)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x)

    problem = scale_problem()
    x, weight = problem.tensors
    outer = Outer()
    problem = problem.model_copy(
        update={"tensors": (x, weight.model_copy(update={"name": "inner_weight", "path": "inner.weight"}))}
    )
    applied = Applied(outer, problem, KERNEL.replace("weight", "inner_weight"), H100)
    with torch.no_grad():
        x = torch.ones(2, 4)
        assert torch.equal(applied(x), outer(x)) and applied.kernel_calls == 1
        outer.inner = Scale(4)
        outer.inner.weight.fill_(9.0)
        assert torch.equal(applied(x), 9 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (2, 0)


def test_captured_variables_partials_and_lists() -> None:
    factor = 2.0
    sizes = [1, 2]

    def inner(x: Tensor, by: float) -> Tensor:
        return (x * factor).roll(sizes) * by

    watch = watch_of(functools.partial(inner, by=3.0))
    factor = 4.0
    assert told(watch) == "factor is 4.0; the kernel was made for 2.0"
    factor = 2.0
    assert told(watch) == ""
    sizes.append(3)
    assert told(watch) == "sizes[2] is new: 3; the kernel was made without it"


def test_a_tensor_that_was_built_into_the_kernel() -> None:
    def read(x: Tensor) -> Tensor:
        return x * BUILT_IN["w"]

    watch = watch_of(read)
    BUILT_IN["w"].mul_(2)
    assert told(watch) == "BUILT_IN['w'] has other values; the kernel has those of before built in"
    BUILT_IN["w"] = torch.ones(2)
    assert told(watch) == ""


def test_the_same_text_again_is_no_other_helper() -> None:
    text = "def helper(x):\n    return [v * (1.5 if v else 2) for v in x]\n"
    one: dict[str, Any] = {}
    exec(text, one)
    exec("def f(x):\n    return helper(x)\n", one)
    watch = watch_of(one["f"])
    exec("\n\n" + text, one)
    assert not watch.state.same() and told(watch) == ""
    exec(text.replace("1.5", "2.5"), one)
    assert told(watch).startswith("helper was redefined")


def test_the_words_name_what_is_watched_and_what_is_fixed() -> None:
    place = types.SimpleNamespace(numbers=torch.Generator())

    def drawn(x: Tensor) -> Tensor:
        return fused(x) + torch.rand(1, generator=place.numbers)

    words = watch_of(drawn).words()
    assert all(name in words for name in ("SCALE", "SETTINGS.gain", "BIAS['eps']", "fused's default power"))
    assert "drawn" not in words and "label" not in words
    assert "Fixed as now, because no change in them can be seen: place.numbers (Generator)" in words


def test_a_kernel_made_for_other_values_falls_back_from_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = captured(fused)
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    applied = Applied(fused, doubles.problem(), DOUBLE, H100)
    applied.made_for(made)
    assert "already: SCALE is 3.0; the kernel was made for 2.0." in applied.watch.words()
    assert torch.equal(applied(torch.ones(2, 2)), torch.full((2, 2), 3.0))
    assert applied.fallback_calls == 1


def test_an_attribute_set_on_the_applied_module_is_the_modules() -> None:
    module = Scaled().eval()
    applied = Applied(module, doubles.problem(), DOUBLE, H100)
    applied.g = 5.0
    assert module.g == 5.0
    applied(torch.ones(2, 4))
    assert applied.last_fallback == "g is 5.0; the kernel was made for 1.0"


def test_an_argument_that_the_inputs_did_not_have() -> None:
    def scaled(x: Tensor, factor: float = 2.0) -> Tensor:
        return x * factor

    applied = Applied(scaled, doubles.problem(), DOUBLE, H100)
    x = torch.ones(2, 2)
    assert torch.equal(applied(x, 3.0), 3 * x) and torch.equal(applied(x, factor=4.0), 4 * x)
    assert applied.last_fallback == "factor is 4.0; the kernel was made for 2.0"
    assert torch.equal(applied(x, 2.0), 2 * x)
    assert (applied.kernel_calls, applied.fallback_calls) == (1, 2)


def test_a_wrong_call_shows_the_originals_error_alone() -> None:
    applied = Applied(fused, doubles.problem(), DOUBLE, H100)
    with pytest.raises(TypeError) as caught:
        applied()
    assert caught.value.__context__ is None
