"""Axes that a loop of the reference goes along in Python: their size says how many operations there are.

The export would find that out by itself, and fix them, after it has carried the size through every step of
the loop: an expression that grows with each step, and minutes of algebra. Owns which axes are fixed before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode

from workbench.problem.form import Form
from workbench.problem.meeting_sizes import Axis
from workbench.problem.recurrent import whole
from workbench.problem.reference import run
from workbench.problem.running import quiet

LONG = 40
"""Torch functions that a reference calls at least, for its loops to be looked at: others are quick."""
SHORTEST = 8
"""Elements of an axis that a loop along it is worth fixing it for."""

Calls = Callable[[tuple[Axis, ...], int], int | None]


def unrolled(form: Form, inputs: Mapping[str, Tensor], held: Mapping[str, Tensor]) -> tuple[Axis, ...]:
    """Axes of inputs, by name and place, that a loop goes along step by step; needs no data.

    An axis that the reference takes at no other size alone is tried along with those of its size.
    """

    unchanged = _calls(form, inputs, held, (), 0) or 0
    if unchanged < LONG:
        return ()

    @cache
    def calls(axes: tuple[Axis, ...], size: int) -> int | None:
        return _calls(form, inputs, held, axes, size)

    found: list[Axis] = []
    tied: dict[int, list[Axis]] = {}
    for name, tensor in inputs.items():
        for axis, size in enumerate(tensor.shape):
            if size < SHORTEST:
                continue
            if calls(((name, axis),), size // 2) is None:
                tied.setdefault(size, []).append((name, axis))
            elif _decides(calls, ((name, axis),), size, unchanged):
                found.append((name, axis))
    for size, axes in tied.items():
        if len(axes) > 1 and _decides(calls, tuple(axes), size, unchanged):
            found += axes
    return tuple(found)


def _decides(calls: Calls, axes: tuple[Axis, ...], size: int, unchanged: int) -> bool:
    """True where half the size takes fewer operations than the whole, and no size nearby just as many.

    A loop that doubles its step has as many at a whole range of sizes: the export keeps the range.
    """
    half = calls(axes, size // 2)
    if half is None or unchanged <= half:
        return False
    quarter = calls(axes, size // 4)
    if quarter is None or half <= quarter:
        return False
    return all(calls(axes, near) != unchanged for near in (size - 1, size + 1, size * 3 // 4))


def _calls(
    form: Form, inputs: Mapping[str, Tensor], held: Mapping[str, Tensor], axes: Collection[Axis], size: int
) -> int | None:
    """Torch functions that the reference calls where some axes have another size; None where it fails."""
    changed = {name: list(tensor.shape) for name, tensor in inputs.items()}
    for name, axis in axes:
        changed[name][axis] = size
    counted = _Counted()
    with FakeTensorMode(allow_non_fake_inputs=True), quiet():
        try:
            fakes = {
                name: torch.empty(changed.get(name, tensor.shape), dtype=tensor.dtype)
                for name, tensor in {**inputs, **held}.items()
            }
            with counted:
                run(form, fakes)
        except Exception:  # whatever it does not take: the export tells what it does
            return None
    return counted.calls


class _Counted(TorchFunctionMode):
    """Counts the torch functions that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.calls += 1
        return whole(func, args)(*args, **(kwargs or {}))
