"""How the running totals of a scan join: what they start from, how a value enters, what is stored.

Owns the C++ words of each kind of scan. Never decides who computes a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import DType
from workbench.playbook.accumulators import bounds
from workbench.playbook.cuda_text import CTYPES, Text

PLACES = frozenset(["lastmax", "lastmin"])
"""Scans that tell where the extreme lies, the later one of equals."""
_STRUCTS = {
    "sum": "Sum", "prod": "Product", "max": "Max", "min": "Min", "logsumexp": "LogSumExp",
    "lastmax": "LastMax", "lastmin": "LastMin",
}  # fmt: skip


@dataclass(frozen=True)
class Join:
    """The words for one scan."""

    op: str
    dtype: DType
    """Of the values that are scanned."""

    @property
    def struct(self) -> str:
        """Name of the struct whose ``join`` takes what comes before and what comes after."""
        return _STRUCTS[self.op]

    @property
    def helpers(self) -> tuple[str, ...]:
        """Texts in cuda_helpers.py."""
        return (self.op,)

    @property
    def ctype(self) -> str:
        """Type of a total."""
        plain = CTYPES[self.dtype]
        return f"Best<{plain}>" if self.op in PLACES else plain

    @property
    def start(self) -> str:
        """The total of nothing."""
        lowest, highest = bounds(self.dtype)
        suffix = {"f32": ".0f", "f64": ".0", "i64": "ll"}.get(self.dtype, "")
        match self.op:
            case "sum":
                return f"0{suffix}"
            case "prod":
                return f"1{suffix}"
            case "max" | "logsumexp":
                return f"{CTYPES[self.dtype]}({lowest})" if " " not in CTYPES[self.dtype] else lowest
            case "min":
                return f"{CTYPES[self.dtype]}({highest})" if " " not in CTYPES[self.dtype] else highest
            case "lastmax":
                return f"{self.ctype}{{{lowest}, -1}}"
            case _:
                return f"{self.ctype}{{{highest}, -1}}"

    def entered(self, value: Text, column: str) -> str:
        """The total of one value."""
        return f"{self.ctype}{{{value.code}, {column}}}" if self.op in PLACES else value.code

    def step(self, value: Text, column: str) -> str:
        """Statement that adds one value to ``total``."""
        if self.op == "sum":
            return f"total += {value.code};"
        if self.op == "prod":
            return f"total *= {value.within(13)};"
        return f"total = {self.struct}::join(total, {self.entered(value, column)});"

    def result(self, total: str) -> Text:
        """What a total says."""
        return Text(f"{total}.column") if self.op in PLACES else Text(total)
