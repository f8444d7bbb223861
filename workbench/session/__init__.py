"""The one object that changes, and the folder it lives in.

FOLDER/journal.jsonl    one event a line: the session itself
FOLDER/lock             who has it open
FOLDER/problem.json     derived: the problem
FOLDER/branches/ID.cu   derived: every kernel
"""

from workbench.session.session import (
    Listener,
    Session,
    check_free,
    folded,
    has_session,
    opening,
    read_tree,
)

__all__ = ["Listener", "Session", "check_free", "folded", "has_session", "opening", "read_tree"]
