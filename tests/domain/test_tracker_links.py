"""Which tracker run a job's output names, by lines of the real W&B client."""

import pytest

from watchkeeper.domain.reading.tracker_links import LINKS_MAX, parse_tracker_links
from watchkeeper.domain.values.text_evidence import TrackerLink

URL = "https://wandb.ai/acme/grug/runs/grug-moe-1e23-ep8"
ONLINE = (
    "wandb: Currently logged in as: tester (acme) to https://api.wandb.ai.",
    "wandb: Tracking run with wandb version 0.31.0",
    "wandb: Run data is saved locally in /srv/train/wandb/run-20261121_045925-grug-moe-1e23-ep8",
    "wandb: Run `wandb offline` to turn off syncing.",
    "wandb: Syncing run Grug MoE 1e23",
    "wandb: ⭐️ View project at https://wandb.ai/acme/grug",
    f"wandb: 🚀 View run at {URL}",
)
ENDED = (
    "wandb: Run history:",
    f"wandb: 🚀 View run Grug MoE 1e23 at: {URL}",
    "wandb: ⭐️ View project at: https://wandb.ai/acme/grug",
    "wandb: Find logs at: ./wandb/run-20261121_045925-grug-moe-1e23-ep8/logs",
)
OFFLINE = (
    "wandb: Tracking run with wandb version 0.31.0",
    "wandb: W&B syncing is set to `offline` in this directory.",
    "wandb: Run data is saved locally in wandb/offline-run-20261121_044710-demo-lm",
    "wandb: View this run in the terminal with `wandb leet`",
)


def test_an_online_start_names_id_name_folder_and_link() -> None:
    [link] = parse_tracker_links(ONLINE)
    assert link == TrackerLink(
        tracker_id="grug-moe-1e23-ep8",
        display_name="Grug MoE 1e23",
        url=URL,
        folder="/srv/train/wandb/run-20261121_045925-grug-moe-1e23-ep8",
        line=ONLINE[2],
        begun=True,
    )


def test_start_and_end_of_one_run_are_one_announcement() -> None:
    assert parse_tracker_links((*ONLINE, *ENDED)) == parse_tracker_links(ONLINE)


def test_a_start_that_goes_on_with_a_run_says_so() -> None:
    lines = [line.replace("Syncing", "Resuming") for line in ONLINE]
    [link] = parse_tracker_links(lines)
    assert (link.resumed, link.begun) == (True, False)
    [both] = parse_tracker_links((*ONLINE, *lines))
    assert (both.resumed, both.begun) == (True, True)


def test_the_end_alone_names_it_as_well() -> None:
    [link] = parse_tracker_links(ENDED)
    assert (link.tracker_id, link.display_name, link.url) == (
        "grug-moe-1e23-ep8",
        "Grug MoE 1e23",
        URL,
    )


def test_an_offline_start_has_a_folder_and_no_link() -> None:
    [link] = parse_tracker_links(OFFLINE)
    assert (link.tracker_id, link.url) == ("demo-lm", "")
    assert link.folder == "wandb/offline-run-20261121_044710-demo-lm"


@pytest.mark.parametrize(
    "line",
    [
        f"\x1b[34m\x1b[1mwandb\x1b[0m: 🚀 View run \x1b[33mx\x1b[0m at: \x1b[34m{URL}\x1b[0m",
        f"(train pid=4711, ip=10.0.0.2) wandb: View run at {URL}",
        f"I20261121 04:59:25 1 wandb: View run at {URL}?nw=nwuser",
        f"[rank0]: wandb:  View run at {URL}",
        f"wandb: View run at: {URL}/overview",
    ],
)
def test_colours_prefixes_and_pages_do_not_hide_it(line: str) -> None:
    [link] = parse_tracker_links([line])
    assert link.tracker_id == "grug-moe-1e23-ep8"
    assert link.url == URL
    assert "\x1b" not in link.line


@pytest.mark.parametrize(
    "line",
    [
        "",
        "wandb: View project at https://wandb.ai/acme/grug",
        "wandb: View this run in the terminal with `wandb leet`",
        "wandb: Find logs at: wandb/offline-run-20261121_044715-r1/logs",
        "wandb: wandb sync wandb/offline-run-20261121_044715-r1",
        "wandb: Run data is saved locally in /srv/elsewhere",
        f"see {URL} for the curves",
        f"View run at {URL}",
        f"mywandb: View run at {URL}",
        "wandb: View run at file:///runs/x",
        "wandb: View run x at: https://runs/x",
    ],
)
def test_other_lines_name_nothing(line: str) -> None:
    assert parse_tracker_links([line]) == ()


def test_two_runs_are_told_apart_in_order() -> None:
    other = "wandb: View run at https://wandb.ai/acme/grug/runs/other"
    found = parse_tracker_links((*ONLINE, other))
    assert [link.tracker_id for link in found] == ["grug-moe-1e23-ep8", "other"]


def test_an_endless_row_of_runs_is_bounded() -> None:
    lines = [f"wandb: View run at https://wandb.ai/a/b/runs/r{n}" for n in range(100)]
    assert [link.tracker_id for link in parse_tracker_links(lines)] == [
        f"r{n}" for n in range(100 - LINKS_MAX, 100)
    ]


def test_a_line_of_any_length_is_cut() -> None:
    [link] = parse_tracker_links([f"{'x' * 1000} wandb: View run at {URL}"])
    assert len(link.line) == 300
