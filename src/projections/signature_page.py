"""The reference page of the error signatures."""

import re
from collections.abc import Sequence

from watchkeeper.domain.reading.signatures import causes, guards, marks
from watchkeeper.domain.reading.signatures.model import (
    OUTLOOKS,
    Label,
    Scope,
    Signature,
    outlook_of,
)

_BACKTICKS = re.compile(r"`+")


def signature_page(generated: str) -> str:
    """Return the page of all signatures, of failures and of harmless lines.

    Args:
        generated: The sentence that names the generator of the page.
    """
    answers = [one for one in causes() if one.scope is Scope.TEXT]
    parts = [
        "# Signatures\n",
        generated,
        "What [triage](../how-to/triage.md) knows. A signature's rank shows how close its message "
        "is to the root, its scope how far it applies. The outlook is a separate claim from "
        "the class. The patterns follow each table: Python regular expressions, searched in "
        "one line, case-insensitive.\n",
    ]
    for label in Label:
        known = [one for one in (*causes(), *marks()) if one.label is label and one not in answers]
        if known:
            parts += [f"## {label.value}\n", f"Outlook: `{OUTLOOKS[label].value}`.\n"]
            parts += _signature_rows(known)
    parts += ["## Harmless\n", "Taken out before a line is read, or dismissing the line.\n"]
    parts += _signature_rows(guards())
    parts += ["## Answered\n", "A later line that answers earlier ones.\n"]
    return "\n".join(parts + _signature_rows(answers))


def _signature_rows(signatures: Sequence[Signature]) -> list[str]:
    rows = [
        f"| `{one.id}` | {one.rank.name.lower()} | {one.scope.value} | {outlook_of(one).value} "
        f"| {_cell(one.example)} | {_cell(one.counter_example)} | {one.source} |"
        for one in signatures
    ]
    head = "| signature | rank | scope | outlook | such as | but not | from |"
    head += "\n|---|---|---|---|---|---|---|"
    return [head, *rows, "", *_patterns(signatures)]


def _patterns(signatures: Sequence[Signature]) -> list[str]:
    """Write the patterns in a fence: in a table cell `(?<!` would start an HTML declaration."""
    lines = [line for one in signatures for line in (one.id, f"    {one.pattern}")]
    longest = max((len(run) for line in lines for run in _BACKTICKS.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", *lines, fence, ""]


def _cell(line: str) -> str:
    shown = line.strip().replace("|", "\\|")
    # A backtick in the line would end the code.
    return f"`` {shown} ``"
