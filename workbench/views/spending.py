"""What language models have cost so far, in a line. Pure."""

from __future__ import annotations

from workbench.tree import Tree
from workbench.views.phrases import plural


def spent_words(tree: Tree) -> str:
    """``models: 12 calls, 48,200 tokens in, 9,100 out, $0.21``; a call whose price is unknown is said so."""
    spent = tree.spent
    known = sum(exchange.cached for exchange in tree.exchanges.values())
    tries = [plural(spent.failed_tries, "failed try")] if spent.failed_tries else []
    parts = [
        plural(spent.calls, "call"),
        *tries,
        f"{spent.tokens_in:,} tokens in",
        f"{spent.tokens_out:,} out",
    ]
    if spent.unpriced < spent.calls and spent.money_usd:
        parts.append(money_text(spent.money_usd))
    if spent.unpriced:
        parts.append(
            "price unknown" if spent.unpriced == spent.calls else f"{spent.unpriced} of unknown price"
        )
    if known:
        parts.append(f"{known} answered from the journal")
    return f"models: {', '.join(parts)}"


def money_text(money_usd: float) -> str:
    """``$0.0042``, ``$1.30``: two figures at least."""
    return f"${money_usd:.2f}" if money_usd >= 0.1 else f"${money_usd:.2g}"
