"""What to do next: ``decide(tree, policy)`` returns commands. Pure: events in, commands out."""

from workbench.search.commands import (
    Abandon,
    AskPerson,
    Command,
    EndRound,
    Evaluate,
    Propose,
    Reflect,
    Repair,
    StartRound,
    Stop,
    Synthesize,
)
from workbench.search.decide import decide, repair_id
from workbench.search.plan import admit, budget_left, failing_children, plan_round

__all__ = [
    "Abandon",
    "AskPerson",
    "Command",
    "EndRound",
    "Evaluate",
    "Propose",
    "Reflect",
    "Repair",
    "StartRound",
    "Stop",
    "Synthesize",
    "admit",
    "budget_left",
    "decide",
    "failing_children",
    "plan_round",
    "repair_id",
]
