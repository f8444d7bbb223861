"""What ``shapes`` says: its entries, and which sizes of 1 in the inputs are not to stay 1.

Owns the tensors that an export looks at in place of the person's own; only their shapes count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from workbench.errors import ProblemError

Entry = tuple[tuple[int, ...], ...]


def entries(shapes: Any) -> list[Entry]:
    """Normalise: an entry is the first input's shape, or a tuple of shapes."""
    found = []
    for entry in shapes if isinstance(shapes, list | tuple) else (shapes,):
        given = (
            (entry,) if isinstance(entry, list | tuple) and all(isinstance(n, int) for n in entry) else entry
        )
        shapes_ok = isinstance(given, list | tuple) and all(
            isinstance(s, list | tuple) and all(isinstance(n, int) and n > 0 for n in s) for s in given
        )
        if not shapes_ok:
            raise ProblemError(
                f"shapes: {entry!r} is neither a shape nor a tuple of shapes with positive sizes, "
                "as in shapes = [(4096, 1024), (1, 65536)]"
            )
        found.append(tuple(tuple(shape) for shape in given))
    return found


def with_more_than_one(inputs: Mapping[str, Tensor], declared: Sequence[Entry]) -> dict[str, Tensor]:
    """The inputs, with as many along axes of size 1 as the first entry has that names another size.

    An export takes every 1 for a number, as one that is repeated; a batch of one could have no other sizes.
    """
    found: dict[str, Tensor] = dict(inputs)
    for place, (name, tensor) in enumerate(inputs.items()):
        given = [entry[place] for entry in declared if place < len(entry)]
        fitting = [shape for shape in given if len(shape) == tensor.ndim]
        sizes = [
            next((shape[axis] for shape in fitting if shape[axis] > 1), size) if size == 1 else size
            for axis, size in enumerate(tensor.shape)
        ]
        if sizes != list(tensor.shape) and tensor.is_contiguous():
            found[name] = tensor.new_empty(sizes)
    return found


def with_equal_ones(sizes: Mapping[str, int], base: Mapping[str, int]) -> dict[str, int]:
    """Sizes that an entry leaves as they are, as long as those that they equal in the inputs have become."""
    moved: dict[int, set[int]] = {}
    for symbol, size in sizes.items():
        if size != base[symbol]:
            moved.setdefault(base[symbol], set()).add(size)
    known = {before: after.pop() for before, after in moved.items() if len(after) == 1}
    return {s: known.get(size, size) if size == base[s] else size for s, size in sizes.items()}
