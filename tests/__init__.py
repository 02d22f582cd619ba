"""All tests, which keep compiled modules, as they start Python hundreds of times.

Images for containers often forbid that. Without it a run compiles everything in each worker,
and rewrites the assertions of 300 files there: a minute of processor time.
"""

import os
import sys

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
