"""Runs a second reader: a program that reads one JSON question and answers it.

It reads the question from standard input and writes `{"hypotheses": ["...", ...]}` to standard
output. It runs without a shell and gets no log. An answer with any other key is refused
as a whole, so it cannot name an act.
"""

import json
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

from watchkeeper.adapters.limited import run_limited
from watchkeeper.domain.reading.triage.second_reader import Question
from watchkeeper.domain.values.durations import parse_duration
from watchkeeper.domain.values.json_text import parse_json
from watchkeeper.ports.sources import Unavailable

ANSWER_MAX = 64 * 1024
"""Maximum bytes of an answer: three sentences need far less, and a longer one is refused."""

LIMIT_DEFAULT = "20s"
LIMIT_MIN, LIMIT_MAX = timedelta(seconds=1), timedelta(seconds=25)
"""The range of the time limit. A watch that stops waits 30 s for work in progress."""

_KEY = "hypotheses"
_STDERR_CHARACTERS = 120


class ReaderMistake(Exception):
    """A setting of the second reader is invalid. The message says what to do."""


@dataclass(frozen=True, slots=True)
class ProgramReader:
    """Asks a program.

    Attributes:
        command: The argument vector; its first part is the full path of the program.
        limit: The time after which the program is killed.
        env: The whole environment of the program. It may hold the API key of a model.
    """

    command: tuple[str, ...]
    limit: timedelta
    env: Mapping[str, str] = field(repr=False)

    @property
    def source(self) -> str:
        """The names of the program and its script; other arguments may be private."""
        script = [word for word in self.command[1:2] if Path(word).is_file()]
        return " ".join(word.rpartition("/")[2] for word in (self.command[0], *script))[:100]

    def about(self, question: Question) -> tuple[str, ...]:
        """Return the program's answer.

        Raises:
            Unavailable: It can't be started, is too slow, fails, or answers with anything else.
        """
        text = json.dumps({"version": 1, **asdict(question)})
        name = "second reader"
        ended = run_limited(name, self.command, env=self.env, text=text, limit=self.limit)
        if ended.code != 0:
            last_line = " ".join(ended.err.strip().rpartition("\n")[2].split())[:_STDERR_CHARACTERS]
            raise Unavailable(
                name, (f"it ended with code {ended.code}: {last_line or 'without a reason'}")
            )
        return _hypotheses(name, ended.out)


def _hypotheses(name: str, said: str) -> tuple[str, ...]:
    expected = f'expected {{"{_KEY}": ["...", ...]}}'
    if len(said.encode()) > ANSWER_MAX:
        raise Unavailable(name, f"it answered with more than {ANSWER_MAX} bytes; {expected}")
    try:
        answer: Any = parse_json(said)
    except ValueError as error:
        raise Unavailable(name, f"its answer is not a JSON document; {expected}") from error
    if not isinstance(answer, dict):
        raise Unavailable(name, f"its answer is not an object; {expected}")
    found = cast("dict[str, object]", answer)
    other_keys = sorted(key for key in found if key != _KEY)
    if other_keys:
        shown_keys = ", ".join(json.dumps(key[:40]) for key in other_keys[:3])
        raise Unavailable(
            name, f"it named {shown_keys}, but only hypotheses are allowed; {expected}"
        )
    listed = found.get(_KEY)
    if not isinstance(listed, list):
        raise Unavailable(name, f"its answer has no list of hypotheses; {expected}")
    guesses = cast("list[object]", listed)
    texts = [guess for guess in guesses if isinstance(guess, str)]
    if len(texts) != len(guesses):
        raise Unavailable(name, f"a hypothesis is not text; {expected}")
    # JSON may hold half of a surrogate pair, which cannot be stored.
    return tuple(guess.encode(errors="replace").decode() for guess in texts)


def program_reader(command: str, limit: str, env: Mapping[str, str]) -> ProgramReader | None:
    """Return the second reader that the settings name; None if they name no reader.

    Args:
        command: One line of shell words, as in `python3 /srv/ask.py --model m`.
        limit: How long it may take.
        env: The environment, passed to it as a whole.

    Raises:
        ReaderMistake: A setting is invalid; the message begins with its name.
    """
    if not command.strip():
        return None
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        hint = "expected a command as in 'python3 /srv/ask.py'"
        raise ReaderMistake(f"--second-reader: {hint}, not {command!r}: {error}") from error
    found = shutil.which(words[0], path=env.get("PATH"))
    if found is None:
        hint = "expected an executable program; give its full path"
        raise ReaderMistake(f"--second-reader: {words[0]} is not found: {hint}")
    try:
        allowed = parse_duration(limit)
    except ValueError as error:
        raise ReaderMistake(f"--second-reader-limit: {error}") from error
    if not LIMIT_MIN <= allowed <= LIMIT_MAX:
        raise ReaderMistake(
            f"--second-reader-limit: expected a duration between 1s and 25s, not {limit}"
        )
    return ProgramReader((found, *words[1:]), allowed, env)
