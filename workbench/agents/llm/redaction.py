"""Keys and home folders leave neither for the server nor for the journal.

Owns the replacement of what must not be told. What is sent is what is recorded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

_SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_SECRET_LENGTH = 8
"""Shorter values of such variables are words that a text may hold by chance."""
_LOOKS_SECRET = re.compile(r"\b(?:sk|pk|gsk|hf|ghp|xoxb)[-_][A-Za-z0-9_-]{16,}|(?<=Bearer )[\w.~+/-]{8,}=*")
_OTHER_HOMES = re.compile(r"(?<![\w.])(?:/home/|/Users/|[A-Za-z]:\\Users\\)[^/\\\s\"'`:]+")
REDACTED = "[redacted]"


class Redactor:
    """Takes secrets out of texts. Made once: reads the environment and the home folder."""

    def __init__(self, key: str = "", environment: Mapping[str, str] | None = None) -> None:
        known = os.environ if environment is None else environment
        secrets = {v.strip() for name, v in known.items() if _SECRET_NAME.search(name)} | {key.strip()}
        # Longest first: a secret may contain another.
        self._secrets = sorted((s for s in secrets if len(s) >= _SECRET_LENGTH), key=len, reverse=True)
        home = known.get("HOME", "") or str(Path.home())
        told = home.count("/") + home.count("\\") >= 2 or len(home) > 4
        self._home = re.compile(re.escape(home) + r"(?![\w.-])") if told else None

    def __call__(self, text: str) -> str:
        """The text without keys, and with ``~`` for home folders."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        text = _LOOKS_SECRET.sub(REDACTED, text)
        if self._home is not None:
            text = self._home.sub("~", text)
        return _OTHER_HOMES.sub("~", text)
