"""The shape of the rows that `status` reads: plain JSON, one for each run and its effects.

Standard library only, so that reading them needs neither event models nor any client. Times are
ISO 8601 in UTC. What depends on the time of reading, such as a stale watch, is not in them.
"""

from typing import NotRequired, TypedDict

SHAPE = "status@1"
"""Written into each row. One of another shape is named, not guessed at; it is disposable."""


BUFFERED_STATE = "unavailable (buffered)"
"""A source that keeps what it has until the run ends, as an offline tracker does."""

SETTLED = ("fresh", BUFFERED_STATE)
"""States of sources that are as they should be."""


class QuestionRow(TypedDict):
    """An open question to the DRI.

    Attributes:
        asks: What it asks; only what it was about once events answered it.
        answered: What became of it and what runs now, such as `i1 ended; i2 trains`; absent while
            nothing but a human answers it.
        cleared: When its finding was cleared; absent while that is open, or where it is about none.
    """

    name: str
    rule: str
    asks: str
    since: str
    answered: NotRequired[str]
    cleared: NotRequired[str]


class FindingRow(TypedDict):
    """An open finding.

    Attributes:
        acknowledged: The question about it that a human took; absent while none was.
    """

    kind: str
    rule: str
    severity: str
    summary: str
    acknowledged: NotRequired[str]


class DecisionRow(TypedDict):
    """What was decided about the newest end."""

    action: str
    rule: str
    because: str


class ProposalRow(TypedDict):
    """A guarded action that waits for a human's consent."""

    name: str
    action: str
    target: str
    reason: str
    by: str
    since: str


class PermissionRow(TypedDict):
    """A consent or a waiver that holds until it ends or is used.

    Attributes:
        kind: `consent` or `waiver`.
        until: When it ends; none when it does not.
    """

    name: str
    kind: str
    what: str
    by: str
    until: str | None


class RollbackRow(TypedDict):
    """A rollback that waits for its approval."""

    plan: str
    step: int


class KeeperRow(TypedDict):
    """How often the keeper judged a run, and how often it was wrong; lower bounds.

    Attributes:
        causes: Failures for which it named a cause, and how many were revised to another.
        restarts: Relaunches by a rule, and how many failed again in the same way.
        alarms: Ends that a finding should have come before, and before how many none did.
        pages: Questions asked, and how many were needless.
    """

    causes: list[int]
    restarts: list[int]
    alarms: list[int]
    pages: list[int]


class RunRow(TypedDict):
    """A run at its newest event. What is not required is left out where there is nothing to say.

    Attributes:
        phase: Its name, or `unreadable`.
        since: When the phase began, as far as the run knows.
        zone: The contract's time zone.
        progress: As people report it, such as `~1860/2384`; empty before the first step.
        checkpoint: The newest that may be resumed from; empty while there is none.
        sources: Each source's state at the newest check; `SETTLED` ones need nobody.
        due: Since when, or from when, the watch has something to do; none when it has not.
        cadence_s: Seconds between checks.
        declined: No watch is arranged, by the contract.
        approval: The plan that waits for a human's approval; empty for none.
        blocked: What the launch rules block, each with its rule.
        seal_missing: What the last try to seal lacked.
        reason: Why it was stopped or abandoned.
        unreadable: Why its history cannot be read; empty when it can.
        proposals: Guarded actions that wait for a human; absent when none does.
        permissions: Consents not used and waivers not revoked; absent when there is none.
        kept_for: The principal that the watch was handed to and that has not taken it yet.
        watch_ended: Why the watch ended for good.
        declined_because: The contract's reason for which nobody watches.
        planned: Announced acts that are not over, each in a line.
        asked: What a human asked for of the instance: a relaunch or rollback, and why.
        rollback: The rollback that waits for its approval.
        milestones: Tags of verified milestones.
        ancestors: Slugs of the runs that it goes on from, oldest first.
        successor: Slug of the run that goes on from it.
        keeper: The keeper's own errors; absent while it judged nothing.
        resume: What is not proven of a live instance's resume, or that it could not be compared;
            absent where nothing is open.
    """

    shape: str
    run: str
    version: int
    lane: str
    dri: str
    zone: str
    phase: str
    since: str | None
    instance: str
    job: str
    cluster: str
    health: str
    progress: str
    step: int | None
    final_step: int | None
    checkpoint: str
    last_check: str | None
    sources: dict[str, str]
    next_due: str | None
    due: str | None
    cadence_s: float
    declined: bool
    holder: str
    token: int
    lease_until: str | None
    stopping: bool
    relaunches: int
    decision: DecisionRow | None
    questions: list[QuestionRow]
    findings: list[FindingRow]
    approval: str
    blocked: list[str]
    seal_missing: list[str]
    seals_itself: bool
    tag: str
    commit: str
    tracker_id: str
    tracker_url: str
    reason: str
    unreadable: str
    proposals: NotRequired[list[ProposalRow]]
    permissions: NotRequired[list[PermissionRow]]
    kept_for: NotRequired[str]
    watch_ended: NotRequired[str]
    declined_because: NotRequired[str]
    planned: NotRequired[list[str]]
    asked: NotRequired[str]
    rollback: NotRequired[RollbackRow]
    milestones: NotRequired[list[str]]
    ancestors: NotRequired[list[str]]
    successor: NotRequired[str]
    keeper: NotRequired[KeeperRow]
    resume: NotRequired[str]


class FailingRow(TypedDict):
    """An effect that did not get through yet."""

    effect: str
    attempt: int
    reason: str
    retry_at: str


class OutboxRow(TypedDict):
    """How far an effect has come that was tried and is not confirmed.

    Attributes:
        state: `attempted`, `unknown`, `rejected`, or `requested` where nothing was sent.
        key: What the other side can be asked about; empty for an act that sends nothing.
        target: The serial queue that it stands in; empty for an act that sends nothing.
        since: When it was first tried.
    """

    effect: str
    state: str
    key: str
    target: str
    attempt: int
    since: str


class EffectsRow(TypedDict):
    """What became of a run's effects.

    Attributes:
        outbox: What was tried and is not confirmed; absent where there is nothing.
        pushed_version: The newest event in the logbook that the remote holds; 0 before the first.
        tag: The seal tag, once the remote holds it.
    """

    shape: str
    failing: list[FailingRow]
    pushed_commit: str
    pushed_version: int
    tag: str
    outbox: NotRequired[list[OutboxRow]]
