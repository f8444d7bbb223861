"""How a reference hands over its results: a tensor, or several in a tuple, a list, a dict or an object, which
may hold one another as ``output, (hidden, cell)`` do.

Everything else knows results by their order. Owns the way there, and from results in that order back to what
the reference would have returned. Never looks at the tensors.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor, nn

from workbench.model import Returned

Made = Callable[[tuple[Any, ...]], Any]
_TUPLE, _NONE = "builtins:tuple", "builtins:NoneType"


def together(returned: Any) -> Any:
    """Tensors that a tuple, a list, a dict or a dataclass holds, however deep, as a tuple in order; anything
    else as it is. ``None`` in one of them is no result."""
    found = None if isinstance(returned, Tensor) else _leaves(returned)
    return returned if found is None else tuple(found)


def returned_as(returned: Any) -> Returned | None:
    """What else than a tensor or a plain tuple of tensors holds them."""
    if isinstance(returned, Tensor) or _leaves(returned) is None:
        return None
    how = _form(returned)
    if any(part is not None for part in how.parts):
        return how
    return None if how.kind == _TUPLE else how.model_copy(update={"parts": ()})


def maker(how: Returned, target: Callable[..., Any]) -> Made:
    """Puts results into what ``target`` returns. Raises ``LookupError`` where its type is not found."""
    make = _maker(how, target)
    if not how.parts:
        return make
    build = _builder(how, target)
    return lambda results: build(iter(results))


def _builder(how: Returned, target: Callable[..., Any]) -> Callable[[Iterator[Any]], Any]:
    """Takes as many results as it needs."""
    if how.kind == _NONE:
        return lambda results: None
    make = _maker(how, target)
    parts = [next if part is None else _builder(part, target) for part in how.parts]
    return lambda results: make(tuple(part(results) for part in parts))


def _maker(how: Returned, target: Callable[..., Any]) -> Made:
    """Of what is in it."""
    kind = _found(how.kind, target)
    if kind is list:
        return list
    if issubclass(kind, tuple):  # a named one, or one of torch's own such as ``torch.return_types.max``
        make: Made = getattr(kind, "_make", kind)
        return make
    return lambda parts: kind(**dict(zip(how.names, parts, strict=True)))


def _leaves(returned: Any) -> list[Tensor] | None:
    """None where something is neither a tensor nor holds any."""
    if isinstance(returned, Tensor):
        return [returned]
    inner = _inner(returned)
    if inner is None:
        return None
    found: list[Tensor] = []
    for one in inner.values():
        below = [] if one is None else _leaves(one)
        if below is None:
            return None
        found += below
    return found


def _form(returned: Any) -> Returned:
    """What something of which all leaves are tensors consists of."""
    inner, kind = _inner(returned) or {}, type(returned)
    parts = tuple(None if isinstance(one, Tensor) else _form(one) for one in inner.values())
    names = tuple(name for name in inner if isinstance(name, str))
    return Returned(kind=f"{kind.__module__}:{kind.__qualname__}", names=names, parts=parts)


def _inner(returned: Any) -> dict[str | int, Any] | None:
    """What something holds, by name or by number; None for what holds nothing that has one."""
    if isinstance(returned, tuple | list):
        return dict(zip(getattr(type(returned), "_fields", range(len(returned))), returned, strict=True))
    if isinstance(returned, dict):
        return dict(returned) if all(isinstance(name, str) for name in returned) else None
    if dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        return {field.name: getattr(returned, field.name) for field in dataclasses.fields(returned)}
    return None


def _found(kind: str, target: Callable[..., Any]) -> type:
    """Where the reference looks it up, which a person may have run again, or where it was made."""
    module, _, path = kind.partition(":")
    first, *rest = path.split(".")
    call = inspect.unwrap(type(target).forward if isinstance(target, nn.Module) else target)
    own: Mapping[str, Any] = getattr(call, "__globals__", {})
    found = own.get(first, getattr(sys.modules.get(module), first, None))
    for name in rest:
        found = getattr(found, name, None)
    if not isinstance(found, type):
        raise LookupError(f"it returns a {path}, which is not found beside it")
    return found
