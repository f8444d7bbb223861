"""No test reads or writes the archive of the person who runs it; tests of the archive name a folder."""

import os

os.environ["WORKBENCH_ARCHIVE"] = "off"
