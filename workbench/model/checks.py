"""A kernel's numbers against the float64 oracle."""

from __future__ import annotations

from workbench.model.value import Value

ULP_EDGES: tuple[float, ...] = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 64.0, 256.0)
"""Upper ends of the bins of ``Difference.ulps``; half a unit is what rounding alone costs."""


class WorstEntry(Value):
    """One element and how far off it is."""

    index: tuple[int, ...]
    expected: float
    got: float


class Crossed(Value):
    """Elements on the other side of an edge than in float64, where rounding may put them there.

    An edge is where a result jumps: halfway between two whole numbers for a rounding, a threshold for a
    comparison.
    """

    elements: int
    of: int
    """All elements of the output."""
    distance: float
    """The furthest that one of them was from its edge in float64, before the result jumped."""

    @property
    def words(self) -> str:
        """``12 of 65,536 elements lie a step away, each within 0.002 of an edge``."""
        lie = "element lies" if self.elements == 1 else "elements lie"
        within = f"within {self.distance:.2g} of an edge"
        return (
            f"{self.elements:,} of {self.of:,} {lie} a step away, {'each ' * (self.elements > 1)}{within}, "
            "where rounding decides"
        )


class Difference(Value):
    """One output compared with the float64 oracle."""

    output: int = 0
    max_abs: float
    max_ratio: float
    """Largest error over the bound the operation's arithmetic allows; above 1 is wrong."""
    wrong_fraction: float = 0.0
    worst: tuple[WorstEntry, ...] = ()
    pattern: str = ""
    """Where the wrong elements lie, in words: ``the last 3 columns``, ``every 32nd element``, ``NaN``."""
    heatmap: tuple[tuple[float, ...], ...] = ()
    """Largest error over bound in at most 32 x 32 bins of the output seen as rows x columns."""
    ulps: tuple[int, ...] = ()
    """Elements by error in units of the last place of the expected value: one more than ``ULP_EDGES``,
    the last for errors beyond all of them and for NaN. Empty for integers and in old journals."""
    crossed: Crossed | None = None


class Printed(Value):
    """The beginning of what a kernel's ``printf`` wrote during one check, block after block."""

    text: str
    calls: int
    """How often ``printf`` was called, also for what is left out."""
    case: str = ""
    inputs: str = ""


class Check(Value):
    """One correctness run: a case, a kind of input, a seed."""

    case: str
    inputs: str
    """A kind of input, such as ``normal``, ``scale 64`` or ``sparse``, or ``yours``."""
    seed: int
    differences: tuple[Difference, ...] = ()
    covered: bool = True
    """False when the plan's ``require`` turned this case away, or it is too large for the emulator."""
    note: str = ""

    @property
    def told(self) -> str:
        """The note, and what lies at an edge."""
        crossed = (one.crossed.words for one in self.differences if one.crossed)
        return "; ".join(filter(None, (self.note, *crossed)))
