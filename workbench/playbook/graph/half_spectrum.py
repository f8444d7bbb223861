"""The Fourier transform of real numbers is its own mirror image: half of it is computed, and read twice.

``X[N - k]`` is the conjugate of ``X[k]``. Transforms along further axes of a real one are one transform of
all these axes, which a library does at once, and which is its own mirror image as well. Owns the rules.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of

_REAL, _COMPLEX = "aten._fft_r2c.default", "aten._fft_c2c.default"
_MOST_AXES = 3
"""Axes that cuFFT transforms at once."""


def half_spectrum(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """All of a real tensor's spectrum, of which kernels read parts: half of it, and its mirror image."""
    asked = _spectrum(edit, node)
    if asked is None or not _is_read_in_parts(edit, node):
        return None
    x, axes, scale = asked
    spec, whole = edit.spec(x), node.outs[0].dims
    halved = axes[-1]
    length = spec.dims[halved]
    kept: Dim = length // 2 + 1 if isinstance(length, int) else f"({length})//2+1"
    dims = (*whole[:halved], kept, *whole[halved + 1 :])
    half = edit.add(_REAL, (x, axes, scale, True), OutputSpec(dtype=spec.dtype, dims=dims), "half_spectrum")
    rest: Dim = (length - 1) // 2 if isinstance(length, int) else f"(({length})-1)//2"
    mirror = {axis: _mirror(edit, rest if axis == halved else whole[axis], axis == halved) for axis in axes}
    one = OutputSpec(dtype=spec.dtype, dims=dims[:-1])
    parts = []
    for part in (0, 1):
        other = taken = edit.add("aten.select.int", (half, -1, part), one, "part")
        for axis in axes if rest != 0 else ():
            other = _picked(edit, other, axis, mirror[axis])
        if part == 1:
            other = edit.add("aten.neg.default", (other,), edit.spec(other), "conjugate")
        both = (taken, other) if rest != 0 else (taken,)
        joined = edit.add("aten.cat.default", (both, halved), OutputSpec(dtype=spec.dtype, dims=whole[:-1]))
        parts.append(edit.view(joined, (*whole[:-1], 1)))
    args: tuple[Arg, ...] = (tuple(parts), len(whole) - 1)
    return node.model_copy(update={"op": "aten.cat.default", "args": args, "kwargs": ()})


def _spectrum(edit: GraphEdit, node: OpNode) -> tuple[Ref, tuple[int, ...], Arg] | None:
    """What is transformed along which axes, the last of which is halved, and how it is scaled: a transform of
    real numbers without its shorter form, and those along other axes of one."""
    match node:
        case OpNode(op=op, args=(Ref() as x, (*axes,), scale, False)) if op == _REAL:
            return x, tuple(axis for axis in axes if isinstance(axis, int)), scale
        case OpNode(op=op, args=(Ref() as before, (*axes,), scale, True)) if op == _COMPLEX:
            made = edit.made(before)
            found = None if made is None else _spectrum(edit, made)
            further = tuple(axis for axis in axes if isinstance(axis, int))
            if found is None or found[2] != scale or {*further} & {*found[1]}:
                return None
            all_axes = (*further, *found[1])
            return (found[0], all_axes, scale) if len(all_axes) <= _MOST_AXES else None
    return None


def _is_read_in_parts(edit: GraphEdit, node: OpNode) -> bool:
    """True where nobody wants the pairs themselves: neither a library nor who asked for them."""
    users = edit.users(node)
    return bool(users) and all(user is not None and user.op == "aten.select.int" for user in users)


def _mirror(edit: GraphEdit, count: Dim, is_halved: bool) -> Ref:
    """Places in the mirror: of the halved axis from its last one back to 1; of another 0, and then so."""
    out = OutputSpec(dtype="i32", dims=(count,))
    places = edit.add("aten.arange.start_step", (0, *shape_of((count,))), out, "place")
    back = edit.add("aten.sub.Tensor", (*shape_of((count,)), places), out, "mirror")
    if is_halved:
        return back
    return edit.add("aten.remainder.Scalar", (back, *shape_of((count,))), out, "mirror")


def _picked(edit: GraphEdit, x: Ref, axis: int, places: Ref) -> Ref:
    spec = edit.spec(x)
    dims = (*spec.dims[:axis], edit.spec(places).dims[0], *spec.dims[axis + 1 :])
    return edit.add("aten.index_select.default", (x, axis, places), OutputSpec(dtype=spec.dtype, dims=dims))
