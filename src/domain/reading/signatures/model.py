"""The data model of a signature: a known message, its cause and its source."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from watchkeeper.domain.values.causes import CAUSES, Outlook


class Label(StrEnum):
    """The failure classes: the most probable cause that a text supports."""

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
    """Something failed, for an unnamed reason."""
    GENERIC = 1
    """A kind of error, such as an exception's class."""
    SYMPTOM = 2
    """Often a consequence, such as a rank that waits for a dead one."""
    SPECIFIC = 3
    """A message of one particular cause."""
    ROOT = 4
    """A message that names the root cause."""


class Scope(StrEnum):
    """How much text a signature affects."""

    LINE = "line"
    """The matching line. A benign signature removes the whole line."""
    PART = "part"
    """Benign only: the matched text is removed, and the rest of the line is read."""
    SENTENCE = "sentence"
    """Benign only: the sentence around the match is removed."""
    TEXT = "text"
    """Benign only: it cancels earlier lines with the labels in `cancels`, as a successful retry
    does."""


OUTLOOKS = {label: CAUSES[label.value].outlook for label in Label} | {Label.BENIGN: Outlook.NEVER}
"""Whether a retry makes sense, by class, if the signature itself does not say.

A harmless text causes no retry and no question. An end with a harmless log still raises a question,
since such a log proves nothing (`CAUSES`).
"""


@dataclass(frozen=True, slots=True)
class Signature:
    """One known message.

    Attributes:
        id: Family and name, such as `nccl.watchdog`; recorded, so it never changes its meaning.
        label: The class that it claims.
        pattern: Regular expression, searched in one line; letters of either case.
        example: A line that it matches.
        counter_example: A similar line that it must not match.
        source: The software or document that prints the message.
        rank: How close the message is to the root cause.
        scope: How much text it affects.
        outlook: Whether a retry makes sense; `None` means the default of the class.
        also: Other plausible causes.
        cancels: Labels whose earlier lines it cancels; `Scope.TEXT` only.
        stated: It states how a job ended, so the log level of its line does not matter.
            Orchestrators log failures of their jobs as `INFO`.
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
