"""What a run remembers of its losses, against the plain meaning of it."""

from hypothesis import given
from hypothesis import strategies as st

from tests.domain.given import History
from watchkeeper.domain.run.losses import LOSSES_KEPT, with_losses, without_lineage
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.earlier import LossAt


def plainly(known: tuple[LossAt, ...], check: CheckRecorded) -> tuple[LossAt, ...]:
    """Look at each loss at every check."""
    measured = check.measured
    if not measured.losses:
        return known
    stretch = (check.instance, measured.segment)
    own = [one for one in known if one.stretch == stretch]
    others = [one for one in known if one.stretch != stretch]
    own += [LossAt(step, loss, stretch, measured.losses_slack) for step, loss in measured.losses]
    return (*others[-LOSSES_KEPT:], *own[-LOSSES_KEPT:])


def sample() -> CheckRecorded:
    history = History().launch(None)
    history.train(1000)
    return next(e.data for e in history.events if isinstance(e.data, CheckRecorded))


CHECK = sample()
ACTS = st.lists(
    st.one_of(
        # Which instance, how often it stepped back, and how many losses the check samples.
        st.tuples(st.sampled_from("ab"), st.integers(0, 1), st.integers(0, 300)),
        # A lineage is left above a step.
        st.integers(0, 2000),
    ),
    max_size=12,
)


@given(acts=ACTS)
def test_the_newest_losses_of_the_newest_stretch_and_of_all_others_are_kept(
    acts: list[tuple[str, int, int] | int],
) -> None:
    known = expected = tuple[LossAt, ...]()
    for number, act in enumerate(acts):
        if isinstance(act, int):
            known, expected = without_lineage(known, act), without_lineage(expected, act)
            continue
        instance, segment, samples = act
        losses = tuple((100 * number + place, float(number)) for place in range(samples))
        measured = CHECK.measured.model_copy(update={"losses": losses, "segment": segment})
        check = CHECK.model_copy(update={"instance": instance, "measured": measured})
        known, expected = with_losses(known, [check]), plainly(expected, check)
        assert known == expected
