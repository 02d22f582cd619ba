"""`setup gcp`: the plan is data; applying it twice changes nothing the second time."""

import json
import os
import re
import shlex
import stat
import sys
from pathlib import Path
from typing import Any

import pytest
from google.cloud import pubsub_v1

from tests.every_row import every_row
from watchkeeper import clock
from watchkeeper.adapters.cli import run
from watchkeeper.adapters.gcp.commands import making
from watchkeeper.adapters.gcp.filters import FILTER_BYTES_MAX, log_filter, object_filter
from watchkeeper.adapters.gcp.plan import Settings, plan
from watchkeeper.adapters.signals import parse_message
from watchkeeper.domain.values.observation.signals import Delivery, Ignored
from watchkeeper.domain.values.secrets.scrubbing import Scrubber

PROJECT = "my-project-1"
ACCOUNT = f"serviceAccount:wk@{PROJECT}.iam.gserviceaccount.com"
FULL = Settings(PROJECT, buckets=("ckpt",), prefixes=("checkpoints/", "hero/"), account=ACCOUNT)
WORDS = ("--bucket", "ckpt", "--prefix", "checkpoints/", "--prefix", "hero/", "--account", ACCOUNT)


@pytest.fixture
def no_gcloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(["admin", "setup", "gcp", "--project", PROJECT, *words]) == code
    said = capsys.readouterr()
    return said.out + said.err


# --- The plan -----------------------------------------------------------------------------------


def test_what_feeds_comes_after_what_keeps() -> None:
    """A subscription sees only what is published after it was made."""
    kinds = [one.kind for one in plan(FULL)]
    last = max(number for number, kind in enumerate(kinds) if kind == "subscription")
    first = min(number for number, kind in enumerate(kinds) if kind in ("sink", "notification"))
    assert last < first


def test_every_right_is_on_one_resource_and_needed() -> None:
    bindings = [one for one in plan(FULL) if one.kind == "binding"]
    roles = {str(one.settings["role"]) for one in bindings}
    assert roles == {
        "roles/pubsub.publisher", "roles/pubsub.subscriber", "roles/storage.objectViewer",
    }  # fmt: skip
    assert not any(one.name == f"projects/{PROJECT}" for one in bindings), "none on the project"
    ours = {str(one.settings["role"]) for one in bindings if one.settings["member"] == ACCOUNT}
    assert ours == {"roles/pubsub.subscriber", "roles/storage.objectViewer"}
    assert all(one.why for one in plan(FULL))


def test_every_subscription_but_that_of_the_dead_has_a_dead_letter_topic() -> None:
    for one in plan(FULL):
        if one.kind != "subscription":
            continue
        dead = one.name.endswith("-dead")
        assert str(one.settings.get("dead_letter_topic", "")).endswith("-dead") is not dead
        assert one.settings["expires"] is False


def test_without_buckets_nothing_of_buckets_is_planned() -> None:
    text = json.dumps([making(one, PROJECT) for one in plan(Settings(PROJECT))])
    assert "gs-project-accounts" not in text
    assert "gs://" not in text
    assert "objects" not in text


def test_a_filter_is_never_longer_than_one_may_be() -> None:
    assert len(object_filter([f"checkpoints/{n}/" for n in range(50)])) <= FILTER_BYTES_MAX
    assert "hasPrefix" in object_filter(["checkpoints/"])


# Written again and again, or told by the checks as well: the sink brings none of these lines.
_LEFT = {
    "log_autoscaler_unsatisfied",
    "log_levanter_checkpoint_started",
    "log_levanter_progress",
    "log_nan_loss",
    "log_secret_in_entrypoint",
}
_SAMPLES = sorted(
    path
    for path in (Path(__file__).parent / "fixtures" / "signals").glob("log_*.json")
    if "textPayload" in json.loads(path.read_text())["decoded"]
)


@every_row("path", _SAMPLES, ids=[path.stem for path in _SAMPLES])
def test_the_sink_lets_lines_through_that_come_once(path: Path) -> None:
    entry = json.loads(path.read_text())["decoded"]
    written = str(entry["labels"]["agent.googleapis.com/log_file_path"])
    said = str(entry["textPayload"])
    file, line = (str(one) for one in re.findall(r'=~"([^"]*)"', log_filter("p").split(" OR ")[0]))
    comes = re.search(file, written) is not None and re.search(line, said) is not None
    assert comes is (path.stem not in _LEFT)


def test_the_commands_are_words_that_a_shell_leaves_whole() -> None:
    resources = plan(FULL)
    for one in resources:
        command = making(one, PROJECT)
        assert shlex.split(shlex.join(command)) == list(command)
        assert command[0] == "gcloud"
        assert not any("\n" in word for word in command)


def test_the_tick_that_is_planned_is_one_that_is_understood() -> None:
    [tick] = [one for one in plan(FULL) if one.kind == "tick"]
    attributes = tick.settings["attributes"]
    assert isinstance(attributes, dict)
    now = clock.now()
    told = {name: str(value) for name, value in attributes.items()}
    message = Delivery("test", "1", str(tick.settings["body"]).encode(), told, now, now)
    assert isinstance(parse_message(message, Scrubber(b"key")), Ignored)


# --- The command line ---------------------------------------------------------------------------


def test_a_plan_needs_nothing_and_says_why_for_each(
    capsys: pytest.CaptureFixture[str], no_gcloud: None
) -> None:
    text = told(capsys, "--plan", *WORDS)
    for one in plan(FULL):
        assert one.name in text
        assert one.why in text
    assert f"watchkeeper watch --signals projects/{PROJECT}/subscriptions/watchkeeper-dead" in text
    rows = json.loads(told(capsys, "--plan", "--json", *WORDS))["resources"]
    assert [row["kind"] for row in rows] == [one.kind for one in plan(FULL)]
    commands = told(capsys, "--plan", "--commands", *WORDS).splitlines()
    assert commands == [row["command"] for row in rows]
    # What only the project can tell is asked for by the shell that runs them.
    assert "PROJECT_NUMBER" not in "".join(commands)
    assert "$(gcloud projects describe my-project-1" in "".join(commands)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "--plan"),
        (("--plan", "--apply"), "--plan"),
        (("--apply", "--commands"), "--commands goes with --plan"),
        (("--plan", "--bucket", "Ckpt!"), "--bucket Ckpt!"),
        (("--plan", "--prefix", "a/"), "add --bucket"),
        (("--plan", "--bucket", "ckpt", "--prefix", "gs://ckpt/a"), "without its bucket"),
        (("--plan", "--account", "wk"), "serviceAccount:NAME@PROJECT"),
        (("--plan", "--name", "Watch keeper"), "--name Watch keeper"),
    ],
)
def test_bad_settings_are_told(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert says in told(capsys, *words, code=4)


# --- Applying -----------------------------------------------------------------------------------


@pytest.fixture
def project(pubsub_project: str) -> str:
    return pubsub_project


def applied(capsys: pytest.CaptureFixture[str], project: str, *words: str) -> dict[str, Any]:
    capsys.readouterr()
    run(["admin", "setup", "gcp", "--project", project, "--apply", "--json", *words])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.pubsub
def test_applying_makes_topics_and_subscriptions_once(
    capsys: pytest.CaptureFixture[str], project: str
) -> None:
    first = applied(capsys, project, *WORDS)
    states = {row["what"]: row["state"] for row in first["resources"]}
    made = [what for what, state in states.items() if state == "made"]
    assert len(made) == 6
    # An emulator has none of the rest, and the real cloud must not get what belongs to a test.
    assert set(states.values()) == {"made", "not run"}
    assert len(first["to_run"]) == len(states) - 6
    second = applied(capsys, project, *WORDS)
    assert {row["state"] for row in second["resources"]} == {"there", "not run"}
    client: Any = pubsub_v1.SubscriberClient()
    name = f"projects/{project}/subscriptions/watchkeeper-objects"
    found = client.get_subscription(subscription=name)
    assert found.ack_deadline_seconds == 60
    assert found.enable_exactly_once_delivery
    assert found.message_retention_duration.days == 7
    assert found.dead_letter_policy.max_delivery_attempts == 10
    assert "hasPrefix" in found.filter


@pytest.mark.pubsub
def test_what_differs_is_told_and_left(capsys: pytest.CaptureFixture[str], project: str) -> None:
    client: Any = pubsub_v1.SubscriberClient()
    publisher: Any = pubsub_v1.PublisherClient()
    named = f"projects/{project}/topics/watchkeeper-signals"
    publisher.create_topic(name=named)
    name = f"projects/{project}/subscriptions/watchkeeper-signals"
    client.create_subscription(request={"name": name, "topic": named, "ack_deadline_seconds": 11})
    rows = applied(capsys, project)["resources"]
    [row] = [row for row in rows if row["what"] == f"subscription {name}"]
    assert row["state"] == "differs"
    assert "ack deadline s is 11, the plan says 60" in row["says"]
    assert client.get_subscription(subscription=name).ack_deadline_seconds == 11


@pytest.mark.pubsub
def test_without_gcloud_it_says_what_is_left_to_run(
    capsys: pytest.CaptureFixture[str], project: str, no_gcloud: None
) -> None:
    run(["admin", "setup", "gcp", "--project", project, "--apply"])
    said = capsys.readouterr().out
    assert "NOT created: gcloud is missing" in said
    assert "gcloud logging sinks create watchkeeper-audit" in said


FAKE = """#!{python}
'''A fake of gcloud that keeps what it is told to make: the real one needs a project.'''
import json, os, sys
path = os.environ["FAKE_GCLOUD"]
kept = json.load(open(path))
words = sys.argv[1:]
kept["calls"].append(words)
def end(text="", code=0, error=""):
    json.dump(kept, open(path, "w"))
    print(text); print(error, file=sys.stderr); sys.exit(code)
options = dict(w.lstrip("-").partition("=")[::2] for w in words if w.startswith("--"))
plain = [w for w in words if not w.startswith("--")]
if kept.get("broken") and kept["broken"] in plain: end(code=1, error="ERROR: (gcloud) 503 backend")
if plain[:2] == ["projects", "describe"]: end("424242")
if "create" in plain:
    what = plain[plain.index("create") - 1]
    if what == "sinks":
        sink = dict(filter=options["log-filter"], destination=plain[-1])
        kept["made"]["sink " + plain[-2]] = sink
    elif what == "notifications":
        kept["made"].setdefault("notes", []).append({{"Notification Configuration": dict(
            topic="//pubsub.googleapis.com/" + options["topic"],
            object_name_prefix=options.get("object-prefix", ""))}})
    elif what == "channels":
        label = options["channel-labels"].partition("=")[2]
        kept["made"].setdefault("channels", []).append(dict(labels=dict(topic=label)))
    else:
        kept["made"]["job"] = dict(schedule=options["schedule"],
            pubsubTarget=dict(topicName=options["topic"]))
    end("{{}}")
if "sinks" in plain:
    found = kept["made"].get("sink " + plain[-1])
    if found is None: end(code=1, error="ERROR: NOT_FOUND: no sink")
    if options["format"] != "json": end("serviceAccount:sink@gcp-sa-logging.example")
    end(json.dumps(found))
if "notifications" in plain: end(json.dumps(kept["made"].get("notes", [])))
if "channels" in plain: end(json.dumps(kept["made"].get("channels", [])))
if "jobs" in plain:
    if "job" not in kept["made"]: end(code=1, error="ERROR: NOT_FOUND: no job")
    end(json.dumps(kept["made"]["job"]))
place = "policy " + " ".join(plain[:-2] + plain[-1:])
if "get-iam-policy" in plain: end(json.dumps(dict(bindings=kept["made"].get(place, []))))
kept["made"].setdefault(place, []).append(dict(role=options["role"], members=[options["member"]]))
end("{{}}")
"""


@pytest.fixture
def fake_gcloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake `gcloud`, since the real one makes things in a real project only."""
    program = tmp_path / "bin" / "gcloud"
    program.parent.mkdir()
    program.write_text(FAKE.format(python=sys.executable))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    state = tmp_path / "gcloud.json"
    state.write_text(json.dumps({"calls": [], "made": {}}))
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_GCLOUD", str(state))
    return state


@pytest.fixture
def elsewhere(pubsub_project: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The emulator, reached although no variable names it: as the real service is."""
    address = os.environ["PUBSUB_EMULATOR_HOST"]
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST")
    for name in ("PublisherClient", "SubscriberClient"):
        made = getattr(pubsub_v1, name)

        def reached(made: Any = made) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PUBSUB_EMULATOR_HOST", address)
                return made()

        monkeypatch.setattr(pubsub_v1, name, reached)
    return pubsub_project


@pytest.mark.pubsub
def test_gcloud_makes_the_rest_once_after_showing_each_command(
    capsys: pytest.CaptureFixture[str], elsewhere: str, fake_gcloud: Path
) -> None:
    assert run(["admin", "setup", "gcp", "--project", elsewhere, "--apply", *WORDS]) == 0
    said = capsys.readouterr().out
    assert "$ gcloud logging sinks create watchkeeper-audit" in said
    kept = json.loads(fake_gcloud.read_text())
    granted = [v[0]["members"][0] for k, v in kept["made"].items() if k.startswith("policy ")]
    assert any("service-424242@" in member for member in granted)
    assert not any("{" in member for member in granted)
    calls = len(kept["calls"])
    second = applied(capsys, elsewhere, *WORDS)
    assert {row["state"] for row in second["resources"]} == {"there"}
    later = json.loads(fake_gcloud.read_text())["calls"][calls:]
    assert not any("create" in words or "add-iam-policy-binding" in words for words in later)


@pytest.mark.pubsub
def test_what_cannot_be_asked_for_is_not_made(
    capsys: pytest.CaptureFixture[str], elsewhere: str, fake_gcloud: Path
) -> None:
    """A second notification for one prefix would double every message of it."""
    fake_gcloud.write_text(json.dumps({"calls": [], "made": {}, "broken": "notifications"}))
    rows = applied(capsys, elsewhere, *WORDS)["resources"]
    failed = [row for row in rows if row["state"] == "failed"]
    assert [row["what"] for row in failed] == [
        "notification gs://ckpt/checkpoints/", "notification gs://ckpt/hero/",
    ]  # fmt: skip
    assert "503 backend" in failed[0]["says"]
    calls = json.loads(fake_gcloud.read_text())["calls"]
    assert not any("notifications" in words and "create" in words for words in calls)
