"""Every call of the plan language: its parameters, its defaults, and what it does.

Owns the table and the binding of arguments to parameters. Never evaluates an argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from workbench.errors import nearest
from workbench.plan import buffers
from workbench.plan.build import Build, integer
from workbench.plan.launches import launch
from workbench.plan.limits import RANGE
from workbench.plan.operators import truth
from workbench.plan.refusal import Refused
from workbench.plan.values import describe, is_number

Bound = dict[str, object]
_NEEDED = object()


class Uncovered(Exception):
    """A ``require`` said no; carries its reason."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call with parameters by position or name."""

    run: Callable[[Build, Bound], object]
    parameters: Mapping[str, object]
    """Name to default; ``_NEEDED`` marks one without."""

    def bind(self, name: str, args: list[object], kwargs: Mapping[str, object]) -> Bound:
        """Parameters by name. Raises ``Refused`` for one too many, unknown, missing or given twice."""
        names = list(self.parameters)
        if len(args) > len(names):
            raise Refused(f"{name}() takes at most {len(names)} arguments ({', '.join(names)})")
        bound = dict(zip(names, args, strict=False))
        for key, value in kwargs.items():
            if key not in self.parameters:
                hint = nearest(key, names) or f" It has: {', '.join(names)}."
                raise Refused(f"{name}() has no argument {key!r}.{hint}", (key,))
            if key in bound:
                raise Refused(f"{name}() is given {key} twice", (key,))
            bound[key] = value
        missing = [n for n, default in self.parameters.items() if default is _NEEDED and n not in bound]
        if missing:
            raise Refused(f"{name}() needs {', '.join(missing)}")
        return {**self.parameters, **bound}


def _cdiv(build: Build, given: Bound) -> int:
    """``cdiv(a, b)``: a / b rounded up."""
    top, bottom = integer(given["a"], "a", low=-(2**62)), integer(given["b"], "b", low=1)
    return -(-top // bottom)


def _next_pow2(build: Build, given: Bound) -> int:
    """``next_pow2(n)``: the smallest power of two that is at least n."""
    return 1 << (integer(given["n"], "n", low=1) - 1).bit_length()


def _len(build: Build, given: Bound) -> int:
    """``len(x)`` of a tuple, list, dict, string or range."""
    value = given["x"]
    if isinstance(value, tuple | list | dict | str | range):
        return len(value)
    raise Refused(f"len is not defined for {describe(value)}; a tensor has .ndim, .shape and .numel", ("x",))


def _require(build: Build, given: Bound) -> None:
    """``require(condition, reason)``: turn these inputs away when the condition is false."""
    reason = given["reason"]
    if not isinstance(reason, str):
        raise Refused(f"the reason of a require must be a string, not {describe(reason)}", ("reason",))
    if not truth(given["condition"]):
        raise Uncovered(reason or "the plan does not cover these inputs")


def smallest_or_largest(name: str, args: list[object]) -> object:
    """``min`` and ``max`` of numbers, or of one tuple of numbers."""
    items = list(args[0]) if len(args) == 1 and isinstance(args[0], tuple | list) else args
    if not items:
        raise Refused(f"{name}() needs at least one number")
    numbers = [item for item in items if isinstance(item, int | float)]
    if len(numbers) < len(items):
        wrong = next(item for item in items if not is_number(item))
        raise Refused(f"{name}() takes numbers, not {describe(wrong)}")
    return min(numbers) if name == "min" else max(numbers)


def make_range(args: list[object]) -> range:
    """``range(stop)``, ``range(start, stop)``, ``range(start, stop, step)``; bounded in length."""
    if not 1 <= len(args) <= 3:
        raise Refused(f"range() takes 1 to 3 whole numbers, {len(args)} given")
    start, stop, step = {1: [0, *args, 1], 2: [*args, 1]}.get(len(args), args)
    low = -(2**62)
    first, end = integer(start, "start", low), integer(stop, "stop", low)
    stride = integer(step, "step", low)
    if stride == 0:
        raise Refused("the step of a range cannot be 0")
    count = (end - first + stride - (1 if stride > 0 else -1)) // stride
    if count > RANGE:
        raise Refused(f"a range of {count} numbers; {RANGE} are allowed")
    return range(first, end, stride)


CALLS: Mapping[str, Call] = {
    "empty": Call(buffers.empty, {"shape": _NEEDED, "dtype": _NEEDED}),
    "zeros": Call(buffers.zeros, {"shape": _NEEDED, "dtype": _NEEDED}),
    "empty_like": Call(buffers.empty_like, {"x": _NEEDED, "dtype": None}),
    "view": Call(buffers.view, {"x": _NEEDED, "shape": _NEEDED, "strides": None, "offset": 0}),
    "launch": Call(
        launch,
        {
            "kernel": _NEEDED,
            "grid": _NEEDED,
            "block": _NEEDED,
            "args": (),
            "const": {},
            "smem": 0,
            "cluster": None,
            "cooperative": False,
        },
    ),
    "require": Call(_require, {"condition": _NEEDED, "reason": ""}),
    "cdiv": Call(_cdiv, {"a": _NEEDED, "b": _NEEDED}),
    "next_pow2": Call(_next_pow2, {"n": _NEEDED}),
    "len": Call(_len, {"x": _NEEDED}),
}
"""Calls with named parameters; ``min``, ``max``, ``range``, ``library``, ``tensor_map`` take any number."""
