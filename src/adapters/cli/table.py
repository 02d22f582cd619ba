"""Plain text tables."""

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table. Columns are as wide as needed, and the last one is not padded.

    >>> table(("name", "why"), [("quarantine-1", "no JSON")])
    ['  name          why', '  quarantine-1  no JSON']
    """
    lines = [tuple(heads), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(heads))]
    return ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in lines]
