"""Places in a queue that last from turn to turn."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from workbench.devices.turns import Place, Turns


def served(turns: Turns, first: Place, others: Sequence[tuple[str, Place]]) -> list[str]:
    """In which order those others have their turns who came while the first one had it."""
    order: list[str] = []

    def want(name: str, place: Place) -> None:
        with turns.turn(place):
            order.append(name)

    with turns.turn(first):
        threads = [threading.Thread(target=want, args=one, daemon=True) for one in others]
        for thread in threads:
            thread.start()
        while len(turns._waiting) < len(others):
            pass
    for thread in threads:
        thread.join(10.0)
    return order


def test_who_came_first_of_all_is_served_first() -> None:
    turns = Turns()
    old, new, background, newest = turns.place(), turns.place(), turns.place(last=True), turns.place()
    others = [("background", background), ("newest", newest), ("new", new), ("old", old)]
    assert served(turns, turns.place(), others) == ["old", "new", "newest", "background"]


def test_a_place_is_kept_and_a_turn_ends_with_an_error() -> None:
    turns = Turns()
    place = turns.place()
    for _ in range(2):
        try:
            with turns.turn(place):
                raise ValueError
        except ValueError:
            pass
    assert served(turns, place, [("again", place)]) == ["again"]
