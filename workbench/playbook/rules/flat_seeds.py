"""Vectors that a search may start from where no row is reduced: lines, tiles, windows in strips and walks.

Owns which of these are tried; seeds.py chooses among them by predicted time.
"""

from __future__ import annotations

from workbench.model import Problem, Vector
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import traits_of


def flat_seeds(problem: Problem) -> list[Vector]:
    """Where no row is reduced, what an element costs is in its index and its divisions: tried together."""
    traits = traits_of(problem)
    if traits.rows or traits.scans:
        return []
    found: dict[Vector, None] = {}
    for tile, threads in (("32", "256"), ("64", "256"), ("64", "512")) if traits.turned else ():
        turned = (("block_size", threads), ("index_width", "32"), ("turned_tile", tile))
        found[settled(problem, turned)] = None
    found.update(dict.fromkeys([*_walking(problem), *_beside(problem)]))
    for strip, threads in (("4", "256"), ("8", "128"), ("2", "256"), ("16", "128")) if traits.strips else ():
        below = (("block_size", threads), ("index_width", "32"), ("reciprocal", "on"), ("strip", strip))
        found[settled(problem, below)] = None
    for width, threads in (("4", "256"), ("4", "512"), ("1", "256")) if traits.windowed else ():
        here = (
            ("block_size", threads),
            ("index_width", "32"),
            ("reciprocal", "on"),
            ("vector_width", width),
            ("window_parts", "shared"),
        )
        found[settled(problem, here)] = None
    found.update(dict.fromkeys([*_rolled(problem), *_apart(problem)]))
    found.update(dict.fromkeys([*_staged(problem), *_stepping(problem)]))
    if traits.looked_up:  # results that leave L2 first leave it to what is read twice
        kept = (("block_size", "128"), ("index_width", "32"), ("stores", "streamed"), ("vector_width", "4"))
        found[settled(problem, kept)] = None
    for threads, width in (("256", "4"), ("512", "4"), ("256", "1")) if traits.scatters else ():
        own = (("block_size", threads), ("scatter_by", "block"), ("vector_width", width))
        if dict(settled(problem, own)).get("scatter_by") == "block":
            found[settled(problem, own)] = None
    # Two results a thread for windows: they are read element by element, and four touch many lines.
    two = ("off", "2", "256", "1")
    plain = [("on", "4", "256", "1"), ("off", "4", "256", "1"), ("on", "1", "256", "1"), two]
    plain += [("on", "4", "128", "1"), ("on", "4", "128", "2")]
    if traits.narrowest_bytes == 1:
        plain += [("on", traits.widest, "256", "1"), ("on", traits.widest, "128", "1")]
    for reciprocal, width, threads, items in plain:
        vector = (
            ("block_size", threads),
            ("index_width", "32"),
            ("loads_in_flight", items),
            ("reciprocal", reciprocal),
            ("vector_width", width),
        )
        found[settled(problem, vector)] = None
    found.update(dict.fromkeys(_repeated(problem)))
    return list(found)


def _repeated(problem: Problem) -> list[Vector]:
    """Many rows a thread, where what they share is slow to compute."""
    if not traits_of(problem).repeated:
        return []
    found: dict[Vector, None] = {}
    for width in dict.fromkeys(("4", traits_of(problem).widest)):
        for items in ("16", "8", "4"):
            vector = (
                ("block_size", "128"),
                ("index_width", "32"),
                ("loads_in_flight", items),
                ("reciprocal", "on"),
                ("vector_width", width),
            )
            found[settled(problem, vector)] = None
    return list(found)


def _rolled(problem: Problem) -> list[Vector]:
    """Loops over the steps of a recurrence: small blocks where threads are few."""
    if not traits_of(problem).recurrences:
        return []
    shared = (("index_width", "32"), ("stores", "streamed"))
    found = dict.fromkeys(
        settled(problem, (("block_size", threads), ("index_width", "32"), ("rolled_steps", steps)))
        for threads, steps in (("128", "16"), ("128", "32"), ("64", "32"), ("256", "16"), ("256", "8"))
    )
    widths = (("64", "32", "2"), ("64", "16", "2"), ("64", "8", "4"), ("128", "32", "1"))
    for threads, steps, width in widths:
        own = (("block_size", threads), ("rolled_steps", steps), ("vector_width", width))
        found[settled(problem, (*own, *shared))] = None
    return list(found)


_ROWS_A_THREAD = (("4", "256"), ("2", "128"), ("1", "256"))
"""Vector widths and threads: how many rows pay is for the card to say."""


def _apart(problem: Problem) -> list[Vector]:
    """All elements of a short axis a thread: of several rows, or of one or two where these are vectors."""
    if not traits_of(problem).apart:
        return []
    found: dict[Vector, None] = {}
    narrow = traits_of(problem).narrowest_bytes <= 2
    for width, threads in (("8", "256"), ("4", "128"), ("2", "256")) if narrow else _ROWS_A_THREAD:
        vector = (
            ("axis_a_thread", "on"),
            ("block_size", threads),
            ("index_width", "32"),
            ("vector_width", width),
        )
        found[settled(problem, vector)] = None
    return list(found)


_STAGING = (("on", "256"), ("on", "128"), ("on", "64"), ("off", "256"))
"""Products for divisions, and threads: long rows leave room for few."""


def _staged(problem: Problem) -> list[Vector]:
    """Rows that wait in shared memory: of a row or of an element a thread, with products for divisions."""
    found: dict[Vector, None] = {}
    for able, apart in zip(traits_of(problem).staged, ("off", "on"), strict=True):
        for reciprocal, threads in _STAGING if able else ():
            vector = (
                ("axis_a_thread", apart),
                ("block_size", threads),
                ("index_width", "32"),
                ("reciprocal", reciprocal),
                ("staged_rows", "on"),
            )
            found[settled(problem, vector)] = None
    return list(found)


def _stepping(problem: Problem) -> list[Vector]:
    """Rows that go through steps: warps on their own, and blocks of several sizes."""
    if not traits_of(problem).stepped:
        return []
    found: dict[Vector, None] = {}
    teams = (("warp", "128"), ("warp", "256"), ("block", "256"), ("block", "128"), ("block", "512"))
    for width in dict.fromkeys((traits_of(problem).widest, "4")):
        for by, threads in teams:
            vector = (("block_size", threads), ("index_width", "32"), ("steps_by", by))
            found[settled(problem, (*vector, ("vector_width", width)))] = None
    return list(found)


def _walking(problem: Problem) -> list[Vector]:
    """Walks down planes: long ones for arithmetic, short ones where planes are few."""
    traits = traits_of(problem)
    if traits.walks == traits.beside:
        return []
    walks = [("4", "64", "2"), ("4", "32", "2"), ("4", "16", "2"), ("2", "16", "2"), ("4", "8", "4")]
    if traits.narrowest_bytes <= 2:
        walks = [("8", "64", "2"), ("8", "16", "1"), *walks]
    return [settled(problem, _walk(*walk)) for walk in walks]


def _beside(problem: Problem) -> list[Vector]:
    """Walks down planes side by side: many columns and few planes a thread, or few columns and many planes.

    What a plane shares is in registers for each of a thread's planes: large windows leave room for few.
    """
    if not traits_of(problem).beside:
        return []
    # Results side by side, rows, steps on their way, planes.
    walks = [
        ("2", "16", "2", "4"),
        ("4", "16", "1", "4"),
        ("4", "16", "2", "2"),
        ("2", "8", "2", "4"),
        ("2", "32", "2", "4"),
        ("1", "16", "4", "4"),
        ("8", "16", "1", "2"),
    ]
    if traits_of(problem).narrowest_bytes <= 2:
        walks += [("2", "16", "1", "8"), ("1", "16", "2", "8")]
    return [settled(problem, (*_walk(*walk), ("vector_width", width))) for *walk, width in walks]


def _walk(side: str, rows: str, ahead: str) -> Vector:
    """Results side by side, rows, and steps on their way."""
    return (
        ("block_size", "128"),
        ("index_width", "32"),
        ("loads_in_flight", ahead),
        ("reciprocal", "on"),
        ("walk_down", side),
        ("walk_rows", rows),
    )
