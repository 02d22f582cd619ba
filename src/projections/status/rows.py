"""The shape of the rows that `status` reads, as plain JSON.

There is one row for each run and one for its effects. Standard library only, so that reading them
needs neither event models nor any client. Times are ISO 8601 in UTC. Rows hold nothing that depends
on the time of reading, such as a stale watch.
"""

from typing import NotRequired, TypedDict

SHAPE = "status@1"
"""The shape number in each row. A row of another shape is reported, not guessed at. Rows are
disposable."""


BUFFERED_STATE = "unavailable (buffered)"
"""The state of a source that buffers its data until the run ends, such as an offline tracker."""

SETTLED = ("fresh", BUFFERED_STATE)
"""States of healthy sources."""


class QuestionRow(TypedDict):
    """An open question to the DRI.

    Attributes:
        asks: The question; once events answered it, only its subject.
        answered: How events answered it and what runs now, such as `i1 ended; i2 trains`. Absent
            while only a human can answer it.
        cleared: When its finding was cleared; absent while the finding is open, or without a
            finding.
        taken: Who works on it, and since when; absent for nobody.
    """

    name: str
    rule: str
    asks: str
    since: str
    answered: NotRequired[str]
    cleared: NotRequired[str]
    taken: NotRequired[list[str]]


class FindingRow(TypedDict):
    """An open finding.

    Attributes:
        acknowledged: The question about it that a human acknowledged; absent if there is none.
    """

    kind: str
    rule: str
    severity: str
    summary: str
    acknowledged: NotRequired[str]


class DecisionRow(TypedDict):
    """The decision about the newest end."""

    action: str
    rule: str
    because: str


class ProposalRow(TypedDict):
    """A guarded action that needs a human's consent."""

    name: str
    action: str
    target: str
    reason: str
    by: str
    since: str


class PermissionRow(TypedDict):
    """A consent or a waiver that is valid until it expires or is used.

    Attributes:
        kind: `consent` or `waiver`.
        until: When it expires; None if it does not.
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


class MonitorAccuracyRow(TypedDict):
    """How often the monitor judged a run, and how often it was wrong; lower bounds.

    Attributes:
        causes: Failures with a named cause, and how many were revised to another cause.
        restarts: Relaunches by a rule, and how many failed again the same way.
        alarms: Ends that a finding should have preceded, and how many had no finding.
        pages: Questions asked, and how many were unnecessary.
    """

    causes: list[int]
    restarts: list[int]
    alarms: list[int]
    pages: list[int]


class RunRow(TypedDict):
    """A run at its newest event. Optional fields are left out if they are empty.

    Attributes:
        phase: Its name, or `unreadable`.
        since: When the phase began, as far as the run knows.
        zone: The contract's time zone.
        progress: The progress for display, such as `~1860/2384`; empty before the first step.
        checkpoint: The newest checkpoint to resume from; empty if there is none.
        sources: Each source's state at the newest check; `SETTLED` states need no attention.
        due: When the watch's next act is or was due; None if nothing is due.
        cadence_s: Seconds between checks.
        declined: Whether the contract declines a watch.
        approval: The plan that waits for a human's approval; else empty.
        blocked: The launch blocks, each with its rule.
        seal_missing: Facts that the last attempt to seal lacked.
        reason: Why it was stopped or abandoned.
        unreadable: Why its history cannot be read; empty when it can.
        proposals: Guarded actions that wait for a human; absent if there are none.
        permissions: Unused consents and unrevoked waivers; absent if there are none.
        kept_for: The principal that the watch was handed to, until they take it.
        watch_ended: Why the watch ended for good.
        declined_because: The contract's reason to decline a watch.
        planned: Announced acts that are not over, one line each.
        asked: A human's request for the instance: a relaunch or rollback, and why.
        rollback: The rollback that waits for its approval.
        milestones: Tags of verified milestones.
        ancestors: Slugs of the runs that it continues, oldest first.
        successor: Slug of the run that continues it.
        seal_waivable: Names of the missing facts, if a human may waive all of them.
        eta: When it is expected to reach its final step: expected, earliest, latest (empty if
            unknown); absent without a pace.
        loss: The loss at the newest check; absent without one.
        tokens_s: Its tokens per second; absent without them.
        error: The newest error line of the job's log; absent without one.
        failed: How the newest instance ended, while nothing runs since; absent otherwise.
        ended_by: Who asked for its end or ended it, and why in their words; absent for nobody.
        links: Addresses for people by name: issue, job page, logbook.
        places: What an open run's contract names, each as kind and address: `ray`, `git`, `wandb`,
            `store`, or `variable` with its name.
        keeper: The monitor's own errors; absent while it judged nothing.
        resume: What is unproven of a live instance's resume, or that it could not be compared;
            absent if nothing is open.
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
    seal_waivable: NotRequired[list[str]]
    eta: NotRequired[list[str]]
    loss: NotRequired[str]
    tokens_s: NotRequired[str]
    error: NotRequired[str]
    failed: NotRequired[str]
    ended_by: NotRequired[str]
    links: NotRequired[dict[str, str]]
    places: NotRequired[list[list[str]]]
    keeper: NotRequired[MonitorAccuracyRow]
    resume: NotRequired[str]


class FailingRow(TypedDict):
    """An effect that has not succeeded yet."""

    effect: str
    attempt: int
    reason: str
    retry_at: str


class OutboxRow(TypedDict):
    """The progress of an attempted, unconfirmed effect.

    Attributes:
        state: `attempted`, `unknown`, `rejected`, or `requested` where nothing was sent.
        key: The key to query the other side with; empty for an act that sends nothing.
        target: Its serial queue; empty for an act that sends nothing.
        since: The time of the first attempt.
    """

    effect: str
    state: str
    key: str
    target: str
    attempt: int
    since: str


class EffectsRow(TypedDict):
    """The state of a run's effects.

    Attributes:
        outbox: Attempted, unconfirmed effects; absent if there are none.
        pushed_version: The newest event in the logbook that the remote holds; 0 before the first.
        tag: The seal tag, once the remote holds it.
    """

    shape: str
    failing: list[FailingRow]
    pushed_commit: str
    pushed_version: int
    tag: str
    outbox: NotRequired[list[OutboxRow]]
