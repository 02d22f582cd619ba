"""Snapshots and seeks of a subscription, before a deploy or after a loss."""

from datetime import datetime, timedelta
from typing import Any

from google.api_core import exceptions as google_errors
from google.auth import exceptions as auth_errors

from watchkeeper.adapters.pubsub.consumer import explained, open_subscriber
from watchkeeper.adapters.pubsub.names import project_of, snapshot_name
from watchkeeper.ports.sources import Unavailable

CALL_LIMIT = timedelta(seconds=30)
"""One answer of Pub/Sub."""


def take_snapshot(subscription: str, name: str) -> str:
    """Snapshot all unacknowledged and later messages for 7 days; return its full name.

    A snapshot that exists under this name is left as it is.

    Raises:
        BadName: The name is no valid snapshot name.
        Unavailable: No answer, or a refusal.
    """
    whole = snapshot_name(subscription, name)
    client = _client(subscription)
    try:
        client.create_snapshot(
            request={"name": whole, "subscription": subscription},
            timeout=CALL_LIMIT.total_seconds(),
        )
    except google_errors.AlreadyExists as error:
        says = f"{whole} exists already: choose another name"
        raise Unavailable(f"pubsub {project_of(subscription)}", says) from error
    except google_errors.GoogleAPICallError as error:
        raise _unavailable(error, subscription) from error
    finally:
        client.close()
    return whole


def seek(subscription: str, *, to: datetime | None = None, snapshot: str = "") -> None:
    """Deliver a subscription's messages again, from a time or a snapshot on.

    A repeated message changes nothing: appends use natural keys.

    Args:
        subscription: Its full name.
        to: Messages published before it count as acknowledged, those after it do not.
        snapshot: Name of a snapshot, instead of a time.

    Raises:
        BadName: The snapshot's name is not valid.
        Unavailable: No answer, or a refusal.
    """
    request: dict[str, Any] = {"subscription": subscription}
    if snapshot:
        request["snapshot"] = snapshot_name(subscription, snapshot)
    else:
        request["time"] = to
    client = _client(subscription)
    try:
        client.seek(request=request, timeout=CALL_LIMIT.total_seconds())
    except google_errors.GoogleAPICallError as error:
        raise _unavailable(error, subscription) from error
    finally:
        client.close()


def _client(subscription: str) -> Any:
    try:
        return open_subscriber()
    except auth_errors.GoogleAuthError as error:
        raise _unavailable(error, subscription) from error


def _unavailable(error: Exception, subscription: str) -> Unavailable:
    if isinstance(error, google_errors.RetryError | google_errors.DeadlineExceeded):
        says = f"no answer within {CALL_LIMIT.total_seconds():g} s"
        return Unavailable(f"pubsub {project_of(subscription)}", says)
    return Unavailable(f"pubsub {project_of(subscription)}", explained(error, subscription))
