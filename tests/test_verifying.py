"""A watch verifies the ledger beside its checks, and `status` shows the result."""

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from bench.commands import fill
from tests.stores import ON_FILE
from watchkeeper import clock
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.adapters.cli.verifying import verified_daily
from watchkeeper.adapters.verified import FILE, Verified, read_verified

pytestmark = ON_FILE


def verified_once(home: Path) -> Verified:
    (home / FILE).unlink(missing_ok=True)
    backoff = clock.ExponentialBackoff(maximum=timedelta(milliseconds=200))
    with open_session(home) as session, verified_daily(session, first=timedelta()):
        assert backoff.wait_until(lambda: (home / FILE).exists(), timedelta(seconds=60))
    found = read_verified(home)
    assert found is not None
    return found


def test_a_watch_verifies_the_ledger_at_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    fill(home, 3)
    intact = verified_once(home)
    assert (intact.exit_code, intact.problem) == (0, "")
    assert intact.events > 3
    (home / "ledger.db.rest").unlink()
    with closing(sqlite3.connect(home / "ledger.db")) as ledger:
        ledger.execute("UPDATE status SET row = '{}' WHERE run = 'run-00001'")
        ledger.commit()
    broken = verified_once(home)
    assert broken.is_broken
    assert "run-00001" in broken.problem
