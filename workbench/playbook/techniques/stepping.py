"""Techniques for kernels that go step by step: a thread through a loop, rows through steps on the chip.

Owns their names, values and prose; offers.py says when they make sense, structure.py where they are settled.
"""

from __future__ import annotations

from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

STEPPING = (
    Technique(
        name="rolled_steps",
        title="a loop over the steps of a recurrence",
        values=("off", "8", "16", "32"),
        offers=offers.rolled_steps,
        structural=True,
        bottleneck="latency",
        look_for="registers a thread, and with them warps a multiprocessor",
        teaches=(
            "A loop over time in Python is exported as all of its steps: 64 products and sums one below the "
            "other. As a loop the kernel is twenty lines, and a thread holds its state and what the next few "
            "steps read: these loads do not wait for the state, so they are all on their way before the "
            "first of the steps begins. Channels are often too few to fill the card, and then it is loads in "
            "flight that keep memory busy. Left alone the compiler packs a kernel into 32 registers, for "
            "more threads than there are, and has a third of the loads wait for others; told that one block "
            "a multiprocessor is enough, it asks for all of them. Steps that look one place further find in "
            "a register what the step before has read."
        ),
    ),
    Technique(
        name="recurrent_layers",
        title="all steps of recurrent layers in one launch",
        values=("off", "1", "2", "3", "4"),
        offers=offers.recurrent_layers,
        structural=True,
        bottleneck="latency",
        look_for="microseconds a step; whether the weights are read again at each of them",
        teaches=(
            "A step of an LSTM is a small product: ten rows times 1024 x 512 weights, which an H100 could do "
            "in a microsecond. But the next one needs its result, so a library launches a kernel a step, or "
            "one that reads all weights again, and takes seven microseconds, for each layer by itself. Here "
            "one launch goes through all of it (Diamos et al., Persistent RNNs: Stashing Recurrent Weights "
            "On-Chip, 2016). A block has some units of one layer for good, and their weights wait in its "
            "shared memory; of a step it reads the row that the layer is given and the states that the "
            "layer's blocks have left, and tells the others when its own are there: a counter in memory, a "
            "fence before it. Layers do not wait for whole sequences: a layer's step needs the same step of "
            "the layer below, so all layers are at work, each a step or two behind the one below it. What "
            "it is given is multiplied while the states of the step before are still awaited. In both "
            "directions a layer needs both ends of the one below, and all blocks work at one layer."
        ),
    ),
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
