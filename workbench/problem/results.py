"""How a reference hands over its results: a tensor, or several in a tuple, a list, a dict or an object.

Everything else knows results by their order. Owns the way there, and from results in that order back to what
the reference would have returned. Never looks at the tensors.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from workbench.model import Returned

Made = Callable[[tuple[Any, ...]], Any]


def together(returned: Any) -> Any:
    """Tensors that have names, of a dict or a dataclass, as a tuple in order; anything else as it is."""
    named = _named(returned)
    return returned if named is None else tuple(named.values())


def returned_as(returned: Any) -> Returned | None:
    """What else than a tensor or a plain tuple holds them."""
    if isinstance(returned, Tensor) or type(returned) is tuple:
        return None
    named = _named(returned)
    if named is None and not isinstance(returned, tuple | list):
        return None
    kind = type(returned)
    names = tuple(named) if named is not None else tuple(getattr(kind, "_fields", ()))
    return Returned(kind=f"{kind.__module__}:{kind.__qualname__}", names=names)


def maker(how: Returned, target: Callable[..., Any]) -> Made:
    """Puts results into what ``target`` returns. Raises ``LookupError`` where its type is not found."""
    kind = _found(how.kind, target)
    if kind is list:
        return list
    if issubclass(kind, tuple):  # a named one, or one of torch's own such as ``torch.return_types.max``
        make: Made = getattr(kind, "_make", kind)
        return make
    return lambda results: kind(**dict(zip(how.names, results, strict=True)))


def _named(returned: Any) -> dict[str, Tensor] | None:
    if isinstance(returned, dict):
        named = dict(returned)
    elif dataclasses.is_dataclass(returned) and not isinstance(returned, type):
        fields = ((field, getattr(returned, field.name)) for field in dataclasses.fields(returned))
        # A loss that there is only in training is left to its default, which is what it was.
        named = {field.name: one for field, one in fields if one is not None or field.default is not None}
    else:
        return None
    is_plain = all(isinstance(name, str) and isinstance(one, Tensor) for name, one in named.items())
    return named if named and is_plain else None


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
