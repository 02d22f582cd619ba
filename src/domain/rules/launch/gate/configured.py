"""Retention and retries as given by the launched configuration and command."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from watchkeeper.domain.rules.launch.gate.base import UNKNOWN_SOURCE, Gate
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.contract.contract import Contract
from watchkeeper.domain.values.contract.options import is_dotted_key, last_part, option_value
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.domain.values.observation.gate_facts import CONFIG
from watchkeeper.domain.values.observation.observation import gate_reading_of

RETENTION: Mapping[str, tuple[str, ...]] = {
    "permanent_every_steps": ("permanent_every_steps", "permanent_interval", "keep"),
    "temporary_every": ("temporary_every", "temporary_interval", "save_interval", "save_every"),
    "keep_last": ("keep_last", "keep_last_n", "max_to_keep", "num_to_keep"),
}
"""Names in training code for the values of `checkpoints.*`; Levanter's are `save_interval` and
`keep`, a list of `every` and `until`. Only keys about checkpoints are read."""

RETRIES = ("max_restarts", "max_retries_failure", "max_retries_preemption", "max_task_retries")
"""Options by which a job restarts itself: torchrun's, Iris's and Ray's."""

Found = tuple[str, str]
"""The place of a value, and the value."""


def config_silence(gate: Gate) -> str:
    """Return why the configuration gave no answer; empty if it answered or is not named."""
    if not gate.contract.code.config:
        return ""
    reading = gate_reading_of(gate.facts, CONFIG)
    if reading.state is SourceState.FRESH:
        return ""
    return f"{UNKNOWN_SOURCE}: {reading.reason}"


def retention_read(gate: Gate, name: str) -> Found | None:
    """Return one value of the checkpoint policy from the command or configuration."""
    forms = RETENTION[name]
    for place, key, value in _values(gate):
        if "checkpoint" in key.lower() and last_part(key) in forms:
            read = _every(value) if last_part(key) == "keep" else value
            if read:
                return place, read
    return None


def retries_read(gate: Gate) -> Found | None:
    """Return the option by which the job would restart itself, or `None`."""
    for place, key, value in _values(gate):
        if last_part(key) in RETRIES and value.isdigit() and int(value):
            return place, value
    return None


def is_key_missing(contract: Contract, config: Mapping[str, str], source: str) -> bool:
    """Return whether a name that looks like a key is missing from the configuration."""
    if not config or not is_dotted_key(source):
        return False
    return source not in config and option_value(contract.command, source) is None


def _values(gate: Gate) -> Iterable[tuple[str, str, str]]:
    """Yield place, key and value of each option and configuration value, options first."""
    command = gate.contract.command
    for position, word in enumerate(command):
        name, separator, value = word.partition("=")
        if separator:
            yield name, name, value
        elif word.startswith("-") and position + 1 < len(command):
            yield word, word, command[position + 1]
    for key, value in gate.facts.config.items():
        yield f"{key} in the configuration", key, value


def _every(value: str) -> str:
    """Return the final interval of Levanter's list."""
    try:
        listed: Any = parse_json(value)
    except ValueError:
        return ""
    steps = cast("list[object]", listed) if isinstance(listed, list) else []
    last = steps[-1] if steps else None
    found = cast("dict[str, object]", last).get("every") if isinstance(last, dict) else None
    return str(found) if isinstance(found, int) else ""
