"""Writes the page of rules and tests; `--check` says if it is up to date.

    uv run python -m scripts.generate_rule_tests [--check]

It is run as a module, since it reads the tests' own tables.
"""

import argparse
import sys
from pathlib import Path

from tests.domain.rule_page import page

PAGE = Path(__file__).resolve().parent.parent / "docs" / "maintainers" / "rule-tests.md"


def main() -> int:
    """Write the page, or say that it is out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    options = parser.parse_args()
    wanted = page()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == wanted:
        return 0
    if options.check:
        print(f"{PAGE}: run `uv run python -m scripts.generate_rule_tests`")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
