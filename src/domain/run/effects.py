"""Events of outside effects: the attempt and the answer of the other system."""

from typing import ClassVar

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.run.fact import Fact


class EffectAttempted(Fact):
    """An effect is about to be attempted. Until a result follows, its outcome is unknown.

    Attributes:
        effect: `submit`, `stop`, `logbook`, `tag` or `milestone`.
        key: The effect's key, by which the other system can be queried.
        target: The effect's serial queue.
        attempt: The number of consecutive attempts, including this one.
    """

    topic: ClassVar[str] = "effects.attempted.1"
    effect: str
    key: str
    target: str
    attempt: PositiveInt


class EffectUnknown(Fact):
    """An effect was attempted without an answer. The other system is queried before a retry.

    Attributes:
        key: The effect's key, by which the other system is queried.
        target: The effect's serial queue.
        attempt: The number of consecutive failures.
        retry_at: When the other system is queried.
    """

    topic: ClassVar[str] = "effects.unknown.1"
    effect: str
    key: str = ""
    target: str = ""
    attempt: PositiveInt
    reason: str
    retry_at: AwareDatetime


class EffectRejected(Fact):
    """The other system definitely refused, or holds something foreign. A person has to look.

    Attributes:
        key: The effect's key; empty if nothing was sent.
        target: The effect's serial queue.
        attempt: The number of consecutive failures.
        retry_at: When it is tried again, in case a person fixed it.
        final: Whether it is never retried. The run's history shows what follows.
    """

    topic: ClassVar[str] = "effects.rejected.1"
    effect: str
    key: str = ""
    target: str = ""
    attempt: PositiveInt
    reason: str
    retry_at: AwareDatetime
    final: bool = False


class EffectConfirmed(Fact):
    """The other system confirmed an effect that has no result event of its own.

    Attributes:
        key: The effect's key, by which the other system was queried.
        target: The effect's serial queue.
    """

    topic: ClassVar[str] = "effects.confirmed.1"
    effect: str
    key: str
    target: str


TriedEvent = EffectAttempted | EffectUnknown | EffectRejected | EffectConfirmed


class LogbookPushed(Fact):
    """The remote has the logbook as rendered at a version.

    Attributes:
        version: Version of the run's stream that was rendered.
        head: That version and its chain hash, as `<version> sha256:<hex>`.
        content: SHA-256 of the rendered bytes.
    """

    topic: ClassVar[str] = "effects.logbook_pushed.1"
    version: PositiveInt
    head: str
    content: str
    commit: str
    branch: str
    path: str


class TagPushed(Fact):
    """The remote holds the annotated seal tag.

    Attributes:
        head: The run's version and chain hash in the tag's message.
    """

    topic: ClassVar[str] = "effects.tag_pushed.1"
    tag: str
    target: str
    head: str


class EffectFailed(Fact):
    """An effect failed before anything was sent. It is retried.

    Attributes:
        effect: `submit`, `stop`, `relaunch`, `seal`, `logbook`, `tag` or `milestone`.
        attempt: The number of consecutive failures.
        retry_at: When it is retried.
        key: The effect's key; empty for an act that sends nothing.
        target: The effect's serial queue; empty for an act that sends nothing.
    """

    topic: ClassVar[str] = "effects.failed.1"
    effect: str
    attempt: PositiveInt
    reason: str
    retry_at: AwareDatetime
    key: str = ""
    target: str = ""


class EffectRecovered(Fact):
    """A failing effect succeeded, or it is no longer requested.

    Attributes:
        reason: Why a human gave the effect up; else empty.
    """

    topic: ClassVar[str] = "effects.recovered.1"
    effect: str
    reason: str = ""


class MilestoneTagPushed(Fact):
    """The remote holds the annotated tag of a milestone.

    Attributes:
        head: The run's version and chain hash in the tag's message.
    """

    topic: ClassVar[str] = "effects.milestone_tag_pushed.1"
    tag: str
    target: str
    head: str


ResultEvent = (
    LogbookPushed | TagPushed | MilestoneTagPushed | EffectFailed | EffectRecovered | TriedEvent
)
