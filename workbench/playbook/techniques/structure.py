"""Techniques that decide how a kernel's work lies on launches, blocks, threads and memory.

Owns their names, values and prose; offers.py says when they make sense. fine_tuning.py has those that change
instructions and registers only; table.py is all of them.
"""

from __future__ import annotations

from workbench.playbook.analysis.scan_lanes import LANES
from workbench.playbook.techniques import offers
from workbench.playbook.techniques.convolving import CONVOLVING
from workbench.playbook.techniques.few_rows import FEW_ROWS
from workbench.playbook.techniques.multiplying import MULTIPLYING
from workbench.playbook.techniques.staging import STAGING
from workbench.playbook.techniques.stepping import STEPPING
from workbench.playbook.techniques.technique import Technique
from workbench.playbook.techniques.weighing import WEIGHING

STRUCTURE = (
    Technique(
        name="fusion",
        title="one kernel for the whole chain",
        values=("none", "all"),
        offers=offers.fusion,
        structural=True,
        bottleneck="memory",
        look_for="launches, and bytes moved against the least possible",
        teaches=(
            "A kernel per operation writes every intermediate tensor to memory and reads it back, although "
            "the arithmetic between takes no time. Fused, values stay in registers from the first load to "
            "the last store: a chain of n pointwise operations moves 2 tensors instead of 2n, and a softmax "
            "needs one launch instead of five. Nothing on a GPU saves more for memory-bound work."
        ),
    ),
    Technique(
        name="turned_tile",
        title="tiles turned round in shared memory",
        values=("off", "32", "64"),
        offers=offers.turned,
        structural=True,
        bottleneck="memory",
        look_for="sectors a request of the input that lies across; bank conflicts of the tile",
        teaches=(
            "Where a result is written along its rows and an input is stored along its columns, neighbouring "
            "threads read elements that lie a whole row apart: 32 sectors of 32 bytes for 128 bytes that are "
            "wanted. A block therefore takes a square of both. It reads the square along the input's own "
            "neighbours into shared memory, waits, and reads it from there along the result's. Shared memory "
            "has 32 banks, one word each a clock: a column of a tile 32 wide would lie in a single bank, so "
            "every row is one word longer, and columns spread over all banks (Ruetsch and Micikevicius, "
            "Optimizing Matrix Transpose in CUDA, NVIDIA, 2009)."
        ),
    ),
    Technique(
        name="pair_tile",
        title="tiles of results share the rows they are made of",
        values=("off", "32", "64", "128"),
        offers=offers.pair_tile,
        structural=True,
        bottleneck="memory",
        look_for="bytes from L2 and load instructions a result; bank conflicts of the tiles",
        teaches=(
            "Distances of every point from every other read two rows for each result: 512 points of 128 "
            "numbers are 262,144 results and 268 MB of reads, of a tensor of 262 kB. A block that takes a "
            "square of 64 x 64 results brings its 128 rows in once, a piece of the columns at a time, and "
            "reads them from shared memory. What is computed of one row alone, such as a division by its "
            "norm, is computed as it is brought in. A thread has 4 x 4 results in registers: eight elements "
            "that it reads serve sixteen results, so that arithmetic takes longer than reading. Large tiles "
            "read least, small ones make more blocks, where results are too few for the card. It is how "
            "matrix products are written (Volkov and Demmel, Benchmarking GPUs to Tune Dense Linear Algebra, "
            "2008), with any function in the place of the product."
        ),
    ),
    *FEW_ROWS,
    *CONVOLVING,
    *MULTIPLYING,
    Technique(
        name="scan_lanes",
        title="lanes that scan a short row",
        values=("fit", "block", *LANES),
        offers=offers.scan_lanes,
        structural=True,
        bottleneck="latency",
        look_for="threads without a column of their own; barriers a byte",
        teaches=(
            "Running totals are often of few elements: the ten marks of a picture, the eight bins of a "
            "spline, 64 samples of a ray. A block of 256 threads for such a row has one column for eight of "
            "them, and waits at two barriers until nothing has been joined with nothing. Here a row has as "
            "many lanes of a warp as it has vectors. They scan by shuffles, without shared memory and "
            "without a barrier, and a warp has several rows. With one lane a row there is nothing to join at "
            "all: a thread adds up its own row, vector by vector. Neighbours then read places as far apart "
            "as a row is long, so that this pays as long as a row is no longer than a sector or two of 32 "
            "bytes."
        ),
    ),
    *WEIGHING,
    *STEPPING,
    Technique(
        name="walk_down",
        title="a thread walks down its plane, several results side by side",
        values=("off", "1", "2", "4", "8"),
        offers=offers.walk_down,
        structural=True,
        bottleneck="compute",
        look_for="multiply-adds among all instructions; load instructions a result",
        teaches=(
            "A window of 7 x 7 takes 49 multiply-adds a result. A thread that reads each element by itself "
            "issues a load and a test whether it lies inside beside every few of them. A thread with four "
            "results side by side reads a row of ten elements in three vectors, tests a vector at a time, "
            "and adds the row to the 28 results whose windows it lies in: 196 multiply-adds for three loads. "
            "Results that are not whole wait in registers. As the thread walks on, each moves from the array "
            "of those with one row less to that of those with one more, and that costs nothing: the first "
            "multiply-add reads one register and writes the other. The next row is on its way meanwhile. In "
            "channels-last images planes lie side by side, element by element: there a thread walks down "
            "several neighbouring ones at once (vector_width), reads a vector a pixel, and has the weights "
            "of each in registers, so that large windows leave room for few."
        ),
    ),
    Technique(
        name="walk_rows",
        title="rows of results from the beginning of such a walk to its end",
        values=("32", "8", "16", "64", "128"),
        offers=offers.walk_rows,
        structural=False,
        bottleneck="latency",
        look_for="warps a multiprocessor; rows that two pieces of a plane read",
        teaches=(
            "A walk begins with rows that make no result of its own whole: all but one of a window's. Long "
            "walks have few of them, but there are few threads: a plane of 56 x 56 is 14 threads of four "
            "columns. Short walks give the multiprocessors more warps to choose from, and take the rows "
            "where pieces meet twice."
        ),
    ),
    Technique(
        name="strip",
        title="results one below the other share a thread",
        values=("off", "2", "4", "8", "16"),
        offers=offers.strip,
        structural=True,
        bottleneck="memory",
        look_for="load instructions a result; share of the L1 bandwidth, and registers",
        teaches=(
            "A window of 3 x 3 that slides by one reads nine elements a result, which its neighbours read "
            "too. L1 serves them, but each is a load instruction: nine for one multiply-add each. A "
            "thread that has eight results one below the other reads ten rows of three elements, 30 loads "
            "instead of 72, and keeps them in registers. Lanes lie side by side, so that a warp still reads "
            "each row as it lies in memory. Weights that a whole plane shares are read once a thread."
        ),
    ),
    Technique(
        name="axis_a_thread",
        title="a thread has all elements of an axis of few",
        values=("off", "on"),
        offers=offers.axis_a_thread,
        structural=True,
        bottleneck="memory",
        look_for="load instructions and divisions a result; sectors a request",
        teaches=(
            "Points turned by quaternions: each of three coordinates is made of all seven numbers. With a "
            "thread for each coordinate the numbers are read three times, one by one, and every thread asks "
            "which coordinate it has. A thread that has a whole point reads each number once, knows the "
            "places when it is compiled, and computes what coordinates share, such as a length, once. Four "
            "points a thread lie side by side: three vectors of four instead of twelve single elements, and "
            "results are stored likewise. Products of complex numbers and a softmax over a few layers are "
            "the same: where other elements lie behind the axis, each of its elements is a vector."
        ),
    ),
    *STAGING,
    Technique(
        name="window_parts",
        title="what windows share is made on the chip",
        values=("memory", "shared"),
        offers=offers.window_parts,
        structural=True,
        bottleneck="memory",
        look_for="bytes moved against the least; sectors a request",
        teaches=(
            "A window of 11 x 11 is eleven sums of eleven. Taken down the columns first, neighbouring "
            "threads read neighbouring elements, whole lines at a time, and an eleventh of them is left; "
            "taken along the row, a warp would ask for 32 places that lie 44 bytes apart. What is left is "
            "looked at through windows that begin anywhere. In memory that is a tensor more to write and to "
            "read; a block that makes the part of a row which its own results need keeps it in shared "
            "memory, where a strange stride costs little."
        ),
    ),
    Technique(
        name="threads_per_row",
        title="who computes a row",
        values=("block", "warp", "thread", "fit", "bundle", "eight", "four"),
        offers=offers.teams,
        structural=True,
        bottleneck="latency",
        look_for="barriers a row, and whether all multiprocessors have work",
        teaches=(
            "A block for every row needs shared memory and barriers to join its warps. A warp joins its 32"
            " partial results with shuffles alone, so several short rows share a block without ever "
            "waiting for each other. A row of a few dozen columns leaves most of a warp idle, and joining "
            "its lanes takes longer than its sums: with eight lanes a row, four rows a warp are on their "
            "way, and three exchanges join all four; with four lanes, eight rows and two exchanges. A thread "
            "a row needs no joining at all; that pays for very short rows, and for columns of a matrix, "
            "where neighbouring threads then read neighbouring elements. Long rows want a block: one warp "
            "cannot keep enough loads in flight. "
            "Where both are declared, the plan can choose between two kernels by the length of the row. "
            "Rows that lie side by side, as in a softmax over channels, may share a block: 32 of them, a "
            "lane each, so that a warp reads what is next to each other, and so many warps that a row fits"
            " in the registers of its threads. In vectors, a lane has two or four neighbouring rows: what a "
            "warp reads of a column is then 256 or 512 bytes in one place instead of 128."
        ),
    ),
    Technique(
        name="scan_by",
        title="who scans rows that lie side by side",
        values=("thread", "bundle", "pieces"),
        offers=offers.scan_by,
        structural=True,
        bottleneck="latency",
        look_for="threads at work; bytes in flight against bandwidth times latency (about 1.8 MB on an H100)",
        teaches=(
            "A running total down the columns of a matrix reads well with a thread a column: neighbours read "
            "neighbours. But 1024 columns are 1024 threads, on a card that has room for 270,000, and each "
            "adds up 8192 numbers one after the other. Here a block has 32 columns. Its threads stand in "
            "groups one below the other, each with a few steps of its columns in registers: it adds up its "
            "own, shared memory joins what the groups have, and one more addition finishes each total. In "
            "pieces, the length of the scan is shared out among blocks too. Each tells what its piece comes "
            "to in words of 64 bits, half of them total and half of them news, which are zero until then, "
            "and adds up what the pieces before it have told. So values are read once, and sums are of "
            "pieces: closer to the truth than one that runs along the whole column, and the same from run "
            "to run, because every piece joins the same totals in the same order, whoever comes first."
        ),
    ),
    Technique(
        name="vector_width",
        title="vector loads and stores",
        values=("1", "2", "4", "8", "16"),
        offers=offers.widths,
        structural=False,
        bottleneck="memory",
        look_for="bytes a request moves: 4 for scalar float32, 16 for four of them",
        teaches=(
            "A warp that loads one float a thread asks for 128 bytes with one instruction; with float4 it "
            "asks for 512. The bytes are the same, but a quarter of the instructions and address "
            "calculations is left, and more bytes are in flight for the same number of warps. A vector must "
            "lie at a multiple of its 16 bytes, and rows of 50257 begin anywhere between two of those: there "
            "each row is peeled, single columns up to the first border, vectors, single columns behind the "
            "last. A pointer that lies between borders gets narrower vectors or none: the plan checks it."
        ),
    ),
    Technique(
        name="rows_a_warp",
        title="two rows a warp",
        values=("1", "2"),
        offers=offers.rows_a_warp,
        structural=True,
        bottleneck="latency",
        look_for="instructions a row; loads in flight a thread",
        teaches=(
            "Joining 32 lanes takes five exchanges, whatever a row's length: a row of 128 floats is one "
            "vector a lane, and what joins the lanes outweighs what they have done. Sixteen lanes a row join "
            "two rows in four exchanges, with the same instructions; the index arithmetic is shared by two "
            "rows too, and each lane has twice as many loads in flight. Where a warp strides over rows, its "
            "halves go round the loop equally often, because a shuffle wants all lanes: a half that is "
            "behind the last row computes that row once more and stores nothing."
        ),
    ),
    Technique(
        name="block_size",
        title="threads a block",
        values=("256", "64", "128", "512", "1024", "fit"),
        offers=offers.blocks,
        structural=False,
        bottleneck="latency",
        look_for="threads resident on a multiprocessor, and idle lanes at the end of a row",
        teaches=(
            "Small blocks start and finish independently and waste fewer threads on short rows; large "
            "blocks spread one long row over more lanes, which shortens its chain of dependent loads and "
            "lets more of it wait in registers. The multiprocessor holds 2048 threads either way: what "
            "changes is how much of the work waits at the same barrier. Where rows of very different length "
            "or number are declared, the plan can fit the block to the case: 16 columns a thread where rows "
            "fill the card, 4 where they do not, and the kernel is compiled once for each."
        ),
    ),
    Technique(
        name="grid_split",
        title="several blocks a row",
        values=("off", "on"),
        offers=offers.split,
        structural=True,
        bottleneck="latency",
        look_for="blocks launched against multiprocessors; one more launch",
        teaches=(
            "A block runs on one multiprocessor. Two rows of a million columns therefore use two of 132 "
            "multiprocessors, whatever else is done. Split, every block reduces a piece of a row and leaves "
            "a partial result in memory; a second launch joins the few partial results. The launch costs "
            "about 2.5 us and the partial results almost nothing: it pays whenever rows are few and long."
        ),
    ),
    Technique(
        name="split_join",
        title="blocks wait for one another, or the last one joins",
        values=("launch", "last", "told", "grid", "words"),
        offers=offers.split_join,
        structural=True,
        bottleneck="launch",
        look_for="launches; time between the end of the first and the end of the last",
        teaches=(
            "Blocks cannot wait for blocks that have not started, so the partial results of a split seem to "
            "need a second launch: it begins when all of the first is done. But somebody is the last to "
            "finish, and can know it: every block writes its partial result, then a fence, then adds one to "
            "a counter. The one that finds the counter full knows that all results lie in memory, and joins "
            "them; nobody has waited. The counter is a variable of the kernel's own that returns to zero by "
            "itself, so that nothing need be cleared before the launch; two launches of it at the same time "
            "would share it. A launch that is broken off takes its module with it, and the counter too. "
            "Shorter still (told): a block writes its part as one word of 64 bits, which is zero until then, "
            "and ends. The last block waits for the words of all others and joins them: no fence or counter, "
            "no second trip to memory, and no reason for a block to stay for a second step of its walk. One "
            "block a row waits, and there are fewer rows than multiprocessors: those it waits for have room. "
            "Where the row is needed again, as in a softmax, all blocks must learn the result, and a block "
            "may wait for all others only if they are on the card too. A cooperative launch promises it or "
            "is refused: each block keeps its piece in registers, leaves its part, waits at a barrier of "
            "the whole grid, joins all parts and writes. One launch, and the row is read once; of a piece "
            "that is too long for registers, a part waits there and the rest is read again from L2. The "
            "barrier takes three ways to L2 and back: for the fence, for the counter, and for the parts that "
            "are read after it. Words save two of them: 64 bits that hold a part, and are zero until it is "
            "there, so that whoever waits reads the parts themselves. They are the kernel's own, like the "
            "counter, and the last block that has heard all makes them zero again."
        ),
    ),
    Technique(
        name="columns_by",
        title="a bundle of columns a block",
        values=("thread", "bundle"),
        offers=offers.columns_by,
        structural=True,
        bottleneck="memory",
        look_for="bytes a request moves, loads in flight, blocks launched against multiprocessors",
        teaches=(
            "The sum of each column of a matrix is read row by row, so that neighbouring threads read "
            "neighbouring elements. With a thread a column, 64 columns occupy two warps, and every thread "
            "has one chain of narrow loads. Here a block takes a bundle of neighbouring columns and a piece "
            "of the rows: eight to 32 threads lie side by side, each reads a vector of neighbours, and as "
            "many groups of them as the block holds take turns at the rows. The groups are joined through "
            "shared memory, the pieces by the block that is done last. What one column sums up is then "
            "spread over hundreds of threads, whatever the shape of the matrix."
        ),
    ),
    Technique(
        name="look_back",
        title="scans by decoupled look-back",
        values=("off", "on"),
        offers=offers.look_back,
        structural=True,
        bottleneck="latency",
        look_for="blocks launched against multiprocessors; bytes read, which stay at one read a value",
        teaches=(
            "A running total seems to need everything before it, so one block would walk along the row while "
            "131 multiprocessors wait. With decoupled look-back (Merrill and Garland, 2016) every tile of a "
            "row is a block of its own: it adds up what it holds and announces that total at once, which "
            "needs nobody. Then it looks back over the tiles before it, 32 at a time, adding up their totals "
            "until it meets one that already knows the total of everything up to it. Each value is read once "
            "and written once; scanning in three launches would read twice. Tiles are numbered in the order "
            "in which blocks start, so that nobody waits for a block that has not started, and a fence "
            "stands between a total and the flag that announces it. How the totals are grouped depends on "
            "who is ready first: the last bit of a float may differ from run to run."
        ),
    ),
    Technique(
        name="scan_tile",
        title="vectors a thread has of a tile",
        values=("4", "8", "16"),
        offers=offers.scan_tile,
        structural=False,
        bottleneck="latency",
        look_for="tiles a row against blocks that run at once; registers and spills",
        teaches=(
            "Between its loads and its stores a tile waits for the tiles before it, and if all blocks wait, "
            "nobody uses the memory. Larger tiles are fewer: fewer totals to look back at, and all blocks "
            "find room on the card at once, without a second, partly filled wave. The tile waits in "
            "registers, so its size is the number of threads times what a thread can hold."
        ),
    ),
    Technique(
        name="scatter_by",
        title="sums of few places by block",
        values=("memory", "block"),
        offers=offers.scatter_by,
        structural=True,
        bottleneck="memory",
        look_for="atomics that L2 serves, against the values; share of the L2 slices that are busy",
        teaches=(
            "A histogram of ten classes adds a million ones to ten addresses. Atomics to one address are "
            "served one after the other, however many multiprocessors ask, and ten addresses lie in one or "
            "two lines of L2. Each block therefore keeps a histogram of its own in shared memory: its "
            "threads still wait for one another there, but 132 multiprocessors count at the same time. What "
            "a block has found it adds to memory once, at the end; there are so few blocks that this is "
            "little beside their values."
        ),
    ),
    Technique(
        name="row_cache",
        title="where the row waits between passes",
        values=("reread", "registers", "shared"),
        offers=offers.caches,
        structural=True,
        bottleneck="memory",
        look_for="sectors loaded against the least possible; registers and spills",
        teaches=(
            "Softmax needs a row three times: for the maximum, for the sum, and to write the result. Read "
            "from memory each time, that is three reads for one write. Kept in the registers of its threads "
            "the row is read once; the price is registers, of which a thread has at most 255 and which limit "
            "how many threads fit. Shared memory holds 227 KB a block, enough for 58,000 floats, at the "
            "price of fewer blocks on each multiprocessor."
        ),
    ),
    Technique(
        name="single_pass",
        title="two reductions in one pass",
        values=("off", "on"),
        offers=offers.single_pass,
        structural=True,
        bottleneck="memory",
        look_for="passes over the row; arithmetic per element rises",
        teaches=(
            "The sum of exponentials needs the maximum first, so it seems to need a second pass. But when "
            "the maximum grows from m to m', the sum so far only has to be scaled by exp(m - m'): both can "
            "be carried along together (Milakov and Gimelshein, 2018). Mean and variance go together in the "
            "same way (Welford, 1962; Chan et al., 1979), without the cancellation of E[x^2] - E[x]^2. So do "
            "two means and the sum of products of deviations from them, which covariances and correlations "
            "are made of: where parts are joined, it grows by the product of the distances of their means. "
            "Means far from zero are kept with what rounding cuts off them: else those distances are noise."
        ),
    ),
    Technique(
        name="block_reduction",
        title="how a block joins its threads",
        values=("shuffle", "tree"),
        offers=offers.block_reduction,
        structural=False,
        bottleneck="latency",
        look_for="barriers a row",
        teaches=(
            "The classic tree halves the number of active threads with a barrier each time: 8 barriers for "
            "256 threads. Shuffles let a warp exchange registers directly, so each warp reduces itself "
            "without any barrier and only one value a warp goes through shared memory: 2 barriers, whatever "
            "the block size."
        ),
    ),
    Technique(
        name="loads_in_flight",
        title="several loads in flight",
        values=("1", "2", "4", "8", "16"),
        offers=offers.in_flight,
        structural=False,
        bottleneck="latency",
        look_for="bytes in flight against bandwidth times latency (about 1.8 MB on an H100)",
        teaches=(
            "Memory answers after some 600 ns. To draw 3 TB/s, 1.8 MB must be on the way at any moment "
            "(Little's law), about 14 KB a multiprocessor. A thread that waits for each load before it "
            "issues the next contributes 4 bytes; unrolled, it issues several independent loads first and "
            "waits once. A bound between them undoes that: a load behind a branch waits for it. Where a row "
            "repeats over the line, the vectors of a thread lie a row apart, and what repeats is read once, "
            "or computed once: the cosines of positions that all heads share are worth many rows a thread."
        ),
    ),
    Technique(
        name="stream_hints",
        title="tell the cache what is used once",
        values=("off", "on"),
        offers=offers.any_kernel("off", "on"),
        structural=False,
        bottleneck="memory",
        look_for="L2 hit rate of what is read again",
        teaches=(
            "Data that passes through once still displaces data that will be needed again. __ldcs and "
            "__stcs mark loads and stores as streaming, so that L2 evicts them first. It helps when part of "
            "the working set is reused, such as weights or a row that is read twice, and does nothing when "
            "everything is used once."
        ),
    ),
    Technique(
        name="persistent_grid",
        title="a grid that fits the GPU once",
        values=("off", "on"),
        offers=offers.persistent,
        structural=False,
        bottleneck="latency",
        look_for="blocks launched; the last, partly filled wave",
        teaches=(
            "Usually every row or tile gets its own block and the hardware schedules them in waves; the last "
            "wave may leave multiprocessors idle, and every block repeats its set-up. A persistent grid "
            "launches only as many blocks as fit and lets each stride over the work."
        ),
    ),
    Technique(
        name="launches",
        title="kernels that share a launch",
        values=("apart", "beside", "together", "turns"),
        offers=offers.launches,
        structural=True,
        bottleneck="launch",
        look_for="launches, and time between the end of one kernel and the first load of the next",
        teaches=(
            "A launch of a cold, small kernel takes some 3 us whatever it computes: its code is fetched, its "
            "blocks get their places, and the first load goes to memory. Two kernels that do not need one "
            "another can share a launch: the first blocks do one's work, the blocks behind them the other's. "
            "A kernel that needs what another has made must wait for it, and the end of a launch is the "
            "usual place to wait; blocks that are on the card at the same time may also wait for one another "
            "within a launch, about 1 us. All blocks then take turns at the work of one stage, meet at a "
            "barrier of the whole grid, and go on with the next. Small kernels gain what a launch costs; "
            "large ones may lose, because all stages share the registers and blocks of the hungriest one. "
            "Where each image of a batch has sums of its own, large kernels gain most (turns): a barrier "
            "would have all images read before the first is read again, and L2 has forgotten it by then. So "
            "blocks take jobs from one list, in which the sums of an image come a few images before what is "
            "made with them; whoever is early waits for that image alone, and the second reading comes from "
            "L2. A job only waits for jobs before it, which blocks have begun already: nobody waits for ever."
        ),
    ),
    Technique(
        name="cluster",
        title="blocks that run together",
        values=("1", "4", "8", "16"),
        offers=offers.cluster,
        structural=True,
        bottleneck="memory",
        look_for="reads of a row too long for one block: one instead of two, in one launch",
        teaches=(
            "A block runs on one multiprocessor and has its registers and its 227 KB of shared memory, no "
            "more. Hopper can start up to 8 blocks (16 on request) as a cluster: they are on neighbouring "
            "multiprocessors at the same time, can wait for one another and read one another's shared "
            "memory. A row of a megabyte then waits on the chip in eight pieces, its partial results cross "
            "over without going through memory, and neither a second launch nor a second read is needed."
        ),
    ),
    Technique(
        name="prefetch",
        title="the next row on its way",
        values=("off", "on"),
        offers=offers.prefetch,
        structural=True,
        bottleneck="memory",
        look_for="share of the copy bandwidth where one block fills a multiprocessor",
        teaches=(
            "A block that holds a long row in its registers leaves no room for a second one: while it "
            "computes, nobody on that multiprocessor asks memory for anything. Here a block stays for many "
            "rows and starts the copy of its next row into shared memory (cp.async) before it computes the "
            "present one, so that loads, arithmetic and stores of neighbouring rows overlap. Every thread "
            "reads back only what it copied itself and needs no barrier for it. Blocks that share a row do "
            "the same with their pieces, and have more to gain: while they wait for one another, the next "
            "row is on its way. A cluster draws its rows from a counter, so that nobody needs to know how "
            "many clusters found room. Rows that no cluster holds, up to 15 MB, are shared by teams of "
            "blocks (split_join=grid), three blocks to a multiprocessor: each keeps its piece in shared "
            "memory, and a team waits for its own blocks only, while the others load and store."
        ),
    ),
    Technique(
        name="row_totals",
        title="the sum over all rows in the same launch",
        values=("launch", "last", "told"),
        offers=offers.row_totals,
        structural=True,
        bottleneck="launch",
        look_for="launches; the time of the one that sums up a value a row, in a single block",
        teaches=(
            "A loss is a value a row and then their mean. Written as two launches, the second is one block "
            "that reads 65536 numbers while 131 multiprocessors have nothing to do: 10 to 15 us behind 26. "
            "Here each block strides over rows and adds up what they come to in a register. At the end it "
            "leaves one number in memory and counts itself as done; the block that finds the count full "
            "joins a thousand numbers, not 65536, and no second launch begins and ends. Words (told) save "
            "the counting too: each block writes its number where zero meant nothing yet, and ends; the last "
            "block of the grid waits for all others and adds them to its own. Which rows a block has follows "
            "from the sizes alone: the sum is the same, bit for bit, from run to run; adding to one place by "
            "atomicAdd would take the order in which blocks end."
        ),
    ),
    Technique(
        name="fast_math",
        title="approximations of functions",
        values=("off", "on"),
        offers=offers.fast_math,
        structural=False,
        bottleneck="compute",
        look_for="error against float64, which must stay within the bound",
        teaches=(
            "expf is about ten instructions that get the last bit nearly right; __expf is one multiplication "
            "and one instruction of the special function unit, with an error that grows with the argument. "
            "For memory-bound work the difference hides behind the loads; for 16-bit outputs it disappears "
            "in the rounding. The erff of a GELU is 24 instructions, with coefficients for small and for "
            "large arguments; a polynomial to the power of minus sixteen, right to two millionths, is half "
            "of that. The referee's bound decides whether it may be used."
        ),
    ),
)
