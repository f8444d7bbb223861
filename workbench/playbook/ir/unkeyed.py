"""What a cache leaves out of its key.

Owns nothing but that: what decides stands beside it, such as a problem's digest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Unkeyed(Generic[T]):
    """An argument that is equal to any other: a call with the same key gets what the first one made."""

    value: T

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unkeyed)
