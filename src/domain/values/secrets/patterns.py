"""Finds secrets in a text by exact value, by shape and by position.

Every pattern takes time linear in the text. Repeats are possessive, bounded, or started only at the
edge of a run, and each value is scanned once. Patterns never see redaction marks: the caller
replaces them by `HIDDEN`, which is neither a letter nor a space.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from ahocorasick_rs import BytesAhoCorasick

from watchkeeper.domain.values.secrets.names import (
    NAME_KINDS,
    credential_like,
    harmless,
    kind_of_name,
)
from watchkeeper.domain.values.secrets.positions import position_spans
from watchkeeper.domain.values.secrets.spans import HIDDEN, Rank, Span
from watchkeeper.domain.values.secrets.vendors import VENDOR_SHAPES


@dataclass(frozen=True)
class _Shape:
    """A pattern that only a secret matches.

    Attributes:
        kind: What it finds.
        keyword: A literal in each match. A text without it is not searched.
        source: The whole match is the secret, or its group `secret` if it has one.
        rank: Below `SHAPE` if another rule may know the kind better.
    """

    kind: str
    keyword: str
    source: str
    rank: Rank = Rank.SHAPE

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The compiled source. Most keywords are never met, so their patterns are not compiled."""
        return re.compile(self.source, re.ASCII)


def _shape(kind: str, prefix: str, rest: str) -> _Shape:
    r"""Return a shape whose literal prefix starts a word, also after `\n`, `%3D` and a colour."""
    literal = re.escape(prefix)
    # The literal comes first, so that the search is fast. The text before it is checked afterwards.
    ways = (rf"(?<![A-Za-z0-9]{literal})", rf"(?<=\\[nrt]{literal})", rf"(?<=[0-9]m{literal})")
    edge = f"{literal}(?:{'|'.join(ways)}|(?<=%[0-9A-F]{{2}}{literal}))"
    return _Shape(kind, prefix, edge + rest)


# The prefixes and lengths are those that the makers publish and gitleaks' rules repeat.
_SHAPES = (
    _shape("wandb", "wandb_v1_", r"[A-Za-z0-9]{20,40}_[A-Za-z0-9]{40,60}"),
    _shape("huggingface", "hf_", r"[A-Za-z0-9]{34,}"),
    _shape("huggingface", "api_org_", r"[A-Za-z0-9]{34,}"),
    *(_shape("github", f"gh{letter}_", r"[A-Za-z0-9]{36,}") for letter in "pousr"),
    _shape("github", "github_pat_", r"[A-Za-z0-9_]{22,}"),
    _shape("gitlab", "glpat-", r"[\w-]{20,}"),
    _shape("anthropic", "sk-ant-", r"[\w-]{20,}"),
    _shape("openai", "sk-", r"(?!ant-)(?=[A-Za-z_-]{0,60}[0-9])[\w-]{20,}"),
    _shape("google", "AIza", r"[\w-]{35,}"),
    _shape("google", "ya29.", r"[\w.-]{10,}"),
    _shape("google", "GOCSPX-", r"[\w-]{20,}"),
    _shape("aws", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("aws", "ASIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    *(_shape("slack", f"xox{letter}-", r"[\w-]{10,}") for letter in "abeoprs"),
    _shape("slack", "xapp-", r"[\w-]{10,}"),
    _Shape(
        "slack", "hooks.slack.com", r"(?:https?:(?:\\*/){2})?hooks\.slack\.com(?:\\*/[\w-]+){2,8}"
    ),
    _Shape(
        "discord",
        "webhooks",
        r"(?:https?:(?:\\*/){2})?(?:ptb\.|canary\.)?discord(?:app)?\.com\\*/api"
        r"(?:\\*/v[0-9]{1,2})?\\*/webhooks\\*/[0-9]{1,30}\\*/[\w-]+",
    ),
    _Shape(
        "privatekey",
        "PRIVATE KEY",
        r"(?s)-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:.*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|.*)",
        Rank.FORM,
    ),
    # The same in base64, as kubeconfig and Kubernetes secrets hold it.
    _Shape(
        "privatekey",
        "LS0tLS1CRUdJTi",
        r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,24}?"
        r"(?:UFJJVkFURSBLRV|QUklWQVRFIEtFW|BSSVZBVEUgS0VZ)[A-Za-z0-9+/=]+",
        Rank.FORM,
    ),
    # No hyphen before it: otherwise a run of `eyJ-eyJ-` would be read again from each.
    _Shape(
        "jwt",
        "eyJ",
        r"eyJ(?:(?<![\w-]eyJ)|(?<=\\[nrt]eyJ)|(?<=%[0-9A-F]{2}eyJ))"
        r"[\w-]++\.eyJ[\w-]++\.[\w-]*+",
        Rank.FORM,
    ),
    _Shape("bearer", "earer", r"\b[Bb]earer[ \t]+(?P<secret>[\w.~+/-]{16,}=*)", Rank.POSITION),
)

_SIGNED = re.compile(
    r"(?:X-(?:Goog|Amz)-(?:Signature|Credential|Security-Token)|GoogleAccessId|AWSAccessKeyId"
    r"|(?:(?<=[?&;])|(?<=\\u0026)|(?<=%26))(?P<short>Signature|sig)"
    r"|(?:(?<=[?&])|(?<=\\u0026)|(?<=%26)|(?<=%3F))(?P<key>key|jwt"
    r"|(?:access_|auth_)?token|api_?key|secret|passw(?:or)?d|pwd?))"
    r"(?:=|%3D)(?P<secret>(?:(?!%26)[^\s&\"'<>\\#`])+)",
    re.ASCII | re.IGNORECASE,
)
_SIGNED_WORDS = (
    "sig=",
    "sig%3d",
    "signature",
    "credential",
    "security-token",
    "accessid",
    "keyid",
    "key=",
    "token=",
    "secret=",
    "passw",
    "pwd=",
    "pw=",
    "jwt=",
    "%3d",
)
_SIGNATURE_CHARS_MIN = 16
"""A shorter `sig` is the name of a signal. Real signatures have at least 27 characters."""

_USERINFO = re.compile(
    r":(?:\\*/){2}(?P<user>[^\s/?#@:\"'<>\\]{0,256}+)"
    r"(?::(?P<secret>[^\s/\"'<>\\]{1,256}))?@",
    re.ASCII,
)
_USER_CHARS_MIN = 20
"""A shorter user in a URL is a person or an account, not a token."""

_HEX40 = re.compile(
    r"(?:(?<![0-9A-Za-z])|(?<=\\[nrt]))(?:local-)?[0-9a-f]{40}(?![0-9A-Za-z])", re.ASCII
)
_NEAR_CHARS_MAX = 160
"""How far before 40 hex characters the word `wandb` is searched, on the same line."""

_LABEL = re.compile(
    r"(?<![\w.-])([A-Za-z_][\w.-]*)\\*[\"']?\]?[ \t]*[:=][ \t]*\\*[\"']?$", re.ASCII
)
_NOT_A_KEY = re.compile(
    r"(?<![a-z])(?:git|commit|sha|sha1|rev|revision|head|digest|hash|checksum|tree|blob|ref|refs"
    r"|branch|artifact|version|tag|image|job|node|bundle|patch)(?![a-z])|[/@#]$",
    re.IGNORECASE,
)
_KEY_LABEL = re.compile(r"wandb|key|token|secret|pass|auth|login", re.IGNORECASE)
_KEY_WORD = re.compile(r"(?<![\w-])(?:key|login)(?![\w-])", re.IGNORECASE)
_SAID_AFTER = re.compile(
    r"\\*[\"']?[ \t]*(?:#|//|is|as|->|=)[ \t][^\n]{0,40}?wandb[^\n]{0,20}?key", re.IGNORECASE
)

_ANY = re.compile(
    "key|token|secret|pass|pwd|cred|cookie|auth|dsn|hook|wandb|://|:\\\\|curl|login|redis-cli|earer|sig"
    "|access|hf_|gh[pousr]_|github_pat|glpat|api_org|sk-|AIza|ya29|GOCSPX|AKIA|ASIA|xox|xapp|eyJ|LS0t|-pw|_pw",
    re.IGNORECASE,
)
"""Every rule except exact values needs one of these, so most texts need only one search."""

_VENDORS = tuple(_shape(*row) for row in VENDOR_SHAPES)
_PREFIXES = BytesAhoCorasick([one.keyword.encode() for one in _VENDORS])
"""One search for all vendor prefixes: separate searches on each line took 50 % longer."""

KINDS = NAME_KINDS | {shape.kind for shape in (*_SHAPES, *_VENDORS)} | {"signedurl", "url", "basic"}
"""Every kind that a redaction mark can name."""

MARK = re.compile(
    rf"(?:«|\\{{1,16}}u00ab)redacted:(?P<kind>{'|'.join(sorted(KINDS))}):[0-9a-f]{{4}}"
    r"(?:»|\\{1,16}u00bb)"
)
"""A redaction mark, also in ASCII-only JSON. Only known kinds are accepted, so that a mark cannot
hide other text."""


def hidden(text: str) -> str:
    """Return a text of the same length with redaction marks hidden from all patterns."""
    if "redacted:" not in text:
        return text
    return MARK.sub(lambda match: HIDDEN * len(match[0]), text)


def spans(text: str, exact: Iterable[tuple[str, str]]) -> list[Span]:
    """Find every secret in a text, unordered; several rules may find the same one.

    Args:
        text: The text to search, with hidden redaction marks.
        exact: Secret values that are known, each with its kind.
    """
    found = [*_exact(text, exact), *_vendors(text)]
    if _ANY.search(text) is None:
        return found
    return [*found, *_shapes(text), *_addresses(text), *_near_wandb(text), *position_spans(text)]


def _exact(text: str, exact: Iterable[tuple[str, str]]) -> Iterator[Span]:
    for value, kind in exact:
        start = text.find(value)
        while start >= 0:
            yield Span(start, start + len(value), kind, Rank.EXACT)
            start = text.find(value, start + len(value))


def _vendors(text: str) -> Iterator[Span]:
    raw = text.encode("utf-8", "replace")
    for at in {at for at, _, _ in _PREFIXES.find_matches_as_indexes(raw, overlapping=True)}:
        shape = _VENDORS[at]
        for match in shape.pattern.finditer(text):
            yield Span(*match.span(), shape.kind, shape.rank)


def _shapes(text: str) -> Iterator[Span]:
    for shape in _SHAPES:
        if shape.keyword not in text:
            continue
        group = "secret" if "secret" in shape.pattern.groupindex else 0
        for match in shape.pattern.finditer(text):
            # Text without a digit after `bearer` is part of a sentence.
            if shape.kind != "bearer" or credential_like(match[group]):
                yield Span(match.start(group), match.end(group), shape.kind, shape.rank)


def _addresses(text: str) -> Iterator[Span]:
    """Find the secret part of a URL; its scheme, host and path are kept."""
    lower = text.lower()
    signed = any(word in lower for word in _SIGNED_WORDS)
    for match in _SIGNED.finditer(text) if signed else ():
        if match["short"] and len(match["secret"]) < _SIGNATURE_CHARS_MIN:
            continue
        if match["key"] and not credential_like(match["secret"]):
            continue
        kind = kind_of_name(match["key"]) if match["key"] else "signedurl"
        yield Span(*match.span("secret"), kind, Rank.FORM)
    if "@" not in text:
        return
    for match in _USERINFO.finditer(text):
        if match["secret"] and not harmless(match["secret"], "password"):
            yield Span(*match.span("secret"), "url", Rank.FORM)
        user = match["user"]
        plain = user.replace("_", "").isalnum() and credential_like(user)
        if plain and len(user) >= _USER_CHARS_MIN:
            yield Span(*match.span("user"), "url", Rank.FORM)


def _near_wandb(text: str) -> Iterator[Span]:
    """Find W&B's old keys of 40 hex digits. Git commits look alike, so nearby words decide."""
    if "wandb" not in text.lower():
        return
    for match in _HEX40.finditer(text):
        before = text[max(0, match.start() - _NEAR_CHARS_MAX) : match.start()].replace("\\n", "\n")
        line = before.rpartition("\n")[2]
        if not line.strip() and text[match.end() : match.end() + 1] in ("", "\n", "\r", "\\"):
            # A key alone on its line, as typed after a prompt.
            line = before.rstrip("\n").rpartition("\n")[2]
            if "key" not in line.lower() and "login" not in line.lower():
                continue
        if _speaks_of_a_key(line) or _SAID_AFTER.match(text, match.end()):
            yield Span(match.start(), match.end(), "wandb", Rank.NEAR)


def _speaks_of_a_key(line: str) -> bool:
    """Return whether the words before 40 hex characters are about a W&B key."""
    place = line.lower().rfind("wandb")
    if place < 0:
        return False
    between = line[place + len("wandb") :].rstrip("\"' \\")
    label = _LABEL.search(line)
    if label is not None and not _KEY_WORD.search(between):
        named = _KEY_LABEL.search(label[1]) is not None
        return named and _NOT_A_KEY.search(label[1]) is None
    return _NOT_A_KEY.search(between) is None
