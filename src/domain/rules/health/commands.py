"""Commands of the detectors."""

from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.run.watch import Holder


class ReportStaleMonitor(Command):
    """Record that nobody checks a run. The reporter does not hold its watch.

    Attributes:
        reporter: The reporter's name.
    """

    reporter: Holder
