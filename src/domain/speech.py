"""How a text speaks: it asks, explains, warns, tells of a recovery, gives up.

The same message is a failure in a traceback, and none in a page that explains it or before a line
that says "reconnected". Signatures know messages; these know the manner around them. Each is a weak
sign that decides nothing: what it weighs for a class is learnt from labelled texts, as the weights
of words are (tools/train_text_model.py).
"""

import re
from dataclasses import dataclass

_TOKEN = re.compile(r"[a-z']+")


@dataclass(frozen=True, slots=True)
class Manner:
    """What a text may do, and what it then says, in small letters.

    Attributes:
        words: Any one of these words.
        phrase: Or a place where this pattern holds.
    """

    words: frozenset[str]
    phrase: re.Pattern[str]


def _manner(words: str, *phrases: str) -> Manner:
    # A pattern that holds nowhere where there is no phrase.
    return Manner(frozenset(words.split()), re.compile("|".join(phrases) or r"(?!)", re.MULTILINE))


MANNERS = {
    "asks": _manner(
        "",
        r"\?\s*$|^q:",
        r"\b(?:how (?:can|do|to|does|should)|what(?:'s| is| does| happens)|which|is it possible"
        r"|does (?:it|anyone)|can (?:i|we|you)|should (?:i|we)|could you)\b[^.\n]*\?",
    ),
    "wonders": _manner(
        "why anyone silently",
        r"any idea|what (?:could|might)|no idea|don'?t know|cannot explain|for no reason|no error",
        r"without (?:any )?(?:error|message|reason|warning)|nothing (?:in|else)",
    ),
    "wishes": _manner(
        "rfc nit lgtm pr",
        r"\[feature|feature request|would like to|it would be (?:nice|great)|\bproposal",
        r"\badd (?:a|an|the|support)|\bremove (?:the|a)\b|support for",
        r"\bshould (?:raise|warn|retry|print|be)",
    ),
    "explains": _manner(
        "means mean usually typically",
        r"^(?:docs?|runbook|note|usage|help|faq|tip|example|design|todo)\b[^\n]{0,20}[:\-]",
        r"\bif you (?:see|get|want|are|use)|\bwhen (?:an?|the|you|using)\b|\brefers? to\b",
        r"can be (?:caused|used|set)|\bis called\b|\bdefault[: ]|\bsee (?:also|https?|the)\b",
    ),
    "is code": _manner(
        "",
        r"^\s*(?:#|//|\*|def |if |raise |log\.|logger\.|assert |except |try:|return |import )",
        r"^\s*(?:from |[+-] )|;\s*$|\{\s*$",
    ),
    "is settings": _manner(
        "", r"--[a-z][a-z_-]+", r"^\s*[a-z_.]+\s*[:=]\s*(?:true|false|none|null|[0-9.e-]+)\s*$"
    ),
    "recovers": _manner(
        "recover recovered recovers recovering resumed resumes resuming reconnected reconnects"
        " succeed succeeded succeeds success successful successfully restored adopted continued"
        " continues continuing fixed passed cleared healthy finish finished finishes complete"
        " completed done",
        r"went (?:through|well)|\bgo(?:es|ing)? on\b|carr(?:y|ies) on|\bback (?:to|at|up|online)\b",
        r"works? (?:again|now)|\bup again\b",
    ),
    "calms": _manner(
        "harmless cosmetic benign ignore ignored ignorable normal normally expected intended"
        " nonfatal informational",
        r"\bsafe(?:ly)? to|as (?:usual|before|planned)|on purpose|known (?:issue|display|warning)",
        r"non-fatal|\bnot (?:an? )?(?:error|problem|issue|fatal|a bug)|isn'?t affected|by design",
        r"\bno (?:action|problem|effect|impact|issue|harm)|false (?:positive|alarm)|just a warning",
        r"does(?:n'?t| not) (?:affect|matter|interfere)",
    ),
    "planned": _manner(
        "planned upgrade rolling teardown smoke test tests testing drill",
        r"schedul(?:ed)? (?:maintenance|restart|downtime)|maintenance (?:window|is)|shutdown hook",
        r"drain(?:ed|ing)? for|scale-?down|dry[- ]run|\bsimulat",
    ),
    "tries again": _manner(
        "retry retrying retries retried backoff trying", r"\battempt \d|try again"
    ),
    "gives up": _manner(
        "exhausted",
        r"g(?:ave|iving|ive) up|max(?:imum)? retries|retries exceeded|no more retries",
        r"after \d+ (?:retries|attempts|tries)|failed (?:permanently|finally)|out of retries",
    ),
    "ends": _manner(
        "crash crashes crashed abort aborts aborted aborting terminated terminates exit exits"
        " exited end ends ended died dies killed stop stops stopped fail fails failed quit quits"
        " broke breaks"
    ),
    "stands still": _manner(
        "stuck hang hangs hanging hung forever",
        r"\bfreez|\bfroze|\bstall|no progress|never (?:ends|finish|return|start|come)|deadlock",
        r"does nothing|\b0 ?% (?:gpu|util)|not (?:moving|progress)",
    ),
    "raises": _manner(
        "fatal panic",
        r"traceback \(most|^\s*file \"[^\n]*line \d+|^[a-z_.]*(?:error|exception)\b[:(]|^e\d{4}",
    ),
    "warns": _manner(
        "warn warning userwarning futurewarning info debug notice", r"\bdeprecat"
    ),
    "counts none": _manner(
        "",
        r"\b(?:no|not|none|nobody|never|without|0|zero) (?:nan|inf|oom|errors?|fail|failed"
        r"|failures?|crash|kill|killed|missing|lagging|hang|warnings?|restarts?|preempt|timeouts?)\b",
        r"\{[^}\n]*\} 0\b",
        r"\b(?:errors?|fail(?:ed|ures?)|oom_?kill(?:ed)?|dead|missing|unexpected(?: keys)?"
        r"|restarts?|skipped|nan|timeouts?)\s*[:=]?\s*0\b",
    ),
    "trains": _manner(
        "",
        r"\b(?:step|iter(?:ation)?|epoch|it)\b\W{0,4}\d+[^\n]*\b(?:loss|lr|acc|time|tokens)",
        r"\d+%\||\bit/s|s/it",
    ),
    "speaks of itself": _manner("i we my our me"),
    "supposes": _manner(
        "if when whenever unless might may could would can", r"\bin case\b"
    ),
    "looks back": _manner("was were had got did"),
}  # fmt: skip
"""What a text may do; the names stand in the learnt weights."""


def manners_of(text: str) -> frozenset[str]:
    """Return what a text does, as the names that a model has weights for: `speech:asks`.

    Args:
        text: An excerpt, as people paste it.
    """
    small = text.lower()
    words = frozenset(_TOKEN.findall(small))
    return frozenset(
        f"speech:{name}"
        for name, manner in MANNERS.items()
        if not manner.words.isdisjoint(words) or manner.phrase.search(small)
    )
