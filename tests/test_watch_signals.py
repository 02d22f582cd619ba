"""`watch` and `serve` read subscriptions, by the whole command in a process of its own."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tests.adapters.test_pubsub_consumer import RUN, left, publish, received, subscribed
from tests.domain.samples import contract
from tests.plain_signals import plain_message
from tests.session import DRI, taken
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.home import create_home
from watchkeeper.adapters.listening import read_reported
from watchkeeper.domain.rules.launch.commands import DraftRun

LIMIT = timedelta(seconds=120)
PROGRAM = """
import sys
from watchkeeper.adapters.cli import listening, run
from tests.plain_signals import parse_plain
listening.parser = lambda: parse_plain
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.pubsub
@pytest.mark.timeout(300)
@pytest.mark.parametrize("words", [("watch",), ("serve", "--listen", "127.0.0.1:0")])
def test_the_watch_records_what_is_published_and_drains_at_its_end(
    tmp_path: Path, pubsub_project: str, words: tuple[str, ...]
) -> None:
    home = create_home(tmp_path / "home")
    with open_session(home.path, create=True) as session:
        draft = DraftRun(now=clock.now(), actor=DRI, contract=contract(run=RUN))
        taken(session.ledger.handle(RUN, draft))
    subscription = subscribed(pubsub_project)
    gone = f"projects/{pubsub_project}/subscriptions/nowhere"
    environment = {
        **os.environ,
        "WATCHKEEPER_HOME": str(home.path),
        # One that does not exist must not hinder the other.
        "WATCHKEEPER_SIGNALS": f"{subscription}, {gone}",
        "PYTHONPATH": str(Path(__file__).parents[1]),
    }
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=300))
    try:
        publish(subscription, *(plain_message(number, RUN) for number in range(3)))
        with open_session(home.path, create=True) as session:
            backoff.wait_until_or_raise(
                lambda: len(received(session)) == 3, LIMIT, "recording what was published"
            )

        def both_told() -> bool:
            told = read_reported(home.path)
            return told is not None and {one.state for one in told.sources} == {
                "listening", "failing",
            }  # fmt: skip

        backoff.wait_until_or_raise(both_told, LIMIT, "telling how both do")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert b"Traceback" not in output
    told = read_reported(home.path)
    assert told is not None
    assert {one.state for one in told.sources} == {"stopped"}
    assert left(subscription) == 0
    assert f"{gone} does not exist" in (home.path / "watch.log").read_text()
