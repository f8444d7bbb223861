"""The techniques of a few rows that meet many.

Owns their prose; offers.py says when they make sense.
"""

from __future__ import annotations

from workbench.playbook.kernels.few_tiling import AT_A_TIME, SPLITS
from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

FEW_ROWS = (
    Technique(
        name="few_rows",
        title="a warp reads rows of a large matrix once, for all of a few others",
        values=(*map(str, AT_A_TIME), "off"),
        offers=offers.few_rows,
        structural=True,
        bottleneck="memory",
        look_for="bytes from memory against those of the large matrix; what L2 is asked for beside them",
        teaches=(
            "A token that is decoded goes through matrices of a hundred million weights, each of which is "
            "read for two operations. Sixteen tokens at a time are no more to read: a weight that is in a "
            "register goes into sixteen sums instead of one. A warp takes one, two or four rows of weights, "
            "its lanes go along them a vector each, and the tokens wait in shared memory, where every warp "
            "of the block finds them. Four rows at a time read them a quarter as often, for four times as "
            "many sums in registers. In the end each lane has a part of every sum. Joined one by one over "
            "the warp, 64 sums take 320 exchanges; a lane that gives away half of what it has, and takes the "
            "same half of another's, is done after 62. Libraries make products in tiles of 64 or 128 rows, "
            "most of which are empty here."
        ),
    ),
    Technique(
        name="few_split",
        title="blocks of a cluster share the columns of many rows that meet few",
        values=tuple(map(str, SPLITS)),
        offers=offers.few_split,
        structural=True,
        bottleneck="latency",
        look_for="blocks, against multiprocessors; bytes of the few rows that each block reads",
        teaches=(
            "1024 rows of 4096 weights, four a warp and eight warps a block, are 32 blocks: three "
            "multiprocessors in four have nothing to read. Fewer rows a warp make more blocks, but each "
            "reads all of the few rows, which soon are more than the weights. Blocks that share the columns "
            "instead need only their piece of the few rows. They are a cluster: each leaves its sums in "
            "shared memory, the blocks meet, and each finishes a share of the results, reading what the "
            "others have left in theirs."
        ),
    ),
)
