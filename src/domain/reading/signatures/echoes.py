"""Source code lines that a traceback repeats: they do not show what failed.

`wandb.log({"s": smaple})` below a traceback frame only repeats the source code. It does not show a
failure of wandb.
"""

import re
from collections.abc import Sequence

from watchkeeper.domain.reading.signatures.prefixes import bare

_FRAME = re.compile(r"^\s*(?:[|+ ]*)File \"[^\"]+\", line \d+|^\s+\.\.\. *$")
_CODE_INDENT = 2
"""Extra indentation of source code below its frame."""


def may_be_frame(line: str) -> bool:
    """Return whether a line has the text that `is_frame` needs."""
    return 'File "' in line or "..." in line


def is_frame(line: str) -> bool:
    """Return whether a line is a frame of a traceback, after any prefix."""
    if not may_be_frame(line):
        return False
    return _FRAME.match(line) is not None or _FRAME.match(bare(line)) is not None


def may_be_echo(line: str) -> bool:
    """Return whether a line is indented like source code below a frame."""
    return "  " in line and _indent(line) >= _CODE_INDENT


def is_echo(line: str, above: str) -> bool:
    """Return whether a line is source code below the frame `above`.

    An error directly below a frame has the frame's own indentation, so it is not source code.
    """
    if not is_frame(above) or is_frame(line):
        return False
    return _indent(line) >= _CODE_INDENT and _indent(line) > _indent(above)


def frame_above(line: str, before: Sequence[str]) -> str:
    """Return the frame above a line; empty if a line between is indented less.

    The source code of one frame may have several lines, each followed by a line of carets.

    Args:
        line: A line that `may_be_echo`.
        before: The lines before it, oldest first.
    """
    least = _indent(line)
    for above in reversed(before):
        indent = _indent(above)
        if is_frame(above):
            return above if indent < least else ""
        least = min(least, indent)
        if least < _CODE_INDENT:
            break
    return ""


def _indent(line: str) -> int:
    code = bare(line)
    return len(code) - len(code.lstrip())
