"""The functional form of a reference: every tensor it reads is a named argument.

Owns the mapping between the problem's tensor names and a function's arguments, a module's parameters
and buffers, and the loose tensors a function or module holds. The only place that knows it. Runs in a
worker child.
"""

from __future__ import annotations

import inspect
import keyword
import re
import types
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.stateless import _reparametrize_module

from workbench.errors import ProblemError
from workbench.model import Problem, Returned
from workbench.problem.pairs import as_complex, as_pairs, complex_results, results_as_pairs
from workbench.problem.results import returned_as, together

_TAKEN = set(
    re.findall(
        r"\w+",
        """
        empty empty_like zeros view launch library tensor_map require cdiv next_pow2 min max range len
        target plan f64 f32 f16 bf16 i64 i32 i16 i8 u8 bool
        int float double char short long signed unsigned void auto const constexpr static extern register
        volatile struct union enum class template typename namespace new delete operator public private
        protected this throw try catch using virtual inline switch case default do goto sizeof
        half true false nullptr threadIdx blockIdx blockDim gridDim warpSize
        """,
    )
)
"""Words of the plan language and of C++: a tensor cannot be called so."""


@dataclass(frozen=True)
class Argument:
    """One argument of the reference: a tensor by name, or a scalar."""

    name: str
    """The problem's name: of a tensor, or of a static."""
    keyword: str
    """The reference's own parameter; empty when it is passed by position."""
    value: Any
    """The tensor or scalar the person gave; for a rebuilt form, None for tensors."""
    is_tensor: bool
    is_complex: bool = False
    """True for a tensor whose numbers the workbench has as pairs."""


@dataclass(frozen=True)
class Held:
    """A tensor the reference reads without being passed it."""

    path: str
    """``layers.0.weight``, or the name of a global or captured variable."""
    role: Literal["parameter", "buffer"]
    value: Tensor
    module: nn.Module | None = None
    """Where it is registered, for parameters and buffers; ``key`` is then the name in that module."""
    key: str = ""
    names: MutableMapping[str, Any] | None = None
    """The globals or attributes it lies in, for loose tensors."""
    cell: types.CellType | None = None


class Form:
    """A reference that is called with a dict of all its tensors."""

    def __init__(self, target: Callable[..., Any], arguments: Sequence[Argument]) -> None:
        self.target = target
        self.arguments = tuple(arguments)
        self.held = _named_held(target, {argument.name for argument in arguments})
        """Names to tensors held; parameters first."""
        complex_ones = [argument.name for argument in self.arguments if argument.is_complex]
        complex_ones += [name for name, held in self.held.items() if held.value.is_complex()]
        self.in_pairs = frozenset(complex_ones)
        """Names of the tensors that are complex to the reference."""
        self.complex_results: tuple[bool, ...] = ()
        """Of each result of the latest call, whether the reference's own is complex."""
        self.returned: Returned | None = None
        """What the latest call had its results in."""
        self.wants_all = False
        """True once a run has failed for tensors that it holds and was not given."""
        self._moved: dict[tuple[str, torch.device], Tensor] = {}

    def __call__(self, tensors: Mapping[str, Tensor]) -> Any:
        """What the reference returns, unchecked, with every tensor replaced by the one given.

        Results that have names come as a tuple. Complex tensors are pairs of numbers here, those that are
        given and those that are returned.
        """
        positional, by_keyword = self.spread(tensors)
        with self.holding(tensors):
            returned = self.target(*positional, **by_keyword)
        self.returned, results = returned_as(returned), together(returned)
        self.complex_results = complex_results(results)
        return results_as_pairs(results)

    def spread(self, tensors: Mapping[str, Tensor]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments of one call with these tensors."""
        positional, by_keyword = [], {}
        for argument in self.arguments:
            value = tensors[argument.name] if argument.is_tensor else argument.value
            if argument.is_complex:
                value = as_complex(value)
            if argument.keyword:
                by_keyword[argument.keyword] = value
            else:
                positional.append(value)
        return positional, by_keyword

    @contextmanager
    def holding(self, tensors: Mapping[str, Tensor]) -> Iterator[None]:
        """Swap held tensors for those given under their names, or ``complete`` adds, and back."""
        whole = self.complete(tensors)
        tensors = {
            name: as_complex(whole[name]) if name in self.in_pairs else whole[name]
            for name in self.held
            if name in whole
        }
        with ExitStack() as stack:
            registered: dict[int, tuple[nn.Module, dict[str, Tensor]]] = {}
            for name, tensor in tensors.items():
                held = self.held[name]
                if held.module is not None:
                    registered.setdefault(id(held.module), (held.module, {}))[1][held.key] = tensor
                else:
                    _put(held, tensor)
                    stack.callback(_put, held, held.value)
            for module, replaced in registered.values():
                stack.enter_context(_reparametrize_module(module, replaced, tie_weights=True))
            yield

    def complete(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """These, and where the reference ``wants_all`` what else it holds, on their device.

        A problem knows only what its results are made of; a layer whose output nobody uses runs all the same.
        """
        if not self.wants_all:
            return dict(tensors)
        devices = {tensor.device for tensor in tensors.values()}
        device = devices.pop() if len(devices) == 1 else None
        found = dict(tensors)
        for name in self.held.keys() - found.keys():
            own = as_pairs(self.held[name].value)
            if device is None or own.device == device:
                found[name] = own
                continue
            if (name, device) not in self._moved:
                self._moved[name, device] = own.detach().to(device)
            found[name] = self._moved[name, device]
        return found


def bind(target: Callable[..., Any], inputs: Any) -> tuple[Argument, ...]:
    """Match the person's inputs (a sequence, a dict, or one tensor) with the reference's parameters.

    Raises ``ProblemError`` when they do not fit, or hold something else than tensors and scalars.
    """
    positional, by_keyword = _spread(inputs)
    signature = signature_of(target)
    given: list[tuple[str, str, Any]] = []
    if signature is None:
        given = [(f"x{index}", "", value) for index, value in enumerate(positional)]
        given += [(name, name, value) for name, value in by_keyword.items()]
    else:
        try:
            bound = signature.bind(*positional, **by_keyword)
        except TypeError as error:
            raise ProblemError(f"the inputs do not fit {_title(target)}{signature}: {error}") from error
        given = list(_bound(signature, bound))
    taken: set[str] = set()
    return tuple(_argument(name, key, value, taken) for name, key, value in given)


def rebind(target: Callable[..., Any], problem: Problem) -> tuple[Argument, ...]:
    """The arguments of an intake that is over, from its problem; tensors come later, by name."""
    signature = signature_of(target)
    parameters = signature.parameters if signature else {}
    by_position = {p.name for p in parameters.values() if p.kind is p.POSITIONAL_ONLY}
    specs = {spec.name: spec for spec in problem.tensors}
    statics = {static.name: static.value for static in problem.statics}
    names = {name: specs[name].path or name if name in specs else name for name in problem.signature}
    if any(p.kind is p.VAR_POSITIONAL for p in parameters.values()) and set(names.values()) - set(parameters):
        by_position |= {p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD}
    accepts_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return tuple(
        Argument(
            name=name,
            keyword=own if own not in by_position and (own in parameters or accepts_any) else "",
            value=statics.get(name),
            is_tensor=name in specs,
            is_complex=name in specs and specs[name].in_pairs,
        )
        for name, own in names.items()
    )


def signature_of(target: Callable[..., Any]) -> inspect.Signature | None:
    """Parameters of a function, or of a module's ``forward``; None for functions that do not tell."""
    try:
        return inspect.signature(target.forward if isinstance(target, nn.Module) else target)
    except (ValueError, TypeError):
        return None


def identifier(text: str, taken: set[str]) -> str:
    """A name for plans and kernels: a Python and C++ identifier that is not taken; adds it to ``taken``."""
    name = re.sub(r"\W+", "_", text).strip("_") or "x"
    name = re.sub(r"__+", "_", name)
    if name[0].isdigit():
        name = f"layer{name}"
    while name in taken or name in _TAKEN or keyword.iskeyword(name):
        name += "_"
    taken.add(name)
    return name


# ------------------------------------------------------------------------------------ arguments


def _spread(inputs: Any) -> tuple[list[Any], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return [], dict(inputs)
    if isinstance(inputs, Tensor):
        return [inputs], {}
    if isinstance(inputs, list | tuple):
        return list(inputs), {}
    raise ProblemError(f"inputs must be a list, a tuple or a dict of tensors, not {type(inputs).__name__}")


def _bound(signature: inspect.Signature, bound: inspect.BoundArguments) -> Iterator[tuple[str, str, Any]]:
    """(name, keyword or '', value) in the signature's order."""
    starred = any(
        p.kind is p.VAR_POSITIONAL for p in signature.parameters.values() if p.name in bound.arguments
    )
    for name, value in bound.arguments.items():
        match signature.parameters[name].kind:
            case inspect.Parameter.VAR_POSITIONAL:
                yield from ((f"{name}{index}", "", item) for index, item in enumerate(value))
            case inspect.Parameter.VAR_KEYWORD:
                yield from ((key, key, item) for key, item in value.items())
            case inspect.Parameter.KEYWORD_ONLY:
                yield name, name, value
            case inspect.Parameter.POSITIONAL_OR_KEYWORD if not starred:
                yield name, name, value
            case _:
                yield name, "", value


def _argument(name: str, key: str, value: Any, taken: set[str]) -> Argument:
    if isinstance(value, Tensor):
        is_complex = value.is_complex()
        return Argument(identifier(name, taken), key, value, is_tensor=True, is_complex=is_complex)
    if value is None or isinstance(value, bool | int | float | str):
        return Argument(name, key, value, is_tensor=False)
    what = "a list of tensors" if isinstance(value, list | tuple) else f"a {type(value).__name__}"
    raise ProblemError(
        f"input {name!r} is {what}; inputs are tensors and python scalars. "
        "Pass each tensor as its own argument, and anything else through a wrapper function."
    )


def _title(target: Callable[..., Any]) -> str:
    return getattr(target, "__name__", type(target).__name__)


# ------------------------------------------------------------------------------------ held tensors


def _named_held(target: Callable[..., Any], taken: set[str]) -> dict[str, Held]:
    taken = set(taken)
    found = list(
        _held_by_module(target, "", set())
        if isinstance(target, nn.Module)
        else _held_by_function(target, set())
    )
    unique: dict[int, Held] = {}
    for held in sorted(found, key=lambda held: held.role != "parameter"):
        unique.setdefault(id(held.value), held)
    return {identifier(held.path, taken): held for held in unique.values()}


def _held_by_module(module: nn.Module, prefix: str, seen: set[int]) -> Iterator[Held]:
    for path, parameter in module.named_parameters():
        yield Held(prefix + path, "parameter", parameter, module=module, key=path)
    for path, buffer in module.named_buffers():
        yield Held(prefix + path, "buffer", buffer, module=module, key=path)
    for path, part in module.named_modules():
        dotted = f"{prefix}{path}." if path else prefix
        if not type(part).__module__.startswith("torch."):
            yield from _held_by_function(type(part).forward, seen)
        for name, value in part.__dict__.items():
            if isinstance(value, Tensor):
                yield Held(dotted + name, "buffer", value, names=part.__dict__)


def _held_by_function(target: Callable[..., Any], seen: set[int]) -> Iterator[Held]:
    """Tensors and modules among the globals and captured variables a function mentions."""
    function = inspect.unwrap(getattr(target, "func", target))
    function = getattr(function, "__func__", function)
    if not isinstance(function, types.FunctionType) or id(function) in seen:
        return
    seen.add(id(function))
    for cell, name in zip(function.__closure__ or (), function.__code__.co_freevars, strict=True):
        yield from _held_value(name, cell.cell_contents, seen, cell=cell)
    for name in sorted(_mentioned(function.__code__)):
        if name in function.__globals__:
            yield from _held_value(name, function.__globals__[name], seen, names=function.__globals__)


def _held_value(
    name: str,
    value: Any,
    seen: set[int],
    names: MutableMapping[str, Any] | None = None,
    cell: types.CellType | None = None,
) -> Iterator[Held]:
    if isinstance(value, Tensor):
        yield Held(name, "buffer", value, names=names, cell=cell)
    elif isinstance(value, nn.Module) and id(value) not in seen:
        seen.add(id(value))
        yield from _held_by_module(value, f"{name}.", seen)
    elif isinstance(value, types.FunctionType) and not (value.__module__ or "").startswith("torch"):
        yield from _held_by_function(value, seen)


def _mentioned(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _mentioned(constant)
    return names


def _put(held: Held, tensor: Tensor) -> None:
    if held.cell is not None:
        held.cell.cell_contents = tensor
    elif held.names is not None:
        held.names[held.path.rpartition(".")[2]] = tensor
