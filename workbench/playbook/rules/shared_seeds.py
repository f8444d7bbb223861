"""Vectors that a search may start from where blocks share long rows.

Owns which clusters are tried, and where rows take turns. seeds.py chooses among these and all others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.model import Problem, Target, Vector
from workbench.playbook.rules.seeds import times_of, unlike
from workbench.playbook.schedules.fitting import clustered_part
from workbench.playbook.schedules.schedule import schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of

_NEARLY = 1.4
"""Times as long as the best seed's at some shape: the model may be as far off there."""
_FULL_PIECE = 0.4
"""Of what a block can keep: from here on it is mostly alone on its multiprocessor."""
_FEW_ROWS = 2
"""A multiprocessor. With more of them clusters of four are never at a loss for blocks."""
_SMALL_PIECE = 0.1
"""Below, a cluster costs more than it shares."""


def with_value(vector: Vector, name: str, value: str) -> Vector:
    """The vector with another value of one technique."""
    return tuple(sorted({**dict(vector), name: value}.items()))


def shared_by_clusters(problem: Problem, structures: list[Vector], target: Target) -> list[Vector]:
    """The best few structures with clusters for rows that are too long for one block.

    Beyond the largest block pieces in registers are among them: an instance norm with rows of 65536 takes
    188 us so on an H100, 194 in two passes, 199 in shared memory, and 263 where it reads each row twice.
    """
    structures = [one for one in structures if dict(one).get("prefetch", "off") == "off"]
    ranked = unlike(problem, structures, target, 3)
    largest = (("block_size", "fit"), ("row_cache", "registers"), ("cluster", "4"))
    if dict(settled(problem, largest)).get("cluster") == "4":
        kept = {("block_size", "256"), ("row_cache", "registers"), ("threads_per_row", "fit")}
        pieces = [one for one in structures if kept <= set(one)]
        ranked += [with_value(one, "stores", "plain") for one in pieces]
    ranked += [with_value(vector, "row_cache", "shared") for vector in ranked[:1]]  # eight: 1.5 MB
    wanted = [(with_value(vector, "cluster", blocks), blocks) for vector in ranked for blocks in ("4", "8")]
    shared = [(settled(problem, vector), blocks) for vector, blocks in wanted]
    found = [vector for vector, blocks in shared if dict(vector).get("cluster") == blocks]
    found = [v for v in found if dict(v)["cluster"] == "4" or _wants_eight(problem, v, target)]
    own = [*_one_row_ahead(problem, ranked, target), *_several_abreast(problem, ranked, target)]
    return list(dict.fromkeys([*found, *own]))


def joined_at_once(
    problem: Problem, structures: Sequence[Vector], seeds: Sequence[Vector], target: Target
) -> list[Vector]:
    """The best structure whose blocks share a row and meet once, where all seeds have clusters or copy ahead.

    How a launch of few large teams begins and ends, the model does not say: 64 rows of 0.5 MB take 22 us on
    an H200 with words and 28 in clusters, which rows of 1.5 MB beside them want and the model likes for both.
    """
    if not any(_in_clusters(one) for one in seeds) or any(_meets_once(one) for one in seeds):
        return []
    reached = [times_of(problem, one, target) for one in seeds]
    nearest: dict[Vector, float] = {}
    for vector in filter(_meets_once, structures):
        times = times_of(problem, vector, target)
        nearest[vector] = min(us / min(one[case] for one in reached) for case, us in times.items())
    best = min(nearest, key=nearest.__getitem__, default=None)
    return [best] if best is not None and nearest[best] <= _NEARLY else []


def _in_clusters(vector: Vector) -> bool:
    return dict(vector).get("cluster", "1") != "1" or dict(vector).get("prefetch") == "on"


def _meets_once(vector: Vector) -> bool:
    joins = dict(vector).get("split_join") in ("words", "grid")
    return joins and dict(vector).get("grid_split") == "on" and not _in_clusters(vector)


def taking_turns(problem: Problem) -> list[Vector]:
    """Rows one after the other, or a few at a time, each shared by many blocks: the next one on its way."""
    ahead = (("grid_split", "on"), ("prefetch", "on"), ("row_cache", "shared"), ("split_join", "grid"))
    own = (("block_size", "512"), ("single_pass", "on"), ("vector_width", traits_of(problem).widest))
    vector = settled(problem, (*ahead, *own))
    return [vector] if dict(vector).get("prefetch") == "on" else []


def _one_row_ahead(problem: Problem, structures: list[Vector], target: Target) -> list[Vector]:
    """Clusters whose blocks fill a multiprocessor each, with the next row on its way.

    Beside them two blocks a multiprocessor, which fill each other's pauses instead.
    """
    found = []
    for blocks, threads, ahead in (("8", "512", "on"), ("16", "512", "on"), ("16", "256", "off")):
        own = {"block_size": threads, "cluster": blocks, "prefetch": ahead}
        single = "on" if ahead == "on" else "off"
        for structure in structures[:1]:
            vector = _kept_by_clusters(problem, structure, {**own, "single_pass": single})
            kept = dict(vector).get("cluster") == blocks and "prefetch" in dict(vector)
            if kept and _pieces_from(problem, vector, target, _FULL_PIECE):
                found.append(vector)
    return found


def _several_abreast(problem: Problem, structures: list[Vector], target: Target) -> list[Vector]:
    """Clusters of small blocks where rows are few: a multiprocessor has several, which take turns at memory.

    An L2 norm of 128 x 65536 takes 19.6 us so on an H200, and 21.1 where all blocks wait for one another.
    """
    traits = traits_of(problem)
    rows = [row.shape.rows.at(case) for row in traits.rows for case in traits.declared_cases]
    if any(count > _FEW_ROWS * target.sm_count for count in rows):
        return []
    found = []
    for structure in structures[:1]:
        small = {"block_size": "256", "cluster": "8", "prefetch": "off"}
        vector = _kept_by_clusters(problem, structure, small)
        if dict(vector).get("cluster") == "8" and _pieces_from(problem, vector, target, _SMALL_PIECE):
            found.append(vector)
    return found


def _kept_by_clusters(problem: Problem, structure: Vector, own: Mapping[str, str]) -> Vector:
    """The structure with pieces in registers, and with what is given."""
    kept = {**dict(structure), "row_cache": "registers", "vector_width": "4", **own}
    return settled(problem, tuple(sorted(kept.items())))


def _wants_eight(problem: Problem, vector: Vector, target: Target) -> bool:
    """True where eight blocks hold rows that four do not, and rows enough to fill the card."""
    return _pieces_from(problem, vector, target, 0.5)


def _pieces_from(problem: Problem, vector: Vector, target: Target, share: float) -> bool:
    """True where rows enough to fill the card have pieces of more than a share of what a block can keep."""
    traits, schedule = traits_of(problem), schedule_of(vector)
    blocks = schedule.cluster
    for shape in (row.shape for row in traits.rows):
        part = clustered_part(schedule, shape, traits.all_cases)
        many = [case for case in traits.declared_cases if blocks * shape.rows.at(case) >= target.sm_count]
        if part and any(share < shape.columns.at(case) / blocks / part.most <= 1 for case in many):
            return True
    return False
