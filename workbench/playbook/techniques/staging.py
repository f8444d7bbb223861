"""Techniques for results that wait on the chip until what lies side by side in memory is whole.

Owns their names, values and prose; offers.py says when they make sense, structure.py where they are settled.
"""

from __future__ import annotations

from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

STAGING = (
    Technique(
        name="staged_rows",
        title="rows of results wait in shared memory until they are whole",
        values=("off", "on"),
        offers=offers.staged_rows,
        structural=True,
        bottleneck="memory",
        look_for="sectors and bytes of a store request; bank conflicts of the tile",
        teaches=(
            "A rotation is nine numbers. With a thread for each rotation, neighbouring threads store 36 "
            "bytes apart: one store of a warp touches 32 sectors of 32 bytes for 128 bytes that it "
            "writes, and nine of them come back to the same lines. Features of 63 numbers in three parts "
            "begin and end inside sectors, part by part. Here a block writes its results to shared "
            "memory, where a stride of nine words meets every bank once, and waits. What lies there is a "
            "stretch of the result as memory has it, whatever its rows consist of: threads store it as "
            "vectors of 16 bytes side by side, four lines for each request and every sector whole. Rows "
            "of an even number of words are a word longer in shared memory, as in tiles that are turned "
            "round. Kernels that made a part of the rows each become one."
        ),
    ),
)
