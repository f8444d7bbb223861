"""The texts of exchanges, read back from the journal that they were written to.

Owns the reading of one line at a known place. Keeps nothing: a conversation is looked at seldom.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from workbench.errors import SessionError
from workbench.events import Said
from workbench.exchange import Texts


@dataclass(frozen=True, slots=True)
class JournalTexts:
    """A journal's file as the source of the texts in it; a place is the first byte of an event's line."""

    path: Path

    def texts(self, at: int) -> Texts:
        """Texts of the exchange whose line begins at this byte. Raises ``SessionError``."""
        try:
            with self.path.open("rb") as file:
                file.seek(at)
                row = json.loads(file.readline())
            said = tuple(Said(role=one["role"], text=one["text"]) for one in row["messages"])
            return Texts(said, str(row["answer"]))
        except (OSError, ValueError, LookupError, TypeError, ValidationError) as error:
            why = (isinstance(error, OSError) and error.strerror) or "the file has changed"
            raise SessionError(f"cannot read what was said from {self.path}: {why}") from error
