"""A process that launches when it is told to: two of them race, see `test_launch_races`.

Usage: launch_racer.py HOME, then one slug on a line of standard input for each try.
"""

import sys
from pathlib import Path

from tests.session import ask_for_launch
from watchkeeper.adapters.cli.common import open_session
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.phases import Launching
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.services.watch.launches import submit


def main(home: Path) -> None:
    with open_session(home, create=True) as session:
        print("open", flush=True)
        for line in sys.stdin:
            run = session.ledger.run(line.strip())
            assert isinstance(run, Run)
            outcome = ask_for_launch(session, contract_of(run))
            after = session.ledger.run(run.slug)
            assert isinstance(after, Run)
            if isinstance(after.phase, Launching):
                # The other one's request counts too: whoever finds a run launching submits it.
                submit(session.services, after)
            print("refused" if isinstance(outcome, Refused) else "handled", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
