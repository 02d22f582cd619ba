"""Contract files as they are meant: read as YAML 1.2 or TOML, and written with comments."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.adapters.contract_texts import SHA, VALID, VALID_TOML, changed, complaint, read
from watchkeeper.adapters.bad_input import BadInput
from watchkeeper.adapters.contracts.file import contract_to_yaml, read_contract
from watchkeeper.adapters.contracts.guide import COMMENTS, CONTRACT
from watchkeeper.domain.values.contract.contract import UNUSED_KEYS, Contract
from watchkeeper.domain.values.durations import parse_duration


def test_a_valid_contract_is_read(tmp_path: Path) -> None:
    contract = read(tmp_path, VALID)
    assert contract.run == "grug"
    assert contract.command == ("python", "-m", "train")
    assert contract.code.git_sha == SHA
    assert contract.final_step.value == 1000


def test_yaml_and_toml_of_the_same_content_give_the_same_contract(tmp_path: Path) -> None:
    assert read(tmp_path, VALID) == read(tmp_path, VALID_TOML, "c.toml")


def test_yaml_is_read_as_version_1_2_says(tmp_path: Path) -> None:
    env = 'env: {A: no, B: on, C: 1:30, D: 2001-01-01, E: 1_0, F: "012", G: y, H: 0b1, I: =}\n'
    contract = read(tmp_path, VALID + env + "checkpoints: {permanent_every_steps: 012}\n")
    assert contract.env == {
        "A": "no",
        "B": "on",
        "C": "1:30",
        "D": "2001-01-01",
        "E": "1_0",
        "F": "012",
        "G": "y",
        "H": "0b1",
        "I": "=",
    }
    assert contract.checkpoints.permanent_every_steps == 12


@pytest.mark.parametrize("steps", ["100000", "1e5", "1.0E+5", "100000.0", "0x186A0", "0o303240"])
def test_whole_numbers_may_be_written_as_people_write_them(tmp_path: Path, steps: str) -> None:
    assert read(tmp_path, changed("value:", f"  value: {steps}")).final_step.value == 100_000


def test_anchors_and_aliases_are_filled_in(tmp_path: Path) -> None:
    text = VALID.replace("gs://runs/grug", "&root gs://runs/grug")
    text += "checkpoints: {root: *root}\nenv: &e {A: *root}\n"
    assert read(tmp_path, text).checkpoints.root == "gs://runs/grug"
    assert read(tmp_path, text).env == {"A": "gs://runs/grug"}


def test_a_mistake_behind_an_alias_is_told_where_the_alias_stands(tmp_path: Path) -> None:
    text = VALID.replace("value: 1000", "value: &n 1000") + "env:\n  A: *n\n"
    assert complaint(tmp_path, text).startswith("c.yaml:17  env.A: 1000\n")


def test_a_byte_order_mark_and_windows_line_ends_are_read_over(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbf" + VALID.replace("\n", "\r\n").encode()).run == "grug"
    toml = b"\xef\xbb\xbf" + VALID_TOML.replace("\n", "\r\n").encode()
    assert read(tmp_path, toml, "c.toml").run == "grug"


def test_a_command_in_one_line_is_split_like_a_shell_does(tmp_path: Path) -> None:
    line = "command: python -m train --name 'two words' --x=\"a b\""
    contract = read(tmp_path, changed("command:", line))
    assert contract.command == ("python", "-m", "train", "--name", "two words", "--x=a b")


def test_relative_paths_are_resolved_against_the_folder_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/alice")
    folder = tmp_path / "runs"
    folder.mkdir()
    text = VALID
    for old, new in [
        ("gs://runs/grug", "../out/grug/"),
        ("https://github.com/acme/lab.git", "../lab.git"),
        ("/srv/metrics.jsonl", "metrics.jsonl"),
        ("{kind: local}", "{kind: local, address: jobs}"),
    ]:
        text = text.replace(old, new)
    text += "working_dir: ~/work\ncheckpoints: {root: ~}\n".replace("root: ~", "root: ./ckpt")
    text += "initialize_from: ../old/step-10\nlogbook: {remote: 'git@github.com:acme/lab.git'}\n"
    contract = read(folder, text)
    assert contract.output_root == f"{tmp_path}/out/grug"
    assert contract.code.remote == f"{tmp_path}/lab.git"
    assert contract.tracker.url == f"{folder}/metrics.jsonl"
    assert contract.orchestrator.address == f"{folder}/jobs"
    assert contract.working_dir == "/home/alice/work"
    assert contract.checkpoints.root == f"{folder}/ckpt"
    assert contract.initialize_from == f"{tmp_path}/old/step-10"
    assert contract.logbook.remote == "git@github.com:acme/lab.git"


def test_a_folder_on_ray_is_no_folder_of_this_machine(tmp_path: Path) -> None:
    text = VALID.replace("{kind: local}", "{kind: ray, address: 'http://127.0.0.1:8265'}")
    assert read(tmp_path, text + "working_dir: train\n").working_dir == "train"


def test_urls_and_absolute_paths_stay_as_they_are(tmp_path: Path) -> None:
    text = VALID.replace("gs://runs/grug", "file:///srv//x/../runs/")
    text += "initialize_from: /srv//old/../step-10\nlogbook: {remote: 'ssh://git@host/x.git'}\n"
    contract = read(tmp_path, text)
    assert contract.output_root == "file:///srv//x/../runs/"
    assert contract.initialize_from == "/srv//old/../step-10"
    assert contract.logbook.remote == "ssh://git@host/x.git"


def test_a_relative_name_of_the_file_gives_absolute_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.yaml").write_text(VALID.replace("gs://runs/grug", "out"))
    assert read_contract(Path("c.yaml")).output_root == f"{tmp_path}/out"


def keys_of(model: type[BaseModel], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, info in model.model_fields.items():
        part = info.annotation
        if isinstance(part, type) and issubclass(part, BaseModel):
            keys += keys_of(part, f"{name}.")
        else:
            keys.append(prefix + name)
    return keys


@pytest.mark.parametrize("text", ["labels: [x]\n", "checkpoints: {milestones: [500]}\n"])
def test_a_key_that_nothing_uses_is_unknown_in_a_file_and_left_out_of_a_written_one(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(BadInput, match="unknown key"):
        read(tmp_path, VALID + text)
    older = read(tmp_path, VALID).model_copy(update={"labels": ("x",)})
    assert "labels" not in contract_to_yaml(older)


def test_the_guide_knows_exactly_the_keys_of_the_contract_in_their_order() -> None:
    known = [key for key in keys_of(Contract) if key not in UNUSED_KEYS]
    assert [key for key in CONTRACT if "*" not in key] == known
    assert set(COMMENTS) <= set(Contract.model_fields)


@pytest.mark.parametrize(
    "tracker",
    [
        {"kind": "jsonl", "without": "entity project mode base_url dir"},
        {"kind": "wandb", "mode": "online", "without": "url dir"},
        {"kind": "wandb", "mode": "offline", "without": "url base_url"},
    ],
    ids=["jsonl", "online", "offline"],
)
def test_every_example_of_the_guide_is_a_right_value(
    tmp_path: Path, tracker: dict[str, str]
) -> None:
    """Which keys a tracker has depends on its kind; together the three have all of them."""
    sections: dict[str, list[str]] = {}
    tops: list[str] = []
    for key, field in CONTRACT.items():
        section, dot, name = key.partition(".")
        if "*" in key or key in ("watch.declined",):
            continue
        if section == "tracker" and name in tracker["without"].split():
            continue
        example = tracker.get(name, field.example) if section == "tracker" else field.example
        if dot:
            sections.setdefault(section, []).append(f"  {name}: {example}\n")
        else:
            tops.append(f"{key}: {field.example}\n")
    text = "".join(tops) + "".join(f"{name}:\n{''.join(rows)}" for name, rows in sections.items())
    contract = read(tmp_path, text)
    assert contract.run == "grug-moe-1e23-ep8"
    assert contract.env == {"NCCL_DEBUG": "INFO"}


TEXT = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=30
).filter(lambda text: text.strip() != "")
PLACE = st.one_of(
    st.from_regex(r"/[a-z0-9 #:'\"{}é\[\]&*!|>%@`,?-]{0,20}", fullmatch=True).map(str.strip),
    st.sampled_from(["gs://bucket/x", "file:///a b", "s3://x/y#z"]),
)


WINDOW = st.timedeltas(min_value=timedelta(minutes=1), max_value=timedelta(days=366))
REF = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,8}(?:/[a-z0-9_-]{1,8}){0,2}", fullmatch=True)
SLUG = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,9}(?:[.][a-z0-9_-]{1,9})?", fullmatch=True)
TAG = st.one_of(st.just(""), REF)
CADENCE = st.timedeltas(min_value=timedelta(seconds=0.1), max_value=timedelta(days=1))


@st.composite
def contracts(draw: st.DrawFn) -> Contract:
    values: dict[str, Any] = {
        "run": draw(SLUG),
        "title": draw(st.one_of(st.just(""), TEXT)),
        "lane": draw(st.sampled_from(["hero", "daily", "canary", "ordinary"])),
        "goal": draw(TEXT),
        "stop": draw(TEXT),
        "issue": draw(st.sampled_from(["none", "https://github.com/a/b/issues/1"])),
        "command": draw(st.lists(TEXT, max_size=4)),
        "env": draw(st.dictionaries(TEXT, TEXT, max_size=4)),
        "env_from": draw(st.lists(TEXT, max_size=3)),
        "working_dir": draw(st.one_of(st.just(""), PLACE)),
        "orchestrator": {"kind": "local", "address": draw(PLACE), "cluster": draw(TEXT)},
        "code": {"remote": draw(PLACE), "git_sha": SHA, "dirty": draw(st.booleans())},
        "tracker": {"url": draw(PLACE), "id": draw(TEXT), "resume": "must"},
        "output_root": draw(PLACE),
        "final_step": {"value": draw(st.integers(1, 10**15)), "source": draw(TEXT)},
        "checkpoints": {"keep_last": draw(st.one_of(st.none(), st.integers(1, 100)))},
        "retries": {
            "budget": draw(st.integers(0, 1000)),
            "window": draw(WINDOW),
        },
        "watch": {"cadence": draw(CADENCE), "holder": draw(TEXT), "declined": draw(TEXT)},
        "seal": {"auto": draw(st.one_of(st.none(), st.booleans())), "tag": draw(TAG)},
    }
    return Contract.model_validate(values)


@settings(deadline=timedelta(seconds=5), max_examples=150)
@given(contract=contracts())
def test_a_contract_that_is_written_is_read_back_as_equal(
    tmp_path_factory: pytest.TempPathFactory, contract: Contract
) -> None:
    text = contract_to_yaml(contract)
    assert read(tmp_path_factory.getbasetemp(), text) == contract
    assert contract_to_yaml(contract) == text


def test_a_written_contract_is_commented_and_leaves_defaults_out(tmp_path: Path) -> None:
    contract = read(tmp_path, VALID + "watch: {cadence: 90s, holder: 'yes'}\nenv: {A: '1'}\n")
    assert (
        contract_to_yaml(contract)
        == f"""\
# Contract of the run grug.

# What this run is for, and whom to ask.
run: grug
lane: hero
goal: train it
stop: ask after two failures
issue: none

# What is launched. Secrets are named in env_from, never written here.
command:
  - python
  - "-m"
  - train
env:
  A: "1"

# Where jobs run.
orchestrator:
  kind: local

# The exact commit, and where it can be found again.
code:
  remote: https://github.com/acme/lab.git
  git_sha: "{SHA}"

# The identity that must not drift.
tracker:
  url: /srv/metrics.jsonl

# Everything that the run writes lies below this folder.
output_root: gs://runs/grug

# The step at which training is complete, and what says so.
final_step:
  value: 1000

# Who watches, and how often.
watch:
  holder: "yes"
  cadence: 1m30s
"""
    )


def test_a_duration_that_no_clock_can_hold_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="fewer than a thousand million days"):
        parse_duration("999999999999d")
    assert parse_duration("999999999d") == timedelta(days=999_999_999)
