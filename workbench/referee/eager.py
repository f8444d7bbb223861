"""Which operations the eager reference dispatches at a declared case, seen without any data.

Owns the watching; what an operation costs is the baselines' business. Runs in a worker child.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.model import Case, Contract, Problem, base_name
from workbench.model.aten_names import RECURRENT
from workbench.model.systems import MATRIX_AT
from workbench.numerics.dtypes import TORCH
from workbench.problem.recurrent import NAMES, Whole
from workbench.problem.reference import Reference, run
from workbench.problem.slow_calls import ORDERED, SOLVING, ordered_rows, recurrent_steps
from workbench.referee.baselines import ROW_OPS, EagerOp
from workbench.referee.work import FREE, factors, library_operations


class _Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records every operation that makes new memory."""

    def __init__(self, contract: Contract) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.contract = contract
        self.seen: list[EagerOp] = []

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        name = NAMES.get(str(func), str(func))
        base = base_name(name)
        made = list(_tensors(result))
        if made and base not in FREE and not base.startswith(("sym_", "empty", "_local")):
            self.seen.append(self._recorded(name, args, kwargs or {}, list(_tensors((args, kwargs))), made))
        return result

    def _recorded(
        self,
        name: str,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        read: list[Tensor],
        made: list[Tensor],
    ) -> EagerOp:
        base = base_name(name)
        distinct = {id(t): t for t in read}.values()
        shapes = [tuple(t.shape) for t in read]
        width = max((t.element_size() for t in read[factors(base)]), default=4)
        output = tuple(made[0].shape)
        operations = library_operations(base, shapes, output, args, self.contract, width) if shapes else 0.0
        return EagerOp(
            op=name,
            read_bytes=sum(t.numel() * t.element_size() for t in distinct),
            written_bytes=sum(t.numel() * t.element_size() for t in made),
            elements=max(t.numel() for t in (*read, *made)),
            tensors_read=len(distinct),
            row=_row(name, args, kwargs),
            flops=operations,
        )


def _row(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Length of the rows an operation works on that gives each a block of its own; of a matrix, its rows; of
    recurrent layers, their steps."""
    base = base_name(name)
    if base in SOLVING:
        return int(args[MATRIX_AT.get(base, 0)].shape[-1])
    if base in RECURRENT:
        return recurrent_steps(base, args[0].shape, args)
    if base in ORDERED:
        return ordered_rows(name, args[0].shape, args, kwargs)[1]
    if base not in ROW_OPS or not args[0].dim():
        return 0
    x = args[0]
    match base:
        case "_softmax" | "_log_softmax":
            return int(x.shape[args[1]])
        case "native_layer_norm":
            return math.prod(args[1])
        case "native_group_norm":
            batch, groups = args[3], args[6]
            return int(x.numel() // max(batch * groups, 1))
        case _:
            return int(x.numel() // x.shape[1]) if x.dim() > 1 else 0


def _tensors(value: Any) -> Iterable[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def eager_operations(reference: Reference, problem: Problem, case: Case) -> tuple[EagerOp, ...]:
    """Run the reference without data at one case; empty where it cannot be run so."""
    watch = _Watch(problem.contract)
    try:
        with FakeTensorMode(allow_non_fake_inputs=True):
            tensors = {
                name: torch.empty_strided(meta.shape, meta.strides, dtype=TORCH[meta.dtype])
                for name, meta in problem.metas(case).items()
            }
            with watch, Whole():
                run(reference.form, tensors)
    except Exception:  # the person's code, with tensors it was not written for: no baseline then
        return ()
    return tuple(watch.seen)
