"""Mistakes in contract files: each is named with its line, and what was expected instead."""

import json
import os
from pathlib import Path

import pytest

from tests.adapters.contract_texts import SHA, VALID, VALID_TOML, changed, complaint, read, without
from tests.every_row import every_row
from watchkeeper.adapters.bad_input import (
    RENDERED_MAX,
    BadInput,
    Problem,
    problem_rows,
    render_problems,
)
from watchkeeper.adapters.contracts.file import read_contract
from watchkeeper.adapters.contracts.guide import CONTRACT


def test_several_problems_are_told_at_once_in_line_order(tmp_path: Path) -> None:
    text = VALID + 'checkpoints:\n  keep_last: "ten"\nretrys: 3\nwatch:\n  cadence: 15 minutes\n'
    text = text.replace("lane: hero", "lane: heroic").replace("goal: train it\n", "")
    assert complaint(tmp_path, text) == (
        "c.yaml:1  goal\n"
        '    missing; expected text of 1 to 2000 characters, for example "train to the final step'
        ' below loss 2.4"\n'
        'c.yaml:2  lane: "heroic"\n'
        "    expected one of hero, daily, canary and ordinary, for example hero\n"
        '    -> did you mean "hero"?\n'
        'c.yaml:16  checkpoints.keep_last: "ten"\n'
        "    expected a whole number of 1 or more, for example 10\n"
        "c.yaml:17  retrys\n"
        '    unknown key; did you mean "retries"?\n'
        'c.yaml:19  watch.cadence: "15 minutes"\n'
        "    expected a duration such as 570s, 15m, 1h30m or 24h\n"
        '    -> did you mean "15m"?'
    )


def test_the_last_line_counts_the_problems_and_says_that_nothing_was_recorded() -> None:
    problem = Problem("a.yaml", 3, "run", '"X"', "expected a slug")
    assert render_problems([problem]).endswith("\n1 problem; nothing was recorded.")
    assert render_problems([problem] * 2).endswith("\n2 problems; nothing was recorded.")


def test_very_many_problems_are_cut_on_the_screen_and_whole_in_json(tmp_path: Path) -> None:
    names = "".join(f"  V{n}: {n}\n" for n in range(RENDERED_MAX + 5))
    with pytest.raises(BadInput) as caught:
        read(tmp_path, f"{VALID}env:\n{names}")
    assert f"... and 5 more\n{RENDERED_MAX + 5} problems" in str(caught.value)
    rows = problem_rows(caught.value.problems)
    assert len(rows) == RENDERED_MAX + 5
    assert json.loads(json.dumps(rows[0])) == {
        "file": f"{tmp_path}/c.yaml",
        "line": 17,
        "key": "env.V0",
        "value": "0",
        "expected": 'expected text, for example "10"',
        "next_step": 'put it in quotes: "0"',
    }


ADDED = [
    (
        "retries:\n  budget: 5000",
        "c.yaml:17  retries.budget: 5000\n"
        "    expected a whole number from 0 to 1000, for example 3",
    ),
    (
        "checkpoints: {keep_last: 1_000}",
        'c.yaml:16  checkpoints.keep_last: "1_000"\n'
        "    expected a whole number of 1 or more, for example 10\n    -> write 1000",
    ),
    (
        "checkpoints: {keep_last: 0}",
        "c.yaml:16  checkpoints.keep_last: 0\n"
        "    expected a whole number of 1 or more, for example 10",
    ),
    (
        "checkpoints: {keep_last: true}",
        "c.yaml:16  checkpoints.keep_last: true\n"
        "    expected a whole number of 1 or more, for example 10",
    ),
    (
        "checkpoints: {keep_last: 1.5}",
        "c.yaml:16  checkpoints.keep_last: 1.5\n"
        "    expected a whole number of 1 or more, for example 10",
    ),
    (
        "seal: {auto: no}",
        'c.yaml:16  seal.auto: "no"\n    expected true or false, for example true\n'
        "    -> write false, without quotes; no is text",
    ),
    (
        "seal: {auto: on}",
        'c.yaml:16  seal.auto: "on"\n    expected true or false, for example true\n'
        "    -> write true, without quotes; on is text",
    ),
    (
        "env:\n  STEPS: 012",
        'c.yaml:17  env.STEPS: 012\n    expected text, for example "10"\n'
        '    -> put it in quotes: "012"',
    ),
    (
        "env:\n  RATE: 1e3",
        'c.yaml:17  env.RATE: 1e3\n    expected text, for example "10"\n'
        '    -> put it in quotes: "1e3"',
    ),
    (
        "env:\n  WANDB_API_KEY: 12345",
        'c.yaml:17  env.WANDB_API_KEY\n    expected text, for example "10"\n'
        "    -> put it in quotes",
    ),
    ("env:\n  3: x", "c.yaml:17  env.3\n    expected text as a key\n    -> put the key in quotes"),
    (
        "env: [a]",
        "c.yaml:16  env: a list\n"
        '    expected a mapping of names to texts, for example {NCCL_DEBUG: "INFO"}',
    ),
    (
        "env_from: WANDB",
        'c.yaml:16  env_from: "WANDB"\n'
        "    expected a list of names of environment variables, for example [WANDB_API_KEY]\n"
        "    -> write it as a list, in brackets",
    ),
    (
        "env_from:\n  - A\n  - 3",
        "c.yaml:18  env_from[1]: 3\n"
        "    expected the name of an environment variable, for example WANDB_API_KEY\n"
        '    -> put it in quotes: "3"',
    ),
    (
        "hardware:",
        "c.yaml:16  hardware: (empty)\n    expected a section with the keys type, topology, "
        "count, region\n    -> give it a value; an optional key may be omitted",
    ),
    (
        "hardware: v5p",
        'c.yaml:16  hardware: "v5p"\n    expected a section with the keys type, topology, '
        "count, region",
    ),
    (
        "resume: [x]",
        "c.yaml:16  resume: a list\n    expected a section with the key argument",
    ),
    (
        "title:",
        'c.yaml:16  title: (empty)\n    expected text, for example "Grug MoE 1e23"\n    '
        "-> give it a value; an optional key may be omitted",
    ),
    (
        "timezone: Mars/Olympus",
        'c.yaml:16  timezone: "Mars/Olympus"\n'
        "    expected an IANA time zone such as UTC or America/Los_Angeles",
    ),
    (
        "watch: {cadence: 15}",
        "c.yaml:16  watch.cadence: 15\n"
        "    expected a duration such as 570s, 15m, 1h30m or 24h, for example 15m\n"
        "    -> give the unit: 15s or 15m",
    ),
    (
        "watch: {cadence: true}",
        "c.yaml:16  watch.cadence: true\n"
        "    expected a duration such as 570s, 15m, 1h30m or 24h, for example 15m",
    ),
    (
        'watch: {cadence: "15"}',
        'c.yaml:16  watch.cadence: "15"\n    expected a duration such as 570s, 15m, 1h30m or 24h\n'
        "    -> give the unit: 15s or 15m",
    ),
    (
        "watch: {cadence: PT15M}",
        'c.yaml:16  watch.cadence: "PT15M"\n'
        "    expected a duration such as 570s, 15m, 1h30m or 24h, for example 15m",
    ),
    (
        "watch: {cadence: 1:30}",
        'c.yaml:16  watch.cadence: "1:30"\n    expected a duration such as 570s, 15m, 1h30m or 24h',
    ),
    (
        "watch: {cadence: 25h}",
        'c.yaml:16  watch.cadence: "25h"\n    expected a duration between 0.1s and 24h',
    ),
    (
        "watch: {cadence: 999999999999d}",
        'c.yaml:16  watch.cadence: "999999999999d"\n'
        "    expected a duration of fewer than a thousand million days",
    ),
    (
        "retries: {owner: both}",
        'c.yaml:16  retries.owner: "both"\n'
        "    expected watchkeeper or orchestrator, for example watchkeeper",
    ),
    (
        "logbook: {path: ../x}",
        'c.yaml:16  logbook.path: "../x"\n'
        "    expected a file path inside the repository, such as docs/run.md",
    ),
    (
        "logbook: {remote: origin}",
        'c.yaml:16  logbook.remote: "origin"\n    expected a URL or path of a git remote; '
        "only its clone knows this name\n    -> write what this prints: git remote get-url "
        "origin",
    ),
    (
        "initialize_from: $SCRATCH/step-10",
        'c.yaml:16  initialize_from: "$SCRATCH/step-10"\n'
        "    expected a path; variables are not filled in\n    -> write it in full",
    ),
    (
        "initialize_from: ~nobody-of-that-name/x",
        'c.yaml:16  initialize_from: "~nobody-of-that-name/x"\n    expected a path; no '
        "home folder has that name\n    -> write it in full",
    ),
    (
        "run: other",
        'c.yaml:16  run: "other"\n    given twice; first on line 1\n    -> keep one of them',
    ),
    (
        "env: {A: x, B: y,\n  A: z}",
        'c.yaml:17  env.A: "z"\n    given twice; first on line 16\n    -> keep one of them',
    ),
    ("retrys: {}", 'c.yaml:16  retrys\n    unknown key; did you mean "retries"?'),
    ("Retries: {}", 'c.yaml:16  Retries\n    unknown key; did you mean "retries"?'),
    (
        "checkpoints: {keep-last: 1}",
        'c.yaml:16  checkpoints.keep-last\n    unknown key; did you mean "keep_last"?',
    ),
    ("value: 3", 'c.yaml:16  value\n    unknown key; did you mean "final_step.value"?'),
    ("cadence: 3", 'c.yaml:16  cadence\n    unknown key; did you mean "watch.cadence"?'),
    ("sha: x", 'c.yaml:16  sha\n    unknown key; did you mean "code.git_sha"?'),
    ("tracker_id: x", 'c.yaml:16  tracker_id\n    unknown key; did you mean "tracker.id"?'),
    (
        "branch: x",
        'c.yaml:16  branch\n    unknown key; did you mean "code.branch" or "logbook.branch"?',
    ),
    ("seal: {watch: 3}", 'c.yaml:16  seal.watch\n    unknown key; did you mean "watch"?'),
    (
        "seal: {sealed_by_wax: 3}",
        "c.yaml:16  seal.sealed_by_wax\n    unknown key\n    -> known here: auto, tag",
    ),
    (
        "title: !env HOME",
        "c.yaml:16  title\n    expected a value without a tag\n"
        "    -> remove the tag; put text that begins with ! in quotes",
    ),
    (
        "seal: !!python/object:os.system {tag: x}",
        "c.yaml:16  seal\n    expected a value without a tag\n"
        "    -> remove the tag; put text that begins with ! in quotes",
    ),
    (
        "<<: {title: x}",
        "c.yaml:16  <<\n    expected a key; merging with << is not part of YAML 1.2\n"
        "    -> write the keys out",
    ),
    ("? [a]\n: 1", "c.yaml:16  ?\n    expected text as a key\n    -> put the key in quotes"),
    (
        'title: "a\\0b"',
        "c.yaml:16  title\n    expected text without NUL and without half a surrogate pair",
    ),
    (
        'title: "\\ud800"',
        "c.yaml:16  title\n    expected text without NUL and without half a surrogate pair",
    ),
    (
        f"checkpoints: {{keep_last: {'9' * 200}}}",
        "c.yaml:16  checkpoints.keep_last\n    expected a number of at most 100 characters\n"
        "    -> put text in quotes",
    ),
]
"""Text after the valid file, and what is said about it."""


@every_row(("text", "said"), ADDED, ids=[text[:30] for text, _ in ADDED])
def test_a_mistake_in_an_optional_key_is_told_with_its_line(
    tmp_path: Path, text: str, said: str
) -> None:
    assert complaint(tmp_path, VALID + text + "\n") == said


CHANGED = [
    (
        "run:",
        "run: Grug MoE",
        'c.yaml:1  run: "Grug MoE"\n    expected a slug of at most 80 lower-case letters, digits,'
        " dots, underscores and hyphens, for example grug-moe-1e23-ep8\n"
        '    -> did you mean "grug-moe"?',
    ),
    (
        "run:",
        "run: GRUG",
        'c.yaml:1  run: "GRUG"\n    expected a slug of at most 80 lower-case letters, digits,'
        " dots, underscores and hyphens, for example grug-moe-1e23-ep8\n"
        "    -> write it in lower case",
    ),
    (
        "git_sha:",
        "  git_sha: 4be1c09",
        'c.yaml:10  code.git_sha: "4be1c09"\n'
        "    expected a git commit id of 40 lower-case hexadecimal digits, for example "
        f"{SHA}\n    -> write what this prints: git rev-parse 4be1c09",
    ),
    (
        "git_sha:",
        "  git_sha: 1234567",
        "c.yaml:10  code.git_sha: 1234567\n"
        "    expected a git commit id of 40 lower-case hexadecimal digits, for example "
        f'{SHA}\n    -> put it in quotes: "1234567"',
    ),
    (
        "git_sha:",
        f"  git_sha: {SHA.upper()}",
        "c.yaml:10  code.git_sha: (not shown: 40 characters that may be a secret)\n"
        "    expected a git commit id of 40 lower-case hexadecimal digits, for example "
        f"{SHA}\n    -> write it in lower case",
    ),
    (
        "goal:",
        f"goal: {'x ' * 1001}y",
        f'c.yaml:3  goal: "{"x " * 30}"...\n'
        "    expected at most 2000 characters, found 2003\n    -> shorten it",
    ),
    (
        "issue:",
        "issue: '41'",
        'c.yaml:5  issue: "41"\n    expected the issue\'s URL, or none as a stated waiver',
    ),
    (
        "command:",
        "command: python -c 'print(1)  # --token=abc",
        "c.yaml:6  command\n    expected a line of shell words: no closing quotation\n"
        "    -> close the quote, or write the command as a list",
    ),
    (
        "command:",
        "command: [train, --steps, 10]",
        'c.yaml:6  command[2]: 10\n    expected text, for example "--run-id"\n'
        '    -> put it in quotes: "10"',
    ),
    (
        "command:",
        "command: [train, --api-token, 123456]",
        'c.yaml:6  command[2]\n    expected text, for example "--run-id"\n    -> put it in quotes',
    ),
    (
        "command:",
        "command: {a: b}",
        "c.yaml:6  command: a mapping\n    expected a list of texts, or one line of shell words,"
        ' for example ["python", "-m", "train"]',
    ),
    (
        "orchestrator:",
        "orchestrator: {kind: ray}",
        "c.yaml:7  orchestrator.address\n    missing; expected the URL of Ray's dashboard,"
        " for example http://127.0.0.1:8265",
    ),
    (
        "orchestrator:",
        "orchestrator: {kind: ray, address: 10.0.0.1, clustr: a}",
        'c.yaml:7  orchestrator.clustr\n    unknown key; did you mean "cluster"?\n'
        'c.yaml:7  orchestrator.address: "10.0.0.1"\n    expected the URL of Ray\'s dashboard,'
        " for example http://127.0.0.1:8265",
    ),
    (
        "orchestrator:",
        "orchestrator: {kind: slurm}",
        'c.yaml:7  orchestrator.kind: "slurm"\n    expected ray or local, for example ray',
    ),
    (
        "remote:",
        "  remote: ''",
        'c.yaml:9  code.remote: ""\n    expected a URL or path of a git remote,'
        " for example https://github.com/acme/lab.git",
    ),
    (
        "value:",
        "  value: -3",
        "c.yaml:15  final_step.value: -3\n"
        "    expected a whole number of 1 or more, for example 119209",
    ),
    (
        "value:",
        '  value: "1000"',
        'c.yaml:15  final_step.value: "1000"\n'
        "    expected a whole number of 1 or more, for example 119209\n    -> write 1000",
    ),
    (
        "value:",
        "  value: .nan",
        "c.yaml:15  final_step.value: .nan\n"
        "    expected a whole number of 1 or more, for example 119209",
    ),
    (
        "value:",
        "  source: code",
        "c.yaml:14  final_step.value\n"
        "    missing; expected a whole number of 1 or more, for example 119209",
    ),
]
"""A key of the valid file, its line instead, and what is said."""


@every_row(("key", "line", "said"), CHANGED, ids=[row[1][:30] for row in CHANGED])
def test_a_mistake_in_a_required_key_is_told_with_its_line(
    tmp_path: Path, key: str, line: str, said: str
) -> None:
    assert complaint(tmp_path, changed(key, line)) == said


@pytest.mark.parametrize("key", ["run", "lane", "goal", "stop", "issue", "command", "output_root"])
def test_a_missing_key_is_told_on_the_line_of_what_should_hold_it(tmp_path: Path, key: str) -> None:
    said = complaint(tmp_path, "# A comment first.\n" + without(f"{key}:"))
    assert said.startswith(f"c.yaml:2  {key}\n    missing; expected {CONTRACT[key].what}")


BROKEN = [
    ("", "c.yaml\n    expected a contract, found nothing\n    -> write at least run, lane,"),
    ("# just a comment\n", "c.yaml\n    expected a contract, found nothing"),
    ("- a\n- b\n", "c.yaml:1\n    expected keys with values\n    -> begin with a line such as"),
    ("a contract", "c.yaml:1\n    expected keys with values"),
    (b"run: \xff\xfe", "c.yaml:1\n    expected UTF-8 text, found the byte 0xff\n    -> save the"),
    (b"run: a\nlane: \xe9\n", "c.yaml:2\n    expected UTF-8 text, found the byte 0xe9"),
    ("a: b\nc: \x07", "c.yaml:2\n    expected text, found the control character U+0007"),
    ("a: 'b\nc: d\n", "c.yaml:1\n    not YAML: expected a closing quote\n    -> close the quote"),
    ("a: [b,\nc: d\n", "c.yaml:1\n    not YAML: expected a comma or a closing bracket"),
    ("a:\n\t- b\n", "c.yaml:2\n    not YAML: expected spaces, found a tab\n    -> indent with"),
    ("a: b\n  c: d\n", "c.yaml:2\n    not YAML: expected one key and its value on the line"),
    ("goal: fast: very\n", "c.yaml:1\n    not YAML: expected one key and its value on the line"),
    ("a: b\n- c\n", "c.yaml:2\n    not YAML: expected a key or item that lines up with the ones"),
    ('a: "\\q"\n', "c.yaml:1\n    not YAML: expected a known escape in double quotes"),
    ('a: "\\UFFFFFFFF"\n', "c.yaml\n    not YAML: expected an escape for a character"),
    ("a: @b\n", "c.yaml:1\n    not YAML: expected text that begins with a letter, a digit or"),
    ("a: b\n---\na: c\n", "c.yaml:2\n    expected one document, found a second"),
    ("%YAML 1.1\n---\na: no\n", "c.yaml:2\n    expected YAML 1.2, found a directive for another"),
    ("%YAML 1.3\n---\na: b\n", "c.yaml\n    expected YAML 1.2, found a directive for another"),
    ("a: *x\n", "c.yaml:1\n    expected a value, found an alias without a complete anchor above"),
    ("a: &x [*x]\n", "c.yaml:1\n    expected a value, found an alias without a complete"),
    ("a: &x 1\nb: &x [*x]\n", "c.yaml:2\n    expected a value, found an alias without a complete"),
    ("a: &\n", "c.yaml:1\n    not YAML: expected the name of an anchor after & or *"),
    ("a: !<\n", "c.yaml:1\n    not YAML: expected no tag here"),
    ("a: |x\n", "c.yaml:1\n    not YAML: expected a line break after | or >"),
    ("a: b\n}\n", "c.yaml:2\n    not YAML: expected a key or item that lines up"),
    ("{a: b}\nc: d\n", "c.yaml:2\n    not YAML: expected a key or item that lines up"),
    ("- a: b: c\n", "c.yaml:1\n    not YAML: expected one key and its value on the line"),
    ("a\nb\nc: d\n", "c.yaml:3\n    not YAML: expected one key and its value on the line"),
    ("a: b\nc\nd: e\n", "c.yaml:2\n    not YAML: expected a colon after the key"),
    ("%FOO\n", "c.yaml:2\n    not YAML: expected a key or item"),
    ("a: " + "[" * 50 + "]" * 50, "c.yaml:1\n    expected at most 20 levels of mappings"),
    (b"#" * (1 << 20) + b"\n", "c.yaml\n    expected a contract file of at most 1 MiB"),
]


@every_row(("text", "said"), BROKEN, ids=[repr(text[:20]) for text, _ in BROKEN])
def test_a_file_that_is_no_yaml_is_refused_as_one(
    tmp_path: Path, text: str | bytes, said: str
) -> None:
    assert complaint(tmp_path, text).startswith(said)


BROKEN_TOML = [
    ("", "c.toml\n    expected a contract, found nothing"),
    ("a: b", "c.toml:1\n    not TOML: expected key = value\n    -> write = after the key"),
    ("\na = no\n", "c.toml:2\n    not TOML: expected a value\n    -> put text in double quotes"),
    ('a = 1\nb = "x\n', "c.toml:2\n    not TOML: expected a closing quote"),
    ('a = 1\nb = """x\n\n\n', "c.toml:2\n    not TOML: expected a closing quote"),
    ("a = 1\nb = [\n 1,\n", "c.toml:2\n    not TOML: expected a value\n"),
    ("[a]\nb = 1\n[a]\n", "c.toml:3\n    not TOML: expected each key and table once"),
    ("a = 1\na = 2", "c.toml:2\n    not TOML: expected each key and table once"),
    ("[a\nb = 1\n", "c.toml:1\n    not TOML: expected ] after the table's name"),
    ('a = "\\q"', "c.toml:1\n    not TOML: expected a known escape in double quotes"),
    ("a = 1 b", "c.toml:1\n    not TOML: expected nothing more on the line after the value"),
    ("= 1", "c.toml:1\n    not TOML: expected key = value or a [table]"),
    (f"a = {'9' * 5000}", "c.toml\n    expected numbers of at most 100 characters"),
    (f"a = {'[' * 5000}", "c.toml\n    expected at most 20 levels of tables and arrays"),
    (f"a = {'[' * 50}{']' * 50}", "c.toml:1\n    expected at most 20 levels of tables and arrays"),
    (f"{'a.' * 500}b = 1", "c.toml:1\n    expected at most 100 dots outside quotes on a line"),
]


@every_row(("text", "said"), BROKEN_TOML, ids=[repr(t[:20]) for t, _ in BROKEN_TOML])
def test_a_file_that_is_no_toml_is_refused_as_one(tmp_path: Path, text: str, said: str) -> None:
    assert complaint(tmp_path, text, "c.toml").startswith(said)


def test_toml_problems_have_lines_in_tables_dotted_keys_and_inline_tables(tmp_path: Path) -> None:
    text = VALID_TOML.replace("value = 1000", 'value = "many"') + (
        '[checkpoints]\n# a comment\nkeep_last = "ten"\n\n'
        'watch.x = """\nkeep_last = 3\n"""\n'
        "[retries]\nbudget = -1\n"
        '[env]\nA = 3\nB = 2001-01-01\nC = "ok"\n'
    ).replace("watch.x", "root")
    text = 'seal = {auto = "yes", tga = "x"}\nlogbook.path = "/x"\n' + text
    text = text.replace('"-m", "train"]', '"-m",\n  3,\n]')
    assert complaint(tmp_path, text, "c.toml") == (
        'c.toml:1  seal.auto: "yes"\n    expected true or false, for example true\n'
        "    -> write true, without quotes; yes is text\n"
        "c.toml:1  seal.tga\n    unknown key\n    -> known here: auto, tag\n"
        'c.toml:2  logbook.path: "/x"\n'
        "    expected a file path inside the repository, such as docs/run.md\n"
        'c.toml:8  command[2]: 3\n    expected text, for example "--run-id"\n'
        '    -> put it in quotes: "3"\n'
        'c.toml:22  final_step.value: "many"\n'
        "    expected a whole number of 1 or more, for example 119209\n"
        'c.toml:25  checkpoints.keep_last: "ten"\n'
        "    expected a whole number of 1 or more, for example 10\n"
        "c.toml:31  retries.budget: -1\n    expected a whole number from 0 to 1000, for example 3\n"
        'c.toml:33  env.A: 3\n    expected text, for example "10"\n    -> put it in quotes: "3"\n'
        "c.toml:34  env.B\n    expected text, a number, true or false, found a date or time\n"
        '    -> put it in quotes: "2001-01-01"'
    )


def test_a_toml_line_that_is_too_costly_to_find_is_left_out(tmp_path: Path) -> None:
    text = VALID_TOML.replace("train it", "").replace("lane", 'title = """\n@"""\nlane', 1)
    text = text.replace("@", "x\n" * 3000) + '[checkpoints]\nkeep_last = "ten"\n'
    text = text.replace('run = "grug"', 'run = ""')
    run, goal, keep_last = complaint(tmp_path, text, "c.toml").split("\nc.toml")
    assert run.startswith('c.toml:1  run: ""')
    assert goal.startswith('  goal: ""')
    assert keep_last.startswith('  checkpoints.keep_last: "ten"')


def test_a_missing_file_names_the_one_that_was_probably_meant(tmp_path: Path) -> None:
    (tmp_path / "grug.yaml").write_text(VALID)
    with pytest.raises(BadInput, match=r"there is none\n    -> did you mean .*/grug\.yaml\?"):
        read_contract(tmp_path / "grugg.yaml")
    with pytest.raises(BadInput, match=r"there is none\n    -> no folder .*/none;"):
        read_contract(tmp_path / "none" / "grug.yaml")


def test_what_is_no_readable_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    (tmp_path / "loop.yaml").symlink_to("loop.yaml")
    (tmp_path / "c.json").write_text("{}")
    for path, said in [
        (tmp_path, "found a folder"),
        (tmp_path / "pipe.yaml", "found a device or pipe"),
        (Path("/dev/zero"), "found a device or pipe"),
        (tmp_path / "loop.yaml", "that can be read: too many levels of symbolic links"),
        (tmp_path / ("a" * 300 + ".yaml"), "that can be read: file name too long"),
        (tmp_path / "\0.yaml", "its name holds a NUL"),
        (tmp_path / "c.json", r"whose name ends in \.yaml, \.yml or \.toml"),
    ]:
        with pytest.raises(BadInput, match=said):
            read_contract(path)


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(VALID)
    (tmp_path / "c.yaml").chmod(0)
    user = os.geteuid()
    if user == 0:
        # Root reads every file; nobody is nobody.
        os.seteuid(65534)
    try:
        with pytest.raises(BadInput, match="expected a contract file that can be read: permission"):
            read_contract(tmp_path / "c.yaml")
    finally:
        os.seteuid(user)


SECRETS = [
    "ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "https://user:hunter2@github.com/acme/lab.git",
    "sk-proj-abcdefg",
    "0123456789abcdef0123456789abcdef01234567",
    "AKIAIOSFODNN7EXAMPLE",
]


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_that_looks_like_a_secret_is_shown(tmp_path: Path, secret: str) -> None:
    for text in [
        changed("lane:", f"lane: {secret!r}"),
        VALID + f"title: *{secret}\n",
        VALID + f"title: !{secret} x\n",
        VALID + f"title: &{secret}\n{secret}: x\n",
        changed("run:", f"run: {secret} X"),
        changed("git_sha:", f"  git_sha: {secret}x"),
        changed("url:", f"  ulr: {secret}"),
        changed("command:", f"command: train '{secret}"),
        VALID + f"seal: {{auto: {secret!r}}}\n",
        VALID + f"watch: {{cadence: {secret!r}}}\n",
        VALID + f"hardware: {secret!r}\n",
        VALID + f"lane: {secret!r}\n",
    ]:
        assert secret not in complaint(tmp_path, text)


def test_no_file_can_send_commands_to_a_terminal(tmp_path: Path) -> None:
    said = complaint(tmp_path, VALID + '"\\e[2J\\u202e": 1\nseal: {auto: "\\e[31m\\x9b"}\n')
    assert all(character.isprintable() or character == "\n" for character in said)
