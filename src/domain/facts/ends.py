"""What is recorded of a run's end, of output roots, and of effects."""

from typing import ClassVar

from pydantic import AwareDatetime, PositiveInt

from watchkeeper.domain.facts.fact import Fact
from watchkeeper.domain.values import Step

# --- Ends -----------------------------------------------------------------------------------------


class RunFinished(Fact):
    """The orchestrator called the last instance successful; artefacts are not verified yet."""

    topic: ClassVar[str] = "run.finished.1"
    instance: str
    step: Step | None


class RunStopped(Fact):
    """A human ended the run; nothing relaunches it."""

    topic: ClassVar[str] = "run.stopped.1"
    reason: str


class RunAbandoned(Fact):
    """The run is given up; its record stays."""

    topic: ClassVar[str] = "run.abandoned.1"
    reason: str


class SealBlocked(Fact):
    """A seal was tried and something is missing, by name."""

    topic: ClassVar[str] = "run.seal_blocked.1"
    missing: tuple[str, ...]


class SealVerified(Fact):
    """Everything that a seal needs was seen; the tag is next.

    Attributes:
        tag: The annotated tag to push.
        commit: The exact launch commit that it will point at.
        final_step: Proven by the final checkpoint.
        tracker_step: The tracker's own count, which may be one less.
        metrics: Final values.
        caveats: What a reader should know.
        waived: What was missing and let pass, each with the consent that permits it.
    """

    topic: ClassVar[str] = "run.seal_verified.1"
    tag: str
    commit: str
    instance: str
    final_step: Step
    checkpoint: str
    tracker_id: str
    display_name: str
    tracker_state: str
    tracker_step: Step | None
    output_root: str
    metrics: dict[str, float]
    caveats: tuple[str, ...]
    waived: tuple[str, ...] = ()


class RunSealed(Fact):
    """The last event of a run: verified, tagged, closed.

    Attributes:
        head: Version and chain hash that the tag's message names.
    """

    topic: ClassVar[str] = "run.sealed.1"
    tag: str
    commit: str
    head: str


# --- Output roots ---------------------------------------------------------------------------------


class OutputRootClaimed(Fact):
    """A run's instance is the only one that may write below a root."""

    topic: ClassVar[str] = "roots.claimed.1"
    root: str
    run: str
    instance: str


class OutputRootReleased(Fact):
    """The instance that held a root is proven ended."""

    topic: ClassVar[str] = "roots.released.1"
    root: str
    run: str
    instance: str
    why: str


# --- Effects --------------------------------------------------------------------------------------


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


EndEvent = RunFinished | RunStopped | RunAbandoned | SealBlocked | SealVerified | RunSealed
