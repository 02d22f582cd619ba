from collections import Counter
from typing import get_args

from watchkeeper.domain.run.checkpoints import CheckpointValidated
from watchkeeper.domain.run.events import RunEvent
from watchkeeper.domain.run.permits import ConsentUsed
from watchkeeper.domain.run.registry import type_of
from watchkeeper.projections.describe.description import NoEntry
from watchkeeper.projections.describe.table import ALL, DESCRIPTIONS


def test_every_event_of_the_registry_has_one_description() -> None:
    assert Counter(one.event for one in ALL) == Counter(type_of.values())


def test_every_event_of_a_run_has_a_logbook_entry_or_is_named_here() -> None:
    without = {event for event, one in DESCRIPTIONS.items() if isinstance(one.logbook, NoEntry)}
    # The check that saw a checkpoint reports it; the act that follows names a used consent.
    assert without & {*get_args(RunEvent)} == {CheckpointValidated, ConsentUsed}
