"""Whether a reference still reads what its kernel was made for: a look at a short prepared list, every call.

Owns the list, in the form of one Python function written for it, and what happens when it no longer holds:
the reference is walked again, and compared with what the kernel was made for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.live.captured import Captured, Check, captured
from workbench.live.facts import Fact, difference

TOLD = ("value", "set", "code")
"""Facts that a person would change, in this order."""
MOST_TOLD = 8
"""Names in a line for people."""


@dataclass(frozen=True)
class State:
    """What was found at the last walk."""

    same: Callable[[], bool]
    """True while nothing has changed since."""
    told: str
    """Why the kernel does not answer; empty where it does."""


class Watch:
    """``state`` is what held last; ``look_again`` walks when it no longer does. Safe to call from threads."""

    def __init__(self, target: Callable[[], Callable[..., Any]], made: Captured | None = None) -> None:
        """``made`` is what the kernel was made for; None: what ``target()`` reads now."""
        self._target = target
        self._made = made.facts if made else None
        self._wanted: dict[str, Fact] | None = None
        """What there was at the first look, where a copy cannot be compared; else what it was made for."""
        self._lock = threading.Lock()
        self.state = self.look_again()

    def look_again(self) -> State:
        """Walk the reference as it is now."""
        with self._lock:
            self.now = now = captured(self._target())
            if self._wanted is None:
                self._wanted = {
                    **(_evaluated(now.facts) if self._made is None else self._made),
                    **_things(now),
                }
            self.state = State(checker(now.checks), _first_difference(self._wanted, now.facts))
            return self.state

    def words(self) -> str:
        """What is watched, what is not, and what differs already: up to three sentences, or nothing."""
        now = self.now
        hidden = now.own_code | now.settings
        told = [n for kind in TOLD for n, fact in now.facts.items() if fact.kind == kind]
        names = [name for name in told if name not in hidden]
        names += ["settings of its layers"] if now.settings else []
        names += ["training mode"] if any(fact.kind == "mode" for fact in now.facts.values()) else []
        parts = []
        if names:
            parts.append(f"It goes back to the original when one of these changes: {_some(names)}.")
        if now.fixed:
            parts.append(f"Fixed as now, because no change in them can be seen: {_some(now.fixed)}.")
        if self.state.told:
            parts.append(f"It does so already: {self.state.told}.")
        return " ".join(parts)


def _some(names: Sequence[str]) -> str:
    told = ", ".join(names[:MOST_TOLD])
    return told if len(names) <= MOST_TOLD else f"{told} and {len(names) - MOST_TOLD} more"


def _things(now: Captured) -> dict[str, Fact]:
    """Those that no copy can be compared with."""
    return {path: fact for path, fact in now.facts.items() if fact.thing is not None}


def _evaluated(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The same in evaluation mode, which kernels are made in."""
    return {
        p: Fact("mode", "False", fact.detail) if fact.kind == "mode" else fact for p, fact in facts.items()
    }


def _first_difference(made: Mapping[str, Fact], now: Mapping[str, Fact]) -> str:
    for path in dict.fromkeys([*now, *made]):
        if made.get(path) != now.get(path):
            return difference(path, made.get(path), now.get(path))
    return ""


def checker(checks: Sequence[Check]) -> Callable[[], bool]:
    """One function without loops for all conditions: some 20 ns for each."""
    objects: dict[str, Any] = {}
    numbers: dict[int, str] = {}

    def named(thing: Any) -> str:
        name = numbers.setdefault(id(thing), f"n{len(numbers)}")
        objects[name] = thing
        return name

    texts = dict.fromkeys(check.text.format(*map(named, check.objects)) for check in checks)
    lines = [f"            {text}" for text in texts] or ["            True"]
    text = "\n".join(
        [
            "def same():",
            "    try:",
            "        return (",
            " and\n".join(lines),
            "        )",
            "    except (LookupError, AttributeError, TypeError, ValueError, RuntimeError):",
            "        return False",
        ]
    )
    exec(compile(text, "<watch>", "exec", dont_inherit=True), objects)
    same: Callable[[], bool] = objects["same"]
    return same
