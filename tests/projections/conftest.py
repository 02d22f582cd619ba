"""Makes `tests.domain` and `tests.projections` importable, from the root of the project."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).parents[2])
if _ROOT not in sys.path:
    sys.path.append(_ROOT)
