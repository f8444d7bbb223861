"""Techniques that rewrite the op graph before any kernel is written: the same numbers by another route.

Owns their names and prose; rewrites.py has the rules. They are on from the start and can be turned off, to
see what they gain.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.playbook.graph.rewrites import (
    DEPTHWISE,
    INTERLEAVED,
    JOINT_ROWS,
    LOWERED,
    MADE_ONCE,
    ONLY_FUSED,
    ROW_STEPS,
    SCATTERED_SUMS,
    TAKEN_OUT,
    WHOLE_WALKS,
    WIDER_ROWS,
)
from workbench.playbook.techniques.technique import Settings, Technique
from workbench.playbook.techniques.traits import Outline


def offers_of(name: str) -> Callable[[Outline, Settings], tuple[str, ...]]:
    """Whether a rewrite is made or not, where there is something to rewrite."""

    def offers(traits: Outline, settings: Settings) -> tuple[str, ...]:
        fused = settings.get("fusion", "all") == "all"
        within = name in ONLY_FUSED | LOWERED
        return ("off", "on") if name in traits.rewrites and (fused or not within) else ()

    return offers


def _rewrite(name: str, title: str, bottleneck: str, look_for: str, teaches: str) -> Technique:
    return Technique(name, title, ("off", "on"), offers_of(name), True, bottleneck, look_for, teaches)


ALGEBRA = (
    _rewrite(
        "linear_rowsum",
        "sum the weights, not the product",
        "compute",
        "the matrix product leaves the list of steps; A and B are read once each",
        "The sum over the columns of A @ B is A @ (the sum over the columns of B): both are the same double "
        "sum in another order. The left side costs 2*M*N*K operations and writes M*N numbers only to add "
        "them up; the right side reads each operand once. Compilers do not do this, because floating-point "
        "addition in another order rounds differently; the referee checks that the result stays within the "
        "bound that any order would meet.",
    ),
    _rewrite(
        "attention",
        "attention in one call of the library",
        "memory",
        "launches, and the scores: they are nowhere in the list of buffers any more",
        "softmax(q @ k.T * scale) @ v has a score for each pair of a query and a key: written out, that "
        "matrix is written by one product, read and written by the softmax and read by the other product. "
        "The library's attention goes through the keys a tile at a time and keeps, for each query, the "
        "running maximum, the sum of exponentials and the weighted sum of values, which change scale when "
        "the maximum grows: the online softmax that a kernel over long rows uses too. Only q, k, v and the "
        "result move. It computes scores of 16-bit numbers in 32 bits and does not round them; the referee "
        "decides. A causal mask is an argument of the call. Other masks are left where they are unless torch "
        "itself wrote the attention: a row with everything hidden is NaN in a softmax, and 0 in the call.",
    ),
    _rewrite(
        "diagonal_product",
        "a diagonal matrix scales, it does not multiply",
        "compute",
        "the matrix product leaves the list of steps; every element is read twice",
        "diag(d) @ B multiplies row i of B with d[i] and adds N - 1 zeros to each element: 2*N*N*M "
        "operations, and a matrix of N*N numbers that is written and read, for N*M multiplications. No "
        "library looks whether its operand is diagonal, but the graph says how it was made. What is added is "
        "zero only if B is finite: zero times infinity is NaN. So a first pass counts what is not finite in "
        "each column, and the result is NaN where the product's would be; without it the referee refuses.",
    ),
    _rewrite(
        "affine_in_weights",
        "what follows a product is folded into its weights",
        "memory",
        "launches, and passes over the product's result",
        "In evaluation mode a batch norm is a scale and a shift a column: ((x @ w) - m) * s + b. A scale of "
        "the columns of x @ w is a scale of the columns of w, which is far smaller, and the shift becomes "
        "the bias that the library's product adds in its epilogue. The pass over the result is gone. It is "
        "done only where no kernel follows anyway; for a convolution it would gain nothing, because its "
        "library adds a bias in a pass of its own.",
    ),
    _rewrite(
        "scale_in_tail",
        "an operand's scale is applied behind the product",
        "memory",
        "launches, and bytes moved before the product",
        "(x * s) @ w is (x @ w) * s. Before the product, the scaled operand has to be written to memory, "
        "because a library call can only read what lies there; behind it, where a kernel reads the result "
        "anyway, it is one multiplication in a register. Attention does this with 1 / sqrt(d). Products of "
        "unscaled numbers may overflow where scaled ones did not; the referee decides.",
    ),
    _rewrite(
        "bias_in_tail",
        "the bias of a convolution is added behind it",
        "memory",
        "launches, and passes over the convolution's result: one instead of two",
        "cuDNN's convolution returns the products; PyTorch adds the bias in a kernel of its own, which reads "
        "and writes the whole result once more. Where a kernel follows that reads every element anyway, for "
        "an activation or a pooling, the addition there is one instruction on a number that is already in a "
        "register. The convolution is called without its bias.",
    ),
    _rewrite(
        "turned_product",
        "a product that is read turned is made turned",
        "memory",
        "stores of single elements far apart, which leave the kernels behind the product",
        "(a @ b).T is b.T @ a.T, element by element the same sums. A library reads an operand in whichever "
        "order it lies, but writes its result in rows; what follows and wants the result turned either "
        "reads along columns or writes along columns, a sector of 32 bytes for each float. Made the other "
        "way round, the result lies as it is wanted: the kernels behind it read and write along rows, and "
        "nobody copies anything.",
    ),
    _rewrite(
        "shared_heads",
        "heads that share keys and values read them as they are",
        "memory",
        "launches, and bytes written before the attention: keys and values once instead of once a head",
        "Grouped-query attention has fewer heads of keys and values than of queries (Ainslie et al., 2023): "
        "each serves a group. PyTorch code mostly repeats them first, which writes 2 * B * H * S * E numbers "
        "to memory for the library to read. Its kernels for 16-bit numbers take the few as they are, the "
        "group's queries beside each other, and find the right key by dividing the number of a head.",
    ),
    _rewrite(
        "summed_products",
        "products of a few rows are sums, which a kernel makes",
        "memory",
        "bytes from memory a microsecond: the large matrix should be read at the speed of a copy",
        "A product of matrices is left to a library because it is much arithmetic. Of four rows it is not: "
        "four tokens times 4096 x 4096 weights are 134 million operations, two microseconds of a card "
        "without tensor cores, and 64 MB, which are read in twenty. Libraries cut results into tiles of 64 "
        "and more rows, and share long sums out as tiles have it: 16 rows times 1024 x 4096 in float32 take "
        "cuBLAS 87 us on an H200, which reads a matrix four times as large in sixteen. Written as a "
        "sum of products it is a reduction like any other: what comes before joins its reads, as weights "
        "in 8 bits that are scaled, what comes after joins its results, and two products of the same rows, "
        "a gate and what it lets through, are one kernel.",
    ),
    _rewrite(
        "activation_in_product",
        "the library applies bias and activation to its sums",
        "memory",
        "launches, and passes over the product's result: none instead of one",
        "A 16-bit product on tensor cores takes little more time than moving its result does, so that a "
        "kernel which only adds a bias and applies ReLU costs a third more. The product has the sums in "
        "registers, in 32 bits, when it is done: cuBLASLt's epilogue adds the bias, applies ReLU or the GELU "
        "that is written with a tanh, and rounds once. It is done where only another library call reads the "
        "result. Behind any other product the kernel that follows does both for nothing. The GELU with an "
        "error function has no epilogue: the two differ by more than 16 bits round.",
    ),
    _rewrite(
        "short_axis",
        "sums of a few elements are written out",
        "memory",
        "launches, and the inner sums: they are nowhere in the list of buffers any more",
        "The nearest of many points is a minimum over sums of three squares, one sum for every pair of "
        "points. Taken as a reduction, the inner sum is a kernel whose results are all written, 64 MB for "
        "4096 points and 4096 others, and the minimum reads them again. Written out, "
        "dx * dx + dy * dy + dz * dz, it is arithmetic like any other: the kernel of the minimum computes "
        "it in registers, and only the points are read, which L1 holds. Each of the few elements is "
        "computed by itself, with all that leads to it, so that it is done for up to four of them.",
    ),
    _rewrite(
        "constant_places",
        "elements at known places are slices",
        "compute",
        "integer instructions, and reads whose address depends on a remainder",
        "torch.cross and torch.roll ask for the elements (0, 1, 2) + 1 modulo 3 of an axis: a tensor of "
        "indices, computed and looked up for every element, although nobody needs the graph to know that "
        "they are 1, 2, 0. Read as slices, each coordinate is an element like any other: the kernel adds "
        "a constant to an address, and what is computed of the coordinates is computed in registers "
        "instead of being written out to be looked up.",
    ),
    _rewrite(
        "few_terms",
        "reductions of few terms are written out",
        "memory",
        "bytes a load instruction, and launches",
        "A mixture of two experts adds two rows of 1024 numbers. As a reduction over the axis of two, each "
        "result is a row of two columns for a thread: single elements, and a loop. Written out it is "
        "a * x + b * y, a kernel without rows: a thread has four neighbouring results, and reads four "
        "neighbours of each term with one instruction. A softmax over a few elements is three reductions; "
        "written out, nothing waits for anything. It is done where an axis has at most eight elements in "
        "every declared case, and nothing longer is reduced. A product with a matrix of three rows, as "
        "rotations and colours have it, is three multiplications a result, where a library makes a launch of "
        "its own and writes what the next kernel reads.",
    ),
    _rewrite(
        "half_spectrum",
        "the spectrum of real numbers is its own mirror image",
        "memory",
        "time in the library's transform, and bytes of the spectrum that are written and read",
        "The Fourier transform of N real numbers has N complex ones, but the second half says nothing new: "
        "X[N - k] is the conjugate of X[k]. fft of a real tensor has the library compute half of it and "
        "write the other half beside it, for the next step to read. Here only the half is made, and a kernel "
        "that wants X[k] of the second half reads X[N - k] and turns the sign of its imaginary part. A "
        "transform along a second axis of such a spectrum, as FNet has it, is one of both "
        "axes at once, of which again half is enough: X[M - j, N - k] is the conjugate of X[j, k].",
    ),
    _rewrite(
        "few_in_order",
        "rows of few elements are put in order by a network",
        "memory",
        "library calls and launches; bytes of places that are written and read again",
        "The median of five exposures, the two smallest of four, the corners of a box by their angle: sorts "
        "of rows so short that a library spends its time on everything but comparing. It sorts rows of any "
        "length, with a place of eight bytes beside each element, in launches of its own. A network compares "
        "pairs that are known beforehand, five for a row of four, twenty-eight for nine, sixty-three for "
        "sixteen, and each comparison is a minimum and a maximum: no branch, no memory, no loop. What nobody "
        "reads is not compared, so that a median of nine is less than a sort of nine. Floats are compared as "
        "whole numbers that are in their order, which puts NaN last as torch does; where places are read, "
        "each is the lower half of the number that is compared, and equal elements stay as they were.",
    ),
    _rewrite(
        "solved_in_registers",
        "small systems are solved by a thread each",
        "memory",
        "the library's routines: launches, matrices that are copied, and a host that waits for how it went",
        "The inverse of a rotation, the gain of a filter with four states, the six unknowns of a pose: "
        "matrices so small that a thread has room for all of one. A library's routine for batches is made "
        "for larger ones. It copies the matrices, asks a block for each, looks for a pivot in memory, and "
        "tells the host which of them were singular. Written out, an elimination of four rows is forty "
        "products and differences, the same for every matrix: where rows change places, so that the largest "
        "number of a column divides the others, each element is chosen from two. Its thirty-two threads a "
        "warp never part, and what is made of the solution goes on in registers.",
    ),
    _rewrite(
        "few_sums",
        "products of few results are sums along a row",
        "memory",
        "matrices that are written for a product to read; a block that goes along a long sum alone",
        "Six unknowns and sixty thousand points: the normal equations are a product of a matrix of six rows "
        "with one of six columns, thirty-six numbers, each a sum over all points. A library cuts results "
        "into tiles, and there is one, of which most is empty; a single block goes along all points. And it "
        "wants both matrices in memory, where six columns of formulas are made of three numbers a point. "
        "Written as thirty-six sums along one axis, the kernel that reduces rows has a point's columns in "
        "registers, adds to all sums at once, and shares a long row among blocks.",
    ),
    _rewrite(
        "whole_records",
        "a thread makes all elements of a row of few",
        "occupancy",
        "what each element of a small matrix would compute again that its neighbours compute as well",
        "A filter's covariance is a matrix of four rows, and its next one takes a few hundred products, most "
        "of which go into all sixteen elements: the gain, the inverse of what was expected, the prediction. "
        "With a thread for each element sixteen threads compute these hundreds each; with a kernel for each "
        "product all go to memory and back between them. Written out element by element, a thread reads the "
        "few dozen numbers of its filter, has every product once, in a register, and writes whole matrices. "
        "There are fewer threads, and each has more to do.",
    ),
    _rewrite(
        "few_edges",
        "places among few edges are found in the kernel",
        "memory",
        "library calls, and the bytes of numbers that are written for them and of places that come back",
        "A quantiser has 255 borders and asks for each number between which two it lies. The search of the "
        "library wants the numbers in memory, and leaves eight bytes for each: twenty bytes of traffic for a "
        "place that fits into one. The search itself is eight comparisons: is the number behind the middle "
        "edge, behind the middle of that half, and so on. Written out, the kernel that has made the number "
        "finds its place, and computes on with it. Each step waits for the edge that the one before names, "
        "some thirty cycles from L1; a multiprocessor has two thousand threads to do it for meanwhile.",
    ),
    _rewrite(
        "joined_last",
        "what is stacked is computed with piece by piece, and stacked last",
        "memory",
        "bytes of stacks that are written and read again; choices between pieces, element by element",
        "A flux has four components, each a formula of its own; what becomes of it is the same for all: a "
        "difference to the neighbour's, a step in time. Written as torch has it, the formulas are stacked "
        "first, and the rest computes with a tensor of four channels. Made in one kernel, an element of the "
        "result would ask which of the four it is wherever a stack is read, and evaluate one of four long "
        "formulas; so the stacks are written to memory first. Computed piece by piece, a thread has all four "
        "components of a place: the pressure that three of them share it has once, nobody asks which channel "
        "is which, and only the result is stored, four numbers a thread.",
    ),
    _rewrite(
        "totals_by_rows",
        "totals are reduced row by row where rows are reduced anyway",
        "memory",
        "launches, and bytes that are read once more for a total",
        "A loss of a language model is a mean over all tokens of a batch; the divergence of each sequence "
        "and its length are told beside it. The first is a sum over everything, the others are sums along "
        "rows, so that two kernels would read the same probabilities. But a sum over everything is the sum "
        "of the rows' sums: the kernel that has a row at hand makes one number more of it, and what is left "
        "is a total of as many numbers as there are rows. Maxima and minima go the same way.",
    ),
    _rewrite(
        "wanted_rows",
        "rows that nobody wants are not multiplied",
        "compute",
        "operations, and bytes: the products have as many rows as are read of them",
        "A language model needs the logits of the last token alone, a classifier what has become of the "
        "class token; written down, the head multiplies all tokens, and the rows that are wanted are taken "
        "from the result. A row of A @ B is a row of A times B, a normalised row is made of that row, and "
        "what attention finds for a query is made of that query and all keys: going back, each step needs "
        "no more rows than the one after it. So the rows are taken where everything begins, or where "
        "attention needs all of them for its keys. A compiler that takes one operation after the other "
        "makes them all.",
    ),
    _rewrite(
        "moved_first",
        "rows are read in the order in which they are wanted",
        "memory",
        "bytes: rows that nobody wants are not read, and those that are wanted are read once",
        "A transformer normalises all tokens of an image and takes the first one of each; a Swin block "
        "normalises, rolls the image and cuts it into windows. The mean of a row does not depend on where "
        "the row lies, so taking rows first and normalising them afterwards gives the same numbers. One "
        "kernel then reads each wanted row from its place and makes all of it. In the order in which it is "
        "written down, a kernel has to reduce all rows and leave what they come to in memory, and another "
        "one reads the tensor again to find each row's numbers from its new place.",
    ),
    _rewrite(
        "nested_sums",
        "sums of weighted sums are one sum",
        "memory",
        "launches, and the inner sums: they are nowhere in the list of buffers any more",
        "Where a heat map has its peak is told by its softmax: its sum over the rows of the map, times the "
        "number of the column, summed over the columns. The softmax goes over the whole map, the inner sum "
        "over a part of it, so that it would be another kernel, which reads the map again and computes every "
        "exponential once more. But a factor of a sum may be taken into it: the sum over j of j * (the sum "
        "over i of x[i, j]) is the sum of j * x[i, j] over both. That one goes over the row that the "
        "softmax's maximum and sum are of, and is made along with them; what it costs is a multiplication "
        "an element.",
    ),
    _rewrite(
        "separate_counts",
        "counts along each axis, multiplied",
        "compute",
        "instructions: as many steps as the sides of the box, where there were as many as its area",
        "How much of an image a box covers is a mean over all of its pixels of four comparisons, two of the "
        "row and two of the column. A pixel counts where the row is inside and the column is inside, so "
        "that the count is the number of rows that are times the number of columns that are: of an image of "
        "224 by 224, 448 comparisons with both ends of a side and not 50176 with all four. Any conditions "
        "will do, as long as none of them looks along two of the axes; masks of sequences, which hold where "
        "both places count, are such a product too. Counts are whole numbers, so that nothing is rounded "
        "otherwise.",
    ),
    _rewrite(
        "box_sum",
        "boxes added up along one axis after the other",
        "compute",
        "instructions: additions for the box's sides, where there were products for all of its elements",
        "How alike two scans are near a voxel is told by sums over the box around it, 9 by 9 by 9 voxels: a "
        "convolution with a filter of ones, as it is usually written. A library multiplies each of the 729 "
        "elements by one and adds it. But sums may be made in any order: first along lines, nine elements "
        "each; then nine of these lines to a square; then nine squares to the box. That is 27 additions, and "
        "two more kernels that write what the next one reads. Any filter whose elements are all the same "
        "will do, a mean among them, as long as no channel is added to another.",
    ),
    _rewrite(
        "last_written",
        "which row was put at each place last",
        "memory",
        "bytes: the result is written once, with what is computed of it; no rows over a copy of the cache",
        "New keys and values go to their slots of a cache, of which all else stays: cache[slots] = rows. As "
        "a library does it, the cache is copied and rows are written over the copy. The other way round, "
        "each slot asks whether a row was put there: row 7 puts a 7 at its slot, and where two name one "
        "slot the greater number stays. The result then is one pass, each element from its row or from the "
        "cache. What follows, a scale or a sum, is part of it, as nothing is written that has to be read "
        "again. Which of two rows for one slot stays is left open by torch; here it is the last, as on a "
        "CPU.",
    ),
    _rewrite(
        "known_largest",
        "the largest share is that of the largest element",
        "memory",
        "passes over the row: two where there were three; exponentials an element",
        "How sure a model is of its best answer is the largest of a softmax's shares. As it is written, "
        "every share is computed and compared once the row's maximum and sum are known: a third walk over "
        "a row that may not fit on the chip. But shares grow with their elements: exp(x - m) / s is largest "
        "where x is, and there x is m, which the softmax has found already. What is left is exp(0) / s, a "
        "division a row. The same holds for any function that keeps the order: a shift, a positive factor, "
        "a sigmoid, a conversion to fewer digits. Rounding keeps the order too.",
    ),
    _rewrite(
        "few_largest",
        "the few largest elements, one maximum after the other",
        "memory",
        "launches; whether the row waits in registers between the maxima",
        "A router sends each token to its 8 best experts of 256. The library's topk sorts or counts the bits "
        "of a row in memory, in launches of its own, and what the row is made of has to be written for it. "
        "But 8 maxima are 8 reductions, and a row that waits in a warp's registers is reduced in no time. "
        "The number that is compared has the element's bits above and its place below, turned so that the "
        "first of equals wins: one maximum finds both. What was found is left out by its place. A row of "
        "more than 4096, as of a language model's tokens, is cut in pieces: the ten largest of all are among "
        "the ten of each piece, many blocks look for those at once, and a second kernel for ten among them.",
    ),
    _rewrite(
        TAKEN_OUT,
        "statistics taken out of sums",
        "memory",
        "passes over the row: two instead of three, one where the maximum runs along with its sums",
        "A divergence sums p * (log p - log q), and p and q are known only when the row's exponentials have "
        "been summed: a second sum behind the first, and a second read of a row that does not fit on the "
        "chip. But what a row shares can be taken out of a sum. With w = exp(t - max t), p is w / sum(w) and "
        "log q is x - max x minus a logarithm: the sums of w, of w * (t - max t) and of w * (x - max x) need "
        "nothing of one another, and the divisions and logarithms are done once a row. When a maximum grows "
        "the sums are scaled to it, so that all of them go along in one read. The plain sum of log x, as a "
        "loss with smoothed labels has it, is the sum of distances minus the logarithm times their number. "
        "Distances from a maximum stay together: the sum of w * x minus max x would cancel where logits are "
        "large. A sum of x / |x| * y / |y| is that of x * y, divided by both norms once a row.",
    ),
    _rewrite(
        DEPTHWISE,
        "a depthwise convolution is a sum of shifted products",
        "memory",
        "launches; share of the copy bandwidth; loads a result",
        "An ordinary convolution mixes channels: every result sums over all of them, which makes it a matrix "
        "product, and tensor cores or a library do that best. A depthwise one (groups = channels) gives each "
        "channel a small window of weights of its own: nine multiply-adds a result for a window of 3 x 3, "
        "where a result moves 8 bytes. Memory is what it waits for, and libraries made for products take "
        "several times as long as a copy. Written as a sum of shifted inputs times weights, it is pointwise "
        "arithmetic like any other: what comes before and after it goes along in the same kernel.",
    ),
    _rewrite(
        INTERLEAVED,
        "rows that lie interleaved are summed line by line",
        "memory",
        "sectors a request; bytes that L2 delivers, beside those that are wanted",
        "A group of channels of a channels-last image lies in memory a few neighbours at a time, with whole "
        "pixels between them. A block that walks along such a row asks for a sector of 32 bytes, or two, for "
        "each few elements, and 32 lanes of a warp for as many lines. Threads that take a channel each read "
        "the same lines as they lie, whatever group a channel is of; a small second kernel adds the channels "
        "of a group. A variance is pulled apart the same way: distances from a channel's own mean, known in "
        "the same pass (Welford), and the distance of that mean from the group's. What it costs is that the "
        "row cannot wait on the chip: it is read again where it is normalised, at best from L2.",
    ),
    _rewrite(
        WHOLE_WALKS,
        "reductions over parts of a tensor walk over the whole of it",
        "memory",
        "launches, and passes over the tensor: one instead of one a reduction; scalar loads",
        "A total variation is the mean distance of rows and the mean distance of columns. There is one "
        "distance less than there are rows, or columns, so the two sums go over different shapes: two "
        "kernels, and each reads the tensor, the second element by element where a row of distances has no "
        "whole number of vectors. Both sums may as well go over all elements, with zero where an element "
        "has no neighbour: one kernel then, whose vectors follow one another in memory. The element beside "
        "another is in the same vector three times out of four, and the one below comes from L2, where "
        "other blocks have brought it. What it costs is a comparison an element, and the elements that add "
        "nothing.",
    ),
    _rewrite(
        SCATTERED_SUMS,
        "values are added, or put, where data says, all at once",
        "memory",
        "launches, and the requests of L2: 16 bytes each; time against bytes that are added",
        "A graph's edges bring a row of features each, and rows that name the same end are added up: a "
        "gather the other way round. A library that wants the same bits in every run sorts the edges by "
        "their ends first. Here each thread adds its vector to wherever it belongs, and threads that meet at "
        "one place are no trouble: L2 itself does the additions (atomics), one after the other, and nobody "
        "waits for the sum. What leads to a value, such as the gather of the other end's features, is "
        "computed in the same kernel; a first kernel writes what there is to begin with. Floats that are "
        "added in another order differ in their last bits, so the result is not the same from run to run; "
        "and where all values go to a few places, each place serves them one by one. Sums of 16-bit numbers "
        "are kept in 32 bits. Values that take the place of others (scatter) go the same way: a copy in "
        "vectors at full speed, then an atomic exchange for each of the few elements that change. Only "
        "where all values for one place are the same: of others torch leaves any one, or the last.",
    ),
    _rewrite(
        ROW_STEPS,
        "rows stay on the chip from step to step",
        "memory",
        "bytes moved against the least; instructions a result; stalls at barriers",
        "A Hadamard transform of 256 numbers is eight steps, each of sums and differences of pairs that lie "
        "twice as far apart. Written out, a result is a sum of 256 elements, and every thread would add them "
        "all up again: 65,536 additions a row where 2,048 are enough. As a kernel a step, the row goes "
        "through memory eight times. Here a block, or a warp, has its rows in shared memory: a step reads "
        "pairs from wherever they lie, writes what it has made, and waits until all have. A thread that has "
        "eight elements makes three steps of them in registers before others need what it has, so that eight "
        "steps are three loops. Bitonic sorts, sums by doubling, wavelets, cellular automata and blurs of "
        "blurs are such chains too: each step reads elements of its row at other places than its own.",
    ),
    _rewrite(
        WIDER_ROWS,
        "a reduction over part of a row walks the whole row",
        "memory",
        "launches, and passes over the rows: one kernel has a row at hand for the reduction and the result",
        "A frame of 400 samples loses its mean, gets a window and is padded to 512 for the transform that "
        "comes next. The mean is of rows of 400 columns, the result has rows of 512: two spaces, so two "
        "kernels, and the second reads every frame again. But a sum may as well go over all 512 columns if "
        "those that are padded add zero, and a maximum if they are minus infinity. Then a warp or a block "
        "that sums a row has its results at hand when the sum is known, and one launch writes them. What it "
        "costs is the walk over the padded columns, which reads nothing. The same holds for a row whose "
        "first half is reduced and whose whole is written.",
    ),
    _rewrite(
        JOINT_ROWS,
        "statistics of a row and its elements in one kernel",
        "memory",
        "the time of the launch that writes, against a copy of as many bytes; launches",
        "Softmax of a row needs its maximum and its sum before the first element: in one kernel the row may "
        "wait on the chip in between, and memory is read once. A row of gigabytes waits nowhere. Its "
        "elements are read again in any case, and a kernel of their own, which reads the statistic as one "
        "number, is then as fast as a copy: blocks of a few thousand elements begin in the order of memory, "
        "one where another ends. As many blocks as the card holds, which go over a row of gigabytes side by "
        "side, drift apart and read and write in thousands of places. Rows that fit on the chip lose by it: "
        "they are read twice.",
    ),
    _rewrite(
        MADE_ONCE,
        "what very many elements share is made once, in a kernel of its own",
        "compute",
        "the share of issue slots that are busy; launches",
        "Fused into the kernel that wants it, a value is made again for every element: that saves a tensor "
        "that would be written and read, and is right for a few additions. The sines of a rotary embedding "
        "are the same for all heads of all sequences, and a sine takes thirty instructions where a "
        "multiplication takes one; the shift of a quantiser's level is an inverse hyperbolic tangent of four "
        "numbers, for millions of elements. A small kernel makes them once, and the large one reads them "
        "from L2. What it costs is that launch, of one to two microseconds.",
    ),
)
