"""A program that reads one W&B run with W&B's client, for `tracker_wandb`.

The client stays out of the watch. It starts a helper process that it needs from then on, installs
hooks in the interpreter, and caches every run it reads. Only the end of its process ends it for
certain. The program reads one question in JSON on standard input and writes one answer in JSON on
standard output.
"""

import json
import os
import signal
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, cast

import psutil
import wandb
from wandb.apis.public.runs import RunNotFoundError
from wandb.errors import CommError
from wandb.sdk.lib.service.service_connection import WandbApiFailedError

from watchkeeper.adapters.trackers.metric_points import final_step_of
from watchkeeper.adapters.trackers.wandb_history import read_history

TWINS_LOOKED_AT = 20
"""Runs under one display name that are looked at for a live one, the newest."""

TWINS_MAX = 4
"""Maximum number of twins in the answer."""

NAMESAKES_MAX = 20
"""Maximum number of other runs with one display name in the answer."""

TWIN_SILENT_MAX = timedelta(minutes=2)
"""A client posts a heartbeat every 30 s; one that is silent for longer is perhaps not alive."""

_CAUSES_MAX = 10
"""Maximum chained exceptions that are searched for the server's message."""


class TooLate(Exception):
    """The reading ran over its limit. Not a `TimeoutError`, which the client takes for its own."""


def main() -> None:
    """Answer the question on standard input."""
    question: dict[str, Any] = json.load(sys.stdin)
    signal.signal(signal.SIGALRM, _too_late)
    signal.setitimer(signal.ITIMER_REAL, question["limit_s"])
    # The client and its helper may print: only the answer may go to standard output.
    answer_to = os.dup(1)
    os.dup2(2, 1)
    try:
        answer = _read(question)
    except Exception as error:  # noqa: BLE001 - The client raises many kinds; all are reported.
        answer = {"error": _error(error)}
    with os.fdopen(answer_to, "w") as file:
        json.dump(answer, file)
    _end_helper()
    # Not through the client's hooks at exit, which would wait for the helper.
    os._exit(0)


def _too_late(number: int, frame: object) -> None:
    """Abort the reading; a second, unexpected alarm ends the process."""
    del number, frame
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)
    raise TooLate("its limit has passed")


def _end_helper() -> None:
    """End the client's processes and wait: not every machine's init reaps orphans."""
    helpers = psutil.Process().children(recursive=True)
    for helper in helpers:
        with suppress(psutil.NoSuchProcess):
            helper.kill()
    psutil.wait_procs(helpers, timeout=2)


def _read(question: dict[str, Any]) -> dict[str, Any]:
    project = f"{question['entity']}/{question['project']}"
    name = question.get("display_name")
    overrides = {"base_url": question["base_url"]} if question["base_url"] else {}
    # The client publishes types in part only; what enters is checked by who asked.
    api: Any = wandb.Api(
        overrides=overrides,
        api_key=os.environ["WANDB_API_KEY"],
        timeout=int(question["request_s"]),
    )
    try:
        run: Any = api.run(f"{project}/{question['id']}")
    except (RunNotFoundError, CommError) as error:
        if not any(isinstance(one, RunNotFoundError) for one in _causes(error)):
            raise
        if name:
            return {"shown_name": "", "others": _namesakes(api, project, name, question["id"])}
        # A project that we may not see has no runs either: only one that answers is proof.
        runs = api.runs(project, filters={"name": question["id"]}, per_page=1)
        return {"run": None, "listed": any(one.id == question["id"] for one in runs)}
    attributes = run._attrs
    after = question.get("after")
    if after is not None:
        limit = timedelta(seconds=question["limit_s"] / 2)
        return {"run": run.id, "history": read_history(run, int(after), limit)}
    if name:
        others = _namesakes(api, project, name, run.id)
        return {"shown_name": attributes.get("displayName"), "others": others}
    # The client puts an empty summary in the place of a missing one when it is asked for it.
    partly = "summaryMetrics" not in attributes
    summary = cast("dict[str, Any]", run.summary_metrics)
    found: dict[str, Any] = {
        "id": run.id,
        "name": attributes.get("displayName"),
        "state": attributes.get("state"),
        "heartbeat": attributes.get("heartbeatAt"),
        "summary": summary,
        "partly": partly,
        "last_step": run.lastHistoryStep,
        "url": run.url,
        "final_step": final_step_of(run.config),
    }
    if not any(_is_number(value) for name, value in summary.items() if name[0] != "_"):
        # A script may disable the summary; its newest row of history holds the same.
        found["row"] = _newest_row(run, int(found["last_step"]))
    return {"run": found, "twins": _twins(api, project, found)}


def _namesakes(api: Any, project: str, name: str, own: str) -> list[str]:
    """Return the ids of other runs that bear a display name, whatever became of them.

    A project that we may not see, or that is not there, raises: it proves nothing.
    """
    runs = api.runs(project, filters={"display_name": name}, per_page=NAMESAKES_MAX + 1)
    # One more than is reported, since our own run may be among them.
    alike = [one.id for one in islice(runs, NAMESAKES_MAX + 1) if one.name == name]
    return [one for one in alike if one != own][:NAMESAKES_MAX]


def _newest_row(run: Any, step: int) -> dict[str, Any]:
    if step < 0:
        return {}
    for row in run.scan_history(min_step=step, max_step=step + 1, page_size=1):
        return cast("dict[str, Any]", row)
    return {}


def _twins(api: Any, project: str, found: dict[str, Any]) -> list[str]:
    """Return other runs that are alive under the same name, by the server's own clock."""
    name, heartbeat = found["name"], _time(found["heartbeat"])
    if not name or heartbeat is None:
        return []
    filters = {"display_name": name, "state": "running"}
    runs = api.runs(project, filters=filters, order="-created_at", per_page=TWINS_LOOKED_AT)
    return [
        other.id
        for other in islice(runs, TWINS_LOOKED_AT)
        if other.id != found["id"]
        and (other.name, other.state) == (name, "running")
        and (at := _time(other._attrs.get("heartbeatAt"))) is not None
        and at > heartbeat - TWIN_SILENT_MAX
    ][:TWINS_MAX]


def _time(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _error(error: BaseException) -> dict[str, Any]:
    """Return the server's message, wherever the client keeps it, else the client's."""
    for seen in _causes(error):
        if isinstance(seen, WandbApiFailedError):
            response: Any = getattr(seen, "response", None)
            if response is None:
                return {"kind": "client", "status": 0, "says": str(seen)}
            status, said = int(response.http_status), str(response.message)
            return {"kind": "server", "status": status, "says": said or str(seen)}
    return {"kind": type(error).__name__, "status": 0, "says": str(error)}


def _causes(error: BaseException) -> list[BaseException]:
    """Return an exception and those behind it."""
    found: list[BaseException] = [error]
    for _ in range(_CAUSES_MAX):
        behind = found[-1].__cause__ or found[-1].__context__
        if behind is None:
            break
        found.append(behind)
    return found


if __name__ == "__main__":
    main()
