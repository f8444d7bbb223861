"""An applied module is a module: of the original's class, with the original's state, wherever one may stand.

Owns the classes of such modules, one for each application, and what they share with the original: all of
``__dict__``. So a larger model finds the parameters, and ``to``, ``train``, hooks and ``state_dict`` reach
both. Imports no torch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from workbench.live.applied import Applied

if TYPE_CHECKING:
    from torch.nn import Module

Make = Callable[[Any], Applied]
"""Puts the kernel in front of an original module, or of what stands for one."""


class AppliedModule:
    """Goes before the original's class: the same state, another ``__call__``."""

    __slots__ = ("_applied",)
    _original: type
    """The class without a kernel."""
    _make: Make

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Called only where the original writes super(Net, self).__init__() with Net the applied class by now.
        original: Any = self._original
        super(original, self).__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        applied = applied_of(self)
        return super().__call__(*args, **kwargs) if applied is None else applied(*args, **kwargs)  # type: ignore[misc]

    @property
    def kernel_calls(self) -> int:
        """Calls answered by the kernel."""
        applied = applied_of(self)
        return applied.kernel_calls if applied is not None else 0

    @property
    def fallback_calls(self) -> int:
        """Calls answered by the original."""
        applied = applied_of(self)
        return applied.fallback_calls if applied is not None else 0

    @property
    def last_fallback(self) -> str:
        """Why the original ran last."""
        applied = applied_of(self)
        return applied.last_fallback if applied is not None else ""

    def __repr__(self) -> str:
        applied = applied_of(self)
        return super().__repr__() if applied is None else repr(applied)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = object.__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        if applied_of(self) is not None:
            _put_kernel(copied, self._make(_without_kernel(copied)))
        return copied

    def __reduce_ex__(self, protocol: Any) -> Any:
        # A file holds the original: whoever reads it has perhaps no workbench.
        if applied_of(self) is None:
            return super().__reduce_ex__(protocol)
        return _without_kernel(self).__reduce_ex__(1)  # 2 and more refuse another class than the object's


def applied_of(module: Any) -> Applied | None:
    """The kernel in front of a module; None while it is being made, and in classes derived from its own."""
    try:
        return AppliedModule._applied.__get__(module)  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, TypeError):
        return None


def applied_class(original: type, make: Make) -> type:
    """A class whose instances run the kernel, in evaluation mode as kernels are made for it.

    Classes derived from it answer by their own ``forward``.
    """

    begin: Callable[..., None] = original.__init__  # type: ignore[misc]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if type(self) is made:
            self.eval()
            _put_kernel(self, make(_without_kernel(self)))

    made: Any = _derived(original, make, {"__init__": __init__})
    return cast(type, made)


def applied_module(module: Module, applied: Applied, make: Make) -> Any:
    """The module with the kernel in front; the two share their state."""
    made: Any = object.__new__(_derived(type(module), make, {}))
    made.__dict__ = module.__dict__
    _put_kernel(made, applied)
    return made


def original_behind(value: Any) -> Any:
    """What a kernel was put in front of: a function, a module, a class; None where none was."""
    if isinstance(value, Applied):
        return value.original
    if isinstance(value, type):
        return vars(value).get("_original") if issubclass(value, AppliedModule) else None
    applied = applied_of(value)
    return applied.original if applied is not None else None


def _derived(original: type, make: Make, members: dict[str, Any]) -> type:
    named = {key: getattr(original, key) for key in ("__module__", "__qualname__", "__doc__")}
    own = {"_original": original, "_make": staticmethod(make)}
    return type(original)(original.__name__, (AppliedModule, original), {**named, **own, **members})


def _without_kernel(module: Any) -> Any:
    original = object.__new__(module._original)
    original.__dict__ = module.__dict__
    return original


def _put_kernel(module: Any, applied: Applied) -> None:
    object.__setattr__(module, "_applied", applied)
