"""Signatures as data: the messages that are known, family by family."""

from watchkeeper.domain.triage.signatures.benign import LINES, RECOVERIES
from watchkeeper.domain.triage.signatures.benign_words import PARTS
from watchkeeper.domain.triage.signatures.capacity import CAPACITY, PREEMPTION
from watchkeeper.domain.triage.signatures.code import CODE, CONFIG
from watchkeeper.domain.triage.signatures.collectives import COLLECTIVES
from watchkeeper.domain.triage.signatures.hosts import DISK, MEMORY, NODES
from watchkeeper.domain.triage.signatures.marks import MARKS
from watchkeeper.domain.triage.signatures.model import Signature
from watchkeeper.domain.triage.signatures.network import NETWORK
from watchkeeper.domain.triage.signatures.nvidia import NVIDIA
from watchkeeper.domain.triage.signatures.services import CONTROLLERS, STOPS, TRACKERS
from watchkeeper.domain.triage.signatures.tpu import TPU
from watchkeeper.domain.triage.signatures.work import CHECKPOINTS, DATA, NUMERICS

__all__ = ["CAUSES", "GUARDS", "MARKS", "SIGNATURES"]

GUARDS: tuple[Signature, ...] = (*PARTS, *LINES)
"""What is harmless in a line; read before everything else."""

CAUSES: tuple[Signature, ...] = (
    *RECOVERIES,
    *NVIDIA,
    *TPU,
    *MEMORY,
    *DISK,
    *NODES,
    *PREEMPTION,
    *CAPACITY,
    *COLLECTIVES,
    *NUMERICS,
    *CHECKPOINTS,
    *DATA,
    *TRACKERS,
    *CONTROLLERS,
    *STOPS,
    *NETWORK,
    *CODE,
    *CONFIG,
)
"""What names a cause, or answers one.

Where several of one rank match one line, the first in this order counts.
"""

SIGNATURES: tuple[Signature, ...] = (*GUARDS, *CAUSES, *MARKS)
"""All of them."""
