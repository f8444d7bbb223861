"""Modelled times of what a kernel is held against: eager PyTorch and torch.compile.

Owns what those two are assumed to launch. Eager: one kernel for each operation the reference calls,
as seen by eager.py. Compile: pointwise operations and reductions fused, matrix products and the like
on their own. Both are models, rather too fast than too slow where they are unsure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.model import Case, Problem, Target, Value, base_name
from workbench.model.aten_names import RECURRENT
from workbench.model.systems import MATRIX_AT
from workbench.problem.slow_calls import (
    ORDERED,
    SOLVING,
    TAKEN_APART,
    ordered_rows,
    ordering_us,
    recurrent_steps,
    recurrent_us,
    solving_us,
)
from workbench.referee.launchtime import Shape, Traffic, launch_time
from workbench.referee.work import (
    EXTERNAL,
    FREE,
    LIBRARY_EFFICIENCY,
    LOOKUPS,
    REDUCTIONS,
    Sized,
    instructions,
    sized,
)

START_US = -1.0
"""Once a call, beside its launches: the time from one launch to the next, ``launch_us``, is no part of the
first, which nothing was launched before. Set to the small shapes of half of the grid's ops, by the clock that
takes off what it adds itself: a kernel with next to nothing to do takes 1.9 us there."""
PERSISTENT = 1024
"""Row length up to which both eager and Inductor keep the row in registers."""
SHARED_ROW_BYTES = 48 * 1024
"""Row up to which eager's softmax keeps it in shared memory."""
POINTWISE_THREADS = 256
INDUCTOR_THREADS = 512
INDUCTOR_REGISTERS = 64
"""Of its loops over long rows, which hold several wide loads a thread; assumed to fit the note's table."""


class EagerOp(Value):
    """One operation the eager reference dispatches at one case."""

    op: str
    read_bytes: int
    written_bytes: int
    elements: int
    """Elements of the largest tensor it reads or writes."""
    tensors_read: int = 1
    row: int = 0
    """Length of the rows a normalising operation works on; rows of a matrix; 0 for all other operations."""
    flops: float = 0.0
    """Of a product, as many as float32's units do in the time of those that may do it."""


_NORMS = "native_group_norm native_batch_norm _native_batch_norm_legit cudnn_batch_norm instance_norm"
ROW_OPS: Mapping[str, tuple[int, int]] = {
    "_softmax": (1024, 3),
    "_log_softmax": (1024, 3),
    "native_layer_norm": (128, 2),
    **dict.fromkeys(_NORMS.split(), (512, 2)),
}
"""Threads a row and reads of the row, for operations that give each row one block."""


_COMPOSED: Mapping[str, tuple[int, int]] = {
    "logsumexp": (5, 5),
    **dict.fromkeys(("mse_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy"), (2, 1)),
}
"""Further passes over the largest tensor and further launches of operations that are several kernels."""


def eager_us(target: Target, operations: tuple[EagerOp, ...]) -> float:
    """Model eager PyTorch: one pass and one launch an operation."""
    return START_US + sum(_eager_op_us(target, op) + target.launch_us for op in operations)


def _eager_op_us(target: Target, op: EagerOp) -> float:
    unique = float(op.read_bytes + op.written_bytes)
    name = base_name(op.op)
    if name in TAKEN_APART:
        return library_us(target, unique, 0.0) + TAKEN_APART[name] * 1e-3 * op.written_bytes / 4
    if name in ORDERED and op.row:
        return library_us(target, unique, 0.0) + ordering_us(name, op.elements / op.row, op.row)
    if name in RECURRENT and op.row:
        return library_us(target, unique, 0.0) + recurrent_us(op.row)
    if name in SOLVING and op.row:
        return library_us(target, unique, 0.0) + solving_us(name, op.elements / op.row**2, op.row)
    if op.flops or name in EXTERNAL:
        return library_us(target, unique, op.flops)
    if name in _COMPOSED:
        passes, launches = _COMPOSED[name]
        unique += passes * op.read_bytes / max(op.tensors_read, 1)
        return launch_time(target, _wide(op.elements), Traffic(unique, unique, 16.0)).us + (
            launches * target.launch_us
        )
    if name in ROW_OPS and op.row:
        return _rows_us(target, op, name)
    traffic = Traffic(
        unique, unique, 16.0, stored=float(op.written_bytes), instructions=instructions(name) * op.elements
    )
    return launch_time(target, _wide(op.elements), traffic).us


def _rows_us(target: Target, op: EagerOp, name: str) -> float:
    """A normalising operation: short rows stay in a warp's registers, softmax's next in shared memory."""
    unique = float(op.read_bytes + op.written_bytes)
    stored = float(op.written_bytes)
    threads, reads = ROW_OPS[name]
    issued = (24.0 if "softmax" in name else 12.0) * op.elements
    rows = max(op.elements // op.row, 1)
    if op.row <= PERSISTENT:
        shape = Shape(blocks=-(-rows // 4), threads=128)
        return launch_time(
            target, shape, Traffic(unique, unique, 16.0, stored=stored, instructions=issued)
        ).us
    kept = "softmax" in name and op.read_bytes / rows <= SHARED_ROW_BYTES
    again = 0.0 if kept else (reads - 1) * float(op.read_bytes)
    traffic = Traffic(unique, unique + again, 16.0, 4.0, stored=stored, instructions=issued, in_flight=16.0)
    return launch_time(target, Shape(rows, threads), traffic).us


def _wide(elements: int) -> Shape:
    """A grid-filling launch of four elements a thread."""
    return Shape(blocks=max(-(-elements // (4 * POINTWISE_THREADS)), 1), threads=POINTWISE_THREADS)


def library_us(target: Target, bytes_moved: float, operations: float) -> float:
    """Time of a library call at its own roofline, without the launch; operations are float32's."""
    memory = bytes_moved / target.dram_bytes_per_s
    compute = operations / (LIBRARY_EFFICIENCY * target.fp32_flops_per_s)
    return max(memory, compute) * 1e6 + target.dram_latency_ns * 1e-3


# ------------------------------------------------------------------------------------ torch.compile


def compile_us(target: Target, problem: Problem, case: Case, operations: tuple[EagerOp, ...] = ()) -> float:
    """Model torch.compile: every connected group of fusible nodes is one kernel, split where it must.

    ``operations`` are eager's, as far as they are known: some it leaves whole that the graph has taken apart.
    """
    nodes = sized(problem, case)
    whole = [op for op in operations if base_name(op.op) in TAKEN_APART]
    time_us = sum(_eager_op_us(target, op) + target.launch_us for op in whole)
    for one in nodes:
        if one.name in EXTERNAL:
            moved = sum(n for _, _, n in one.inputs) + one.written
            replaced = one.library_operations(problem.contract)
            time_us += library_us(target, float(moved), replaced) + target.launch_us
            if one.name in ORDERED:
                _, shape, _ = one.inputs[0]
                rows, row = ordered_rows(one.node.op, shape, one.node.args, dict(one.node.kwargs))
                time_us += ordering_us(one.name, rows, row)
            if one.name in RECURRENT:
                _, shape, _ = one.inputs[0]
                time_us += recurrent_us(recurrent_steps(one.name, shape, one.node.args))
            if one.name in SOLVING:
                _, shape, _ = one.inputs[MATRIX_AT.get(one.name, 0)]
                time_us += solving_us(one.name, math.prod(shape[:-2]), shape[-1])
    returned = {ref.ref for ref in problem.graph.outputs}
    for group in _groups(nodes):
        names = {one.node.name for one in group}
        outside = {name for one in nodes if one.node.name not in names for name, _, _ in one.inputs}
        for kernel in _kernels(group, returned | outside):
            time_us += _kernel_us(target, kernel)
    return START_US + (time_us or target.launch_us)


def _groups(nodes: tuple[Sized, ...]) -> list[list[Sized]]:
    """Connected components of the graph without external nodes and without the tensor arguments."""
    fusible = {one.node.name: one for one in nodes if one.name not in EXTERNAL}
    parent = {name: name for name in fusible}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for name, one in fusible.items():
        for source, _, _ in one.inputs:
            if source in fusible:
                parent[root(name)] = root(source)
    groups: dict[str, list[Sized]] = {}
    for name, one in fusible.items():
        groups.setdefault(root(name), []).append(one)
    return [group for group in groups.values() if any(one.name not in FREE for one in group)]


@dataclass(frozen=True)
class _Kernel:
    """Nodes that one kernel computes, and which of them it writes."""

    nodes: list[Sized]
    left: set[str]


def _kernels(group: list[Sized], wanted: set[str]) -> list[_Kernel]:
    """A group as the kernels that follow one another: a reduction of what others reduced along other rows, as
    the total of all rows' losses is, waits for all of them. What lies between is computed again where it is
    wanted. ``wanted``: names that are read outside of the group."""
    named, at = {one.node.name: one for one in group}, _staged(group)
    left: list[set[str]] = [set() for _ in range(max(at.values()) + 1)]
    for name in wanted & named.keys():
        left[at[name]].add(name)
    found = []
    for stage in reversed(range(len(left))):
        inside, pending = set[str](), list(left[stage])
        while pending:
            name = pending.pop()
            if name in inside or name not in named:
                continue
            if named[name].name in REDUCTIONS and at[name] < stage:
                left[at[name]].add(name)
                continue
            inside.add(name)
            pending += [read for read, _, _ in named[name].inputs]
        found.append(_Kernel([one for one in group if one.node.name in inside], left[stage]))
    return [kernel for kernel in found if any(one.name not in FREE for one in kernel.nodes)]


def _staged(group: list[Sized]) -> dict[str, int]:
    """Of each node, how many kernels come before the one that can compute it."""
    at: dict[str, int] = {}
    rows: dict[str, frozenset[int]] = {}
    """Of the reductions that a node depends on in its own stage: how many results they have."""
    for one in group:
        inputs = [name for name, _, _ in one.inputs if name in at]
        stage = max((at[name] for name in inputs), default=0)
        before = frozenset[int]().union(*(rows[name] for name in inputs if at[name] == stage))
        if one.name in REDUCTIONS:
            own = frozenset([math.prod(one.output)])
            stage, before = (stage + 1, own) if before - own else (stage, own)
        at[one.node.name], rows[one.node.name] = stage, before
    return at


def _kernel_us(target: Target, kernel: _Kernel) -> float:
    group, left = kernel.nodes, kernel.left
    inside = {one.node.name for one in group}
    read = {name: _found(one, n) for one in group for name, _, n in one.inputs if name not in inside}
    written = sum(one.written for one in group if one.node.name in left)
    elements = max(one.elements for one in group)
    reductions = [one for one in group if one.name in REDUCTIONS]
    unique = float(sum(read.values()) + written)
    issued = sum(one.instructions for one in group)
    if not reductions:
        traffic = Traffic(unique, unique, 16.0, stored=float(written), instructions=issued)
        return launch_time(target, _wide(elements), traffic).us + target.launch_us
    rows = max(max(math.prod(one.output) for one in reductions), 1)
    stores = any(math.prod(one.output) == elements for one in group if one.node.name in left)
    reduced = _Reduced(
        elements,
        rows,
        _depth(group),
        stores,
        unique,
        float(sum(n for n in read.values() if 2 * n >= max(read.values()))),
        float(written),
        issued,
    )
    return _reduced_us(target, reduced)


def _found(one: Sized, size: int) -> int:
    """Bytes of an operand that are read: of a table, what is looked up."""
    return min(size, one.written) if one.name in LOOKUPS else size


@dataclass(frozen=True)
class _Reduced:
    """A fused group with reductions: ``rows`` results of ``elements / rows`` terms each."""

    elements: int
    rows: int
    depth: int
    """Reductions that wait for one another."""
    stores: bool
    """True when every element is visited again for the result."""
    unique: float
    largest: float
    """Bytes of the tensors that every pass reads: the largest, and those as large."""
    written: float
    instructions: float


def _reduced_us(target: Target, group: _Reduced) -> float:
    """Rows in registers, rows in a loop (two dependent reductions share a pass: online softmax,
    Welford), or, for few long rows, two launches a reduction over the whole device."""
    row = group.elements // group.rows
    if row <= PERSISTENT:
        shape = Shape(max(group.elements // (4 * INDUCTOR_THREADS), 1), INDUCTOR_THREADS)
        passes, launches = 1, 1
    elif group.rows < 2 * target.sm_count and row > 8 * PERSISTENT:
        shape = _wide(group.elements)
        passes, launches = group.depth + group.stores, 2 * group.depth + group.stores
    else:
        shape = Shape(group.rows, INDUCTOR_THREADS, INDUCTOR_REGISTERS)
        passes, launches = -(-group.depth // 2) + group.stores, 1
    again = (passes - 1) * group.largest
    # Between launches nothing is kept on the multiprocessors, and L2 keeps what fits.
    lost = again if launches > 1 and group.largest > target.l2_bytes else 0.0
    width = 16.0 if row % 4 == 0 else 4.0  # rows of odd length begin anywhere
    traffic = Traffic(
        group.unique + lost,
        group.unique + again,
        width,
        2.0,
        stored=group.written,
        instructions=group.instructions,
    )
    return launch_time(target, shape, traffic).us + launches * target.launch_us


def _depth(group: list[Sized]) -> int:
    """Length of the longest chain of reductions, at least 1."""
    depth: dict[str, int] = {}
    for one in group:
        below = max((depth.get(name, 0) for name, _, _ in one.inputs), default=0)
        depth[one.node.name] = below + (one.name in REDUCTIONS)
    return max(max(depth.values(), default=1), 1)
