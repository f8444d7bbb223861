"""The loop over rows that repeat: where a thread is, and what it does once for all of its rows.

Owns that text, for kernels without rows to reduce. copies.py says when there is such a loop; what is done for
each row is flat_kernel.py's.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.ir.expr import Apply, Expr
from workbench.playbook.kernels.copies import UNROLLED, Copies
from workbench.playbook.kernels.kernel_text import Frame, Site, block
from workbench.playbook.text.cuda_text import CTYPES, Text
from workbench.playbook.text.scope import Scope, statement, stem_of


def along_copies(frame: Frame, copies: Copies, shared: list[str], body: list[str]) -> list[str]:
    """The vectors of a thread lie a row that repeats apart, and share what they read and compute of it."""
    items, times = frame.site.schedule.items, frame.macros.text(copies.repeats.times)
    row = frame.macros.text(copies.repeats.row)
    begins = "first_row" if copies.is_of_one_set else "row"
    place = f"const size_t i = ({begins} + item) * {row} + at;"
    inner = block(f"if ({times} % {items} == 0 || first_row + item < {times})", [place, *body])
    return [
        *(_by_row(items, row) if copies.by_row else _by_vector(frame, copies, begins)),
        *shared,
        f"#pragma unroll {UNROLLED}" if items > UNROLLED else "#pragma unroll",
        *block(f"for (int item = 0; item < {items}; ++item)", inner),
    ]


def _by_row(items: int, row: str) -> list[str]:
    return [
        f"// What repeats is read once for {items} rows: a thread is at the same place of each.",
        f"constexpr int BLOCKS = ({row} + THREADS * VEC - 1) / (THREADS * VEC);",
        "const size_t at = (size_t(blockIdx.x % BLOCKS) * THREADS + threadIdx.x) * VEC;",
        f"const size_t first_row = blockIdx.x / BLOCKS * {items};",
        *block(f"if (at >= {row})", ["return;"]),
    ]


def _by_vector(frame: Frame, copies: Copies, begins: str) -> list[str]:
    """Threads take the vectors of a row one after the other, then those of the rows behind."""
    items, repeats = frame.site.schedule.items, copies.repeats
    row, times = frame.macros.text(repeats.row), frame.macros.text(repeats.times)
    frame.divisors.add(repeats.row)
    count = frame.macros.text(repeats.sets * repeats.times * repeats.row)
    lines = [
        f"// What repeats is computed once for {items} rows: a thread is at the same place of each.",
        f"constexpr int VECTORS = {row} / VEC;",
    ]
    own = [
        "const size_t own = size_t(blockIdx.x) * THREADS + threadIdx.x;",
        "const size_t at = own % VECTORS * VEC;",
    ]
    if copies.is_of_one_set:
        lines += [*own, f"const size_t first_row = own / VECTORS * {items};"]
    else:
        lines += [
            f"constexpr int GROUPS = ({times} + {items - 1}) / {items};",
            *own,
            f"const size_t first_row = own / VECTORS % GROUPS * {items};",
            f"const size_t row = own / VECTORS / GROUPS * {times} + first_row;",
        ]
    first = f"const size_t first = {begins} * {row} + at;"
    return [*lines, first, *block(f"if (first >= {count})", ["return;"])]


def grid_of_copies(site: Site, copies: Copies) -> str:
    """Blocks of such a loop, in the plan language."""
    times, row = site.size(copies.repeats.times), site.size(copies.repeats.row)
    threads, items = site.schedule.threads, site.schedule.items
    if copies.by_row:
        return f"cdiv({row}, {threads} * {{width}}) * cdiv({times}, {items})"
    vectors = f"{site.factor(copies.repeats.row)} * cdiv({times}, {items})"
    if not copies.is_of_one_set:
        vectors = f"{site.factor(copies.repeats.sets)} * {vectors}"
    return f"cdiv({vectors}, {threads} * {{width}})"


def computed_once(scope: Scope, values: Sequence[Expr], frame: Frame) -> tuple[list[str], dict[int, Text]]:
    """Statements, in ``scope``, that compute the values of element ``k``; declarations of their vectors, and
    how the values are called from then on."""
    scope.prepare(values)
    declared, names = list[str](), dict[int, Text]()
    for value in values:
        name = frame.names.new(f"{_stem(value)}s")
        declared.append(f"{CTYPES[value.dtype]} {name}[VEC];")
        scope.lines += statement(f"{name}[k] = {scope.text(value).code};")
        names[value.serial] = Text(f"{name}[k]")
    return declared, names


def _stem(value: Expr) -> str:
    """A word for what is rounded, if it is."""
    while isinstance(value, Apply) and value.op.startswith("round_"):
        (value,) = value.args
    return stem_of(value)
