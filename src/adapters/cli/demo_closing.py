"""The demo's summary at its end, for programs and for people."""

from pathlib import Path
from typing import Any

from watchkeeper.adapters.cli.common import Session
from watchkeeper.adapters.cli.progress_output import Output
from watchkeeper.adapters.cli.reader import name_of_ledger
from watchkeeper.adapters.demo.scene import (
    RUN,
    Scene,
)
from watchkeeper.domain.run.ends import DecisionMade, FailureClassified
from watchkeeper.domain.run.phases import Sealed, phase_name
from watchkeeper.domain.run.run import Run
from watchkeeper.domain.values.contract.contract import logbook_path_of
from watchkeeper.projections.figures import count
from watchkeeper.projections.verification import sentence_of
from watchkeeper.services.ledger.verify import Report


def summary_of(session: Session, scene: Scene, report: Report, output: Output) -> dict[str, Any]:
    """Return the demo's results, as `--json` prints them."""
    run = session.ledger.run(RUN)
    assert isinstance(run, Run), "the demo can read its own run"
    events = session.ledger.history(RUN)
    failures = [e.data for e in events if isinstance(e.data, FailureClassified)]
    decisions = [e.data for e in events if isinstance(e.data, DecisionMade)]
    return {
        "run": RUN,
        "phase": phase_name(run.phase),
        "instances": [i.plan.instance for i in run.instances],
        "failures": [
            {"instance": f.instance, "cause": f.cause, "outlook": f.outlook.value, "step": f.step}
            for f in failures
        ],
        "decisions": [
            {"action": d.action.value, "rule": d.rule, "resume_step": d.resume_step}
            for d in decisions
        ],
        "findings": [
            {"rule": f.rule, "kind": f.kind, "severity": f.severity.value, "summary": f.summary}
            for f in run.health.findings.values()
        ],
        "relaunches": len(run.launch.relaunch_times),
        "questions": [q.name for q in run.questions.open.values()],
        "seal": run.phase.tag if isinstance(run.phase, Sealed) else None,
        "logbook": f"{scene.code.remote}:main:{logbook_path_of(scene.contract)}",
        "home": str(session.home.path),
        "ledger": name_of_ledger(session.home),
        "events": run.version,
        "elapsed_s": round(output.elapsed_s(), 1),
        "fault_log": str(scene.fault_log),
        "verify": [sentence_of(one) for one in report.problems + report.unchecked],
    }


def closing_words(summary_: dict[str, Any]) -> str:
    """Return the last words of the demo: how it ended, and where to look."""
    remote, branch, path = summary_["logbook"].rsplit(":", 2)
    home = Path(summary_["home"])
    verdict = "intact" if not summary_["verify"] else "; ".join(summary_["verify"])
    lines = [
        f"{summary_['run']} is {summary_['phase']} after {summary_['elapsed_s']} s: "
        f"{count(len(summary_['instances']), 'instance')}, {summary_['events']} events, {verdict}",
        "",
        f"  logbook  git -C {remote} show {branch}:{path}",
        f"  pushes   git -C {remote} log --oneline {branch}",
    ]
    if "by_signals" in summary_:
        heard = summary_["by_signals"]
        took, poll = heard.get("kill_to_decision_s"), heard.get("next_poll_after_kill_s")
        lines.insert(1, f"  heard    {heard['signals']} signals")
        if took is not None:
            lines[1] += f"; decided {took} s after the kill; the next poll was due after {poll} s"
    if summary_["seal"]:
        lines.append(f"  tag      git -C {remote} show --no-patch {summary_['seal']}")
    for found in summary_["findings"]:
        lines.append(f"  {found['severity']:<8} {found['summary']} ({found['rule']})")
    for question in summary_["questions"]:
        lines.append(f"  open     {question}: watchkeeper status {RUN} --home {home}")
    lines += [
        f"  why      watchkeeper why {RUN} --home {home}",
        f"  ledger   watchkeeper events {RUN} --home {home}",
        f"  proof    watchkeeper verify --home {home}",
    ]
    return "\n".join(lines)
