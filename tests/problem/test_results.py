"""What a reference returns its results in: in order for everything else, and the same again for a person."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from tests.problem.cells import opened
from workbench.errors import ProblemError
from workbench.model import Problem, Returned
from workbench.problem.reference import Reference
from workbench.problem.refusals import check_outputs
from workbench.problem.results import maker, returned_as, together

X = "inputs = [torch.randn(4, 5)]\n"


ONE = torch.randn(3)


class Moments(NamedTuple):
    mean: Tensor
    spread: Tensor


@dataclass
class Fit:
    slope: Tensor
    offset: Tensor


@dataclass
class Guess:
    logits: Tensor
    loss: Tensor | None = None
    spread: Tensor | None = None


Pair = namedtuple("Pair", "one other")


def _moments(x: Tensor) -> Any:
    return Moments(x.mean(-1), x.std(-1))


def _fit(x: Tensor) -> Any:
    return Fit(x.mean(-1), offset=x.std(-1))


def _pair(x: Tensor) -> Any:
    return Pair(x.mean(-1), x.std(-1))


def _guess(x: Tensor) -> Any:
    return Guess(x.mean(-1), spread=x.std(-1))


class Layer(nn.Module):
    def forward(self, x: Tensor) -> Any:
        return _moments(x)


RETURNS: dict[str, Callable[[Tensor], Any]] = {
    "dict": lambda x: {"mean": x.mean(-1), "spread of all": x.std(-1)},
    "ordered": lambda x: OrderedDict(mean=x.mean(-1), spread=x.std(-1)),
    "list": lambda x: [x.mean(-1), x.std(-1)],
    "torch's own": lambda x: x.max(-1),
    "named tuple": _moments,
    "of a module": Layer(),
    "dataclass": _fit,
    "without a loss": _guess,
    "made by a call": _pair,
    "a state beside": lambda x: (x.mean(-1), (x.std(-1), x.amax(-1))),
    "no weights": lambda x: (x.mean(-1), None),
    "a dict of several": lambda x: {"all": [x.mean(-1), _moments(x)], "none": None, "nothing": ()},
    "in a dataclass": lambda x: Guess(x.mean(-1), spread={"of all": x.std(-1)}),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", RETURNS)
def test_there_and_back(name: str) -> None:
    reference = RETURNS[name]
    returned, how = reference(torch.randn(3, 4)), returned_as(reference(torch.randn(3, 4)))
    assert how is not None
    again = maker(how, reference)(tuple(together(returned)))
    assert type(again) is type(returned) and str(again) == str(returned)


def test_a_tensor_and_a_tuple_are_what_they_are() -> None:
    x = torch.randn(3)
    assert returned_as(x) is None and returned_as((x, x)) is None and together(x) is x
    for other in ({"x": x, "n": 3}, {1: x}, None, (x, (x, 3)), [x, {2: x}]):
        assert together(other) is other and returned_as(other) is None
    assert together((x, None, ())) == (x,) and together({}) == ()


def test_what_is_in_something_has_its_name_before_it() -> None:
    how = returned_as({"y": ONE, "state": (ONE, Moments(ONE, ONE)), "no": None})
    assert how is not None and how.result_names == ("y", "state.0", "state.1.mean", "state.1.spread")
    nested = returned_as((ONE, [ONE]))
    assert nested is not None and nested.result_names == ()


def test_a_type_that_is_nowhere_is_not_found() -> None:
    with pytest.raises(LookupError, match="returns a Nothing, which is not found"):
        maker(Returned(kind="somewhere:Nothing", names=("x",)), _moments)


HEAD = """from dataclasses import dataclass
from typing import NamedTuple

class Moments(NamedTuple):
    mean: torch.Tensor
    spread: torch.Tensor

@dataclass
class Fit:
    slope: torch.Tensor
    offset: torch.Tensor

def f(x):
    return """
CELLS = {
    "{'most': x.amax(-1), 'least': x.amin(-1)}": ("dict", ("most", "least")),
    "[x.amax(-1), x.amin(-1)]": ("list", ()),
    "Moments(x.amax(-1), x.amin(-1))": ("Moments", ("mean", "spread")),
    "Fit(x.amax(-1), x.amin(-1))": ("Fit", ("slope", "offset")),
}


def test_results_of_results_are_in_order() -> None:
    problem = opened(f"def f(x): return x.amax(-1), (x.amin(-1), {{'none': None, 'sum': x.sum(-1)}})\n{X}")
    assert Problem.model_validate_json(problem.model_dump_json()) == problem
    x = torch.randn(4, 5)
    for result, right in zip(
        Reference(problem).call({"x": x}), (x.amax(-1), x.amin(-1), x.sum(-1)), strict=True
    ):
        assert torch.equal(result, right)


@pytest.mark.parametrize("text", CELLS)
def test_a_problem_has_results_in_their_order(text: str) -> None:
    problem = opened(f"{HEAD}{text}\n{X}")
    assert problem.returns_tuple and problem.returned is not None
    assert (problem.returned.kind.partition(":")[2], problem.returned.names) == CELLS[text]
    assert Problem.model_validate_json(problem.model_dump_json()) == problem
    x = torch.randn(4, 5)
    most, least = Reference(problem).call({"x": x})
    assert torch.equal(most, x.amax(-1)) and torch.equal(least, x.amin(-1))


def test_complex_results_have_names_too() -> None:
    problem = opened(f"def f(x): return {{'there': torch.fft.fft(x), 'size': x.abs()}}\n{X}")
    assert [spec.in_pairs for spec in problem.outputs] == [True, False]
    assert opened(f"def f(x): return {{'y': x.exp()}}\n{X}").returned == Returned(
        kind="builtins:dict", names=("y",)
    )


def test_what_stands_in_for_a_tensor_is_called_one() -> None:
    """A reference that takes long is asked for its shapes alone first."""
    with FakeTensorMode():
        returned = {"y": torch.randn(3), "n": 3}
    with pytest.raises(ProblemError, match=r"a dict of \('y': Tensor, 'n': int\)"):
        check_outputs(returned)
