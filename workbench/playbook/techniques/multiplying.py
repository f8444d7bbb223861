"""The technique of matrix products that a kernel makes itself.

Owns its prose; offers.py says when it makes sense.
"""

from __future__ import annotations

from workbench.playbook.kernels.product_tiling import SPLITS
from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

MULTIPLYING = (
    Technique(
        name="matrix_product",
        title="a kernel multiplies the matrices on tensor cores, and makes what follows",
        values=("library", "three_tf32", "each"),
        offers=offers.matrix_product,
        structural=True,
        bottleneck="compute",
        look_for="HGMMA among the instructions; how busy tensor cores and shared memory are",
        teaches=(
            "In IEEE float32 a library multiplies matrices without tensor cores: 52 TFLOP/s of an H100 that "
            "has 495 in TF32. TF32 keeps 11 bits of a factor. But a float is the sum of two TF32 numbers, "
            "its first 11 bits and what is left, rounded to the nearest, and (a + b)(c + d) is ac + ad + bc "
            "but for bd, which is less than float32's own rounding: three products on tensor cores for one "
            "of float32 (Markidis et al., NVIDIA Tensor Core Programmability, Performance & Precision, "
            "2018). One thing is left: where a tensor core adds, it cuts off what has no room, always "
            "towards zero, and a long sum comes out too small. So sums leave it after 128 terms, sooner "
            "where they are short, and join totals that are rounded (Ootomo and Yokota, Recovering single "
            "precision accuracy from Tensor Cores, 2022). The error is below cuBLAS's in float32, at twice "
            "the speed. Hopper's instruction takes the right factor from shared memory and the left one "
            "from registers, and works while the threads go on: they take the next piece apart meanwhile. "
            "An infinity has no low part; where one was met, the sum is made anew. With `each`, every "
            "product is made in the way that the model of time finds best, the library's or this."
        ),
    ),
    Technique(
        name="split_k",
        title="several blocks share the terms of a tile",
        values=(*map(str, SPLITS), "each"),
        offers=offers.split_k,
        structural=True,
        bottleneck="latency",
        look_for="tiles, against multiprocessors: how many of these have nothing to do",
        teaches=(
            "A product of matrices is cut into tiles of results, a block each. 128 x 4096 results are 32 "
            "tiles of 128 x 128: three multiprocessors in four have none, however long the sums are. But a "
            "sum can be cut as well, along k, the terms: split-K. Three blocks have a third of the terms "
            "each, in the time that a third takes, and what they found is added up. Libraries leave such "
            "parts in memory and add them in a second kernel, or atomically, in another order each time. "
            "Here the blocks of a tile are a cluster: they read one another's shared memory, each finishes "
            "some rows, in the same order every time, and goes on with what follows the product. It also "
            "helps where tiles are a few more than multiprocessors: the last round is shorter. A network's "
            "products differ: 980 tiles of its first layer are enough for all multiprocessors, four of its "
            "last are not. With `each`, every product has the number that the model of time finds best."
        ),
    ),
)
