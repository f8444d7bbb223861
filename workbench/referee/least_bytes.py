"""The bytes a problem must move at one case, read and written: what "speed of light" is reckoned with.

A table counts only as far as something is looked up in it. An estimate of the least, not a proof: what no
honest kernel can go below, and may be rejected by, is clock/physics.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES, Case, Problem, Ref, size_of
from workbench.plan.overlap import distinct_elements
from workbench.referee.needed import restricted
from workbench.referee.work import FREE, LOOKUPS, Sized, readers_of, references, sized

Readers = Mapping[str, Sequence[Sized]]


@dataclass(frozen=True)
class Moved:
    """Bytes read from the arguments and written to the results."""

    read: int
    written: int

    @property
    def total(self) -> int:
        """Of both."""
        return self.read + self.written


def least_moved(problem: Problem, case: Case) -> Moved:
    """What the results at one case are made of, each element once."""
    readers = readers_of(sized(problem, case))
    returned = set(problem.graph.outputs)
    parts = restricted(problem, case)
    read = 0
    for name, meta in problem.metas(case).items():
        part = parts.get(name)
        known = _needed(Ref(ref=name), meta.numel, readers, returned)
        least = min(distinct_elements(meta), known, meta.numel if part is None else part.most)
        read += least * DTYPE_BYTES[meta.dtype]
    return Moved(read, written_bytes(problem, case))


def written_bytes(problem: Problem, case: Case) -> int:
    """Bytes of all results at one case."""
    sizes = case.size_map
    total = 0
    for spec in problem.outputs:
        total += math.prod(size_of(dim, sizes) for dim in spec.dims) * DTYPE_BYTES[spec.dtype]
    return total


def _needed(value: Ref, elements: int, readers: Readers, returned: set[Ref]) -> int:
    """Elements of a value of so many that the results depend on."""
    if value in returned:
        return elements
    found = 0
    for reader in readers.get(value.ref, ()):
        if value not in references(reader.node):
            continue
        results = math.prod(reader.output)
        if reader.name in LOOKUPS and reader.inputs[0][0] == value.ref:
            found += results
        elif reader.name in FREE:
            views = _views(reader, readers, returned)
            found += sum(_needed(view, count, readers, returned) for view, count in views.items())
        else:
            found += elements
    return min(found, elements)


def _views(node: Sized, readers: Readers, returned: set[Ref]) -> dict[Ref, int]:
    """Results of a node that somebody wants, each with its elements: the pieces of a split are several."""
    name = node.node.name
    found = {ref: math.prod(node.output) for ref in returned if ref.ref == name}
    for reader in readers.get(name, ()):
        pairs = zip(references(reader.node), reader.inputs, strict=True)
        found.update({ref: math.prod(shape) for ref, (_, shape, _) in pairs if ref.ref == name})
    return found
