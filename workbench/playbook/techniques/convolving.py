"""The technique of convolutions that a kernel makes itself.

Owns its prose; offers.py says when it makes sense.
"""

from __future__ import annotations

from workbench.playbook.kernels.convolution_tiling import TILES
from workbench.playbook.techniques import offers
from workbench.playbook.techniques.technique import Technique

CONVOLVING = (
    Technique(
        name="convolution",
        title="a kernel makes the convolution, and what follows it",
        values=("library", *TILES, "three_tf32", "patches", "each"),
        offers=offers.convolution,
        structural=True,
        bottleneck="compute",
        look_for="multiply-adds among all instructions; bytes that the step behind the convolution reads",
        teaches=(
            "In float32 a convolution is multiply-adds, 134 billion in four milliseconds of an H100 at "
            "best. cuDNN's kernels are written for many channels; with few, or transposed, they take "
            "several times as long as their arithmetic, and what they make goes to memory and comes back "
            "before bias and activation are done with it. Here a block brings the part of the input that "
            "its tile of results is made of into shared memory, with its weights. A thread has 8 x 8 sums "
            "in registers, of eight channels at eight places: a weight that it reads goes into eight of "
            "them, and an element of the input into eight for each window that it is in, so that arithmetic "
            "takes longer than reading. While a few channels are taken in, the next are copied into shared "
            "memory (cp.async): 32 channels took an H100 1992 us so, 2498 without. What follows is done in "
            "registers. A transposed convolution of stride 2 is four small ones, one for each remainder of "
            "row and column: a place meets only the weights of its own remainder (Dumoulin and Visin, A "
            "guide to convolution arithmetic for deep learning, 2016). With many channels and windows of 3 "
            "x 3 cuDNN saves multiplications (Lavin and Gray, Fast Algorithms for Convolutional Neural "
            "Networks, 2015). With more channels a convolution is a product of matrices, "
            "weights times what each place sees, and tensor cores make it: three TF32 products for one of "
            "float32, as with matrix_product. What a place sees is nowhere in memory; a thread looks its "
            "elements up a piece ahead, where a lane has found each term's tap and channel for all. "
            "With 64 channels or fewer places are the rows and channels the columns: what a place sees, the "
            "larger factor by far, is then taken apart in registers and not stored again. A warp then has "
            "whole windows of a pool behind it, and all channels of a place for a softmax or an argmax: "
            "these are made of results on the chip, and the tensor that they would read is nowhere in "
            "memory. 64 x 3 x 224 x 224 to 64 channels with ReLU and a 2 x 2 pool took an H100 748 us with "
            "the pool in a kernel of its own, 307 with it here, and 256 where three small blocks share a "
            "multiprocessor, of which one stores while others multiply. Numbers of 16 bits go to tensor "
            "cores as they are; the library wants their channels side by side and moves the input and the "
            "results once more for that: 64 x 16 x 128 x 128 to 64 channels of bfloat16 take 427 us with "
            "its convolution and 132 in one kernel. A network has all of these: few channels and large "
            "planes first, many channels and small planes last. With `each`, every convolution is made in "
            "the way that the model of time finds best, the library's among them. Last layers have few "
            "places, so few tiles: blocks of a cluster then read some of the channels each, and add up what "
            "they have found through their shared memory. A dense layer of 992 channels to 32, of ten images "
            "of 14 x 14, took an H100 68 us as a product whose rows are channels and whose terms blocks "
            "share, and 36 so."
        ),
    ),
    Technique(
        name="channel_pairs",
        title="neighbouring channels of a patch share a word of shared memory",
        values=("off", "on"),
        offers=offers.channel_pairs,
        structural=True,
        bottleneck="compute",
        look_for="requests to shared memory, against multiplications of tensor cores",
        teaches=(
            "Shared memory gives each lane of a warp four bytes a clock. A lane that reads an element of 16 "
            "bits leaves half of that, and tensor cores, which take two such elements in a register, wait "
            "for two reads and for the instruction that puts them together. A convolution reads every "
            "element of its patch once for each tap, nine times for 3 x 3, and writes it there once. So it "
            "pays to write it well: when a patch has come, the thread that asked for it puts elements of "
            "two channels side by side (__byte_perm), 32 bits that are a register of the left factor, two "
            "terms of the sum. The order of terms is free, if weights have the same: a small kernel lays "
            "them out so, channel by channel in pairs, and tap by tap."
        ),
    ),
)
