"""The highest steps of a run's instances, without steps that rollbacks discarded."""

from watchkeeper.domain.values.earlier import Earlier


def rolled_back_to(past: Earlier) -> dict[str, int]:
    """Return, by instance, the lowest step to which a later rollback took the run."""
    names = [one.plan.instance for one in past.instances]
    lowest: dict[str, int] = {}
    for left in past.lineages:
        through = names.index(left.through) + 1 if left.through in names else 0
        for name in names[:through]:
            lowest[name] = min(left.above_step, lowest.get(name, left.above_step))
    return lowest


def highest_before(past: Earlier, instance: str) -> int | None:
    """Return the highest step of earlier instances, without rolled back steps."""
    cut, highest = rolled_back_to(past), None
    for one in past.instances:
        if one.plan.instance == instance:
            break
        if one.step_best is not None:
            reached = min(one.step_best, cut.get(one.plan.instance, one.step_best))
            highest = reached if highest is None else max(highest, reached)
    return highest
