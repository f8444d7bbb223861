"""Techniques for rows that go through several steps on the chip.

Owns their names, values and prose; offers.py says when they make sense, structure.py where they are settled.
"""

from __future__ import annotations

from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

STEPPING = (
    Technique(
        name="steps_by",
        title="who waits between two steps of a row",
        values=("block", "warp"),
        offers=offers.steps_by,
        structural=True,
        bottleneck="latency",
        look_for="stalls at barriers; shared memory a block; warps a multiprocessor",
        teaches=(
            "Between two steps of a butterfly, what one thread has made another reads: it has to be there. "
            "Where a block shares its rows, every step ends with a barrier of the whole block, and all warps "
            "wait for the last of them. Where a warp has a row of its own, it waits for its own lanes only "
            "(__syncwarp), which costs a few clocks, and other warps are at other steps meanwhile. But each "
            "warp then has its row in shared memory by itself: long rows leave room for few warps."
        ),
    ),
)
