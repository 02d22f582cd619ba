from tests.domain.given import History
from tests.domain.samples import contract
from tests.projections.tales import crashed, resumed, trained
from watchkeeper.projections.status.monitoring_state import monitoring_state

RUN = "grug-moe-1e23-ep8"


def test_the_state_names_the_newest_job_and_counts_relaunches() -> None:
    first, second = trained().run, resumed().run
    assert monitoring_state(first) == {
        "job_id": f"{RUN}-i1-home",
        "cluster": "us-central2",
        "experiment": "experiments.grug_moe",
        "restart_count": 0,
        "ts": "2026-11-18T18:46:26+00:00",
    }
    assert monitoring_state(second)["job_id"] == f"{RUN}-i2-home"
    assert monitoring_state(second)["restart_count"] == 1


def test_a_crash_alone_is_no_restart() -> None:
    assert monitoring_state(crashed().run)["restart_count"] == 0


def test_what_is_unknown_is_left_out() -> None:
    assert monitoring_state(History().run) == {"restart_count": 0}
    drafted = monitoring_state(History().draft().run)
    assert drafted == {"cluster": "us-central2", "restart_count": 0}


def test_the_experiment_is_the_script_where_the_command_names_one() -> None:
    promised = contract(command=("uv", "run", "experiments/isoflop_sweep.py", "--x", "1"))
    state = monitoring_state(History().launch(promised).run)
    assert state["experiment"] == "experiments/isoflop_sweep.py"
