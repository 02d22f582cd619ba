"""Filters for Cloud Logging and Pub/Sub, each in its own language."""

from collections.abc import Sequence

FILTER_BYTES_MAX = 256
"""The longest filter that a subscription may have."""

_SYSTEM_EVENTS = (
    "preempted",
    "hostError",
    "upcomingMaintenance",
    "upcomingInfraMaintenance",
    "terminateOnHostMaintenance",
    "migrateOnHostMaintenance",
    "automaticRestart",
    "guestTerminate",
    "baremetalCaretakerPreempted",
)

_LINES = (
    r"Saved checkpoint to \S+ for step",
    r"View run .*/runs/",
    "RESOURCE_EXHAUSTED",
    "Program hbm requirement",
    "Largest program allocations in hbm",
    "No accelerator found",
    "Device or resource busy",
    "Failed to cleanup driver after error",
    "OwnerDiedError",
    "ActorDiedError",
    "NodeDiedError",
    "No available node types can fulfill resource request",
    "No space left on device",
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT",
    "Traceback",
)

_REASONS = ("Evicted", "OOMKilling", "FailedScheduling", "Preempting", "NodeNotReady", "Killing")


def audit_filter(project: str) -> str:
    """Return the filter for audit logs of removed, broken or maintained machines.

    Methods of the TPU service are matched by their ends: it names them by several versions.
    """
    events = "|".join(_SYSTEM_EVENTS)
    log = f"projects/{project}/logs/cloudaudit.googleapis.com%2Fsystem_event"
    tpu = r"\.Tpu\.(Create|Delete|Start|Stop|Update)(Node|QueuedResource)$"
    return (
        f'(logName="{log}" AND protoPayload.methodName=~"^compute\\.instances\\.({events})$")'
        f' OR (protoPayload.serviceName="tpu.googleapis.com" AND protoPayload.methodName=~"{tpu}")'
    )


def log_filter(project: str) -> str:
    """Return the filter that passes the lines of jobs and the events of Ray and Kubernetes.

    All other log entries stay where they are: they are many, and may hold secrets.
    """
    lines = "|".join(_LINES)
    reasons = "|".join(_REASONS)
    path = 'labels."agent.googleapis.com/log_file_path"'
    return (
        f'({path}=~"/job-driver-.*\\.log$" AND textPayload=~"{lines}")'
        f' OR ({path}=~"/event_(GCS|JOBS)\\.log$")'
        f' OR (logName="projects/{project}/logs/events" AND jsonPayload.reason=~"^({reasons})$")'
    )


def object_filter(prefixes: Sequence[str]) -> str:
    """Return a subscription's filter for a bucket's notifications.

    >>> object_filter(["checkpoints/"])
    '(attributes.eventType="OBJECT_FINALIZE" OR attributes.eventType="OBJECT_DELETE") \
AND (hasPrefix(attributes.objectId,"checkpoints/"))'
    """
    kinds = '(attributes.eventType="OBJECT_FINALIZE" OR attributes.eventType="OBJECT_DELETE")'
    starts = " OR ".join(f'hasPrefix(attributes.objectId,"{prefix}")' for prefix in prefixes)
    whole = f"{kinds} AND ({starts})" if starts else kinds
    # The notifications name the prefixes as well, so a filter without them lets no more through.
    return whole if len(whole.encode()) <= FILTER_BYTES_MAX else kinds
