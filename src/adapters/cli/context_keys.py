"""Warnings about unknown keys in a `context`, which are often mistyped."""

from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, cast

import click

from watchkeeper.adapters.bad_input import shown_name
from watchkeeper.domain.reading.triage.context import Attempt, Context

REPORTED_MAX = 100
"""The most keys that are reported. The limit keeps memory constant."""

_TOP_LEVEL_KEYS = ("context",)
_KEYS_READ = frozenset({"id", "text", "context"})
_SIMILAR = 0.6
_VERY_SIMILAR = 0.9


def _echo(_name: str, sentence: str) -> None:
    click.echo(sentence, err=True)


@dataclass(slots=True)
class UnknownKeys:
    """Warns about unknown keys, once for each key.

    Attributes:
        say: Takes a key's path and the warning. By default it prints to standard error.
        names: Paths of the keys that were reported, as they were shown.
    """

    say: Callable[[str, str], None] = _echo
    names: set[str] = field(default_factory=set[str])

    def look(self, line: dict[str, Any]) -> None:
        """Warn about keys of a line that are not read and were not reported yet.

        A record may have any other keys, so at the top level only a mistyped `context` is reported.
        """
        for key in line:
            if key not in _KEYS_READ and _nearest(key, _TOP_LEVEL_KEYS, _VERY_SIMILAR):
                self._report("", key, _TOP_LEVEL_KEYS, line)
        context = line.get("context")
        if not isinstance(context, dict):
            return
        facts = cast("dict[str, Any]", context)
        for key in facts.keys() - Context.model_fields.keys():
            self._report("context.", key, tuple(Context.model_fields), line)
        attempts = facts.get("attempts")
        for attempt in cast("list[object]", attempts) if isinstance(attempts, list) else ():
            if isinstance(attempt, dict):
                own = cast("dict[str, Any]", attempt)
                for key in own.keys() - Attempt.model_fields.keys():
                    self._report("context.attempts.", key, tuple(Attempt.model_fields), line)

    def _report(self, place: str, key: str, known: tuple[str, ...], line: dict[str, Any]) -> None:
        name = place + shown_name(key)
        if name in self.names or len(self.names) > REPORTED_MAX:
            return
        near = _nearest(key, known, _SIMILAR)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(known)}"
        first = shown_name(str(line.get("id")))
        self.once(name, f"warning: {name} (first at id {first}) is ignored; {hint}")

    def once(self, name: str, sentence: str) -> None:
        """Report a key by its path, unless it was reported before."""
        if name in self.names or len(self.names) > REPORTED_MAX:
            return
        self.names.add(name)
        if len(self.names) > REPORTED_MAX:
            sentence = "warning: further ignored keys are not listed"
        self.say(name, sentence)


def _nearest(key: str, known: tuple[str, ...], cutoff: float) -> str:
    """Return the known key that a mistyped key probably means, or "".

    >>> _nearest("oomKilled", ("oom_killed", "state"), 0.6), _nearest("x", ("state",), 0.6)
    ('oom_killed', '')
    """
    plain = {_plain(name): name for name in known}
    near = get_close_matches(_plain(key[:100]), plain, n=1, cutoff=cutoff)
    return plain[near[0]] if near else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")
