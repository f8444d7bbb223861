"""One precision contract for everything that is run or timed: the reference, its rivals, library calls.

The only place that sets torch's precision flags. Runs in a worker child.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from workbench.model import Contract
from workbench.numerics.flags import flags_of


@contextmanager
def precision(contract: Contract) -> Iterator[None]:
    """Hold the flags of a contract, cuDNN's convolutions included; put back what was there before.

    TF32 is on under ``tf32`` and off otherwise; float16 and bfloat16 products accumulate in float32 in
    every contract.
    """
    wanted = flags_of(contract)
    before = {name: _get(name) for name in wanted}
    try:
        for name, value in wanted.items():
            _set(name, value)
        yield
    finally:
        for name, value in before.items():
            _set(name, value)


def flags() -> dict[str, bool]:
    """The flags as they are, for a receipt."""
    return {name: _get(name) for name in flags_of("tf32")}


def _get(name: str) -> bool:
    return bool(getattr(*_place(name)))


def _set(name: str, value: bool) -> None:
    holder, attribute = _place(name)
    with _unfrozen():
        setattr(holder, attribute, value)


def _unfrozen() -> AbstractContextManager[None]:
    """Importing torch's own test utilities freezes the flags for a process, except inside this context."""
    unfrozen: AbstractContextManager[None] = getattr(torch.backends, "__allow_nonbracketed_mutation")()
    return unfrozen


def _place(name: str) -> tuple[Any, str]:
    holder: Any = torch.backends
    *path, attribute = name.split(".")
    for part in path:
        holder = getattr(holder, part)
    return holder, attribute
