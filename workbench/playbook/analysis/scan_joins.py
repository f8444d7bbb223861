"""How the running totals of a scan join: what they start from, how a value enters, what is stored.

Owns the C++ words of each kind of scan. Never decides who computes a row.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.model import DType
from workbench.playbook.ir.expr import Load, unguarded
from workbench.playbook.ir.program import Scan
from workbench.playbook.ir.views import distinct, split
from workbench.playbook.text.cuda_text import CTYPES, SUM, Text, bounds
from workbench.playbook.text.indexing import is_unit

PLACES = frozenset(["lastmax", "lastmin"])
"""Scans that tell where the extreme lies, the later one of equals."""
_STRUCTS = {
    "sum": "Sum", "prod": "Product", "max": "Max", "min": "Min", "logsumexp": "LogSumExp",
    "lastmax": "LastMax", "lastmin": "LastMin",
}  # fmt: skip


def is_pair(op: str, dtype: DType) -> bool:
    """True for totals that are kept as two numbers: one scale, and a sum in it."""
    return op == "logsumexp" and dtype == "f32"


@dataclass(frozen=True)
class Join:
    """The words for one scan."""

    op: str
    dtype: DType
    """Of the values that are scanned."""
    fast_math: bool = False

    @property
    def is_pair(self) -> bool:
        """True where a total is kept as two numbers, and what is stored has to be computed from them.

        A join of pairs costs as much as taking a value in, and their totals twice the registers: so threads
        keep their values, and take them in a second time once they know what comes before.
        """
        return is_pair(self.op, self.dtype)

    @property
    def struct(self) -> str:
        """Name of the struct whose ``join`` takes what comes before and what comes after."""
        return "RunningLogSum" if self.is_pair else _STRUCTS[self.op]

    @property
    def helpers(self) -> tuple[str, ...]:
        """Texts in cuda_helpers.py."""
        return ("running_logsum",) if self.is_pair else (self.op,)

    @property
    def shuffles(self) -> tuple[str, ...]:
        """Texts that a scan among threads needs beside: of totals that are more than a number."""
        if self.op in PLACES:
            return ("shift_up_best",)
        return ("shift_up_running",) if self.is_pair else ()

    @property
    def lane_shuffles(self) -> tuple[str, ...]:
        """Beside those, texts that a scan among lanes of a warp needs."""
        if self.op in PLACES:
            return (*self.shuffles, "last_lane_best")
        return (*self.shuffles, "last_lane_running") if self.is_pair else ()

    @property
    def ctype(self) -> str:
        """Type of a total."""
        plain = CTYPES[self.dtype]
        if self.is_pair:
            return "Running"
        return f"Best<{plain}>" if self.op in PLACES else plain

    @property
    def start(self) -> str:
        """The total of nothing."""
        if self.is_pair:
            return "Running{-FLT_MAX, 0.0f}"
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
        if self.is_pair:
            return self.taken(self.start, value, column)
        return f"{self.ctype}{{{value.code}, {column}}}" if self.op in PLACES else value.code

    def step(self, value: Text, column: str) -> str:
        """Statement that adds one value to ``total``."""
        if self.op == "sum":
            return f"total += {value.code};"
        if self.op == "prod":
            return f"total *= {value.within(13)};"
        return f"total = {self.taken('total', value, column)};"

    def taken(self, total: str, value: Text, column: str) -> str:
        """A total and one value more."""
        if self.is_pair:
            return f"{self.struct}::add({total}, {value.code})"
        # The number of a column is an int, whatever the scan is of: a template would see two types.
        one = f"<{self.ctype}>" if self.dtype == "i64" and self.op in ("max", "min") else ""
        return f"{self.struct}::join{one}({total}, {self.entered(value, column)})"

    def result(self, total: str) -> Text:
        """What a total says."""
        if self.is_pair:
            return Text(f"{total}.top + {'__logf' if self.fast_math else 'logf'}({total}.sum)", SUM)
        return Text(f"{total}.column") if self.op in PLACES else Text(total)


def in_rows(scan: Scan) -> bool:
    """True when the columns of a row are neighbours in memory.

    What several rows read is little beside the totals that they leave, and is not asked: a one-hot code is
    read along its rows, and what it adds up to is written across them.
    """
    loads = [leaf.view for leaf in unguarded(scan.value) if isinstance(leaf, Load)]
    views = [scan.view, *(view for view in loads if distinct(view) == scan.rows * scan.columns)]
    parts = [split(view, scan.rows, scan.columns)[1] for view in views]
    return scan.rows.is_one or any(is_unit(part) for part in parts)
