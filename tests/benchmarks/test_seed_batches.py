"""Batches side by side: every seed has its row, whatever happens to its process."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from seed_batches import Rows, side_by_side


def doubled(seeds: list[int]) -> Rows:
    if 7 in seeds:
        os._exit(3)
    return [{"seed": seed, "failure": "", "twice": 2 * seed} for seed in seeds]


def test_a_crash_costs_one_seed() -> None:
    rows = [row for found in side_by_side(doubled, [[1, 2], [6, 7, 8], [9]], 2, 60.0) for row in found]
    assert {row["seed"]: row.get("twice") for row in rows} == {1: 2, 2: 4, 6: 12, 7: None, 8: 16, 9: 18}
    assert [row["failure"] for row in rows if row["seed"] == 7] == ["crash: the process ended with status 3"]


def single(seeds: list[int]) -> Rows:
    return [{"seed": seed, "failure": ""} for seed in seeds]


def test_no_batch_is_begun_after_the_last_second() -> None:
    answers: Rows = []
    found = side_by_side(single, [[seed] for seed in range(9)], 2, 60.0, lambda: 61.0 if answers else 0.0)
    for rows in found:
        answers += rows
    assert sorted(row["seed"] for row in answers) == [0, 1]


def test_no_batch_is_begun_in_no_time() -> None:
    assert list(side_by_side(single, [[1]], 2, 0.0, lambda: 0.0)) == []
