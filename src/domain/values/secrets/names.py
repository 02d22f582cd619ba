"""Recognises names of secrets, and harmless values under such names.

Names are split into words. WANDB_API_KEY and hubToken name a secret; MONKEY, tokenizer and
num_tokens do not. A reference to a secret is harmless and is kept as evidence.
"""

import re
from functools import lru_cache

_NAME_CHARS_MAX = 120
"""Only the end of a longer name is read."""

_HARMLESS_CHARS_MAX = 512
"""A longer value never counts as harmless, which bounds the work of the check."""

_VALUE_CHARS_MIN = 3
"""A shorter value is a placeholder, like `x` in examples. This does not apply to passwords."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_KEY_OWNERS = (
    "api|access|secret|private|auth|account|storage|master|encryption|signing|ssh|service|client"
    "|app|deploy|deployment|license|session|admin|root|webhook|hmac|jwt|bot|vault|registry|db"
    "|database|redis|integration|subscription|wandb|openai|anthropic|claude|gemini|mistral|cohere"
    "|groq|hf|huggingface|gh|github|gitlab|gcp|gcs|google|aws|s3|azure|slack|discord|sentry|datadog"
    "|dd|neptune|comet|mlflow|pagerduty|opsgenie|sendgrid|kaggle|tailscale"
)
"""Words before `key` that make it a secret. The word `key` alone usually means a column or sort
key."""

_TOKEN_OWNERS = "access|auth|refresh|bearer|api|bot|session|id|hub|hf|gh|github|gitlab|secret"
_PASS_OWNERS = "db|user|smtp|mysql|postgres|pg|redis|admin|root|ftp|mail|ssh|login|proxy|registry"

# The name is split and joined with underscores first, so each word is between underscores.
_STRONG = re.compile(
    r"(?:^|_)(?:secrets?|[a-z]*passw[a-z]*|passphrases?|credentials?|creds|cookies?|dsn|webhooks?"
    r"|o?authorization"
    r"|pw"
    rf"|(?:{_KEY_OWNERS})_?keys?|(?:{_TOKEN_OWNERS})_?tokens?|(?:{_PASS_OWNERS})_(?:pass|pwd|pw))"
    r"(?=_|$)"
)
_SUFFIX = r"(?:_(?:value|val|prod|production|dev|staging|old|new|raw|v|[0-9]+|b64|base64|json))*$"
_TOKEN = re.compile(rf"(?:^|_)(?:([a-z]+)_)?token{_SUFFIX}")
_AUTH = re.compile(rf"(?:^|_)o?auth{_SUFFIX}")
_WEAK = re.compile(r"(?:^|_)(?:o?auth|secrets|credentials?|cookies|webhooks?)$")
_KEY = re.compile(rf"_?([a-z]+|[0-9]+)_key{_SUFFIX}")
_KEY_ID = re.compile(r"(?:private|access)_key_id$")

_PLAIN_TOKENS = _words(
    "eos bos pad unk mask sep cls special end start stop next page continuation last first prev"
    " previous num max min total per target input output image text vocab byte prompt completion"
    " added extra fencing fence lease sentinel eot eod im avg mean"
    " think begin fim prefix suffix middle nl newline space"
)
_PLAIN_KEYS = _words(
    "sort primary foreign partition ordering order group cache shard natural public idempotency"
    " routing dict host hot rng prng random metric row column map lookup effect gpg dedup config"
)
_NEUTRAL_FIRST = _words("no skip disable enable num n max min total has is count missing")
# Webhook and DSN addresses are secrets themselves, so `url` is handled outside this list.
_NEUTRAL_LAST = _words(
    "name names ref refs path paths file files filename dir folder count len length size type"
    " id ids version policy enabled disabled required optional expiry expires expiration at ttl"
    " age env var vars variable from hash digest fingerprint sha256 method mode provider scheme"
    " source backend min max manager project uri url urls arn location region bucket domain"
    " prefix suffix set present missing found valid invalid error errors exception warning"
    " expired status state class label labels title description help field fields column index"
    " store helper handler reader loader limit timeout events event enum kind kinds py go rs js"
    " ts md sh cc cpp h json yaml yml toml txt exists used scope scopes format pattern regex"
    " rotation jar"
)
_HANDED_ON = _NEUTRAL_LAST | {"key", "value"}
"""Endings of variable names that are no secret in code."""

_ADDRESS_LAST = frozenset({"uri", "url", "urls"})

_VENDORS = {
    "wandb": "wandb",
    "hf": "huggingface",
    "huggingface": "huggingface",
    "gh": "github",
    "github": "github",
    "openai": "openai",
    "anthropic": "anthropic",
    "slack": "slack",
    "discord": "discord",
    "aws": "aws",
    "gcp": "google",
    "gcs": "google",
    "google": "google",
    "goog": "google",
}
_NOUN_KINDS = (
    ("pass", "password"),
    ("cookie", "cookie"),
    ("webhook", "webhook"),
    ("token", "token"),
    ("dsn", "dsn"),
    ("auth", "auth"),
    ("key", "key"),
)
NAME_KINDS = frozenset({"secret", *_VENDORS.values(), *(kind for _, kind in _NOUN_KINDS)})
"""Every kind that `kind_of_name` returns."""

_STATUSES = _words(
    "true false yes no none null nil undefined empty unset set missing required optional hidden"
    " masked redacted enabled disabled on off ok failed invalid expired valid unknown absent"
    " present default auto anonymous basic bearer digest oauth oauth2 n/a not is was nan str int"
    " bool bytes any self await lambda"
)
_PROSE = _words(
    "to or and is are was were be been flag option options must with for from in if not the a"
    " an of on argument arguments parameter value requires required can cannot has have when"
    " should as instead but that this which will would may does do by at it its via using"
)
_METAVARIABLES = frozenset(
    ["TEXT", "STR", "STRING", "VALUE", "NAME", "FILE", "PATH", "TOKEN", "KEY", "SECRET", "PASSWORD"]
)

_REFERENCE = re.compile(
    r"\$?\{\{[^{}\n]{0,200}\}\}"  # ${{ secrets.X }} of GitHub, {{ .Values.x }} of templates.
    r"|\$\{(?:oc\.env:|env:|env\.|secrets\.|vars\.)?[A-Za-z_][\w.]{0,100}"
    r"(?::?\?[^{}\n]{0,200}|:?-|,null)?\}"
    r"|\$\([^()\n]{0,400}\)|`[^`\n]{0,400}`"
    r"|\$[A-Z_][A-Z0-9_]{0,100}(?![a-z])"
    r"|\$[a-z_]{0,40}?(?:key|token|secret|pass|auth|cred|dsn|webhook)[a-z_]{0,40}(?![A-Za-z0-9])"
    r"|\$[0-9@*]|%[A-Za-z_]\w{0,60}%|%\([a-z_]{1,40}\)[sr]|%[srdv]"
    r"|\{[A-Za-z_][\w.]{0,60}(?:\(\)|![rs])?\}",
    re.ASCII,
)
_POINTER = re.compile(
    r"projects/[^\s/]+/secrets/\S+|(?:env|vault|keyring):[A-Za-z_][\w./-]*"
    r"|(?:sm|op|vault|ssm|gsm|keyring|env|file)://[^\s@?]+|arn:aws:\w+:\S+"
    r"|(?:sha1|sha256|sha512|md5|blake3):[0-9a-f]{6,128}"
    r"|(?:gs|s3|r2|az|hf|sqlite)://[^\s@?]*"
    r"|@?(?:~|\.{1,2})?/?(?:[\w.+-]+/)*[\w.-]+"
    r"\.(?:json|pem|key|p12|crt|cfg|ini|toml|ya?ml|txt|env|netrc|py|sh)"
    r"|@?~?/(?:run|var|etc|home|root|tmp|mnt|opt|usr|secrets|workspace|app|data|dev)/[\w./-]+",
    re.ASCII,
)
_ADDRESS = re.compile(r"https?://[^\s@?]+", re.ASCII)
_NUMBER = re.compile(r"[-+]?[0-9]{1,7}(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?%?", re.ASCII)
_CODE = re.compile(
    r"(?:self|cls|args|cfg|config|conf|settings|os|env|environ|secrets|vars|opts|options|params"
    r"|flags|FLAGS|kwargs|request|ctx|context|process|credentials|creds|state|client|hparams)"
    r"\.[A-Za-z_]|[A-Za-z_][\w.]*[(\[]",
    re.ASCII,
)
_TYPE = re.compile(
    r"(?:SecretStr|Any|str|bytes|string|int|float|bool|dict|list)[,)]?"
    r"|[A-Za-z_.]+\[[\w\[\], .|]*[,)]?",
    re.ASCII,
)
_WORDS_ONLY = re.compile(r"[\w-]*[A-Za-z0-9][\w-]*", re.ASCII)
_IDENTIFIER = re.compile(r"_*[a-z]+(?:_[a-z]+)*", re.ASCII)
_DOTTED = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)+", re.ASCII)
_ENV_NAME = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+", re.ASCII)
# Tools may print both ends of a masked value, so that people can tell keys apart.
_MASKED = re.compile(r"[\w-]{0,12}(?:\*{3,}|…|\.{3})[\w-]{0,6}", re.ASCII)
_PLACEHOLDER = re.compile(r"<[A-Za-z _.-]{1,60}>|\[[A-Za-z _-]{1,40}\]", re.ASCII)


@lru_cache(maxsize=4096)
def sensitive_name(name: str) -> bool:
    """Return whether a name means a secret: HF_TOKEN does, TOKENIZER does not.

    Args:
        name: The name of a variable, flag, field, header or query parameter; it may have dots.
    """
    joined = _joined(name)
    last_part = _joined(name.rpartition(".")[2]).split("_")
    if _KEY_ID.search(joined):
        return True
    if last_part[0] in _NEUTRAL_FIRST and len(last_part) > 1:
        return False
    strong = _STRONG.search(joined)
    if strong is not None:
        last = joined.rpartition("_")[2]
        if last in _ADDRESS_LAST:
            return "webhook" in joined or "dsn" in joined
        return last not in _NEUTRAL_LAST or (last == "json" and "credential" in joined)
    token = _TOKEN.search(joined)
    if token is not None:
        return token[1] not in _PLAIN_TOKENS
    if _AUTH.search(joined):
        return True
    # Lower-case names such as `x_key` are mostly columns.
    key = _KEY.search(joined)
    return key is not None and name.isupper() and key[1] not in _PLAIN_KEYS


@lru_cache(maxsize=4096)
def weak_name(name: str) -> bool:
    """Return whether a sensitive name also has an everyday meaning, as in `token: the`.

    Under such a name, only a value that looks like a credential is a secret.
    """
    joined = _joined(name)
    if joined in ("token", "cookie", "dsn") or _WEAK.search(joined) is not None:
        return True
    # A key without an owner's name, such as `wandb`, is mostly a column.
    return _KEY.search(joined) is not None and _STRONG.search(joined) is None


@lru_cache(maxsize=4096)
def kind_of_name(name: str) -> str:
    """Return the kind of secret that a name announces, such as `wandb` or `password`."""
    joined = _joined(name)
    for word in joined.split("_"):
        if word in _VENDORS:
            return _VENDORS[word]
    for noun, kind in _NOUN_KINDS:
        if noun in joined:
            return kind
    return "secret"


def harmless(value: str, name: str, *, code: bool = False) -> bool:
    """Return whether a value under a sensitive name is harmless.

    References, pointers, paths, numbers, masked values, names of variables and words such as
    `missing` are harmless. A doubtful value counts as a secret.

    Args:
        value: The text under the name, without quotes.
        name: The sensitive name.
        code: The value may be an expression, as in `login(token=self.token)`.
    """
    if len(value) > _HARMLESS_CHARS_MAX:
        return False
    kind = kind_of_name(name)
    if kind != "password" and len(value) < _VALUE_CHARS_MIN:
        return True
    if value.lower() in _STATUSES or _names_only(value):
        return True
    if kind != "password" and _NUMBER.fullmatch(value):
        return True
    if not _WORDS_ONLY.fullmatch(value) and _refers_to_another(value, kind):
        return True
    if _hands_on(value, code) or (code and _CODE.match(value)):
        return True
    return weak_name(name) and not credential_like(value)


def _refers_to_another(value: str, kind: str) -> bool:
    """Return whether a value is a reference, a path, an address, a placeholder or masked."""
    if not any(letter.isalnum() for letter in _REFERENCE.sub("", value)):
        return True
    if _MASKED.fullmatch(value) or _POINTER.fullmatch(value) or _PLACEHOLDER.fullmatch(value):
        return True
    # Addresses of webhooks and databases are credentials. Other addresses are not.
    hook = kind in ("webhook", "dsn", "slack", "discord")
    return not hook and _ADDRESS.fullmatch(value) is not None


def annotation(value: str) -> bool:
    """Return whether a value is a type, as in `def login(token: str)`."""
    return _TYPE.fullmatch(value) is not None


def prose_word(value: str) -> bool:
    """Return whether a value is a word that continues a sentence, as in `--token or`."""
    return value.lower().rstrip(".,;:") in _PROSE


def credential_like(value: str) -> bool:
    """Return whether a value looks like a credential: long, unbroken, letters and digits."""
    if any(letter.isspace() for letter in value):
        return False
    if len(value) >= 32 or "://" in value:
        return True
    letters = any(letter.isalpha() for letter in value)
    return len(value) >= 8 and letters and any(letter.isdigit() for letter in value)


def _joined(name: str) -> str:
    return "_".join(_WORD.findall(name.removeprefix("-D")[-_NAME_CHARS_MAX:])).lower()


def _names_only(value: str) -> bool:
    """Return whether a value is one or more variable names: `WANDB_API_KEY,HF_TOKEN`."""
    if not value[:1].isupper():
        return False
    parts = [part for part in re.split(r"[,\s]+", value) if part]
    return all(
        part in _METAVARIABLES or (_ENV_NAME.fullmatch(part) and sensitive_name(part))
        for part in parts
    )


def _hands_on(value: str, code: bool) -> bool:
    """Return whether an argument only passes a variable: `token=hf_token`, `key=run.api_key`."""
    if _DOTTED.fullmatch(value):
        return sensitive_name(value.rpartition(".")[2])
    if not code or _IDENTIFIER.fullmatch(value) is None:
        return False
    return sensitive_name(value) or value.rpartition("_")[2] in _HANDED_ON
