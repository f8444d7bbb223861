"""No test reads or writes the archive of the person who runs it; tests of the archive name a folder.

Judgements have one known seed, so that a test means the same every time; the seeds of the suite of cheats,
which is also run by a command, are fresh there.
"""

import os

os.environ["WORKBENCH_ARCHIVE"] = "off"
os.environ.setdefault("WORKBENCH_SEED", "0")
