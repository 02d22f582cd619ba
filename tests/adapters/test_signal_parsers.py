"""Every sample of a signal is read, binds and does what the index says of it."""

import json
import random
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import pytest

from tests.adapters.signal_world import (
    BUCKET,
    FIXTURES,
    IRIS_JOB,
    RECEIVED,
    ROOT,
    RUN,
    SCRUBBER,
    SUBMISSION,
    TEMPORARY,
    check,
    delivery,
    inbox,
    index,
    inventory,
    launch,
    parsed,
    promised,
    sample,
    signals,
    with_body,
)
from tests.every_row import every_row
from watchkeeper.adapters.signals import parse_message
from watchkeeper.adapters.signals.log_lines import PATTERNS
from watchkeeper.adapters.store.sqlite import open_store
from watchkeeper.domain.rules.signals.receiving import cause_by_witnesses, doubt_about
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.run.signals import SignalReceived
from watchkeeper.domain.values.observation.signals import (
    URGENT,
    Claims,
    Delivery,
    Ignored,
    Poison,
    Signal,
    SignalKind,
)
from watchkeeper.services.ledger.ledger import Ledger
from watchkeeper.services.signals.inbound import Inbox, Outcome

K = SignalKind


@dataclass(frozen=True)
class Expected:
    """What becomes of a sample.

    Attributes:
        kinds: Of its signals; none when it becomes no signal.
        outcome: What the inbox says.
        bound: Whether it stands in the run's history.
        sooner: Whether the run's next check is brought forward.
    """

    kinds: tuple[SignalKind, ...]
    outcome: Outcome = Outcome.RECORDED
    bound: bool = True
    sooner: bool = False


def urgent(*kinds: SignalKind) -> Expected:
    return Expected(kinds, sooner=True)


def quiet(*kinds: SignalKind) -> Expected:
    return Expected(kinds)


def unbound(*kinds: SignalKind) -> Expected:
    return Expected(kinds, Outcome.KEPT, bound=False)


DROPPED = Expected((), Outcome.COUNTED, bound=False)

TABLE: dict[str, Expected] = {
    "gcs_finalize_checkpoint_permanent": urgent(K.CHECKPOINT_WRITTEN),
    "gcs_finalize_checkpoint_temporary": urgent(K.CHECKPOINT_WRITTEN),
    "gcs_finalize_checkpoint_chunk": DROPPED,
    "gcs_finalize_checkpoint_overwrite": urgent(K.CHECKPOINT_WRITTEN),
    "gcs_delete_overwritten": quiet(K.CHECKPOINT_REPLACED),
    "gcs_delete_checkpoint_metadata": urgent(K.CHECKPOINT_GONE),
    "gcs_delete_checkpoint_chunk_first": urgent(K.CHECKPOINT_GONE),
    "gcs_finalize_payload_none": urgent(K.CHECKPOINT_WRITTEN),
    "audit_tpu_create_node_first": quiet(K.NODE_STARTING),
    "audit_tpu_create_node_last": quiet(K.NODE_UP),
    "audit_tpu_create_node_stockout": unbound(K.CAPACITY_REFUSED),
    "audit_tpu_delete_node_last": urgent(K.NODE_LOST),
    "audit_tpu_queued_resource_create_last": quiet(K.CAPACITY_WAITING),
    "audit_gce_preempted": urgent(K.NODE_PREEMPTED),
    "audit_gce_host_error": urgent(K.HARDWARE_FAILED),
    "audit_gce_terminate_on_host_maintenance": urgent(K.MAINTENANCE_STARTED),
    "audit_gce_upcoming_maintenance": quiet(K.MAINTENANCE_PLANNED),
    "tpu_node_state_preempted": urgent(K.NODE_PREEMPTED),
    "tpu_node_state_upcoming_maintenance": quiet(K.MAINTENANCE_PLANNED),
    "tpu_queued_resource_suspended": urgent(K.CAPACITY_LOST),
    "tpu_vm_metadata_terminate": urgent(K.MAINTENANCE_STARTED),
    "asset_feed_tpu_node_changed": urgent(K.NODE_PREEMPTED),
    "monitoring_disk_open": quiet(K.INCIDENT_OPENED),
    "monitoring_disk_closed": quiet(K.INCIDENT_CLOSED),
    # It speaks of every run of the cluster, so the index names none; this one lives there.
    "monitoring_uptime_open": quiet(K.SOURCE_UNREACHABLE),
    "scheduler_tick_15m": DROPPED,
    "cloudevent_gcs_finalized_structured": urgent(K.CHECKPOINT_WRITTEN),
    "cloudevent_gcs_finalized_binary": urgent(K.CHECKPOINT_WRITTEN),
    "cloudevent_audit_log_written": urgent(K.NODE_LOST),
    # The inventory holds it already, as what teaches where the driver runs.
    "log_levanter_progress": Expected((K.LOG_PROGRESS,), Outcome.KNOWN),
    "log_levanter_checkpoint_saved": quiet(K.LOG_CHECKPOINT),
    "log_levanter_checkpoint_started": quiet(K.LOG_CHECKPOINT),
    "log_xla_hbm_oom": urgent(K.LOG_ALARM),
    "log_ray_owner_died": urgent(K.LOG_ALARM),
    "log_tpu_bad_node": urgent(K.LOG_ALARM),
    "log_tpu_no_accelerator": urgent(K.LOG_ALARM),
    # Nobody asked for such machines.
    "log_autoscaler_unsatisfied": unbound(K.CAPACITY_REFUSED),
    "log_wandb_view_run": quiet(K.TRACKER_NAMED),
    "log_enospc_runtime_env": urgent(K.LOG_ALARM),
    "log_nan_loss": urgent(K.LOG_ALARM),
    "log_secret_in_entrypoint": quiet(K.OTHER),
    "log_ray_gcs_node_removed": urgent(K.NODE_LOST),
    "log_ray_job_completed": urgent(K.JOB_STATE),
    "log_k8s_event_evicted": urgent(K.PROCESS_DIED),
    "gke_upgrade_event": unbound(K.MAINTENANCE_PLANNED),
    "github_issue_comment_approval": quiet(K.COMMENT),
    "github_issue_comment_edited": quiet(K.COMMENT_CHANGED),
    "github_issue_comment_own": DROPPED,
    "github_push_logbook": quiet(K.BRANCH_PUSHED),
    "github_push_forced": quiet(K.HISTORY_REWRITTEN),
    "github_push_seal_tag": quiet(K.TAG_PUSHED),
    "wandb_run_state_failed": urgent(K.TRACKER_STATE),
    "wandb_metric_threshold": urgent(K.TRACKER_ALERT),
    "ray_job_pending": urgent(K.JOB_STATE),
    "ray_job_running": urgent(K.JOB_STATE),
    "ray_job_failed_exit_code": urgent(K.JOB_STATE),
    "ray_job_failed_supervisor_timeout": urgent(K.JOB_STATE),
    "ray_job_failed_actor_died": urgent(K.JOB_STATE),
    "ray_job_stopped": urgent(K.JOB_STATE),
    "ray_job_succeeded": urgent(K.JOB_STATE),
    "ray_event_node_definition": Expected((K.IDENTITY,), Outcome.KNOWN),
    "ray_event_node_alive": quiet(K.NODE_UP),
    "ray_event_node_dead_unexpected": urgent(K.NODE_LOST),
    "ray_event_node_dead_preempted": urgent(K.NODE_PREEMPTED),
    "ray_event_driver_job_definition": quiet(K.IDENTITY),
    "ray_event_driver_job_created": urgent(K.JOB_STATE),
    "ray_event_worker_dead": quiet(K.OTHER),
    "ray_event_actor_dead_node_died": urgent(K.PROCESS_DIED),
    "ray_event_submission_job_failed": urgent(K.JOB_STATE),
    "ray_event_platform_oomkilled": urgent(K.PROCESS_DIED),
    # It speaks of whoever asked for such machines.
    "ray_cluster_status_polled": quiet(K.CAPACITY_WAITING),
    "iris_job_running": urgent(K.JOB_STATE),
    "iris_task_worker_failed": urgent(K.TASK_STATE),
    "iris_task_cosched_failed": urgent(K.TASK_STATE),
    "iris_job_unschedulable": urgent(K.JOB_STATE),
    "billing_budget_alert": quiet(K.BUDGET),
    "dead_letter_forwarded": urgent(K.LOG_ALARM),
    "poison_not_json": Expected((), Outcome.QUARANTINED, bound=False),
    "unknown_object_path": unbound(K.CHECKPOINT_WRITTEN),
    # Of its two signals the one about the allocated node is bound.
    "ray_event_autoscaler_provisioning_failed": urgent(K.CAPACITY_GRANTED, K.CAPACITY_REFUSED),
}

CLUSTER_WIDE = frozenset({"monitoring_uptime_open", "ray_cluster_status_polled"})


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ledgers with the run launched and the inventory taken in, by orchestrator."""
    folder = tmp_path_factory.mktemp("worlds")
    for name, submission in (("ray", SUBMISSION), ("iris", IRIS_JOB)):
        (folder / name).mkdir()
        with open_store(folder / name / "ledger.db") as store:
            launch(Ledger(store, SCRUBBER), submission)
            entry = inbox(store, folder / name / "home")
            for one in inventory():
                assert entry.take(one) in (Outcome.RECORDED, Outcome.KNOWN, Outcome.KEPT)
            # The inventory brought a check forward; the next one is due in its turn.
            check(Ledger(store, SCRUBBER), submission)
    return folder


@dataclass
class World:
    """A ledger of a test's own, and the way in to it."""

    ledger: Ledger
    inbox: Inbox

    @property
    def run(self) -> Run:
        run = self.ledger.run(RUN)
        assert isinstance(run, Run)
        return run

    def received(self) -> list[SignalReceived]:
        return [e.data for e in self.ledger.history(RUN) if isinstance(e.data, SignalReceived)]


@pytest.fixture
def orchestrator(request: pytest.FixtureRequest) -> str:
    asked: Any = request
    call: Any = getattr(asked.node, "callspec", None)
    name: str = "" if call is None else call.params.get("name", "")
    return "iris" if name.startswith("iris_") else "ray"


@pytest.fixture
def world(worlds: Path, orchestrator: str, tmp_path: Path) -> Iterator[World]:
    shutil.copytree(worlds / orchestrator, tmp_path / "world")
    with open_store(tmp_path / "world" / "ledger.db") as store:
        entry = inbox(store, tmp_path / "world" / "home")
        yield World(Ledger(store, SCRUBBER), entry)


# --- The table ------------------------------------------------------------------------------------


def test_the_table_names_every_sample() -> None:
    assert set(TABLE) == set(index())


@every_row("name", TABLE)
def test_a_sample_is_read_as_what_it_is(name: str) -> None:
    found = parsed(name)
    kinds = tuple(one.kind for one in found) if isinstance(found, tuple) else ()
    assert kinds == TABLE[name].kinds, found


@pytest.mark.parametrize("name", TABLE)
def test_a_sample_binds_and_does_as_its_index_says(world: World, name: str) -> None:
    expected = TABLE[name]
    due = world.run.watch.next_due
    assert due is not None
    outcome = world.inbox.take(delivery(name))
    assert outcome is expected.outcome
    mine = [one for one in parsed_signals(name) if one in received_keys(world)]
    assert bool(mine) == expected.bound or outcome is Outcome.KNOWN
    stated = sample(name)["binds_to"]["run"]
    if name not in CLUSTER_WIDE and expected.kinds:
        assert (stated == RUN) == expected.bound
    after = world.run.watch.next_due
    assert after is not None
    assert (after < due) == expected.sooner
    assert world.inbox.take(delivery(name)) in (Outcome.KNOWN, Outcome.COUNTED)


def parsed_signals(name: str) -> list[tuple[str, str]]:
    found = parsed(name)
    return [(one.source, one.key) for one in found] if isinstance(found, tuple) else []


def received_keys(world: World) -> set[tuple[str, str]]:
    return {(one.signal.source, one.signal.key) for one in world.received()}


SIBLINGS = [
    (
        "gcs_finalize_checkpoint_permanent",
        "cloudevent_gcs_finalized_structured",
        "cloudevent_gcs_finalized_binary",
    ),
    ("audit_tpu_delete_node_last", "cloudevent_audit_log_written"),
    ("log_xla_hbm_oom", "dead_letter_forwarded"),
]


@pytest.mark.parametrize("names", SIBLINGS, ids=lambda names: names[0])
def test_one_fact_by_several_ways_has_one_name_and_one_meaning(names: tuple[str, ...]) -> None:
    found = [signals(name) for name in names]
    assert len({(one.source, one.key, one.kind, one.subject) for [one] in found}) == 1
    assert len({(one.occurred_at, one.summary) for [one] in found}) == 1


@pytest.mark.parametrize("names", SIBLINGS, ids=lambda names: names[0])
def test_one_fact_by_several_ways_is_recorded_once(world: World, names: tuple[str, ...]) -> None:
    outcomes = [world.inbox.take(delivery(name)) for name in names]
    assert outcomes == [Outcome.RECORDED] + [Outcome.KNOWN] * (len(names) - 1)


def test_no_two_other_samples_share_a_name() -> None:
    siblings = {name for names in SIBLINGS for name in names[1:]}
    keys = [key for name in TABLE if name not in siblings for key in parsed_signals(name)]
    assert len(keys) == len(set(keys))


# --- What they do to the run ----------------------------------------------------------------------


def test_a_deleted_part_makes_a_checkpoint_unfit_until_it_is_written_anew(world: World) -> None:
    there = world.run.checkpoints.validated[100_000]
    other = world.run.checkpoints.validated[110_000]
    assert not doubt_about(world.run, there)
    world.inbox.take(delivery("gcs_delete_checkpoint_chunk_first"))
    assert "deleted" in doubt_about(world.run, there)
    assert not doubt_about(world.run, other)
    anew = datetime(2026, 11, 20, 16, 12, tzinfo=UTC)
    assert not doubt_about(world.run, replace(there, written_at=anew))


def test_a_replaced_checkpoint_is_not_lost(world: World) -> None:
    world.inbox.take(gcs_event("OBJECT_DELETE", "metadata.json", overwrittenByGeneration="9"))
    there = world.run.checkpoints.validated[100_000]
    assert not doubt_about(world.run, there)


def test_three_witnesses_of_one_preemption_agree_on_its_cause(world: World) -> None:
    for name in ("audit_gce_preempted", "tpu_node_state_preempted", "audit_tpu_delete_node_last"):
        world.inbox.take(delivery(name))
    ended = datetime(2026, 11, 20, 2, 39, 55, tzinfo=UTC)
    assert cause_by_witnesses(world.run, ended) == "preemption"


def test_what_is_recorded_says_which_instance_it_is_about(world: World) -> None:
    world.inbox.take(delivery("log_xla_hbm_oom"))
    last = world.received()[-1]
    assert (last.instance, last.bound_by) == ("i1", f"submission:{SUBMISSION}")


def test_an_old_word_of_a_job_still_teaches_which_machines_are_its(world: World) -> None:
    world.inbox.take(delivery("ray_job_succeeded"))
    job = json.loads(delivery("ray_job_running").data)["job"] | {"job_id": "03000000"}
    assert world.inbox.take(with_body("ray_job_running", {"job": job})) is Outcome.KNOWN
    death = json.loads(delivery("ray_event_worker_dead").data)["workerLifecycleEvent"]
    told = with_body(
        "ray_event_worker_dead", {"workerLifecycleEvent": {**death, "jobId": "AwAAAA=="}}
    )
    assert world.inbox.take(told) is Outcome.RECORDED
    assert world.received()[-1].bound_by == "job:us-east5-a/03000000"


def test_no_secret_of_a_log_line_reaches_the_ledger(world: World) -> None:
    world.inbox.take(delivery("log_secret_in_entrypoint"))
    stored = b"".join(bytes(event.state) for event in world.ledger.store.read_all(limit=1000))
    assert b"0123456789abcdef0123456789abcdef01234567" not in stored
    assert b"hf_AbCdEfGh" not in stored
    assert SUBMISSION.encode() in stored
    [one] = signals("log_secret_in_entrypoint")
    assert one.clues[0] == f"submission:{SUBMISSION}"
    assert "0123456789abcdef0123456789abcdef01234567" not in str(one)


def test_a_secret_is_taken_out_before_a_line_is_cut() -> None:
    """Nobody would know the half of it for a secret."""
    secret = "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh"
    for before in range(250, 300, 7):
        line = f"preempted {'x' * before} {secret}"
        found = parse_message(with_body("log_levanter_progress", {"textPayload": line}), SCRUBBER)
        assert secret[:8] not in str(found)


@every_row("name", [n for n in TABLE if n != "log_secret_in_entrypoint"])
def test_scrubbing_takes_nothing_from_a_sample_without_secrets(name: str) -> None:
    assert "redacted" not in str(parsed(name))


def test_what_belongs_to_nobody_in_a_repository_is_only_counted(world: World) -> None:
    for name, change in (
        ("github_push_forced", {"ref": "refs/heads/ada/wip"}),
        (
            "github_issue_comment_approval",
            {"issue": {"html_url": "https://github.com/o/r/issues/1"}},
        ),
    ):
        assert world.inbox.take(with_body(name, change)) is Outcome.COUNTED
    assert not world.ledger.box().kept


def test_a_branch_of_many_logbooks_speaks_of_all_when_it_is_rewritten(world: World) -> None:
    for run in ("other-run", "third-run"):
        root = f"{BUCKET}/checkpoints/{run}"
        whose = promised(
            run=run,
            output_root=root,
            checkpoints={"root": root},
            signals={},
            logbook={"branch": "main"},
            tracker={"id": run, "display_name": run},
        )
        launch(world.ledger, f"{run}-i1", whose)
    main = "refs/heads/main"
    assert world.inbox.take(with_body("github_push_forced", {"ref": main})) is Outcome.RECORDED
    for run in ("other-run", "third-run"):
        assert SignalReceived in {type(event.data) for event in world.ledger.history(run)}
    commits = [{"id": "e9d71f5", "modified": [".agents/logbooks/third-run.md"]}]
    push = with_body("github_push_logbook", {"ref": main, "commits": commits})
    later = replace(push, published_at=RECEIVED)
    assert world.inbox.take(later) is Outcome.RECORDED
    last = world.ledger.history("third-run")[-1].data
    assert isinstance(last, SignalReceived)
    assert last.signal.kind is K.BRANCH_PUSHED


# --- In any order ---------------------------------------------------------------------------------


def story_of_the_run() -> list[Delivery]:
    of_the_run = [name for name in TABLE if not name.startswith("iris_")]
    return [*inventory(), *(delivery(name) for name in of_the_run)]


def claims_after(folder: Path, deliveries: list[Delivery]) -> Claims:
    with open_store(folder / "ledger.db") as store:
        ledger = Ledger(store, SCRUBBER)
        launch(ledger)
        entry = inbox(store, folder / "home")
        for one in deliveries:
            entry.take(one)
        while entry.bind_kept():
            pass
        run = Ledger(store, SCRUBBER).run(RUN)
        assert isinstance(run, Run)
        return run.signals.claims


def disorder(seed: int) -> list[Delivery]:
    """All samples of the run in a random order, three of ten of them twice, under new ids."""
    dice = random.Random(seed)
    told = story_of_the_run()
    again = [replace(one, message_id=f"again-{n}") for n, one in enumerate(told)]
    again = dice.sample(again, len(told) * 3 // 10)
    late = [replace(one, received_at=RECEIVED + timedelta(hours=1)) for one in again]
    mixed = [*told, *late]
    dice.shuffle(mixed)
    return mixed


def test_the_same_signals_in_any_order_leave_the_same_claims(tmp_path: Path) -> None:
    expected: Claims | None = None
    for seed in range(20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found = claims_after(folder, disorder(seed))
        shutil.rmtree(folder)
        expected = expected or found
        names = set(found) ^ set(expected)
        other = [name for name in found if found[name] != expected.get(name)]
        assert (names, other) == (set(), []), f"order {seed}"
    assert expected is not None
    assert len(expected) == 37


# --- Cloud Storage --------------------------------------------------------------------------------


def gcs_event(what: str, name: str, step: str = "step-100000", **attributes: str) -> Delivery:
    made = delivery("gcs_finalize_payload_none")
    folder = ROOT.removeprefix(f"{BUCKET}/")
    around = {
        **made.attributes,
        "eventType": what,
        "objectId": f"{folder}/{step}/{name}",
        "objectGeneration": "1795100000000111",
        "eventTime": "2026-11-20T16:10:07.311123Z",
        **attributes,
    }
    return replace(made, attributes=around)


@pytest.mark.parametrize(
    ("what", "name", "attributes", "kind"),
    [
        ("OBJECT_FINALIZE", "metadata.json", {}, K.CHECKPOINT_WRITTEN),
        ("OBJECT_FINALIZE", "metadata.json", {"overwroteGeneration": "7"}, K.CHECKPOINT_WRITTEN),
        ("OBJECT_FINALIZE", "d/0f3ac1", {}, None),
        ("OBJECT_FINALIZE", "d/metadata.json", {}, None),
        ("OBJECT_DELETE", "metadata.json", {}, K.CHECKPOINT_GONE),
        ("OBJECT_ARCHIVE", "metadata.json", {}, K.CHECKPOINT_GONE),
        ("OBJECT_DELETE", "d/0f3ac1", {}, K.CHECKPOINT_GONE),
        (
            "OBJECT_DELETE",
            "metadata.json",
            {"overwrittenByGeneration": "9"},
            K.CHECKPOINT_REPLACED,
        ),
        ("OBJECT_DELETE", "d/0f3ac1", {"overwrittenByGeneration": "9"}, None),
        ("OBJECT_METADATA_UPDATE", "metadata.json", {}, None),
        ("OBJECT_SOMETHING_NEW", "metadata.json", {}, None),
    ],
)
def test_an_event_of_an_object_means_what_it_does_to_the_checkpoint(
    what: str, name: str, attributes: dict[str, str], kind: SignalKind | None
) -> None:
    found = parse_message(gcs_event(what, name, **attributes), SCRUBBER)
    if kind is None:
        assert isinstance(found, Ignored)
        return
    assert isinstance(found, tuple)
    assert [one.kind for one in found] == [kind]
    assert found[0].subject == f"{ROOT}/step-100000"


def test_thousands_of_deleted_parts_are_one_signal_a_minute(world: World) -> None:
    before = len(world.received())
    minute = "2026-11-20T16:10"
    for n in range(300):
        at = f"{minute}:{n % 60:02}.000000Z"
        world.inbox.take(gcs_event("OBJECT_DELETE", f"d/{n:06x}", eventTime=at))
    assert len(world.received()) == before + 1
    [claim] = [c for c in world.run.signals.claims.values() if c.kind is K.CHECKPOINT_GONE]
    assert claim.at == datetime(2026, 11, 20, 16, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    "name",
    [
        "checkpoints/grug-moe-1e23-ep8/../grug-moe-1e23-ep8/step-5/metadata.json",
        "checkpoints//grug-moe-1e23-ep8/step-5/metadata.json",
        "checkpoints/./grug-moe-1e23-ep8/step-5/metadata.json",
        "checkpoints/grug-moe-1e23-ep8-copy/step-5/metadata.json",
        "CHECKPOINTS/grug-moe-1e23-ep8/step-5/metadata.json",
        "/checkpoints/grug-moe-1e23-ep8/step-5/metadata.json",
        "checkpoints%2Fgrug-moe-1e23-ep8/step-5/metadata.json",
    ],
)
def test_a_lookalike_path_binds_to_nothing(world: World, name: str) -> None:
    before = world.run.version
    outcome = world.inbox.take(gcs_event("OBJECT_FINALIZE", "", objectId=name))
    assert outcome is Outcome.KEPT
    assert world.run.version == before


@pytest.mark.parametrize("step", ["step-", "step-1x", "step--5", "step-٣", "xstep-5", "step-5 "])
def test_a_folder_that_is_no_step_is_no_checkpoint(step: str) -> None:
    found = parse_message(gcs_event("OBJECT_FINALIZE", "metadata.json", step), SCRUBBER)
    assert isinstance(found, Ignored)


def test_attributes_and_payload_must_name_one_object() -> None:
    made = delivery("gcs_finalize_checkpoint_permanent")
    around = {**made.attributes, "objectId": "checkpoints/x/step-1/metadata.json"}
    assert isinstance(parse_message(replace(made, attributes=around), SCRUBBER), Poison)


def test_a_temporary_checkpoint_is_subject_of_its_own_root() -> None:
    [one] = signals("gcs_finalize_checkpoint_temporary")
    assert one.subject == f"{TEMPORARY}/step-120431"


@pytest.mark.parametrize("eventTime", ["2026-11-25T00:05:01Z", "2199-12-31T23:59:59Z"])
def test_a_time_that_lies_ahead_outdoes_nothing(eventTime: str) -> None:  # noqa: N803 - GCS's name.
    made = delivery("gcs_finalize_checkpoint_permanent")
    ahead = replace(made, attributes={**made.attributes, "eventTime": eventTime})
    [one] = cast("tuple[Signal, ...]", parse_message(ahead, SCRUBBER))
    assert one.occurred_at == one.published_at
    assert one.facts["claimed_at"].startswith(eventTime[:19])
    silent = replace(ahead, published_at=ahead.received_at + timedelta(days=1))
    [one] = cast("tuple[Signal, ...]", parse_message(silent, SCRUBBER))
    assert one.occurred_at == RECEIVED


# --- Relays ---------------------------------------------------------------------------------------

RELAYED = [name for name in TABLE if name.startswith(("github_", "wandb_"))]


@pytest.mark.parametrize("name", RELAYED)
def test_a_relayed_message_that_nobody_verified_is_put_aside(name: str) -> None:
    made = delivery(name)
    for said in (None, "", "no", "hub-signature"):
        around = {k: v for k, v in made.attributes.items() if k != "relay-verified"}
        around |= {} if said is None else {"relay-verified": said}
        found = parse_message(replace(made, attributes=around), SCRUBBER)
        assert isinstance(found, Poison)
        assert "not verified" in found.reason


@pytest.mark.parametrize("name", RELAYED)
def test_a_relayed_body_that_was_changed_is_put_aside(name: str) -> None:
    made = delivery(name)
    found = parse_message(replace(made, data=made.data + b" "), SCRUBBER)
    assert isinstance(found, Poison)
    assert "SHA-256 differs" in found.reason


def test_only_a_bot_that_signs_its_own_comment_is_taken_for_us() -> None:
    body = json.loads(delivery("github_issue_comment_own").data)
    human = {"login": "mallory", "id": 6666, "type": "User"}
    touched = with_body("github_issue_comment_own", {"sender": human, "action": "edited"})
    faked = with_body(
        "github_issue_comment_own", {"sender": human, "comment": {**body["comment"], "user": human}}
    )
    assert not isinstance(parse_message(faked, SCRUBBER), Ignored | Poison)
    assert parse_message(touched, SCRUBBER) == Ignored("a change of a comment without a command")
    named = with_body("github_issue_comment_approval", {})
    assert parse_message(named, SCRUBBER, frozenset({1001})) == Ignored("our own comment")


def test_hiding_an_approval_behind_our_mark_is_told() -> None:
    body = json.loads(delivery("github_issue_comment_edited").data)
    comment = {**body["comment"], "body": "never mind <!-- watchkeeper:v1 -->"}
    found = parse_message(with_body("github_issue_comment_edited", {"comment": comment}), SCRUBBER)
    assert isinstance(found, tuple)
    assert [one.kind for one in found] == [K.COMMENT_CHANGED]
    assert found[0].facts["before"] == "/watchkeeper approve relaunch prop-01JD8Z6Q3V"


def test_a_deleted_approval_is_told_although_its_time_did_not_move() -> None:
    [given] = signals("github_issue_comment_approval")
    gone = with_body("github_issue_comment_approval", {"action": "deleted"})
    found = parse_message(gone, SCRUBBER)
    assert isinstance(found, tuple)
    assert found[0].kind is K.COMMENT_CHANGED
    assert found[0].key != given.key


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"deleted": True, "after": "0" * 40}, K.HISTORY_REWRITTEN),
        ({"created": False, "before": "1" * 40}, K.HISTORY_REWRITTEN),
        ({"forced": "true"}, K.HISTORY_REWRITTEN),
        ({}, K.TAG_PUSHED),
    ],
)
def test_a_tag_that_moves_or_goes_is_rewritten_history(
    change: dict[str, object], kind: SignalKind
) -> None:
    found = parse_message(with_body("github_push_seal_tag", change), SCRUBBER)
    assert isinstance(found, tuple)
    assert found[0].kind is kind


# --- Ray ------------------------------------------------------------------------------------------


def ray_batch(name: str) -> Delivery:
    found = json.loads((FIXTURES / "ray" / name).read_text())
    body = cast("Any", found)["body"] if isinstance(found, dict) else found
    made = delivery("ray_event_node_definition")
    return replace(made, data=json.dumps(body).encode())


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("http_aggregator_events.json", {K.IDENTITY, K.NODE_UP, K.JOB_STATE}),
        ("http_aggregator_batch_driver_job.json", {K.IDENTITY, K.JOB_STATE}),
    ],
)
def test_a_captured_batch_is_many_signals(name: str, kinds: set[SignalKind]) -> None:
    found = parse_message(ray_batch(name), SCRUBBER)
    assert isinstance(found, tuple)
    assert kinds <= {one.kind for one in found}
    assert len({one.key for one in found}) == len(found)


def test_a_driver_is_known_by_the_submission_that_started_it() -> None:
    found = parse_message(ray_batch("http_aggregator_batch_driver_job.json"), SCRUBBER)
    assert isinstance(found, tuple)
    [one] = [one for one in found if one.kind is K.IDENTITY]
    assert one.clues == ("submission:wk-driver", "run:r2", "job:us-east5-a/02000000")


def test_the_same_transition_twice_in_one_event_is_one_signal() -> None:
    body = json.loads(delivery("ray_event_node_dead_unexpected").data)
    steps = body["nodeLifecycleEvent"]["stateTransitions"]
    body["nodeLifecycleEvent"]["stateTransitions"] = steps * 3
    made = replace(delivery("ray_event_node_dead_unexpected"), data=json.dumps([body]).encode())
    found = parse_message(made, SCRUBBER)
    assert isinstance(found, tuple)
    assert len(found) == 1


def test_an_event_of_a_newer_ray_passes_as_other() -> None:
    found = parse_message(
        with_body("ray_event_node_alive", {"eventType": "GPU_HEALTH_EVENT", "eventId": "AQ=="}),
        SCRUBBER,
    )
    assert isinstance(found, tuple)
    assert [one.kind for one in found] == [K.OTHER]


def test_the_machine_that_wrote_a_file_of_the_head_is_no_clue() -> None:
    for name in ("log_ray_gcs_node_removed", "log_ray_job_completed", "log_autoscaler_unsatisfied"):
        for one in signals(name):
            assert not [clue for clue in one.clues if clue.startswith(("instance:", "host:"))]


def test_the_reporter_of_a_ray_event_is_no_clue() -> None:
    reporter = "node:b5517a9cd048a54d9defc6186ab0e260acf7179262af854822907fa3"
    for name in TABLE:
        if name.startswith("ray_event_"):
            assert all(reporter not in one.clues for one in signals(name))


def test_no_address_is_ever_a_clue() -> None:
    for name in TABLE:
        found = parsed(name)
        for one in found if isinstance(found, tuple) else ():
            assert not [clue for clue in one.clues if "192.0.2." in clue or ":10." in clue]


@pytest.mark.parametrize(
    "name", sorted(path.name for path in (FIXTURES / "ray").glob("job_details_*.json"))
)
def test_a_captured_job_is_a_job_state(name: str) -> None:
    job = json.loads((FIXTURES / "ray" / name).read_text())
    found = parse_message(with_body("ray_job_running", {"job": job}), SCRUBBER)
    assert isinstance(found, tuple)
    assert [one.kind for one in found] == [K.JOB_STATE]
    assert found[0].facts["status"] == job["status"]
    assert found[0].clues[0] == f"submission:{job['submission_id']}"


def test_exported_submissions_are_job_states() -> None:
    lines = (FIXTURES / "ray" / "export_submission_job.jsonl").read_text().splitlines()
    for line in lines:
        told = {"textPayload": line, "insertId": str(hash(line))}
        found = parse_message(with_body("log_levanter_progress", told), SCRUBBER)
        assert isinstance(found, tuple)
        assert found[0].subject == json.loads(line)["event_data"]["submission_job_id"]


# --- Shapes that sources are known to send --------------------------------------------------------


def one_signal(made: Delivery) -> SignalKind:
    found = parse_message(made, SCRUBBER)
    assert isinstance(found, tuple), found
    assert len(found) == 1
    return found[0].kind


def test_an_incident_in_other_spellings_is_the_same_incident() -> None:
    body = json.loads(delivery("monitoring_disk_open").data)["incident"]
    other = {k: v for k, v in body.items() if k not in ("severity", "ended_at")}
    other |= {"state": "OPEN", "documentation": "runbook: disk", "started_at": "1795188000"}
    found = parse_message(with_body("monitoring_disk_open", {"incident": other}), SCRUBBER)
    [usual] = signals("monitoring_disk_open")
    assert isinstance(found, tuple)
    assert (found[0].key, found[0].occurred_at) == (usual.key, usual.occurred_at)
    assert found[0].facts["documentation"] == "runbook: disk"


def test_an_incident_of_a_machine_is_not_told_to_its_whole_cluster() -> None:
    body = json.loads(delivery("monitoring_disk_open").data)["incident"]
    body["metadata"] = {}
    found = parse_message(with_body("monitoring_disk_open", {"incident": body}), SCRUBBER)
    assert isinstance(found, tuple)
    assert found[0].clues == ("instance:2074079198322937303",)


@every_row("version", ["v1", "v2", "v2alpha1"])
@every_row(
    ("operation", "severity", "kind"),
    [
        ({"id": "o", "first": True}, "NOTICE", K.OTHER),
        ({"id": "o", "last": True}, "NOTICE", K.NODE_LOST),
        ({"id": "o", "first": True, "last": True}, "NOTICE", K.NODE_LOST),
        ({"id": "o", "last": True}, "ERROR", K.OTHER),
    ],
)
def test_only_the_end_of_an_operation_that_did_not_fail_has_an_effect(
    version: str, operation: dict[str, object], severity: str, kind: SignalKind
) -> None:
    payload = json.loads(delivery("audit_tpu_delete_node_last").data)["protoPayload"]
    payload["methodName"] = f"google.cloud.tpu.{version}.Tpu.DeleteNode"
    change = {"operation": operation, "severity": severity, "protoPayload": payload}
    assert one_signal(with_body("audit_tpu_delete_node_last", change)) is kind


def test_who_deleted_a_node_is_told() -> None:
    [one] = signals("audit_tpu_delete_node_last")
    assert one.facts["by"] == "ray-head@example-tpu-prod.iam.gserviceaccount.com"


def test_a_node_that_is_listed_no_more_is_lost() -> None:
    made = with_body("tpu_node_state_preempted", {"node": None})
    assert one_signal(made) is K.NODE_LOST


def test_maintenance_is_planned_then_begun_then_over() -> None:
    payload = json.loads(delivery("audit_gce_upcoming_maintenance").data)["protoPayload"]
    begun = {**payload, "metadata": {**payload["metadata"], "maintenanceStatus": "ONGOING"}}
    over = {**payload, "status": {"message": "Maintenance window has completed for this VM."}}
    kinds = [
        one_signal(with_body("audit_gce_upcoming_maintenance", {"protoPayload": one}))
        for one in (payload, begun, over)
    ]
    assert kinds == [K.MAINTENANCE_PLANNED, K.MAINTENANCE_STARTED, K.MAINTENANCE_OVER]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("postfix:loss=nan Progress on:train 1.0kit/2.0kit", K.LOG_ALARM),
        ("grad_norm: inf", K.LOG_ALARM),
        ("the loss information was written", None),
        ("Failed to cleanup driver after error: INTERNAL: FAILED_PRECONDITION: x", K.LOG_ALARM),
        ("worker was preempted", K.LOG_ALARM),
        ("unpreemptedness", None),
        ("JOB_SUPERVISOR_ACTOR_START_TIMEOUT", K.LOG_ALARM),
        ("Saving temporary checkpoint at step 12", K.LOG_CHECKPOINT),
        ("Traceback (most recent call last):\n  File x\nValueError: bad config", K.LOG_ALARM),
        ("epoch 3", None),
        ("", None),
    ],
)
def test_a_line_is_read_by_the_table_of_patterns(line: str, kind: SignalKind | None) -> None:
    found = parse_message(with_body("log_levanter_progress", {"textPayload": line}), SCRUBBER)
    assert (found[0].kind if isinstance(found, tuple) else None) is kind


def test_a_traceback_is_shown_by_its_last_line() -> None:
    text = "Traceback (most recent call last):\n  File x\nValueError: bad config"
    found = parse_message(with_body("log_levanter_progress", {"textPayload": text}), SCRUBBER)
    assert isinstance(found, tuple)
    assert found[0].summary == "ValueError: bad config"


def test_progress_is_one_signal_in_five_minutes(world: World) -> None:
    before = len(world.received())
    for second in range(59):
        at = f"2026-11-20T14:23:{second:02}.1Z"
        line = {"timestamp": at, "insertId": f"i{second}"}
        world.inbox.take(with_body("log_levanter_progress", line))
    assert len(world.received()) == before + 1


def test_all_three_clocks_are_kept() -> None:
    [one] = signals("dead_letter_forwarded")
    assert one.occurred_at == datetime(2026, 11, 18, 17, 41, 10, 4512, tzinfo=UTC)
    # The dead letter's own time says when it was given up, not when it was sent.
    assert one.published_at == datetime(2026, 11, 18, 17, 41, 10, 772000, tzinfo=UTC)
    assert one.received_at == RECEIVED
    assert one.facts["forwarded"] == "given up by watchkeeper-logs after 5 tries"


def test_a_child_of_an_iris_job_is_bound_by_what_was_launched(world: World) -> None:
    made = with_body("iris_job_running", {"job": {"jobId": f"{IRIS_JOB}/train", "state": "X"}})
    found = parse_message(made, SCRUBBER)
    assert isinstance(found, tuple)
    assert found[0].clues == (f"submission:{IRIS_JOB}/train", f"submission:{IRIS_JOB}")


def test_a_wrapped_message_is_unwrapped_once() -> None:
    once = wrapped(delivery("log_xla_hbm_oom"))
    found = parse_message(once, SCRUBBER)
    [direct] = signals("log_xla_hbm_oom")
    assert isinstance(found, tuple)
    assert (found[0].source, found[0].key) == (direct.source, direct.key)
    assert parse_message(wrapped(once), SCRUBBER) == Ignored("a CloudEvent of an unknown type")


def test_a_relayed_message_in_a_wrapping_is_verified_as_well() -> None:
    made = delivery("github_push_forced")
    around = {k: v for k, v in made.attributes.items() if k != "relay-verified"}
    found = parse_message(wrapped(replace(made, attributes=around)), SCRUBBER)
    assert isinstance(found, Poison)


def wrapped(inner: Delivery) -> Delivery:
    message = {"data": b64encode(inner.data).decode(), "attributes": dict(inner.attributes)}
    around = {
        "ce-id": "1",
        "ce-source": "//pubsub.googleapis.com/projects/p/topics/t",
        "ce-type": "google.cloud.pubsub.topic.v1.messagePublished",
        "ce-specversion": "1.0",
        "content-type": "application/json",
    }
    return replace(inner, data=json.dumps({"message": message}).encode(), attributes=around)


def test_a_message_of_no_known_kind_is_put_aside(world: World) -> None:
    made = replace(delivery("monitoring_disk_open"), data=b'{"hello": "world"}')
    assert world.inbox.take(made) is Outcome.QUARANTINED


# --- The page -------------------------------------------------------------------------------------


def page_rows(heading: str) -> list[list[str]]:
    text = (Path(__file__).parents[2] / "docs" / "maintainers" / "signals.md").read_text()
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]


def test_the_page_names_every_source_and_kind_that_samples_have() -> None:
    told: dict[str, set[str]] = {}
    hurried: set[str] = set()
    for row in page_rows("Families"):
        kinds = set(re.findall(r"`(\w+)`", row[3]))
        hurried |= {kind for kind in kinds if f"**`{kind}`**" in row[3]}
        assert hurried.isdisjoint(kind for kind in kinds if f"**`{kind}`**" not in row[3])
        told.setdefault(row[1].strip("`"), set()).update(kinds)
        assert find_spec(f"watchkeeper.adapters.signals.{row[5].strip('`')}")
    seen = {(one.source, one.kind.value) for name in TABLE for one in found_in(name)}
    assert {source for source, _ in seen} == set(told)
    missing = [(source, kind) for source, kind in seen if kind not in told[source]]
    assert not missing
    assert all(kind in {each.value for each in K} for kinds in told.values() for kind in kinds)
    assert hurried == {kind.value for kind in URGENT}


def found_in(name: str) -> tuple[Signal, ...]:
    found = parsed(name)
    return found if isinstance(found, tuple) else ()


def test_the_page_names_every_pattern_of_log_lines_in_their_order() -> None:
    rows = [tuple(cell.strip("`") for cell in row) for row in page_rows("Log lines")]
    assert rows == [(p.name, p.kind.value, p.holds.strip(), p.reading) for p in PATTERNS]
