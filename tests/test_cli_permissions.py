"""`propose`, `consent`, `waive`, `revoke` and guarded acts, with a real list of principals."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from freezegun import freeze_time

from tests.command_line import Cli, launch, written
from tests.training import Site, git, tiny_contract
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.domain.values.contract.contract import Lane, WatchPart

pytestmark = pytest.mark.git

AGENT = ("--as", "codex")
CADENCE = timedelta(seconds=10)
PRINCIPALS = """\
[principals.dri]
kind = "human"
name = "The DRI"

[principals.codex]
kind = "agent"
"""


@pytest.fixture
def cli(cli_without_home: Cli, home: Path) -> Cli:
    """As everywhere, with an agent beside the human, each known by a name of its own."""
    assert cli_without_home("init").code == 0
    (home / "principals.toml").write_text(PRINCIPALS)
    return cli_without_home


@pytest.fixture
def launched(cli: Cli, site: Site, tmp_path: Path) -> str:
    contract = written(
        tmp_path,
        tiny_contract(site, "tiny", steps=2000, pace=0.05, cadence_s=CADENCE.total_seconds()),
    )
    launch(cli, contract, "tiny")
    return "tiny"


def watched(cli: Cli) -> None:
    """Watch until nothing is left to do, when the next check is due at once."""
    with freeze_time(clock.now() + CADENCE, tick=True):
        assert cli("watch", "--until-idle").code == 0


def needs(cli: Cli, slug: str) -> list[str]:
    return [need["kind"] for need in cli("status", slug, "--json").json["needs"]]


def test_an_agent_proposes_a_stop_a_human_consents_and_the_agent_stops(
    cli: Cli, launched: str
) -> None:
    refused = cli("stop", launched, "--reason", "it diverges", *AGENT)
    assert refused.code == 3
    assert "proposed as p-1; ask a human: `watchkeeper permit consent tiny p-1`" in refused.err
    assert cli("status", launched, "--json").json["stopping"] is False
    fleet = cli("status").out
    assert "codex asks for stop of i1: it diverges (p-1)" in fleet
    assert "-> watchkeeper permit consent tiny p-1" in fleet
    assert needs(cli, launched)[0] == "proposal"
    # An agent's own consent is refused, and on record.
    assert cli("permit", "consent", launched, "p-1", *AGENT).code == 3
    assert "consent p-1 by codex refused (NOT_A_HUMAN)" in cli("events", launched).out
    given = cli("permit", "consent", launched, "p-1", "--for", "30m", "--json")
    assert given.code == 0
    assert given.json["consent"] == "c-1"
    assert "consent     c-1 by dri: stop i1, until" in cli("status", launched).out
    assert needs(cli, launched) == ["monitor"], "only that no watch runs"
    assert cli("stop", launched, "--consent", "c-1", *AGENT).code == 0
    watched(cli)
    assert cli("status", launched, "--json").json["phase"] == "stopped"
    assert "with consent c-1" in cli("logbook", launched).out
    assert cli("verify", "--offline").code == 0


def test_a_proposal_is_told_to_programs(cli: Cli, launched: str) -> None:
    refused = cli("stop", launched, "--reason", "it diverges", "--json", *AGENT)
    assert refused.code == 3
    assert refused.json["refusal"] == "CONSENT_NEEDED"
    assert refused.json["proposals"] == ["p-1"]


def test_a_human_declines_a_proposal(cli: Cli, launched: str) -> None:
    cli("permit", "propose", launched, "stop", "i1", "--reason", "it diverges", *AGENT)
    assert cli("permit", "revoke", launched, "p-1", "--reason", "it is the warm-up").code == 0
    again = cli("stop", launched, "--reason", "it diverges", *AGENT)
    assert (again.code, "PROPOSAL_DECLINED" in again.err) == (3, True)
    assert needs(cli, launched) == ["monitor"], "only that no watch runs"


def test_a_revoked_consent_stops_nothing(cli: Cli, launched: str) -> None:
    agreed = cli(
        "permit", "propose", launched, "stop", "i1", "--reason", "drill", "--agree", "--json"
    )
    assert agreed.json["consent"] == "c-1"
    assert cli("permit", "revoke", launched, "c-1").code == 0
    refused = cli("stop", launched, "--consent", "c-1", *AGENT)
    assert (refused.code, "CONSENT_REVOKED" in refused.err) == (3, True)
    assert cli("status", launched, "--json").json["stopping"] is False


def test_a_human_waives_a_named_block_and_an_agent_cannot(
    cli: Cli, site: Site, tmp_path: Path
) -> None:
    contract = tiny_contract(site, "tiny")
    unwatched = contract.model_copy(update={"watch": WatchPart()})
    path = written(tmp_path, unwatched)
    assert "L13" in cli("launch", path).out
    refused = cli("permit", "waive", "tiny", "L13", "--reason", "hurry", *AGENT)
    assert (refused.code, "NOT_A_HUMAN" in refused.err) == (3, True)
    never = cli("permit", "waive", "tiny", "L1", "--reason", "hurry")
    assert (never.code, "WAIVER_FORBIDDEN" in never.err) == (3, True)
    waived = cli("permit", "waive", "tiny", "L13", "--reason", "by hand", "--until", "2h", "--json")
    assert (waived.code, waived.json["waiver"]) == (0, "w-1")
    held = cli("launch", path)
    assert "waived by dri (w-1): by hand" in held.out
    assert "NOT CLEARED: 1 block, 3 warnings" in held.out


def test_a_revoked_approval_launches_nothing(cli: Cli, site: Site, tmp_path: Path) -> None:
    path = written(tmp_path, tiny_contract(site, "tiny"))
    plan = cli("launch", path, "--json").json["plan"]
    assert cli("approve", "tiny", "--plan", plan).code == 0
    assert cli("permit", "revoke", "tiny", "a-1", "--reason", "look first").code == 0
    assert cli("launch", path).code == 3
    assert cli("permit", "revoke", "tiny", "a-1").code == 3
    assert cli("permit", "revoke", "tiny", "a-9").code == 3


def test_a_standing_waiver_is_granted_listed_used_and_revoked(
    cli: Cli, site: Site, tmp_path: Path, home: Path
) -> None:
    standing = ("permit", "waive", "--standing", "--lane", "canary", "--reason", "the daily canary")
    assert cli(*standing, *AGENT).code == 3
    assert cli("permit", "waive", "--standing", "--lane", "hero", "--reason", "x").code == 3
    granted = cli(*standing, "--rule", "L11", "--by-requester", "dri", "--json")
    assert (granted.code, granted.json["waiver"]) == (0, "sw-1")
    listed = cli("permit", "waive", "--list").out
    assert "sw-1  L11  canary  launches of dri" in listed
    assert re.search(r"until \d{4}-\d\d-\d\d \d\d:\d\d UTC", listed), "2h is no whole day"
    canary = tiny_contract(site, "am").model_copy(update={"lane": Lane.CANARY})
    path = written(tmp_path, canary)
    assert cli("launch", path, "--dry-run").code == 0
    assert cli("launch", path, *AGENT).code == 3  # Another requester.
    assert cli("launch", path).code == 0
    assert "L11 is waived (sw-1" in cli("logbook", "am").out
    with open_session(home) as session:
        assert list(session.ledger.people().waivers) == ["sw-1"]
    assert cli("permit", "revoke", "--standing", "sw-1").code == 0
    assert cli("permit", "waive", "--list").out.strip() == "no standing waivers"
    assert cli("verify", "--offline").code == 0


def test_a_stopped_run_is_sealed_with_named_waivers_only(
    cli: Cli, launched: str, site: Site
) -> None:
    def has_checkpoint() -> bool:
        return any((site.folder / "tiny").glob("checkpoints/*/metadata.json"))

    assert clock.ExponentialBackoff().wait_until(has_checkpoint, timedelta(seconds=30))
    assert cli("stop", launched, "--reason", "the agreed step").code == 0
    watched(cli)
    blocked = cli("run", "seal", launched, "--json")
    assert blocked.code == 3
    missing = blocked.json["missing"]
    assert missing[0] == "successful end: the orchestrator says STOPPED"
    waived = [word for lack in missing for word in ("--waive", lack.partition(":")[0])]
    asked = ("run", "seal", launched, *waived, "--reason", "the agreed step")
    proposed = cli(*asked, *AGENT)
    assert (proposed.code, "CONSENT_NEEDED" in proposed.err) == (3, True)
    assert needs(cli, launched).count("proposal") == len(missing)
    sealed = cli(*asked, "--json")
    assert (sealed.code, sealed.json["phase"]) == (0, "sealed")
    assert f"{len(missing)} things waived" in cli("logbook", launched).out
    assert "run/tiny/final" in git(site.remote, "tag")
    assert cli("verify").code == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("permit", "consent", "tiny", "p-1", "--for", "soon"), "--for soon: expected a duration"),
        (("permit", "waive", "tiny", "L13", "--until", "soon"), "--until soon: expected a time"),
        (("permit", "waive", "tiny", "L13", "--until", "2026-11-21T18:00"), "expected a zone"),
        (("permit", "waive", "tiny"), "expected RUN and SUBJECT"),
        (("permit", "waive", "--standing"), "expected --lane"),
        (("permit", "revoke", "tiny"), "expected RUN and NAME"),
        (("stop", "tiny"), "--reason: expected why"),
        (("run", "seal", "tiny", "--waive", "tracker state"), "--reason: expected why"),
    ],
)
def test_bad_input_is_named_with_what_was_expected(
    cli: Cli, arguments: tuple[str, ...], says: str
) -> None:
    answer = cli(*arguments)
    assert answer.code == 4
    assert says in answer.err
