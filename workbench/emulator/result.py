"""What the runtime says of one launch, read with care: a kernel shares its process and may forge it.

Owns the shape of the runtime's JSON. Never believes more than it must: the text decides no number of an
output, and one that makes no sense is an error of the kernel's process.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

Count = Annotated[int, Field(ge=0, le=2**63)]
Offset = Annotated[int, Field(ge=-(2**63), le=2**63)]
Code = Annotated[int, Field(ge=0, lt=2**32)]
"""Offset of an instruction in its module."""
Index = tuple[int, int, int]
MOST_ENTRIES = 1 << 16
LARGEST_TEXT = 1 << 26
MOST_PRINTED = 4096
"""Characters of what a launch prints that the runtime keeps."""


class Fault(TypedDict):
    """Undefined behaviour seen at an instruction; ``count`` times alike."""

    kind: Annotated[str, Field(max_length=64)]
    pc: Code
    other_pc: Code
    size: Count
    action: Annotated[int, Field(ge=-1, le=2)]
    thread: Index
    block: Index
    other_thread: int
    place: Annotated[int, Field(ge=-4, le=2**16)]
    offset: Offset
    count: Count
    message: Annotated[str, Field(max_length=4096)]


class Site(TypedDict):
    """Warp requests of one access instruction."""

    pc: Code
    shared: Annotated[int, Field(ge=0, le=1)]
    action: Annotated[int, Field(ge=0, le=2)]
    size: Count
    requests: Count
    bytes: Count
    transactions: Count
    ideal: Count


class LaunchResult(TypedDict):
    """One launch."""

    stopped: Annotated[int, Field(ge=0, le=1)]
    blocks: Count
    traced_blocks: Count
    barriers: Count
    warp_operations: Count
    unit_products: Count
    printed: Annotated[str, Field(max_length=MOST_PRINTED)]
    print_calls: Count
    converses: Annotated[int, Field(ge=0, le=1)]
    faults: Annotated[list[Fault], Field(max_length=MOST_ENTRIES)]
    sites: Annotated[list[Site], Field(max_length=MOST_ENTRIES)]


_READER = TypeAdapter(LaunchResult)


def read(text: bytes) -> LaunchResult:
    """Parse and check. Raises ``ValueError`` for anything the runtime does not write."""
    if len(text) > LARGEST_TEXT:
        raise ValueError(f"the runtime's report has {len(text)} bytes")
    try:
        return _READER.validate_json(text.decode(errors="replace"))
    except ValidationError as error:
        raise ValueError(f"the runtime's report makes no sense: {error.errors()[0]['msg']}") from None
