"""Tokens of many makers are found by their prefix; what only looks like one survives."""

import random
import re
import string

import pytest

from tests.adapters.signal_world import SCRUBBER
from tests.every_row import every_row
from watchkeeper.domain.values.secrets.scrubbing import scrub
from watchkeeper.domain.values.secrets.vendors import VENDOR_SHAPES

SURVIVE = [
    "commit 4be1c09f3b2a7d6e5c4b3a29180f7e6d5c4b3a29",
    "sha256:382853b676480f6d8aa87eae3a908f3538fd3c40eaa7baf4dbde33252649d85d",
    "run grug-moe-1e23-ep8-i1-eccf60 as raysubmit_9tPuTHAqK2Qb3Xs7",
    "gs://bucket/run/checkpoints/step-1000/metadata.json",
    "trace 7f9c2ba4-e88f-11ec-8ea0-0242ac120002",
    "package gcs://_ray_pkg_55c26154ca7c9975.zip",
    "https://wandb.ai/team/project/runs/ab12cd34",
    "the pw of the fleet is 12 MW; num_pw=4",
    "dapi version 3; r8_model; npm_config_cache=/tmp; SG.north; sk_live_",
]


def made(rest: str) -> str:
    """A text that a row's rest matches, drawn from the characters of its own classes."""
    chosen, found = random.Random(rest), ""
    for part in re.findall(
        r"\[[^\]]+\](?:\{\d+(?:,\d*)?\})?|\\.|[^\[\](){}?!:*|]", rest.split("(?")[0]
    ):
        if not part.startswith("["):
            found += part.lstrip("\\")
            continue
        letters = [
            c for c in string.ascii_letters + string.digits if re.match(part.split("{")[0], c)
        ]
        count = int(re.search(r"\{(\d+)", part)[1]) if "{" in part else 0  # type: ignore[index]
        found += "".join(chosen.choice(letters) for _ in range(count))
    return found


@every_row(("kind", "prefix", "rest"), VENDOR_SHAPES, ids=lambda text: text[:16])
def test_a_token_of_a_maker_is_found_and_its_prefix_alone_is_not(
    kind: str, prefix: str, rest: str
) -> None:
    token = prefix + made(rest)
    clean = scrub(SCRUBBER, f"using {token} for the upload").text
    assert token not in clean
    assert f"redacted:{kind}" in clean
    alone = f"using {prefix} and {prefix}x for the upload"
    assert scrub(SCRUBBER, alone).text == alone


@pytest.mark.parametrize(
    "text",
    [
        "GET https://api.example.com/v1/runs?token=aB3dE5fG7h",
        "GET https://api.example.com/v1/runs?id=7&access_token=aB3dE5fG7h",
        r'{"url": "https://api.example.com/v1/runs?id=7\u0026token=aB3dE5fG7h"}',
        "next=https%3A%2F%2Fapi.example.com%3Ftoken%3DaB3dE5fG7h",
        "wss://api.example.com/?jwt=aB3dE5fG7h",
        "python train.py --pw=aB3dE5fG7h",
        "python train.py --pw aB3dE5fG7h",
        "DB_PW=aB3dE5fG7h",
    ],
)
def test_a_token_in_a_query_or_behind_a_short_option_is_found(text: str) -> None:
    assert "aB3dE5fG7h" not in scrub(SCRUBBER, text).text


@pytest.mark.parametrize(
    "prefix", ["github_pat_", "ghp_", "glpat-", "hf_", "api_org_", "sk-ant-", "sk-proj-", "xoxb-"]
)
def test_a_token_is_found_in_a_line_with_no_other_word_of_secrets(prefix: str) -> None:
    token = prefix + "aB3dE5fG7h" * 4
    assert token not in scrub(SCRUBBER, f"step 5: {token} done").text


@pytest.mark.parametrize("text", SURVIVE)
def test_digests_ids_and_paths_survive(text: str) -> None:
    assert scrub(SCRUBBER, text).text == text
