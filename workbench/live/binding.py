"""From a call's arguments to the tensors of a plan, without working out the signature each time.

Owns the patterns of calls seen so far: how many arguments by position, which by keyword. Imports no torch.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.live.kernel_call import NotRun
from workbench.model import Problem

if TYPE_CHECKING:
    from workbench.problem.form import Form, Held


LONGEST = 60
"""Characters of a value in a reason."""


@dataclass(frozen=True)
class _At:
    """Stands for the argument of that number while a pattern is learnt."""

    index: int


@dataclass(frozen=True)
class _Pattern:
    """Where a call of one pattern has its values: numbers into positional, keyword, held ones in a row."""

    tensors: tuple[int, ...]
    statics: tuple[tuple[int, str, Any], ...]
    """Number, name and the value the kernel was made for."""
    plain: bool
    """True when the positional arguments are the plan's tensors, in its order, and nothing else matters."""


class Binding:
    """``binding(args, kwargs)`` gives the tensors in the order of ``names``; thread-safe."""

    def __init__(self, form: Form, problem: Problem, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._form, self._problem = form, problem
        roles = {spec.name: spec.role for spec in problem.tensors}
        held = [name for name in self.names if roles[name] != "input"]
        self._held_index = {name: index for index, name in enumerate(held)}
        self._held = tuple(reader(form.held[name]) for name in held)
        complex_ones = {spec.name for spec in problem.tensors if spec.in_pairs}
        self._in_pairs = tuple(index for index, name in enumerate(self.names) if name in complex_ones)
        self._patterns: dict[Any, _Pattern] = {}
        self.plain_count = -1
        """Positional arguments that are all of the plan's tensors, in its order; -1: not known."""

    def __call__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The values, unchecked. Raises ``NotRun`` for a call the kernel was not made for."""
        shape = (len(args), *kwargs) if kwargs else len(args)
        pattern = self._patterns.get(shape)
        if pattern is None:
            pattern = self._patterns[shape] = self._learn(args, kwargs)
            if pattern.plain:
                self.plain_count = len(args)
        if pattern.plain:
            return list(args)
        values = (*args, *kwargs.values()) if kwargs else args
        if self._held:
            values = (*values, *[read() for read in self._held])
        for index, name, wanted in pattern.statics:
            value = values[index]
            if value is not wanted and not (type(value) is type(wanted) and _equal(value, wanted)):
                raise NotRun(f"{name} is {_shown(value)}; the kernel was made for {_shown(wanted)}")
        tensors = [values[index] for index in pattern.tensors]
        for index in self._in_pairs:
            tensors[index] = _pairs_of(tensors[index], self.names[index])
        return tensors

    def _learn(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> _Pattern:
        count = len(args) + len(kwargs)
        given, beside = _arguments(
            self._form,
            tuple(_At(index) for index in range(len(args))),
            {name: _At(len(args) + index) for index, name in enumerate(kwargs)},
        )
        places = []
        for name in self.names:
            if name in self._held_index:
                places.append(count + self._held_index[name])
                continue
            place = given.get(name)
            if not isinstance(place, _At):
                raise NotRun(f"{name} is {type(place).__name__}, not a tensor")
            places.append(place.index)
        statics = [(place.index, name, default) for place, name, default in beside]
        for static in self._problem.statics:
            place = given.get(static.name, static.value)
            if isinstance(place, _At):
                statics.append((place.index, static.name, static.value))
            elif place != static.value:
                raise NotRun(f"{static.name} is {place!r}; the kernel was made for {static.value!r}")
        in_order = not kwargs and places == list(range(len(args))) and not self._in_pairs
        return _Pattern(tuple(places), tuple(statics), in_order and not statics)


def _pairs_of(value: Any, name: str) -> Any:
    """A complex tensor as a kernel knows it. Raises ``NotRun`` for what is none."""
    if not getattr(value, "dtype", None) or not value.dtype.is_complex:
        raise NotRun(
            f"{name} is {_shown(getattr(value, 'dtype', value))}; the kernel was made for complex numbers"
        )
    from workbench.problem.pairs import as_pairs

    return as_pairs(value)


def _equal(value: Any, wanted: Any) -> bool:
    """Equality that is a plain yes: of tensors and arrays it is not."""
    return (value == wanted) is True


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"a {type(value).__name__}"


def reader(held: Held) -> Callable[[], Any]:
    """Reads what the original itself would read now: a parameter may be replaced between two calls."""
    if held.module is not None:
        path, _, key = held.key.rpartition(".")
        owner = held.module.get_submodule(path)
        return lambda: owner._parameters[key] if key in owner._parameters else owner._buffers.get(key)
    if held.cell is not None:
        cell = held.cell
        return lambda: cell.cell_contents
    assert held.names is not None  # a held tensor lies somewhere
    names, name = held.names, held.path.rpartition(".")[2]
    return lambda: names.get(name)


def _arguments(
    form: Form, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[dict[str, Any], list[tuple[_At, str, Any]]]:
    """Values by the problem's names, where arguments left out have their defaults, and those passed beside.

    The kernel was made with the defaults of the latter: place, name and default of each.
    """
    called = form.target.forward if hasattr(form.target, "forward") else form.target
    by_name: dict[str, Any] = {}
    beside: list[tuple[_At, str, Any]] = []
    positional = list(args)
    try:
        signature = inspect.signature(called)
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise NotRun(f"the arguments do not fit: {error}") from None
    except ValueError:  # a function that does not tell its parameters
        by_name = dict(kwargs)
    else:
        beside = _beside(form, signature, bound)
        bound.apply_defaults()
        by_name = bound.arguments
    found = {}
    for argument in form.arguments:
        if argument.keyword:
            found[argument.name] = by_name.get(argument.keyword)
        elif positional:
            found[argument.name] = positional.pop(0)
    return found, beside


def _beside(
    form: Form, signature: inspect.Signature, bound: inspect.BoundArguments
) -> list[tuple[_At, str, Any]]:
    """Arguments of a call that the inputs the kernel was made for did not have. Raises ``NotRun``."""
    known = {argument.keyword or argument.name for argument in form.arguments}
    beside = []
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            if len(value) > sum(not argument.keyword for argument in form.arguments):
                raise NotRun(f"{len(value)} arguments are more than the kernel was made for")
        elif parameter.kind is parameter.VAR_KEYWORD:
            if extra := sorted(value.keys() - known):
                raise NotRun(f"{extra[0]} is given; the kernel was made without it")
        elif name not in known:
            beside.append((value, name, parameter.default))
    return beside
