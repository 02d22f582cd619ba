"""The run that the samples of signals speak of, in a real ledger, and the samples themselves."""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tests.domain.samples import (
    DIGEST,
    DRI,
    HOLDER,
    LOOP,
    START,
    checkpoint,
    clear,
    contract,
    job,
    listing,
    seen,
)
from watchkeeper import clock
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.signals import parse_message
from watchkeeper.adapters.store.recorder import SqliteRecorder
from watchkeeper.adapters.store.sqlite import SqliteStore
from watchkeeper.domain.rules.launch.commands import (
    ApproveLaunch,
    ConfirmLaunched,
    DraftRun,
    RequestLaunch,
)
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.watch.commands import RecordCheck, TakeWatch
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.observation.signals import Delivery, Parsed, Signal
from watchkeeper.domain.values.secrets.scrubbing import Scrubber
from watchkeeper.services.ledger.ledger import Handled, Ledger
from watchkeeper.services.signals.inbound import Inbox

RUN = "grug-moe-1e23-ep8"
SUBMISSION = "ray-run-ada-grug_moe_1e23_ep8-20261118-173012"
IRIS_JOB = "/ada/grug-moe-1e23-ep8"
BUCKET = "gs://example-tpu-us-east5"
ROOT = f"{BUCKET}/checkpoints/{RUN}"
TEMPORARY = f"{BUCKET}/tmp/ttl=14d/checkpoints-temp/{RUN}"
NODE = "ray-tpu-us-east5-a-worker-3f9c21d0"
SCRUBBER = Scrubber(b"a deployment's key")
RECEIVED = datetime(2026, 11, 25, tzinfo=UTC)

FIXTURES = Path(__file__).parents[1] / "fixtures"
SAMPLES = FIXTURES / "signals"


@cache
def index() -> dict[str, dict[str, Any]]:
    """What the index says of each sample, by name."""
    rows: list[dict[str, Any]] = json.loads((SAMPLES / "index.json").read_text())
    return {row["name"]: row for row in rows}


@cache
def sample(name: str) -> dict[str, Any]:
    """A sample with its envelope."""
    found: dict[str, Any] = json.loads((SAMPLES / f"{name}.json").read_text())
    return found


def delivery(name: str, **changes: Any) -> Delivery:
    """A sample as a transport delivers it."""
    found = sample(name)
    message = found["message"]
    made = Delivery(
        transport=found["subscription"],
        message_id=message["messageId"],
        data=b64decode(message.get("data", "")),
        attributes=message["attributes"],
        published_at=datetime.fromisoformat(message["publishTime"]),
        received_at=RECEIVED,
        attempt=found.get("deliveryAttempt"),
    )
    return replace(made, **changes)


def with_body(name: str, change: Mapping[str, Any], **attributes: str) -> Delivery:
    """A sample whose JSON has other values at its top; a relay's digest is left out."""
    made = delivery(name)
    body = {**json.loads(made.data), **change}
    around = {k: v for k, v in made.attributes.items() if k != "relay-body-sha256"}
    return replace(made, data=json.dumps(body).encode(), attributes={**around, **attributes})


def parsed(name: str) -> Parsed:
    """What the parser makes of a sample."""
    return parse_message(delivery(name), SCRUBBER)


def signals(name: str) -> tuple[Signal, ...]:
    """The signals of a sample; it must have some."""
    found = parsed(name)
    assert isinstance(found, tuple), found
    return found


def promised(**changes: Any) -> Contract:
    """The contract of the run that the samples speak of."""
    return contract(
        **{
            "orchestrator": {"cluster": "us-east5-a"},
            "code": {"remote": "https://github.com/example-org/marin.git"},
            "logbook": {"branch": f"logbook/{RUN}"},
            "issue": "https://github.com/example-org/marin/issues/4821",
            "hardware": {"type": "v5p-256", "topology": "1 slice", "region": "us-east5"},
            "output_root": ROOT,
            "output_region": "us-east5",
            "checkpoints": {"root": ROOT},
            "final_step": {"value": 155_000},
            "signals": {
                "roots": (TEMPORARY,),
                "nodes": (NODE,),
                "pools": ("hero-v5p-256-a",),
                "budgets": ("de72f49d-779b-4945-a127-4d6ce8def0bb",),
            },
            **changes,
        }
    )


def inbox(store: SqliteStore, home: Path) -> Inbox:
    """The way in to a ledger, as the service makes it."""
    ledger = Ledger(store, SCRUBBER)
    return Inbox(ledger, SqliteRecorder(store), create_home(home), parse_message)


def launch(ledger: Ledger, submission: str = SUBMISSION, whose: Contract | None = None) -> None:
    """Draft, approve and launch the run."""
    made = whose or promised()
    now = START
    ask = {"now": now, "actor": DRI, "submission_id": submission, "facts": clear()}
    told(ledger, DraftRun(now=now, actor=DRI, contract=made), made.run)
    run = told(ledger, RequestLaunch.model_validate(ask), made.run)
    assert run.launch.preflight is not None
    told(ledger, ApproveLaunch(now=now, actor=DRI, digest=run.launch.preflight.digest), made.run)
    told(ledger, RequestLaunch.model_validate(ask), made.run)
    told(ledger, TakeWatch(now=now, actor=LOOP, holder=HOLDER, same_home=True), made.run)
    confirm = ConfirmLaunched(now=now, actor=LOOP, instance="i1", launched_at=now)
    told(ledger, confirm, made.run)


def check(ledger: Ledger, submission: str = SUBMISSION) -> None:
    """Check the run once, at the present: it trains, and has two checkpoints."""
    run = ledger.run(RUN)
    assert isinstance(run, Run)
    written = datetime(2026, 11, 19, 15, tzinfo=UTC)
    found = [
        checkpoint(step, path=f"{ROOT}/step-{step}", written_at=written)
        for step in (100_000, 110_000)
    ]
    now = clock.now()
    observed = seen(
        at=now,
        said=job(submission_id=submission),
        step=120_000,
        found=listing(*found).model_copy(update={"root": ROOT}),
    )
    record = RecordCheck(
        now=now, actor=LOOP, token=run.watch.token, observation=observed, digest=DIGEST
    )
    told(ledger, record)


def told(ledger: Ledger, command: Command, run: str = RUN) -> Run:
    """Give a command that must be taken."""
    handled = ledger.handle(run, command)  # type: ignore[arg-type]
    assert isinstance(handled, Handled), handled
    return handled.run


def driver_of(job: str, submission: str) -> Delivery:
    """Ray's word on which submission started a driver, as it was captured; an id in base64."""
    config = {"serializedRuntimeEnv": "{}", "metadata": {"job_submission_id": submission}}
    defined = {"jobId": job, "driverPid": "4774", "config": config}
    return with_body(
        "ray_event_driver_job_definition",
        {"driverJobDefinitionEvent": defined, "timestamp": "2026-11-20T23:00:00Z"},
    )


def inventory() -> list[Delivery]:
    """What teaches which machines and jobs are the run's, beside the samples themselves."""
    jobs = [driver_of(name, SUBMISSION) for name in ("AQAAAA==", "AgAAAA==")]
    pod = with_body(
        "log_levanter_progress",
        {
            "insertId": "pod-1",
            "labels": {"k8s-pod/run": RUN},
            "resource": {
                "type": "k8s_container",
                "labels": {"namespace_name": "iris", "pod_name": f"{RUN}-worker-3"},
            },
        },
    )
    return [
        *jobs,
        pod,
        delivery("log_levanter_progress"),
        delivery("ray_event_node_definition"),
    ]
