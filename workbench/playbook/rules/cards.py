"""The words on a hypothesis card: titles, fixes and risks by technique and value, evidence with numbers.

Owns prose and the reading of an evaluation. Never ranks anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from workbench.model import AccessSite, Evaluation, Problem, Target, Vector
from workbench.playbook.estimates.estimate import estimate

COUNTERS = "Nsight Compute"
TOLD = 6
"""Sentences of a profile that a card repeats."""
Bottleneck = Literal["memory", "latency", "compute", "launch", "library"]


RISKS: Mapping[str, str] = {
    "linear_rowsum": "Another order of summation rounds differently.",
    "attention": "The library's kernel may be slow at this shape, and rounds elsewhere than the parts do.",
    "diagonal_product": "A pass more, which looks for infinities: zero times infinity is NaN in the product.",
    "affine_in_weights": "Rounds the weights once more; another order of rounding.",
    "scale_in_tail": "Products of unscaled numbers may overflow where scaled ones do not.",
    "bias_in_tail": "None for 32-bit results; 16-bit ones are rounded once instead of twice.",
    "turned_product": "The library has another kernel for each way that operands lie: maybe a slower one.",
    "shared_heads": "The library may have no fast kernel for heads that share keys.",
    "summed_products": "Without tensor cores arithmetic may take longer than memory, in 16 bits most of all.",
    "few_rows": "A sum in registers for each row of the few and each of the many.",
    "few_split": "The blocks of a cluster meet before the results are finished.",
    "activation_in_product": "Rounded once instead of twice; the library may choose a slower kernel.",
    "short_axis": "Each of the few elements is computed by itself, with all that leads to it.",
    "constant_places": "More text where each element is another slice.",
    "few_largest": "A pass over the row, or over its pieces, for each of them.",
    "half_spectrum": "The mirror image is read from its last element back, and turned along other axes.",
    "few_in_order": "Every element of a row is in a register of its own; each result may compute all of it.",
    "solved_in_registers": "Few matrices have few threads, of which each takes step after step alone.",
    "few_sums": "A register for each result; another order of summation.",
    "few_terms": "What leads to a term is computed again for each result that needs it.",
    "whole_records": "Fewer threads, of which each has more registers and one long way to go.",
    "few_edges": "A comparison for each halving of the edges, each of which waits for the one before.",
    "joined_last": "A thread makes all pieces of a place: fewer threads, more registers each.",
    "totals_by_rows": "Another order of summation; a total of the rows' results is left to do.",
    "wanted_rows": "Rows that lie apart may be copied for a library's product of few rows.",
    "moved_first": "A row that is taken from several places asks of each whether it lies there.",
    "nested_sums": "Another order of summation; a multiplication an element.",
    "separate_counts": "A launch more where the counts share no kernel.",
    "box_sum": "Another order of summation; sums along an axis are written and read again.",
    "known_largest": "None where functions keep the order of their arguments to the last bit.",
    "last_written": "A pass over the places, which writes and reads a number for each.",
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
    "row_tables": "All columns are written out: long text for the compiler, and registers for what is kept.",
    "walk_rows": "Short walks read more rows twice; long ones leave fewer warps.",
    "strip": "More registers a thread, fewer threads; the last strip of a plane may be mostly empty.",
    "recurrent_layers": "Blocks wait for one another at every step, so all must be on the card at once.",
    "rolled_steps": "Steps wait for one another; a thread a result, or a vector of them: threads may be few.",
    "staged_rows": "Shared memory and a barrier a block, which stores nothing before all its rows are made.",
    "axis_a_thread": "More registers a thread, and fewer threads.",
    "row_steps": "A barrier a step; rows take shared memory, and long ones leave room for few blocks.",
    "steps_by": "Each warp has its rows in shared memory by itself.",
    "window_parts": "Shared memory and a barrier a block; rows of results that overlap are read again.",
    "wider_rows": "Columns are walked that add nothing; the mask costs a comparison each.",
    "joint_rows": "A row waits on the chip between its passes, or is read twice from afar.",
    "made_once": "A launch more, whose results are read again; nothing is gained where readers share them.",
    "fusion": "More registers a thread.",
    "vector_width": "Falls back to scalars where a row length or an address is not a multiple of the width.",
    "threads_per_row": "One team must keep enough loads in flight by itself.",
    "rows_a_warp": "More values of a row a thread, and registers for them.",
    "block_size": "Idle lanes on short rows, fewer independent blocks on long ones.",
    "grid_split": "One more launch; partial results go through memory.",
    "split_join": "What blocks count or tell serves one launch at a time: two streams wait for each other. "
    "Blocks that wait for one another need the whole card, and are refused where they do not fit at once.",
    "launches": "Registers and shared memory of the hungriest kernel, for all that share the launch. What "
    "blocks tell one another plane by plane serves one launch at a time.",
    "row_totals": "What blocks count or tell serves one launch at a time: two streams wait for each other.",
    "bundle_lanes": "A row is read in shorter stretches by a block; its neighbours read the rest.",
    "lines_a_thread": "Fewer threads, with more registers; some are idle where lines do not fill a block.",
    "backwards": "None, where the data does not fit L2 twice; else nothing is gained.",
    "columns_by": "Shared memory and barriers, where a thread a column needs neither.",
    "look_back": "The last bit of a float total may differ from run to run; tiles wait for one another.",
    "scan_lanes": "Few lanes walk long rows in many steps; many are idle on short ones.",
    "scan_by": "What pieces tell serves one launch at a time: two streams wait for each other. "
    "Where totals run along little, threads are left without work.",
    "turned_tile": "A barrier a tile; the last tiles of a row or column are partly empty.",
    "pair_tile": "Two barriers a piece of the columns; the last tiles of a row or column are partly empty.",
    "convolution": "Arithmetic without the library's shortcuts; tiles at the edges are partly empty.",
    "channel_pairs": "A small launch before it that lays weights out; each patch is gone through once more.",
    "matrix_product": "Tiles at the edges are partly empty; an infinity makes its sums slow.",
    "split_k": "Blocks of a tile wait for one another, and bring what they share of a factor once each.",
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
