"""Decides which possible causes of a failure a relaunch has ruled out.

A relaunch uses the same code, data and network fabric. Training past the failed step rules out
deterministic causes. The same failure on other machines rules out the earlier machines. The fabric
is never ruled out, because its faults may disappear without a change.
"""

from watchkeeper.domain.rules.ends.case import place_of
from watchkeeper.domain.run.ends import Failure, HypothesesJudged, RelaunchTest
from watchkeeper.domain.run.failure_window import WINDOW_STEPS, in_same_window, is_past
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.causes import UNKNOWN, Hypothesis

_DETERMINISTIC = frozenset({Hypothesis.CODE, Hypothesis.DATA})
"""Causes that recur at the same step on any machine."""

_PLACED = frozenset({Hypothesis.NODE, Hypothesis.ALLOCATION})
"""Causes that disappear if the next instance gets other machines."""

_NONE: frozenset[Hypothesis] = frozenset()


def judged_by_progress(run: Run, check: CheckRecorded) -> list[HypothesesJudged]:
    """Return the outcome once an instance trains past the step of the earlier failure.

    Args:
        run: The run with the check folded in.
        check: A check of the live instance.
    """
    stake, failure = run.ends.judgement.stake, _at_stake(run)
    if stake is None or failure is None or failure.step is None or check.progress is None:
        return []
    if check.instance == stake.after:
        return []
    seen = check.progress.step - check.progress.uncertainty
    # The step must be past the whole window. A few steps further may still be the same place.
    if seen <= failure.step + failure.step_uncertainty + WINDOW_STEPS:
        return []
    because = f"training is well past the place of {failure.instance}'s end ({place_of(failure)})"
    shown = f"{check.instance} at ~{check.progress.step}"
    return [_judged(stake, failure, check.instance, (_DETERMINISTIC, _NONE), because, shown)]


def judged_by_end(run: Run) -> list[HypothesesJudged]:
    """Return the outcome shown by the end of a relaunched instance.

    Args:
        run: The run with its newest failure folded in.
    """
    stake, before = run.ends.judgement.stake, _at_stake(run)
    if stake is None or before is None or not run.ends.failures:
        return []
    newest = run.ends.failures[-1]
    if newest.version == before.version:
        return []
    shown = f"{newest.instance} ended at {place_of(newest)}: {newest.cause}"
    near = in_same_window(newest, before)
    if is_past(newest, before) and not near:
        because = f"it got well past the place of {before.instance}'s end ({place_of(before)})"
        return [_judged(stake, before, newest.instance, (_DETERMINISTIC, _NONE), because, shown)]
    if newest.fingerprint != before.fingerprint and not (near and _may_be_alike(newest, before)):
        because = f"it ended otherwise, before it came past {place_of(before)}: nothing is settled"
        return [_judged(stake, before, newest.instance, (_NONE, _NONE), because, shown)]
    return [_same_again(stake, before, newest, shown)]


def _may_be_alike(newest: Failure, before: Failure) -> bool:
    """Return whether two ends at one step may be the same failure. Different causes exclude it."""
    known = {newest.cause, before.cause} - UNKNOWN
    return len(known) <= 1


def _same_again(
    stake: RelaunchTest, before: Failure, newest: Failure, shown: str
) -> HypothesesJudged:
    old, new = set(before.nodes), set(newest.nodes)
    because = f"the same came back at {place_of(newest)}"
    out, seen = _NONE, frozenset(Hypothesis) - _PLACED
    if old & new:
        because += f", on the same machine ({', '.join(sorted(old & new))})"
        seen = frozenset(Hypothesis)
    elif old and new:
        because += f" in another allocation, on another machine ({', '.join(sorted(new))})"
        out = _PLACED
    else:
        because += "; where both ran is not known"
    return _judged(stake, before, newest.instance, (out, seen), because, shown)


def _judged(
    stake: RelaunchTest,
    before: Failure,
    instance: str,
    outcome: tuple[frozenset[Hypothesis], frozenset[Hypothesis]],
    because: str,
    shown: str,
) -> HypothesesJudged:
    """Return the outcome: ruled out hypotheses, and hypotheses that were seen again."""
    out, seen = outcome
    gone = tuple(one for one in stake.hypotheses if one in out)
    left = tuple(one for one in stake.hypotheses if one not in out)
    # If several hypotheses remain, none of them is confirmed.
    alone = left if len(left) == 1 and (gone or left[0] in seen) else ()
    return HypothesesJudged(
        instance=instance,
        decision=stake.decision,
        ruled_out=gone,
        ruled_in=alone,
        because=because,
        evidence=(f"event {before.version}", shown),
    )


def _at_stake(run: Run) -> Failure | None:
    stake = run.ends.judgement.stake
    if stake is None:
        return None
    return next((one for one in reversed(run.ends.failures) if one.instance == stake.after), None)
