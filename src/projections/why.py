"""`why`: a decision, its rule and evidence, and what would have changed it."""

import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from watchkeeper.domain.rules.ends.claim_strength import Claim, cause_claim, outlook_claim
from watchkeeper.domain.rules.registry import RULES
from watchkeeper.domain.rules.shared.command import Command
from watchkeeper.domain.rules.whatif.counterfactuals import (
    Counterfactual,
    Scene,
    answered_by,
    decision_counterfactuals,
    finding_counterfactuals,
)
from watchkeeper.domain.run.ends import (
    Action,
    CauseSuggested,
    DecisionMade,
    FailureClassified,
    FailureRevised,
)
from watchkeeper.domain.run.envelope import Event
from watchkeeper.domain.run.evolve.evolve import evolve
from watchkeeper.domain.run.health import OpenFinding
from watchkeeper.domain.run.questions import EscalationRaised
from watchkeeper.domain.run.run import Run, Unreadable
from watchkeeper.domain.run.watch import CheckRecorded
from watchkeeper.domain.values.basic import SourceState
from watchkeeper.domain.values.causes import OUTLOOK_SAYS
from watchkeeper.projections.describe.event_lines import summary
from watchkeeper.projections.describe.table import reason
from watchkeeper.projections.quoting import cut, one_line

_EVENT = re.compile(r"\bevents? (\d+)(?: and (\d+))?")
_CONDITION = re.compile(r" if \((\w+)\)$")
_LINE_MAX = 240
_SOURCE_MAX = 100

RULES_PAGE = "docs/reference/rules.md"
"""The page with a heading for each rule, whose anchor is the rule's id."""

NOTABLE = (Action.ALERT, Action.NOTIFY)
"""Actions that only report a finding."""

_ANSWERED = {
    Action.RELAUNCH: "would have been relaunched if",
    Action.ESCALATE: "the DRI would have been asked if",
    Action.WAIT: "would have been waited for if",
    Action.VERIFY: "would have been verified if",
    Action.LEAVE: "would have been left alone if",
    Action.ALERT: "the DRI would have been alerted if",
    Action.NOTIFY: "the DRI would have been notified if",
}


@dataclass(frozen=True, slots=True)
class Why:
    """An event explained; every part is plain text for people and programs.

    Attributes:
        event: Its version in the run's stream.
        at: When it was true outside.
        headline: The event in a few words.
        rule: The rule that decided it; empty if no rule did.
        title: The rule in a few words.
        rule_says: When the rule applies, and what follows.
        rule_source: The source of the rule.
        because: One sentence.
        evidence: The cited evidence; an event that is cited by number is described too.
        claims: For an end: the claims about its cause and about a retry, separately.
        thoughts: For an end: a second reader's hypotheses, each with its source. No rule reads
            them.
        sources: The state of each source at the underlying check.
        check: The version of that check; 0 if there is none.
        otherwise: The facts that would have changed it, by the other outcome.
        question: The question that it asks, with recipient and time; else empty.
    """

    event: int
    at: datetime
    headline: str
    rule: str = ""
    title: str = ""
    rule_says: str = ""
    rule_source: str = ""
    because: str = ""
    evidence: tuple[str, ...] = ()
    claims: Mapping[str, Claim] | None = None
    thoughts: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    check: int = 0
    otherwise: dict[str, tuple[str, ...]] | None = None
    question: str = ""


def explain(slug: str, history: Sequence[Event], version: int) -> Why:
    """Explain one event of a run from its history alone.

    Args:
        slug: The run.
        history: Its events from the first one on.
        version: The event.
    """
    event = history[version - 1]
    data = event.data
    plain = Why(version, event.at, one_line(summary(event)))
    match data:
        case DecisionMade():
            why = _of_decision(plain, slug, history, event, data)
        case _ if isinstance(data, OpenFinding):
            why = _of_finding(plain, slug, history, event, data)
        case EscalationRaised(rule=rule, asks=asks, evidence=evidence):
            why = _ruled(replace(plain, headline=f"asked the DRI: {one_line(asks)}"), rule)
            why = replace(why, evidence=_cited_evidence(history, evidence))
        case FailureClassified():
            why = _of_failure(plain, history, data)
        case CheckRecorded():
            why = replace(plain, because=data.because, evidence=data.evidence)
            why = replace(why, sources=_sources(data), check=version)
        case _:
            says = reason(data)
            why = replace(plain, headline=says.headline or plain.headline, evidence=says.evidence)
    return _caused(why, history, event)


def _of_failure(why: Why, history: Sequence[Event], data: FailureClassified) -> Why:
    words = f"cause {data.cause}: {OUTLOOK_SAYS[data.outlook]} (fingerprint {data.fingerprint})"
    claims = {"cause": cause_claim(data), "outlook": outlook_claim(data)}
    revised = [
        f"revised by event {event.version}: {event.data.cause}, {event.data.because}"
        for event in history
        if isinstance(event.data, FailureRevised) and event.data.failure == why.event
    ]
    evidence = _cited_evidence(history, data.evidence)
    why = replace(why, headline=words, because="; ".join(revised), evidence=evidence, claims=claims)
    return replace(why, thoughts=_thoughts(history, why.event))


def _thoughts(history: Sequence[Event], failure: int) -> tuple[str, ...]:
    """Return a second reader's hypotheses about an end, with source; they are no evidence."""
    return tuple(
        f"{event.data.source} (event {event.version}): {one_line(text)}"
        for event in history
        if isinstance(event.data, CauseSuggested) and event.data.failure == failure
        for text in (event.data.hypotheses or (event.data.failed or "no hypothesis",))
    )


def _of_decision(
    why: Why, slug: str, history: Sequence[Event], event: Event, data: DecisionMade
) -> Why:
    why = _ruled(replace(why, headline=_headline(data), because=data.because), data.rule)
    why = replace(why, evidence=_cited_evidence(history, (*data.evidence, *data.refused)))
    scene = _scene(slug, history, event)
    if scene is None:
        return why
    at, made = scene
    why = replace(why, sources=_sources(made.check), check=at)
    found = answered_by(data, _recorded_after(history, event, -1))
    otherwise = _grouped(decision_counterfactuals(made, data, found), found is not None)
    return replace(why, otherwise=otherwise, question=question_by(history, event))


def _of_finding(
    why: Why, slug: str, history: Sequence[Event], event: Event, data: OpenFinding
) -> Why:
    why = _ruled(replace(why, headline=f"{data.kind}: {one_line(data.summary)}"), data.rule)
    why = replace(why, evidence=_cited_evidence(history, data.evidence))
    scene = _scene(slug, history, event)
    if scene is None:
        return why
    at, made = scene
    facts = tuple(finding_counterfactuals(made, data))
    otherwise = {"would not have opened if": facts} if facts else None
    return replace(
        why,
        sources=_sources(made.check),
        check=at,
        otherwise=otherwise,
        question=question_by(history, event),
    )


def _headline(decision: DecisionMade) -> str:
    match decision.action:
        case Action.RELAUNCH:
            where = f" from step-{decision.resume_step}" if decision.resume_step is not None else ""
            return f"Relaunched after {decision.instance}{where}"
        case Action.ESCALATE:
            return f"Not relaunched after {decision.instance}: the DRI is asked"
        case Action.WAIT:
            return f"Waiting for the orchestrator's own retry of {decision.instance}"
        case Action.VERIFY:
            return f"{decision.instance} ended and is not relaunched: the seal verifies it"
        case Action.LEAVE:
            return f"{decision.instance} is left alone"
        case Action.ALERT:
            return f"The DRI is asked about {decision.instance}; its job was not touched"
        case Action.NOTIFY:
            return f"The DRI is notified about {decision.instance}; its job was not touched"


def _ruled(why: Why, rule: str) -> Why:
    text = RULES.get(rule)
    if text is None:
        return replace(why, rule=rule)
    says = f"{text.when} {text.then}"
    return replace(why, rule=rule, title=text.title, rule_says=says, rule_source=text.source)


def _scene(slug: str, history: Sequence[Event], event: Event) -> tuple[int, Scene] | None:
    """Return the input of the rules; None if they did not judge a check."""
    cause = event.envelope.cause
    run: Run | Unreadable = Run(slug)
    for earlier in history[: event.version]:
        before, run = run, evolve(run, earlier)
        if isinstance(before, Unreadable) or isinstance(run, Unreadable):
            return None
        data = earlier.data
        if isinstance(data, CheckRecorded) and str(earlier.envelope.event_id) == cause:
            command = Command(now=earlier.envelope.occurred_at, actor=earlier.envelope.actor)
            return earlier.version, Scene(run, before.instances[-1], data, command)
    return None


def _sources(check: CheckRecorded) -> tuple[str, ...]:
    lines: list[str] = []
    for reading in check.readings:
        clock = f", newest {reading.clock:%Y-%m-%d %H:%M:%S %Z}" if reading.clock else ""
        fresh = reading.state is SourceState.FRESH
        why = "" if fresh else f": {one_line(reading.reason)}"
        lines.append(f"{reading.source} {reading.state.value}{clock}{why}")
    return tuple(lines)


def _cited_evidence(history: Sequence[Event], evidence: Sequence[str]) -> tuple[str, ...]:
    """Return the evidence lines; an event that a line cites by number is described after it."""
    lines: list[str] = []
    for line in evidence:
        found = _EVENT.search(line)
        if found is None or found.group(0) != line:
            lines.append(cut(one_line(line), _LINE_MAX))
        for number in found.groups() if found else ():
            if number is not None and 0 < int(number) <= len(history):
                cited = history[int(number) - 1]
                words = cut(one_line(summary(cited)), _LINE_MAX)
                lines.append(f"event {number}, {cited.at.astimezone(UTC):%H:%M:%S UTC}: {words}")
    return tuple(dict.fromkeys(lines))


def _grouped(
    changed: Sequence[Counterfactual], notifies: bool
) -> dict[str, tuple[str, ...]] | None:
    groups: dict[str, tuple[str, ...]] = {}
    for one in changed:
        decision = one.decision
        key = (
            "nobody would have been notified if"
            if notifies
            else "nothing would have been decided yet if"
        )
        if decision is not None:
            key = f"{_ANSWERED[decision.action]} ({decision.rule})"
        groups[key] = (*groups.get(key, ()), one.fact)
    return groups or None


def _recorded_after(history: Sequence[Event], event: Event, places: int) -> object:
    """Return the data recorded this many places after an event in its append, or None."""
    at = event.version - 1 + places
    if not 0 <= at < len(history) or history[at].envelope.cause != event.envelope.cause:
        return None
    return history[at].data


def question_by(history: Sequence[Event], event: Event) -> str:
    """Return the question that an event asks, recorded right after its decision.

    One append may concern several subjects. Each has its own question or no question.
    """
    asked = _recorded_after(history, event, 1)
    if isinstance(asked, DecisionMade) and answered_by(asked, event.data) is not None:
        asked = _recorded_after(history, event, 2)
    if not isinstance(asked, EscalationRaised):
        return ""
    return f"{asked.question} to {asked.to or 'the DRI'} since {event.at:%H:%M UTC}"


def _caused(why: Why, history: Sequence[Event], event: Event) -> Why:
    if why.rule or why.because or why.evidence:
        return why
    parent = next(
        (e for e in history if str(e.envelope.event_id) == (event.envelope.cause or "")), None
    )
    actor = event.envelope.actor
    if parent is None:
        return replace(why, because=f"{actor.principal} ({actor.kind}) did it; no rule decided it")
    words = cut(one_line(summary(parent)), _LINE_MAX)
    because = f"it followed from event {parent.version}: {words}"
    return replace(why, because=because)


def render_why(
    why: Why,
    zone: tzinfo = UTC,
    *,
    width: int = 110,
    rule: bool = False,
    steps: Sequence[str] = (),
    last_good: str = "",
) -> str:
    """Render an explanation for a person, without a final newline.

    Args:
        why: The explanation.
        zone: The zone of the shown times.
        width: Columns of the page.
        rule: Show the full text of the rule and its source.
        steps: The commands to run next, each with its purpose.
        last_good: The newest checkpoint before bad numbers; empty without bad numbers.
    """
    at = why.at.astimezone(zone).strftime("%Y-%m-%d %H:%M %Z")
    named = f"{why.rule} {why.title}, {RULES_PAGE}#{why.rule.lower()}" if why.title else why.rule
    from_ = f"from the {why.rule_source}" if why.rule_source else ""
    first: list[tuple[str, Sequence[str]]] = [
        ("because", (why.because,)),
        ("question", (why.question,)),
        ("last good", (last_good,)),
    ]
    details: list[tuple[str, Sequence[str]]] = [
        *((name, _claimed(claim)) for name, claim in (why.claims or {}).items()),
        ("evidence", () if why.claims else why.evidence),
        ("thoughts", why.thoughts),
        ("rule", (named, *((why.rule_says, from_) if rule else ()))),
        ("sources", (_folded(why.sources),)),
        ("otherwise", [_as_condition(*one) for one in (why.otherwise or {}).items()]),
        ("recorded", (f"event {why.event}{f', from check {why.check}' if why.check else ''}",)),
    ]
    lines = [*textwrap.wrap(f"{why.headline} ({at})", width), ""]
    for name, texts in first:
        lines += _block(name, [text for text in texts if text], width)
    # A command is never wrapped, because it is meant to be copied.
    lines += [f" {'next' if n == 0 else '':<10} {step}" for n, step in enumerate(steps)]
    for name, texts in details:
        lines += _block(name, [text for text in texts if text], width)
    return "\n".join(lines)


def _folded(sources: Sequence[str]) -> str:
    """Return the sources that had no fresh answer, and how many had one."""
    other = [cut(line, _SOURCE_MAX) for line in sources if " fresh" not in line.partition(",")[0]]
    fresh = f"{len(sources) - len(other)} of {len(sources)} fresh" if other else "all fresh"
    return "; ".join([fresh, *other]) if sources else ""


def _as_condition(words: str, facts: Sequence[str]) -> str:
    """Return a counterfactual, such as `would have been verified (R15) if: a step had come`."""
    condition = _CONDITION.sub(r" (\1) if", words)
    return f"{condition}: {', or '.join(facts)}"


def _claimed(claim: Claim) -> tuple[str, ...]:
    return (f"{claim.says} ({claim.status.value})", *claim.evidence)


def _block(name: str, texts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for text in texts:
        wrapped = textwrap.wrap(text, width - 12, break_long_words=False, break_on_hyphens=False)
        for place, part in enumerate(wrapped):
            head = name if not lines else ""
            lines.append(f" {head:<10} {'  ' if place else ''}{part}")
    return lines
