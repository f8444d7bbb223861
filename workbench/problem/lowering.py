"""An exported program in the operations of the graph, as ``run_decompositions`` makes it, in half the time.

Torch overrides all 500 operations that are made of others, anew for every export, and collects them anew.
For nine in ten of them the override says what torch does anyhow. Those are left out here, and the rest is
collected once; the graph is the same. That is done behind torch's public function: where a version of torch
has it otherwise, the public function does it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram, exported_program

from workbench.problem.decompositions import table

Decompositions = Mapping[Any, Callable[..., Any]]

_TAKES = ("ep", "cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")


def lowered(program: ExportedProgram) -> ExportedProgram:
    """Break a program down as ``decompositions.table`` says."""
    if not _as_known():
        whole: ExportedProgram = program.run_decompositions(dict(table()))
        return whole
    composites, others = _tables(tuple(_registered()))
    with unset_fake_temporarily():
        made: ExportedProgram = exported_program._decompose_exported_program(
            program,
            cia_to_decomp=dict(composites),
            python_decomp_table=dict(others),
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )
    return made


@cache
def _as_known() -> bool:
    """Whether this torch has inside what is called here."""
    inside = getattr(exported_program, "_decompose_exported_program", None)
    splits = hasattr(exported_program, "_split_decomp_table_to_cia_and_python_decomp")
    return splits and inside is not None and tuple(inspect.signature(inside).parameters) == _TAKES


def _registered() -> list[str]:
    """Names of the operations made of others: a cell may register one of its own."""
    names: list[str] = torch._C._dispatch_get_registrations_for_dispatch_key("CompositeImplicitAutograd")
    return names


@lru_cache(maxsize=1)
def _tables(registered: tuple[str, ...]) -> tuple[Decompositions, Decompositions]:
    """What to do otherwise with operations made of others, and how the rest is broken down."""
    composites, others = exported_program._split_decomp_table_to_cia_and_python_decomp(dict(table()))
    return {op: made for op, made in composites.items() if not _as_ever(made)}, others


def _as_ever(made: Callable[..., Any]) -> bool:
    """Whether this is torch's word for: break it down as it is done without an override."""
    return isinstance(made, partial) and getattr(made.func, "__name__", "") == "_special_op_to_decompose_cia"
