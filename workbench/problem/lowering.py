"""An exported program in the operations of the graph, as ``run_decompositions`` makes it, only sooner.

Torch traces a program twice to break it down: the first time to learn what it writes to. What writes to
nothing, as most of what is exported, is traced once here; the graph is the same. Torch also overrides all 500
operations that are made of others, anew for every export, and collects them anew. For nine in ten of them
the override says what torch does anyhow. Those are left out here, and the rest is collected once, as is what
torch puts in their place. All that is done behind torch's public function: where a version of torch has it
otherwise, the public function does it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import torch
from torch import Tensor, fx
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses import fake_impls
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.export import ExportedProgram, exported_program
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import PropagateUnbackedSymInts

from workbench.problem.decompositions import table
from workbench.problem.in_parts import InParts, has_complex
from workbench.problem.pairs import as_pairs

Decompositions = Mapping[Any, Callable[..., Any]]

_TAKES = ("ep", "cia_to_decomp", "python_decomp_table", "joint_loss_index", "decompose_custom_triton_ops")
_INSIDE = (
    "_split_decomp_table_to_cia_and_python_decomp",
    "_override_composite_implicit_decomp",
    "_get_updated_range_constraints",
)
_BESIDE = ("op_implementations_dict", "_deregister_op_impl")


def lowered(program: ExportedProgram) -> ExportedProgram:
    """Break a program down as ``decompositions.table`` says, and complex numbers into their parts.

    Raises ``ProblemError`` for an operation on complex numbers that is not known in parts.
    """
    made = _broken_down(program)
    return _in_parts(made) if has_complex(made.graph) else made


def _in_parts(program: ExportedProgram) -> ExportedProgram:
    _, others = _tables(tuple(_registered()))
    made = _traced_once(program, {}, others, InParts)
    assert made is not None  # nothing is written to in a program that was broken down
    return made


def _broken_down(program: ExportedProgram) -> ExportedProgram:
    if not _as_known():
        whole: ExportedProgram = program.run_decompositions(dict(table()))
        return whole
    composites, others = _tables(tuple(_registered()))
    if _only_computes(program) and (once := _traced_once(program, composites, others)) is not None:
        return once
    with unset_fake_temporarily():
        made: ExportedProgram = exported_program._decompose_exported_program(
            program,
            cia_to_decomp=dict(composites),
            python_decomp_table=dict(others),
            joint_loss_index=None,
            decompose_custom_triton_ops=False,
        )
    return made


def _only_computes(program: ExportedProgram) -> bool:
    """Whether a program is tensors in, operations that write to none of their operands, tensors out."""
    signature = program.graph_signature
    return (
        all(s.kind is InputKind.USER_INPUT and _is_tensor(s.arg) for s in signature.input_specs)
        and all(s.kind is OutputKind.USER_OUTPUT and _is_tensor(s.arg) for s in signature.output_specs)
        and bool(signature.input_specs)
        and _writes_nothing(program.graph)
    )


def _is_tensor(argument: object) -> bool:
    return isinstance(argument, TensorArgument)


def _writes_nothing(graph: fx.Graph) -> bool:
    called = [node for node in graph.nodes if node.op not in ("placeholder", "output")]
    return all(node.op == "call_function" and _only_reads(node.target) for node in called)


def _only_reads(operation: Any) -> bool:
    """Of an operation that holds a graph of its own nothing is known."""
    if isinstance(operation, OpOverload):
        return not operation._schema.is_mutable
    return not isinstance(operation, HigherOrderOperator)


def _traced_once(
    program: ExportedProgram,
    composites: Decompositions,
    others: Decompositions,
    interpreter: type[PropagateUnbackedSymInts] = PropagateUnbackedSymInts,
) -> ExportedProgram | None:
    """The program broken down; None where a decomposition writes to a tensor, which torch has to undo."""

    def run(*tensors: Tensor) -> Any:
        return interpreter(program.graph_module).run(*tensors)

    values = [node.meta["val"] for node in program.graph.nodes if node.op == "placeholder"]
    with unset_fake_temporarily(), values[0].fake_mode:
        values = [as_pairs(value) for value in values]
    with (
        unset_fake_temporarily(),
        values[0].fake_mode,
        enable_python_dispatcher(),  # else torch's own C++ breaks some down, which makes numbers of sizes
        _overridden(composites),
        torch.no_grad(),
        fx.traceback.preserve_node_meta(),
    ):
        made = make_fx(run, decomposition_table=dict(others))(*values)
    if not _writes_nothing(made.graph):
        return None
    made.graph.eliminate_dead_code()
    return ExportedProgram(
        root=made,
        graph=made.graph,
        graph_signature=_signature(made.graph, program.graph_signature),
        state_dict={},
        range_constraints=exported_program._get_updated_range_constraints(made, program.range_constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants={name: as_pairs(value) for name, value in program.constants.items()},
    )


@dataclass(frozen=True)
class _Override:
    """What torch put in the place of an operation's kernels."""

    made: Callable[..., Any]
    """The decomposition that was asked for."""
    before: Mapping[Any, Any]
    kernels: Mapping[Any, Any]
    imitation: Callable[..., Any] | None
    """What makes results that have no values."""


_SEEN: dict[OpOverload, _Override] = {}


@contextmanager
def _overridden(composites: Decompositions) -> Iterator[None]:
    """Torch's override as it was seen before: it makes a dozen kernels an operation anew for each export."""
    overrides = {op: _override(op, made) for op, made in composites.items()}
    try:
        for op, seen in overrides.items():
            _replace(op, seen.kernels)
            if seen.imitation is not None:
                fake_impls.op_implementations_dict.setdefault(op, seen.imitation)
        yield
    finally:
        for op, seen in overrides.items():
            _replace(op, seen.before)
            fake_impls._deregister_op_impl(op)


def _override(op: OpOverload, made: Callable[..., Any]) -> _Override:
    """Seen anew where the operation has other kernels than it had then."""
    seen = _SEEN.get(op)
    if seen is None or seen.made is not made or seen.before != op.py_kernels:
        before = dict(op.py_kernels)
        with exported_program._override_composite_implicit_decomp({op: made}):
            imitation = fake_impls.op_implementations_dict.get(op)
            seen = _SEEN[op] = _Override(made, before, dict(op.py_kernels), imitation)
    return seen


def _replace(op: OpOverload, kernels: Mapping[Any, Any]) -> None:
    op.py_kernels.clear()
    op.py_kernels.update(kernels)
    op._dispatch_cache.clear()


def _signature(graph: fx.Graph, before: ExportGraphSignature) -> ExportGraphSignature:
    """The same inputs and outputs by the names that they have in another graph."""
    given = [node for node in graph.nodes if node.op == "placeholder"]
    returned = next(node for node in graph.nodes if node.op == "output").args[0]
    return ExportGraphSignature(
        [
            InputSpec(spec.kind, TensorArgument(node.name), spec.target, spec.persistent)
            for node, spec in zip(given, before.input_specs, strict=True)
        ],
        [
            OutputSpec(spec.kind, TensorArgument(node.name), spec.target)
            for node, spec in zip(returned, before.output_specs, strict=True)
        ],
    )


@cache
def _as_known() -> bool:
    """Whether this torch has inside what is called here."""
    inside = getattr(exported_program, "_decompose_exported_program", None)
    others = all(hasattr(exported_program, name) for name in _INSIDE)
    others = others and all(hasattr(fake_impls, name) for name in _BESIDE)
    return others and inside is not None and tuple(inspect.signature(inside).parameters) == _TAKES


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
