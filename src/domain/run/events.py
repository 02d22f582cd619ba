"""All events of a run: facts in the past tense, recorded once.

Each subject's module has its events and their union. This module joins the unions.

A recorded event format never changes. A new format gets a new topic version, and one pure upcast
(see `registry`) converts each retired version.
"""

from watchkeeper.domain.run.checkpoints import CheckpointEvent
from watchkeeper.domain.run.effects import ResultEvent
from watchkeeper.domain.run.ends import DecisionEvent, EndEvent, JudgementEvent
from watchkeeper.domain.run.health import FindingEvent
from watchkeeper.domain.run.launch import LaunchEvent
from watchkeeper.domain.run.operator import OperatorEvent, PersonEvent, PlannedActEvent
from watchkeeper.domain.run.permits import PermitEvent
from watchkeeper.domain.run.questions import QuestionEvent
from watchkeeper.domain.run.seal import MilestoneEvent, SealEvent
from watchkeeper.domain.run.signals import HeardEvent, SignalCameLate
from watchkeeper.domain.run.watch import HandoverEvent, WatchEvent

RunEvent = (
    WatchEvent
    | FindingEvent
    | CheckpointEvent
    | LaunchEvent
    | DecisionEvent
    | QuestionEvent
    | PersonEvent
    | EndEvent
    | SealEvent
    | PermitEvent
    | HandoverEvent
    | PlannedActEvent
    | OperatorEvent
    | MilestoneEvent
    | HeardEvent
    | JudgementEvent
)
"""The events in a run's own stream."""

EffectEvent = ResultEvent | SignalCameLate
"""The events in the stream of a run's effects."""
