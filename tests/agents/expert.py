"""A scripted expert behind the model server: answers for every role, for the null device by default."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

from model_server import Json, Turn, asked_for

Answers = dict[str, Callable[[Json], object]]


def card(title: str, technique: str = "", value: str = "on", **fields: Any) -> Json:
    """A hypothesis as a model writes it."""
    changes = [{"technique": technique or title.replace(" ", "_"), "value": value}]
    return {
        "title": title,
        "bottleneck": "memory",
        "cause": "bytes are moved twice",
        "evidence": ["share of speed of light: 40%"],
        "fix": title,
        "changes": changes,
        "predicted_factor": 1.5,
        "risk": "registers",
        **fields,
    }


def idea(name: str, techniques: int) -> Json:
    """A card whose technique is the idea itself, or one of so many, by the idea's number."""
    number = int(name.rpartition(" ")[2]) if techniques else 0
    return card(name, f"technique_{number % techniques}", f"v{number}") if techniques else card(name)


def kernel(source: str, name: str = "kernel") -> Json:
    """A kernel as a model writes it."""
    return {"name": name, "description": f"{name}, described", "source": source}


def repair(source: str) -> Json:
    """A repair as a model writes it."""
    return {"issue": "a slip", "why": "it does not hold", "fix": "the slip is mended", "source": source}


def prattle(length: int) -> str:
    """Text of this length that never comes back to what it said."""
    return " ".join(map(str, range(length)))[:length]


def expert(
    kernels: Iterable[str] | None = None,
    repairs: Iterable[str] = (),
    ideas: Iterable[str] | None = None,
    techniques: int = 0,
) -> Callable[[Json], Turn]:
    """Cards without end, kernels and repairs one after another; by default every kernel is faster.

    Each idea is a technique of its own, so that vectors grow from generation to generation, or another value
    of one of so many ``techniques``.
    """
    sources = (
        iter(kernels) if kernels is not None else (f"// null: passed {90 / n}" for n in itertools.count(1))
    )
    mended = iter(repairs)
    names = iter(ideas) if ideas is not None else (f"idea {n}" for n in itertools.count(1))

    def answer(body: Json) -> Turn:
        match asked_for(body):
            case "Cards":
                three = itertools.islice(names, 3)
                said: object = {"cards": [idea(name, techniques) for name in three]}
            case "KernelAnswer":
                said = kernel(next(sources))
            case "RepairAnswer":
                said = repair(next(mended))
            case _:
                said = {"diagnosis_right": True, "fix_effective": True, "lesson": "It helped by half."}
        return Turn(json.dumps(said))

    return answer
