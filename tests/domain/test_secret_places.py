"""Secrets are known by their names, and by their places in a structure."""

import json
from typing import Any

import pytest
from pydantic import JsonValue

from tests.domain.found_secrets import Found, find_secrets_in
from tests.every_row import every_row
from watchkeeper.domain.values.secrets.scrubbing import (
    Scrubber,
    scrub,
    scrub_json,
    sensitive_name,
)

SCRUBBER = Scrubber(key=b"a deployment's key")


def marked(value: JsonValue) -> str:
    clean, _ = scrub_json(SCRUBBER, value)
    return json.dumps(clean, ensure_ascii=False)


# --- Names --------------------------------------------------------------------------------------

SENSITIVE = (
    "WANDB_API_KEY HF_TOKEN token api_key apiKey --api-key X-Api-Key PGPASSWORD db_password secret"
    " client_secret AWS_SECRET_ACCESS_KEY AWS_ACCESS_KEY_ID private_key_id SENTRY_DSN Cookie"
    " Set-Cookie Authorization SLACK_WEBHOOK_URL GOOGLE_APPLICATION_CREDENTIALS credentials"
    " trainer.wandb.api_key accessToken OPENAI_API_KEY_2 NPM_TOKEN_PROD CIPHER_KEY DB_PASS"
    " authtoken basic_auth passphrase secretKey wandb-key hub_token"
)
EVERYDAY = (
    "MONKEY TOKENIZER TOKENS_PER_STEP KEYBOARD AUTHOR num_tokens key KEY keys sort_key primary_key"
    " max_token_len tokens_per_second tokenizer_path pad_token eos_token_id next_page_token"
    " fencing_token author authority authenticated PWD pass forward_pass num_key_value_heads"
    " SECRET_NAME secretKeyRef password_file token_count access_token_expires_at auth_uri token_uri"
    " KeyError no-auth turkey hotkey loss_key prng_key PARTITION_KEY idempotency_key passed"
    " cookie_jar add_key odd_keys invalid_tokens grid_tokens webhook_id compass step metadata"
)


@every_row("name", SENSITIVE.split())
def test_a_name_that_promises_a_secret_is_sensitive(name: str) -> None:
    assert sensitive_name(name)


@every_row("name", EVERYDAY.split())
def test_an_everyday_name_is_not_sensitive(name: str) -> None:
    assert not sensitive_name(name)


# --- Structures ---------------------------------------------------------------------------------


@every_row(
    ("value", "secret"),
    [
        ({"api_key": "abc"}, "abc"),
        ({"db": {"password": "two words"}}, "two words"),
        ({"api_keys": ["one-1", "two-2"]}, "two-2"),
        ({"headers": {"Authorization": "Bearer abcdef"}}, "abcdef"),
        ({"headers": {"Cookie": "a=b1; c=d2"}}, "d2"),
        ({"env": [{"name": "HF_TOKEN", "value": "abcdef"}]}, "abcdef"),
        ({"env": [["HF_TOKEN", "abcdef"], ["SEED", "5"]]}, "abcdef"),
        ({"api_key": {"value": "abcdef"}}, "abcdef"),
        ({"secrets": {"slack": "abcdef123"}}, "abcdef123"),
        ({"command": ["train", "--api-key", "two words"]}, "two words"),
        ({"command": ["train", "--api-key=two words"]}, "two"),
        ({"command": ["iris", "-e", "HF_TOKEN", "abcdef"]}, "abcdef"),
        ({"command": ["curl", "-u", "alice:hunter2", "https://x"]}, "hunter2"),
        ({"command": ["wandb", "login", "0123456789" * 4]}, "0123456789" * 4),
        ({"tail": ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADAN", "and so on"]}, "MIIEvQIBADAN"),
        ({"tail": ["machine h", "login a", "password hunter2"]}, "hunter2"),
        (["password: hunter2"], "hunter2"),
        ({"hf_" + "a1" * 20: 5}, "hf_" + "a1" * 20),
        ("HF_TOKEN=abcdef", "abcdef"),
    ],
)
def test_a_secret_is_found_by_its_place_in_a_structure(value: JsonValue, secret: str) -> None:
    assert secret not in marked(value)
    assert find_secrets_in(value)


@every_row(
    "value",
    [
        {"api_key": "$WANDB_API_KEY", "token": "${HF_TOKEN}", "secret": "${{ secrets.X }}"},
        {"api_key": None, "password": True, "token": 7, "secret": 1.5, "auth": ""},
        {"env_from": ["WANDB_API_KEY", "REGION"], "secrets": ["wandb-key", "hf"]},
        {"credentials": "/etc/keys/sa.json", "ssh_key": "~/.ssh/id.pem", "cookie": "none"},
        {"credentials": {"type": "authorized_user", "path": "a.json"}},
        {"secrets": {"project": "acme", "name": "wandb", "version": "latest"}},
        {"env": [{"name": "SEED", "value": "5"}, {"name": "HF_TOKEN", "valueFrom": {"key": "x"}}]},
        {"command": ["docker", "run", "-e", "HF_TOKEN", "image:tag"]},
        {"command": ["train", "--api-key", "$WANDB_API_KEY", "--token", "--verbose"]},
        {"key": "step", "token": "the", "sort_key": "loss", "tokens": ["a", "b"]},
        {"name": "HF_TOKEN", "value": ""},
        {"commit": "0123456789" * 4, "tracker": {"wandb": "3x7k9q2a"}},
    ],
)
def test_a_harmless_structure_survives(value: JsonValue) -> None:
    assert scrub_json(SCRUBBER, value) == (value, {})
    assert find_secrets_in(value) == ()


def test_places_are_named_as_people_write_them() -> None:
    plan: JsonValue = {
        "command": ["train", "--api-key", "9f8a7b6c5d4e", "--steps", "5"],
        "env": {"HF_TOKEN": "abcdef", "SEED": "5"},
        "remote": "https://alice:hunter2@example.com/lab.git",
    }
    assert find_secrets_in(plan) == (
        Found("command[2]", "key"),
        Found("env.HF_TOKEN", "huggingface"),
        Found("remote", "url"),
    )


def test_a_secret_found_in_one_place_is_taken_out_of_the_others() -> None:
    key = "0123456789abcdef0123456789abcdef01234567"
    value: JsonValue = {"log": [f"exit 1 after {key}"], "env": {"WANDB_API_KEY": key}}
    clean, counts = scrub_json(SCRUBBER, value)
    assert key not in json.dumps(clean)
    assert counts == {"wandb": 2}


def test_a_commit_near_wandb_words_stays_in_other_places() -> None:
    sha = "0123456789abcdef0123456789abcdef01234567"
    value: JsonValue = {"log": f"wandb: {sha}", "commit": sha}
    clean, _ = scrub_json(SCRUBBER, value)
    assert isinstance(clean, dict)
    assert clean["commit"] == sha


def test_keys_that_get_the_same_mark_are_both_kept() -> None:
    token = "hf_" + "a1" * 20
    value: JsonValue = {token: 1, f"{token}~": 2, scrub(SCRUBBER, token).text: 3}
    clean, _ = scrub_json(SCRUBBER, value)
    assert isinstance(clean, dict)
    assert sorted(str(item) for item in clean.values()) == ["1", "2", "3"]


def test_earlier_marks_do_not_count_again() -> None:
    value: JsonValue = {"a": "«redacted:wandb:3f9c»", "b": "password: hunter2"}
    assert scrub_json(SCRUBBER, value)[1] == {"password": 1}


def test_numbers_and_shape_are_kept() -> None:
    value: JsonValue = {"a": [1, 2.5, None, True, {"b": []}], "password": "hunter2", "c": {}}
    clean, _ = scrub_json(SCRUBBER, value)
    assert isinstance(clean, dict)
    assert {**clean, "password": "hunter2"} == value
    assert list(clean) == list(value)


def test_what_is_not_json_is_refused_rather_than_passed_on() -> None:
    value: Any = {"a": {"b": b"password: hunter2"}}
    with pytest.raises(TypeError, match=r"a\.b: bytes") as refused:
        scrub_json(SCRUBBER, value)
    assert "hunter2" not in str(refused.value)


def test_nesting_beyond_the_limit_is_refused_by_name() -> None:
    value: JsonValue = "password: hunter2"
    for _ in range(201):
        value = [value]
    assert "hunter2" not in marked(value)
    with pytest.raises(ValueError, match="nested deeper than 200"):
        scrub_json(SCRUBBER, [value])


def test_a_place_does_not_repeat_the_secret_in_its_key() -> None:
    token = "hf_" + "a1" * 20
    assert find_secrets_in({"env": {token: "x"}}) == (Found("env.?", "huggingface"),)
    value: Any = {token: b""}
    with pytest.raises(TypeError, match=r"^\?: bytes"):
        scrub_json(SCRUBBER, value)
