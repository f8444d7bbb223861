"""What language models have cost so far, in numbers and in a line. Pure."""

from __future__ import annotations

from typing import Any

from workbench.tree import Tree
from workbench.views.phrases import plural

Json = dict[str, Any]


def spent_json(tree: Tree) -> Json:
    """The meter: calls, tokens, money, the caps, and all of it in words."""
    spent, policy = tree.spent, tree.opened.policy if tree.opened else None
    return {
        "calls": spent.calls,
        "tokens_in": spent.tokens_in,
        "tokens_out": spent.tokens_out,
        "money_usd": round(spent.money_usd, 6),
        "unpriced_calls": spent.unpriced,
        "seconds": round(spent.seconds, 1),
        "cap_tokens": policy.tokens if policy else 0,
        "cap_money_usd": policy.money_usd if policy else 0.0,
        "estimate": tree.opened.estimate if tree.opened else "",
        "words": spent_words(tree),
    }


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
