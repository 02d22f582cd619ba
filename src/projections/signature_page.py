"""The reference of the signatures, as people read it."""

from collections.abc import Iterable

from watchkeeper.domain.triage.signatures import CAUSES, GUARDS, MARKS
from watchkeeper.domain.triage.signatures.model import OUTLOOKS, Label, Scope, Signature, outlook_of


def signature_page(generated: str) -> str:
    """Return the page of every signature of a failure, and of what is harmless.

    Args:
        generated: The sentence that says by what the page is written.
    """
    answers = [one for one in CAUSES if one.scope is Scope.TEXT]
    parts = [
        "# Signatures\n",
        generated,
        "What [triage](../triage.md) knows. A signature's rank says how close to the root its "
        "message stands, its scope how far its word goes; the outlook is a claim apart from the "
        "class. Its pattern stands beside it in `src/domain/triage/signatures`: MkDocs takes what "
        "looks behind (`(?<` and an exclamation mark) for a declaration of HTML.\n",
    ]
    for label in Label:
        known = [one for one in (*CAUSES, *MARKS) if one.label is label and one not in answers]
        if known:
            parts += [f"## {label.value}\n", f"Outlook: `{OUTLOOKS[label].value}`.\n"]
            parts += _signature_rows(known)
    parts += ["## Harmless\n", "Taken out before a line is read, or dismissing the line.\n"]
    parts += _signature_rows(GUARDS)
    parts += ["## Answered\n", "A later line that answers earlier ones.\n"]
    return "\n".join(parts + _signature_rows(answers))


def _signature_rows(signatures: Iterable[Signature]) -> list[str]:
    rows = [
        f"| `{one.id}` | {one.rank.name.lower()} | {one.scope.value} | {outlook_of(one).value} "
        f"| {_cell(one.example)} | {_cell(one.counter_example)} | {one.source} |"
        for one in signatures
    ]
    head = "| signature | rank | scope | outlook | such as | but not | from |"
    head += "\n|---|---|---|---|---|---|---|"
    return [head, *rows, ""]


def _cell(line: str) -> str:
    shown = line.strip().replace("|", "\\|")
    # A backtick in the line would end the code.
    return f"`` {shown} ``"
