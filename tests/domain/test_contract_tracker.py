"""The tracker's part of a contract: whole for its kind, and its mistakes teach."""

from typing import Any

import pytest
from pydantic import ValidationError

from tests.every_row import every_row
from watchkeeper.domain.values.contract.tracker import TrackerPart, tracker_place

ONLINE: dict[str, Any] = {"kind": "wandb", "entity": "acme", "project": "grug", "id": "r1"}
OFFLINE: dict[str, Any] = {"kind": "wandb", "mode": "offline", "dir": "/srv/wandb", "id": "r1"}


def test_what_was_stored_before_wandb_was_a_kind_is_read_as_it_was() -> None:
    part = TrackerPart.model_validate(
        {"kind": "jsonl", "url": "/m.jsonl", "id": "r", "display_name": "R", "resume": "allow"}
    )
    assert (part.kind, part.mode, tracker_place(part)) == ("jsonl", "online", "/m.jsonl")
    assert TrackerPart(url="/m.jsonl").model_dump(exclude_defaults=True) == {"url": "/m.jsonl"}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        (ONLINE, "acme/grug/r1"),
        (
            {**ONLINE, "base_url": "https://wandb.example.com/"},
            "https://wandb.example.com/acme/grug/runs/r1",
        ),
        (OFFLINE, "/srv/wandb"),
        ({**OFFLINE, "entity": "acme", "project": "grug"}, "/srv/wandb"),
    ],
)
def test_wandb_is_found_online_or_offline(fields: dict[str, Any], place: str) -> None:
    assert tracker_place(TrackerPart(**fields)) == place


@every_row(
    ("fields", "says"),
    [
        ({}, "url: expected the path or URL of the metrics file"),
        ({"url": "  "}, "url: expected the path or URL of the metrics file"),
        ({"url": "/m", "entity": "acme"}, "entity: only a tracker with kind: wandb"),
        ({"url": "/m", "mode": "offline"}, "mode: only a tracker with kind: wandb"),
        ({"url": "/m", "dir": "/w"}, "dir: only a tracker with kind: wandb"),
        ({**ONLINE, "url": "/m"}, "url: only a tracker with kind: jsonl"),
        ({**ONLINE, "entity": ""}, "entity: expected W&B's entity"),
        ({**ONLINE, "project": ""}, "project: expected W&B's project"),
        ({**ONLINE, "project": "a/b"}, "project: expected at most 128 characters"),
        ({**ONLINE, "id": "a b"}, "id: expected at most 128 characters"),
        ({**ONLINE, "id": "x" * 129}, "id: expected at most 128 characters"),
        ({**ONLINE, "dir": "/w"}, "dir: only with mode: offline"),
        ({**ONLINE, "base_url": "wandb.example.com"}, "base_url: expected the URL"),
        ({**ONLINE, "base_url": "https://u:k@wandb.example.com"}, "base_url: expected the URL"),
        ({**ONLINE, "base_url": "https://w.example.com?key=k"}, "base_url: expected the URL"),
        ({**OFFLINE, "dir": ""}, "dir: expected the folder with W&B's offline-run-"),
        ({**OFFLINE, "dir": "wandb"}, "dir: expected the folder with W&B's offline-run-"),
        ({**OFFLINE, "base_url": "https://x"}, "base_url: only with mode: online"),
    ],
)
def test_a_mistake_names_the_key_and_what_was_expected(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TrackerPart(**fields)
    assert says in str(caught.value)
