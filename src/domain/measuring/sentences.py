"""Sentences in which a run itself says that its loss is no number.

They are read narrowly, since the finding alerts: what is conditional, denied, quoted, of an
evaluation, or got over by the loop itself, such as a step that is skipped, is none of them.
"""

import re

_NONE = (
    r"(?:nan|inf(?:inity)?|infinite|non-?finite|not finite|not a number)"
    r"(?: (?:or|and|/) (?:nan|inf(?:inity)?|infinite))?"
)
_BY_WHAT = r"(?:stop(?:ping|ped)|exit(?:ing|ed)|abort(?:ing|ed)|terminat(?:ing|ed)|quit(?:ting)?)"
_OF_TRAINING = r"(?:(?:train(?:ing)?|total|lm|batch|global|mean|current) )?"

_SAYS = re.compile(
    r"(?<![\w/.'\"`-])" + _OF_TRAINING + r"loss(?: returned in \W?training_step\W?)?"
    r" (?:is|became|has become|becomes|turned|went|has gone|diverged)(?: now| to| into)? " + _NONE +
    r"(?![\w'\"`/?-])(?!\s*[:=]\s*(?:false|no|none|0)\b)"
    r"(?! (?:checks?|checking|guards?|guarded|filter\w*|polic\w+|handl\w+|safe|free|mask\w*|count"
    r"|detection|detector|monitor\w*|protect\w*|toleran\w+)\b)"
    r"|(?<![\w/.'\"`-])" + _NONE + r" (?:value )?(?:for )?" + _OF_TRAINING + r"loss"
    r"(?:(?: value)? (?:detected|encountered|found|at (?:step|iter(?:ation)?|epoch))\b(?!\s*[:=])"
    r"|\s*(?:[,;:.!-]|--)+\s*(?:training )?" + _BY_WHAT + r"\b)"
    r"|\b(?:got|detected|encountered|found|hit) (?:an? )?" + _NONE + r" (?:in (?:the )?)?"
    + _OF_TRAINING + r"loss(?=\s*$|[.,;!)]| (?:at|in|on|after|for)\b)",
    re.IGNORECASE,
)  # fmt: skip
_AT_STEP = re.compile(r"\b(?:step|iter(?:ation)?)\W{1,2}(?P<step>\d{1,15})\b", re.IGNORECASE)

_LAST_WORD = re.compile(r"(?P<word>[a-z][\w'-]*) $", re.IGNORECASE)
_MAY_STAND_BEFORE = frozenset(
    {"the", "our", "info", "warning", "warn", "error", "critical", "fatal", "stopped", "train"}
)
"""Words right before such a sentence; another one may make another loss of it, or a condition."""

_NOT_NOW = re.compile(
    r"\b(?:if|when(?:ever)?|where|whether|unless|until|should|would|could|can|may|might|in case|no"
    r"|not|never|without|check\w*|assert\w*|raise|return|ensure\w*|verif\w+|stop_on|on_nan|assume"
    r"|previous\w*|earlier|formerly|fixe?[ds]|avoid\w*|prevent\w*|eval\w*|valid\w*|val|test(?:ing|s)?"
    r"|dev|predict\w*|best|min|sanity|0|zero)(?![\w.])",
    re.IGNORECASE,
)
"""What makes of the words behind it a condition, a denial, something past, or another loss."""

_GOT_OVER = re.compile(
    r"\bskip\w*|\bignor\w+|\bdiscard\w*|\bdropp\w+|\bscal(?:e|er|ing)\b|\boverflow\w*|\bretry\w*"
    r"|\bprevious (?:run|attempt)|\blast (?:run|attempt|time)|\bfor example\b",
    re.IGNORECASE,
)
"""What a loop says that goes on: the step does not count, or float16's loss scale is lowered."""


def says_no_number(text: str) -> tuple[bool, int | None]:
    """Say whether a line says in words that the loss of training is no number.

    Returns:
        With the step that the sentence itself names.

    >>> says_no_number("Loss is nan, stopping training"), says_no_number("loss is NaN at step 500")
    ((True, None), (True, 500))
    >>> says_no_number("skipping step, loss is inf, reducing loss scale")
    (False, None)
    """
    found = _SAYS.search(text)
    if found is None or _GOT_OVER.search(text):
        return False, None
    before = text[: found.start()]
    word = _LAST_WORD.search(before)
    if word is not None and word["word"].lower() not in _MAY_STAND_BEFORE:
        return False, None
    if _NOT_NOW.search(before):
        return False, None
    at = _AT_STEP.search(text)
    return True, int(at["step"]) if at is not None else None
