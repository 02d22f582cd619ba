"""`why` and `whatif` on a real home: a launch that was blocked, and a run that ended badly."""

import json
import re
import shutil
from pathlib import Path

import pytest

from tests.command_line import Answer, Cli, in_this_process, launch, written
from tests.every_row import every_row
from tests.session import end_processes
from tests.training import Site, make_site, tiny_contract
from watchkeeper.adapters.contracts.file import contract_to_yaml, read_contract
from watchkeeper.domain.rules.whatif import rejudging
from watchkeeper.domain.run.events import RunEvent

pytestmark = pytest.mark.git

DIES = "import os; os.kill(os.getpid(), 9)"


def answer(*words: str) -> Answer:
    done = in_this_process(*words)
    return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `home`, in which the run `tiny` was watched to a bad end, and its contract."""
    folder = tmp_path_factory.mktemp("recorded")
    promised = tiny_contract(make_site(folder), "tiny", steps=60, pace=0.05)
    broken = promised.model_copy(update={"command": ("python3", "-c", DIES)})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WATCHKEEPER_HOME", str(folder / "home"))
        patch.setenv("WATCHKEEPER_PRINCIPAL", "dri")
        assert answer("init", "--human", "dri").code == 0
        launch(answer, written(folder, broken), "tiny")
        assert answer("watch", "--until-idle").code in (0, 1)
    end_processes(folder)
    return folder


@pytest.fixture
def ended_badly(cli: Cli, recorded: Path, home: Path, tmp_path: Path) -> str:
    """The run's slug, in a copy of the home that is the test's own."""
    shutil.rmtree(home)
    shutil.copytree(recorded / "home", home, symlinks=True)
    shutil.copy(recorded / "tiny.yaml", tmp_path)
    return "tiny"


ROOT = Path(__file__).parents[1]


def policy(folder: Path, text: str, name: str = "policy.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_blocked_launch_is_explained_by_its_blocks(cli: Cli, site: Site, tmp_path: Path) -> None:
    cli("launch", written(tmp_path, tiny_contract(site, "tiny", steps=60, pace=0.05)))
    why = cli("why", "tiny")
    assert why.code == 0
    assert "launch blocked by L11" in why.out


def test_a_bad_end_is_explained_with_rule_evidence_and_what_would_have_changed_it(
    cli: Cli, ended_badly: str
) -> None:
    why = cli("why", ended_badly)
    assert why.code == 0
    assert why.out.startswith("Not relaunched after i1: the DRI is asked")
    needs = cli("status", ended_badly, "--json").json["needs"]
    do = [command for need in needs for command in need["do"]]
    assert do
    assert why.out.index(f" next       {do[0]}") < why.out.index(" evidence ")
    assert all(re.search(rf" {re.escape(command)} +# \w+ \w+ ", why.out) for command in do)
    named = re.search(r" rule       (R\d+) .*, docs/reference/rules.md#(r\d+)\n", why.out)
    assert named is not None
    page = (ROOT / "docs/reference/rules.md").read_text(encoding="utf-8")
    assert named[1].lower() == named[2]
    assert f"### {named[1]}\n" in page
    assert "ended by SIGKILL" in why.out
    assert "question   q-1 to" in why.out
    told = json.loads(cli("why", ended_badly, "--json").out)
    assert told["rule"] in why.out
    assert "the checkpoint store had given no answer" in str(told["otherwise"])
    assert "When" not in why.out, "the rule is written out only when it is asked for"
    assert told["rule_says"][:20] in " ".join(cli("why", ended_badly, "--rule").out.split())


def test_an_end_is_explained_as_two_claims(cli: Cli, ended_badly: str) -> None:
    rows = cli("events", ended_badly, "--json").json["events"]
    [seq] = [row["seq"] for row in rows if row["topic"] == "run.failure_classified.1"]
    page = cli("why", ended_badly, str(seq)).out
    assert re.search(r"cause +unknown \(open\)", page)
    assert re.search(r"outlook +retry_once \(provisional\)", page)
    told = json.loads(cli("why", ended_badly, str(seq), "--json").out)
    assert told["claims"]["outlook"]["status"] == "provisional"
    assert told["claims"]["outlook"]["evidence"]


def test_decisions_come_from_events_alone_with_the_evidence_deleted(
    cli: Cli, ended_badly: str, home: Path
) -> None:
    before = cli("why", ended_badly, "--json").out
    kept = [file for file in (home / "evidence").rglob("*") if file.is_file()]
    assert kept
    shutil.rmtree(home / "evidence")
    replayed = cli("ledger", "replay", "--all", "--expect-same", "--json")
    assert replayed.code == 0, replayed.said
    assert replayed.json["differences"] == []
    assert cli("why", ended_badly, "--json").out == before


def test_any_event_can_be_asked_about_and_others_are_refused(cli: Cli, ended_badly: str) -> None:
    assert "did it; no rule decided it" in cli("why", ended_badly, "1").out
    wrong = cli("why", ended_badly, "4000")
    assert wrong.code == 3
    assert "SEQ 4000: expected an event from 1 to" in wrong.err
    assert cli("why", "nobody").code == 3


def test_another_policy_lists_the_decisions_that_change_and_records_nothing(
    cli: Cli, ended_badly: str, tmp_path: Path
) -> None:
    before = cli("events", ended_badly, "--json").out
    same = cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, "retries: {budget: 9}\n"))
    assert "nothing would have been decided otherwise" in same.out
    other = policy(tmp_path, "retries:\n  budget: 0\n", "other.yaml")
    told = json.loads(cli("run", "whatif", ended_badly, "--policy", other, "--json").out)
    [changed] = told["changed"]
    assert any("restart budget" in words for words in changed["would"])
    assert told["changed_by_rules"] == []
    page = cli("run", "whatif", ended_badly, "--policy", other).out
    assert "  was    escalate (" in page
    assert "  would  escalate (R3): the restart budget is 0 (retries.budget)" in page
    assert cli("events", ended_badly, "--json").out == before


@every_row(
    ("name", "text"),
    [
        ("policy.yaml", "{}\n"),
        ("policy.yaml", ""),
        ("policy.yml", "# nothing\n\n"),
        ("policy.yaml", "---\n"),
        ("policy.toml", "# nothing\n"),
        ("policy.toml", ""),
    ],
)
def test_an_empty_policy_asks_whether_today_s_rules_decide_the_same(
    cli: Cli, ended_badly: str, tmp_path: Path, name: str, text: str
) -> None:
    empty = policy(tmp_path, text, name)
    said = cli("run", "whatif", ended_badly, "--policy", empty)
    assert said.code == 0, said.err
    assert "has no key: the recorded policy is judged by today's rules" in said.out
    assert "checks judged again: nothing would have been decided otherwise" in said.out
    told = json.loads(cli("run", "whatif", ended_badly, "--policy", empty, "--json").out)
    assert told["checks"] > 0
    assert (told["changed"], told["changed_by_rules"]) == ([], [])
    assert len(told["notes"]) == 1


def decides_nothing(*_: object) -> list[RunEvent]:
    return []


def test_a_decision_that_today_s_rules_do_not_make_is_reported_by_an_empty_policy(
    cli: Cli, ended_badly: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rejudging, "events_after_check", decides_nothing)
    told = json.loads(
        cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, ""), "--json").out
    )
    [by_rules] = [one for one in told["changed_by_rules"] if "escalate" in str(one["was"])]
    assert by_rules["would"] == []
    assert told["changed"] == []
    page = cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, "")).out
    assert "checks judged again: the policy changes nothing" in page
    assert re.search(r"of \d+ checks: otherwise by today's rules in any case", page)
    assert re.search(r"\n  recorded    escalate \(R\d+\): .*\n(  .*\n)*  would     nothing\n", page)


def test_the_run_s_contract_file_is_tried_for_its_policy_as_it_is_now(
    cli: Cli, ended_badly: str, tmp_path: Path
) -> None:
    [file] = tmp_path.glob("*.yaml")
    same = cli("run", "whatif", ended_badly, "--policy", str(file))
    assert same.code == 0, same.err
    assert "is a contract: its lane, policy, " in same.out
    assert "stays as it was" not in same.out
    assert "nothing would have been decided otherwise" in same.out
    promised = read_contract(file)
    now = promised.model_copy(
        update={
            "retries": promised.retries.model_copy(update={"budget": 0}),
            "detect": promised.detect.model_copy(update={"loss_rise": 0.1}),
        }
    )
    file.write_text(contract_to_yaml(now), encoding="utf-8")
    told = json.loads(cli("run", "whatif", ended_badly, "--policy", str(file), "--json").out)
    [changed] = told["changed"]
    assert any("restart budget is 0" in words for words in changed["would"])
    [_, kept] = told["notes"]
    assert kept.startswith("detect.loss_rise stays as it was: it cannot be judged from the record")


def test_another_lane_is_tried_and_names_its_limits_that_are_not(
    cli: Cli, ended_badly: str, tmp_path: Path
) -> None:
    other = policy(tmp_path, "lane: canary\n")
    told = json.loads(cli("run", "whatif", ended_badly, "--policy", other, "--json").out)
    assert any(note.startswith("live.initialising stays as it was: ") for note in told["notes"])


def test_the_contract_of_another_run_is_refused(cli: Cli, ended_badly: str, tmp_path: Path) -> None:
    [file] = tmp_path.glob("*.yaml")
    text = file.read_text(encoding="utf-8").replace("run: tiny\n", "run: other\n")
    refused = cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, text, "other.yaml"))
    assert refused.code == 4
    assert "expected the contract of tiny, or some keys of one" in refused.err


def test_a_limit_and_what_recovery_may_do_are_tried_on_the_record(
    cli: Cli, ended_badly: str, tmp_path: Path
) -> None:
    for text in ("live: {stall: 5m}\n", "recover: {harmless: [docs/**]}\n"):
        said = cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, text))
        assert said.code == 0, said.err


@every_row(
    ("text", "said"),
    [
        ("command: [rm]\n", "command"),
        (
            "stopping: {step: 9}\n",
            "it sets where the watch ends, and the recorded checks are",
        ),
        ("command: [rm]\n", "it defines the launched job, and checks saw the results of that"),
        ("hosts: {mounts: [/data]}\n", "what can: lane, policy, retries, watch, tracker, "),
        ("watches: {cadence: 5m}\n", "expected one of lane, policy, retries, watch, tracker, "),
        ("tracker: {mode: offline}\n", "checks read the recorded tracker; what can: tracker."),
        ("hardware: {region: us-west4}\n", "it changes only words, no decision"),
        ("recover: {bad_node: never}\n", "recover.bad_node"),
        ("retries: {budget: ten}\n", "retries.budget"),
        ("retries: {bugdet: 1}\n", 'did you mean "budget"?'),
        ("[]\n", "expected at least one of"),
        ("detect: {loss_rise: 0.1}\n", "detect.loss_rise"),
        (
            "live: {compiling: 5m}\n",
            "cannot be judged from the record: checks keep that no step",
        ),
        ("live: {compiling: 5m}\n", "what can: live.stall, live.stall_cadences, "),
    ],
)
def test_a_policy_that_says_nothing_about_checks_is_refused(
    cli: Cli, ended_badly: str, tmp_path: Path, text: str, said: str
) -> None:
    refused = cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, text))
    assert refused.code == 4
    assert said in refused.err


def test_all_that_is_wrong_with_a_policy_is_reported_at_once(
    cli: Cli, ended_badly: str, tmp_path: Path
) -> None:
    text = "watch: {cadence: banana}\nfrob: 1\nretries: {budget: ten}\n"
    refused = cli("run", "whatif", ended_badly, "--policy", policy(tmp_path, text))
    assert [line.split()[1] for line in refused.err.splitlines() if ".yaml:" in line] == [
        "watch.cadence:", "frob:", "retries.budget:",
    ]  # fmt: skip
    assert "3 problems" in refused.err
