"""The sentences for what a verification or a replay found."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from watchkeeper.projections.figures import count


@unique
class Kind(StrEnum):
    """What was found. `verify` reports it as broken, as unchecked, or as a note."""

    UNREADABLE = "unreadable"
    EFFECTS_UNREADABLE = "effects_unreadable"
    SHARED_UNREADABLE = "shared_unreadable"
    ROW_WITHOUT_HISTORY = "row_without_history"
    ROW_MISSING = "row_missing"
    ROW_DIFFERS = "row_differs"
    ROW_KEEPS_CHANGING = "row_keeps_changing"
    NO_EVIDENCE = "no_evidence"
    REMOTE_SILENT = "remote_silent"
    LOGBOOK_MISSING = "logbook_missing"
    LOGBOOK_EDITED = "logbook_edited"
    NO_HEAD = "no_head"
    REMOTE_AHEAD = "remote_ahead"
    OTHER_EVENT = "other_event"
    TAG_MOVED = "tag_moved"
    TAG_UNREADABLE = "tag_unreadable"
    EVIDENCE_CHANGED = "evidence_changed"
    VIEW_OTHER_RELEASE = "view_other_release"
    VIEW_AHEAD = "view_ahead"
    VIEW_NOT_FOLDED = "view_not_folded"
    VIEW_DIFFERS = "view_differs"
    STORE = "store"
    DECISION_DIFFERS = "decision_differs"
    DECISION_WORDED_OTHERWISE = "decision_worded_otherwise"
    LOGBOOK_DIFFERS = "logbook_differs"
    FIELDS_DIFFER = "fields_differ"


@dataclass(frozen=True, slots=True)
class Problem:
    """One result of a verification or a replay.

    Attributes:
        kind: What was found.
        run: The run that it is about; empty if it is about none.
        event: The event that it is about; 0 if it is about none.
        what: The name of the row, tag, view, commit or file.
        detail: The words of an error, or the values that differ.
        number: How many rows differ.
    """

    kind: Kind
    run: str = ""
    event: int = 0
    what: str = ""
    detail: str = ""
    number: int = 0


WORDS: Mapping[Kind, str] = {
    Kind.UNREADABLE: "{run}: unreadable after event {event}: {detail}",
    Kind.EFFECTS_UNREADABLE: "{run}: its effects are unreadable: {detail}",
    Kind.SHARED_UNREADABLE: "{what}: unreadable: {detail}",
    Kind.ROW_WITHOUT_HISTORY: "{run}: a status row without a history",
    Kind.ROW_MISSING: "{run}: the {what} row of status is missing: `watchkeeper ledger rebuild "
    "status`",
    Kind.ROW_DIFFERS: "{run}: the {what} row of status differs from the history",
    Kind.ROW_KEEPS_CHANGING: "{run}: its status rows could not be compared, because new events "
    "kept arriving",
    Kind.NO_EVIDENCE: "{run}: decision {event} cites no evidence",
    Kind.REMOTE_SILENT: "{run}: its remote does not answer: {detail}",
    Kind.LOGBOOK_MISSING: "{run}: its logbook was pushed and is not on the remote",
    Kind.LOGBOOK_EDITED: "{run}: the logbook on the remote was edited",
    Kind.NO_HEAD: "{run}: commit {what} names no readable head",
    Kind.REMOTE_AHEAD: "{run}: the remote witnessed event {event}, the ledger ends at {detail}",
    Kind.OTHER_EVENT: "{run}: event {event} is not the one the remote witnessed",
    Kind.TAG_MOVED: "{run}: tag {what} is not on the sealed commit",
    Kind.TAG_UNREADABLE: "{run}: tag {what} cannot be read: {detail}",
    Kind.EVIDENCE_CHANGED: "evidence {what} does not have its digest",
    Kind.VIEW_OTHER_RELEASE: "view {what} is from another release and was not compared",
    Kind.VIEW_AHEAD: "view {detail}",
    Kind.VIEW_NOT_FOLDED: "view {what}: event {event} of {run} cannot be folded, and is not "
    "parked: {detail}: `watchkeeper ledger rebuild {view}`",
    Kind.VIEW_DIFFERS: "view {what}: {rows} from the ledger at event {event}, first {detail!r}: "
    "`watchkeeper ledger rebuild {view}`",
    Kind.STORE: "{detail}",
    Kind.DECISION_DIFFERS: "the check was followed by {what}, today by {detail}",
    Kind.DECISION_WORDED_OTHERWISE: "the check was followed by {detail}, today with other words "
    "or numbers",
    Kind.LOGBOOK_DIFFERS: "the logbook pushed at event {event} would be rendered differently today",
    Kind.FIELDS_DIFFER: "its {what} row of status differs in {detail}",
}


def sentence_of(problem: Problem) -> str:
    """Return what was found, as one sentence with its next command where there is one."""
    return WORDS[problem.kind].format(
        run=problem.run,
        event=problem.event,
        what=problem.what,
        detail=problem.detail,
        rows=f"{count(problem.number, 'row')} {'differs' if problem.number == 1 else 'differ'}",
        view=problem.what.partition("@")[0],
    )
