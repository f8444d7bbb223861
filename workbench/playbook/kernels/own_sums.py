"""Few places that many values want: each block adds up its own in shared memory, then adds what it has.

Owns when that is worth while, and the text around the loop that adds. scatter_kernel.py writes the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.ir.program import Scatter
from workbench.playbook.kernels.kernel_text import KernelText, Site, block
from workbench.playbook.schedules.fitting import Cases

MOST_PLACES = 4096
"""Places that a block has room for: 16 or 32 KB, so that several blocks share a multiprocessor."""
_WORTH = 16
"""Values for each place from which on a block's own sums are worth while (a guess)."""


def has_few_places(scatter: Scatter, declared: Cases) -> bool:
    """True where blocks may keep sums of their own, at every declared size."""
    sizes = [(scatter.places.at(case), scatter.columns.at(case)) for case in declared]
    return scatter.op == "sum" and all(
        places <= MOST_PLACES and values >= _WORTH * places for places, values in sizes
    )


def keeps_own(site: Site, scatter: Scatter) -> bool:
    """True where this is wanted, and is worth while."""
    return site.schedule.own_sums and has_few_places(scatter, site.cases[: site.declared])


def with_own(site: Site, scatter: Scatter, loop: Sequence[str], added: str) -> list[str]:
    """The loop between what clears a block's sums and what adds them; ``added`` adds that of ``place``."""
    ctype = {"f32": "float", "f64": "double", "i32": "int", "i64": "long long"}[scatter.value.dtype]
    places = site.macros.text(scatter.places)
    each = f"for (int own_place = threadIdx.x; own_place < {places}; own_place += THREADS)"
    return [
        "// Few places, and many values for each: a block adds up its own where nobody else waits for them.",
        f"__shared__ {ctype} own[{places} <= {MOST_PLACES} ? {places} : 1];",
        *block(each, ["own[own_place] = 0;"]),
        "__syncthreads();",
        *loop,
        "__syncthreads();",
        *block(each, block("if (own[own_place] != 0)", [added])),
    ]


def launched_few(site: Site, scatter: Scatter, text: KernelText) -> KernelText:
    """The kernel with so few blocks that what each adds in the end is little beside its values."""
    threads, places = site.schedule.threads, site.size(scatter.places)
    few = f"{site.factor(scatter.columns)} // (8 * max(1, {places}))"
    if scatter.places.number is not None:
        few = f"{site.factor(scatter.columns)} // {8 * max(1, scatter.places.number)}"
    most = f"max(1, min(gpu.sm_count * (gpu.threads_per_sm // {threads}), {few}))"
    grid = f"min(cdiv({site.size(scatter.columns)}, {threads} * {{width}}), {{most}})"
    return replace(text, grid=grid, most=most)
