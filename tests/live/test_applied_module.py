"""An applied module stands wherever the original may: in a larger model, a list of layers, as a base."""

from __future__ import annotations

import copy
import io
from pathlib import Path
from typing import Any

import doubles
import pytest
import torch
from test_applied import SCALE, Scale, scale_problem
from torch import Tensor, nn

from workbench.devices.null import NullDevice
from workbench.live import optimize
from workbench.live.applied import Applied
from workbench.live.applied_module import applied_class, applied_module, original_behind
from workbench.live.apply import apply, restore
from workbench.model import H100
from workbench.policy import Policy


def made(target: Any) -> Applied:
    return Applied(target, scale_problem(), SCALE, H100)


@pytest.fixture
def kind() -> Any:
    return applied_class(Scale, made)


def test_instances_run_the_kernel_in_evaluation_mode(kind: Any) -> None:
    module = kind(4)
    with torch.no_grad():
        assert torch.equal(module(torch.ones(1, 4)), torch.arange(4.0)[None])
    assert (module.kernel_calls, module.fallback_calls, module.training) == (1, 0, False)
    module(torch.ones(1, 4))
    assert "gradient" in module.last_fallback
    assert repr(module) == "<Scale: a CUDA kernel, 1 calls, 1 fallbacks>"


def test_a_larger_model_has_its_parameters(kind: Any) -> None:
    class Larger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = kind(4)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.scale(x)
            return out

    larger = Larger()
    assert list(larger.state_dict()) == ["scale.weight"]
    assert len(list(larger.parameters())) == 1
    larger.load_state_dict({"scale.weight": torch.full((4,), 5.0)})
    with torch.no_grad():
        assert torch.equal(larger(torch.ones(2, 4)), torch.full((2, 4), 5.0))
    assert larger.scale.kernel_calls == 1
    assert larger.double().scale.weight.dtype == torch.float64
    with torch.no_grad():
        assert larger(torch.ones(2, 4, dtype=torch.float64)).dtype == torch.float64
    assert "f64" in larger.scale.last_fallback


def test_layers_and_questions_about_the_class(kind: Any) -> None:
    module = kind(4)
    assert isinstance(module, nn.Module) and isinstance(module, kind) and isinstance(module, Scale)
    assert len(nn.Sequential(module, nn.ReLU())) == 2
    assert (kind.__name__, kind.__doc__) == ("Scale", Scale.__doc__)


def test_a_class_derived_from_it_answers_by_itself(kind: Any) -> None:
    class Twice(kind):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = 2 * super().forward(x)
            return out

    module = Twice(4)
    assert torch.equal(module(torch.ones(1, 4)), 2 * torch.arange(4.0)[None])
    assert (module.kernel_calls, module.fallback_calls, module.last_fallback) == (0, 0, "")
    assert "Twice" in repr(copy.deepcopy(module))


def test_an_original_that_names_its_class_in_super() -> None:
    names: dict[str, Any] = {"nn": nn, "torch": torch}
    text = SCALE_BY_NAME.format(body="super(Named, self).__init__()")
    exec(text, names)
    names["Named"] = applied_class(names["Named"], made)
    module = names["Named"](4)
    with torch.no_grad():
        module(torch.ones(1, 4))
    assert module.kernel_calls == 1


SCALE_BY_NAME = """
class Named(nn.Module):
    def __init__(self, cols):
        {body}
        self.weight = nn.Parameter(torch.arange(float(cols)))
    def forward(self, x):
        return x * self.weight
"""


def test_a_copy_has_weights_and_a_kernel_of_its_own(kind: Any) -> None:
    module = kind(4)
    copied = copy.deepcopy(module)
    with torch.no_grad():
        copied.weight.fill_(9.0)
        assert torch.equal(copied(torch.ones(1, 4)), torch.full((1, 4), 9.0))
        assert torch.equal(module(torch.ones(1, 4)), torch.arange(4.0)[None])
    assert (copied.kernel_calls, module.kernel_calls) == (1, 1)


def test_a_file_holds_the_original(kind: Any) -> None:
    file = io.BytesIO()
    torch.save(kind(4), file)
    file.seek(0)
    read = torch.load(file, weights_only=False)
    assert type(read) is Scale
    assert torch.equal(read.weight, torch.arange(4.0))


def test_a_module_of_the_notebook_shares_its_state() -> None:
    module = Scale(4)
    front = applied_module(module, made(module), made)
    assert isinstance(front, Scale) and front.weight is module.weight
    front.train()
    front.weight = nn.Parameter(torch.full((4,), 6.0))
    assert module.training and module.weight is front.weight
    with torch.no_grad():
        assert torch.equal(front(torch.ones(1, 4)), torch.full((1, 4), 6.0))
    assert front.kernel_calls == 1
    assert original_behind(front) is module


@pytest.mark.parametrize("as_class", [True, False])
def test_from_name_to_name_and_back(tmp_path: Path, as_class: bool) -> None:
    problem = scale_problem().model_copy(update={} if as_class else {"kind": "module_instance"})
    own = Scale if as_class else Scale(4)
    names: dict[str, Any] = {"Scale": own}
    with optimize(problem, Policy(rounds=0), NullDevice(), doubles.team(), tmp_path / "s") as live:
        live.edit(None, SCALE.replace("/* plan", "// null: passed 0.1\n/* plan"))
        live.wait(30)
        apply(live, names)
        apply(live, names)  # a newer kernel takes the place of the older, not a place in front of it
        module = names["Scale"](4) if as_class else names["Scale"]
        with torch.no_grad():
            assert torch.equal(module(torch.ones(1, 4)), torch.arange(4.0)[None])
        assert isinstance(module, nn.Module) and module.kernel_calls == 1
    assert restore("Scale", names) == "Scale is the original again."
    assert names["Scale"] is own
