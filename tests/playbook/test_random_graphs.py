"""Random graphs over the supported operations, shapes, types and technique vectors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.playbook.problems import problem_of
from tests.playbook.running import check, plan_of
from workbench.compile import compile_kernel
from workbench.model import CompileReport, Vector
from workbench.playbook.generate import generate
from workbench.playbook.techniques.table import TECHNIQUES

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

import random_graphs
from graph_maker import COLUMNS_FROM, LAST_FROM, WINDOWS_FROM

DRAWN, WINDOWED, TOGETHER = 320, 64, 32


SIZES = st.sampled_from([1, 2, 3, 5, 8, 16, 33])
UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
    "exp": lambda x: torch.exp(-x.abs()),
    "log1p": lambda x: torch.log1p(x.abs()),
    "sqrt": lambda x: torch.sqrt(x.abs() + 1),
    "affine": lambda x: 2 * x - 0.5,
    "clamp": lambda x: x.clamp(-1, 1),
    "gelu": torch.nn.functional.gelu,
}
BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": lambda x, y: x - 0.5 * y,
    "mul": torch.mul,
    "max": torch.maximum,
    "where": lambda x, y: torch.where(x > y, x, y),
    "div": lambda x, y: x / (1 + y.abs()),
}
ALONG: dict[str, Callable[[Tensor, int], Tensor]] = {
    "softmax": torch.softmax,
    "log_softmax": torch.log_softmax,
    "centre": lambda x, axis: x - x.mean(axis, keepdim=True),
    "scale": lambda x, axis: x / (1e-3 + x.pow(2).mean(axis, keepdim=True)).sqrt(),
    "sum": lambda x, axis: x.sum(axis, keepdim=True) / x.shape[axis] + x,
    "max": lambda x, axis: x - x.amax(axis, keepdim=True),
    "flip": lambda x, axis: x.flip(axis),
    "half": lambda x, axis: x.narrow(axis, 0, (x.shape[axis] + 1) // 2),
}
LAST: dict[str, Callable[[Tensor, int], Tensor]] = {
    "same": lambda x, axis: x,
    "mean": lambda x, axis: x.mean(axis),
    "logsumexp": torch.logsumexp,
    "var": lambda x, axis: x.var(axis, correction=0),
    "total": lambda x, axis: x.square().mean(),
    "transpose": lambda x, axis: x.transpose(0, axis),
    "flat": lambda x, axis: x.transpose(0, axis).reshape(-1),
    "any": lambda x, axis: (x > 1e30).any(axis),
}


@dataclass(frozen=True)
class Step:
    """One operation on the value so far."""

    kind: str
    name: str
    axis: int
    other: int


@dataclass(frozen=True)
class Recipe:
    """A whole function and its inputs."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    broadcast: tuple[int, ...]
    """Axes along which the second input has size one."""
    steps: tuple[Step, ...]
    last: tuple[str, ...]

    def tensors(self) -> dict[str, Tensor]:
        torch.manual_seed(len(self.steps))
        small = [1 if axis in self.broadcast else size for axis, size in enumerate(self.shape)]
        x, y = torch.randn(self.shape), torch.randn(small)
        return {"x": x.to(self.dtype), "y": y.to(self.dtype)}

    def __call__(self, tensors: dict[str, Tensor]) -> tuple[Tensor, ...]:
        value = tensors["x"]
        for step in self.steps:
            axis = step.axis % value.ndim
            match step.kind:
                case "unary":
                    value = UNARY[step.name](value)
                case "binary":
                    fits = value.shape == tensors["x"].shape
                    value = BINARY[step.name](value, tensors["y"] if step.other and fits else value)
                case _:
                    value = ALONG[step.name](value, axis)
        return tuple(LAST[name](value, position % value.ndim) for position, name in enumerate(self.last, 1))


def steps() -> st.SearchStrategy[Step]:
    names = [("unary", n) for n in UNARY] + [("binary", n) for n in BINARY] + [("along", n) for n in ALONG]
    return st.builds(
        lambda pair, axis, other: Step(*pair, axis, other),
        st.sampled_from(names),
        st.integers(0, 3),
        st.integers(0, 1),
    )


def recipes() -> st.SearchStrategy[Recipe]:
    return st.builds(
        Recipe,
        shape=st.lists(SIZES, min_size=1, max_size=4).map(tuple),
        dtype=st.sampled_from([torch.float32, torch.float32, torch.float16, torch.bfloat16]),
        broadcast=st.sets(st.integers(0, 3), max_size=2).map(lambda axes: tuple(sorted(axes))),
        steps=st.lists(steps(), min_size=1, max_size=5).map(tuple),
        last=st.lists(st.sampled_from(list(LAST)), min_size=1, max_size=2).map(tuple),
    )


def vectors() -> st.SearchStrategy[Vector]:
    choices = {name: st.sampled_from(technique.values) for name, technique in TECHNIQUES.items()}
    return st.fixed_dictionaries(choices).map(lambda chosen: tuple(sorted(chosen.items())))


def matches_float64(recipe: Recipe, vector: Vector, varying: bool) -> None:
    problem = problem_of(recipe, recipe.tensors(), "op", varying)
    check(recipe, generate(problem, vector).kernel.source, recipe.tensors(), "checked")


SLOW = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example)


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(recipes(), vectors(), st.booleans())
def test_random_graphs_match_float64(recipe: Recipe, vector: Vector, varying: bool) -> None:
    matches_float64(recipe, vector, varying)


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=SLOW)
@given(recipes(), vectors())
def test_more_random_graphs_and_nvrtc(recipe: Recipe, vector: Vector) -> None:
    problem = problem_of(recipe, recipe.tensors())
    source = generate(problem, vector).kernel.source
    check(recipe, source, recipe.tensors())
    instances = plan_of(source, recipe.tensors()).instances
    if instances:
        report = compile_kernel(source, instances)
        assert isinstance(report, CompileReport), report


@pytest.mark.parametrize(
    "first",
    [
        *range(0, DRAWN, TOGETHER),
        *range(WINDOWS_FROM, WINDOWS_FROM + WINDOWED, TOGETHER),
        *range(LAST_FROM, LAST_FROM + WINDOWED, TOGETHER),
        *range(COLUMNS_FROM, COLUMNS_FROM + WINDOWED, TOGETHER),
    ],
)
def test_drawn_graphs_match_float64(first: int) -> None:
    outcomes = random_graphs.batch(list(range(first, first + TOGETHER)))
    assert len(outcomes) == TOGETHER
    assert not [f"seed {o.seed}: {o.failure}" for o in outcomes if o.failure]


pytestmark = pytest.mark.sweep
