"""Runs the person's own text in a worker child, for real or with fake tensors that hold no data.

Owns the namespace the text runs in, what ``cuda`` means on a machine without a GPU, and how an
exception of the person's code is told. Never decides what the results mean.
"""

from __future__ import annotations

import ast
import linecache
import logging
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from workbench.errors import ProblemError
from workbench.problem.autocast import remembering
from workbench.problem.lines import line_of_traceback
from workbench.problem.payload import unpack
from workbench.problem.statements import CELL, needed, read_statements

MODULE = "workbench_cell"


def run_source(
    source: str,
    payload: str,
    roots: Iterable[str],
    own: Mapping[str, Any] | None = None,
    text: str = "cell",
) -> dict[str, Any]:
    """Run the statements that ``roots`` need and return their namespace.

    ``own`` are the notebook's objects, in place of the copies of them that travelled. ``text`` is what the
    person calls the source. Raises ``ProblemError`` with the person's line when a statement fails.
    """
    namespace = _fresh_namespace()
    linecache.cache[CELL] = (len(source), None, source.splitlines(keepends=True), CELL)
    torch.manual_seed(0)
    np.random.seed(0)
    with telling(f"the {text}"), remembering():
        given = {**unpack(payload), **(own or {})}
        namespace.update(given)
        # What came as an object is not defined again: its text is for people, and may lack its base class.
        missing = [root for root in roots if root not in given]
        kept = [statement.node for statement in needed(read_statements(source), missing)]
        # Not with this file's own __future__: the person's code is to be what it is in the notebook.
        exec(compile(ast.Module(body=kept, type_ignores=[]), CELL, "exec", dont_inherit=True), namespace)
    return namespace


def evaluate(expression: str, namespace: Mapping[str, Any]) -> Any:
    """Value of a capture's expression, such as ``get_inputs()``."""
    name = expression.removesuffix("()")
    with telling(name):
        return namespace[name]() if expression.endswith("()") else namespace[name]


def _fresh_namespace() -> dict[str, Any]:
    # A real module, because dataclasses and typing look the defining module up by name.
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module
    module.__dict__.update(torch=torch, nn=nn, F=functional, math=math, np=np)
    return module.__dict__


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Turn an exception of the person's code into a ``ProblemError`` with their line."""
    try:
        yield
    except ProblemError:
        raise
    except Exception as error:
        raise ProblemError(told(error, what)) from error


@contextmanager
def quiet() -> Iterator[None]:
    """Torch logs every failure under fake tensors at length; a size that does not fit is no event."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def told(error: BaseException, what: str) -> str:
    """One line: where, what failed, and torch's or Python's own first sentence."""
    line = line_of_traceback(error.__traceback__)
    first = next((row.strip() for row in str(error).splitlines() if row.strip()), "no message")
    where = f"line {line}: " if line else ""
    if "does not require grad" in first:
        first = "no gradients are recorded while it runs. Write the derivative as a formula"
    return f"{where}{what} raised {type(error).__name__}: {first[:300]}"


# ------------------------------------------------------------------------------------ devices


class Placed(TorchFunctionMode):
    """Reads ``cuda`` as another device: the workbench places tensors itself.

    With ``stand_in="meta"``, under fake tensors, mixed devices stay visible; with ``"cpu"`` the code
    simply runs on the CPU.
    """

    def __init__(self, stand_in: str) -> None:
        super().__init__()
        self._stand_in = torch.device(stand_in)

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "cuda":
            return args[0].to(self._stand_in)
        if "device" in kwargs:
            kwargs["device"] = self._placed(kwargs["device"])
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False
        if getattr(func, "__name__", "") == "to":
            args = (args[0], *(self._placed(value) for value in args[1:]))
        return func(*args, **kwargs)

    def _placed(self, device: Any) -> Any:
        return self._stand_in if _is_gpu(device) else device


@contextmanager
def without_gpu(stand_in: str = "cpu") -> Iterator[None]:
    """Run code written for a GPU: tensors follow ``stand_in``, modules stay on the CPU."""
    original = nn.Module.to

    def to(module: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        left = tuple(value for value in args if not _is_gpu(value))
        kwargs = {key: value for key, value in kwargs.items() if not _is_gpu(value)}
        return original(module, *left, **kwargs) if left or kwargs else module

    to_stay = patch.multiple(nn.Module, cuda=lambda module, device=None: module, to=to)
    with to_stay, Placed(stand_in):
        yield


def _is_gpu(value: Any) -> bool:
    return isinstance(value, str | torch.device) and str(value).startswith("cuda")
