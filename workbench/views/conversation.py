"""Who said what to whom about a branch: exchanges with language models as rows and as text.

Asks each exchange for its texts, which come from the journal's file, and holds none. Everything in them was
written by strangers: rows are plain text for a view that escapes.
"""

from __future__ import annotations

from typing import Any

from workbench.errors import SessionError
from workbench.exchange import Exchange, Texts
from workbench.model import BranchId
from workbench.tree import Tree
from workbench.views.spending import money_text

Json = dict[str, Any]
ORDER = ("reasoner", "synthesizer", "compiler", "correctness", "reflection")


def exchanges_of(tree: Tree, branch: BranchId) -> list[Exchange]:
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


def _order(exchange: Exchange) -> tuple[int, int]:
    place = ORDER.index(exchange.role) if exchange.role in ORDER else len(ORDER)
    return place, int(exchange.id.rpartition("/")[2])


def texts_of(exchange: Exchange) -> Texts:
    """What was said; where it cannot be read any more, the reason in the answer's place."""
    try:
        return exchange.texts()
    except SessionError as error:
        return Texts((), f"({error})")


def texts_json(exchange: Exchange) -> Json:
    """``messages`` and ``answer`` for a view."""
    texts = texts_of(exchange)
    said = [{"role": one.role, "text": one.text} for one in texts.messages]
    return {"messages": said, "answer": texts.answer}


def exchange_words(exchange: Exchange) -> str:
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
        texts = texts_of(exchange)
        if prompts:
            parts += [f"--- {said.role}\n{said.text.rstrip()}" for said in texts.messages]
        parts.append(f"--- {exchange.model}\n{texts.answer.rstrip() or '(nothing)'}")
    return "\n".join(parts) or f"No language model had a part in {branch}."
