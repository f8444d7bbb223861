"""Techniques for rows that share what they are made of: weights, a walk, or the few elements of many columns.

Owns their names, values and prose; offers.py says when they make sense, structure.py where they are settled.
"""

from __future__ import annotations

from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

WEIGHING = (
    Technique(
        name="row_sums",
        title="one walk over a row for all that it is summed to",
        values=("apart", "warp", "block"),
        offers=offers.row_sums,
        structural=True,
        bottleneck="memory",
        look_for="bytes moved against the least; bytes of each request",
        teaches=(
            "Light along a ray gets weaker sample by sample: a running product. What is left of it weighs "
            "the samples' colours, and three sums come of them. As kernels of their own, the scan writes "
            "totals that the sums read back, and a thread a sum reads colours twelve bytes apart. Here a "
            "warp has a ray: it reads densities and colours in vectors, all of them before the scan, scans "
            "with shuffles, and each lane adds up the three colours of its samples in registers. Colours of "
            "four samples are three whole vectors, one behind the other. Everything is read once, and "
            "totals that nobody else wants are never written. Weights that no scan makes, a softmax of the "
            "samples' scores, are summed with the colours in the same way."
        ),
    ),
    Technique(
        name="shared_weights",
        title="one lane makes a weight, its neighbours are told",
        values=("off", "on"),
        offers=offers.shared_weights,
        structural=True,
        bottleneck="memory",
        look_for="bytes in flight a multiprocessor; instructions a byte that is read",
        teaches=(
            "Tokens that are pooled by a softmax of their scores are summed down columns: 1024 results of a "
            "row of tokens lie side by side, and each wants the same 512 weights. With a thread a result, "
            "every thread computes every exponential, and reads four bytes of a token at a time. Here a lane "
            "has four neighbouring results, so that a warp reads 512 bytes of a token at once, and four "
            "tokens are on their way together. Before that each lane makes the weight of one token, 32 "
            "tokens a warp: an exponential for 32 columns instead of one for each. Shuffles hand the weights "
            "round as the tokens arrive."
        ),
    ),
    Technique(
        name="row_tables",
        title="a thread reads what many columns are made of once",
        values=("off", "on"),
        offers=offers.row_tables,
        structural=True,
        bottleneck="memory",
        look_for="load instructions a result; local memory, which must not be used",
        teaches=(
            "How far the members of an ensemble are from one another is a sum over pairs: 256 distances at "
            "each place of a map, made of 16 values. As a row of 256 columns it is walked by a block, or by "
            "a thread that reads two values for every pair. Here a thread has a place, as its neighbours "
            "have the places beside it, so that a warp reads whole lines. It asks for its 16 values at once, "
            "and then goes through all pairs without a load. An array can only be in registers if the "
            "compiler knows every index: loops over columns are written out, which bounds how many there may "
            "be. Other sums over the same rows, such as the distance from what came true, are made by the "
            "same thread, of the same registers."
        ),
    ),
)
