from tests.domain.given import given
from tests.domain.samples import DRI, contract
from tests.domain.stories import story
from tests.every_row import every_row
from watchkeeper.domain.rules.launch.commands import DraftRun
from watchkeeper.domain.rules.shared.refusals import Refusal
from watchkeeper.domain.run.launch import RunDrafted
from watchkeeper.domain.run.phases import PHASES, Phase


@every_row("phase", PHASES)
def test_every_phase_can_be_reached_by_commands(phase: type[Phase]) -> None:
    history = story(phase)
    assert history.run.version == len(history.events)


def test_a_run_is_drafted_once() -> None:
    drafted = RunDrafted(contract=contract())
    command = DraftRun(now=given().now, actor=DRI, contract=contract())
    given().when(command).then(drafted)
    given(drafted).when(command).refused(Refusal.RUN_EXISTS)
