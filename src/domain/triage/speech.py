"""How a text speaks: it asks, explains, warns, tells of a recovery, gives up.

The same message is a failure in a traceback, and none in a page that explains it or before a line
that says "reconnected". Signatures know messages; these know the manner around them. Each is a weak
sign that decides nothing: what it weighs for a class is learnt from labelled texts, as the weights
of words are (tools/train_text_model.py).
"""

import re
from dataclasses import dataclass

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

_TOKEN = re.compile(r"[a-z']+")


@dataclass(frozen=True, slots=True)
class Manner:
    """What a text may do, and what it then says, in small letters.

    Attributes:
        words: Any one of these words.
        phrases: Or one of these anywhere.
        pattern: Or a place where this holds; the dearest to look for, so the last.
    """

    words: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None


def _manner(words: str = "", phrases: str = "", pattern: str = "") -> Manner:
    return Manner(
        frozenset(words.split()),
        tuple(phrase.strip() for phrase in phrases.split("|") if phrase.strip()),
        re.compile(pattern, re.MULTILINE) if pattern else None,
    )


MANNERS = {
    "asks": _manner(
        pattern=r"\?\s*$|^q:|(?:how (?:can|do|to|does|should)|what(?:'s| is| does| happens)"
        r"|which|is it possible|does (?:it|anyone)|can (?:i|we|you)|should (?:i|we)|could you)\b"
        r"[^.\n?]*\?"
    ),
    "wonders": _manner(
        "why anyone silently",
        "any idea|what could|what might|no idea|don't know|dont know|cannot explain|for no reason"
        "|no error|nothing in|nothing else|without error|without any error|without message"
        "|without any message|without reason|without any reason|without warning",
    ),
    "wishes": _manner(
        "rfc nit lgtm pr proposal",
        "[feature|feature request|would like to|it would be nice|it would be great|support for"
        "|add a |add an |add the |add support|remove the|remove a |should raise|should warn"
        "|should retry|should print|should be",
    ),
    "explains": _manner(
        "means mean usually typically",
        "if you see|if you get|if you want|if you are|if you use|when a |when an |when the"
        "|when you|when using|refers to|refer to|can be caused|can be used|can be set|is called"
        "|default:|default is|see also|see http|see the",
        r"^(?:docs?|runbook|note|usage|help|faq|tip|example|design|todo)\b[^\n]{0,20}[:\-]",
    ),
    "is code": _manner(
        pattern=r"^\s*(?:#|//|\*|def |if |raise |log\.|logger\.|assert |except |try:|return "
        r"|import |from |[+-] )|[;{]\s*$"
    ),
    "is settings": _manner(
        pattern=r"--[a-z][a-z_-]+|^\s*[a-z_.]+\s*[:=]\s*(?:true|false|none|null|[0-9.e-]+)\s*$"
    ),
    "recovers": _manner(
        "recover recovered recovers recovering recovery resumed resumes resuming reconnected"
        " reconnects succeed succeeded succeeds success successful successfully restored adopted"
        " continued continues continuing fixed passed cleared healthy finish finished finishes"
        " complete completed done",
        "went through|went well|goes on|go on|going on|carries on|carry on|back to|back at|back up"
        "|back online|works again|work again|works now|up again",
    ),
    "calms": _manner(
        "harmless cosmetic benign ignore ignored ignorable normal normally expected intended"
        " nonfatal informational",
        "safe to|safely|as usual|as before|as planned|on purpose|known issue|known display"
        "|known warning|non-fatal|not an error|not a problem|not an issue|not fatal|not a bug"
        "|isn't affected|by design|no action|no problem|no effect|no impact|no issue|no harm"
        "|false positive|false alarm|just a warning|not affect|not matter|n't affect|n't matter"
        "|n't interfere",
    ),
    "planned": _manner(
        "planned upgrade rolling teardown smoke test tests testing drill",
        "scheduled maintenance|scheduled restart|scheduled downtime|maintenance window"
        "|maintenance is|shutdown hook|drained for|draining for|scale-down|scaledown|dry-run"
        "|dry run|simulat",
    ),
    "tries again": _manner(
        "retry retrying retries retried backoff trying", "try again", r"\battempt \d"
    ),
    "gives up": _manner(
        "exhausted",
        "gave up|giving up|give up|max retries|maximum retries|retries exceeded|no more retries"
        "|out of retries|failed permanently|failed finally",
        r"after \d+ (?:retries|attempts|tries)",
    ),
    "ends": _manner(
        "crash crashes crashed abort aborts aborted aborting terminated terminates exit exits"
        " exited end ends ended died dies killed stop stops stopped fail fails failed quit quits"
        " broke breaks"
    ),
    "stands still": _manner(
        "stuck hang hangs hanging hung forever",
        "freez|froze|stall|deadlock|no progress|never end|never finish|never return|never start"
        "|never come|does nothing|not moving|not progress",
        r"\b0 ?% (?:gpu|util)",
    ),
    "raises": _manner(
        "fatal panic",
        "traceback (most",
        r"^\s*file \"[^\n]*line \d+|^[a-z_.]*(?:error|exception)\b[:(]|^e\d{4}",
    ),
    "warns": _manner("warn warning userwarning futurewarning info debug notice", "deprecat"),
    "counts none": _manner(
        pattern=r"\b(?:no|not|none|nobody|never|without|0|zero) (?:nan|inf|oom|errors?|fail|failed"
        r"|failures?|crash|kill|killed|missing|lagging|hang|warnings?|restarts?|preempt|timeouts?)\b"
        r"|\{[^}\n]*\} 0\b|(?:errors?|fail(?:ed|ures?)|oom_?kill(?:ed)?|dead|missing"
        r"|unexpected(?: keys)?|restarts?|skipped|nan|timeouts?)\s*[:=]?\s*0\b"
    ),
    "trains": _manner(
        phrases="it/s|s/it",
        pattern=r"(?:step|iter(?:ation)?|epoch|it)\b\W{0,4}\d+[^\n]*\b(?:loss|lr|acc|time|tokens)"
        r"|\d%\|",
    ),
    "speaks of itself": _manner("i we my our me"),
    "supposes": _manner("if when whenever unless might may could would can", "in case"),
    "looks back": _manner("was were had got did"),
}  # fmt: skip
"""What a text may do; the names stand in the learnt weights."""


_BY_WORD = {
    word: tuple(name for name, manner in MANNERS.items() if word in manner.words)
    for word in {word for manner in MANNERS.values() for word in manner.words}
}
_BY_PHRASE = [(name, phrase) for name, manner in MANNERS.items() for phrase in manner.phrases]
_PHRASES = BytesAhoCorasick(
    [phrase.encode() for _, phrase in _BY_PHRASE],
    matchkind=MatchKind.Standard,
    implementation=Implementation.DFA,
)


def manners_of(text: str) -> frozenset[str]:
    """Return what a text does, as the names that a model has weights for: `speech:asks`.

    Args:
        text: An excerpt, as people paste it.
    """
    small = text.lower()
    words = _BY_WORD.keys() & set(_TOKEN.findall(small))
    heard = {name for word in words for name in _BY_WORD[word]}
    phrases = _PHRASES.find_matches_as_indexes(small.encode("utf-8", "replace"), overlapping=True)
    heard.update(_BY_PHRASE[at][0] for at, _, _ in phrases)
    for name, manner in MANNERS.items():
        if name not in heard and manner.pattern is not None and manner.pattern.search(small):
            heard.add(name)
    return frozenset(f"speech:{name}" for name in heard)
