"""PyTorch's own list of its operators and modules, with PyTorch's own inputs for them, as cells.

Owns the choice of samples and the text of a cell; never opens or judges one. The list is the one that
PyTorch tests itself with.
"""

from __future__ import annotations

import itertools
import sys
import types
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

LOOKED_AT = 40
"""Samples of an operator among which some are chosen."""
MOST_ELEMENTS = 2**14
_PLACES = (torch, torch.nn.functional, torch.special, torch.linalg, torch.fft, torch.Tensor)


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator or a module class, by the name that its row has."""

    name: str
    samples: Callable[[torch.dtype], Iterator[Sample]] = field(repr=False)


@dataclass(frozen=True, eq=False)
class Sample:
    """One call. ``text`` is the expression over tensors x0, x1 ...; ``names`` are objects it mentions."""

    text: str
    tensors: tuple[Tensor, ...]
    names: Mapping[str, Any]
    module: torch.nn.Module | None = None

    @property
    def shown(self) -> str:
        """The call and its tensors, for a receipt."""
        shapes = (f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in self.tensors)
        return f"{self.text} of {', '.join(shapes)}"

    @property
    def cell(self) -> str:
        """A cell with the call as its reference; ``names`` and ``given`` are a notebook's."""
        names = ", ".join(f"x{number}" for number in range(len(self.tensors)))
        return f"import torch\n\ndef op({names}):\n    return {self.text}\n\ninputs = given\n"


def operators() -> list[Operator]:
    """Every operator, then every module class, each name once."""
    if "expecttest" not in sys.modules:  # the list's module has test classes too, which nobody runs here
        stand_in: Any = types.ModuleType("expecttest")
        stand_in.TestCase = unittest.TestCase
        sys.modules["expecttest"] = stand_in
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.common_modules import module_db

    found: dict[str, Operator] = {}
    for info in op_db:
        name = f"{info.name}/{info.variant_test_name}" if info.variant_test_name else info.name
        found.setdefault(name, Operator(name, lambda dtype, info=info: _calls(info, dtype)))
    for info in module_db:
        found.setdefault(info.name, Operator(info.name, lambda dtype, info=info: _layers(info, dtype)))
    return list(found.values())


def chosen(operator: Operator, dtype: torch.dtype, count: int) -> list[Sample]:
    """Up to ``count`` samples that differ in more than their values; those of tensors with elements first."""
    torch.manual_seed(0)
    looked_at = list(itertools.islice(operator.samples(dtype), LOOKED_AT))
    good = [sample for sample in looked_at if _is_good(sample)]
    rows = [sample for sample in good if max(t.ndim for t in sample.tensors) > 1]
    kinds: dict[Any, Sample] = {}
    for sample in (*rows[:1], *good, *looked_at[: 0 if good else 1]):
        kinds.setdefault(_kind(sample), sample)
    found = list(kinds.values())
    # The first, and then some from all over: the ends of the list have the rarer arguments.
    step = max(1, (len(found) - 1) // max(1, count - 1)) if count > 1 else 1
    return [found[0], *found[-1:0:-step][: count - 1]] if found else []


def _is_good(sample: Sample) -> bool:
    return bool(sample.tensors) and all(0 < t.numel() <= MOST_ELEMENTS for t in sample.tensors)


def _kind(sample: Sample) -> Any:
    ranks = tuple((t.ndim, t.dtype) for t in sample.tensors)
    return sample.text, ranks


# ------------------------------------------------------------------------------------ calls as text


def _calls(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    wishes = (dtype, torch.float32, torch.int64, *sorted(info.dtypes, key=str))
    wanted = next((wish for wish in wishes if wish in info.dtypes), dtype)
    for given in info.sample_inputs("cpu", wanted, requires_grad=False):
        yield _call(_function(info), (given.input, *given.args), given.kwargs)


def _layers(info: Any, dtype: torch.dtype) -> Iterator[Sample]:
    wanted = dtype if dtype in info.dtypes else torch.float32
    for given in info.module_inputs_func(
        info, device="cpu", dtype=wanted, requires_grad=False, training=False
    ):
        if given.forward_input is None:
            continue
        made, called = given.constructor_input, given.forward_input
        layer = info.module_cls(*made.args, **made.kwargs).to(wanted).eval()
        sample = _call("layer", called.args, called.kwargs)
        yield Sample(
            sample.text.replace("layer", repr(layer).split("\n")[0], 1), sample.tensors, sample.names, layer
        )


def _function(info: Any) -> str | Callable[..., Any]:
    """Its name, where it has one that leads to it."""
    for place in _PLACES:
        last = info.name.rpartition(".")[2]
        if getattr(place, last, None) is info.op:
            owner = "torch.Tensor" if place is torch.Tensor else place.__name__
            return f"{owner}.{last}"
    return info.op  # type: ignore[no-any-return]


def _call(function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Sample:
    writing = _Writing()
    called = writing.text(function) if not isinstance(function, str) else function
    words = [writing.text(value) for value in args]
    words += [f"{name}={writing.text(value)}" for name, value in kwargs.items()]
    return Sample(f"{called}({', '.join(words)})", tuple(writing.tensors), writing.names)


class _Writing:
    """Values as Python text; tensors by number, what has no text of its own as a name."""

    def __init__(self) -> None:
        self.tensors: list[Tensor] = []
        self.names: dict[str, Any] = {}

    def text(self, value: Any) -> str:
        match value:
            case Tensor():
                self.tensors.append(value.detach())
                return f"x{len(self.tensors) - 1}"
            case bool() | int() | str() | None:
                return repr(value)
            case float():
                return repr(value) if value - value == 0 else f"float('{value}')"
            case torch.dtype() | torch.memory_format() | torch.layout():
                return str(value)
            case list() if type(value) is list:
                return f"[{', '.join(map(self.text, value))}]"
            case tuple() if type(value) in (tuple, torch.Size):
                return f"({''.join(f'{self.text(item)}, ' for item in value).rstrip(' ')})"
            case dict() if type(value) is dict:
                return f"{{{', '.join(f'{k!r}: {self.text(item)}' for k, item in value.items())}}}"
            case slice():
                return f"slice({', '.join(map(self.text, (value.start, value.stop, value.step)))})"
            case types.EllipsisType():
                return "..."
            case _:
                name = f"given_{getattr(value, '__name__', type(value).__name__)}".replace(".", "_")
                name = name.replace("<lambda>", "function")
                self.names[name] = value
                return name
