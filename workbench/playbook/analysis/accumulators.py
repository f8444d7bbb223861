"""Partial results of reductions as CUDA: what they start from, how a value enters, what comes out.

Owns the statements of each kind of accumulator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.model import DType
from workbench.playbook.analysis.row_passes import Accumulator
from workbench.playbook.device_functions.cuda_helpers import OPS
from workbench.playbook.text.cuda_text import CTYPES, PRODUCT, Text, bounds

_NARROW = frozenset(["bool", "u8", "i8", "i16"])
_STRUCTS = {
    "softmax": "running",
    "logsum": "running",
    "welford": "moments",
    "argmax": "best",
    "argmin": "best",
    "weighted": "weighted",
    "co_moments": "co_moments",
    "distances": "distances",
    "divergence": "divergence",
    "divergence_open": "divergence",
}
MEMBERS = {
    "co_moments": (
        "count",
        "mean",
        "rest",
        "other_mean",
        "other_rest",
        "cross",
        "squares",
        "other_squares",
    ),
    "weighted": ("top", "sum", "along"),
    "distances": ("top", "sum", "below", "count"),
    "divergence": ("top", "sum", "other_top", "other_sum", "cross", "own"),
}
"""Of the structs of sums that go along with maxima, or with two means."""


@dataclass(frozen=True)
class AccumulatorText:
    """Statements for one accumulator under a name."""

    accumulator: Accumulator
    dtype: DType
    """Type of the result; of an arg-reduction, the type of the values that are compared."""
    name: str

    @property
    def op(self) -> str:
        """Struct whose ``join`` combines two partial results."""
        return OPS[self.accumulator.kind]

    @property
    def ctype(self) -> str:
        match self.accumulator.kind:
            case "softmax" | "logsum":
                return "Running"
            case "welford":
                return "Moments"
            case "co_moments":
                return "CoMoments"
            case "weighted" | "distances" | "divergence" | "divergence_open":
                return _STRUCTS[self.accumulator.kind].capitalize()
            case "argmax" | "argmin":
                return f"Best<{CTYPES[self.dtype]}>"
            case _:
                return CTYPES[self.dtype]

    @property
    def helpers(self) -> tuple[str, ...]:
        """Helper functions needed to join across threads."""
        struct = _STRUCTS.get(self.accumulator.kind)
        if struct is None and self.accumulator.kind in ("max", "min") and self.dtype in _NARROW:
            struct = "narrow"
        return (self.accumulator.kind, *((f"exchange_{struct}",) if struct else ()))

    @property
    def start(self) -> str:
        """Initial value."""
        lowest, highest = bounds(self.dtype)
        match self.accumulator.kind:
            case "sum":
                return "0.0f" if self.dtype == "f32" else "0"
            case "prod":
                return "1.0f" if self.dtype == "f32" else "1"
            case "max":
                return lowest
            case "min":
                return highest
            case "argmax":
                return f"{{{lowest}, INT_MAX}}"
            case "argmin":
                return f"{{{highest}, INT_MAX}}"
            case "any":
                return "false"
            case "all":
                return "true"
            case "softmax" | "logsum":
                return "{-FLT_MAX, 0.0f}"
            case "weighted":
                return "{-FLT_MAX, 0.0f, 0.0f}"
            case "distances":
                return "{-FLT_MAX, 0.0f, 0.0f, 0.0f}"
            case "divergence" | "divergence_open":
                return "{-FLT_MAX, 0.0f, -FLT_MAX, 0.0f, 0.0f, 0.0f}"
            case "co_moments":
                return "{}"
            case _:
                return "{0.0f, 0.0f, 0.0f}"

    @property
    def members(self) -> tuple[tuple[str, DType], ...]:
        """Numbers the partial result consists of: member of the struct (empty for a plain number), type."""
        match self.accumulator.kind:
            case "softmax" | "logsum":
                return ("top", "f32"), ("sum", "f32")
            case "welford":
                return ("count", "f32"), ("mean", "f32"), ("squares", "f32")
            case "co_moments" | "weighted" | "distances" | "divergence" | "divergence_open" as kind:
                return tuple((name, "f32") for name in MEMBERS[_STRUCTS[kind]])
            case "argmax" | "argmin":
                return ("value", self.dtype), ("column", "i32")
            case _:
                return (("", self.dtype),)

    def enter_partial(self, members: Sequence[str]) -> str:
        """Statement that joins another partial result, given as text of its members."""
        if self.members[0][0]:
            return f"{self.name} = {self.op}::join({self.name}, {{{', '.join(members)}}});"
        return self.enter(Text(members[0]), "")

    def enter(self, value: Text, column: str, other: Text | None = None) -> str:
        """Statement that adds one column's value, or two of a ``Joint``."""
        name = self.name
        match self.accumulator.kind:
            case "sum":
                return f"{name} += {value.code};"
            case "prod":
                return f"{name} *= {value.within(PRODUCT - 1)};"
            case "max":
                return f"{name} = {self._extreme('larger')}({name}, {value.code});"
            case "min":
                return f"{name} = {self._extreme('smaller')}({name}, {value.code});"
            case "any":
                return f"{name} = {name} || {value.within(6)};"
            case "all":
                return f"{name} = {name} && {value.within(6)};"
            case "argmax" | "argmin":
                return f"{name} = {self.op}::join({name}, {{{value.code}, {column}}});"
            case _:
                second = "" if other is None else f", {other.code}"
                return f"{name} = {self.op}::add({name}, {value.code}{second});"

    def _extreme(self, function: str) -> str:
        """With its type where a place or a size may be an int beside a wider or narrower number."""
        return function if self.dtype in ("f32", "f64", "i32") else f"{function}<{self.ctype}>"

    def enter_vectors(self, arrays: Sequence[str], there: str = "") -> tuple[str, str]:
        """A helper function and the statement by which it takes a vector of each operand in.

        With ``there`` it takes several, as many as that says are in the row.
        """
        if self.accumulator.kind == "welford":
            return "welford_vector", f"{self.name} = add_vector({self.name}, {', '.join(arrays)});"
        if self.accumulator.kind == "co_moments":
            return "co_moments_several", self.enter_several(arrays, "VEC")
        if not there:
            return "take_vector", f"{self.name} = take_vector<{self.op}>({', '.join([self.name, *arrays])});"
        given = ", ".join([self.name, there, *arrays])
        return "take_vectors", f"{self.name} = take_vectors<{self.op}>({given});"

    def enter_several(self, arrays: Sequence[str], there: str) -> str:
        """Statement by which moments take in the first ``there`` values of an array of each operand."""
        return f"{self.name} = add_several({self.name}, {there}, {', '.join(arrays)});"

    def enter_next(self, value: Text, column: str) -> str:
        """The same for a column behind all that were taken in before: of equal values the first is kept."""
        return f"{self.name} = {self.op}::add({self.name}, {value.code}, {column});"

    def results(self, columns: str) -> tuple[Text, ...]:
        """What the reductions of the accumulator are, once joined."""
        match self.accumulator.kind:
            case "softmax" | "logsum":
                return Text(f"{self.name}.top"), Text(f"{self.name}.sum")
            case "welford":
                return Text(f"{self.name}.mean * {columns}", PRODUCT), Text(f"{self.name}.squares")
            case "argmax" | "argmin":
                place = f"({self.name}.column == INT_MAX ? 0 : {self.name}.column)"  # nothing beat the start
                both = Text(place), Text(f"{self.name}.value")
                return both[: len(self.accumulator.keys)]
            case "co_moments":
                means = (Text(f"{self.name}.{mean} * {columns}", PRODUCT) for mean in ("mean", "other_mean"))
                sums = (Text(f"{self.name}.{member}") for member in ("cross", "squares", "other_squares"))
                return (*means, *sums)[: len(self.accumulator.keys)]
            case "weighted" | "distances" | "divergence" | "divergence_open" as kind:
                every = tuple(Text(f"{self.name}.{member}") for member in MEMBERS[_STRUCTS[kind]])
                return every[: len(self.accumulator.keys)]
            case _:
                return (Text(self.name),)
