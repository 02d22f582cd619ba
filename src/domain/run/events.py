"""All events of a run: facts in the past tense, recorded once.

Each subject's page has its events and their union; this page joins the unions.

A recorded shape is for ever. A new shape is a new version in the topic, and one pure upcast for
each retired version (see `registry`) turns old into new.
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
"""What a run's own stream holds."""

EffectEvent = ResultEvent | SignalCameLate
"""What the stream of a run's effects holds."""
