"""Queries a Ray dashboard for data that no Ray client offers."""

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote

from ray.job_submission import JobSubmissionClient


class HttpRefusal(Exception):
    """The cluster, or a proxy before it, answered with an HTTP error status."""

    def __init__(self, status: int, text: str) -> None:
        """Keep status and text for the caller, which knows the request."""
        super().__init__(f"HTTP status {status}")
        self.status = status
        self.text = text


def get(client: JobSubmissionClient, path: str) -> dict[str, Any]:
    """Return the JSON that the dashboard answers to a path.

    Raises:
        HttpRefusal: It answered with an error status.
    """
    found: Any = _answer(client, path).json()
    return cast("dict[str, Any]", found)


def get_text(client: JobSubmissionClient, path: str) -> str:
    """Return the text that the dashboard answers to a path.

    Raises:
        HttpRefusal: See `get`.
    """
    content: bytes = _answer(client, path).content
    return content.decode("utf-8", errors="replace")


def _answer(client: JobSubmissionClient, path: str) -> Any:
    # The client's private method adds its headers and certificates. It has no type annotations.
    untyped: Any = client
    response: Any = untyped._do_request("GET", path)
    if response.status_code != 200:
        raise HttpRefusal(int(response.status_code), str(response.text))
    return response


def listed(
    client: JobSubmissionClient, kind: str, limit: int, filters: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the rows of one of Ray's lists, such as `tasks`, with all their details.

    Args:
        client: Ray's client.
        kind: `tasks`, `actors` or `nodes`.
        limit: Maximum number of rows; Ray accepts at most 10,000.
        filters: The required value of each field, by the field's name.

    Raises:
        HttpRefusal: See `get`.
    """
    asked = "".join(
        f"&filter_keys={quote(key)}&filter_predicates=%3D&filter_values={quote(value)}"
        for key, value in filters.items()
    )
    answer = get(client, f"/api/v0/{kind}?detail=true&limit={limit}{asked}")
    return cast("list[dict[str, Any]]", answer["data"]["result"]["result"])
