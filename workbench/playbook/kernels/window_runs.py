"""Windows side by side: all elements that VEC neighbouring results need of a row, read as vectors.

A pool whose windows do not overlap reads every second or third element, and those between by further loads:
each touches as many cache lines as all of them together. Owns which loads form such a run and their text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.sizes import Size, number
from workbench.playbook.kernels.kernel_text import Frame, block
from workbench.playbook.kernels.whole_rows import together
from workbench.playbook.text.indexing import divisors_of, index_text, name_pieces

_MOST_APART = 4
"""Elements from one window to the next: a thread keeps as many for each of its results."""


@dataclass(frozen=True)
class WindowRun:
    """Loads that take turns at the elements of a row, in the order of their elements."""

    loads: tuple[Load, ...]

    @property
    def first(self) -> Load:
        return self.loads[0]

    @property
    def apart(self) -> int:
        """Elements from one window to the next: none is left out."""
        return len(self.loads)


def window_runs(loads: Sequence[Load], declared: Sequence[Mapping[str, int]]) -> Iterator[WindowRun]:
    """The runs among loads that are made for every element.

    ``declared`` sizes say what a step is that depends on sizes, as from pixel to pixel of an image whose
    colours lie side by side.
    """
    able = [load for load in loads if not load.lookups and _apart(load, declared)]
    taken = set[Load]()
    for load in able:
        places = [load.view.offset + number(step) for step in range(_apart(load, declared))]
        others = [
            other
            for other in able
            if (other.buffer, other.view.axes) == (load.buffer, load.view.axes) and other not in taken
        ]
        run = [next((other for other in others if other.view.offset == place), None) for place in places]
        found = tuple(other for other in run if other is not None)
        if len(found) == len(places):
            taken |= set(found)
            yield WindowRun(found)


def _apart(load: Load, declared: Sequence[Mapping[str, int]]) -> int:
    """Elements between what neighbouring indices find; 0 where these are not a few, always as many."""
    if not load.view.axes:
        return 0
    stride = load.view.axes[-1].stride
    steps = {stride.at(case) for case in declared} if stride.number is None else {stride.number}
    step = steps.pop() if len(steps) == 1 else 0
    return step if 2 <= step <= _MOST_APART else 0


def load_window_runs(frame: Frame, runs: Sequence[WindowRun]) -> tuple[list[str], dict[int, str]]:
    """Statements that read the runs of elements ``i`` to ``i + VEC - 1``, and each load's element by serial.

    In an element ``{element}`` stands for the element by itself: what the compiler takes where sizes keep
    vectors from beginning at borders. Runs that no width would do for are left out.
    """
    able = [
        run for run in runs if not any(size.number is not None and size.number % 2 for size in _sizes(run))
    ]
    if not able:
        return [], {}
    width = frame.site.schedule.width
    sizes = dict.fromkeys(size for run in able for size in _sizes(run))
    if frame.in_rows:  # then results are stored as vectors only where these divide them too
        sizes = {size: None for size in sizes if size not in frame.divisors}
    tests = [f"{frame.macros.text(s)} % VEC == 0" for s in sizes if s.number is None or s.number % width]
    steps = {run.first.view.axes[-1].stride: run.apart for run in able}
    tests += [f"{frame.macros.text(step)} == {apart}" for step, apart in steps.items() if step.number is None]
    whole = frame.names.new("side_by_side") if tests else ""
    lines, elements = list[str](), dict[int, str]()
    for run in able:
        name = frame.names.new(f"{run.first.buffer}_run")
        begin = index_text(run.first.view, "i", frame.macros, wide=True).within(12)
        function = "load_rows" if frame.in_rows and together(run.first.view, run.apart) > 1 else "load_run"
        read = f"{function}<VEC, {run.apart}>({frame.pointer(run.first.buffer)} + {begin})"
        if whole:
            lines.append(f"Run<{frame.element_type(run.first.buffer)}, VEC * {run.apart}> {name};")
            lines += block(f"if constexpr ({whole})", [f"{name} = {read};"])
        else:
            lines.append(f"const auto {name} = {read};")
        for place, load in enumerate(run.loads):
            one = f"{name}.at[k * {run.apart}{f' + {place}' if place else ''}]"
            elements[load.serial] = f"({whole} ? {one} : {{element}})" if whole else one
        frame.helpers.add(function)
        frame.use_rows_together(run.first.buffer, together(run.first.view, run.apart) if frame.in_rows else 1)
    comment = "// Windows side by side: what a vector of results needs of a row is read as vectors."
    if frame.in_rows:
        comment = "// A thread has whole rows: their elements lie side by side, and are read as vectors."
    flag = [f"constexpr bool {whole} = {' && '.join(tests)};"] if whole else []
    return [comment, *flag, *name_pieces(lines, "i", frame.names)], elements


def _sizes(run: WindowRun) -> list[Size]:
    """What the width must divide."""
    return [size for size in divisors_of(run.first.view) if not size.is_zero]
