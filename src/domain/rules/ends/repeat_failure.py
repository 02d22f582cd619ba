"""Repeated failures, and too many restarts without progress (R2, R3, R12, R19)."""

from datetime import datetime

from watchkeeper.domain.rules.ends.case import Case, answer, place_of
from watchkeeper.domain.rules.ends.job_retries import ask_at_end, charged_tries, repeats_at_end
from watchkeeper.domain.run.ends import Action, DecisionMade, Failure, Restart
from watchkeeper.domain.run.failure_window import in_same_window, is_past
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.causes import Outlook
from watchkeeper.domain.values.contract.contract import Lane
from watchkeeper.domain.values.durations import render_duration


def charged(run: Run, now: datetime) -> tuple[list[Restart], list[Restart]]:
    """Return the restarts in the window: those that count against the budget, and the others.

    A restart with progress does not count: it wrote a validated checkpoint beyond the one it
    resumed from. A restart after an excused failure does not count either.
    """
    window = contract_of(run).retries.window
    excused = {one.instance for one in run.ends.failures if one.excused}
    # A restart at a human's request does not count.
    recent = [one for one in run.ends.restarts if one.at > now - window]
    free = [one for one in recent if one.gained is not None or one.after in excused]
    return [one for one in recent if one not in free], free


def r3(case: Case) -> DecisionMade | None:
    """R3: the allowed number of restarts brought no progress within the window."""
    retries = contract_of(case.run).retries
    spent, free = charged(case.run, case.now)
    own = charged_tries(case.run, case.now)
    if len(spent) + len(own) < retries.budget:
        return None
    gained = [one for one in free if one.gained is not None]
    because = (
        f"the restart budget is used up: {len(spent)} of {retries.budget} "
        f"in {render_duration(retries.window)} brought no new checkpoint, {len(gained)} brought one"
    )
    if own:
        because = f"{because}; {len(own)} tries inside {case.failure.instance} brought none either"
    if retries.budget == 0:
        because = "the restart budget is 0 (retries.budget): no rule restarts it"
    cited = [_restart_line(one) for one in (*spent, *free)[-4:]]
    return answer(case, Action.ESCALATE, "R3", because, *cited)


def _restart_line(restart: Restart) -> str:
    start = "the start" if restart.resume_step is None else f"step-{restart.resume_step}"
    if restart.gained is not None:
        return f"{restart.instance} from {start} brought step-{restart.gained}"
    return f"{restart.instance} from {start} brought no new checkpoint"


def r2(case: Case) -> DecisionMade | None:
    """R2: the same failure without progress past it, or a second one in the same window."""
    for earlier in reversed(_counting(case)):
        same = earlier.fingerprint == case.failure.fingerprint
        if same and not is_past(case.failure, earlier):
            because = f"the same failure came back without progress past {place_of(earlier)}"
            return _again(case, earlier, because)
        if in_same_window(case.failure, earlier):
            because = f"a second failure in the same window as {earlier.instance}'s"
            return _again(case, earlier, because)
    repeats = repeats_at_end(case)
    return ask_at_end(case, repeats) if repeats is not None else None


def r12(case: Case) -> DecisionMade | None:
    """R12: the error is back after one fix; in the daily lane any further error counts."""
    fixes = case.run.ends.judgement.fixes
    if not fixes or case.failure.cause != "code_bug":
        return None
    daily = contract_of(case.run).lane is Lane.DAILY
    same = [f for f in _counting(case) if f.fingerprint == case.failure.fingerprint]
    if not same and not daily:
        return None
    again = f"the same error as {same[-1].instance}'s" if same else "a code bug"
    because = f"{again} after one fix attempt ({fixes[-1][:8]}): one bounded attempt was made"
    return answer(case, Action.ESCALATE, "R12", because, *(f"event {f.version}" for f in same[-1:]))


def r19_retried(case: Case) -> DecisionMade | None:
    """R19: R1 retries such an end once. If it recurs at any time, a person judges."""
    failure = case.failure
    seen = [f for f in _counting(case) if f.fingerprint == failure.fingerprint]
    if case.outlook is not Outlook.RETRY_ONCE or not seen:
        return None
    because = (
        f"the same failure as {seen[-1].instance}'s came back, though with progress past "
        f"{place_of(seen[-1])}: it was to be retried once"
    )
    return _again(case, seen[-1], because).model_copy(update={"rule": "R19"})


def earlier_failures(run: Run, failure: Failure) -> list[Failure]:
    """Return the earlier failures, without those that later evidence excused."""
    return [one for one in run.ends.failures if one.version < failure.version and not one.excused]


def _counting(case: Case) -> list[Failure]:
    return earlier_failures(case.run, case.failure)


def _again(case: Case, earlier: Failure, because: str) -> DecisionMade:
    compared = (
        f"{earlier.instance} and {case.failure.instance} ended at {place_of(earlier)} and "
        f"{place_of(case.failure)} with fingerprints {earlier.fingerprint} and "
        f"{case.failure.fingerprint} (events {earlier.version} and {case.failure.version})"
    )
    return answer(case, Action.ESCALATE, "R2", because, compared)
