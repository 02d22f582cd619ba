"""What a relaunch shows about the failure before it: what is ruled out, and what is left.

A relaunch is a new allocation of the same code on the same data. So training past the place of the
failure rules out what is deterministic there, and the same failure again rules out what was new.
"""

from watchkeeper.domain.events import CheckRecorded, HypothesesJudged, Hypothesis
from watchkeeper.domain.recovery.case import place
from watchkeeper.domain.state.judgement import Stake
from watchkeeper.domain.state.repeated import WINDOW_STEPS, in_same_window, is_past
from watchkeeper.domain.state.run import Failure, Run

_DETERMINISTIC = (Hypothesis.CODE, Hypothesis.DATA)


def judged_by_progress(run: Run, check: CheckRecorded) -> list[HypothesesJudged]:
    """Return what is known once an instance trains past the place of the failure before it.

    Args:
        run: The run with the check folded in.
        check: Of a live instance.
    """
    stake, failure = run.judgement.stake, _at_stake(run)
    if stake is None or failure is None or failure.step is None or check.progress is None:
        return []
    if check.instance == stake.after:
        return []
    seen = check.progress.step - check.progress.uncertainty
    # Beyond its whole window: a few steps past it may still be the same place.
    if seen <= failure.step + failure.step_uncertainty + WINDOW_STEPS:
        return []
    because = f"training is well past the place of {failure.instance}'s end ({place(failure)})"
    shown = f"{check.instance} at ~{check.progress.step}"
    return [_judged(stake, failure, check.instance, _DETERMINISTIC, because, shown)]


def judged_by_end(run: Run) -> list[HypothesesJudged]:
    """Return what the end of a relaunched instance says.

    Args:
        run: The run with its newest failure folded in.
    """
    stake, before = run.judgement.stake, _at_stake(run)
    if stake is None or before is None or not run.failures:
        return []
    newest = run.failures[-1]
    if newest.version == before.version:
        return []
    shown = f"{newest.instance} ended at {place(newest)}: {newest.cause}"
    near = in_same_window(newest, before)
    if is_past(newest, before) and not near:
        because = f"it got well past the place of {before.instance}'s end ({place(before)})"
        return [_judged(stake, before, newest.instance, _DETERMINISTIC, because, shown)]
    if newest.fingerprint != before.fingerprint and not near:
        because = f"it ended otherwise, before it came past {place(before)}: nothing is settled"
        return [_judged(stake, before, newest.instance, None, because, shown)]
    return [_same_again(stake, before, newest, shown)]


def _same_again(stake: Stake, before: Failure, newest: Failure, shown: str) -> HypothesesJudged:
    old, new = set(before.nodes), set(newest.nodes)
    because = f"the same came back at {place(newest)} in another allocation"
    out: tuple[Hypothesis, ...] = (Hypothesis.ALLOCATION,)
    if old and new and not old & new:
        because += f", on another machine ({', '.join(sorted(new))})"
        out = (Hypothesis.ALLOCATION, Hypothesis.NODE)
    elif old & new:
        because += f", on the same machine ({', '.join(sorted(old & new))})"
    return _judged(stake, before, newest.instance, out, because, shown)


def _judged(
    stake: Stake,
    before: Failure,
    instance: str,
    out: tuple[Hypothesis, ...] | None,
    because: str,
    shown: str,
) -> HypothesesJudged:
    gone = tuple(one for one in stake.hypotheses if one in (out or ()))
    left = tuple(one for one in stake.hypotheses if one not in gone)
    # One that is left alone is ruled in; of several nobody knows which.
    alone = left if out is not None and len(left) == 1 else ()
    return HypothesesJudged(
        instance=instance,
        decision=stake.decision,
        ruled_out=gone,
        ruled_in=alone,
        because=because,
        evidence=(f"event {before.version}", shown),
    )


def _at_stake(run: Run) -> Failure | None:
    stake = run.judgement.stake
    if stake is None:
        return None
    return next((one for one in reversed(run.failures) if one.instance == stake.after), None)
