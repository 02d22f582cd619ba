"""The one place that removes secrets from texts before they are stored.

An immutable log makes both a leak and a false redaction permanent. So known values, positions and
shapes are redacted, but never mere randomness such as run ids and commits. A mark names the kind of
the secret and four hex digits of a keyed hash. Equal secrets get equal marks, but cannot be
guessed.
"""

import hmac
import json
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import quote

from pydantic import JsonValue

from watchkeeper.domain.values.secrets import names as secret_names
from watchkeeper.domain.values.secrets.names import credential_like, harmless, weak_name
from watchkeeper.domain.values.secrets.patterns import MARK, hidden, spans
from watchkeeper.domain.values.secrets.places import Here, Path, Survey, survey
from watchkeeper.domain.values.secrets.spans import HIDDEN, Rank, merge

_KNOWN_CHARS_MIN = 6
"""A shorter known value occurs by chance, and its redaction would remove evidence."""

_PASSES_MAX = 16
"""Most passes. A removal can reveal another secret; the limit stops texts built to do that."""

_SEEN_CHARS_MIN = 16
_SEEN_CHARS_MAX = 512
_SEEN_MAX = 64
"""The length and number of secrets that are also searched in the rest of their text or
structure."""

_MARK_BEGINS = re.compile(r"(?:«|\\u00ab)redacted:")
_BREAK = re.compile(r"\\{1,8}[nrt]|\s+")


@dataclass(frozen=True, slots=True)
class Scrubber:
    """The inputs of scrubbing; neither is ever shown.

    Args:
        key: The deployment's key for the marks.
        known: Exact secret values, by kind or by the name of their variable.

    Raises:
        ValueError: The key is empty, so that marks could be guessed.
    """

    key: bytes = field(repr=False)
    known: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    def __post_init__(self) -> None:
        """Check the key."""
        if not self.key:
            raise ValueError("key is empty: give the deployment's key, at least one byte")


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """A text without secrets.

    Attributes:
        text: The text, with marks where secrets were.
        counts: How many marks were set in this scrub, by kind; earlier marks do not count again.
    """

    text: str
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Hit:
    """A secret in a text.

    Attributes:
        kind: What it is, such as `wandb`, `password` or `signedurl`.
        start: Index of its first character.
        end: Index after its last character.
    """

    kind: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class _Exact:
    """A known secret in one of its forms.

    Attributes:
        value: The form to search for.
        kind: What it is.
        secret: The secret itself, so that each form gets the same mark.
    """

    value: str
    kind: str
    secret: str


def scrub(scrubber: Scrubber, text: str) -> Scrubbed:
    """Replace each secret in a text with a mark; scrubbing again changes nothing.

    Scrub a text before it is cut: half a secret may not be recognised.
    """
    clean, counts = scrub_json(scrubber, text)
    assert isinstance(clean, str)
    return Scrubbed(clean, counts)


def scrub_json(scrubber: Scrubber, value: JsonValue) -> tuple[JsonValue, Mapping[str, int]]:
    """Replace the secrets in a structure with marks, in texts and in keys.

    A text under a sensitive key is replaced as a whole, unless it is harmless: a reference, a path,
    a name of a variable. A secret found in one place is removed from the others too.

    Returns:
        The structure, unchanged in shape, and how many marks were set, by kind.

    Raises:
        TypeError: Something in it is not JSON, such as bytes or a tuple.
        ValueError: It is nested too deeply.
    """
    exact = {form.value: form for form in _known_forms(scrubber)}
    clean = value
    for _ in range(_PASSES_MAX):
        found = survey(clean, tuple((form.value, form.kind) for form in exact.values()))
        if not found.values and not found.keys:
            break
        for form in _seen(found):
            if len(exact) < _SEEN_MAX:
                exact.setdefault(form.value, form)
        clean = _Marker(scrubber.key, exact, found).replaced(clean, ())
    if clean is value:
        return value, {}
    return clean, dict(_marks(clean) - _marks(value))


def find_secrets(text: str) -> tuple[Hit, ...]:
    """Find the literal secrets in a text, in order; references such as `$HF_TOKEN` do not count."""
    masked = hidden(text)
    return tuple(Hit(span.kind, span.start, span.end) for span in merge(masked, spans(masked, ())))


def sensitive_name(name: str) -> bool:
    """Return whether a name announces a secret: HF_TOKEN does, TOKENIZER does not."""
    return secret_names.sensitive_name(name)


def has_mark(text: str) -> bool:
    """Return whether a text holds a redaction mark, whole or cut off."""
    return _MARK_BEGINS.search(text) is not None


def known_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the values that are secrets by the names of their variables."""
    return {name: value for name, value in environ.items() if _is_known(name, value)}


def _is_known(name: str, value: str) -> bool:
    if not sensitive_name(name) or len(value) < _KNOWN_CHARS_MIN:
        return False
    # A variable called TOKEN is a secret, though the word is common elsewhere.
    return not harmless(value, name) or (weak_name(name) and not harmless(value, "secret"))


def _known_forms(scrubber: Scrubber) -> Iterator[_Exact]:
    """Return the forms of each known secret in a text, in JSON, in a URL and in base64."""
    for name, secret in scrubber.known.items():
        if len(secret) < _KNOWN_CHARS_MIN:
            continue
        kind = secret_names.kind_of_name(name)
        encoded = secret.encode("utf-8", "surrogatepass")
        forms = (
            secret,
            json.dumps(secret)[1:-1],
            json.dumps(secret, ensure_ascii=False)[1:-1],
            quote(encoded, safe=""),
            b64encode(encoded).decode().rstrip("="),
        )
        for form in forms:
            yield _Exact(form, kind, secret)


def _seen(found: Survey) -> Iterator[_Exact]:
    """Return the newly found secrets, to search for them everywhere else."""
    for here in found.values.values():
        for span in here.spans:
            secret = here.text[span.start : span.end]
            # Keys found by nearby words may be commits, so they are not searched elsewhere. A part
            # of a signed URL is an address.
            if span.rank is Rank.NEAR or span.kind == "signedurl" or HIDDEN in secret:
                continue
            if _SEEN_CHARS_MIN <= len(secret) <= _SEEN_CHARS_MAX and credential_like(secret):
                yield _Exact(secret, span.kind, secret)


@dataclass(frozen=True, slots=True)
class _Marker:
    """Sets the marks of one pass."""

    key: bytes
    exact: Mapping[str, _Exact]
    found: Survey

    def replaced(self, value: JsonValue, path: Path) -> JsonValue:
        """Return a value with its secrets replaced by marks."""
        match value:
            case str():
                return self._text(value, self.found.values.get(path))
            case list():
                return [self.replaced(item, (*path, at)) for at, item in enumerate(value)]
            case dict():
                clean: dict[str, JsonValue] = {}
                for key, item in value.items():
                    inner = (*path, key)
                    name = self._text(key, self.found.keys.get(inner))
                    # Two secret keys may get the same mark, but neither key may be lost.
                    while name in clean:
                        name += "~"
                    clean[name] = self.replaced(item, inner)
                return clean
            case _:
                return value

    def _text(self, text: str, here: Here | None) -> str:
        if here is None:
            return text
        parts: list[str] = []
        done = 0
        for span in here.spans:
            parts += text[done : span.start], self._mark(text[span.start : span.end], span.kind)
            done = span.end
        return "".join([*parts, text[done:]])

    def _mark(self, secret: str, kind: str) -> str:
        known = self.exact.get(secret)
        if known is not None:
            secret, kind = known.secret, known.kind
        # Without line breaks a key has one mark, however it was wrapped or escaped.
        plain = _BREAK.sub("", secret).encode("utf-8", "surrogatepass")
        digits = hmac.new(self.key, plain, sha256).hexdigest()[:4]
        return f"«redacted:{kind}:{digits}»"


def _marks(value: JsonValue) -> Counter[str]:
    """Count the marks in a structure, by kind."""
    text = json.dumps(value, ensure_ascii=False)
    return Counter(match["kind"] for match in MARK.finditer(text))
