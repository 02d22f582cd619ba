"""The events of an effect outside: attempted, and what the other side answered."""

from typing import ClassVar

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.run.fact import Fact


class EffectAttempted(Fact):
    """An effect is about to be tried. Without a result after it, whether it landed is unknown.

    Attributes:
        effect: `submit`, `stop`, `logbook`, `tag` or `milestone`.
        key: Its effect key: what the other side can be asked about.
        target: The serial queue that it stands in.
        attempt: How many times in a row it was tried, this one included.
    """

    topic: ClassVar[str] = "effects.attempted.1"
    effect: str
    key: str
    target: str
    attempt: PositiveInt


class EffectUnknown(Fact):
    """An effect was tried and no answer came: the other side is asked before anything is sent.

    Attributes:
        key: Its effect key: what the other side is asked about.
        target: The serial queue that it stands in.
        attempt: How many times in a row it did not get through.
        retry_at: When the other side is asked.
    """

    topic: ClassVar[str] = "effects.unknown.1"
    effect: str
    key: str = ""
    target: str = ""
    attempt: PositiveInt
    reason: str
    retry_at: AwareDatetime


class EffectRejected(Fact):
    """The other side said no, for certain, or holds what is not ours: a person has to look.

    Attributes:
        key: Its effect key; empty where nothing was sent.
        target: The serial queue that it stands in.
        attempt: How many times in a row it did not get through.
        retry_at: When it is looked at again, in case a person mended it.
        final: It is not tried again: the run's own history says what follows.
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
    """The other side has what was asked for, and there is no event of its own that says so.

    Attributes:
        key: Its effect key: what the other side was asked about.
        target: The serial queue that it stood in.
    """

    topic: ClassVar[str] = "effects.confirmed.1"
    effect: str
    key: str
    target: str


TriedEvent = EffectAttempted | EffectUnknown | EffectRejected | EffectConfirmed


class LogbookPushed(Fact):
    """The remote holds the logbook as rendered at a version.

    Attributes:
        version: Version of the run's stream that was rendered.
        head: Version and chain hash there, as `<version> sha256:<hex>`.
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
        head: Version and chain hash of the run that the tag's message names.
    """

    topic: ClassVar[str] = "effects.tag_pushed.1"
    tag: str
    target: str
    head: str


class EffectFailed(Fact):
    """An effect did not get through, and nothing was sent; it is tried again.

    Attributes:
        effect: `submit`, `stop`, `relaunch`, `seal`, `logbook`, `tag` or `milestone`.
        attempt: How many times in a row it failed.
        retry_at: When it is tried again.
        key: Its effect key; empty for an act that sends nothing.
        target: The serial queue that it stands in; empty for an act that sends nothing.
    """

    topic: ClassVar[str] = "effects.failed.1"
    effect: str
    attempt: PositiveInt
    reason: str
    retry_at: AwareDatetime
    key: str = ""
    target: str = ""


class EffectRecovered(Fact):
    """An effect that had not got through did, or nothing asks for it any more.

    Attributes:
        reason: Why a human gave it up, so that it is not tried again; empty otherwise.
    """

    topic: ClassVar[str] = "effects.recovered.1"
    effect: str
    reason: str = ""


class MilestoneTagPushed(Fact):
    """The remote holds the annotated tag of a milestone.

    Attributes:
        head: Version and chain hash of the run that the tag's message names.
    """

    topic: ClassVar[str] = "effects.milestone_tag_pushed.1"
    tag: str
    target: str
    head: str


ResultEvent = (
    LogbookPushed | TagPushed | MilestoneTagPushed | EffectFailed | EffectRecovered | TriedEvent
)
