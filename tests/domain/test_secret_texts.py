"""What holds for every text: scrubbing settles, spares the rest, and takes time linear in it."""

import json
import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from tests.domain.found_secrets import find_secrets_in
from tests.every_row import every_row
from watchkeeper.domain.values.secrets.scrubbing import (
    Scrubber,
    find_secrets,
    scrub,
    scrub_json,
)

SCRUBBER = Scrubber(key=b"a deployment's key")
_MARK = re.compile(r"«redacted:[a-z]+:[0-9a-f]{4}»")
_SECONDS_MAX = 6.0
"""Of the processor: several times what a million characters take. A quadratic pattern takes
hours."""

# --- For every text -----------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *("password", "api_key", "TOKEN", "--api-key", "-e HF_TOKEN", "Authorization", "Cookie"),
        *("Bearer ", "Basic ", "wandb", "key", "name", "value", "machine a login b password "),
        *("=", ":", " ", "  ", "\n", "\\n", '"', '\\"', "'", "`", "\\", ",", ";", "&", "?", "@"),
        *("$", "${", "}", "{{", "(", ")", "[", "]", "<", ">", "|", "://", "/", "-", ".", "…"),
        *(
            "hunter2",
            "x",
            "5",
            "none",
            "sk-",
            "hf_" + "a1" * 17,
            "0123456789" * 4,
            "eyJ",
            "\x1b[31m",
        ),
        *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "&sig=", "\ue000", "é"),
        *(
            "«redacted:wandb:3f9c»",
            "«redacted:",
            "\\u00abredacted:key:00ff\\u00bb",
            "»",
            "curl -u ",
        ),
    ]
)
TEXTS = st.lists(PIECES, max_size=24).map("".join) | st.text(max_size=60)
JSON: st.SearchStrategy[JsonValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(TEXTS)
@settings(max_examples=600, deadline=None)
def test_scrubbing_any_text_twice_is_scrubbing_it_once(text: str) -> None:
    scrubber = Scrubber(key=b"k", known={"A_TOKEN": "hunter2", "B_KEY": "password"})
    once = scrub(scrubber, text)
    assert scrub(scrubber, once.text) == type(once)(once.text, {})
    assert find_secrets(scrub(SCRUBBER, text).text) == ()


@given(JSON)
@settings(max_examples=400, deadline=None)
def test_scrubbing_any_structure_twice_is_scrubbing_it_once(value: JsonValue) -> None:
    clean, _ = scrub_json(SCRUBBER, value)
    assert scrub_json(SCRUBBER, clean) == (clean, {})
    assert find_secrets_in(clean) == ()


@given(TEXTS)
@settings(max_examples=300, deadline=None)
def test_hits_are_in_order_and_apart(text: str) -> None:
    end = 0
    for hit in find_secrets(text):
        assert end <= hit.start < hit.end <= len(text)
        end = hit.end


# Of these only what looks masked is harmless, and there is no telling it from a mask.
PASSWORDS = (
    st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4, max_size=20)
    .map(lambda text: f"Zq9{text}7Xw")
    .filter(lambda text: "***" not in text and "..." not in text)
)


@given(PASSWORDS, st.integers(min_value=0, max_value=3))
@settings(max_examples=600, deadline=None)
def test_a_password_in_json_within_json_vanishes_with_all_its_signs(
    secret: str, depth: int
) -> None:
    body = json.dumps({"step": 5, "db_password": secret, "loss": 2.5})
    for _ in range(depth):
        body = json.dumps({"body": body})
    clean = scrub(SCRUBBER, body).text
    inner: JsonValue = json.loads(clean)
    for _ in range(depth):
        assert isinstance(inner, dict)
        body_in = inner["body"]
        assert isinstance(body_in, str)
        inner = json.loads(body_in)
    assert isinstance(inner, dict)
    assert (inner["step"], inner["loss"]) == (5, 2.5)
    assert isinstance(inner["db_password"], str)
    assert _MARK.fullmatch(inner["db_password"])


@given(PASSWORDS.filter(lambda text: "'" not in text))
@settings(max_examples=300, deadline=None)
def test_a_password_in_shell_quotes_vanishes_with_all_its_signs(secret: str) -> None:
    text = scrub(SCRUBBER, f"export DB_PASSWORD='{secret}' SEED=5").text
    assert re.fullmatch(r"export DB_PASSWORD='«redacted:password:[0-9a-f]{4}»' SEED=5", text)


# --- Time ---------------------------------------------------------------------------------------

ADVERSARIAL = [
    *("a", "_", "-", "a-", "\\", '\\"', " ", "\\n", "\x1b[31m", "0123456789abcdef", "\ue000"),
    *("key=", "api_key=", "api_key= ", 'api_key="', "api_key='\"", 'k_token=\\"\\\\\\"x', "=:"),
    *("eyJ-", "eyJabc.eyJ", "sk-", "hf_", "ghp_abc ", "xoxb-", "AKIA", "LS0tLS1CRUdJTi"),
    *("-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END "),
    *("://", "://a:b", "://a:b@h/", "&sig=", "X-Goog-Signature=a%26", "discord.com/api/webhooks/"),
    *(
        "curl -u ",
        "machine a login b ",
        "name: HF_TOKEN, ",
        "--api-key ",
        "--token --",
        "-e HF_TOKEN ",
    ),
    *("Authorization: Bearer ", "Cookie: a=b; ", "cookie: a ", "passphrase: *** ", "password: "),
    *(
        "API_TOKEN=${{",
        "token=<",
        "token={{",
        "«redacted:",
        "«redacted:wandb:3f9c»",
        '("HF_TOKEN","',
    ),
    *("wandb 0123456789abcdef0123456789abcdef01234567 ", "password: x aaaa ", "api_key: |\n  "),
]


@every_row("piece", ADVERSARIAL, ids=repr)
@pytest.mark.servers
def test_hostile_text_takes_seconds(piece: str) -> None:
    text = piece * (300_000 // len(piece))
    begun = time.process_time()
    find_secrets(text)
    assert time.process_time() - begun < _SECONDS_MAX


HEADS = [
    "api_key=a",
    "--api-key ",
    "name: HF_TOKEN",
    "wandb ",
    "curl -u a:b",
    "machine h password ",
]


@every_row("tail", ["a", ",b", "&b", ";", ")", "\\", " aaaa", '"x'], ids=repr)
@every_row("head", HEADS)
@pytest.mark.servers
def test_one_endless_value_takes_seconds(head: str, tail: str) -> None:
    text = head + tail * (200_000 // len(tail))
    begun = time.process_time()
    scrub(SCRUBBER, text)
    assert time.process_time() - begun < _SECONDS_MAX


@pytest.mark.parametrize(
    "piece", ["api_key=", "\\", "eyJ-", "curl -u a:b ", "x" * 99 + " "], ids=repr
)
@pytest.mark.servers
def test_a_million_hostile_characters_are_scrubbed_in_seconds(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    begun = time.process_time()
    scrub(SCRUBBER, text)
    assert time.process_time() - begun < _SECONDS_MAX


def test_a_long_log_takes_seconds_and_survives() -> None:
    text = "\n".join(
        f"17:30:{step % 60:02d} step={step} loss=2.{step} tokens_per_second={31400 + step}"
        f" saved gs://b/step-{step}/metadata.json commit {step:040x} token={step % 7}"
        for step in range(8000)
    )
    begun = time.process_time()
    assert scrub(SCRUBBER, text).text == text
    assert time.process_time() - begun < _SECONDS_MAX
