"""What a plan yields: a tuple of frozen steps, evaluated on metadata before any data exists.

Owns the step values and nothing else. Buffers are named: a problem's tensor by its own name, a
buffer the plan makes by ``%0``, ``%1``, ... in order of creation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypeAliasType

from workbench.model import Digest, TensorMeta, Value

Dim3 = tuple[int, int, int]


class Allocate(Value):
    """A new buffer; contents undefined, or zero with ``zero=True`` (one memset)."""

    kind: Literal["allocate"] = "allocate"
    buffer: str
    meta: TensorMeta
    zero: bool = False
    line: int


class View(Value):
    """Another look at a buffer: new shape, strides and offset (elements of ``of``'s own storage)."""

    kind: Literal["view"] = "view"
    buffer: str
    of: str
    meta: TensorMeta
    offset: int
    line: int


class BufferArg(Value):
    """A pointer to a buffer's first element."""

    buffer: str


class ScalarArg(Value):
    """A number passed by value; ``ctype`` is the kernel parameter's own type."""

    value: bool | int | float
    ctype: str


class Launch(Value):
    """One kernel launch."""

    kind: Literal["launch"] = "launch"
    kernel: str
    """Name expression as NVRTC takes it: ``softmax_rows<256>``."""
    grid: Dim3
    block: Dim3
    cluster: Dim3 = (1, 1, 1)
    cooperative: bool = False
    """All blocks are on the card at the same time, and may wait for one another."""
    shared_bytes: int = 0
    """Dynamic shared memory."""
    args: tuple[BufferArg | ScalarArg, ...]
    consts: tuple[tuple[str, str], ...] = ()
    """Compile-time macros, sorted by name; the values are C++ text."""
    line: int


LibraryArg = TypeAliasType(
    "LibraryArg", "BufferArg | bool | int | float | str | tuple[LibraryArg, ...] | None"
)


class Library(Value):
    """A call of a functional ATen operation; counted and shown as such."""

    kind: Literal["library"] = "library"
    op: str
    """Such as ``aten.mm`` or ``aten.sum.dim_IntList``."""
    args: tuple[LibraryArg, ...]
    kwargs: tuple[tuple[str, LibraryArg], ...] = ()
    results: tuple[str, ...]
    """Buffers it makes, in order."""
    metas: tuple[TensorMeta, ...]
    line: int


Step = Annotated[Allocate | View | Launch | Library, Field(discriminator="kind")]


class Plan(Value):
    """A plan interpreted for one set of argument metadata."""

    arguments: tuple[tuple[str, TensorMeta], ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    """Buffers returned, in the reference's order."""

    @cached_property
    def digest(self) -> Digest:
        """Name of all that is not as it is by default: a field added later leaves it as it was.

        The ``kind`` of a step is left out with the defaults; its required fields tell it.
        """
        return _named(self.model_dump_json(exclude_defaults=True))

    @property
    def former_digests(self) -> frozenset[Digest]:
        """What receipts of up to 22 November 2026 call this plan: all fields, as many as there were then.

        A field that is added now is to be excluded here; plans of committed receipts are looked for in tests.
        """
        found = {_named(self.model_dump_json())}
        if not any(launch.cooperative for launch in self.launches):
            found.add(_named(self.model_dump_json(exclude={"steps": {"__all__": {"cooperative"}}})))
        return frozenset(found)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launch steps in order."""
        return tuple(s for s in self.steps if isinstance(s, Launch))

    @property
    def instances(self) -> tuple[tuple[str, tuple[tuple[str, str], ...]], ...]:
        """Distinct (kernel, consts) pairs in order of first launch: what must be compiled."""
        return tuple(dict.fromkeys((s.kernel, s.consts) for s in self.launches))

    def meta_of(self, buffer: str) -> TensorMeta:
        """Metadata of an argument or of a buffer a step made. Raises ``KeyError``."""
        return self.metas[buffer]

    @cached_property
    def metas(self) -> Mapping[str, TensorMeta]:
        """The same of all of them: every launch of a long plan asks for its own."""
        known = dict(self.arguments)
        for step in self.steps:
            match step:
                case Allocate(buffer=name, meta=meta) | View(buffer=name, meta=meta):
                    known[name] = meta
                case Library(results=results, metas=metas):
                    known.update(zip(results, metas, strict=True))
                case Launch():
                    pass
        return known


def _named(content: str) -> Digest:
    return Digest(hashlib.sha256(content.encode()).hexdigest())
