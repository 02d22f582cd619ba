"""Finds secrets by position: after a known name, flag, header or program."""

import re
from collections.abc import Iterator, Sequence

from watchkeeper.domain.values.secrets.names import (
    annotation,
    credential_like,
    harmless,
    kind_of_name,
    prose_word,
    sensitive_name,
)
from watchkeeper.domain.values.secrets.spans import HIDDEN, Rank, Span

_PROGRAM_CHARS_MAX = 500
"""How far before a short flag its program is searched."""

_GAP = r"(?:[ \t]|\x1b\[[0-9;]{0,8}m){0,16}+"
_WORD_GAP = r"(?:(?:[ \t]+(?:\\+\r?\n[ \t]*)?|\\*[\"'][ \t]*,\s{0,40}(?=\\*[\"'])))"
_NAME_START = r"(?:(?<![\w.\\-])|(?<=\\[nrt])|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
_NOUN = re.compile("key|token|secret|pass|pwd|[-_]pw|cred|cookie|auth|dsn|webhook", re.IGNORECASE)

_ASSIGNED = re.compile(
    rf"{_NAME_START}(?P<name>-*+[A-Za-z_][\w.-]*+)(?P<quote>(?:\\*+[\"'`])?+)\]?{_GAP}"
    rf"(?P<sep>:=|=>|={{1,3}}|%3D|:(?!:|\\*/\\*/)){_GAP}",
    re.ASCII,
)
_FLAG = re.compile(rf"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]*+){_WORD_GAP}(?=[^\s=])", re.ASCII)
_ENV_FLAG = re.compile(
    r"(?<![\w-])(?:-e|-E|--env|--env-var|ENV|setenv|setx|set -x|set -gx|configure set)"
    rf"{_WORD_GAP}\\*[\"']?(?P<name>[A-Za-z_]\w*+){_WORD_GAP}(?=[^\s=])",
    re.ASCII,
)
_NAME_VALUE = re.compile(
    r"(?<![\w-])(?:name|key|Name|Key)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<name>[A-Za-z_][\w.-]*+)"
    r"(?:\\*+[\"'])?[ \t]*,?(?:\s|\\{1,8}[nrt]){0,40}+\\*[\"']?[Vv]alue\\*[\"']?[ \t]*[:=][ \t]*",
    re.ASCII,
)
_PAIR = re.compile(
    r"\([ \t]*[\"'](?P<name>[A-Za-z_][\w.-]*+)[\"'][ \t]*,[ \t]*(?=[\"'][^\"'\n]*[\"'][ \t]*\))",
    re.ASCII,
)
_SPOKEN = re.compile(
    r"(?<![\w-])(?P<name>(?:api|access|secret|private|auth|bearer|refresh) (?:key|token)"
    r"|password|passphrase)(?:(?: (?:provided|is|was))?[ \t]*[:=]| (?:is|was)[ \t])[ \t]*",
    re.ASCII | re.IGNORECASE,
)
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z_][\w.-]*+)>(?=[^<\s][^<\n]*</(?P=name)>)", re.ASCII)
_NAMED = (
    (_ELEMENT, "</"),
    (_FLAG, "-"),
    (_ENV_FLAG, " "),
    (_NAME_VALUE, "alue"),
    (_PAIR, "("),
    (_SPOKEN, " "),
)
"""Patterns of a name without a sign after it, each with a literal that its matches contain."""

_BLANK = r"(?:\s|\\{1,8}[nrt])++"
_NETRC = re.compile(
    rf"\b(?:machine{_BLANK}(?P<host>\S{{1,200}}?)|default){_BLANK}"
    rf"(?:login{_BLANK}\S{{1,200}}?{_BLANK})?"
    rf"(?:account{_BLANK}\S{{1,200}}?{_BLANK})?"
    rf"password{_BLANK}(?P<secret>(?:(?!\\{{1,8}}[nrt])[^\s\"'])++)",
    re.ASCII,
)
_USER_FLAG = re.compile(
    r"(?<![\w-])(?:-u|--user|--proxy-user)(?:=|[ \t]*|\\*[\"'],\s{0,8})(?:\\*+[\"'])?+"
    r"[^\s:\"',]{0,128}+:(?P<secret>[^\s\"'\\]+)",
    re.ASCII,
)
_PASS_FLAG = re.compile(
    r"(?<![\w-])(?:-[pab]|--body)(?:=|[ \t]*|\\*[\"'],\s{0,8})(?:\\*+[\"'])?+"
    r"(?P<secret>[^\s\"'\\]+)",
    re.ASCII,
)
_PASS_PROGRAMS = ("sshpass", "docker login", "podman login", "redis-cli", "gh secret set")
_DOCKER = re.compile(r"\b(?:docker|podman|nerdctl)\b")
_ENV_FLAGS = frozenset({"-e", "-E", "--env", "--env-var"})
_FLAG_WORD = re.compile(r"--?[A-Za-z][\w.-]*", re.ASCII)

_SCHEME = re.compile(
    r"(?P<scheme>Bearer|Basic|Token|Digest|Negotiate|ApiKey|OAuth|AWS4-HMAC-SHA256)[ \t]+",
    re.IGNORECASE,
)
_AUTH_WORDS = frozenset({"token", "tokens", "auth", "credential", "credentials", "authentication"})
_BLOCK_SCALAR = re.compile(r"[|>][-+]?[ \t]*\n[ \t]+")
_OPEN = re.compile(r"(?:[rbfu]{0,2}|\$)(?P<slashes>\\{0,15})(?P<quote>[\"'`])", re.IGNORECASE)
_NO_SCALAR = re.compile(
    r"\$\{[A-Za-z_]\w{0,100}:?\?[^}\n]{0,200}\}|[\[{](?!\{)"
    r"|\$\{\{[^}\n]{0,200}\}\}|\{\{[^}\n]{0,200}\}\}|\$\([^)\n]{0,400}\)"
    r"|<[A-Za-z _.-]{1,60}>"
)
_CLOSERS = {quote: re.compile(f"[{quote}\n]") for quote in "\"'`"}
# These characters end a word in a shell or query. They belong to the value if the word continues
# after them.
_BARE = re.compile(
    r"(?:[^\s\"'`,;&|<>\\\x00-\x1f]"
    r"|[,;](?![\s\"'\[{]|$|[\w.-]{1,64}[=:])"
    r"|&(?![\s&]|$|[\w.%-]{0,64}=)|\|(?![\s|]|$)|[<>](?![\s/]|$)"
    r"|\\(?![nrtu\"'`\\\s]|$))++",
    re.ASCII,
)
_REST = re.compile(r"(?:(?!\\{1,8}[nr])[^\n\r\"'`])++")
_COOKIE_PAIR = re.compile(r"[\w.-]{1,128}=", re.ASCII)
_NEXT_WORD = re.compile(r"[ \t]{1,8}+[A-Za-z][A-Za-z']{0,64}+(?![\w.-]{0,64}[:=])", re.ASCII)
_DEFAULT = re.compile(r" (?:\| None|= )")
_PLAIN_WORD = re.compile(r"[A-Za-z][A-Za-z']{0,20}", re.ASCII)


def position_spans(text: str) -> Iterator[Span]:
    """Find the values in secret positions, in a text whose marks are hidden."""
    if _NOUN.search(text):
        yield from _assigned(text)
        for pattern, keyword in _NAMED:
            if keyword in text:
                yield from _named(text, pattern)
    if "password" in text:
        for match in _NETRC.finditer(text):
            if not harmless(match["secret"], "password"):
                kind = kind_of_name(f"{match['host']} password")
                yield Span(*match.span("secret"), kind, Rank.POSITION)
    if "curl" in text:
        yield from _short_flag(text, _USER_FLAG, ("curl",), "basic")
    if any(program in text for program in _PASS_PROGRAMS):
        yield from _short_flag(text, _PASS_FLAG, _PASS_PROGRAMS, "password")


def argument_spans(words: Sequence[str]) -> Iterator[tuple[int, Span]]:
    """Find secrets that are whole words of a command: after `--api-key`, after `-e HF_TOKEN`.

    Returns:
        The index of each such word, and the span in it.
    """
    by_name = any(_DOCKER.search(word) for word in words)
    for place in range(1, len(words)):
        before, word = words[place - 1], words[place]
        variable = place > 1 and words[place - 2] in _ENV_FLAGS and not by_name
        if not (variable or _FLAG_WORD.fullmatch(before)) or word.startswith("-"):
            continue
        if sensitive_name(before) and not prose_word(word):
            span = whole_value(word, before)
            if span is not None:
                yield place, span


def whole_value(value: str, name: str) -> Span | None:
    """Return the span of a lone value under a sensitive name; `None` if harmless.

    In `Bearer abc` only the part after the scheme is the secret.
    """
    scheme = _SCHEME.match(value) if "auth" in name.lower() else None
    start = scheme.end() if scheme is not None else 0
    rest = value[start:]
    pairs = "cookie" in name.lower() and _COOKIE_PAIR.match(rest) is not None
    if rest.strip(HIDDEN) == "" or harmless(rest, f"{name}_secret" if pairs else name):
        return None
    return Span(start, len(value), _kind(name, scheme), Rank.POSITION)


def _assigned(text: str) -> Iterator[Span]:
    """Find `NAME=value`, `--name=value`, `"name": "value"` and headers."""
    done = 0
    for match in _ASSIGNED.finditer(text):
        # A value inside a found value is not searched again.
        if match.end() < done or not sensitive_name(match["name"]):
            continue
        span = _assigned_span(text, match)
        if span is not None:
            done = span.end
            yield span


def _assigned_span(text: str, match: re.Match[str]) -> Span | None:
    """Return the span of the value that follows a sensitive name and a sign, or none."""
    name, colon = match["name"].rstrip(".-"), match["sep"] == ":"
    if colon and text.endswith("//", 0, match.start()):
        # In a URL this is a user. The rule for URLs finds the password.
        return None
    scheme = _SCHEME.match(text, match.end()) if "auth" in name.lower() else None
    bounds = _value(text, scheme.end() if scheme is not None else match.end())
    if bounds is None:
        return None
    start, end, quoted = bounds
    if quoted and scheme is None and "auth" in name.lower():
        scheme = _SCHEME.match(text, start, end)
        start = scheme.end() if scheme is not None else start
    judged = name
    if not quoted:
        word_end, end = end, _to_the_end_of_line(text, start, end, name, scheme)
        judged = name if end == word_end else f"{name}_secret"
    if text.startswith("${", max(0, match.start() - 2)):
        # In ${NAME:-value} the value is a default; after ? and + comes the replacement text.
        if text.startswith(("?", "+"), start):
            return None
        start += text.startswith("-", start)
    value = text[start:end]
    bare_key = not quoted and colon and match["quote"] == ""
    if bare_key and scheme is None and _says_something(text, value, end):
        return None
    # A shell allows no space before `=`, and JSON no value without quotes: that is code.
    spaced = text[match.start("sep") - 1] == " "
    call = not colon and name[0] != "-" and not name.isupper()
    code = not quoted and (match["quote"] != "" or spaced or call)
    if scheme is not None and value.lower() in _AUTH_WORDS:
        return None
    if start == end or harmless(value, judged, code=code):
        return None
    return Span(start, end, _kind(name, scheme), Rank.POSITION)


def _named(text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
    """Find values that follow a name without a sign between them, such as `--api-key value`."""
    done = 0
    for match in pattern.finditer(text):
        name = match["name"]
        if match.end() < done or not (pattern is _SPOKEN or sensitive_name(name)):
            continue
        bounds = _value(text, match.end())
        if bounds is None:
            continue
        start, end, _ = bounds
        value = text[start:end]
        flag = pattern is _FLAG or pattern is _ENV_FLAG
        if flag and (value.startswith("-") or prose_word(value)):
            continue
        if pattern is _ENV_FLAG and _passes_by_name(text, match.start()):
            continue
        if (pattern is _SPOKEN and not credential_like(value)) or harmless(value, name):
            continue
        done = end
        yield Span(start, end, kind_of_name(name), Rank.POSITION)


def _short_flag(
    text: str, pattern: re.Pattern[str], programs: tuple[str, ...], kind: str
) -> Iterator[Span]:
    """Find `curl -u name:value` and similar: the flag has this meaning only for some programs."""
    for match in pattern.finditer(text):
        before = text[max(0, match.start() - _PROGRAM_CHARS_MAX) : match.start()]
        command = before.replace("\\\n", " ").rpartition("\n")[2]
        if not any(program in command for program in programs):
            continue
        if not harmless(match["secret"], "password"):
            yield Span(*match.span("secret"), kind, Rank.POSITION)


def _kind(name: str, scheme: re.Match[str] | None) -> str:
    if scheme is not None and scheme["scheme"].lower() in ("bearer", "basic"):
        return scheme["scheme"].lower()
    return kind_of_name(name)


def _passes_by_name(text: str, place: int) -> bool:
    """Return whether `-e NAME` belongs to a program that reads the value from its environment."""
    before = text[max(0, place - _PROGRAM_CHARS_MAX) : place].rpartition("\n")[2]
    return _DOCKER.search(before) is not None


def _says_something(text: str, value: str, end: int) -> bool:
    """Return whether a sentence or a type follows a colon, as in `Secret: we keep none`."""
    if annotation(value) or prose_word(value) or _DEFAULT.match(text, end):
        return True
    return bool(_PLAIN_WORD.fullmatch(value)) and bool(_NEXT_WORD.match(text, end))


def _to_the_end_of_line(
    text: str, start: int, end: int, name: str, scheme: re.Match[str] | None
) -> int:
    """Return the end of a value that may hold spaces: cookies, passphrases, signed headers."""
    if scheme is not None:
        spaced = scheme["scheme"].lower() in ("digest", "aws4-hmac-sha256")
    elif name.lower().endswith("cookie"):
        spaced = _COOKIE_PAIR.match(text, start) is not None
    else:
        spaced = name.lower().endswith("passphrase") and not annotation(text[start:end])
    rest = _REST.match(text, start) if spaced else None
    return rest.end() if rest is not None else end


def _value(text: str, at: int) -> tuple[int, int, bool] | None:
    """Return the bounds of the value that starts at a place, and whether it is quoted.

    None when there is no scalar: a list, a mapping, a reference, or nothing.
    """
    opened = _OPEN.match(text, at)
    if opened is not None:
        start, quote = opened.end(), opened["quote"]
        # Three quotes open one string, and after two a shell's word goes on.
        if text.startswith(quote * 2, start):
            start += 2
        elif text.startswith(quote, start) and _PLAIN_WORD.match(text, start + 1):
            return _value(text, start + 1)
        end = _closing(text, start, quote, len(opened["slashes"]))
        return (start, end, True) if end > start else None
    scalar = _BLOCK_SCALAR.match(text, at)
    if scalar is not None:
        rest = _REST.match(text, scalar.end())
        return (rest.start(), rest.end(), True) if rest is not None else None
    if _NO_SCALAR.match(text, at) is not None:
        return None
    bare = _BARE.match(text, at)
    if bare is None:
        return None
    end = _without_closers(text, at, bare.end())
    return (at, end, False) if end > at else None


def _closing(text: str, at: int, quote: str, slashes: int) -> int:
    r"""Return where a quoted value ends: before its closing quote, or with its line or the text.

    Args:
        text: What is searched.
        at: Index after the opening quote.
        quote: The opening quote.
        slashes: How many backslashes are before it: one in JSON inside JSON, and so on.
    """
    place = at
    while (match := _CLOSERS[quote].search(text, place)) is not None:
        if match[0] == "\n":
            return match.start()
        before = text[place : match.start()]
        count = len(before) - len(before.rstrip("\\"))
        place = match.end()
        if count > slashes and (slashes > 0 or (quote != "'" and count % 2 == 1)):
            continue
        if quote == "'" and text.startswith("\\''", place):
            # In a shell 'it'\''s' goes on after the escaped quote.
            place += 3
            continue
        # Backslashes up to the opening's number escape the quote; others are the value's own.
        return match.start() - min(count, slashes)
    return len(text)


def _without_closers(text: str, start: int, end: int) -> int:
    """Return the end without brackets and stops that belong to the sentence around a value."""
    for _ in range(8):
        last = text[end - 1 : end]
        if end <= start or last not in ")]}.,;:!?":
            break
        opener = {")": "(", "]": "[", "}": "{"}.get(last)
        if opener is not None and text.count(opener, start, end) >= text.count(last, start, end):
            break
        end -= 1
    return end
