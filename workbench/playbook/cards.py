"""The words on a hypothesis card: titles, fixes and risks by technique and value, evidence with numbers.

Owns prose and the reading of an evaluation. Never ranks anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from workbench.model import AccessSite, Evaluation, Problem, Target, Vector
from workbench.playbook.estimate import estimate

COUNTERS = "Nsight Compute"
TOLD = 6
"""Sentences of a profile that a card repeats."""
Bottleneck = Literal["memory", "latency", "compute", "launch", "library"]

TITLES: Mapping[tuple[str, str], str] = {
    ("linear_rowsum", "on"): "Sum the weights instead of the product",
    ("linear_rowsum", "off"): "Multiply first, sum afterwards",
    ("attention", "on"): "Attention in one call of the library",
    ("attention", "off"): "Two products and a softmax between them",
    ("diagonal_product", "on"): "Scale by the diagonal instead of multiplying",
    ("diagonal_product", "off"): "Multiply with the diagonal matrix",
    ("affine_in_weights", "on"): "Fold scale and shift into the weights",
    ("affine_in_weights", "off"): "Scale and shift the product",
    ("scale_in_tail", "on"): "Scale behind the product",
    ("scale_in_tail", "off"): "Scale the operand before the product",
    ("bias_in_tail", "on"): "Add the bias in the kernel behind the convolution",
    ("bias_in_tail", "off"): "The library adds the bias",
    ("short_axis", "on"): "Write out sums of a few elements",
    ("short_axis", "off"): "Store sums of a few elements",
    ("constant_places", "on"): "Take slices where elements are looked up at known places",
    ("constant_places", "off"): "Look elements up at computed places",
    ("few_terms", "on"): "Write out reductions of few terms",
    ("few_terms", "off"): "Reduce few terms in a loop",
    ("nested_sums", "on"): "Make one sum of sums of weighted sums",
    ("nested_sums", "off"): "Sum in two steps, with the weights between them",
    ("taken_out", "on"): "Take a row's statistics out of its sums",
    ("taken_out", "off"): "Sum what needs the row's statistics",
    ("depthwise", "on"): "Write the convolution of few channels as a sum of shifted products",
    ("depthwise", "off"): "Leave the convolution of few channels to the library",
    ("interleaved", "on"): "Sum rows that lie interleaved line by line",
    ("interleaved", "off"): "Walk along rows that lie interleaved",
    ("whole_walks", "on"): "Reduce over the whole tensor, where parts of it are wanted",
    ("whole_walks", "off"): "Reduce over each part of a tensor by itself",
    ("scattered_sums", "on"): "Add values at the places that data names, all at once",
    ("scattered_sums", "off"): "Leave sums at places that data names to the library",
    ("row_sums", "apart"): "Sums of one row in kernels and threads of their own",
    ("row_sums", "warp"): "A warp walks a row once for all its sums",
    ("row_sums", "block"): "A block walks a row once for all its sums",
    ("shared_weights", "on"): "Neighbours share the weights that one lane makes",
    ("shared_weights", "off"): "Each result's thread makes its weights",
    ("axis_a_thread", "off"): "Each element of a short axis has a thread",
    ("axis_a_thread", "on"): "A thread has all elements of a short axis",
    ("fusion", "all"): "One kernel for the whole chain",
    ("fusion", "none"): "One kernel for every operation",
    ("vector_width", "1"): "Scalar loads",
    ("vector_width", "2"): "Two elements a load",
    ("vector_width", "4"): "Four elements a load",
    ("vector_width", "8"): "Eight elements a load",
    ("threads_per_row", "block"): "One block a row",
    ("threads_per_row", "warp"): "One warp a row",
    ("rows_a_warp", "1"): "A warp has one row at a time",
    ("rows_a_warp", "2"): "A warp has two rows, one in each half",
    ("threads_per_row", "eight"): "Four short rows a warp, eight lanes each",
    ("threads_per_row", "thread"): "One thread a row",
    ("threads_per_row", "bundle"): "A bundle of rows side by side a block",
    ("threads_per_row", "fit"): "A warp for short rows, a block for long ones",
    ("block_size", "64"): "Blocks of 64 threads",
    ("block_size", "128"): "Blocks of 128 threads",
    ("block_size", "256"): "Blocks of 256 threads",
    ("block_size", "512"): "Blocks of 512 threads",
    ("block_size", "1024"): "Blocks of 1024 threads",
    ("block_size", "fit"): "Blocks as long as their row asks for",
    ("grid_split", "off"): "One team a row",
    ("grid_split", "on"): "Several blocks a row",
    ("split_join", "launch"): "Pieces of a row are joined by a further launch",
    ("split_join", "last"): "The block that is done last joins the pieces",
    ("split_join", "told"): "The last block hears in words what the pieces amount to",
    ("split_join", "grid"): "All blocks keep their pieces and wait for one another",
    ("split_join", "words"): "All blocks keep their pieces and tell one another what they amount to",
    ("row_totals", "launch"): "What rows come to is added up by a further launch",
    ("row_totals", "last"): "The block that is done last adds up what all rows come to",
    ("row_totals", "told"): "The last block hears in words what all rows come to",
    ("columns_by", "thread"): "A thread sums up a column",
    ("columns_by", "bundle"): "A block sums up a bundle of columns",
    ("bundle_lanes", "most"): "Bundles as wide as the columns allow",
    ("bundle_lanes", "32"): "Bundles of 32 vectors, joined without bank conflicts",
    ("bundle_lanes", "16"): "Bundles of 16 vectors",
    ("bundle_lanes", "8"): "Bundles of eight vectors, and fewer pieces of each",
    ("lines_a_thread", "off"): "A thread has one place of the result",
    ("lines_a_thread", "2"): "A thread is at the same place of two lines",
    ("lines_a_thread", "4"): "A thread is at the same place of four lines",
    ("lines_a_thread", "8"): "A thread is at the same place of eight lines",
    ("backwards", "off"): "The second pass begins where the first began",
    ("backwards", "on"): "The second pass begins where the first ended",
    ("look_back", "off"): "One block scans a row",
    ("look_back", "on"): "A block for every tile of a row, by decoupled look-back",
    ("scan_by", "thread"): "A thread scans a row, beside its neighbours",
    ("scan_by", "bundle"): "A block scans rows that lie side by side",
    ("scan_by", "pieces"): "A block for every piece of rows that lie side by side",
    ("scatter_by", "memory"): "Every value is added in memory",
    ("scatter_by", "block"): "A block adds up what few places get, in shared memory",
    ("turned_tile", "off"): "Read inputs as they lie",
    ("turned_tile", "32"): "Turn tiles of 32 x 32 round in shared memory",
    ("turned_tile", "64"): "Turn tiles of 64 x 64 round in shared memory",
    ("pair_tile", "off"): "Read the two rows of each result by themselves",
    ("pair_tile", "32"): "Tiles of 32 x 32 results share their rows in shared memory",
    ("pair_tile", "64"): "Tiles of 64 x 64 results share their rows in shared memory",
    ("pair_tile", "128"): "Tiles of 128 x 128 results share their rows in shared memory",
    ("walk_down", "off"): "Nobody walks down a plane",
    ("walk_down", "1"): "A thread walks down a column of results",
    ("walk_down", "2"): "A thread walks down two columns of results",
    ("walk_down", "4"): "A thread walks down four columns of results",
    ("walk_down", "8"): "A thread walks down eight columns of results",
    ("walk_rows", "8"): "Walks of 8 rows at most",
    ("walk_rows", "16"): "Walks of 16 rows at most",
    ("walk_rows", "32"): "Walks of 32 rows at most",
    ("walk_rows", "64"): "Walks of 64 rows at most",
    ("walk_rows", "128"): "Walks of 128 rows at most",
    ("strip", "off"): "A thread for each result",
    ("strip", "2"): "Two results one below the other a thread",
    ("strip", "4"): "Four results one below the other a thread",
    ("strip", "8"): "Eight results one below the other a thread",
    ("strip", "16"): "Sixteen results one below the other a thread",
    ("window_parts", "memory"): "What windows share waits in memory",
    ("window_parts", "shared"): "What windows share is made in shared memory",
    ("scan_tile", "4"): "Four vectors a thread of every tile",
    ("scan_tile", "8"): "Eight vectors a thread of every tile",
    ("scan_tile", "16"): "Sixteen vectors a thread of every tile",
    ("row_cache", "reread"): "Read the row again in every pass",
    ("row_cache", "registers"): "Keep the row in registers",
    ("row_cache", "shared"): "Keep the row in shared memory",
    ("single_pass", "off"): "One pass for each reduction",
    ("single_pass", "on"): "Make dependent reductions in a single pass",
    ("block_reduction", "shuffle"): "Join threads with shuffles",
    ("block_reduction", "tree"): "Join threads with a tree in shared memory",
    ("loads_in_flight", "1"): "One load in flight a thread",
    ("loads_in_flight", "2"): "Two loads in flight a thread",
    ("loads_in_flight", "4"): "Four loads in flight a thread",
    ("stream_hints", "off"): "Plain loads and stores",
    ("stream_hints", "on"): "Mark data that is used once as streaming",
    ("persistent_grid", "off"): "A block for every piece of work",
    ("persistent_grid", "on"): "A grid that fits the GPU once",
    ("cluster", "1"): "Every block for itself",
    ("cluster", "4"): "Four blocks share a long row as a cluster",
    ("cluster", "8"): "Eight blocks share a long row as a cluster",
    ("cluster", "16"): "Sixteen blocks share a long row as a cluster",
    ("prefetch", "off"): "A row is loaded when its turn comes",
    ("prefetch", "on"): "Copy the next row while this one is computed",
    ("fast_math", "off"): "Accurate math functions",
    ("fast_math", "on"): "Hardware approximations of exp, log and division",
    ("chains", "one"): "One accumulator a thread",
    ("chains", "many"): "An accumulator for each element of a vector",
    ("reciprocal", "off"): "A division an element",
    ("reciprocal", "on"): "One reciprocal a row, a product an element",
    ("occupancy", "free"): "As many registers as the compiler likes",
    ("occupancy", "half"): "Registers for 1024 threads a multiprocessor",
    ("occupancy", "full"): "Registers for 2048 threads a multiprocessor",
    ("early_loads", "off"): "Load when it is needed",
    ("early_loads", "on"): "Ask for weights before the sums are waited for",
    ("index_width", "64"): "Indices of 64 bits",
    ("index_width", "32"): "Indices of 32 bits",
    ("stores", "plain"): "Plain stores",
    ("stores", "streamed"): "Mark results as streaming, loads not",
    ("launches", "apart"): "A launch for each kernel",
    ("launches", "beside"): "Kernels that do not need one another share a launch",
    ("launches", "together"): "One launch, whose blocks wait for one another between kernels",
    ("by_shape", "one"): "One kernel for all shapes",
    ("by_shape", "some"): "Each shape takes the kernel that was fastest there",
}

RISKS: Mapping[str, str] = {
    "linear_rowsum": "Another order of summation rounds differently.",
    "attention": "The library's kernel may be slow at this shape, and rounds elsewhere than the parts do.",
    "diagonal_product": "A pass more, which looks for infinities: zero times infinity is NaN in the product.",
    "affine_in_weights": "Rounds the weights once more; another order of rounding.",
    "scale_in_tail": "Products of unscaled numbers may overflow where scaled ones do not.",
    "bias_in_tail": "None for 32-bit results; 16-bit ones are rounded once instead of twice.",
    "short_axis": "Each of the few elements is computed by itself, with all that leads to it.",
    "constant_places": "More text where each element is another slice.",
    "few_terms": "What leads to a term is computed again for each result that needs it.",
    "nested_sums": "Another order of summation; a multiplication an element.",
    "taken_out": "Another order of rounding; sums of larger numbers, divided afterwards.",
    "depthwise": "Another order of summation; windows of many elements cost arithmetic too.",
    "whole_walks": "Elements that are no part of the result are read and compared too: an eighth at most.",
    "scattered_sums": "Additions come in another order in every run, and with it go the last bits; places "
    "that many values want serve them one after the other.",
    "scatter_by": "Two barriers a block, and shared memory; lanes of a warp that name one place take turns.",
    "interleaved": "Another order of summation; each element is read again where its row is normalised.",
    "walk_down": "More registers a thread, and fewer threads; the first rows of a walk make nothing whole.",
    "row_sums": "Rows longer than a warp's vectors are walked in turns; several sums a row cost registers.",
    "shared_weights": "A shuffle for every column; few neighbours leave lanes without a weight to make.",
    "walk_rows": "Short walks read more rows twice; long ones leave fewer warps.",
    "strip": "More registers a thread, fewer threads; the last strip of a plane may be mostly empty.",
    "axis_a_thread": "More registers a thread, and fewer threads.",
    "window_parts": "Shared memory and a barrier a block; rows of results that overlap are read again.",
    "fusion": "More registers a thread.",
    "vector_width": "Falls back to scalars where a row length or an address is not a multiple of the width.",
    "threads_per_row": "One team must keep enough loads in flight by itself.",
    "rows_a_warp": "More values of a row a thread, and registers for them.",
    "block_size": "Idle lanes on short rows, fewer independent blocks on long ones.",
    "grid_split": "One more launch; partial results go through memory.",
    "split_join": "What blocks count or tell serves one launch at a time: two streams wait for each other. "
    "Blocks that wait for one another need the whole card, and are refused where they do not fit at once.",
    "launches": "Registers and shared memory of the hungriest kernel, for all that share the launch.",
    "row_totals": "What blocks count or tell serves one launch at a time: two streams wait for each other.",
    "bundle_lanes": "A row is read in shorter stretches by a block; its neighbours read the rest.",
    "lines_a_thread": "Fewer threads, with more registers; some are idle where lines do not fill a block.",
    "backwards": "None, where the data does not fit L2 twice; else nothing is gained.",
    "columns_by": "Shared memory and barriers, where a thread a column needs neither.",
    "look_back": "The last bit of a float total may differ from run to run; tiles wait for one another.",
    "scan_by": "What pieces tell serves one launch at a time: two streams wait for each other. "
    "Where totals run along little, threads are left without work.",
    "turned_tile": "A barrier a tile; the last tiles of a row or column are partly empty.",
    "pair_tile": "Two barriers a piece of the columns; the last tiles of a row or column are partly empty.",
    "scan_tile": "Registers limit how many threads fit on a multiprocessor.",
    "row_cache": "Registers or shared memory limit how many threads fit on a multiprocessor.",
    "single_pass": "More arithmetic per element, in a longer chain of dependences.",
    "block_reduction": "More barriers than shuffles need.",
    "loads_in_flight": "More registers a thread.",
    "stream_hints": "Data marked as used once is gone when it is needed after all.",
    "persistent_grid": "The strided loop adds a little arithmetic to each piece.",
    "chains": "More registers a thread; another order of summation rounds differently.",
    "reciprocal": "Rounds twice; a divisor below 1e-38 has no finite reciprocal.",
    "early_loads": "Registers are held for longer; nothing is gained where many rows are under way.",
    "occupancy": "What no longer fits in registers is spilled to memory.",
    "index_width": "Refuses tensors of more than two thousand million elements.",
    "stores": "A result that is read at once is gone from the cache.",
    "by_shape": "Between the declared shapes the boundary is a guess; a longer file takes longer to compile.",
    "cluster": "A cluster starts only where all its blocks find room; they wait for the slowest.",
    "prefetch": "Shared memory for a row more; too few rows leave nothing to overlap. "
    "Clusters draw rows from a counter that serves one launch at a time.",
    "fast_math": "The error grows with the argument; the referee's bound may not allow it.",
}


def evidence(
    problem: Problem, vector: Vector, evaluation: Evaluation | None, target: Target
) -> tuple[str, ...]:
    """Facts about a kernel, each with its number and where it comes from."""
    found: list[str] = []
    if evaluation is not None:
        found += _times(evaluation)
        found += _profile(evaluation)
        found += _traffic(evaluation)
        found += _resources(evaluation)
    if not found and problem.cases:
        case = problem.cases[0]
        guess = estimate(problem, vector, target, case.size_map)
        found.append(
            f"{case.label}: about {guess.us:.0f} us, {guess.dram_bytes / 1e6:.3g} MB and "
            f"{guess.launches} launches (playbook's model)"
        )
        if guess.flight_share < 0.9:
            found.append(f"bytes in flight draw {guess.flight_share:.0%} of the bandwidth (playbook's model)")
    return tuple(found)


def _times(evaluation: Evaluation) -> list[str]:
    return [
        f"{time.case}: {time.time_us:.3g} us, {time.roofline_share:.0%} of the roofline, "
        f"bound by {time.bound} ({time.source})"
        for time in evaluation.times[:1]
    ]


def _profile(evaluation: Evaluation) -> list[str]:
    """What a profile says first; an estimate's sentences name their sources themselves."""
    profile = evaluation.profile
    if profile is None:
        return []
    ending = f" ({COUNTERS})" if profile.source == "counters" else ""
    return [sentence.removesuffix(".") + ending for sentence in profile.sentences[:TOLD]]


def bound_of(evaluation: Evaluation | None) -> Bottleneck | None:
    """What limits a kernel: what the profile found, else what the clock or the model says."""
    if evaluation is None:
        return None
    if evaluation.profile is not None and evaluation.profile.bound is not None:
        return evaluation.profile.bound
    return evaluation.times[0].bound if evaluation.times else None


def _traffic(evaluation: Evaluation) -> list[str]:
    found = []
    for facts in evaluation.facts[:1]:
        if facts.bytes_plan > 1.02 * facts.bytes_min:
            ratio = facts.bytes_plan / max(facts.bytes_min, 1)
            found.append(
                f"steps touch {ratio:.2g} times the least bytes, in {facts.launches} launches (plan)"
            )
        if facts.library_share > 0:
            found.append(f"{facts.library_share:.0%} of the bytes are moved by library calls (plan)")
    site = worst_site(evaluation)
    if site is not None:
        found.append(
            f"line {site.line}: {site.transactions / site.requests:.3g} sectors a request where "
            f"{site.ideal_transactions / site.requests:.3g} would do (emulator)"
        )
    return found


def worst_site(evaluation: Evaluation) -> AccessSite | None:
    """The access that wastes most sectors, when it wastes any."""
    sites = [site for counts in evaluation.counts for site in counts.sites if site.space == "global"]
    wasteful = [site for site in sites if site.requests and site.transactions > 1.1 * site.ideal_transactions]
    return max(wasteful, key=lambda site: site.transactions - site.ideal_transactions, default=None)


def _resources(evaluation: Evaluation) -> list[str]:
    if evaluation.compiled is None or not evaluation.compiled.kernels:
        return []
    heaviest = max(evaluation.compiled.kernels, key=lambda kernel: kernel.registers)
    spills = heaviest.spill_store_bytes + heaviest.spill_load_bytes
    words = f"{heaviest.registers} registers, {heaviest.shared_bytes} B of shared memory"
    return [f"{heaviest.kernel}: {words}{f', {spills} B spilled' if spills else ''} (ptxas)"]
