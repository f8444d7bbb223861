"""Who said what to whom about a branch: exchanges with language models as rows and as text. Pure.

Everything in it was written by strangers: rows are plain text for a view that escapes.
"""

from __future__ import annotations

from typing import Any

from workbench.events import ModelAnswered
from workbench.model import BranchId
from workbench.tree import Tree
from workbench.views.spending import money_text

Json = dict[str, Any]
ORDER = ("reasoner", "synthesizer", "compiler", "correctness", "reflection")


def conversation(tree: Tree, branch: BranchId) -> list[Json]:
    """The exchanges that led to a branch and followed it, in the order of the work.

    Empty for a branch that no model had a part in. Raises ``SessionError`` for an unknown id.
    """
    return [exchange_json(exchange) for exchange in exchanges_of(tree, branch)]


def exchanges_of(tree: Tree, branch: BranchId) -> list[ModelAnswered]:
    """Exchanges about a branch: the reasoner's request that it came from, then its own."""
    node = tree.node(branch)
    origin = tree.nodes[tree.chain(branch)[0]].branch
    place = (origin.round, origin.operator, origin.parents)
    found = []
    for exchange in tree.exchanges.values():
        asked = exchange.role == "reasoner" and (exchange.round, exchange.operator, exchange.parents) == place
        if exchange.branch == branch or (asked and node.operator != "edit"):
            found.append(exchange)
    return sorted(found, key=_order)


def _order(exchange: ModelAnswered) -> tuple[int, int]:
    place = ORDER.index(exchange.role) if exchange.role in ORDER else len(ORDER)
    return place, int(exchange.id.rpartition("/")[2])


def exchange_json(exchange: ModelAnswered) -> Json:
    """One exchange: who, what was sent, what came, what it cost."""
    return {
        "id": exchange.id,
        "role": exchange.role,
        "model": exchange.model,
        "prompt": exchange.prompt,
        "messages": [{"role": said.role, "text": said.text} for said in exchange.messages],
        "answer": exchange.answer,
        "tokens_in": exchange.tokens_in,
        "tokens_out": exchange.tokens_out,
        "seconds": exchange.seconds,
        "tries": list(exchange.tries),
        "failed": exchange.failed,
        "cached": exchange.cached,
        "words": exchange_words(exchange),
    }


def exchange_words(exchange: ModelAnswered) -> str:
    """``synthesizer, gpt-5-mini: 3,120 tokens in, 890 out, 12.4 s, $0.0026``."""
    who = f"{exchange.role}, {exchange.model}"
    if exchange.cached:
        then = f"{exchange.tokens_in:,} tokens in, {exchange.tokens_out:,} out when it was asked"
        return f"{who}: nobody was asked, the answer is recorded ({then})"
    about = "about " if exchange.counted == "estimate" else ""
    parts = [
        f"{about}{exchange.tokens_in:,} tokens in",
        f"{exchange.tokens_out:,} out",
        f"{exchange.seconds:.1f} s",
    ]
    if exchange.cost_usd is None:
        parts.append("price unknown")
    elif exchange.cost_usd:
        parts.append(money_text(exchange.cost_usd))
    failed = f"; failed: {exchange.failed}" if exchange.failed else ""
    return f"{who}: {', '.join(parts)}{failed}"


def conversation_text(tree: Tree, branch: BranchId, prompts: bool = True) -> str:
    """The conversation about a branch for a terminal; without ``prompts`` only the answers."""
    parts = []
    for exchange in exchanges_of(tree, branch):
        parts.append(f"=== {exchange.id} ({exchange.prompt})\n    {exchange_words(exchange)}")
        parts += [f"    tried: {line}" for line in exchange.tries]
        if prompts:
            parts += [f"--- {said.role}\n{said.text.rstrip()}" for said in exchange.messages]
        parts.append(f"--- {exchange.model}\n{exchange.answer.rstrip() or '(nothing)'}")
    return "\n".join(parts) or f"No language model had a part in {branch}."
