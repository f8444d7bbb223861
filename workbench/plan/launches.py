"""``launch(...)``: one kernel launch, checked against the kernel's signature and the card's limits.

Owns grid, block, cluster and shared-memory limits, what fits on the card at once as far as a plan can know
it, and the rule that a launch writes no element through two views. Types and counts of arguments are
arguments.py's.
"""

from __future__ import annotations

from math import prod

from workbench.model import Target
from workbench.plan.arguments import BoundArgument, bind
from workbench.plan.build import Build, integer
from workbench.plan.consts import consts_of
from workbench.plan.expression import kernel_name
from workbench.plan.limits import BLOCK, BLOCK_THREADS, CLUSTER_BLOCKS, GRID
from workbench.plan.overlap import overlap, overlaps_itself
from workbench.plan.refusal import Refused
from workbench.plan.steps import Dim3, Launch
from workbench.plan.values import Tensor, describe

_AXES = "xyz"
_WARP = 32


def launch(build: Build, given: dict[str, object]) -> None:
    """``launch(kernel, grid, block, args=[], const={}, smem=0, cluster=None, cooperative=False)``.

    Raises ``Refused``.
    """
    kernel = kernel_name(given["kernel"])
    consts = consts_of(given["const"], kernel.text)
    arguments = given["args"]
    if not isinstance(arguments, tuple | list):
        raise Refused(f"args must be a list, not {describe(arguments)}", ("args",))
    bound = bind(build.kernels, kernel, consts, arguments)
    tensors = [
        (i, a, b) for i, (a, b) in enumerate(zip(arguments, bound, strict=True)) if isinstance(a, Tensor)
    ]
    _check_writes(tensors)
    grid, block = _grid(given["grid"]), _block(given["block"])
    cluster = _cluster(given["cluster"], grid)
    shared_bytes = _shared_bytes(given["smem"], build)
    step = Launch(
        kernel=kernel.text,
        grid=grid,
        block=block,
        cluster=cluster,
        cooperative=_cooperative(given["cooperative"], (grid, block, cluster), shared_bytes, build.target),
        shared_bytes=shared_bytes,
        args=tuple(b.argument for b in bound),
        consts=consts,
        line=build.line,
    )
    build.add(step)
    build.written.update(t.origin for _, t, b in tensors if b.writable)


def _grid(value: object) -> Dim3:
    sizes = _dim3(value, "grid")
    for axis, size, most in zip(_AXES, sizes, GRID, strict=True):
        if size > most:
            raise Refused(f"grid {axis} is {size}, a card takes at most {most}", ("grid",))
    return sizes


def _block(value: object) -> Dim3:
    sizes = _dim3(value, "block")
    for axis, size, most in zip(_AXES, sizes, BLOCK, strict=True):
        if size > most:
            raise Refused(f"block {axis} is {size}, a card takes at most {most}", ("block",))
    if prod(sizes) > BLOCK_THREADS:
        message = f"a block of {prod(sizes)} threads, a card takes at most {BLOCK_THREADS}"
        raise Refused(message, ("block",))
    return sizes


def _cluster(value: object, grid: Dim3) -> Dim3:
    if value is None:
        return (1, 1, 1)
    sizes = _dim3(value, "cluster")
    if prod(sizes) > CLUSTER_BLOCKS:
        raise Refused(
            f"a cluster of {prod(sizes)} blocks, a card takes at most {CLUSTER_BLOCKS}", ("cluster",)
        )
    for axis, blocks, size in zip(_AXES, grid, sizes, strict=True):
        if blocks % size:
            raise Refused(f"grid {axis} = {blocks} is no multiple of cluster {axis} = {size}", ("cluster",))
    return sizes


def _dim3(value: object, name: str) -> Dim3:
    items = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(items) <= 3:
        raise Refused(f"{name} has one to three sizes, not {len(items)}", (name,))
    for i, item in enumerate(items):
        if isinstance(item, bool) or not isinstance(item, int):
            hint = ": use // or cdiv for whole numbers" if isinstance(item, float) else ""
            raise Refused(f"{name} must be whole numbers, not {describe(item)}{hint}", (name, i))
        if item < 1:
            raise Refused(f"{name} {_AXES[i]} is {item}: at least 1 is needed", (name, i))
    x, y, z = (*items, 1, 1)[:3]
    return (x, y, z)


def _shared_bytes(value: object, build: Build) -> int:
    size = integer(value, "smem")
    most = build.target.shared_bytes_per_block
    if size > most:
        raise Refused(f"smem is {size} bytes, a block of this card has {most}", ("smem",))
    return size


def _room(target: Target, threads: int, shared_bytes: int) -> dict[str, int]:
    """Blocks that a multiprocessor has room for, by what limits them; of registers the compiler tells."""
    warps = -(-threads // _WARP)
    room = {"threads": target.threads_per_sm // (warps * _WARP), "blocks": target.blocks_per_sm}
    if shared_bytes:
        room["shared memory"] = target.shared_bytes_per_sm // shared_bytes
    return room


def _cooperative(value: object, shape: tuple[Dim3, Dim3, Dim3], shared_bytes: int, target: Target) -> bool:
    """True for a launch whose blocks all run at the same time."""
    if not isinstance(value, bool):
        raise Refused(f"cooperative is True or False, not {describe(value)}", ("cooperative",))
    if not value:
        return False
    grid, block, cluster = shape
    if prod(cluster) > 1:
        raise Refused("a launch is cooperative or has clusters, not both", ("cooperative",))
    room = _room(target, prod(block), shared_bytes)
    limit = min(room, key=lambda name: room[name])
    most = target.sm_count * room[limit]
    if prod(grid) > most:
        asked = f"{prod(grid)} blocks of {prod(block)} threads"
        if shared_bytes:
            asked += f" and {shared_bytes} bytes of shared memory"
        message = (
            f"a cooperative launch of {asked}: at most {most} are on this card at the same time, "
            f"{room[limit]} on each of {target.sm_count} multiprocessors for its {limit}"
        )
        raise Refused(message, ("grid",))
    return True


def _check_writes(tensors: list[tuple[int, Tensor, BoundArgument]]) -> None:
    """Refuse a launch that certainly has two names for an element it writes."""
    for i, tensor, bound in tensors:
        if bound.certain and overlaps_itself(tensor.meta):
            message = f"argument {i + 1} is written through a view whose elements overlap each other"
            raise Refused(message, ("args", i))
        for j, other, other_bound in tensors:
            if i == j or not bound.certain or not overlap(tensor, other):
                continue
            same = tensor.meta == other.meta and tensor.offset == other.offset
            if same and not (bound.restrict or other_bound.restrict):
                continue
            reason = "the same memory, and one is __restrict__" if same else "overlapping memory"
            message = f"arguments {min(i, j) + 1} and {max(i, j) + 1} are {reason}: a write would race"
            raise Refused(message, ("args", max(i, j)))
