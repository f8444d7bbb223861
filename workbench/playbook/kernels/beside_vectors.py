"""Elements that lie a few places beside one of a vector: most of them are in that vector.

A step of a stencil reads what is left and right of each element; of four neighbours three are in the vector
that is loaded anyway. Owns which loads these are, and the conditions that say where a row ends, which are
known for all elements of a vector but the outermost. Neither changes what is computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load
from workbench.playbook.ir.paths import Path, paths_of
from workbench.playbook.ir.sizes import Sizes
from workbench.playbook.ir.views import View
from workbench.playbook.text.indexing import divisors_of, is_unit, run_of

FAR = 3
"""Places up to which some element of a vector of four is in that vector."""


@dataclass(frozen=True)
class Loaded:
    """A vector of neighbours that has a name."""

    load: Load
    name: str
    path: Path = ()
    """Conditions under which it holds these neighbours; it may hold others where they are not met."""

    def element(self, load: Load, ways: Iterable[Path]) -> str | None:
        """Element ``k`` of another load: one of these, or else read by itself. None where it never is one."""
        if load.buffer != self.load.buffer or load.view.axes != self.load.view.axes or load.lookups:
            return None
        places = (load.view.offset + -self.load.view.offset).number
        needed = {(condition.serial, way) for condition, way in self.path}
        if not places or abs(places) > FAR:
            return None
        if not all(needed <= {(condition.serial, way) for condition, way in path} for path in ways):
            return None
        there = f"k + {places} < VEC" if places > 0 else f"k >= {-places}"
        return f"({there} ? {self.name}.at[k {'+' if places > 0 else '-'} {abs(places)}] : {{element}})"


def beside_vectors(
    loaded: Iterable[Loaded], paths: Mapping[Load, Iterable[Path]], made: Mapping[int, str]
) -> dict[int, str]:
    """Element ``k`` of loads that are not ``made`` as vectors and lie beside such, by their serials."""
    found = dict[int, str]()
    for load, ways in paths.items():
        spelt = (one.element(load, ways) for one in loaded if load.serial not in made)
        text = next((text for text in spelt if text is not None), None)
        if text is not None:
            found[load.serial] = text
    return found


def read_with_vectors(roots: Iterable[Expr], sizes: Sizes, at: Mapping[str, int], width: int) -> set[Load]:
    """Neighbours that are read under conditions, and still as vectors or at the ends of these alone: each of
    the conditions is the same for a whole vector, or speaks of the end of a row."""
    return {
        load
        for load, ways in paths_of(roots).items()
        if is_unit(load.view) and not load.lookups
        if all(_known(condition, sizes, at, width) for path in ways for condition, _ in path)
    }


def _known(condition: Expr, sizes: Sizes, at: Mapping[str, int], width: int) -> bool:
    match condition:
        case Apply(op="and", args=args):
            return all(_known(one, sizes, at, width) for one in args)
        case Apply(op="lt" | "ge", args=(Index(view=view), Const(value=int() | str() as bound))):
            if not is_unit(view):
                return not any(run_of(view).at(at) % width for _ in view.axes[-1:])
            if any(size.at(at) % width for size in divisors_of(view)):
                return False
            return sizes.read(bound).at(at) % width == 0 or end_of_row(condition, sizes) is not None
    return False


@dataclass(frozen=True)
class End:
    """A comparison of a place in a row with one near an end of it, and what element ``k`` knows of that."""

    view: View
    bound: Const
    sign: str
    known: str
    """With how it joins the comparison; for vectors that do not straddle rows."""

    def text(self, place: str, bound: str) -> str:
        """The whole comparison."""
        return f"{self.known} {place} {self.sign} {bound}"


def end_of_row(condition: Expr, sizes: Sizes) -> End | None:
    """A condition as such a comparison; None for others."""
    match condition:
        case Apply(
            op="lt" | "ge" as op, args=(Index(view=view), Const(value=int() | str() as value) as bound)
        ):
            if not is_unit(view) or not view.offset.is_zero:
                return None
            end = sizes.read(value)
            before, behind = end.number, (view.axes[-1].size + -end).number
            below = op == "lt"
            if behind is not None and 0 < behind <= FAR:
                known = f"k + {behind} < VEC ||" if below else f"k + {behind} >= VEC &&"
            elif before is not None and 0 < before <= FAR:
                known = f"k < {before} &&" if below else f"k >= {before} ||"
            else:
                return None
            return End(view, bound, "<" if below else ">=", known)
    return None
