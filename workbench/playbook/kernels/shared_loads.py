"""Elements that neighbouring results share, read as one vector: the text of what shared_elements.py finds.

Owns the loads. Never decides which elements are shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from workbench.playbook.analysis.shared_elements import Shared
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Frame
from workbench.playbook.text.indexing import index_text


def load_shared(frame: Frame, found: Iterable[Shared]) -> tuple[list[str], Mapping[int, str]]:
    """Statements that read what the vector at ``i`` needs, and each load's element by serial."""
    lines, elements = list[str](), dict[int, str]()
    named: dict[tuple[str, View], str] = {}
    for one in found:
        buffer, key = one.load.buffer, (one.load.buffer, one.begin)
        if key not in named:
            named[key] = frame.names.new(f"{buffer}_shared")
            begin = index_text(one.begin, "i", frame.macros, wide=True).within(12)
            from_ = f"{frame.pointer(buffer)} + {begin}"
            lines.append(f"const auto {named[key]} = {_read(one, from_)};")
            frame.helpers.add("load" if one.place is None else "load_group")
            frame.divisors.update(size for size in one.whole if not size.is_zero)
            frame.vectors.add(buffer)
        at = f"k / {one.results}"
        if one.place is not None:
            at = f"{at} * {one.results}" + (f" + {one.place}" if one.place else "")
        elements[one.load.serial] = f"{named[key]}.at[{at}]"
    if lines:
        lines.insert(0, "// Neighbouring results share elements: those of a vector are read together.")
    return lines, elements


def _read(one: Shared, from_: str) -> str:
    if one.place is not None:
        return f"load_group<VEC, {one.results}>({from_})"
    return f"load<(VEC + {one.results - 1}) / {one.results}>({from_})"
