"""Applies recorded events in a line of `tools judge`: a run's record, acts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from watchkeeper.adapters.bad_input import BadLine
from watchkeeper.adapters.expected_rules import not_expectable
from watchkeeper.adapters.judge.booleans import refuse_booleans
from watchkeeper.adapters.judge.contract import an_object, merged_with, split, stated_in
from watchkeeper.adapters.judge.problems import PROBLEMS_MAX, model_of, problem
from watchkeeper.domain.rules.whatif.judging import NotJudged, run_after
from watchkeeper.domain.run.envelope import Event, Undecodable, decode
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.projections.published.cloud_event import type_name

_TOPICS = {type_name(topic): topic for topic in type_of} | {topic: topic for topic in type_of}

_ACTS_OF_PEOPLE: Mapping[str, Mapping[str, object]] = {
    "run.planned_act_announced.1": {"act": "act-1", "kind": "maintenance", "reason": "not stated"},
    "run.planned_act_ended.1": {"act": "act-1", "reason": "not stated"},
    "run.stop_requested.1": {"reason": "not stated", "consent": "not-stated"},
}
"""Acts of people that no observation shows, with default values for their data."""


def is_event(row: Mapping[str, Any] | None) -> bool:
    """Return whether a row of a history is an event and not an observation."""
    return row is not None and ("topic" in row or "type" in row)


def is_record(rows: Sequence[dict[str, Any] | None]) -> bool:
    """Return whether a history is a run's record: all rows are events, and not all are acts."""
    only_events = bool(rows) and all(map(is_event, rows))
    return only_events and any(
        _topic(row) not in _ACTS_OF_PEOPLE for row in rows if row is not None
    )


def after_a_person(run: Run, row: Mapping[str, Any], place: str) -> Run:
    """Return a run after a person's act between two observations.

    Args:
        run: The run so far.
        row: The event, which may be partial. See `_ACTS_OF_PEOPLE`.
        place: The row's place, for error messages.

    Raises:
        BadLine: The row is not such an event, or does not fit the run.
    """
    topic = _topic(row)
    if topic not in _ACTS_OF_PEOPLE:
        expected = f"observations, and between them of events only {', '.join(_ACTS_OF_PEOPLE)}"
        raise BadLine(problem(f"{place}.topic", topic, expected))
    filled = {**_ACTS_OF_PEOPLE[topic], **(an_object(row.get("data")) or {})}
    _refuse_unknown_rules(filled, place)
    if topic == "run.stop_requested.1" and run.instances:
        filled.setdefault("instance", run.instances[-1].plan.instance)
    try:
        return run_after(run, _event({**row, "data": filled}, run.version + 1))
    except (Undecodable, NotJudged) as error:
        raise BadLine(f"{place}: {error}") from error


def _refuse_unknown_rules(data: Mapping[str, Any], place: str) -> None:
    """Refuse an act that expects an unknown rule, because that would have no effect.

    Raises:
        BadLine: The act names a rule that no detector has.
    """
    given = data.get("expects")
    # The event's schema reports values that are not lists or not text.
    names = cast("list[object]", given) if isinstance(given, list) else []
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) != len(names):
        return
    wrong = [
        problem(f"{place}.data.expects[{at}]", texts[at], expected)
        for at, expected in not_expectable(texts)
    ]
    if wrong:
        raise BadLine(*wrong[:PROBLEMS_MAX])


def folded(rows: Sequence[dict[str, Any] | None], given: object) -> Run:
    """Return the run after recorded events, under the given contract if there is one.

    Raises:
        BadLine: A row is not an event of a run, or does not fit.
    """
    run: Run | None = None
    for number, row in enumerate(rows):
        place = f"history[{number}]"
        if row is None:
            raise BadLine(problem(place, row, "an event"))
        if run is not None and _is_of_another_stream(row):
            continue  # A run's subscriber also receives events of output roots and effects.
        if _topic(row) in type_of and an_object(row.get("data")) is None:
            expected = "the event's data, as `watchkeeper events RUN --json` prints it"
            raise BadLine(problem(f"{place}.data", row.get("data"), expected))
        try:
            event = _event(row, (run.version if run else 0) + 1)
            refuse_booleans(_data(row), event.data, f"{place}.data")
            if run is None:
                contract = getattr(event.data, "contract", None)
                if not isinstance(contract, Contract):
                    raise BadLine(problem(place, row.get("topic"), "run.drafted.1 as the first"))
                run = Run(contract.run)
            run = run_after(run, event)
        except (Undecodable, NotJudged) as error:
            raise BadLine(f"{place}: {error}") from error
    assert run is not None, "there is at least one event"
    if given is None:
        return run
    document = contract_of(run).model_dump(mode="json", exclude_defaults=True)
    merged = split(merged_with(document, stated_in(given)))
    made = model_of(Contract, merged, "contract")
    refuse_booleans(merged, made, "contract")
    return replace(run, contract=made)


def _topic(row: Mapping[str, Any]) -> str:
    name = str(row.get("topic") or row.get("type"))
    return _TOPICS.get(name, name)


def _is_of_another_stream(row: Mapping[str, Any]) -> bool:
    topic = _topic(row)
    return topic in type_of and not topic.startswith("run.")


def _event(row: dict[str, Any], version: int) -> Event:
    topic = _topic(row)
    data = row.get("data")
    envelope = an_object(data)
    if envelope is None or "event_id" not in envelope:
        at = row.get("occurred_at") or row.get("at") or row.get("time")
        envelope = {
            "event_id": str(uuid4()), "occurred_at": at, "recorded_at": row.get("recorded_at", at),
            "actor": _actor(row),
            "cause": None, "correlation": "judged", "key": None, "data": data,
        }  # fmt: skip
    return decode("run/judged", version, topic, json.dumps(envelope).encode())


def _data(row: Mapping[str, Any]) -> object:
    """Return an event's own data, with or without an envelope around it."""
    data = row.get("data")
    envelope = an_object(data)
    return (
        envelope["data"]
        if envelope is not None and {"event_id", "data"} <= envelope.keys()
        else data
    )


def _actor(row: Mapping[str, Any]) -> object:
    """Return who caused an event. `events --json` has name and kind as separate fields."""
    actor = row.get("actor")
    if isinstance(actor, str):
        return {"principal": actor, "kind": row.get("kind", "service")}
    return actor or {"principal": "watchkeeper", "kind": "service"}
