"""Which technique to try next on which kernel, and why: the reasoner's rules.

Owns the ranking of hypotheses. Pure: the same problem, vector, evaluation and target give the same
answer.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Literal, cast

from workbench.model import Evaluation, Hypothesis, Problem, Target, Vector
from workbench.plan.limits import STEPS
from workbench.playbook.estimates.estimate import predicted_factor
from workbench.playbook.estimates.ways import with_kernels
from workbench.playbook.files.shape_classes import BY_SHAPE, ShapeClass, classes_of, conditions_of
from workbench.playbook.graph.rewrites import MAY_COST, REWRITES
from workbench.playbook.ir.program import LibraryCall, ProgramStep
from workbench.playbook.kernels.convolution_tiling import TILES
from workbench.playbook.kernels.together_kernel import always_together
from workbench.playbook.rules.by_shape import from_prediction, of_case, of_classes
from workbench.playbook.rules.cards import RISKS, bound_of, evidence
from workbench.playbook.rules.convolution_seeds import convolution_seeds
from workbench.playbook.rules.few_seeds import few_seeds
from workbench.playbook.rules.flat_seeds import flat_seeds
from workbench.playbook.rules.pair_seeds import pair_seeds
from workbench.playbook.rules.product_seeds import product_seeds
from workbench.playbook.rules.recurrent_seeds import recurrent_seeds
from workbench.playbook.rules.seeds import best_at_each, mean_us, times_of, unlike, worth_timing
from workbench.playbook.rules.shared_seeds import joined_at_once, shared_by_clusters, taking_turns
from workbench.playbook.rules.weight_seeds import weight_seeds
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import TECHNIQUES, settled
from workbench.playbook.techniques.traits import program_of, traits_of
from workbench.playbook.text.titles import TITLES

Bottleneck = Literal["memory", "latency", "compute", "launch", "library", "none"]
Scope = Literal["refine", "rewrite", "any"]

_COMPANIONS: dict[tuple[str, str], Vector] = {
    ("row_cache", "registers"): (("vector_width", "4"),),
    ("look_back", "on"): (("vector_width", "4"),),
    ("grid_split", "on"): (("split_join", "last"), ("columns_by", "bundle")),
    ("columns_by", "bundle"): (("vector_width", "4"),),
    ("scan_by", "bundle"): (("scan_tile", "8"), ("vector_width", "4")),
    ("scan_by", "pieces"): (("scan_tile", "8"), ("vector_width", "4")),
    ("prefetch", "on"): (("vector_width", "4"),),
    **{
        ("row_sums", team): (("block_size", "128"), ("look_back", "off"), ("vector_width", "4"))
        for team in ("warp", "block")
    },
    ("staged_rows", "on"): (("index_width", "32"), ("launches", "apart")),
    ("row_tables", "on"): (("block_size", "256"), ("launches", "apart")),
    ("shared_weights", "on"): (("block_size", "256"), ("launches", "apart"), ("vector_width", "4")),
    **{
        ("walk_down", side): (("block_size", "128"), ("index_width", "32"), ("strip", "off"))
        for side in ("1", "2", "4", "8")
    },
    **{("convolution", tile): (("block_size", "128"),) for tile in TILES},
    ("convolution", "patches"): (("block_size", "256"), ("vector_width", "4")),
    ("matrix_product", "three_tf32"): (("block_size", "256"), ("vector_width", "4")),
    ("pair_tile", "32"): (("block_size", "64"), ("launches", "apart"), ("vector_width", "4")),
    ("pair_tile", "64"): (("block_size", "256"), ("launches", "apart"), ("vector_width", "4")),
    ("pair_tile", "128"): (("block_size", "256"), ("launches", "apart"), ("vector_width", "4")),
    ("threads_per_row", "bundle"): (("block_size", "512"), ("row_cache", "registers"), ("vector_width", "4")),
    ("threads_per_row", "warp"): (("block_size", "128"),),
    ("threads_per_row", "eight"): (("block_size", "128"),),
    ("threads_per_row", "four"): (("block_size", "128"),),
    ("threads_per_row", "thread"): (("block_size", "128"), ("vector_width", "1")),
}
"""What a rewrite brings along, so that the new structure gets a fair start."""
_OF_WARPS = {"256": "128", "1024": "64"}
"""Threads of a block whose warps have nothing in common: its place is free when the last has ended."""
_CACHES = ("registers", "shared", "reread")
"""Where a row waits for a further pass, if anywhere."""
_WEIGHT = (
    "fusion",
    *REWRITES,
    "turned_tile",
    "convolution",
    "channel_pairs",
    "matrix_product",
    "split_k",
    "pair_tile",
    "few_rows",
    "few_split",
    "walk_down",
    "rolled_steps",
    "recurrent_layers",
    "axis_a_thread",
    "staged_rows",
    "strip",
    "row_sums",
    "shared_weights",
    "row_tables",
    "window_parts",
    "steps_by",
    "row_cache",
    "grid_split",
    "columns_by",
    "split_join",
    "row_totals",
    "launches",
    "look_back",
    "scan_lanes",
    "scan_by",
    "scatter_by",
    "single_pass",
    "threads_per_row",
    "vector_width",
)
"""Techniques in the order a card speaks of them."""
TEACHING_ONLY = frozenset(
    [
        ("block_reduction", "tree"),
        ("fusion", "none"),
        *((name, "off") for name in REWRITES if name not in MAY_COST),
    ]
)
"""Values that are there to be compared with; never proposed as an improvement."""
_NARROW: Vector = (("bundle_lanes", "8"),)
_FROM_END: Vector = (*_NARROW, ("backwards", "on"))
_FULL_OF_VECTORS = 2**16
"""Rows that fill the card where a block has 128 of them: 512 blocks."""

_STEPS_A_KERNEL = 2
"""Of a plan: its result is allocated, and it is launched."""
_FEW_TO_HEAR = 1024
"""Rows whose totals one block may hear in words: a loss over 8192 rows took longer so than with a counter."""


def naive_vector(problem: Problem) -> Vector:
    """One kernel an operation: what every gain is measured against."""
    return settled(problem, (("fusion", "none"),))


def seed_vectors(problem: Problem, target: Target, count: int = 3) -> tuple[Hypothesis, ...]:
    """Where a search starts: the naive chain, the plain fused kernel, then the best structures.

    The first two are there to be compared with, and are left out where that would cost seconds of a card or,
    of the chain, more steps than a plan may have.
    """
    naive, plain = naive_vector(problem), settled(problem, ())
    structures = _structures(problem)
    structures += _without_what_costs(problem, structures)
    best = unlike(problem, [*structures, *shared_by_clusters(problem, structures, target)], target, count)
    best = _with_axes_a_thread(problem, best, target)
    fastest = times_of(problem, best[0], target) if best else {}
    chain = [naive] if _STEPS_A_KERNEL * traits_of(problem).naive_kernels <= STEPS else []
    first = [v for v in dict.fromkeys([*chain, plain]) if worth_timing(times_of(problem, v, target), fastest)]
    early = best[: max(1, count - len(first))]
    others = [*_totals_otherwise(problem, best[:1]), *joined_at_once(problem, structures, early, target)]
    order = dict.fromkeys([*first, *best[:1], *others, *best[1:]])
    order = order or {plain: None}
    cards = []
    for vector in list(order)[:count]:
        factor = predicted_factor(problem, naive, vector, target)
        cards.append(_seed_card(problem, vector, naive, factor))
    each = best_at_each(problem, structures, target)
    mixed = from_prediction(problem, [*order, *each], target, _alone(problem, each, target))
    if mixed is not None and mixed.vector is not None:
        factor = predicted_factor(problem, naive, mixed.vector, target)
        mixed = mixed.model_copy(update={"predicted_factor": factor})
        cards = [*cards[: len(first)], mixed, *cards[len(first) :]][:count]
    return tuple(cards)


def _alone(problem: Problem, best: list[Vector], target: Target) -> dict[str, Vector]:
    """By declared case the fastest of ``best`` as a kernel for it alone would have it, where that is another.

    What is offered is what all declared cases allow: 65,536 rows of 256 that are scanned beside sixteen of
    262,144 were a block's each, 41.2 us on an H200 where lanes take 33.8 by the model of time.
    """
    found: dict[str, Vector] = {}
    for case in problem.cases if len(problem.cases) > 1 else ():
        part = of_case(problem, case.label)
        others = {settled(part, vector) for vector in best} - set(best)
        if others:
            found[case.label] = min(sorted(others), key=lambda one: mean_us(part, one, target))
    return found


def _with_axes_a_thread(problem: Problem, best: list[Vector], target: Target) -> list[Vector]:
    """The same where a kernel beside those of rows has all of a short axis a thread, if that is to be faster.

    Colours of an image whose mean is needed first: a thread for each makes all three of them for the grey.
    """
    if not traits_of(problem).apart:
        return best
    found: dict[Vector, None] = {}
    for vector in best:
        together = settled(problem, _with(vector, "axis_a_thread", "on"))
        found[min((vector, together), key=lambda one: mean_us(problem, one, target))] = None
    return list(found)


def _totals_otherwise(problem: Problem, best: list[Vector]) -> list[Vector]:
    """The best with the other ways to add up what few rows come to: a microsecond is a fifth of its time.

    What a counter, a word or a launch more takes there is the code that a cold card fetches for it, of which
    the model knows nothing.
    """
    if not _tells_totals(problem):
        return []
    return [
        settled(problem, _with(vector, "row_totals", way)) for vector in best for way in ("last", "launch")
    ]


def _without_what_costs(problem: Problem, structures: list[Vector]) -> list[Vector]:
    """The same without rewrites that may cost more than they save.

    Weights of 268 MB folded before a product of 33 MB took 170 us more than torch.compile on an H100. What
    is left may have rows to keep that there were none of: a channels-last group norm of 2x640x32x32 takes
    9.5 us on an H200 with its rows in shared memory, and 16.5 where its lines are summed.
    """
    found: dict[Vector, None] = {}
    for name in sorted(MAY_COST & traits_of(problem).rewrites):
        left = traits_of(problem, frozenset([name])).rows
        kept = any(row.shape.kept for row in left)
        others = structures if traits_of(problem).rows or not left else _of_short_rows(problem)
        for vector, cache in itertools.product(others, _CACHES if kept else ("reread",)):
            found[settled(problem, _with(_with(vector, name, "off"), "row_cache", cache))] = None
    return list(found)


def _of_short_rows(problem: Problem) -> list[Vector]:
    """Who takes a row where there are none unless a rewrite is left out: they have few elements each."""
    width = traits_of(problem).widest
    return [
        (
            ("block_size", threads),
            ("index_width", "32"),
            ("loads_in_flight", loads),
            ("threads_per_row", team),
            ("vector_width", width),
        )
        for team in ("four", "eight", "warp")
        for threads in ("128", "256")
        for loads in ("1", "2")
    ]


def _structures(problem: Problem) -> list[Vector]:
    """Vectors that differ in structure, with a usual width."""
    bundles = any(row.bundles for row in traits_of(problem).rows)
    # 16 bytes a load: an RMS norm of 2048 x 8192 in bfloat16 takes 19.8 us on an H200, and 20.8 to 25 by 8.
    width = traits_of(problem).widest
    once = not bundles and _read_once(problem)
    joins, turned = _joins(problem), traits_of(problem).turned
    eight = _is_offered(problem, "threads_per_row", "eight")
    told = _tells_totals(problem)
    scans = ("thread", "pieces") if _is_offered(problem, "scan_by", "pieces") else ("thread",)
    choices = itertools.product(
        ("block", "warp", "thread", "fit", *(("eight",) if eight else ())),
        _CACHES,
        ("off", "on"),
        ("off", "on"),
        ("256", "512") if bundles else ("256", "1024", "fit"),
    )
    found: dict[Vector, None] = {}
    # What several blocks share is read again from L2: half of those stream their results past it.
    shared = "grid_split" in dict(settled(problem, (("grid_split", "on"),)))
    for (team, cache, split, single, threads), join, by in itertools.product(choices, joins, scans):
        vector = (
            ("block_size", _OF_WARPS.get(threads, threads) if team in ("warp", "eight") else threads),
            ("grid_split", split),
            ("look_back", split),
            ("split_join", _join_of(team, join if split == "on" else joins[0])),
            ("columns_by", "bundle"),
            ("convolution", "each"),
            ("early_loads", "on"),  # never slower where a norm of an H100 was measured, and offered to few
            ("matrix_product", "each"),
            ("row_cache", cache),
            ("row_totals", "last"),
            ("scan_by", by),
            ("single_pass", single),
            ("split_k", "each"),
            ("stores", "streamed" if shared and split == "on" and threads == "256" else "plain"),
            ("stream_hints", "on" if once and threads != "fit" else "off"),
            ("threads_per_row", team),
            ("vector_width", width),
        )
        whole = settled(problem, vector)
        if cache != "registers" and _kept_anyway(problem, whole):
            continue
        found[whole] = None
        if told:
            found[settled(problem, (*vector, ("row_totals", "told")))] = None
        if team == "eight" and _leaves_lanes_idle(problem, int(width)):
            found[settled(problem, (*vector, ("threads_per_row", "four")))] = None
            if width == "8":
                found[settled(problem, (*vector, ("vector_width", "4")))] = None
        if bundles and (cache, split, single) == ("reread", "on", "on"):
            found.update(dict.fromkeys(_of_columns(problem, whole)))
        if bundles and team == "eight" and split == "on":  # blocks that have room for a bundle too
            found[settled(problem, (*vector, ("block_size", threads)))] = None
        if (team == "warp" and threads != "fit") or (team == "fit" and threads == "256"):
            found[settled(problem, (*vector, ("rows_a_warp", "2")))] = None
        if once and threads == "256" and (split == "on" or team in ("block", "fit")):
            found[settled(problem, (*vector, ("loads_in_flight", "4")))] = None
        if turned and threads == "256":
            across = (*vector, ("index_width", "32"), ("turned_tile", "32"))
            found[settled(problem, across)] = None
            if cache == "reread":
                found[settled(problem, (*across, *_FROM_END))] = None
    others = [*flat_seeds(problem), *pair_seeds(problem), *_scanning(problem), *weight_seeds(problem)]
    others += [
        *convolution_seeds(problem),
        *product_seeds(problem),
        *few_seeds(problem),
        *recurrent_seeds(problem),
    ]
    apart = [*others, *found, *_abreast(problem), *taking_turns(problem)]
    apart = [*_in_tables(problem, apart), *apart]
    return [*apart, *_sharing_launches(problem, apart)]


def _in_tables(problem: Problem, structures: list[Vector]) -> list[Vector]:
    """The same with rows of few elements in the registers of a thread, where there are any."""
    if not any(row.tabled for row in traits_of(problem).rows):
        return []
    found = [settled(problem, _with(vector, "row_tables", "on")) for vector in structures]
    return [vector for vector in dict.fromkeys(found) if ("row_tables", "on") in vector]


def _tells_totals(problem: Problem) -> bool:
    """True where what rows come to may be told in words, and few enough blocks tell for that to be fast."""
    traits = traits_of(problem)
    rows = [row.shape.rows.at(case) for row in traits.rows for case in traits.declared_cases]
    return traits.row_totals and max(rows, default=0) <= _FEW_TO_HEAR


def _is_offered(problem: Problem, name: str, value: str) -> bool:
    """True where the value stays when nothing else is asked for."""
    return dict(settled(problem, ((name, value),))).get(name) == value


def _leaves_lanes_idle(problem: Problem, width: int) -> bool:
    """True where a row is no whole number of vectors for eight lanes each."""
    traits = traits_of(problem)
    cases = traits.declared_cases
    return any(row.shape.columns.at(case) % (8 * width) for row in traits.rows for case in cases)


def _of_columns(problem: Problem, vector: Vector) -> list[Vector]:
    """Narrow bundles, and what their results are used for: line by line, and from the end."""
    lines = (*_NARROW, ("lines_a_thread", "4"))
    back = ("backwards", "on")
    # Wide bundles of many columns have all found room at once, and L2 the end of each of them.
    tried: list[Vector] = [_NARROW, _FROM_END, lines, (*lines, back), (("lines_a_thread", "4"), back)]
    if dict(vector).get("vector_width") == "8":  # half the registers for what columns come to
        tried.append((("bundle_lanes", "16"), *lines[1:], ("vector_width", "4")))
    return [settled(problem, (*vector, *changes)) for changes in tried]


def _kept_anyway(problem: Problem, vector: Vector) -> bool:
    """True where blocks that wait for one another keep all declared rows in registers, whatever is asked."""
    traits, schedule = traits_of(problem), schedule_of(vector)
    return bool(traits.rows) and all(
        always_together(schedule, row.joint, traits.declared_cases) for row in traits.rows
    )


def _sharing_launches(problem: Problem, structures: list[Vector]) -> list[Vector]:
    """The same with fewer launches, where kernels follow one another."""
    if traits_of(problem).sharing < 2:
        return []
    found: dict[Vector, None] = {}
    for vector, launches in itertools.product(structures, ("beside", "together", "turns")):
        shared = settled(problem, _with(vector, "launches", launches))
        if dict(shared).get("launches") == launches:
            found[shared] = None
    return list(found)


def _abreast(problem: Problem) -> list[Vector]:
    """Rows side by side: as many warps as their registers can hold rows of, or fewer that overlap.

    A lane has four of them, and one where rows are too few to fill the card so.
    """
    if not _is_offered(problem, "threads_per_row", "bundle"):
        return []
    traits = traits_of(problem)
    rows = [r.shape.rows.at(case) for r in traits.rows if r.shape.beside for case in traits.declared_cases]
    widths = ("4", "1") if min(rows, default=0) < _FULL_OF_VECTORS else ("4",)
    # A squared error over 134 MB takes 41.8 us on an H200, and 37.4 where its loads are streamed.
    once = _read_once(problem)
    found: dict[Vector, None] = {}
    for threads, cache, split, width in itertools.product(
        ("512", "256", "1024"), ("registers", "reread"), ("off", "on"), widths
    ):
        vector = (
            ("block_size", threads),
            ("grid_split", split),
            ("row_cache", cache),
            ("single_pass", "on" if cache == "reread" else "off"),
            ("threads_per_row", "bundle"),
            ("vector_width", width),
        )
        found[settled(problem, vector)] = None
        if once and cache == "reread" and split == "off":
            found[settled(problem, (*vector, ("stream_hints", "on")))] = None
    return list(found)


def _joins(problem: Problem) -> tuple[str, ...]:
    """How pieces of a row may come together: by waiting for one another where that is possible, or not."""
    for joins in (("words", "grid"), ("told",)):
        found = settled(problem, (("grid_split", "on"), ("split_join", joins[0])))
        if dict(found).get("split_join") == joins[0]:
            return joins
    return ("last",)


def _join_of(team: str, join: str) -> str:
    """Threads that have a column each leave too many parts for words."""
    return "last" if join == "told" and team in ("thread", "bundle") else join


def _read_once(problem: Problem) -> bool:
    """Only reductions, whose results are few: on an H100 most of them gain 5% to 15% by streaming loads."""
    traits = traits_of(problem)
    plain = traits.rows and not (traits.scans or traits.flat_kernels)
    return bool(plain) and all(row.ends_joining for row in traits.rows)


def _scanning(problem: Problem) -> list[Vector]:
    """Tiles from a quarter of what a multiprocessor holds to an eighth of that, by many blocks or by few."""
    if not traits_of(problem).scans:
        return []
    found: dict[Vector, None] = {}
    for by, threads, parts, width in (
        ("pieces", "256", "8", "4"),
        ("pieces", "256", "4", "4"),
        ("pieces", "128", "8", "4"),
        ("pieces", "512", "8", "4"),
        ("pieces", "64", "4", "1"),
        ("bundle", "256", "4", "4"),
        ("bundle", "256", "4", "1"),
    ):
        tile = (("scan_by", by), ("block_size", threads), ("scan_tile", parts), ("vector_width", width))
        stacked = settled(problem, tile)
        if dict(stacked).get("scan_by") == by:
            found[stacked] = None
    for threads, parts in (
        ("512", "8"),
        ("256", "8"),
        ("64", "4"),
        ("1024", "4"),
        ("512", "4"),
        ("256", "4"),
    ):
        vector = (("block_size", threads), ("look_back", "on"), ("scan_tile", parts), ("vector_width", "4"))
        found[settled(problem, vector)] = None
    return list(found)


def _seed_card(problem: Problem, vector: Vector, naive: Vector, factor: float) -> Hypothesis:
    traits = traits_of(problem)
    steps = _steps(problem, vector)
    library = list(dict.fromkeys(step.op for step in steps if isinstance(step, LibraryCall)))
    risk = f"Left to the library: {', '.join(library)}." if library else ""
    if vector == naive and traits.naive_kernels > traits.kernels:
        return Hypothesis(
            title=TITLES["fusion", "none"],
            bottleneck="memory",
            cause="The reference runs operation by operation; each writes its result to memory.",
            evidence=(f"{traits.naive_kernels} kernels where {traits.kernels} would do (graph)",),
            fix="Nothing yet: this is the chain that the other kernels are compared with.",
            technique="fusion",
            predicted_factor=1.0,
            risk=risk,
            vector=vector,
        )
    chosen = _choices_of(vector)
    words = [TITLES[pair] for pair in chosen]
    if not words:
        return _plain_card(vector, factor, risk, only_calls=all(isinstance(s, LibraryCall) for s in steps))
    return Hypothesis(
        title=title_of(vector),
        bottleneck="memory",
        cause="Values that stay on the chip need not go through memory.",
        evidence=(f"{traits.kernels} of {traits.naive_kernels} kernels remain (graph)",),
        fix=". ".join(words) + ".",
        technique=next((name for name, _ in chosen if name != "fusion"), chosen[0][0]),
        predicted_factor=factor,
        risk=risk,
        vector=vector,
    )


def _choices_of(vector: Vector) -> list[tuple[str, str]]:
    """What is not plain about it, what says most of a kernel first."""
    chosen = [(name, value) for name, value in vector if value != TECHNIQUES[name].plain]
    return sorted(chosen, key=lambda pair: _WEIGHT.index(pair[0]) if pair[0] in _WEIGHT else len(_WEIGHT))


def title_of(vector: Vector) -> str:
    """The two choices that say most of a kernel, in words; nothing for the plain one.

    Of a file with several kernels, each for some shapes, which are chosen apart, only that.
    """
    if conditions_of(vector):
        return TITLES[BY_SHAPE, "some"]
    chosen = _choices_of(vector)
    words = [TITLES[pair] for pair in chosen]
    told = words[:2] if len(words) == 1 or not words or chosen[0][0] != "fusion" else words[1:3]
    return "; ".join([*told[:1], *(f"{word[0].lower()}{word[1:]}" for word in told[1:])])


def _steps(problem: Problem, vector: Vector) -> Sequence[ProgramStep]:
    """Kernels and library calls of a settled vector."""
    schedule = schedule_of(vector)
    program = program_of(problem, schedule.fuse, schedule.without)
    return with_kernels(program, program.steps, schedule, [case.size_map for case in problem.cases])


def _plain_card(vector: Vector, factor: float, risk: str, only_calls: bool) -> Hypothesis:
    return Hypothesis(
        title="The library's own calls" if only_calls else "The plain kernel",
        bottleneck="none",
        cause="Nothing is left for a kernel." if only_calls else "A simple kernel to start from.",
        fix="The plain choice for every technique.",
        predicted_factor=factor,
        risk=risk,
        vector=vector,
    )


def moves(
    problem: Problem,
    vector: Vector,
    evaluation: Evaluation | None,
    target: Target,
    scope: Scope = "any",
) -> tuple[Hypothesis, ...]:
    """One-technique changes of a vector, best predicted gain first.

    ``refine`` changes how a structure is tuned, ``rewrite`` the structure itself. An evaluation gives
    the card its evidence and moves that help against its bottleneck come first.
    """
    here = settled(problem, vector)
    if classes := classes_of(problem, here):
        return _moves_by_class(problem, classes, evaluation, target, scope)
    facts = evidence(problem, here, evaluation, target)
    cards: dict[Vector, tuple[float, Hypothesis]] = {}
    for name, value in _changes(here, scope):
        changed = settled(problem, _with(here, name, value))
        if dict(changed).get(name) != value or changed == here or changed in cards:
            continue
        if name == "row_cache" and _kept_anyway(problem, here) and _kept_anyway(problem, changed):
            continue  # another file, of which the same kernels are launched
        factor = predicted_factor(problem, here, changed, target)
        card = _card((name, value), changed, factor, facts, evaluation)
        cards[changed] = (_rank(name, factor, evaluation), card)
    ranked = sorted(cards.values(), key=lambda pair: -pair[0])
    return tuple(card for _, card in ranked)


def _moves_by_class(
    problem: Problem,
    classes: tuple[ShapeClass, ...],
    evaluation: Evaluation | None,
    target: Target,
    scope: Scope,
) -> tuple[Hypothesis, ...]:
    """Changes of one class of shapes; the others stay as they are."""
    cards: dict[Vector, Hypothesis] = {}
    for number, part in enumerate(classes):
        labels = {case.label for case in part.problem.cases}
        seen = None if evaluation is None else _part_of(evaluation, labels)
        for card in moves(part.problem, part.vector, seen, target, scope):
            vectors = [card.vector if i == number else other.vector for i, other in enumerate(classes)]
            vector = of_classes(problem, [other.condition for other in classes], vectors)
            where = part.condition.text or "all other shapes"
            factor = card.predicted_factor ** (len(labels) / len(problem.cases))
            update = {"title": f"{card.title}, for {where}", "predicted_factor": factor, "vector": vector}
            cards.setdefault(vector, card.model_copy(update=update))
    return tuple(sorted(cards.values(), key=lambda card: -card.predicted_factor))


def _part_of(evaluation: Evaluation, cases: set[str]) -> Evaluation:
    """What an evaluation says of some cases."""
    profile = evaluation.profile
    update = {
        "times": tuple(time for time in evaluation.times if time.case in cases),
        "facts": tuple(facts for facts in evaluation.facts if facts.case in cases),
        "profile": profile if profile is not None and profile.case in cases else None,
    }
    return evaluation.model_copy(update=update)


def _changes(vector: Vector, scope: Scope) -> Iterable[tuple[str, str]]:
    for name, current in vector:
        technique = TECHNIQUES[name]
        if scope != "any" and technique.structural != (scope == "rewrite"):
            continue
        for value in technique.values:
            if value != current and (name, value) not in TEACHING_ONLY:
                yield name, value


def _with(vector: Vector, name: str, value: str) -> Vector:
    companions = dict(_COMPANIONS.get((name, value), ()))
    return tuple(sorted({**dict(vector), **companions, name: value}.items()))


def _rank(name: str, factor: float, evaluation: Evaluation | None) -> float:
    """Predicted factor, with a small lead for what answers the bottleneck that was found."""
    return factor * (1.02 if TECHNIQUES[name].bottleneck == bound_of(evaluation) else 1.0)


def _card(
    choice: tuple[str, str],
    vector: Vector,
    factor: float,
    facts: tuple[str, ...],
    evaluation: Evaluation | None,
) -> Hypothesis:
    name = choice[0]
    technique = TECHNIQUES[name]
    bound = bound_of(evaluation) or technique.bottleneck
    return Hypothesis(
        title=TITLES[choice],
        bottleneck=cast("Bottleneck", bound),
        cause=f"Bound by {bound}; to be seen in {technique.look_for}.",
        evidence=facts,
        fix=f"{TITLES[choice]} ({technique.title}).",
        technique=name,
        predicted_factor=factor,
        risk=RISKS[name],
        vector=vector,
    )


def cross(problem: Problem, first: Vector, second: Vector, target: Target) -> tuple[Hypothesis, ...]:
    """Vectors that take each technique from one of two parents and differ from both, best first.

    None for parents that differ by shape: by_shape.py joins those.
    """
    if classes_of(problem, first) or classes_of(problem, second):
        return ()
    one, two = dict(settled(problem, first)), dict(settled(problem, second))
    differing = [name for name in one if name in two and one[name] != two[name]]
    found: dict[Vector, float] = {}
    for choice in range(1, 2 ** min(len(differing), 6) - 1):
        mixed = {**two, **one}
        mixed.update({name: two[name] for bit, name in enumerate(differing[:6]) if choice >> bit & 1})
        vector = settled(problem, tuple(sorted(mixed.items())))
        if vector not in (settled(problem, first), settled(problem, second)):
            found[vector] = predicted_factor(problem, settled(problem, first), vector, target)
    ranked = sorted(found.items(), key=lambda pair: -pair[1])
    return tuple(_cross_card(vector, factor, one, two) for vector, factor in ranked)


def _cross_card(vector: Vector, factor: float, one: dict[str, str], two: dict[str, str]) -> Hypothesis:
    taken = [pair for pair in vector if two.get(pair[0]) == pair[1] and one.get(pair[0]) != pair[1]]
    words = [TITLES[pair] for pair in taken] or [TITLES[vector[0]]]
    return Hypothesis(
        title=f"{words[0]}, from the other parent",
        bottleneck="memory",
        cause="Both parents are right, and each made a choice that the other did not try.",
        fix=f"Keep the first parent's kernel and take over: {'; '.join(words)}.",
        technique=taken[0][0] if taken else "",
        predicted_factor=factor,
        risk="Choices that helped apart may get in each other's way.",
        vector=vector,
    )


def parse_vector(text: str) -> Vector:
    """Read ``vector_width=4 row_cache=registers``. Raises ``UsageError`` for what is not known."""
    from workbench.errors import UsageError
    from workbench.playbook.techniques.table import check_vector

    pairs = []
    for word in text.replace(",", " ").split():
        name, sign, value = word.partition("=")
        if not sign:
            raise UsageError(f"{word!r} is not of the form technique=value.")
        pairs.append((name, value))
    check_vector(tuple(pairs))
    return tuple(sorted(pairs))
