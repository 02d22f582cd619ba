"""Writes the reference: phases, events, refusals, rules and settings.

    uv run python scripts/generate_reference.py [--check]

`--check` writes nothing, and fails when a page is out of date.
"""

import argparse
import inspect
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

import annotated_types
from pydantic import AwareDatetime, BaseModel, StringConstraints
from pydantic.fields import FieldInfo

from watchkeeper.adapters.cli.settings_page import home_settings
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.rules.shared.refusals import MISTAKES, Refusal
from watchkeeper.domain.rules.table import COMMANDS, REFUSALS, RunCommand, refusal_of
from watchkeeper.domain.run.envelope import Envelope
from watchkeeper.domain.run.phases import PHASES
from watchkeeper.domain.run.registry import type_of
from watchkeeper.domain.values.contract.contract import UNUSED_KEYS, Contract
from watchkeeper.domain.values.durations import render_duration
from watchkeeper.projections.signature_page import signature_page

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"

GENERATED = "Generated from the code by `scripts/generate_reference.py`; do not edit.\n"

COMMON: Mapping[str, str] = {
    "approval": "The approval's short name, such as `a-1`.",
    "because": "One sentence that says why.",
    "branch": "The branch.",
    "bundle": "Identity of a source bundle or container; empty when it can't differ.",
    "checkpoint": "Path of the final checkpoint.",
    "cluster": "Its name in records.",
    "commit": "Full id of the commit.",
    "digest": "The plan's identity.",
    "dirty": "Whether the tree had changes that are not in the commit.",
    "display_name": "The name that the tracker shows to people.",
    "effect": "The effect, such as `logbook`.",
    "env": "Plain environment variables.",
    "env_from": "Names of variables read at submit.",
    "evidence": "The supporting evidence.",
    "expires_at": "When it expires.",
    "final_step": "The step at which training is complete.",
    "git_sha": "The exact launch commit.",
    "hardware": "Type and topology.",
    "health": "The verdict on the run.",
    "holder": "The holder of the watch.",
    "instance": "The instance, such as `i1`.",
    "kind": "The kind, such as `pending`.",
    "next_due": "When the next check is due.",
    "note": "The person's words.",
    "orchestrator": "Its kind: `ray` or `local`.",
    "output_root": "The folder that the run writes to.",
    "path": "Its path or URL.",
    "question": "The question's short name, such as `q-1`.",
    "reason": "The reason, in words.",
    "resume_from": "Checkpoint to start from; empty for a start from scratch.",
    "resume_step": "Its numeric step.",
    "root": "The normalised root.",
    "rule": "The rule's id.",
    "run": "The run's slug.",
    "severity": "How urgently it needs a person.",
    "step": "The training step.",
    "step_uncertainty": "The error of the step, in both directions.",
    "submission_id": "The orchestrator's id of the job.",
    "summary": "The problem, in words.",
    "tag": "Name of the git tag.",
    "target": "The commit of the tag.",
    "text": "The remark.",
    "token": "The watch's fencing token.",
    "tracker_id": "Identity at the tracker.",
    "tracker_state": "The state that the tracker reports.",
    "why": "The reason, in words.",
    "working_dir": "Folder that the job starts in.",
    "CheckpointFacts.size_bytes": "Its size, if the store reports it.",
    "CheckpointValidated.kind": "Whether retention keeps it for good.",
    "CheckpointValidated.written_at": "When its metadata was written.",
    "ConsentGiven.consent": "Its short name, such as `c-1`.",
    "DecisionMade.action": "The action.",
    "EscalationRaised.asks": "The question.",
    "Holder.home": "Folder of the home.",
    "Holder.host": "Name of the machine.",
    "Holder.principal": "The principal's name.",
    "LaunchRequested.approval": "The approval of the launch.",
    "LaunchRequested.preflight": "Version of the preflight event.",
    "RunDrafted.contract": "The whole contract.",
    "SealBlocked.missing": "The missing items, by name.",
}
"""Descriptions of common field names. The docstring of a model comes first."""

_ATTRIBUTE = re.compile(r"^(\w+): (.*(?:\n {4,}.*)*)", re.MULTILINE)


def described(model: type[Any]) -> tuple[str, dict[str, str]]:
    """Return a docstring's text, and what its `Attributes` section says of each field."""
    text, _, attributes = (inspect.getdoc(model) or "").partition("\nAttributes:\n")
    listed = inspect.cleandoc("\n" + attributes)
    found = {name: " ".join(says.split()) for name, says in _ATTRIBUTE.findall(listed)}
    return text.strip(), found


def meaning(model: type[Any], name: str) -> str:
    """Return what a field means.

    Raises:
        LookupError: Nobody described it.
    """
    for says in (described(model)[1].get(name), COMMON.get(f"{model.__name__}.{name}")):
        if says:
            return says
    if name in COMMON:
        return COMMON[name]
    raise LookupError(f"{model.__name__}.{name} is described nowhere: add it to the docstring")


# --- Types in words ------------------------------------------------------------------------------

_PLAIN: Mapping[Any, str] = {
    str: "text",
    int: "integer",
    float: "number",
    bool: "true or false",
    timedelta: "duration",
    UUID: "UUID",
    AwareDatetime: "time",
    type(None): "none",
}


def in_words(annotation: Any, metadata: Iterable[Any], shown: dict[str, type[BaseModel]]) -> str:
    """Return a type as people read it; the models in it are added to `shown`."""
    constraints = list(metadata)
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        more = [part for one in arguments[1:] for part in _spread(one)]
        return in_words(arguments[0], [*constraints, *more], shown)
    if origin in (Union, types.UnionType):
        return " or ".join(in_words(one, (), shown) for one in arguments)
    if origin is tuple:
        return "list of " + in_words(arguments[0], (), shown)
    if origin is dict:
        return "map to " + in_words(arguments[1], (), shown)
    if origin is Literal:
        return " or ".join(f"`{one}`" for one in arguments)
    if annotation in _PLAIN:
        return _PLAIN[annotation] + _limits(constraints)
    if issubclass(annotation, Enum):
        return " or ".join(f"`{one.value}`" for one in annotation)
    shown[annotation.__name__] = annotation
    return f"[{annotation.__name__}](#{annotation.__name__.lower()})"


def _spread(one: Any) -> list[Any]:
    return list(one.metadata) if isinstance(one, FieldInfo) else [one]


def _limits(constraints: list[Any]) -> str:
    words: list[str] = []
    for one in constraints:
        if isinstance(one, annotated_types.Ge):
            words.append(f"{one.ge} or more")
        if isinstance(one, annotated_types.Gt):
            words.append(f"more than {one.gt}")
        if isinstance(one, annotated_types.Le):
            words.append(f"at most {one.le}")
        if isinstance(one, StringConstraints) and one.pattern:
            words.append(f"like `{one.pattern}`")
    # A bar would end the table's cell.
    return f" ({', '.join(words)})".replace("|", "\\|") if words else ""


def fields_table(model: type[BaseModel], shown: dict[str, type[BaseModel]]) -> str:
    """Return the table of a model's fields; empty when it has none."""
    rows = [
        f"| `{name}` | {in_words(field.annotation, field.metadata, shown)} "
        f"| {meaning(model, name)} |"
        for name, field in model.model_fields.items()
    ]
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *rows]) if rows else ""


# --- Pages ---------------------------------------------------------------------------------------


def events_page() -> str:
    """Return the page of every topic, with the values inside."""
    shown: dict[str, type[BaseModel]] = {}
    parts = [
        "# Events\n",
        GENERATED,
        "Every event is stored as JSON: an envelope around its own data. Fields that are not "
        "listed are refused. Times carry their zone, durations are ISO 8601, and NaN and the "
        "infinities are the texts `NaN`, `Infinity` and `-Infinity`.\n",
        "## Envelope\n",
        _envelope_table(shown),
    ]
    for topic, model in type_of.items():
        table = fields_table(model, shown)
        parts.append(f"## {topic}\n\n`{model.__name__}`. {described(model)[0]}\n\n{table}\n")
    parts.append("## Values\n")
    parts.append("What stands inside the events above.\n")
    done: set[str] = set()
    while set(shown) - done:
        for name in [name for name in shown if name not in done]:
            done.add(name)
            parts.append(_value(shown[name], shown))
    return "\n".join(parts)


def _envelope_table(shown: dict[str, type[BaseModel]]) -> str:
    table: list[str] = []
    for name, field in Envelope.model_fields.items():
        if name == "data":
            kind = "one of the events below"
        else:
            kind = in_words(field.annotation, field.metadata, shown)
        table.append(f"| `{name}` | {kind} | {meaning(Envelope, name)} |")
    return "\n".join(["| field | type | meaning |", "|---|---|---|", *table, ""])


def _value(model: type[BaseModel], shown: dict[str, type[BaseModel]]) -> str:
    if model is Contract:
        return "### Contract\n\nSee [settings](settings.md).\n"
    return f"### {model.__name__}\n\n{described(model)[0]}\n\n{fields_table(model, shown)}\n"


def docs_table() -> str:
    """Return the table of phases and commands: what each phase takes."""
    names = [phase.__name__.lower() for phase in PHASES]
    lines = [f"| command | {' | '.join(names)} |", "|---" * (len(PHASES) + 1) + "|"]
    for command in COMMANDS:
        marks = [" " if refusal_of(command, phase) else "yes" for phase in PHASES]
        lines.append(f"| `{command.__name__}` | {' | '.join(marks)} |")
    return "\n".join(lines) + "\n"


def phases_page() -> str:
    """Return the page of every phase and what it answers to every command."""
    parts = [
        "# Phases and commands\n",
        GENERATED,
        "A phase takes a command, or refuses it; there is an answer for every pair. Where it takes "
        "one, further rules may still [refuse](refusals.md) it.\n",
        docs_table(),
        "## Commands\n",
        "| command | asks |\n|---|---|",
        *(f"| `{command.__name__}` | {_first(command)} |" for command in COMMANDS),
        "",
    ]
    for phase in PHASES:
        parts.append(f"## {phase.__name__.lower()}\n\n{described(phase)[0]}\n")
        parts.append("| answer | to |\n|---|---|")
        answers: dict[str, list[str]] = {}
        for command in COMMANDS:
            refusal = refusal_of(command, phase)
            answer = f"`{refusal.name}`" if refusal else "takes it"
            answers.setdefault(answer, []).append(f"`{command.__name__}`")
        parts += [f"| {answer} | {', '.join(to)} |" for answer, to in sorted(answers.items())]
        parts.append("")
    return "\n".join(parts)


def _first(model: type[RunCommand]) -> str:
    return " ".join(described(model)[0].split("\n\n")[0].split())


def refusals_page() -> str:
    """Return the page of every refusal, one heading each."""
    parts = [
        "# Refusals\n",
        GENERATED,
        "A refused command leaves nothing in the history. The command line prints the sentence "
        "and exits with 3, or with 4 where the input is wrong whatever is on record.\n",
    ]
    for refusal in Refusal:
        commands = [
            command.__name__ for command in COMMANDS if refusal in REFUSALS[command].values()
        ]
        by = "the [phase](phases.md)" if commands else "a rule of the command"
        code = 4 if refusal in MISTAKES else 3
        parts.append(f"## {refusal.name}\n\n{refusal.value}\n\nExit code {code}, by {by}.\n")
    return "\n".join(parts)


def rules_page() -> str:
    """Return the page of every rule that is in the code, one heading each."""
    parts = ["# Rules\n", GENERATED]
    titles = {
        "L": "## Launch gate\n\nEach says pass, warn or block, and whether the value was stated, "
        "inferred or is missing.\n",
        "R": "## Recovery\n\nThe first that holds decides. What forbids a relaunch is asked before "
        "what allows one.\n",
        "H": "## Detectors\n\nA finding opens once, stays while it holds, and clears when it "
        "stops.\n",
    }
    for letter, title in titles.items():
        of_letter = [rule for rule in RULES.values() if rule.id.startswith(letter)]
        listed = ", ".join(f"[{rule.id}](#{rule.anchor}) {rule.title}" for rule in of_letter)
        parts += [title, f"{listed}.\n"]
        when = "Must hold" if letter == "L" else "When"
        parts += [
            f"### {rule.id}\n\n**{rule.title[0].upper()}{rule.title[1:]}**\n\n"
            f"- {when}: {rule.when}\n- Then: {rule.then}\n"
            f"- From: {rule.source}\n- Code: `{rule.where}`\n"
            for rule in of_letter
        ]
    return "\n".join(parts)


def settings_page() -> str:
    """Return the page of every key of a contract, one heading each."""
    return "\n".join(
        [
            "# Settings\n",
            GENERATED,
            "A contract sets up a run, and nothing else does. A key without a default must be "
            "stated. What a launch rule needs beyond that is said by the [rules](rules.md).\n",
            *_settings(Contract, ""),
            home_settings(),
        ]
    )


def _settings(model: type[BaseModel], prefix: str) -> Iterable[str]:
    for name, field in model.model_fields.items():
        key = f"{prefix}{name}"
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from _settings(inner, f"{key}.")
            continue
        if key in UNUSED_KEYS:
            continue
        kind = in_words(inner, field.metadata, {}).replace("\\|", "|")
        default = _default(field)
        stated = f"; default {default}" if default not in ("", "(required)") else ""
        required = "; required" if default == "(required)" else ""
        yield f"### `{key}`\n\n{meaning(model, name)}\n\nType: {kind}{stated}{required}.\n"


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "(required)"
    value = field.default
    if value is None or value in ("", (), {}):
        return ""
    if isinstance(value, timedelta):
        return f"`{render_duration(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


PAGES: Mapping[str, Callable[[], str]] = {
    "phases.md": phases_page,
    "events.md": events_page,
    "refusals.md": refusals_page,
    "rules.md": rules_page,
    "settings.md": settings_page,
    "signatures.md": lambda: signature_page(GENERATED),
}


def main() -> int:
    """Write the pages, or say which are out of date."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="fail when a page is out of date")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pages are")
    options = parser.parse_args()
    late: list[str] = []
    for name, page in PAGES.items():
        path: Path = options.folder / name
        wanted = page()
        if path.exists() and path.read_text(encoding="utf-8") == wanted:
            continue
        if options.check:
            late.append(str(path))
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(wanted, encoding="utf-8")
    if late:
        print(f"{', '.join(late)}: run `uv run python scripts/generate_reference.py`")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
