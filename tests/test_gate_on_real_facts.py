"""Every launch rule on facts that real adapters read: it passes, it stops, and it finds a lack.

Each case arranges the outside itself: git, checkouts, buckets, trackers, orchestrators, the home.
Nothing that a rule reads is written by the test into the facts.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import fsspec
import pytest
from ray.job_submission import JobSubmissionClient

from tests.gcs import place_bucket
from tests.s3 import place_s3_bucket
from tests.session import approved, taken
from tests.sockets import free_port
from tests.training import Site, git, make_site, tiny_contract
from tests.wandb_stub import KEY, ask_stub
from watchkeeper import clock
from watchkeeper.adapters.cli.common import Session, open_session
from watchkeeper.adapters.contracts.file import contract_to_yaml, read_contract
from watchkeeper.adapters.home import create_home, watch_lock
from watchkeeper.adapters.principals import add_human
from watchkeeper.domain.rules.launch.gate.base import PreviousLaunch
from watchkeeper.domain.rules.launch.gate.gate import Gate, preflight
from watchkeeper.domain.rules.permits.commands import Revoke
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.run.permits import Approval
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.plan import GateFinding, make_plan
from watchkeeper.domain.values.people import Actor
from watchkeeper.services.watch.launch_facts import Known, logbook_on_record, read_gate_facts
from watchkeeper.services.watch.launches import read_first_plan

pytestmark = [pytest.mark.git, pytest.mark.timeout(180)]

DRI = Actor(principal="dri", kind="human")
OPS = Actor(principal="ops", kind="human")
CONFIG = "configs/run.yaml"
KINDS = ("pass", "stop", "missing")


@dataclass
class Place:
    """A home, a site with code on a git remote, and whatever servers a case asks for."""

    session: Session
    site: Site
    folder: Path
    asked: pytest.FixtureRequest
    held: ExitStack = field(default_factory=ExitStack)

    @property
    def checkout(self) -> Path:
        return self.site.folder / "site" / "code"

    def have(self, fixture: str) -> Any:
        return self.asked.getfixturevalue(fixture)

    def contract(self, changes: dict[str, Any] | None = None) -> Contract:
        """Return a contract that states everything, changed, as the file of a person gives it."""
        made = json.loads(tiny_contract(self.site, "tiny").model_dump_json())
        made["code"]["worktree"] = str(self.checkout)
        made["checkpoints"] = {
            "permanent_every_steps": 500, "temporary_every": "15m", "keep_last": 10,
        }  # fmt: skip
        made["hardware"] = {"type": "CPU", "topology": "1 process", "region": "us-central1"}
        made["model"] = {"parameters": 1000, "tokens": 1000}
        for key, value in (changes or {}).items():
            part, _, name = key.partition(".")
            if name:
                made[part][name] = value
            else:
                made[part] = value
        return Contract.model_validate_json(json.dumps(made))

    def pushed(self, text: str, changes: dict[str, Any] | None = None) -> Contract:
        """Return a contract whose commit, on the remote, holds a configuration."""
        (self.checkout / "configs").mkdir(exist_ok=True)
        (self.checkout / CONFIG).write_text(text)
        git(self.checkout, "add", ".")
        person = ("-c", "user.name=ann", "-c", "user.email=ann@localhost")
        git(self.checkout, *person, "commit", "--quiet", "-m", "Configure")
        git(self.checkout, "push", "--quiet", "origin", "main")
        sha = git(self.checkout, "rev-parse", "HEAD").strip()
        return self.contract({"code.git_sha": sha, "code.config": [CONFIG], **(changes or {})})


class SourceResult(NamedTuple):
    """What is judged, and by whom it is asked for."""

    contract: Contract
    launcher: Actor = DRI
    approvals: tuple[Approval, ...] = ()


Arrange = Callable[[Place], Contract | SourceResult | GateFinding]


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    create_home(tmp_path / "home")
    with open_session(tmp_path / "home", create=True) as session, ExitStack() as held:
        add_human(session.home.principals, "dri")
        yield Place(session, make_site(tmp_path), tmp_path, request, held)


def judged(place: Place, rule: str, asked: SourceResult) -> GateFinding:
    file = place.folder / "tiny.yaml"
    contract = asked.contract
    if contract.command:
        file.write_text(contract_to_yaml(contract))
        contract = read_contract(file)
    plan, facts = read_first_plan(place.session.services, contract)
    gate = Gate(contract, plan, facts, asked.approvals, asked.launcher, now=clock.now())
    return next(finding for finding in preflight(gate) if finding.rule == rule)


def put(url: str, document: object) -> None:
    # fsspec publishes no types.
    store: Any = fsspec.url_to_fs(url)[0]  # pyright: ignore[reportUnknownMemberType]
    store.pipe_file(url, json.dumps(document).encode())


# --- L1 to L4 -------------------------------------------------------------------------------------


def l1(value: str) -> Arrange:
    def arrange(place: Place) -> Contract:
        place.have("monkeypatch").setenv("WK_TOKEN", value)
        return place.contract({"env_from": ["WK_TOKEN"]})

    return arrange


def l2_dirty(place: Place) -> Contract:
    (place.checkout / "train_lm.py").write_text("changed\n")
    return place.contract()


def remote_down(key: str) -> Arrange:
    return lambda place: place.contract({key: f"http://127.0.0.1:{free_port()}/code.git"})


def l3_gcs(place: Place) -> Contract:
    bucket = place.have("gcs_bucket")
    place_bucket(bucket, "US-CENTRAL1")
    return place.contract({"output_root": f"{bucket}/tiny"})


def l3_s3(place: Place) -> Contract:
    url = place_s3_bucket(place.have("s3_bucket"), "eu-central-1")
    return place.contract({"output_root": f"{url}/tiny"})


def l3_stopped(place: Place) -> Contract:
    bucket, stop = place.have("gcs_bucket_to_stop")
    stop()
    return place.contract({"output_root": f"{bucket}/tiny"})


def wandb(place: Place, url: str) -> Contract:
    place.have("monkeypatch").setenv("WANDB_API_KEY", KEY)
    part = {"kind": "wandb", "entity": "ent", "project": "p", "id": "r1", "base_url": url}
    return place.contract({"tracker": {**part, "display_name": "Run 1", "resume": "allow"}})


def l4(name: str) -> Arrange:
    def arrange(place: Place) -> Contract:
        server = place.have("wandb_server")
        ask_stub(server, "PATCH", "runs/ent/p/r0", {"displayName": name})
        return wandb(place, server)

    return arrange


def l4_down(place: Place) -> Contract:
    return wandb(place, f"http://127.0.0.1:{free_port()}")


# --- L5 to L8 -------------------------------------------------------------------------------------


def configured(text: str, changes: dict[str, Any] | None = None) -> Arrange:
    return lambda place: place.pushed(text, changes)


def l6(metadata: dict[str, Any] | None, wanted: str = "step-900") -> Arrange:
    def arrange(place: Place) -> Contract:
        root = f"{place.have('gcs_bucket')}/earlier"
        put(f"{root}/checkpoints/step-900/shard-0", {})
        if metadata is not None:
            put(f"{root}/checkpoints/step-900/metadata.json", metadata)
        place_bucket(place.have("gcs_bucket"), "US-CENTRAL1")
        source = f"{root}/checkpoints/{wanted}"
        return place.contract({"initialize_from": source, "ancestors": [root]})

    return arrange


def ray(address: str) -> dict[str, Any]:
    return {"orchestrator": {"kind": "ray", "address": address}}


def l8(place: Place) -> Contract:
    head = place.have("ray_head")
    packed: dict[str, Any] = {"working_dir": str(place.checkout)}
    # Ray's own packing and upload, as `ray job submit --working-dir` does it.
    packing: Any = JobSubmissionClient(head)
    packing._upload_working_dir_if_needed(packed)
    return place.contract({**ray(head), "code.bundle": packed["working_dir"]})


def l8_not_held(place: Place) -> Contract:
    return place.contract({**ray(place.have("ray_head")), "code.bundle": NOT_HELD})


NOT_HELD = "gcs://_ray_pkg_55c26154ca7c9975.zip"


# --- L9 to L13 ------------------------------------------------------------------------------------


def by_another(place: Place) -> SourceResult:
    contract = place.contract()
    return SourceResult(contract, OPS, approved(place.session, contract).permits.approvals)


def listing(text: str) -> Arrange:
    def arrange(place: Place) -> SourceResult:
        place.session.home.principals.write_text(text)
        return SourceResult(place.contract(), OPS)

    return arrange


def l10(type_: str) -> Arrange:
    def arrange(place: Place) -> Contract:
        return place.contract({**ray(place.have("ray_head")), "hardware.type": type_})

    return arrange


def l11_revoked(place: Place) -> SourceResult:
    contract = place.contract()
    [given] = approved(place.session, contract).permits.approvals
    revoke = Revoke(now=clock.now(), actor=DRI, name=given.name, reason="too early")
    run = taken(place.session.ledger.handle("tiny", revoke)).run
    return SourceResult(contract, DRI, run.permits.approvals)


def l13_watched(place: Place) -> Contract:
    place.held.enter_context(watch_lock(place.session.home, "watch"))
    return place.contract()


# --- L14 ------------------------------------------------------------------------------------------


def l14(after: str) -> Arrange:
    """Launch under one configuration, and read the facts of a relaunch under another."""

    def arrange(place: Place) -> GateFinding:
        changes = {"code.ignore": ["configs/*"]}
        contract = place.pushed("trainer: {seed: 0, train_batch_size: 1024}\n", changes)
        plan, first = read_first_plan(place.session.services, contract)
        (place.checkout / CONFIG).write_text(after)
        known = Known(logbook=logbook_on_record(""))
        services = place.session.services
        facts = read_gate_facts(services.outside, contract, "", known, services.ledger.scrubber)
        planned = make_plan(
            contract, number=2, submission_id="i2", resume_from="", resume_step=None
        )
        gate = Gate(
            contract, planned, facts, (), previous=PreviousLaunch(contract, plan, first.config)
        )
        return next(finding for finding in preflight(gate) if finding.rule == "L14")

    return arrange


HERO: dict[str, Any] = {"lane": "hero"}
NO_RETENTION: dict[str, Any] = {"checkpoints": {}}
FEW = "model: {num_params: 1e6, num_tokens: 1e9}\n"
MANY = "model: {num_params: 400e9, num_tokens: 10e12}\n"
KEEPS = "trainer: {checkpointer: {save_interval: 900s, max_to_keep: 10}}\n"
KEEPS_LESS = "trainer: {checkpointer: {save_interval: 900s, max_to_keep: 2}}\n"
STEPS = {"final_step.source": "trainer.num_train_steps"}


def plain(changes: dict[str, Any] | None = None) -> Arrange:
    return lambda place: place.contract(changes)


def ray_down(changes: dict[str, Any]) -> Arrange:
    def arrange(place: Place) -> Contract:
        return place.contract({**ray(f"http://127.0.0.1:{free_port()}"), **changes})

    return arrange


class Case(NamedTuple):
    """One row: what is arranged, and what the rule says of it."""

    rule: str
    kind: str
    arrange: Arrange
    verdict: str
    provenance: str
    says: str
    marks: tuple[str, ...] = ()


CASES = (
    Case("L1", "pass", l1("abc"), "pass", "stated", "no literal secret"),
    Case("L1", "stop", l1(""), "block", "stated", "not set where the submit happens: WK_TOKEN"),
    Case("L1", "missing", plain({"command": []}), "block", "missing", "no command line"),
    Case("L2", "pass", plain(), "pass", "stated", "is clean at it"),
    Case("L2", "stop", l2_dirty, "block", "stated", "not committed: train_lm.py"),
    Case("L2", "missing", remote_down("code.remote"),
         "block", "missing", "cannot tell"),
    Case("L3", "pass", l3_gcs, "pass", "stated", "in us-central1 like the machines", ("gcs",)),
    Case("L3", "stop", l3_s3, "block", "stated", "is in eu-central-1, the machines", ("s3",)),
    Case("L3", "missing", l3_stopped, "block", "missing", "cannot tell: ", ("gcs",)),
    Case("L4", "pass", l4("Run 2"), "pass", "stated", "r1 (resume: allow)", ("wandb",)),
    Case("L4", "stop", l4("Run 1"), "block", "stated", "also the name of r0", ("wandb",)),
    Case("L4", "missing", l4_down,
         "block", "missing", "cannot tell: ", ("wandb",)),
    Case("L5", "pass", configured(KEEPS), "pass", "stated", "temporary every 15m, keep 10"),
    Case("L5", "stop", configured(KEEPS_LESS), "block", "stated", "max_to_keep in the config"),
    Case("L5", "missing", configured(FEW, {**HERO, **NO_RETENTION}), "block", "missing",
         "missing: checkpoints.permanent_every_steps"),
    Case("L6", "pass", l6({"step": 900}), "pass", "stated", "metadata.json present", ("gcs",)),
    Case("L6", "stop", l6(None), "block", "stated", "step-900: no metadata.json", ("gcs",)),
    Case("L6", "missing", l6({"step": 900}, "step-950"), "block", "missing", "does not exist",
         ("gcs",)),
    Case("L7", "pass", configured("trainer: {num_train_steps: 40}\n", STEPS), "pass", "stated",
         "40, from trainer.num_train_steps"),
    Case("L7", "stop", configured("trainer: {num_train_steps: 50}\n", STEPS), "block", "stated",
         "in the configuration says 50"),
    Case("L7", "missing", configured("trainer: [\n", STEPS), "block", "missing", "cannot tell: "),
    Case("L8", "pass", l8, "pass", "stated", "which the orchestrator holds", ("ray",)),
    Case("L8", "stop", l8_not_held,
         "warn", "stated", f"does not hold {NOT_HELD}", ("ray",)),
    Case("L8", "missing", ray_down({**HERO, "code.bundle": NOT_HELD}),
         "block", "missing", "cannot tell: "),
    Case("L9", "pass", by_another, "pass", "stated", "dri, who approved it with a-1"),
    Case("L9", "stop", listing('[principals.dri]\nkind = "agent"\n'), "block", "stated",
         "dri is listed as agent"),
    Case("L9", "missing", listing("principals = ["), "block", "missing", "cannot tell: "),
    Case("L10", "pass", l10("v4-8 (TPU-v4)"), "pass", "stated", "it has 4 x TPU-V4", ("ray",)),
    Case("L10", "stop", l10("8xh100"), "warn", "stated", "orchestrator has 4 x TPU-V4", ("ray",)),
    Case("L10", "missing", ray_down(HERO), "block", "missing",
         "cannot tell: "),
    Case("L11", "pass", by_another, "pass", "stated", "a-1 by dri"),
    # A revoked approval is none: the rule knows no other way to stop.
    Case("L11", "stop", l11_revoked, "block", "missing", "no human approved this plan"),
    Case("L11", "missing", plain(), "block", "missing", "no human approved this plan"),
    Case("L12", "pass", plain({"issue": "https://example.com/issues/1"}), "pass", "stated",
         "issues/1; .agents/logbooks/tiny.md on main can be pushed"),
    Case("L12", "stop", plain({"issue": "none"}), "warn", "stated", "no issue, by a waiver"),
    Case("L12", "missing", remote_down("logbook.remote"),
         "block", "missing", "cannot tell: "),
    Case("L13", "pass", l13_watched, "pass", "stated", "which runs in this home"),
    Case("L13", "stop", plain(), "warn", "stated", "no watch runs in this home now"),
    Case("L13", "missing", plain({"watch.holder": ""}), "block", "missing", "nobody is arranged"),
    Case("L14", "pass", l14("trainer: {seed: 0, train_batch_size: 1024}\n"), "pass", "stated",
         "the same as i1"),
    Case("L14", "stop", l14("trainer: {seed: 0, train_batch_size: 512}\n"), "block", "stated",
         "train_batch_size (batch size) 1024 -> 512"),
    Case("L14", "missing", plain({"code.config": ["configs/none.yaml"]}), "warn", "missing",
         "nothing could be read from configs/none.yaml"),
    Case("L15", "pass", configured("launcher: {max_restarts: 0}\n"), "pass", "stated",
         "watchkeeper"),
    Case("L15", "stop", configured("launcher: {max_restarts: 3}\n"), "warn", "stated",
         "launcher.max_restarts in the configuration lets the job start itself again 3x"),
    Case("L15", "missing", plain({"retries.owner": None}), "block", "missing", "nobody is named"),
    Case("L16", "pass", plain(), "pass", "stated", "nothing"),
    Case("L16", "stop", configured(KEEPS + "checkpoint: {permanent_interval: 500}\n",
                                   {**NO_RETENTION, "lane": "hero", "hardware.type": ""}),
         "warn", "inferred", "L10 hardware"),
    Case("L16", "missing", plain({"lane": "daily", **NO_RETENTION}), "warn",
         "missing", "unclear: L5 checkpoint policy"),
    Case("L17", "pass", configured(FEW, {"model": {}}), "pass", "inferred", "6.0e+15"),
    Case("L17", "stop", configured(MANY, {"model": {}}), "warn", "inferred", "2.4e+25"),
    Case("L17", "missing", configured("trainer: {seed: 0}\n", {"model": {}}), "warn", "missing",
         "the cost is not known"),
)  # fmt: skip


def marks(case: Case) -> list[pytest.MarkDecorator]:
    found = [getattr(pytest.mark, name) for name in case.marks]
    # Its group by hand: that a case asks for the head is seen only when it is arranged.
    return [*found, pytest.mark.xdist_group("ray_head")] if "ray" in case.marks else found


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=f"{c.rule}-{c.kind}", marks=marks(c)) for c in CASES]
)
def test_a_rule_judges_what_was_really_read(place: Place, case: Case) -> None:
    arranged = case.arrange(place)
    if isinstance(arranged, Contract):
        arranged = SourceResult(arranged)
    found = judged(place, case.rule, arranged) if isinstance(arranged, SourceResult) else arranged
    assert (found.rule, found.verdict.value, found.provenance) == (
        case.rule, case.verdict, case.provenance,
    ), found  # fmt: skip
    assert case.says in found.says
    assert bool(found.fix) == (case.verdict != "pass")


def test_every_rule_of_the_register_is_shown_to_pass_to_stop_and_to_miss() -> None:
    register = {rule for rule in RULES if rule.startswith("L")}
    assert len(register) == 17
    assert {(c.rule, c.kind) for c in CASES} == {(rule, k) for rule in register for k in KINDS}
    for case in CASES:
        assert (case.verdict == "pass") == (case.kind == "pass"), case
        assert (case.provenance == "missing") or case.kind != "missing", case
