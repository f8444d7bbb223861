"""What a card is called on a page and in a file's name, from the name its driver gives."""

from __future__ import annotations

VENDOR = "NVIDIA"


def short(card: str) -> str:
    """``H100`` for ``NVIDIA H100 80GB HBM3``: without the vendor, up to the first word with a digit."""
    words = card.split()
    if len(words) > 1 and words[0] == VENDOR:
        words = words[1:]
    last = next((place for place, word in enumerate(words) if any(map(str.isdigit, word))), len(words))
    return " ".join(words[: last + 1])


def slug(card: str) -> str:
    """``h100``; ``gpu`` for a card without a name."""
    return short(card).lower().replace(" ", "-") or "gpu"
