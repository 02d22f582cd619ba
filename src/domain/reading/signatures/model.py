"""The data model of a signature: a known message, its claim, its source."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from watchkeeper.domain.values.causes import CAUSES, Outlook


class Label(StrEnum):
    """The classes of design 9: the most probable cause that a text itself supports."""

    PREEMPTION = "preemption"
    NODE_FAILURE = "node_failure"
    TPU_BAD_NODE = "tpu_bad_node"
    HBM_OOM = "hbm_oom"
    HOST_OOM = "host_oom"
    DISK_FULL = "disk_full"
    CAPACITY_WEDGE = "capacity_wedge"
    NETWORK = "network_storage_transient"
    COLLECTIVE_HANG = "collective_hang"
    CODE_BUG = "code_bug"
    CONFIG_ERROR = "config_error"
    DATA_ERROR = "data_error"
    NUMERICAL = "numerical_instability"
    CHECKPOINT_ERROR = "checkpoint_error"
    WANDB_ERROR = "wandb_error"
    CONTROLLER_FAILURE = "controller_failure"
    USER_STOPPED = "user_stopped"
    UNKNOWN = "unknown"
    BENIGN = "benign"


class Rank(IntEnum):
    """How much a signature says about the root of a failure."""

    MARK = 0
    """Something failed; why is not said."""
    GENERIC = 1
    """A kind of error, such as an exception's class."""
    SYMPTOM = 2
    """Often seen as the consequence of something else, such as a rank that waits for a dead one."""
    SPECIFIC = 3
    """A message that one cause prints."""
    ROOT = 4
    """A message that names the cause itself, whatever else is printed around it."""


class Scope(StrEnum):
    """How much text a signature affects."""

    LINE = "line"
    """The line that it matches. A benign one removes the whole line."""
    PART = "part"
    """Benign only: the matched text is removed, and the rest of the line is read."""
    SENTENCE = "sentence"
    """Benign only: the sentence around the match is removed."""
    TEXT = "text"
    """Benign only: it answers the earlier lines of the labels in `cancels`, as a retry that
    succeeded does."""


OUTLOOKS = {label: CAUSES[label.value].outlook for label in Label} | {Label.BENIGN: Outlook.NEVER}
"""Whether a retry makes sense, by class, if the signature itself does not say.

For a harmless text nothing is retried and nobody is asked. An end with a harmless log still raises
a question: a log without a named failure proves nothing (`CAUSES`).
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """One known message.

    Attributes:
        id: Family and name, such as `nccl.watchdog`; recorded, so it never changes its meaning.
        label: The class that it claims.
        pattern: Regular expression, searched in one line; letters of either case.
        example: A line that it matches.
        counter_example: A line that looks like it and that it must leave alone.
        source: The software or document that prints the message.
        rank: How close to the root the message stands.
        scope: How far its word goes.
        outlook: Whether trying again makes sense; the class's own when none.
        also: Other readings that a careful person would defend.
        cancels: Labels whose earlier lines it answers; `Scope.TEXT` only.
        stated: It states how a job ended, so a line's level silences it not: orchestrators write
            their jobs' failures as `INFO`, as nothing of their own failed.
    """

    id: str
    label: Label
    pattern: str
    example: str
    counter_example: str
    source: str
    rank: Rank
    scope: Scope = Scope.LINE
    outlook: Outlook | None = None
    also: tuple[Label, ...] = ()
    cancels: tuple[Label, ...] = ()
    stated: bool = False


def outlook_of(signature: Signature) -> Outlook:
    """Return whether a retry makes sense after what a signature names."""
    return signature.outlook or OUTLOOKS[signature.label]
