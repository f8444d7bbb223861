"""Browser tests show the story of tests/views; on their own they find it only when told where."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "views"))
