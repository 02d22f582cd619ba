"""Errors for bad input: the place, the value read, and what was expected."""

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from watchkeeper.domain.values.secrets.names import sensitive_name

SHOWN_LENGTH_MAX = 60
"""Characters of a value, or of one part of a key, that a problem shows; a line stays readable."""

RENDERED_MAX = 50
"""Problems that are written out for people; a file with more is of another kind altogether."""

_PERHAPS_SENSITIVE = re.compile(r"(?:\b|_)(?:key|pin|session)$", re.IGNORECASE)
"""Names that are too common to be called secrets, and cost nothing to hide on a screen."""

_SECRET_PREFIX = re.compile(
    r"gh[opsur]_\w|github_pat_|glpat-|sk-\w|xox[abeprs]-|A[KS]IA[A-Z0-9]{8}|AIza|ya29\.|hf_\w|eyJ\w"
    r"|-----BEGIN"
)
_USER_INFO = re.compile(r"://[^/\s]*@")
_LONG_WORD = re.compile(r"[A-Za-z0-9+=]{16,}")


@dataclass(frozen=True, slots=True)
class Problem:
    """One error in an input.

    Attributes:
        file: The file as the caller named it, or another input's name, such as `--as`.
        line: Line number from 1; None if unknown.
        key: Path of the key, such as `checkpoints.keep_last`; empty for the file as a whole.
        value: The value read, short and without secrets; None if there is nothing to show.
        expected: The value that was expected instead.
        next_step: What to do, if known.
    """

    file: str
    line: int | None
    key: str
    value: str | None
    expected: str
    next_step: str = ""


class BadInput(Exception):
    """An input can't be used; nothing was recorded.

    Args:
        problems: Everything that is wrong, in the order of the lines.
    """

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        """Keep the problems for display and for JSON."""
        super().__init__(render_problems(problems))
        self.problems = problems


class BadLine(Exception):
    """One of many lines cannot be answered; the others can.

    Args:
        problems: What is wrong: field, value and what was expected, each in one sentence.
    """

    def __init__(self, *problems: str) -> None:
        """Keep the problems for the code that renders them."""
        super().__init__("; ".join(problems))
        self.problems = problems


def in_line_order(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    """Sort problems by line; those without a line come last, in the order given."""
    return tuple(sorted(problems, key=lambda p: (p.line is None, p.line or 0)))


def render_problems(problems: Sequence[Problem]) -> str:
    """Render problems for people; the last line says that nothing was recorded.

    Returns:
        Lines without a trailing newline.

    >>> print(render_problems([
    ...     Problem("runs/a.yaml", 22, "retenion", None, 'unknown key; did you mean "retention"?')
    ... ]))
    runs/a.yaml:22  retenion
        unknown key; did you mean "retention"?
    1 problem; nothing was recorded.
    """
    lines = [line for problem in problems[:RENDERED_MAX] for line in _rendered(problem)]
    if len(problems) > RENDERED_MAX:
        lines.append(f"... and {len(problems) - RENDERED_MAX} more")
    noun = "problem" if len(problems) == 1 else "problems"
    return "\n".join([*lines, f"{len(problems)} {noun}; nothing was recorded."])


def problem_rows(problems: Sequence[Problem]) -> list[dict[str, str | int | None]]:
    """Return problems as JSON objects: file, line, key, value, expected, next_step."""
    return [asdict(problem) for problem in problems]


def is_sensitive(name: str) -> bool:
    """Return whether a key or option of this name usually holds a secret.

    >>> is_sensitive("WANDB_API_KEY"), is_sensitive("--hf-token"), is_sensitive("keep_last")
    (True, True, False)
    """
    return sensitive_name(name) or _PERHAPS_SENSITIVE.search(name) is not None


def looks_secret(text: str) -> bool:
    """Return whether a text may hold a secret, judged by its form alone.

    A launch rule decides about secrets; this one only keeps them off screens, so that it may
    hide too much.

    >>> looks_secret("ghp_x1"), looks_secret("https://u:p@host/x"), looks_secret("a" * 40)
    (True, True, False)
    """
    if _SECRET_PREFIX.search(text) or _USER_INFO.search(text):
        return True
    return any(
        any(c.isdigit() for c in word) and any(c.isalpha() for c in word)
        for word in _LONG_WORD.findall(text)
    )


def shown(value: object, names: Sequence[str] = (), source: str | None = None) -> str | None:
    """Return a short form of a value that is safe to show and to log.

    Args:
        value: What was read.
        names: The keys that lead to it, after an option if any; a sensitive name hides it.
        source: How the file wrote it, for numbers such as `012`.

    Returns:
        One line, or None if the name marks it as a secret.

    >>> shown("ten"), shown(12, source="012"), shown("x", ["env", "API_TOKEN"])
    ('"ten"', '012', None)
    """
    if any(is_sensitive(name) for name in names):
        return None
    match value:
        case None:
            return "(empty)"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return _shown_text(value)
        case bool():
            return source or str(value).lower()
        case _:
            # Digits can be a secret too, but a number this long is never of use on a screen.
            return _cut(source or str(value))


def visible(text: str) -> str:
    r"""Escape unprintable characters, so that no terminal takes them as commands.

    >>> visible("a\x1b[2J")
    'a\\x1b[2J'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown_name(name: str) -> str:
    """Return one part of a key, short, printable and without secrets."""
    return "(not shown)" if looks_secret(name) else _cut(name)


def _shown_text(text: str) -> str:
    if looks_secret(text):
        return f"(not shown: {len(text)} characters that may be a secret)"
    quoted = visible(json.dumps(text[:SHOWN_LENGTH_MAX], ensure_ascii=False))
    return quoted + ("..." if len(text) > SHOWN_LENGTH_MAX else "")


def _cut(text: str) -> str:
    return visible(text[:SHOWN_LENGTH_MAX]) + ("..." if len(text) > SHOWN_LENGTH_MAX else "")


def _rendered(problem: Problem) -> list[str]:
    place = visible(problem.file) + (f":{problem.line}" if problem.line is not None else "")
    key = f"  {problem.key}" if problem.key else ""
    # A value without a key belongs to the file or the option itself.
    value = f": {problem.value}" if problem.value is not None else ""
    step = [f"    -> {problem.next_step}"] if problem.next_step else []
    return [f"{place}{key}{value}", f"    {problem.expected}", *step]
