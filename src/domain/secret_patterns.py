"""Where secrets stand in a text: by their exact value, by their position, by their shape.

Every pattern takes time linear in the text: what repeats is possessive, bounded or started only
at the edge of a run, and each value is scanned once. Patterns never see redaction marks: the
caller hides each behind `HIDDEN`, which is neither a letter nor a space.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from watchkeeper.domain.secret_names import (
    NAME_KINDS,
    annotation,
    credential_like,
    harmless,
    kind_of_name,
    prose_word,
    sensitive_name,
    weak_name,
)

HIDDEN = "\ue000"
"""Stands for each character of a redaction mark; from a private area, so no log uses it."""

_VALUE_CHARS_MAX = 16_384
"""A longer value is cut into several: more than any credential file that fits a variable."""


class Rank(IntEnum):
    """How much a rule knows about what it found; the lowest names the kind."""

    EXACT = 0
    SHAPE = 1
    FORM = 2
    POSITION = 3
    NEAR = 4


@dataclass(frozen=True, slots=True)
class Span:
    """A secret's place in a text.

    Attributes:
        start: Index of its first character.
        end: Index after its last character.
        kind: One of `KINDS`.
        rank: What found it.
    """

    start: int
    end: int
    kind: str
    rank: Rank


@dataclass(frozen=True, slots=True)
class _Shape:
    """A pattern that only a secret has.

    Attributes:
        kind: What it finds.
        keyword: A literal that each match holds: without it the pattern is not tried.
        pattern: The whole match is the secret, or its group `secret` where it has one.
    """

    kind: str
    keyword: str
    pattern: re.Pattern[str]
    rank: Rank = Rank.SHAPE


def _edge(prefix: str) -> str:
    r"""Return a pattern for a literal that starts a word, also after `\n`, `%3D` and a colour."""
    found = re.escape(prefix)
    ways = (rf"(?<![A-Za-z0-9]{found})", rf"(?<=\\[nrt]{found})", rf"(?<=%[0-9A-F]{{2}}{found})")
    return f"{found}(?:{'|'.join(ways)}|(?<=[0-9]m{found}))"


def _shape(kind: str, prefix: str, rest: str) -> _Shape:
    return _Shape(kind, prefix, re.compile(_edge(prefix) + rest, re.ASCII))


_SHAPES = (
    # The two forms of W&B keys, hooks and prefixes as their makers and gitleaks' rules give them.
    _shape("wandb", "wandb_v1_", r"[A-Za-z0-9]{20,40}_[A-Za-z0-9]{40,60}"),
    _shape("huggingface", "hf_", r"[A-Za-z0-9]{34,}"),
    _shape("huggingface", "api_org_", r"[A-Za-z0-9]{34,}"),
    *(_shape("github", f"gh{letter}_", r"[A-Za-z0-9]{36,}") for letter in "pousr"),
    _shape("github", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    _shape("gitlab", "glpat-", r"[\w-]{20,}"),
    _shape("anthropic", "sk-ant-", r"[\w-]{20,}"),
    _shape("openai", "sk-", r"(?!ant-)(?=[A-Za-z_-]{0,200}[0-9])[\w-]{20,}"),
    _shape("google", "AIza", r"[\w-]{35,}"),
    _shape("google", "ya29.", r"[\w.-]{10,}"),
    _shape("google", "GOCSPX-", r"[\w-]{20,}"),
    _shape("aws", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("aws", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    *(_shape("slack", f"xox{letter}-", r"[\w-]{10,}") for letter in "abeoprs"),
    _shape("slack", "xapp-", r"[\w-]{10,}"),
    _Shape(
        "slack",
        "hooks.slack.com",
        re.compile(r"(?:https?:(?:\\*/){2})?hooks\.slack\.com(?:\\*/[\w-]{1,40}){2,8}", re.ASCII),
    ),
    _Shape(
        "discord",
        "webhooks",
        re.compile(
            r"(?:https?:(?:\\*/){2})?(?:ptb\.|canary\.)?discord(?:app)?\.com\\*/api(?:\\*/v\d{1,2})?"
            r"\\*/webhooks\\*/\d{1,30}\\*/[\w-]+",
            re.ASCII,
        ),
    ),
    _Shape(
        "privatekey",
        "PRIVATE KEY",
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)",
            re.ASCII | re.DOTALL,
        ),
        Rank.FORM,
    ),
    # The same in base64, as kubeconfig and Kubernetes secrets hold it.
    _Shape(
        "privatekey",
        "LS0tLS1CRUdJTi",
        re.compile(
            r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,24}?"
            r"(?:UFJJVkFURSBLRV|QUklWQVRFIEtFW|BSSVZBVEUgS0VZ)[A-Za-z0-9+/=]+"
        ),
        Rank.FORM,
    ),
    # A hyphen before it would let a run of `eyJ-eyJ-` start again at each.
    _Shape(
        "jwt",
        "eyJ",
        re.compile(
            r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ))[\w-]++\.eyJ[\w-]++\.[\w-]*+", re.ASCII
        ),
        Rank.FORM,
    ),
    _Shape(
        "bearer",
        "earer",
        re.compile(r"\b[Bb]earer[ \t]+(?P<secret>[\w.~+/-]{16,}=*)", re.ASCII),
        Rank.POSITION,
    ),
)

_SIGNED = re.compile(
    r"(?:X-(?:Goog|Amz)-(?:Signature|Credential|Security-Token)|GoogleAccessId|AWSAccessKeyId"
    r"|(?<=[?&;])(?:Signature|sig)|(?<=\\u0026)(?:Signature|sig)|(?<=%26)(?:Signature|sig)"
    r"|(?<=[?&])(?P<key>key))"
    r"(?:=|%3D)(?P<secret>(?:(?!%26)[^\s&\"'<>\\#`])+)",
    re.ASCII | re.IGNORECASE,
)
_SIG_CHARS_MIN = 16
"""A `sig` or `key` in a query that is shorter is the name of a signal or of a column."""

_USERINFO = re.compile(
    r":(?:\\*/){2}(?P<user>[^\s/?#@:\"'<>\\]{0,256}+)"
    r"(?::(?P<secret>[^\s/\"'<>\\]{1,256}))?@",
    re.ASCII,
)

_GAP = r"(?:[ \t]|\x1b\[[0-9;]{0,8}m){0,16}+"
_WORD_GAP = r"(?:(?:[ \t]+(?:\\+\r?\n[ \t]*)?|\\*[\"'][ \t]*,\s{0,40}(?=\\*[\"'])))"
_NAME_START = r"(?:(?<![\w.\\-])|(?<=\\[nrt])|(?<=\x1b\[[0-9]m)|(?<=\x1b\[[0-9]{2}m))"
_NOUN = re.compile("key|token|secret|pass|pwd|cred|cookie|auth|dsn|webhook", re.IGNORECASE)

_ASSIGNED = re.compile(
    rf"{_NAME_START}(?P<name>-*+[A-Za-z_][\w.-]*+)(?P<quote>(?:\\*+[\"'`])?+)\]?{_GAP}"
    rf"(?P<sep>:=|=>|={{1,3}}|%3D|:(?!:|\\*/\\*/)){_GAP}",
    re.ASCII,
)
_FLAG = re.compile(rf"(?<![\w-])--?(?P<name>[A-Za-z][\w.-]*+){_WORD_GAP}(?=[^\s=])", re.ASCII)
_ENV_FLAG = re.compile(
    r"(?<![\w-])(?P<flag>-e|-E|--env|--env-var|ENV|setenv|set -x|set -gx)"
    rf"{_WORD_GAP}\\*[\"']?(?P<name>[A-Za-z_]\w*+){_WORD_GAP}(?=[^\s=])",
    re.ASCII,
)
_NAME_VALUE = re.compile(
    r"(?<![\w-])(?:name|key|Name|Key)\\*[\"']?[ \t]*[:=][ \t]*\\*[\"']?(?P<name>[A-Za-z_][\w.-]*+)"
    r"\\*[\"']?[ \t]*,?(?:\s|\\+[nrt]){0,40}+\\*[\"']?[Vv]alue\\*[\"']?[ \t]*[:=][ \t]*",
    re.ASCII,
)
_PAIR = re.compile(
    r"\([ \t]*[\"'](?P<name>[A-Za-z_][\w.-]*+)[\"'][ \t]*,[ \t]*(?=[\"'][^\"'\n]*[\"'][ \t]*\))",
    re.ASCII,
)
_SPOKEN = re.compile(
    r"(?<![\w-])(?P<name>(?:api|access|secret|private|auth|bearer|refresh)[ ](?:key|token))"
    r"(?:[ ](?:provided|is|was))?[ \t]*[:=][ \t]*",
    re.ASCII | re.IGNORECASE,
)
_NETRC = re.compile(
    r"\b(?:machine(?:\s|\\+[nrt])++\S{1,200}?|default)(?:\s|\\+[nrt])++"
    r"(?:login(?:\s|\\+[nrt])++\S{1,200}?(?:\s|\\+[nrt])++)?"
    r"(?:account(?:\s|\\+[nrt])++\S{1,200}?(?:\s|\\+[nrt])++)?"
    r"password(?:\s|\\+[nrt])++(?P<secret>(?:(?!\\+[nrt])[^\s\"'])++)",
    re.ASCII,
)
_USER_FLAG = re.compile(
    r"(?<![\w-])(?:-u|--user|--proxy-user)(?:=|[ \t]*|\\*[\"'],\s{0,8})(?P<quote>(?:\\*+[\"'])?+)"
    r"(?P<user>[^\s:\"',]{0,128}+):(?P<secret>[^\s\"'\\]+)",
    re.ASCII,
)
_PASS_FLAG = re.compile(
    r"(?<![\w-])-p(?:[ \t]*|\\*[\"'],\s{0,8})(?P<quote>(?:\\*+[\"'])?+)(?P<secret>[^\s\"'\\]+)",
    re.ASCII,
)
_PROGRAM_CHARS_MAX = 500
"""How far before a short flag its program is looked for."""

_SCHEME = re.compile(
    r"(?P<scheme>Bearer|Basic|Token|Digest|Negotiate|ApiKey|OAuth|AWS4-HMAC-SHA256)[ \t]+",
    re.IGNORECASE,
)
_BLOCK_SCALAR = re.compile(r"[|>][-+]?[ \t]*\n[ \t]+")
_OPEN = re.compile(r"[rbfu]{0,2}(?P<slashes>\\{0,15})(?P<quote>[\"'`])", re.IGNORECASE)
_AHEAD = re.compile(r"\$\{\{[^}\n]{0,200}\}\}|\{\{[^}\n]{0,200}\}\}|\$\([^)\n]{0,400}\)|<[^<>\n]*>")
_CLOSERS = {quote: re.compile(rf"\\*+{quote}|\n") for quote in "\"'`"}
# Characters that end a word in a shell or query belong to a value where a word goes on after them.
_BARE = re.compile(
    r"(?:[^\s\"'`,;&|<>\\\x00-\x1f]"
    r"|[,;](?![\s\"'\[{]|$|[\w.-]{1,64}[=:])"
    r"|&(?![\s&]|$|[\w.%-]{0,64}=)|\|(?![\s|]|$)|[<>](?![\s/]|$)"
    r"|\\(?![nrtu\"'`\\\s]|$)){1,16384}+",
    re.ASCII,
)
_REST = re.compile(r"(?:(?!\\+[nr])[^\n\r\"'`]){1,16384}+")
_NEXT_WORD = re.compile(r"[ \t]+[A-Za-z][A-Za-z']*(?![\w.-]*[:=])", re.ASCII)
_PLAIN_WORD = re.compile(r"[A-Za-z][a-z']*", re.ASCII)

_HEX40 = re.compile(
    r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))(?:local-)?[0-9a-f]{40}(?![0-9A-Za-z])", re.ASCII
)
_NEAR_CHARS_MAX = 160
_LABEL = re.compile(r"([A-Za-z_][\w.-]*)\\*[\"']?\]?[ \t]*[:=][ \t]*\\*[\"']?$", re.ASCII)
_NOT_A_KEY = re.compile(
    r"git|commit|\bsha|_sha|rev|head|digest|hash|checksum|tree|blob|\bref|branch|artifact|version"
    r"|\btag|image|job|node|bundle|patch|[/@#]$",
    re.IGNORECASE,
)
_KEY_LABEL = re.compile(r"wandb|key|token|secret|pass|auth|login", re.IGNORECASE)
_SAID_AFTER = re.compile(
    r"\\*[\"']?[ \t]*(?:#|//|is|as|->|=)[ \t][^\n]{0,40}?wandb[^\n]{0,20}?key", re.IGNORECASE
)

_ANY = re.compile(
    "key|token|secret|pass|pwd|cred|cookie|auth|dsn|hook|wandb|://|:\\\\|curl|earer|sig|access"
    "|hf_|gh[pousr]_|glpat|api_org|sk-|AIza|ya29|GOCSPX|AKIA|ASIA|xox|xapp|eyJ|LS0t",
    re.IGNORECASE,
)
"""Each rule needs one of these, so that most texts are done after one look."""

KINDS = frozenset(
    {"signedurl", "url", "basic", "exact", "wandb", *(shape.kind for shape in _SHAPES), *NAME_KINDS}
)
"""Every kind that a mark can name."""


def spans(text: str, exact: Mapping[str, str]) -> list[Span]:
    """Find every secret in a text, unordered; several rules may find the same one.

    Args:
        text: What is searched, its redaction marks hidden.
        exact: Secret values that are known, and the kind of each.
    """
    found = list(_exact(text, exact))
    if not _ANY.search(text):
        return found
    found += _shapes(text)
    found += _addresses(text)
    found += _near_wandb(text)
    if _NOUN.search(text):
        found += _positions(text)
    if "-u" in text or "--" in text or "-p" in text:
        found += _short_flags(text)
    return found


def merge(text: str, found: Iterable[Span]) -> list[Span]:
    """Join overlapping spans, in order; the one that knows most names the kind of the whole.

    A span never splits a hidden mark, and one that holds nothing but marks is dropped.
    """
    merged: list[Span] = []
    for span in sorted(found, key=lambda span: (span.start, span.end)):
        if text[span.start : span.end].strip(HIDDEN) == "":
            continue
        last = merged[-1] if merged else None
        if last is None or span.start >= last.end:
            merged.append(_whole_marks(text, span))
            continue
        best = min(last, span, key=lambda either: either.rank)
        joined = Span(last.start, max(last.end, span.end), best.kind, best.rank)
        merged[-1] = _whole_marks(text, joined)
    return merged


def argument_spans(words: Sequence[str]) -> Iterator[tuple[int, Span]]:
    """Find secrets that are whole words of a command: after `--api-key`, after `-e HF_TOKEN`.

    Returns:
        The index of each such word, and the span in it.
    """
    for place in range(1, len(words)):
        before, word = words[place - 1], words[place]
        flag = before.startswith("-") and "=" not in before
        variable = place > 1 and words[place - 2] in ("-e", "-E", "--env", "--env-var")
        pair = len(words) == 2 and before.isupper()
        if not (flag or variable or pair) or word.startswith("-"):
            continue
        if sensitive_name(before) and not prose_word(word):
            span = whole_value(word, before)
            if span is not None:
                yield place, span


def whole_value(value: str, name: str) -> Span | None:
    """Return the span of a value that stands alone under a sensitive name; none when harmless.

    Of `Bearer abc` only what follows the scheme is the secret.
    """
    scheme = _SCHEME.match(value)
    start = scheme.end() if scheme is not None else 0
    rest = value[start:]
    if rest.strip(HIDDEN) == "" or harmless(rest, name):
        return None
    return Span(start, len(value), _kind(name, scheme), Rank.POSITION)


def _whole_marks(text: str, span: Span) -> Span:
    start, end = span.start, span.end
    while text[start] == HIDDEN and start > 0 and text[start - 1] == HIDDEN:
        start -= 1
    while text[end - 1] == HIDDEN and end < len(text) and text[end] == HIDDEN:
        end += 1
    return Span(start, end, span.kind, span.rank)


def _exact(text: str, exact: Mapping[str, str]) -> Iterator[Span]:
    for value, kind in exact.items():
        start = text.find(value)
        while start >= 0:
            yield Span(start, start + len(value), kind, Rank.EXACT)
            start = text.find(value, start + len(value))


def _shapes(text: str) -> Iterator[Span]:
    for shape in _SHAPES:
        if shape.keyword not in text:
            continue
        group = "secret" if "secret" in shape.pattern.groupindex else 0
        for match in shape.pattern.finditer(text):
            # Without a digit what follows `bearer` is a word of a sentence.
            if shape.kind != "bearer" or credential_like(match[group]):
                yield Span(match.start(group), match.end(group), shape.kind, shape.rank)


def _addresses(text: str) -> Iterator[Span]:
    for match in _SIGNED.finditer(text):
        signed = match[0].lower()
        if signed.startswith(("sig", "key")) and len(match["secret"]) < _SIG_CHARS_MIN:
            continue
        if match["key"] and not credential_like(match["secret"]):
            continue
        kind = "key" if match["key"] else "signedurl"
        yield Span(*match.span("secret"), kind, Rank.FORM)
    if "@" not in text:
        return
    for match in _USERINFO.finditer(text):
        secret = match["secret"]
        if secret and not harmless(secret, "password"):
            yield Span(*match.span("secret"), "url", Rank.FORM)
        user = match["user"]
        # A token may stand in the place of the user; names of people and accounts are shorter.
        if len(user) >= 20 and user.replace("_", "").isalnum() and credential_like(user):
            yield Span(*match.span("user"), "url", Rank.FORM)


def _near_wandb(text: str) -> Iterator[Span]:
    """Find W&B's old keys: 40 hex, as git commits are, so the words around them decide."""
    if "wandb" not in text.lower():
        return
    for match in _HEX40.finditer(text):
        before = text[max(0, match.start() - _NEAR_CHARS_MAX) : match.start()].replace("\\n", "\n")
        line = before.rpartition("\n")[2]
        if not line.strip() and text[match.end() : match.end() + 1] in ("", "\n", "\r", "\\"):
            # Alone on its line, as it is typed after a prompt for the key.
            line = before.rstrip("\n").rpartition("\n")[2]
            if "key" not in line.lower() and "login" not in line.lower():
                continue
        if _names_key(line) or _SAID_AFTER.match(text, match.end()):
            yield Span(match.start(), match.end(), "wandb", Rank.NEAR)


def _names_key(line: str) -> bool:
    """Say whether the words before 40 hex characters speak of a W&B key."""
    place = line.lower().rfind("wandb")
    if place < 0:
        return False
    between = line[place + len("wandb") :]
    if _NOT_A_KEY.search(between.rstrip("\"' \\") or between):
        return False
    label = _LABEL.search(line)
    return label is None or _KEY_LABEL.search(label[1]) is not None


def _positions(text: str) -> Iterator[Span]:
    yield from _assigned(text)
    for pattern in (_FLAG, _ENV_FLAG, _NAME_VALUE, _PAIR, _SPOKEN):
        done = 0
        for match in pattern.finditer(text):
            name = match["name"]
            spoken = pattern is _SPOKEN
            if match.end() < done or not (spoken or sensitive_name(name)):
                continue
            bounds = _value(text, match.end(), yaml=False)
            if bounds is None:
                continue
            start, end, _ = bounds
            value = text[start:end]
            if pattern in (_FLAG, _ENV_FLAG) and (value.startswith("-") or prose_word(value)):
                continue
            if pattern is _ENV_FLAG and _passes_by_name(text, match.start()):
                continue
            if (spoken and not credential_like(value)) or harmless(value, name):
                continue
            done = end
            yield Span(start, end, kind_of_name(name), Rank.POSITION)
    if "password" in text:
        for match in _NETRC.finditer(text):
            if not harmless(match["secret"], "password"):
                yield Span(*match.span("secret"), "password", Rank.POSITION)


def _passes_by_name(text: str, place: int) -> bool:
    """Say whether `-e NAME` belongs to a program that reads the value from its environment."""
    before = text[max(0, place - _PROGRAM_CHARS_MAX) : place].rpartition("\n")[2]
    return re.search(r"\b(?:docker|podman|nerdctl)\b", before) is not None


def _assigned(text: str) -> Iterator[Span]:
    done = 0
    for match in _ASSIGNED.finditer(text):
        name = match["name"].rstrip(".-")
        if match.end() < done or not sensitive_name(name):
            continue
        colon = match["sep"] == ":"
        scheme = _SCHEME.match(text, match.end())
        if "auth" not in name.lower():
            scheme = None
        bounds = _value(text, scheme.end() if scheme else match.end(), yaml=colon)
        if bounds is None:
            continue
        start, end, quoted = bounds
        if quoted and scheme is None and "auth" in name.lower():
            # The scheme stands inside the quotes here.
            scheme = _SCHEME.match(text, start, end)
            start = scheme.end() if scheme else start
        elif not quoted and name.lower().endswith(("cookie", "passphrase")):
            rest = _REST.match(text, start)
            end = rest.end() if rest and ("=" in rest[0] or name.endswith("phrase")) else end
        value = text[start:end]
        if not quoted and colon and not match["quote"]:
            sentence = _PLAIN_WORD.fullmatch(value) and _NEXT_WORD.match(text, end)
            if annotation(value) or (sentence and not scheme) or prose_word(value):
                continue
        if scheme is not None and sensitive_name(value):
            continue
        code = not quoted and (not colon or match["quote"] != "")
        if start == end or harmless(value, name, code=code):
            continue
        done = end
        yield Span(start, end, _kind(name, scheme), Rank.POSITION)


def _kind(name: str, scheme: re.Match[str] | None) -> str:
    if scheme is not None and scheme["scheme"].lower() in ("bearer", "basic"):
        return scheme["scheme"].lower()
    return kind_of_name(name)


def _value(text: str, at: int, *, yaml: bool) -> tuple[int, int, bool] | None:
    """Return the bounds of the value that starts at a place, and whether it stood in quotes.

    None when there is no scalar: a list, a mapping, a reference, or nothing.
    """
    opened = _OPEN.match(text, at)
    if opened is not None:
        end = _closing(text, opened.end(), opened["quote"], len(opened["slashes"]))
        return (opened.end(), end, True) if end > opened.end() else None
    if yaml:
        scalar = _BLOCK_SCALAR.match(text, at)
        if scalar is not None:
            rest = _REST.match(text, scalar.end())
            return (rest.start(), rest.end(), True) if rest is not None else None
    if text.startswith(("[", "{"), at) and not text.startswith("{{", at):
        return None
    if _AHEAD.match(text, at) is not None:
        return None
    bare = _BARE.match(text, at)
    if bare is None:
        return None
    end = _without_closers(text, at, bare.end())
    return (at, end, False) if end > at else None


def _closing(text: str, at: int, quote: str, slashes: int) -> int:
    r"""Return where a quoted value ends: at its closing quote, or with its line or the text.

    Args:
        text: What is searched.
        at: Index after the opening quote.
        quote: The opening quote.
        slashes: How many backslashes stood before it: one in JSON inside JSON, and so on.
    """
    limit = min(len(text), at + _VALUE_CHARS_MAX)
    place = at
    while (match := _CLOSERS[quote].search(text, place, limit)) is not None:
        if match[0] == "\n":
            return match.start()
        count = len(match[0]) - 1
        if count <= slashes or (slashes == 0 and quote != "'" and count % 2 == 0):
            # A value that ends in backslashes of its own keeps them; the quote's are not its.
            end = match.end() - 1 - min(count, slashes)
            if quote == "'" and text.startswith("\\''", match.end()):
                # In a shell 'it'\''s' goes on after the escaped quote.
                place = match.end() + 3
                continue
            return end
        place = match.end()
    return limit


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


def _short_flags(text: str) -> Iterator[Span]:
    for pattern, programs in ((_USER_FLAG, ("curl",)), (_PASS_FLAG, ("sshpass", "docker login"))):
        for match in pattern.finditer(text):
            before = text[max(0, match.start() - _PROGRAM_CHARS_MAX) : match.start()]
            command = before.replace("\\\n", " ").rpartition("\n")[2]
            secret = match["secret"]
            if not any(program in command for program in programs):
                continue
            if not harmless(secret, "password"):
                kind = "basic" if pattern is _USER_FLAG else "password"
                yield Span(*match.span("secret"), kind, Rank.POSITION)
