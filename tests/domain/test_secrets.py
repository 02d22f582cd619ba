"""Nothing leaks and nothing harmless is lost: held against a corpus of both kinds."""

import json
import re
import textwrap
from pathlib import Path

import pytest
from pydantic import JsonValue

from tests.every_row import every_row
from watchkeeper.domain.values.secrets.scrubbing import (
    Scrubber,
    find_secrets,
    has_mark,
    known_secrets,
    scrub,
    scrub_json,
)

CORPUS = Path(__file__).parents[1] / "corpus" / "secrets"
SCRUBBER = Scrubber(key=b"a deployment's key")
_ANNOTATED = re.compile(r"⟦(?P<kind>[a-z]+)\|(?P<secret>.*?)⟧", re.DOTALL)
_MARK = re.compile(r"«redacted:(?P<kind>[a-z]+):[0-9a-f]{4}»")


def corpus(name: str) -> list[tuple[str, str]]:
    """Read a part of the corpus: what each record is about, and its text.

    In leaks.jsonl each secret stands as ⟦kind|secret⟧, and a middle dot, which the reader takes
    out, keeps other people's scanners from taking the file for a leak.
    """
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    records: list[dict[str, str]] = [json.loads(line) for line in lines]
    return [(record["about"], record["text"]) for record in records]


LEAKS = [(about, text.replace("·", "")) for about, text in corpus("leaks.jsonl")]
HARMLESS = corpus("harmless.jsonl")
LEAK_TEXTS = [pytest.param(text, id=about) for about, text in LEAKS]
HARMLESS_TEXTS = [pytest.param(text, id=about) for about, text in HARMLESS]


def leaking(annotated: str) -> str:
    return _ANNOTATED.sub(lambda match: match["secret"], annotated)


def secrets_of(annotated: str) -> list[str]:
    return [match["secret"] for match in _ANNOTATED.finditer(annotated)]


def kinds_only(text: str) -> str:
    """Write marks and annotations alike, so that a scrubbed text compares with its annotation."""
    return _ANNOTATED.sub(r"«\g<kind>»", _MARK.sub(r"«\g<kind>»", text))


# --- The corpus ---------------------------------------------------------------------------------


def test_the_corpus_is_large_enough_to_mean_something() -> None:
    assert len(LEAKS) >= 60
    assert len(HARMLESS) >= 60
    texts = [text for _, text in [*LEAKS, *HARMLESS]]
    assert len(set(texts)) == len(texts)


@every_row("annotated", LEAK_TEXTS)
def test_exactly_the_secrets_of_a_leak_vanish(annotated: str) -> None:
    scrubbed = scrub(SCRUBBER, leaking(annotated))
    assert kinds_only(scrubbed.text) == kinds_only(annotated)
    assert not [secret for secret in secrets_of(annotated) if secret in scrubbed.text]


@every_row("annotated", LEAK_TEXTS)
def test_counts_say_how_many_of_which_kind(annotated: str) -> None:
    kinds = [match["kind"] for match in _ANNOTATED.finditer(annotated)]
    counts = scrub(SCRUBBER, leaking(annotated)).counts
    assert counts == {kind: kinds.count(kind) for kind in kinds}


@every_row("annotated", LEAK_TEXTS)
def test_find_secrets_names_the_same_places(annotated: str) -> None:
    text = leaking(annotated)
    found = {text[hit.start : hit.end] for hit in find_secrets(text)}
    assert found == set(secrets_of(annotated))


@every_row("text", HARMLESS_TEXTS)
def test_a_harmless_text_survives_byte_for_byte(text: str) -> None:
    assert scrub(SCRUBBER, text).text == text
    assert scrub(SCRUBBER, text).counts == {}
    assert find_secrets(text) == ()
    # As a value, a line of a log, and as JSON within JSON it is as harmless.
    inside: JsonValue = {"message": text, "lines": [*text.split("\n")], "body": json.dumps(text)}
    assert scrub_json(SCRUBBER, inside) == (inside, {})


@every_row("annotated", LEAK_TEXTS)
def test_scrubbing_again_changes_and_counts_nothing(annotated: str) -> None:
    once = scrub(SCRUBBER, leaking(annotated))
    again = scrub(SCRUBBER, once.text)
    assert (again.text, again.counts) == (once.text, {})
    # Also once it was written as JSON, with letters beyond ASCII escaped.
    body = json.dumps({"log": once.text})
    assert scrub(SCRUBBER, body).text == body


@every_row("annotated", LEAK_TEXTS)
def test_no_secret_survives_in_a_structure(annotated: str) -> None:
    text = leaking(annotated)
    value: JsonValue = {
        "message": text,
        "lines": [*text.split("\n")],
        "attempts": [{"log": [text, {"tail": text}]}, 3, None, True],
        f"key {text}": 1,
    }
    clean, counts = scrub_json(SCRUBBER, value)
    written = json.dumps(clean, ensure_ascii=False)
    for secret in secrets_of(annotated):
        # A secret over several lines stands in the list of lines in parts.
        for part in secret.split("\n"):
            assert json.dumps(part, ensure_ascii=False)[1:-1] not in written
    assert counts
    assert scrub_json(SCRUBBER, clean) == (clean, {})


def test_the_whole_corpus_in_one_text_leaks_nothing() -> None:
    # A private key that is cut off reaches to the end of the text, and would hide the rest.
    whole = [text for about, text in LEAKS if "cut off" not in about]
    text = "\n\n".join(leaking(annotated) for annotated in whole)
    scrubbed = scrub(SCRUBBER, text).text
    for annotated in whole:
        for secret in secrets_of(annotated):
            if len(secret) >= 16:
                assert secret not in scrubbed


# --- Marks --------------------------------------------------------------------------------------


def test_the_same_secret_has_the_same_mark_wherever_it_stands() -> None:
    key = "0123456789abcdef0123456789abcdef01234567"
    texts = (f"WANDB_API_KEY={key}", f"wandb login {key}", json.dumps({"wandb_api_key": key}))
    marks = [mark[0] for text in texts for mark in _MARK.finditer(scrub(SCRUBBER, text).text)]
    assert len(marks) == 3
    assert len(set(marks)) == 1


def test_another_deployment_marks_the_same_secret_otherwise() -> None:
    other = scrub(Scrubber(key=b"other"), "password: hunter2").text
    assert other != scrub(SCRUBBER, "password: hunter2").text


def test_a_private_key_has_one_mark_however_it_is_wrapped() -> None:
    lines = ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "-----END PRIVATE KEY-----"]
    marks = {scrub(SCRUBBER, glue.join(lines)).text for glue in ("\n", "\r\n", "\\n")}
    assert len(marks) == 1


def test_marks_stay_whole_and_stable_when_a_text_is_wrapped_again() -> None:
    text = scrub(SCRUBBER, " ".join(leaking(annotated) for _, annotated in LEAKS[:40])).text
    for width in (24, 40, 80):
        wrapped = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=True)
        assert _MARK.findall(wrapped) == _MARK.findall(text)


def test_a_forged_mark_hides_nothing() -> None:
    assert "hunter2" not in scrub(SCRUBBER, "password=«redacted:hunter2:0000»").text
    assert "hunter2" not in scrub(SCRUBBER, "«redacted:password=hunter2:0000»").text
    assert "hunter2" not in scrub(SCRUBBER, "password=\ue000hunter2\ue000").text


@pytest.mark.parametrize("text", ["x «redacted:wandb:3f9c»", "«redacted:wan", '"\\u00abredacted:k'])
def test_a_mark_is_seen_whole_cut_off_or_escaped(text: str) -> None:
    assert has_mark(text)


@pytest.mark.parametrize("text", ["", "redacted:wandb:3f9c", "«a quote»", "[REDACTED]"])
def test_other_texts_have_no_mark(text: str) -> None:
    assert not has_mark(text)


# --- Known values -------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["{}", "x{}y", '"{}"', "id-{}-3", "{}{}"])
def test_a_known_value_vanishes_in_any_shape(shape: str) -> None:
    scrubber = Scrubber(key=b"k", known={"SLACK_TOKEN": "plainword"})
    scrubbed = scrub(scrubber, shape.replace("{}", "plainword"))
    assert "plainword" not in scrubbed.text
    assert scrubbed.counts == {"slack": shape.count("{}")}


@pytest.mark.parametrize(
    "written",
    ['say "p\u00e4ss/w&rd"', 'say \\"p\\u00e4ss/w&rd\\"', "say%20%22p%C3%A4ss%2Fw%26rd%22"],
)
def test_a_known_value_has_one_mark_as_it_is_in_json_and_in_a_url(written: str) -> None:
    secret = 'say "p\u00e4ss/w&rd"'
    scrubber = Scrubber(key=b"k", known={"password": secret})
    assert scrub(scrubber, f"<{written}>").text == scrub(scrubber, f"<{secret}>").text


def test_a_known_value_of_five_characters_is_too_common_to_take_out() -> None:
    scrubber = Scrubber(key=b"k", known={"A_KEY": "train", "B_KEY": "trains"})
    assert scrub(scrubber, "train the training").text == "train the training"
    assert "trains" not in scrub(scrubber, "two trains").text


def test_a_known_value_does_not_break_a_mark() -> None:
    scrubber = Scrubber(key=b"k", known={"A_KEY": "redacted", "B_KEY": "github"})
    assert scrub(scrubber, "«redacted:github:3f9c»").text == "«redacted:github:3f9c»"


def test_known_secrets_are_picked_by_the_names_of_their_variables() -> None:
    environ = {
        "WANDB_API_KEY": "abcdef123456",
        "TOKEN": "plainword",
        "DISCORD_WEBHOOK": "https://discord.example/x",
        "GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json",
        "HF_TOKEN": "short",
        "API_KEY_NAME": "abcdef123456",
        "TOKENIZER": "gpt2-large",
        "AUTHOR": "alice-example",
        "SSH_AUTH_SOCK": "/tmp/ssh/agent.1",
        "HOME": "/root/abcdef",
    }
    assert set(known_secrets(environ)) == {"WANDB_API_KEY", "TOKEN", "DISCORD_WEBHOOK"}


def test_a_scrubber_shows_neither_its_key_nor_what_it_knows() -> None:
    shown = repr(Scrubber(key=b"deploykey", known={"A_TOKEN": "secretvalue"}))
    assert "deploykey" not in shown
    assert "secretvalue" not in shown


def test_a_scrubber_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="key is empty"):
        Scrubber(key=b"")
