"""A process that launches when it is told to: two of them race, see `test_launch_races`.

Usage: launch_racer.py HOME, then one slug on a line of standard input for each try.
"""

import sys
from pathlib import Path

from tests.office import ask_for_launch
from watchkeeper.adapters.cli.common import open_office
from watchkeeper.domain.rules.shared.refusals import Refused
from watchkeeper.domain.run.phases import Launching
from watchkeeper.domain.run.run import Run, contract_of
from watchkeeper.services.watch.launches import submit


def main(home: Path) -> None:
    with open_office(home, create=True) as office:
        print("open", flush=True)
        for line in sys.stdin:
            run = office.ledger.run(line.strip())
            assert isinstance(run, Run)
            outcome = ask_for_launch(office, contract_of(run))
            after = office.ledger.run(run.slug)
            assert isinstance(after, Run)
            if isinstance(after.phase, Launching):
                # The other one's request counts too: whoever finds a run launching submits it.
                submit(office.desk, after)
            print("refused" if isinstance(outcome, Refused) else "handled", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
