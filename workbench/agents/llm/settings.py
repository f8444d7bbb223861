"""Where the models are and how patient we are: read from the environment once, then frozen.

The key is kept out of ``repr``, journal and messages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from workbench.errors import UsageError

Role = Literal["reasoner", "synthesizer", "compiler", "correctness", "reflection"]
DEFAULT_URL = "https://api.openai.com/v1"
_WITHOUT = "`--brain playbook` works without any of this."
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")


@dataclass(frozen=True)
class Patience:
    """Limits of one call, seconds unless said otherwise."""

    connect_s: float = 10.0
    stall_s: float = 120.0
    """Longest silence, before the first word and between two."""
    call_s: float = 600.0
    tries: int = 4
    """Tries of a call that fails for a passing reason."""
    first_wait_s: float = 1.0
    """Before the second try; doubled after each, times a random share."""
    longest_wait_s: float = 60.0
    """A server that asks for a longer pause has failed."""
    corrections: int = 1
    """Times a model is told that its answer could not be read."""
    report_s: float = 0.5
    """Between two reports of an answer that is coming in."""


AT_HOME = Patience(stall_s=600.0, call_s=3600.0)
"""For a server on this machine: without a GPU it may read a prompt for minutes before its first word."""


@dataclass(frozen=True)
class Settings:
    """A server, a key and a model for every role."""

    base_url: str
    key: str = field(repr=False)
    models: Mapping[str, str]
    """By role."""
    parallel: int = 4
    """Calls in flight at once."""
    max_tokens: int = 16_000
    """Most tokens of one answer, thinking included."""
    prices: tuple[float, float] | None = None
    """US dollars a million tokens, in and out, for every model; None: the table."""
    patience: Patience = Patience()
    key_variable: str = "OPENAI_API_KEY"
    """Where the key is from, for messages."""

    @property
    def host(self) -> str:
        """The server's host and port, for messages."""
        return urlsplit(self.base_url).netloc or self.base_url

    @property
    def is_local(self) -> bool:
        """True for a server on this machine: it may need no key and costs nothing."""
        return is_local(self.base_url)


@dataclass(frozen=True)
class Choice:
    """What a person set beside the environment; empty and None mean not set."""

    model: str = ""
    base_url: str = ""
    key_variable: str = "OPENAI_API_KEY"
    prices: str = ""
    """``IN/OUT`` in US dollars a million tokens."""
    patience: Patience | None = None


def read_settings(
    models: Mapping[str, str], choice: Choice = Choice(), environment: Mapping[str, str] | None = None
) -> Settings:
    """Settings for these roles, each with its model or "" for the common one.

    Raises ``UsageError`` for a missing key or model, in one line that says what to set.
    """
    known = os.environ if environment is None else environment
    base_url = choice.base_url or known.get("OPENAI_BASE_URL", "") or DEFAULT_URL
    if urlsplit(base_url).scheme not in ("http", "https"):
        raise UsageError(f"the address {base_url!r} of the model server must begin with http:// or https://")
    key = known.get(choice.key_variable, "").strip()
    if not key and not is_local(base_url):
        raise UsageError(
            f"a language model needs a key: set {choice.key_variable} (and OPENAI_BASE_URL for another "
            f"server than OpenAI's). {_WITHOUT}"
        )
    common = choice.model or known.get("WORKBENCH_MODEL", "")
    if not common and not all(models.values()):
        raise UsageError(f"which model? Set WORKBENCH_MODEL, or write --brain llm:NAME. {_WITHOUT}")
    prices = choice.prices or known.get("WORKBENCH_PRICES", "")
    return Settings(
        base_url=base_url,
        key=key or "none",
        models={role: model or common for role, model in models.items()},
        parallel=_whole(known, "WORKBENCH_PARALLEL", 4),
        max_tokens=_whole(known, "WORKBENCH_MAX_TOKENS", 16_000),
        prices=_prices(prices),
        patience=choice.patience or (AT_HOME if is_local(base_url) else Patience()),
        key_variable=choice.key_variable,
    )


def is_local(base_url: str) -> bool:
    """True when the address is this machine's own."""
    try:
        return urlsplit(base_url).hostname in _LOOPBACK
    except ValueError:
        return False


def _whole(known: Mapping[str, str], name: str, default: int) -> int:
    text = known.get(name, "").strip()
    if not text:
        return default
    if not text.isdigit() or int(text) < 1:
        raise UsageError(f"{name} is {text!r}; it must be a whole number of at least 1")
    return int(text)


def _prices(text: str) -> tuple[float, float] | None:
    if not text:
        return None
    try:
        into, out = (float(part) for part in text.split("/"))
        if into < 0 or out < 0:
            raise ValueError
    except ValueError:
        raise UsageError(
            f"prices are US dollars a million tokens, in and out, such as 0.25/2, not {text!r}"
        ) from None
    return into, out
