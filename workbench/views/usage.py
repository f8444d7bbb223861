"""What the GPU is doing now, in a line for the panel. Not part of the tree: nothing follows from it."""

from __future__ import annotations

from typing import Any

from workbench.devices.usage import Usage
from workbench.views.phrases import plural

Json = dict[str, Any]


def usage_json(usage: Usage) -> Json:
    """``words`` and a tone: ``busy`` while somebody wants the card."""
    parts = [f"GPU {usage.index}, {usage.card or 'being opened'}: {_doing(usage)}"]
    if usage.used_bytes is not None and usage.total_bytes:
        parts.append(f"{usage.used_bytes / 1e9:.1f} of {usage.total_bytes / 1e9:.0f} GB in use")
    if usage.busy_percent is not None:
        parts.append(f"busy {usage.busy_percent}% of the time")
    wanted = usage.in_hand or usage.baselines_left
    return {"words": " · ".join(parts), "tone": "busy" if wanted else "quiet"}


def _doing(usage: Usage) -> str:
    if usage.in_hand:
        return f"{usage.in_hand} in hand"
    if usage.baselines_left:
        return f"timing slow baselines, {plural(usage.baselines_left, 'case')} left"
    return "idle"
