"""Commands of the detectors."""

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.watch import Holder


class ReportStaleMonitor(Command):
    """Say on record that nobody checks a run, as somebody who does not hold its watch.

    Attributes:
        reporter: Who says so.
    """

    reporter: Holder
